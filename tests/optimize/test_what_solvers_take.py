"""Each row of the table of docs/solvers.md: SciPy's solvers take what it says, as it is."""

import numpy as np
import pytest
from scipy import integrate, optimize

import fdiff

START = np.full(6, 0.5)


def chain(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def residuals(x):
    return np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])


def equations(x):
    return np.concatenate([x[:1] - 1.0, 10.0 * (x[1:] - x[:-1] ** 2)])


def rod(t, y):
    inner = np.concatenate([np.zeros(1), y, np.zeros(1)])
    return 20.0 * np.diff(inner, 2) - y**3


VALUE = {"fun": fdiff.value_and_grad(chain), "jac": True}
SPARSE = {"fun": chain, "jac": fdiff.grad(chain), "hess": fdiff.hessian(chain, sparse=True)}
PRODUCTS = {"fun": chain, "jac": fdiff.grad(chain), "hessp": fdiff.hvp(chain)}
DENSE = {"fun": chain, "jac": fdiff.grad(chain), "hess": fdiff.hessian(chain)}
MINIMISERS = {
    **dict.fromkeys(["BFGS", "L-BFGS-B", "CG", "TNC", "SLSQP"], VALUE),
    **dict.fromkeys(["trust-constr", "Newton-CG"], SPARSE),
    **dict.fromkeys(["trust-ncg", "trust-krylov"], PRODUCTS),
    **dict.fromkeys(["trust-exact", "dogleg"], DENSE),
}


@pytest.mark.parametrize("method", list(MINIMISERS))
def test_minimisers(method):
    start = np.full(6, 1.05)  # where the Hessian is positive, as dogleg needs it
    found = optimize.minimize(x0=start, method=method, **MINIMISERS[method], tol=1e-7)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-3)


@pytest.mark.parametrize(
    ("method", "jacobian"),
    [
        ("BDF", fdiff.jacobian(rod, argnums=1, sparse="csc")),
        ("Radau", fdiff.jacobian(rod, argnums=1, sparse="csc")),
        ("LSODA", fdiff.jacobian(rod, argnums=1)),
    ],
)
def test_integrators(method, jacobian):
    start, times = np.sin(np.arange(1.0, 7.0)), np.array([0.0, 1.0])
    exact = {"rtol": 1e-9, "atol": 1e-11}
    found = integrate.solve_ivp(rod, (0.0, 1.0), start, method=method, jac=jacobian, **exact)
    turned = lambda y, t: rod(t, y)
    reference = integrate.odeint(turned, start, times, Dfun=fdiff.jacobian(turned), **exact)
    np.testing.assert_allclose(found.y[:, -1], reference[-1], atol=1e-7)


def test_least_squares_and_roots():
    sparse, dense = fdiff.jacobian(residuals, sparse=True), fdiff.jacobian(residuals)
    for found in (
        optimize.least_squares(residuals, START, jac=sparse, xtol=1e-12),
        optimize.least_squares(residuals, START, jac=dense, method="lm", xtol=1e-12),
        optimize.root(equations, START, jac=fdiff.jacobian(equations)),
    ):
        np.testing.assert_allclose(found.x, 1.0, atol=1e-6)
    root = optimize.fsolve(equations, START, fprime=fdiff.jacobian(equations))
    np.testing.assert_allclose(root, 1.0, atol=1e-6)


def test_nonlinear_constraints():
    curve = lambda x: x[1:] ** 2 + x[:-1]
    second = fdiff.hessian(lambda x, v: v @ curve(x), sparse=True)
    slopes = fdiff.jacobian(curve, sparse=True)
    limit = optimize.NonlinearConstraint(curve, -np.inf, 1.5, jac=slopes, hess=second)
    found = optimize.minimize(x0=START, method="trust-constr", constraints=limit, **SPARSE)
    reference = optimize.minimize(
        chain, START, method="SLSQP", tol=1e-12,
        constraints={"type": "ineq", "fun": lambda x: 1.5 - curve(x)},
    )  # fmt: skip
    np.testing.assert_allclose(found.x, reference.x, atol=1e-3)


def test_structural_entries_are_as_the_page_says():
    x, y = np.array([1.0, -2.0, 3.0]), np.ones(3)

    def entries(f):
        return fdiff.jacobian(f, argnums=(0, 1), sparse=True)(x, y)

    first, second = entries(lambda x, y: np.where(x > 0, x, y))
    assert (first.nnz, second.nnz) == (3, 3)
    first, second = entries(lambda x, y: np.array([np.max(x), np.min(y)]))
    assert (first.nnz, second.nnz) == (3, 3)
    assert entries(lambda x, y: np.sort(x) + y)[0].nnz == 9
    assert entries(lambda x, y: 0.0 * x + y)[0].nnz == 3
    assert entries(lambda x, y: np.floor(x) + (x > 0) + y)[0].nnz == 0
    assert entries(lambda x, y: x[:1] * y[:1] if x[0] > 0 else x)[0].nnz == 1

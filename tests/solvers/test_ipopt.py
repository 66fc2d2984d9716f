"""IPOPT with sparse derivatives: through ipyopt, and through cyipopt where that is built."""

from importlib.util import find_spec

import ipyopt
import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint, minimize

import fdiff

START = np.full(30, 0.2)
UPPER = 1.5


def objective(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def limited(x):
    return x[1:] ** 2 + x[:-1]


def lagrangian(x, multipliers, weight):
    return weight * objective(x) + multipliers @ limited(x)


@pytest.fixture(scope="module")
def reference():
    curve = NonlinearConstraint(limited, -np.inf, UPPER, jac=fdiff.jacobian(limited, sparse=True))
    found = minimize(objective, START, jac=fdiff.grad(objective), constraints=curve, method="SLSQP",
                     options={"ftol": 1e-13, "maxiter": 1000})  # fmt: skip
    assert found.success
    return found


def test_ipyopt_takes_coordinates_and_fills_of_data(reference):
    gradient = fdiff.grad(objective)
    jacobian = fdiff.jacobian(limited, sparse="coo")
    hessian = fdiff.hessian(lagrangian, sparse="coo", lower=True)
    m, n = len(START) - 1, len(START)

    def fill_gradient(x, out):
        out[:] = gradient(x)

    def fill_limited(x, out):
        out[:] = limited(x)

    def fill_jacobian(x, out):
        jacobian.data(x, out=out)

    def fill_hessian(x, multipliers, weight, out):
        hessian.data(x, multipliers, weight, out=out)

    problem = ipyopt.Problem(
        n, np.full(n, -5.0), np.full(n, 5.0), m, np.full(m, -1e20), np.full(m, UPPER),
        jacobian.coordinates(START), hessian.coordinates(START, np.ones(m), 1.0),
        objective, fill_gradient, fill_limited, fill_jacobian, fill_hessian,
        ipopt_options={"print_level": 0, "sb": "yes", "tol": 1e-10},
    )  # fmt: skip
    x, value, status = problem.solve(START.copy())
    assert status == 0
    np.testing.assert_allclose(x, reference.x, atol=1e-5)
    assert abs(value - reference.fun) < 1e-6


@pytest.mark.skipif(not find_spec("cyipopt"), reason="cyipopt has no wheels: IPOPT must be there")
def test_minimize_ipopt_takes_prepared_functions(reference):
    import cyipopt

    constraint = {
        "type": "ineq",
        "fun": lambda x: UPPER - limited(x),
        "jac": fdiff.jacobian(lambda x: UPPER - limited(x), sparse="coo"),
        "hess": fdiff.hessian(lambda x, v: v @ (UPPER - limited(x))),
    }
    found = cyipopt.minimize_ipopt(
        objective, START, jac=fdiff.grad(objective), hess=fdiff.hessian(objective),
        constraints=[constraint], options={"print_level": 0, "sb": "yes"}, tol=1e-10,
    )  # fmt: skip
    assert found.success
    np.testing.assert_allclose(found.x, reference.x, atol=1e-5)


@pytest.mark.skipif(not find_spec("cyipopt"), reason="cyipopt has no wheels: IPOPT must be there")
def test_minimize_ipopt_starts_at_integers_without_a_word():
    import cyipopt

    found = cyipopt.minimize_ipopt(
        objective, [0] * 5, jac=fdiff.grad(objective), hess=fdiff.hessian(objective),
        options={"print_level": 0, "sb": "yes"},
    )  # fmt: skip
    np.testing.assert_allclose(found.x, 1.0, atol=1e-6)

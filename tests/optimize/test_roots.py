"""`fdiff.optimize.root`, and SciPy's solvers with sparse systems: values and derivatives."""

import numpy as np
import pytest
import scipy.optimize

import fdiff
from fdiff.errors import ConvergenceError, FdiffError, InputError
from fdiff.ops.scipy_ops.sparse import sparse_solves
from fdiff.ops.solvers import implicit_systems
from fdiff.optimize import root

RNG = np.random.default_rng(5)
SIZE = 240


def chain(u, p):
    """Reaction and diffusion on a line."""
    inner = np.concatenate([np.zeros(1), u, np.zeros(1)])
    return 2.5 * u - inner[2:] - inner[:-2] + p[0] * u**3 - p[1] * np.exp(-0.1 * u)


PARAMETERS = np.array([0.3, 1.2])
ENDS = np.repeat(np.arange(SIZE - 1), 2).reshape(-1, 2) + np.array([0, 1])


def mesh(u, p):
    """The same by a mesh of index arrays."""
    flow = u[ENDS[:, 0]] - u[ENDS[:, 1]]
    out = 0.5 * u + p[0] * u**3 - p[1] * np.exp(-0.1 * u)
    np.add.at(out, ENDS[:, 0], flow)
    np.subtract.at(out, ENDS[:, 1], flow)
    return out


def dense(monkeypatch):
    monkeypatch.setattr(implicit_systems, "LARGE", 10**9)


def differences(f, p, step=1e-4):
    """Central differences of fourth order."""
    columns = []
    for unit in np.eye(len(p)):
        at = [f(p + k * step * unit) for k in (-2, -1, 1, 2)]
        columns.append((at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("equations", [chain, mesh])
def test_the_root_is_that_of_scipy(equations):
    result = root(equations, np.zeros(SIZE), PARAMETERS)
    reference = scipy.optimize.root(equations, np.zeros(SIZE), PARAMETERS, tol=1e-13)
    np.testing.assert_allclose(result, reference.x, atol=1e-10)
    np.testing.assert_allclose(equations(result, PARAMETERS), 0.0, atol=1e-12)


@pytest.mark.parametrize("equations", [chain, mesh])
def test_derivatives_of_both_modes_and_orders(equations, monkeypatch):
    def solved(p):
        return root(equations, np.zeros(SIZE), p)

    def energy(p):
        return np.sum(solved(p) ** 2) * p[1]

    expected = differences(solved, PARAMETERS)
    np.testing.assert_allclose(fdiff.jacfwd(solved)(PARAMETERS), expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(
        fdiff.jvp(solved, PARAMETERS, np.array([1.0, 0.0]))[1], expected[:, 0], rtol=1e-8, atol=1e-9
    )
    gradient = fdiff.grad(energy)(PARAMETERS)
    np.testing.assert_allclose(gradient, differences(energy, PARAMETERS), rtol=1e-9)
    curvature = fdiff.hessian(energy)(PARAMETERS)
    np.testing.assert_allclose(curvature, differences(fdiff.grad(energy), PARAMETERS), rtol=1e-8)
    third = fdiff.jacfwd(fdiff.hessian(energy))(PARAMETERS)
    np.testing.assert_allclose(third, differences(fdiff.hessian(energy), PARAMETERS), rtol=1e-6)
    dense(monkeypatch)
    fdiff.cache_clear()
    np.testing.assert_allclose(fdiff.grad(energy)(PARAMETERS), gradient, rtol=1e-12)
    np.testing.assert_allclose(fdiff.hessian(energy)(PARAMETERS), curvature, rtol=1e-10)


START = np.full(SIZE, 0.5)
SOLVERS = {
    "root": lambda p: scipy.optimize.root(chain, np.zeros(SIZE), (p,), tol=1e-10).x,
    "fsolve": lambda p: scipy.optimize.fsolve(chain, np.zeros(SIZE), (p,), xtol=1e-12),
    "minimize": lambda p: (
        scipy.optimize.minimize(
            lambda u: np.sum(chain(u, p) ** 2 + 0.1 * u**2), START, method="L-BFGS-B", tol=1e-14
        ).x
    ),
}


@pytest.mark.parametrize("name", list(SOLVERS))
def test_solvers_of_scipy_use_the_sparse_system(name, monkeypatch):
    counts = []
    built = sparse_solves.factorised

    def counted(*args):
        counts.append(args)
        return built(*args)

    monkeypatch.setattr(sparse_solves, "factorised", counted)

    def energy(p):
        return np.sum(SOLVERS[name](p) ** 2)

    result = fdiff.grad(energy)(PARAMETERS)
    assert counts
    dense(monkeypatch)
    fdiff.cache_clear()
    np.testing.assert_allclose(result, fdiff.grad(energy)(PARAMETERS), rtol=1e-9)


def test_value_and_derivative_share_one_factorisation(monkeypatch):
    counts = []
    result = sparse_solves.factorised

    def counted(*args):
        counts.append(args)
        return result(*args)

    monkeypatch.setattr(sparse_solves, "factorised", counted)

    def solved(p):
        return np.sum(root(chain, np.zeros(SIZE), p))

    fdiff.jit(solved)(PARAMETERS)
    alone = len(counts)
    counts.clear()
    fdiff.value_and_grad(solved)(PARAMETERS + 1e-3)
    assert len(counts) <= 2 * alone + 1  # tracing solves once to see which branches are taken
    again = fdiff.value_and_grad(solved)
    counts.clear()
    again(PARAMETERS + 2e-3)
    assert len(counts) <= alone + 1


def test_what_the_residual_reads_moves_too_and_vmap_solves_each():
    def solved(p):
        return root(lambda u: chain(u, p), np.zeros(SIZE))

    rows = np.stack([PARAMETERS, PARAMETERS + 0.1])
    result = fdiff.vmap(solved)(rows)
    np.testing.assert_allclose(result[1], solved(rows[1]), atol=1e-12)
    slopes = fdiff.vmap(fdiff.jacfwd(solved))(rows)
    np.testing.assert_allclose(slopes[1], fdiff.jacfwd(solved)(rows[1]), rtol=1e-10)
    weights = RNG.normal(size=SIZE)
    scaled = fdiff.grad(
        lambda w: np.sum(root(lambda u: chain(u, PARAMETERS) - w, np.zeros(SIZE)) ** 2)
    )
    step = 1e-5 * RNG.normal(size=SIZE)
    at = lambda w: np.sum(root(lambda u: chain(u, PARAMETERS) - w, np.zeros(SIZE)) ** 2)
    np.testing.assert_allclose(
        scaled(weights) @ step, (at(weights + step) - at(weights - step)) / 2, rtol=1e-6
    )


def test_another_mesh_is_another_structure():
    def solved(p, ends):
        def equations(u):
            flow = u[ends[:, 0]] - u[ends[:, 1]]
            out = 0.5 * u - p
            np.add.at(out, ends[:, 0], flow)
            np.subtract.at(out, ends[:, 1], flow)
            return out

        return np.sum(root(equations, np.zeros(SIZE)) ** 2)

    slope, p = fdiff.grad(solved), RNG.normal(size=SIZE)
    for ends in (ENDS, (ENDS * 7 + 3) % SIZE, ENDS):
        result, step = slope(p, ends), 1e-4 * RNG.normal(size=SIZE)
        expected = (solved(p + step, ends) - solved(p - step, ends)) / 2
        np.testing.assert_allclose(result @ step, expected, rtol=1e-6)


WITHOUT = [
    (lambda x: np.exp(x), [1.0], ConvergenceError, "after 50 steps"),
    (lambda x: x * 0.0 + 1.0, [1.0], ConvergenceError, "singular after 0 steps"),
    (lambda x: np.log(x), [-1.0], ConvergenceError, "not finite at the start"),
    (lambda x: x[:1], [1.0, 2.0], InputError, "2 unknowns, and the equations have shape"),
]  # fmt: skip


@pytest.mark.parametrize(("equations", "start", "kind", "words"), WITHOUT)
def test_without_a_root_the_error_says_why(equations, start, kind, words):
    with np.errstate(all="ignore"), pytest.raises(kind, match=words):
        root(equations, start)
    with np.errstate(all="ignore"), pytest.raises(FdiffError):
        fdiff.grad(lambda p: np.sum(root(lambda x: equations(x) * p, np.array(start))))(1.0)


def test_steps_are_limited_and_the_line_search_helps():
    np.testing.assert_allclose(
        root(np.arctan, [3.0]), 0.0, atol=1e-12
    )  # whole steps diverge from 1.4 on
    with pytest.raises(ConvergenceError, match=r"after 2 steps\.\n    test_roots\.py:"):
        root(lambda x: x**3 - 2.0, [100], max_steps=2)
    np.testing.assert_allclose(root(lambda x: (x - 1.0) ** 3, [2.0], tol=1e-7), 1.0, atol=1e-5)


def test_integers_start_as_floats():
    assert root(lambda x: x**2 - 4.0, [1]).dtype == np.float64

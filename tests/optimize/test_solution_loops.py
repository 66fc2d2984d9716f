"""`fdiff.optimize.newton` and `fixed_point`: loops on the tape, with implicit derivatives."""

import subprocess
import sys

import mpmath
import numpy as np
import pytest

import fdiff
from fdiff.errors import ConvergenceError, FdiffError, InputError, TraceError
from fdiff.optimize import fixed_point, newton, root

P = np.array([3.0, 1.0])
OPERATORS = {
    "forward": fdiff.jacfwd,
    "reverse": fdiff.jacrev,
    "second": lambda f: fdiff.hessian(lambda p: np.sum(f(p) ** 2)),
    "third": lambda f: fdiff.jacfwd(fdiff.hessian(lambda p: np.sum(np.sin(f(p))))),
}


@pytest.fixture(params=["interpret", "compile"])
def tier(request, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", request.param)


def anomaly(e, m):
    """Kepler's equation."""
    return newton(lambda x: x - e * np.sin(x) - m, m)


def exact_anomaly(e, m):
    return mpmath.findroot(lambda x: x - e * mpmath.sin(x) - m, m)


def angle(e, m):
    """The same, as a fixed point."""
    return fixed_point(lambda x, m: m + e * np.sin(x), 0.3, m)


def system(p, solver=newton):
    def equations(x, q):
        return [x[0] + x[1] ** 2 - p[0], x[0] * x[1] - q * p[1]]

    return solver(equations, [1.5, 0.5], np.cos(p[0] - 3.0))


def contraction(p):
    matrix = np.array([[0.3, -0.2], [0.1, 0.25]])
    return fixed_point(lambda x: np.tanh(matrix @ x + p), np.zeros(2))


def by_root(p):
    matrix = np.array([[0.3, -0.2], [0.1, 0.25]])
    return root(lambda x: x - np.tanh(matrix @ x + p), np.zeros(2))


@pytest.mark.parametrize("f", [anomaly, angle])
def test_numbers_beside_exact_ones(f, tier):
    with mpmath.workdps(40):
        wanted = [mpmath.diff(lambda e: exact_anomaly(e, mpmath.mpf(1)), 0.3, k) for k in range(4)]
        mixed = mpmath.diff(exact_anomaly, (0.3, 1.0), (1, 1))
    found = [f, fdiff.grad(f), fdiff.jacfwd(fdiff.grad(f)), fdiff.grad(fdiff.hessian(f))]
    values = [g(0.3, 1.0) for g in found]
    np.testing.assert_allclose(values, [float(x) for x in wanted], rtol=1e-11)
    cross = fdiff.hessian(f, argnums=(0, 1))(0.3, 1.0)
    np.testing.assert_allclose([cross[0][1], cross[1][0]], float(mixed), rtol=1e-11)
    assert type(fdiff.value_and_grad(f)(0.3, 1.0)[0]) is np.float64


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(
    ("f", "reference"), [(system, lambda p: system(p, root)), (contraction, by_root)]
)
def test_systems_beside_the_root_finder(f, reference, name, tier):
    operator = OPERATORS[name]
    np.testing.assert_allclose(f(P), reference(P), rtol=1e-11)
    np.testing.assert_allclose(operator(f)(P), operator(reference)(P), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("f", [system, contraction])
def test_batches_of_batches(f, tier):
    points = P + 0.1 * np.random.default_rng(0).normal(size=(3, 2, 2))
    for operator in (fdiff.jacrev, fdiff.jacfwd, OPERATORS["second"]):
        whole = fdiff.vmap(fdiff.vmap(operator(f)))(points)
        single = operator(f)
        rows = np.array([[single(p) for p in row] for row in points])
        np.testing.assert_allclose(whole, rows, rtol=1e-12, atol=1e-13)


def test_parameters_that_a_batch_shares(tier):
    scales, p = np.array([0.9, 1.0, 1.1]), P

    def over(solver):
        one = lambda s, p: solver(lambda x: x**3 + s * x - p, p[::-1]) @ p
        return lambda p: np.sum(fdiff.vmap(one, in_axes=(0, None))(scales, p) ** 2)

    def each(p):
        parts = [root(lambda x, s=s: x**3 + s * x - p, P[::-1]) @ p for s in scales]
        return sum(part**2 for part in parts)

    for operator in (fdiff.grad, fdiff.hessian, fdiff.jacfwd):
        np.testing.assert_allclose(operator(over(newton))(p), operator(each)(p), rtol=1e-10)
    elements = fdiff.vmap(fdiff.grad(anomaly), in_axes=(0, None))(np.linspace(0.1, 0.9, 5), 1.0)
    single = [fdiff.grad(anomaly)(e, 1.0) for e in np.linspace(0.1, 0.9, 5)]
    np.testing.assert_allclose(elements, single, rtol=1e-13)


def test_one_kernel_runs_the_loop():
    text = fdiff.source(fdiff.value_and_grad(anomaly), 0.3, 1.0)
    assert "while" in text
    nodes = [n.primitive.name for n in fdiff.make_tape(fdiff.vmap(system), np.ones((9, 2))).nodes]
    assert nodes.count("while_loop") == nodes.count("implicit_solution") == 1


@pytest.mark.parametrize("solver", [newton, fixed_point])
@pytest.mark.parametrize("traced", [False, True])
def test_what_does_not_end_is_an_error(solver, traced, tier):
    growing = {newton: lambda x, p: x * x + p, fixed_point: lambda x, p: 2.0 * x + p}[solver]
    f = lambda p: solver(growing, 0.7, p, max_steps=20)
    call = fdiff.value_and_grad(f) if traced else f
    with pytest.raises(ConvergenceError):
        call(1.0)
    nan = lambda p: solver(lambda x: x + np.log(p), 1.0)
    with pytest.raises(ConvergenceError), np.errstate(all="ignore"):
        (fdiff.value_and_grad(nan) if traced else nan)(-1.0)


def branching(x, p):
    return x - p if x > 0 else x - 2.0 * p


BAD = {
    "branches": (lambda p: newton(branching, 1.0, p), TraceError, "branches"),
    "equations": (lambda p: newton(lambda x: x[:1] - p, [1.0, 2.0]), FdiffError, "shape"),
    "matrix": (lambda p: newton(lambda x: x - p, np.ones((2, 2))), TraceError, "has shape .2, 2."),
    "complex": (lambda p: newton(lambda x: x - p, 1.0 + 1.0j), TraceError, "dtype complex128"),
    "empty": (lambda p: fixed_point(lambda x: x * p, []), TraceError, "has shape .0,."),
    "steps": (lambda p: newton(lambda x: x - p, 1.0, max_steps=0), InputError, "max_steps"),
    "function": (lambda p: fixed_point(3.0, p), InputError, "expects a function"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    f, kind, words = BAD[name]
    with pytest.raises(kind, match=words):
        fdiff.grad(f)(1.0)


def test_bad_input_outside():
    with pytest.raises(InputError, match=r"x has shape \(2,\), and f returned an array of shape"):
        newton(lambda x: x[:1], [1.0, 2.0])
    with pytest.raises(InputError, match=r"f returned an array of shape \(\) and dtype complex128"):
        newton(lambda x: x + 1.0j, 1.0)
    with pytest.raises(InputError, match="x0 must be a number or a vector"):
        fixed_point(lambda x: x, np.ones((2, 2)))
    for start in ([], 1.0 + 1.0j, "one", None):
        with pytest.raises(InputError, match="x0 must be a number or a vector of real numbers"):
            newton(lambda x: x, start)
    with pytest.raises(InputError, match="Pass real numbers: for complex unknowns, pass their"):
        newton(lambda x: x, 1.0j)
    with pytest.raises(InputError, match=r"Pass x0\.ravel\(\)"):
        newton(lambda x: x, np.ones((2, 2)))
    for tol in ("a", -1.0, np.nan, None, True):
        with pytest.raises(InputError, match=r"newton\(.*\): tol must be a number from 0 on, not"):
            newton(lambda x: x * x - 2.0, 1.0, tol=tol)
    with pytest.raises(ConvergenceError, match=r"fixed_point\(.*\): there is no solution"):
        fixed_point(lambda x: 2.0 * x + 1.0, 1.0, max_steps=9)
    tensor = fdiff.autograd.tensor([2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):  # and no gradient that is lost
        newton(lambda x, p: x * x - p, [1.0], tensor)
    with pytest.raises(np.linalg.LinAlgError):
        newton(lambda x: np.array([x[0] + x[1], x[0] + x[1]]), [1.0, 2.0])


@pytest.mark.filterwarnings("error")
def test_a_slope_of_zero_is_no_warning_of_ours():
    with pytest.raises(ConvergenceError, match="there is no solution after max_steps=5 steps"):
        newton(lambda x: x * x + 1.0, 1.0, max_steps=5)


def test_steps_that_do_not_end_in_a_trace_name_the_way_out():
    f = lambda a: newton(lambda x: x * x + a, 1.0, max_steps=5)
    with pytest.raises(ConvergenceError, match="`max_steps` of newton and fixed_point"):
        fdiff.grad(f)(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["newton", "loop_unknowns", "root_finder_signatures"])
def test_modules_are_imported_in_any_order(module):
    code = f"import fdiff, fdiff.ops.solvers.{module}"
    subprocess.run([sys.executable, "-c", code], check=True)

"""Functions and objects of SciPy on recorded arrays: the derivatives of `fdiff.grad`, or an error.

They are bound here, before any recorded array is made, as users bind them.
"""

import inspect
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from scipy import integrate, interpolate, linalg, ndimage, optimize, sparse, special, stats
from scipy.integrate import dblquad, odeint, quad, solve_ivp
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq, fsolve, minimize, minimize_scalar, newton, root, root_scalar
from scipy.signal import windows
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

import fdiff
from fdiff import autograd
from fdiff.autograd import forward_ad, no_grad, tensor
from fdiff.errors import InputError, UnsupportedError


def leaf(x):
    return tensor(np.array(x, float), requires_grad=True)


def gradient(f, x):
    """The gradient of a function of one recorded array, which runs as it is."""
    x = leaf(x)
    f(x).backward()
    return x.grad.numpy()


# --- functions that are given to solvers ----------------------------------------------------------

A0 = np.array([2.0, 0.7])


class Model:
    """A function that finds its parameters in an attribute, and counts."""

    def __init__(self, a):
        self.a, self.calls = a, 0

    def residual(self, z):
        self.calls += 1
        return z**3 - self.a[0]

    __call__ = residual


def decay(t, y, a):
    return np.array([-a[0] * y[0], a[0] * y[0] - a[1] * y[1]])


def through_a_function(a):
    scaled = [a * 2, {"k": a[1]}]

    def inner(t):
        return np.exp(-t * scaled[0][0]) * scaled[1]["k"]

    return quad(inner, 0, 1)[0]


# By name: a function of `a` that hands functions to a solver, which find `a` in several ways.
SOLVERS = {
    "closure": lambda a: np.sum(a**2) + brentq(lambda z: z**3 - a[0], 0, 3),
    "args": lambda a: brentq(lambda z, k: z**3 - k, 0, 3, args=(a[0],)),
    "method": lambda a: brentq(Model(a).residual, 0, 3),
    "callable object": lambda a: brentq(Model(a), 0, 3),
    "default": lambda a: brentq(lambda z, k=a: z**3 - k[0], 0, 3),
    "containers": through_a_function,
    "constant": lambda a: quad(lambda t: a[0], 0, a[1])[0],
    "newton": lambda a: newton(lambda z: z**3 - a[0], 1.0),
    "newton with slopes": lambda a: newton(lambda z: z**3 - a[0], 1.0, fprime=lambda z: 3 * z**2),
    "root_scalar": lambda a: root_scalar(lambda z: z**3 - a[0], bracket=[0, 3]).root * a[1],
    "fsolve": lambda a: fsolve(lambda z: [z[0] ** 3 - a[0], z[1] - a[1] * z[0]], [1.0, 1.0]).sum(),
    "root": lambda a: root(
        lambda z: [z[0] ** 3 - a[0], z[1] - a[1]], [1.0, 1.0], tol=1e-12
    ).x.prod(),
    "limits": lambda a: quad(lambda t: np.exp(-a[1] * t), a[1], a[0])[0],
    "dblquad": lambda a: dblquad(lambda y, x: a[0] * x * y, 0, a[1], 0, 1)[0],
    "nested": lambda a: quad(lambda t: brentq(lambda z: z**3 - a[0] * t, 0, 3), 0.1, a[1])[0],
    "solve_ivp": lambda a: solve_ivp(lambda t, y: decay(t, y, a), (0, 1), [1.0, 0.0]).y[1, -1],
    "solve_ivp of args": lambda a: solve_ivp(
        decay, (0, 1), [1.0, a[0]], args=(a,), t_eval=[0.5, 1]
    ).y.sum(),
    "implicit": lambda a: solve_ivp(lambda t, y: -a[0] * y, (0, 1), a, method="BDF", rtol=1e-8).y[
        0, -1
    ],
    "odeint": lambda a: odeint(lambda y, t: -a[0] * y, a[1], [0.0, 1.0])[-1, 0],
    "minimize": lambda a: minimize(
        lambda z: np.sum((z - a) ** 2) + z[0] * z[1] / 9, np.zeros(2), tol=1e-9
    ).x.sum(),
    "minimize_scalar": lambda a: minimize_scalar(lambda z: np.cosh(z - a[0]) + a[1] * z / 9).x,
}


@pytest.mark.parametrize("name", SOLVERS)
def test_functions_given_to_solvers_are_differentiated(name):
    f = SOLVERS[name]
    # Implicit methods solve variational equations, to SciPy's own tolerance (docs/solvers.md).
    near = {"rtol": 1e-5, "atol": 1e-5} if name == "implicit" else {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(gradient(f, A0), fdiff.grad(f)(A0), **near)
    v, x = np.array([0.3, -1.2]), leaf(A0)
    (first,) = autograd.grad(f(x), x, create_graph=True)
    if first.requires_grad:
        (second,) = autograd.grad(first, x, v, allow_unused=True)
        expected = fdiff.hvp(f, A0, v)[1]
        np.testing.assert_allclose(
            second.numpy(), expected, rtol=100 * near["rtol"], atol=max(near["atol"], 1e-9)
        )
    with forward_ad.dual_level():
        pushed = forward_ad.unpack_dual(f(forward_ad.make_dual(tensor(A0), v))).tangent
    np.testing.assert_allclose(pushed.numpy(), fdiff.grad(f)(A0) @ v, **near)


def test_the_derivative_of_a_root_is_in_the_sum():
    # By hand: d/da of a**2 is 4, of the third root 1 / (3 a**(2/3)).
    found = gradient(SOLVERS["closure"], np.array([2.0, 1.0]))
    np.testing.assert_allclose(found, [4.0 + 2.0 ** (-2 / 3) / 3.0, 2.0])


GLOBAL = tensor(2.0, requires_grad=True)


def test_a_global_is_found_and_training_descends():
    def loss():
        return (newton(lambda z: z**3 - GLOBAL, 1.0) - 1.5) ** 2

    before = loss().item()
    for _ in range(3):
        GLOBAL.grad = None
        loss().backward()
        with no_grad():
            GLOBAL.data -= 2.0 * GLOBAL.grad.numpy()
    assert loss().item() < 0.5 * before


def test_gradcheck_of_solvers_and_splines():
    assert fdiff.gradcheck(lambda a: brentq(lambda z: z**3 - a, 0, 3, xtol=1e-14), (leaf(2.0),))
    assert fdiff.gradgradcheck(lambda a: logsumexp(a) ** 2, (leaf([2.0, 1.0]),))
    y = leaf([0.0, 1.0, 4.0, 8.0])
    assert fdiff.gradcheck(lambda y: CubicSpline(np.arange(4.0), y)(1.3), (y,))


def test_solvers_that_meet_no_recorded_array_run_as_they_are():
    # A loss that is differentiated in the function that SciPy calls: its numbers are plain.
    steps = []

    def fun(w):
        w = leaf(w)
        loss = np.sum((w - 1.0) ** 2)
        loss.backward()
        steps.append(1)
        return loss.item(), w.grad.numpy()

    found = minimize(fun, np.zeros(2), jac=True)
    assert type(found.x) is np.ndarray
    assert found.nfev == len(steps)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-6)
    a = leaf(2.0)
    assert type(brentq(lambda z: z**3 - a.item(), 0, 3)) is float
    with no_grad():
        assert type(brentq(lambda z: z**3 - a, 0, 3)) is float
    with pytest.raises(InputError, match=r"tensor: it was called in a function that is traced"):
        minimize(lambda w: np.sum((leaf(w) - 1.0) ** 2), np.zeros(2))


def test_flags_and_texts_of_results_are_plain():
    a = leaf(A0)
    about = solve_ivp(lambda t, y: -a[0] * y, (0, 1), [1.0])
    assert isinstance(about, optimize.OptimizeResult)
    assert about.success is True
    assert type(about.nfev) is int
    assert "successfully" in about.message
    x, about, code, words = fsolve(lambda z: z**3 - a[0], [1.0], full_output=True)
    assert (code, words) == (1, "The solution converged.")
    assert x.requires_grad


def test_fields_without_a_rule_have_numbers_and_refuse_gradients():
    a = leaf(A0)
    about = minimize(lambda z: np.sum((z - a) ** 2), np.zeros(2))
    assert np.all(np.abs(about.jac.detach().numpy()) < 1e-4)
    with pytest.raises(
        UnsupportedError, match=r"`jac` of scipy.optimize.minimize has no derivative"
    ):
        np.sum(about.jac).backward()


def evolution(a):
    return optimize.differential_evolution(lambda z: (z[0] - a[0]) ** 2, [(0, 3)], seed=1)


def boundary_values(a):
    def fun(x, y):
        return np.vstack((y[1], -a[0] * y[0]))

    ends = lambda u, v: np.array([u[0], v[0] - 1])
    return integrate.solve_bvp(fun, ends, np.linspace(0, 1, 5), np.zeros((2, 5)))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("least_squares", lambda a: optimize.least_squares(lambda z: z - a, np.zeros(2))),
        ("curve_fit", lambda a: optimize.curve_fit(lambda x, k: k * x, np.arange(2.0), a)),
        ("fixed_point", lambda a: optimize.fixed_point(lambda z: a[1] * np.cos(z), 0.5)),
        ("bracket", lambda a: optimize.bracket(lambda z: (z - a[0]) ** 2)),
        ("differential_evolution", evolution),
        ("linprog", optimize.linprog),
        ("solve_bvp", boundary_values),
        ("quad_vec", lambda a: integrate.quad_vec(lambda t: a * t, 0, 1)),
    ],
)
def test_solvers_without_a_rule_refuse_recorded_arrays(name, call):
    with pytest.raises(
        UnsupportedError, match=rf"{name} was given recorded arrays.*no derivative rule"
    ):
        call(leaf(A0))
    call(leaf(A0).detach())
    with no_grad():
        call(leaf(A0))


# --- objects --------------------------------------------------------------------------------------

X4 = np.array([0.3, -0.4, 1.2, 0.9])
PLACES = np.array([0.2, 1.1, 2.9])


def system(v):
    return sparse.csc_array((v**2 + 1, ([0, 1, 2, 0], [0, 1, 2, 2])))


TIMES = np.arange(4.0)


def spline_used_often(v):
    spline = CubicSpline(TIMES, v)
    return spline(0.5) * spline(PLACES).sum() + spline.integrate(0, 2) + spline(1, 1)


def frozen(v):
    normal = stats.norm(v[0], v[2])
    return normal.logpdf(PLACES).sum() + normal.cdf(0.1)


def grid(v):
    made = interpolate.RegularGridInterpolator(([0, 1.0], [0, 1.0]), v.reshape(2, 2))
    return made([[0.3, 0.6]]).sum()


def pair(v):
    return linalg.cho_solve(linalg.cho_factor(np.diag(v**2) + np.ones((4, 4))), v).sum()


# By name: a function of four numbers, which makes objects of SciPy of them.
OBJECTS = {
    "spline": lambda v: CubicSpline(TIMES, v)(PLACES).sum(),
    "spline used often": spline_used_often,
    "derivative of a spline": lambda v: CubicSpline(TIMES, v).derivative()(PLACES).sum(),
    "antiderivative": lambda v: interpolate.PchipInterpolator(TIMES, v).antiderivative()(2.5),
    "coefficients": lambda v: np.sum(CubicSpline(TIMES, v).c ** 2),
    "knots": lambda v: CubicSpline(np.cumsum(v**2 + 0.1), v)(0.9),
    "made before": lambda v: _SPLINE(v).sum() + _INTERP(v).sum(),
    "interp1d": lambda v: interpolate.interp1d(TIMES, v, kind="linear")(PLACES).sum(),
    "make_interp_spline": lambda v: interpolate.make_interp_spline(TIMES, v)(PLACES).sum(),
    "grid": grid,
    "frozen": frozen,
    "frozen before": lambda v: _NORMAL.logpdf(v).sum(),
    "discrete": lambda v: stats.poisson(v[2]).logpmf([0, 1, 4]).sum(),
    "product": lambda v: (sparse.diags([v, v[:3]], [0, 1]) @ v).sum(),
    "sum of matrices": lambda v: ((system(v) * v[0] + system(2 * v)).T @ PLACES).sum(),
    "entries": lambda v: np.sum(system(v).toarray() ** 2) + system(v).sum(),
    "from the left": lambda v: (PLACES @ system(v)).sum(),
    "constant matrix": lambda v: (v[:3] @ _MATRIX).sum() + (_MATRIX.dot(v[:3]) * v[:3]).sum(),
    "system": lambda v: sparse.linalg.spsolve(system(v), v[:3]).sum(),
    "factors": lambda v: sparse.linalg.splu(system(v)).solve(PLACES).sum(),
    "factorized": lambda v: sparse.linalg.factorized(system(v))(v[:3]).sum(),
    "pair": pair,
}
FACTORS = {"factors", "factorized"}  # compiled code, which takes arrays of NumPy alone
_SPLINE = CubicSpline(np.arange(4.0), np.arange(4.0) ** 2)
_INTERP = interpolate.interp1d(np.arange(-1.0, 4.0), np.arange(5.0) ** 2)
_NORMAL = stats.norm(0.5, 2.0)
_MATRIX = sparse.csr_array(np.arange(9.0).reshape(3, 3))


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_of_scipy_are_made_of_recorded_arrays(name):
    f = OBJECTS[name]
    np.testing.assert_allclose(gradient(f, X4), fdiff.grad(f)(X4), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(f(leaf(X4)).detach().numpy(), f(X4), rtol=1e-12)
    if name not in FACTORS:
        with no_grad():
            np.testing.assert_allclose(np.asarray(f(leaf(X4))), f(X4), rtol=1e-12)


def test_objects_look_like_those_of_scipy():
    spline = CubicSpline(np.arange(4.0), leaf(X4))
    assert isinstance(spline, CubicSpline)
    assert repr(spline) == "<scipy.interpolate.CubicSpline of recorded arrays>"
    matrix = system(leaf(X4))
    assert sparse.issparse(matrix)
    assert matrix.shape == (3, 3)
    assert isinstance(CubicSpline(np.arange(4.0), X4).c, np.ndarray)
    with pytest.raises(RuntimeError, match="would lose its gradient"):
        np.asarray(spline)
    with pytest.raises(ValueError, match="must be strictly increasing"):
        CubicSpline(np.zeros(4), leaf(X4))


# --- what is kept, and what is refused ------------------------------------------------------------


def test_calls_of_arrays_have_recipes_and_scipys_own_values():
    x = leaf(X4)
    for _ in range(3):
        assert logsumexp(x).item() == logsumexp(X4)
    assert logsumexp(x).grad_fn.name() == "LogsumexpBackward0"
    assert type(logsumexp(X4)) is np.float64


@pytest.mark.parametrize("overwrite", [False, True])
def test_arguments_are_not_overwritten(overwrite):
    a, b = leaf(np.diag(X4 + 2)), leaf(X4)
    for _ in range(2):
        x = linalg.solve(a, b, overwrite_a=overwrite, overwrite_b=overwrite)
    np.sum(x**2).backward()
    np.testing.assert_array_equal(b.detach().numpy(), X4)
    expected = fdiff.grad(lambda b: np.sum(linalg.solve(np.diag(X4 + 2), b) ** 2))(X4)
    np.testing.assert_allclose(b.grad.numpy(), expected)


def test_hooks_stores_and_modes_see_calls_of_scipy():
    x, seen = leaf(X4), []
    y = x * 1.0
    out = logsumexp(y)
    out.register_hook(seen.append)
    out.backward()
    assert len(seen) == 1
    y = x * 1.0
    d = cdist(y[None], np.zeros((1, 4)))
    y[0] = 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        d.sum().backward()
    with no_grad():
        assert not logsumexp(x).requires_grad


@pytest.mark.parametrize(
    "call",
    [
        lambda v: linalg.schur(v[:, None] * v),
        lambda v: linalg.polar(v[:, None] * v),
        lambda v: stats.gaussian_kde(v),
        lambda v: stats.rankdata(v),
        lambda v: special.lpmv(1, 2, v),
        lambda v: special.factorial2(v),
        lambda v: ndimage.zoom(v, 2),
        lambda v: interpolate.UnivariateSpline(np.arange(4.0), v, k=2)(0.5),
        lambda v: sparse.linalg.splu(sparse.csc_array(np.eye(4))).solve(v),
        lambda v: sparse.bsr_array(v[:, None]),
    ],
)
def test_what_has_no_rule_raises_and_names_scipy(call):
    with pytest.raises(
        (RuntimeError, TypeError, UnsupportedError),
        match=r"gradient|no derivative rule|requires grad|not RecordedArray",
    ):
        call(leaf(X4))


def test_numbers_that_scipy_takes_are_an_error_and_those_of_the_user_a_warning():
    a = leaf(2.0)
    with pytest.raises(UnsupportedError, match=r"scipy.signal.* took the number out of an array"):
        windows.kaiser(5, a)
    with pytest.warns(UserWarning, match="to a scalar"):
        brentq(lambda z: z**3 - float(a), 0, 3)


# --- entry points ---------------------------------------------------------------------------------


def test_functions_stay_the_objects_that_they_are():

    assert optimize.brentq is brentq
    assert pickle.loads(pickle.dumps(brentq)) is brentq
    assert list(inspect.signature(brentq).parameters)[:3] == ["f", "a", "b"]
    assert brentq.__name__ == "brentq"
    assert "root" in brentq.__doc__
    with pytest.raises(TypeError, match=r"brentq\(\) missing 1 required positional argument"):
        brentq(np.sin, 0)


LATE = """
import sys
import threading
import fdiff.autograd as autograd
assert not any(name.startswith("scipy.") for name in sys.modules), "SciPy was imported"
x = autograd.tensor([0.3, 1.2], requires_grad=True)
import scipy.{first}
from scipy.optimize import brentq
from scipy.special import logsumexp
import scipy.stats, scipy.signal, scipy.interpolate, scipy.sparse.linalg, scipy.ndimage
out = brentq(lambda z: z**3 - x[1], 0, 3) + logsumexp(x) + scipy.stats.norm.logpdf(x[0])
out.backward()
print(x.grad.tolist())
"""


@pytest.mark.parametrize("first", ["integrate", "stats"])
def test_modules_of_scipy_that_are_imported_later_are_opened(first):
    run = subprocess.run(
        [sys.executable, "-c", LATE.format(first=first)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    expected = fdiff.grad(
        lambda x: brentq(lambda z: z**3 - x[1], 0, 3) + logsumexp(x) + stats.norm.logpdf(x[0])
    )
    np.testing.assert_allclose(eval(run.stdout), expected(np.array([0.3, 1.2])), rtol=1e-9)


def test_a_checkpoint_computes_calls_of_scipy_again():
    def f(x):
        return logsumexp(x) * brentq(lambda z: z**3 - x[0], 0, 3)

    # By hand: the same without a checkpoint, of other numbers of entries, which are met first.
    for start in ([2.0, 1.0, 0.5], [2.0, 1.0]):
        x = leaf(start)
        autograd.checkpoint(f, x).backward()
        np.testing.assert_allclose(x.grad.numpy(), fdiff.grad(f)(np.array(start)), rtol=1e-9)


def test_functions_given_to_solvers_may_detach_print_and_count(capsys):
    a, kept = leaf(2.0), []

    def residual(z):
        kept.append(z)
        print("at", z)
        with no_grad():
            half = a / 2
        return (z**3 - a) * a.detach() * half

    brentq(residual, 0, 3).backward()
    assert a.grad.item() == pytest.approx(2 ** (-2 / 3) / 3)
    assert kept
    assert all(type(z) is float for z in kept)
    assert capsys.readouterr().out.count("at ") == len(kept)


def test_threads_have_calls_of_their_own():
    found = []

    def work():
        a = leaf(2.0)
        brentq(lambda z: z**3 - a, 0, 3).backward()
        found.append(a.grad.item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(found, 2 ** (-2 / 3) / 3, rtol=1e-12)


@pytest.mark.parametrize("change", ["store", "data", "plain"])
def test_what_an_object_was_made_of_must_be_as_it_was(change):
    knots, y = np.arange(4.0), leaf(X4) * 1.0
    spline, normal = CubicSpline(knots, y), stats.norm(y, 1.0)
    before = spline(0.5)
    if change == "store":
        y[0] = 5.0
    elif change == "data":
        y.data += 1.0
    else:
        knots[3] = 9.0
    with pytest.raises(RuntimeError, match="Make the object anew"):
        spline(0.5)
    if change != "plain":
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            normal.logpdf(0.0)
    assert before.requires_grad


class OwnSpline(CubicSpline):
    """A class of the user's, whose objects can be called."""


class Bell(stats.rv_continuous):
    """A distribution of the user's."""

    def _pdf(self, x):
        return np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)


class Distance:
    def __call__(self, x):
        return np.sum((x - 1.0) ** 2)


def test_plain_code_is_as_it_was():
    x = np.array([0.0, 1.0, 2.0])
    assert OwnSpline(x, x**2)(0.5) == CubicSpline(x, x**2)(0.5)
    assert Bell(name="bell").cdf(0.3) == pytest.approx(stats.norm.cdf(0.3))
    assert pickle.loads(pickle.dumps(CubicSpline(x, x**2)))(0.5) == CubicSpline(x, x**2)(0.5)
    np.testing.assert_allclose(minimize(Distance(), np.zeros(2)).x, 1.0, atol=1e-6)
    reached = lambda t, y: y[0] - 0.5
    reached.terminal = True
    end = solve_ivp(lambda t, y: -y, (0, 5), [1.0], events=reached, rtol=1e-9).t[-1]
    assert end == pytest.approx(np.log(2.0), abs=1e-4)
    bent = minimize(Distance(), np.zeros(2), callback=lambda intermediate_result: None)
    assert bent.success
    np.testing.assert_allclose(
        optimize.curve_fit(lambda x, a, b: a * x + b, x, 2 * x + 1)[0], [2.0, 1.0], atol=1e-6
    )
    assert inspect.getsource(brentq).startswith("def brentq(")


@pytest.mark.parametrize("make", [OwnSpline, lambda x, y: Bell(name="bell").logpdf(y)])
def test_classes_of_the_user_refuse_recorded_arrays(make):
    with pytest.raises((UnsupportedError, RuntimeError), match="grad"):
        make(np.arange(4.0), leaf(X4))

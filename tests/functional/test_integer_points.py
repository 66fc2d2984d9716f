"""Integers where floats are differentiated: float64 and a warning, once for each function.

Python's ints are floats without a word, and so is what SciPy's solvers pass on; truth values, texts
and integers given with the point at once are refused, as in torch.
"""

import re
import warnings

import numpy as np
import pytest
from scipy import optimize
from scipy.integrate import solve_ivp

import fdiff
from fdiff.errors import DtypeError, DtypeWarning, InputError

DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4"]
POINT = np.array([3, 1, 2])
OPERATORS = ("grad", "value_and_grad", "jacobian", "hessian", "jacrev", "jacfwd")
PRODUCTS = ("vjp", "jvp", "hvp", "vhp")


@pytest.fixture(autouse=True)
def _untold():
    """Functions of which nobody was told yet: equal code of the cases shares what is known."""
    fdiff.cache_clear()


def total(x):
    return np.sum(x**3 / 3.0)


def same(found, wanted):
    """Equal to the last bit, and of the same dtypes."""
    mine, theirs = fdiff.tree.flatten(found)[0], fdiff.tree.flatten(wanted)[0]
    assert [np.asarray(x).dtype for x in mine] == [np.asarray(x).dtype for x in theirs]
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def told(call):
    """The result of a call, and the warnings that it gave."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        result = call()
    assert all(w.category is DtypeWarning for w in given)
    return result, [str(w.message) for w in given]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*OPERATORS, *PRODUCTS])
def test_prepared_functions_take_integers_and_say_so_once(name, dtype):
    op = getattr(fdiff, name)(lambda x: total(x))
    v = {"vjp": (2.0,), "jvp": (POINT,), "hvp": (POINT,), "vhp": (POINT,)}.get(name, ())
    floats = [x if isinstance(x, float) else x.astype(float) for x in v]
    want = getattr(fdiff, name)(total)(POINT.astype(float), *floats)
    found, first = told(lambda: op(POINT.astype(dtype), *v))
    same(found, want)
    assert len(first) == 1
    assert re.fullmatch(
        rf"{name}\(<lambda>\): integers \({np.dtype(dtype)}\) are taken as float64 where they are"
        r" differentiated\.\n    test_integer_points\.py:\d+:  .*told.*\n"
        r"Pass floats: x\.astype\(float\), or float\(x\)\.",
        first[0],
    )
    for _ in range(8):
        found, again = told(lambda: op(POINT.astype(dtype), *v))
        same(found, want)
        assert again == []


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint16])
def test_scalars_trees_and_several_arguments(kind):
    cases = (
        (lambda x: x**3, {}, (kind(3),), 27.0),
        (lambda x, y: x * y**2, {"argnums": (0, 1)}, (kind(2), 3.0), (9.0, 12.0)),
        (lambda x, n: x**n, {}, (kind(2), 3), 12.0),
        (lambda p: p["a"] * p["b"][0] ** 2, {}, ({"a": kind(2), "b": (kind(3),)},), None),
    )
    for f, options, args, want in cases:
        found, words = told(lambda: fdiff.grad(f, **options)(*args))
        assert len(words) == 1
        assert found == (want or {"a": 9.0, "b": (12.0,)})


def test_integers_that_are_not_differentiated_stay_integers():
    f = lambda x, n: np.sum(x[n] ** 2)  # a float is no index
    found, words = told(lambda: fdiff.grad(f)(np.ones(4), np.array([1, 2])))
    np.testing.assert_array_equal(found, [0, 2, 2, 0])
    assert words == []


# --- inside of other transforms -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::fdiff.errors.DtypeWarning")
def test_traced_integers_are_taken_as_floats():
    """They had derivatives of zero."""
    slope = 1.0 * POINT**2
    same(fdiff.jit(fdiff.grad(total))(POINT), slope)
    same(fdiff.vmap(fdiff.grad(lambda x: x**3 / 3.0))(POINT), slope)
    same(fdiff.vmap(fdiff.jvp(lambda x: x**3 / 3.0))(POINT, np.ones(3))[1], slope)
    outer = lambda y: np.sum(fdiff.grad(lambda x: np.sum(x**2 * y))(POINT))
    assert fdiff.grad(outer)(2.0) == 2 * POINT.sum()
    outer = lambda y: np.sum(fdiff.jvp(lambda x: x**2 * y)(POINT, np.ones(3))[1])
    assert fdiff.grad(outer)(2.0) == 2 * POINT.sum()


@pytest.mark.parametrize("name", ["grad", "jacobian", "hessian", "jacrev", "jacfwd"])
def test_traced_truth_values_are_refused(name):
    mask = np.array([True, False, True])
    op = getattr(fdiff, name)
    for call in (
        lambda: fdiff.grad(lambda y: np.sum(op(lambda x: np.sum(x * y))(mask)))(2.0),
        lambda: fdiff.vmap(op(lambda x: x * 2.0))(mask),
        lambda: fdiff.jit(op(lambda x: np.sum(x * 2.0)))(mask),
    ):
        with pytest.raises(DtypeError, match=r"can be differentiated, not bool\."):
            call()


@pytest.mark.parametrize(("bad", "kind"), [
    (True, DtypeError), (np.True_, DtypeError), (np.array([True]), DtypeError),
    ("1", InputError), (np.array(["1"]), DtypeError), (10**400, DtypeError),
])  # fmt: skip
def test_truth_values_and_texts_are_refused(bad, kind):
    for name in OPERATORS:
        with pytest.raises(kind, match=r"^\w+\(total\): (only floating-point inputs|cannot)"):
            getattr(fdiff, name)(total)(bad)


# --- the point given at once ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["jacobian", "hessian", *PRODUCTS])
def test_integers_given_at_once_are_refused_as_in_torch(name):
    op, v = getattr(fdiff, name), () if name in ("jacobian", "hessian") else (np.ones(3),)
    fact = rf"{name}\(total\): only floating-point inputs can be differentiated, not int64\."
    calls = (
        (lambda: op(total, POINT, *v), r"Convert it with x\.astype\(float\)\."),
        (lambda: op(total, (POINT,), *v), r"Convert it with x\.astype\(float\)\."),
        (lambda: op(total, {"x": np.int64(2)}, *v), r"Convert it: float\(x\)\."),
        (lambda: op(total, {"x": POINT}, *v), r"Convert it with x\.astype\(float\)\."),
        (
            lambda: fdiff.grad(lambda y: np.sum(op(total, POINT, *v)[0]) * y)(1.0),
            r"Convert it with x\.astype\(float\)\.",
        ),
    )
    for call, way in calls:
        with pytest.raises(DtypeError, match=rf"(?s)^{fact}.*{way}$"):
            call()


# --- solvers --------------------------------------------------------------------------------------


METHODS = (
    *("BFGS", "CG", "Newton-CG", "L-BFGS-B", "TNC", "SLSQP"),
    *("trust-constr", "trust-ncg", "trust-exact", "dogleg"),
)


def bowl(x):
    return (x[0] - 1) ** 2 + x[1] ** 4 + x[1] ** 2


def model(t, a, b):
    return a * np.exp(-b * t)


@pytest.mark.parametrize("start", [[1, 5], (1, 5), np.array([1, 5]), np.array([1, 5], "i4")])
@pytest.mark.parametrize("method", METHODS)
def test_minimize_starts_at_integers_without_a_word(start, method):
    hess = method in ("Newton-CG", "trust-constr", "trust-ncg", "trust-exact", "dogleg")
    options = {"hess": fdiff.hessian(bowl)} if hess else {}
    found = optimize.minimize(bowl, start, jac=fdiff.grad(bowl), method=method, **options)
    np.testing.assert_allclose(found.x, [1, 0], atol=1e-3)
    both = fdiff.value_and_grad(bowl)
    np.testing.assert_allclose(optimize.minimize(both, start, jac=True).x, [1, 0], atol=1e-3)


def test_other_solvers_of_scipy_start_at_integers_without_a_word():
    t = np.linspace(0, 1, 20)
    goal = model(t, 2.0, 3.0)
    columns = fdiff.jacobian(model, argnums=(1, 2))
    by_numbers = lambda t, a, b: np.stack(columns(t, a, b), -1)
    for start in ([1, 1], np.array([1, 1])):
        found, _ = optimize.curve_fit(model, t, goal, p0=start, jac=by_numbers)
        np.testing.assert_allclose(found, [2, 3])
    rest = lambda p: model(t, *p) - goal
    for jac in (fdiff.jacobian(rest), lambda p: fdiff.jacobian(rest, p)):
        found = optimize.least_squares(rest, np.array([1, 1]), jac=jac)
        np.testing.assert_allclose(found.x, [2, 3])
    pair = lambda x: [x[0] ** 2 + x[1] - 1, x[0] - x[1] ** 3]
    for method in ("hybr", "lm"):
        found = optimize.root(pair, np.array([1, 1]), jac=fdiff.jacobian(pair), method=method)
        np.testing.assert_allclose(pair(found.x), 0, atol=1e-9)
    square = lambda x: x**2 - 2
    slope, bend = fdiff.grad(square), fdiff.grad(fdiff.grad(square))
    for start in (1, np.int64(1)):
        assert optimize.newton(square, start, fprime=slope, fprime2=bend) == pytest.approx(2**0.5)
    turn = lambda t, y: [y[1], -y[0]]
    jac = fdiff.jacobian(turn, argnums=1)
    end = solve_ivp(turn, (0, 1), np.array([1, 0]), method="Radau", jac=jac, rtol=1e-8)
    np.testing.assert_allclose(end.y[:, -1], [np.cos(1), -np.sin(1)], rtol=1e-6)


def test_a_solver_of_ones_own_starts_at_integers():
    def descend(slope, x, steps=200):
        for _ in range(steps):
            x = x - 0.1 * slope(x)
        return x

    found, words = told(lambda: descend(fdiff.grad(bowl), np.array([3, 1])))
    np.testing.assert_allclose(found, [1, 0], atol=1e-6)
    assert len(words) == 1

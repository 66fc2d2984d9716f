"""What follows for a user's operation as for fdiff's: its test, and the pattern of Jacobians."""

import math

import numba
import numpy as np
import pytest
import scipy.sparse

import fdiff
from fdiff.errors import GradcheckError, InputError
from fdiff.functional.rules import primitive_checks

N = 40
X = np.linspace(0.1, 2.0, N)
SMALL = np.linspace(-0.9, 0.8, 6).reshape(2, 3)


def sine(**changes):
    given = {
        "function": np.sin,
        "partials": lambda x, out: (np.cos(x),),
        "kernel": "lambda x: rt.sin(x)",
        "samples": [(SMALL,), (np.float64(0.3),), (np.ones((0, 2)),)],
    }
    return fdiff.primitive(**given | changes)


@numba.njit
def neighbours(x):
    return x * np.roll(x, 1)


def banded(x):
    """Entry i depends on entries i and i - 1, the first one on the last."""
    eye = np.eye(x.size, dtype=bool)
    return eye | np.roll(eye, -1, axis=1)


def product_of_neighbours(rule="jvp", sparsity=None):
    rules = {
        "jvp": lambda dots, out, x: dots[0] * np.roll(x, 1) + np.roll(dots[0], 1) * x,
        "vjp": lambda bar, out, x: (bar * np.roll(x, 1) + np.roll(bar * x, -1),),
    }
    return fdiff.primitive(neighbours, like=0, sparsity=sparsity, **{rule: rules[rule]})


RIGHT = {
    "ufunc with a text": (sine, ()),
    "no kernel": (lambda: sine(kernel=None), ()),
    "njit, forward rule": (product_of_neighbours, (X[:5],)),
    "njit, reverse rule": (lambda: product_of_neighbours("vjp", banded), (X[:5],)),
    "two arguments": (
        lambda: fdiff.primitive(
            np.hypot,
            partials=lambda x, y, out: (x / out, y / out),
            kernel="lambda x, y: math.sqrt(x * x + y * y)",
        ),
        (SMALL, SMALL[0] + 0.05),
    ),
    "a whole number": (
        lambda: fdiff.primitive(
            lambda x, n: x**n, partials=lambda x, n, out: (n * x ** (n - 1.0), 0.0 * x)
        ),
        (SMALL, np.array([1, 2, 3])),
    ),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_right_operation_passes(case):
    make, args = RIGHT[case]
    make().check(*args)


def cancelling(x):
    big = x.dtype.type(1e6)
    return (np.sin(x) + big) - big


def by_address(x):
    """A layout that is not C's is read as if it were."""
    return np.sin(
        np.ndarray(x.shape, x.dtype, np.ascontiguousarray(x.base if x.base is not None else x))
    )


def first_row_only(x):
    return np.sin(x) if x.ndim < 3 else np.sin(x[:1]) + np.zeros_like(x)


calls = [0]


def another_each_time(x):
    calls[0] += 1
    return np.sin(x) + 1e-3 * calls[0]


WRONG = {
    "partial": ({"partials": lambda x, out: (np.sin(x),)}, "Jacobian mismatch"),
    "second derivative": (
        {"partials": lambda x, out: (fdiff.stop_gradient(np.cos(x)),)},
        "Jacobian mismatch",
    ),
    "kernel": ({"kernel": "lambda x: rt.sinh(x)"}, "the result by the kernel is"),
    "kernel on an empty array is right, values are not": (
        {"function": another_each_time, "kernel": None},
        "the result called again is",
    ),
    "single precision": ({"function": cancelling, "kernel": None}, "in single precision is"),
    "layout": ({"function": by_address, "kernel": None}, "in a strided layout"),
    "batch": ({"function": first_row_only, "kernel": None}, "in a batch"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_operation_fails(case):
    changes, words = WRONG[case]
    with pytest.raises(GradcheckError, match=words):
        sine(**changes).check()


def test_a_function_that_knows_no_single_precision_fails():
    @numba.njit("f8[:](f8[:])")
    def doubles(x):
        return x * x

    p = fdiff.primitive(doubles, partials=lambda x, out: (2.0 * x,))
    with pytest.raises(TypeError, match="No matching definition"):
        p.check(X[:3])


@pytest.mark.slow
def test_a_pattern_that_leaves_out_an_entry_fails():
    diagonal = lambda x: np.eye(x.size, dtype=bool)
    with pytest.raises(GradcheckError, match="entry 0 depends on an entry of argument 0 outside"):
        product_of_neighbours(sparsity=diagonal).check(X[:4])


def test_a_failure_names_the_call_and_the_line():
    with pytest.raises(GradcheckError) as error:
        sine(kernel="lambda x: -x").check(0.5)
    first, *_ = str(error.value).splitlines()
    assert first == "primitive(sin).check: sample 0: the result by the kernel is"
    assert "test_primitive_checks.py:" in str(error.value)


def test_a_check_needs_samples():
    with pytest.raises(InputError, match=r"primitive\(sin\).check: there are no samples"):
        sine(samples=()).check()


def test_every_part_of_the_check_is_made(monkeypatch):
    """A part that finds nothing wrong says nothing: count what is compared."""
    words = []
    real = primitive_checks._SampleTests._equal

    def noted(self, what, *rest):
        words.append(what)
        real(self, what, *rest)

    monkeypatch.setattr(primitive_checks._SampleTests, "_equal", noted)
    sine().check()
    parts = (
        "called again", "by the kernel", "in single precision", "strided", "backwards", "Fortran",
        "in a batch", "in a batch, its gradient", "of no axes", "empty", "broadcast",
    )  # fmt: skip
    assert all(any(part in what for what in words) for part in parts)


# --- patterns -------------------------------------------------------------------------------------


def width(f, x=X):
    """How many entries the rows of a sparse Jacobian have, the dense one of which has terms."""
    rows, _ = fdiff.jacobian(f, sparse=True).coordinates(x)
    (picked,) = [row for row in fdiff.explain(f, x).costs if row.what == "Jacobian" and row.picked]
    assert picked.mode == "terms" or len(rows) == N * N
    return len(rows) / N


def test_the_jacobian_of_what_acts_entry_by_entry_is_sparse():
    p = sine()
    with_function = lambda s: lambda x: s(np.roll(x, 1) * x) + s(x)
    f, g = with_function(p), with_function(np.sin)
    assert width(f) == width(g) == 2
    plain = fdiff.jacobian(g)
    np.testing.assert_allclose(fdiff.jacobian(f)(X), plain(X), rtol=1e-14, atol=1e-15)
    total = lambda f: lambda x: np.sum(f(x) ** 2)
    curved = fdiff.hessian(total(g))(X)
    np.testing.assert_allclose(fdiff.hessian(total(f))(X), curved, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_the_pattern_of_a_rule_follows_from_it(rule):
    p = product_of_neighbours(rule)
    assert width(p) == 2
    plain = fdiff.jacobian(lambda x: x * np.roll(x, 1))(X)
    np.testing.assert_allclose(fdiff.jacobian(p)(X), plain, rtol=1e-14)


def test_the_pattern_of_custom_rules_follows_too():
    """The slope of the rule counts, not that of the value."""

    @fdiff.custom_jvp
    def f(x):
        return x * np.cumsum(x)

    f.defjvps(lambda dot, out, x: dot[::-1] * 2.0)
    assert width(f) == 1
    np.testing.assert_array_equal(fdiff.jacobian(f)(X), 2.0 * np.eye(N)[::-1])


def mixed(rule, sparsity):
    """A rule that uses an operation whose pattern is not told, of which few entries stay."""
    table = np.eye(N) + np.eye(N, k=1)
    rules = {
        "jvp": lambda dots, out, x: table @ dots[0] * 2.0,
        "vjp": lambda bar, out, x: (table.T @ bar * 2.0,),
    }
    function = lambda x: 2.0 * (table @ x)
    return fdiff.primitive(function, like=0, sparsity=sparsity, **{rule: rules[rule]}), table


def as_sparse_matrix(x):
    return scipy.sparse.eye(x.size) + scipy.sparse.eye(x.size, k=1)


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_a_pattern_that_is_told_is_used(rule):
    dense, table = mixed(rule, None)
    assert width(dense) == N
    told, _ = mixed(rule, as_sparse_matrix)
    assert width(told) == 2 - 1 / N
    np.testing.assert_array_equal(fdiff.jacobian(told)(X), 2.0 * table)
    f = lambda x: np.sin(told(x * x))
    np.testing.assert_allclose(
        fdiff.jacobian(f)(X), fdiff.jacobian(lambda x: np.sin(dense(x * x)))(X), rtol=1e-13
    )


def test_a_pattern_may_be_dense_in_one_argument():
    table = np.eye(N)
    p = fdiff.primitive(
        lambda x, s: table @ x * s,
        like=0,
        jvp=lambda dots, out, x, s: table @ dots[0] * s + table @ x * dots[1],
        sparsity=lambda x, s: (np.eye(x.size, dtype=bool), None),
    )
    assert width(lambda x: p(x, 2.0 + np.zeros(()))) == 1
    f = lambda x: p(x, x[0])
    np.testing.assert_allclose(
        fdiff.jacobian(f)(X), fdiff.jacobian(lambda x: x * x[0])(X), rtol=1e-14
    )


def test_a_pattern_of_another_shape_is_refused():
    p, _ = mixed("jvp", lambda x: np.eye(3))
    with pytest.raises(InputError, match=r"sparsity gave patterns of shapes \[\(3, 3\)\], not"):
        fdiff.jacobian(p)(X)


def test_a_rule_without_forward_mode_has_no_pattern():
    """Clipped cotangents are not linear: the Jacobian is swept in reverse."""
    p = fdiff.primitive(
        lambda x: x * math.pi, like=0, vjp=lambda bar, out, x: (np.clip(bar, -1.0, 1.0),)
    )
    np.testing.assert_array_equal(fdiff.jacrev(p)(X), np.eye(N))


def test_how_entries_depend_on_each_other_is_told():
    p = sine()
    shown = fdiff.explain(lambda x: p(x) + 2.0 * x, X[:3]).dependence.entries(0, 0)
    assert shown[0].tolist() == ["nonlinear", "none", "none"]
    q = fdiff.primitive(np.negative, partials=lambda x, out: (-1.0,))
    shown = fdiff.explain(lambda x: q(x), X[:3]).dependence.entries(0, 0)
    assert shown[0].tolist() == ["linear", "none", "none"]

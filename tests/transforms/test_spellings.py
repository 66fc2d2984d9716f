"""One function, many spellings: the same program, the same numbers.

Entries side by side are taken by slices, index arrays that count, masks, `np.roll`, `np.pad` and
concatenations; numbers are multiplied here or there. The reference is the complex step.
"""

from collections import Counter

import numpy as np
import pytest
from tapes import tape_of, values

import fdiff
from benchmarks import styles
from fdiff import kernels
from fdiff.interpret import evaluate
from fdiff.tape import verify
from fdiff.transforms.prepare.split_concatenations import LEAST, split_concatenations
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

N = 40
X = np.random.default_rng(1).normal(size=N)
U = np.random.default_rng(2).normal(size=(N, 3))


def recorded(f, *xs):
    """The tape of `f` as it is differentiated."""
    return verify(simplify(split_concatenations(tape_of(f, *xs))))


def gradient(f, x):
    return verify(vjp(recorded(f, x), [0], seeds=[np.ones(())]))


def ops(tape):
    return Counter((node.primitive.name, node.params, node.types) for node in tape.nodes)


def names(tape):
    return [node.primitive.name for node in tape.nodes if node.primitive.name != "input"]


def complex_step(f, x, h=1e-30):
    """The gradient of an analytic function of real numbers, exact but for rounding."""
    units = np.eye(x.size).reshape(-1, *x.shape)
    return np.array([f(x + 1j * h * u).imag / h for u in units]).reshape(x.shape)


def check(f, x):
    """Value and gradient, interpreted and compiled."""
    wanted = complex_step(f, x)
    tape = gradient(f, x)
    for found in (evaluate(tape, x), kernels.compile(tape, ("C",))(x)):
        np.testing.assert_allclose(found[0], f(x), rtol=1e-13)
        np.testing.assert_allclose(found[1], wanted, rtol=1e-11, atol=1e-11 * abs(wanted).max())


# --- windows: entries from k to n - 2 + k ---------------------------------------------------------

WINDOWS = {
    "slice": lambda x, k: x[k : len(x) - 2 + k],
    "range": lambda x, k: x[np.arange(len(x) - 2) + k],
    "range from the end": lambda x, k: x[np.arange(-len(x) + k, k - 2)],
    "range of bytes": lambda x, k: x[k + np.arange(len(x) - 2, dtype=np.uint8)],
    "list": lambda x, k: x[[*range(k, len(x) - 2 + k)]],
    "take": lambda x, k: np.take(x, np.arange(k, len(x) - 2 + k)),
    "mask": lambda x, k: x[(np.arange(len(x)) >= k) & (np.arange(len(x)) < len(x) - 2 + k)],
    "backwards twice": lambda x, k: x[np.arange(len(x) - 3 + k, k - 1, -1)][::-1],
    "roll": lambda x, k: np.roll(x, -k)[:-2],
    "delete": lambda x, k: np.delete(x, [*range(k), *range(len(x) - 2 + k, len(x))]),
    "roll and cut later": None,
}


def stencil(window):
    def f(x):
        a, b, c = (window(x, k) for k in range(3))
        return np.sum(3.0 * (a - 2.0 * b * b + c) ** 2 + a * c)

    return f


def cut_later(x):
    """What lies beyond the end is computed, and cut off at last."""
    b, c = np.roll(x, -1), np.roll(x, -2)
    return np.sum((3.0 * (x - 2.0 * b * b + c) ** 2 + x * c)[:-2])


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_slices(name):
    f = cut_later if WINDOWS[name] is None else stencil(WINDOWS[name])
    plain = gradient(stencil(WINDOWS["slice"]), X)
    found = gradient(f, X)
    if name == "backwards twice":  # two slices in place of one
        assert {"gather", "scatter_add"}.isdisjoint(names(found))
    else:
        assert ops(found) == ops(plain)
    np.testing.assert_allclose(values(found, X)[1], complex_step(f, X), rtol=1e-12, atol=1e-12)


PICKED = {  # index arrays that name a slice, alone or beside other items, and those that do not
    "rows": (lambda x: x[np.arange(3)], True),
    "columns": (lambda x: x[:, np.arange(3)], True),
    "number before": (lambda x: x[2, np.arange(3)], True),
    "number behind": (lambda x: x[np.arange(1, 9, 3), -1], True),
    "new axes": (lambda x: x[None, np.arange(7, 1, -2), :, None], True),
    "ellipsis": (lambda x: x[..., np.arange(-3, 0)], True),
    "apart": (lambda x: x[0, None, np.arange(3)], False),  # the new axis comes first
    "around the end": (lambda x: x[np.arange(-2, 2)], False),
    "two arrays": (lambda x: x[np.arange(3), np.arange(3)], False),
    "repeated": (lambda x: x[np.zeros(4, int)], False),
    "uneven": (lambda x: x[[0, 1, 3]], False),
    "two entries": (lambda x: x[[0, 2]], False),
    "matrix": (lambda x: x[np.arange(4).reshape(2, 2)], False),
}


@pytest.mark.parametrize("name", PICKED)
def test_index_arrays_that_count(name):
    f, sliced = PICKED[name]
    tape = tape_of(f, U)
    assert ("gather" in names(tape)) != sliced
    for g in (f, fdiff.jit(f)):
        np.testing.assert_array_equal(g(U), f(U))


def test_captured_index_arrays_may_change():
    index = np.arange(4)
    f = fdiff.jit(lambda x: x[index])
    np.testing.assert_array_equal(f(X), X[:4])
    index[:] = 3, 1, 0, 2
    np.testing.assert_array_equal(f(X), X[index])


def test_what_an_index_array_picks_is_a_copy():
    def f(x):
        x = 1.0 * x
        picked = x[np.arange(4)]
        x[0] = 7.0
        picked[1] += 1.0
        return np.sum(picked * picked) + x[0] * x[1]

    wanted = complex_step(lambda x: np.sum((x[:4] + np.eye(4)[1]) ** 2) + 7.0 * x[1], X)
    np.testing.assert_allclose(fdiff.grad(f)(X), wanted, rtol=1e-14)


def test_index_arrays_out_of_range():
    with pytest.raises(IndexError, match="index 40 is out of bounds for axis 0 with size 40"):
        fdiff.grad(lambda x: np.sum(x[np.arange(5) + 36]))(X)


# --- joins ----------------------------------------------------------------------------------------


def residuals(x):
    r = np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])
    return np.sum(r**2) / 2


def ghosts(x):
    p = np.concatenate([x[:1], x, x[-1:]])
    return np.sum((p[1:] - p[:-1]) ** 2 * p[1:])


JOINS = {  # functions, and whether no join is left
    "residuals": (residuals, True),
    "product with itself": (lambda x: (r := np.concatenate([x, x[:5] ** 2])) @ r, True),
    "products": (lambda x: np.dot(np.roll(x, 1) * x, np.sin(x)), True),
    "periodic": (lambda x: np.sum((np.roll(x, -1) - x) ** 2), True),
    "second difference": (
        lambda x: np.sum((np.roll(x, -1) - 2.0 * x + np.roll(x, 1)) ** 2 * np.exp(0.1 * x)),
        True,
    ),
    "ghost cells": (ghosts, True),
    "padded": (lambda x: np.sum(np.diff(np.pad(x, 1)) ** 3), True),
    "mean": (lambda x: np.mean(np.roll(x, 3) * x), True),
    "one part": (lambda x: np.sum(np.cumsum(np.roll(x * x, -2)[: N - 2])), True),
    "a number repeated": (
        lambda x: np.sum(np.concatenate([x, x]) * x[0] * np.concatenate([x * x, x])),
        True,
    ),
    "a join of a join": (lambda x: np.sum(np.roll(np.roll(x, 1) * x, 2) * x), False),
    "read elsewhere": (lambda x: np.sum((r := np.roll(x, 1)) * x) + np.prod(r / 2), False),
    "many parts": (
        lambda x: np.sum(np.concatenate([x, x[:20] * 2, x[:20] ** 2, x[:3], x]) ** 2),
        False,
    ),
    "short": (lambda x: np.sum(np.roll(x[: LEAST - 1], 1) * x[: LEAST - 1]), False),
}


@pytest.mark.parametrize("name", JOINS)
def test_joins(name):
    f, split = JOINS[name]
    found = recorded(f, X)
    assert ("concatenate" in names(found)) != split
    check(f, X)


def first_axis(u):
    return np.sum((np.roll(u, 1, 0) - u) ** 2 * np.arange(1.0, 4.0) * u[:, :1])


ROWS = {  # of a matrix
    "first axis": (first_axis, True),
    "last axis": (lambda u: np.sum((np.roll(u.T, 1, 1) * u.T)[:, 1:] ** 2), True),
    "some axes": (lambda u: np.sum(np.sum(np.roll(u, 2, axis=0) * u, axis=0) ** 3), True),
    "an axis that is kept": (lambda u: np.sum(np.sum(np.roll(u, 1, 0) * u, axis=1) ** 3), False),
    "two axes": (lambda u: np.sum(np.roll(u, 1, 0) * np.roll(u, 1, 1) * u), False),
    "entrywise products": (
        lambda u: np.sum(np.einsum("ij,ij->j", v := np.roll(u, 1, 0), v) ** 2),
        True,
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_joins_of_rows(name):
    f, split = ROWS[name]
    assert ("concatenate" in names(recorded(f, U))) != split
    check(f, U)


def test_programs_without_joins_are_left_as_they_are():
    tape = tape_of(stencil(WINDOWS["slice"]), X)
    assert split_concatenations(tape) is tape


def test_one_kernel_for_all_lengths():
    texts = {fdiff.source(fdiff.grad(ghosts), np.ones(n)) for n in (20, 41, 300)}
    assert len(texts) == 1


# --- constant factors -----------------------------------------------------------------------------

FACTORS = [0.5, 1.0, 2.0, 3.0, 8.0, 100.0, 2.5, 0.1, 1e-3, 1e300, 2.0**-1070, 2.0**1000]
EXTREMES = [0.0, 5e-324, 3e-310, 2.3e-308, 1.1e-16, 1.0, np.pi, 1e155, 9e307, np.inf, np.nan]
SINGLE_EXTREMES = [0.0, 1e-45, 3e-40, 1.2e-38, 1.0, np.pi, 1e19, 3e38, np.inf, np.nan]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_factors_meet_where_nothing_is_rounded_otherwise(dtype):
    drawn = np.random.default_rng(3).normal(size=50) * 10.0 ** np.arange(-25, 25)
    some = EXTREMES if dtype == "f8" else SINGLE_EXTREMES
    x = np.concatenate([some, np.negative(some), drawn]).astype(dtype)
    given = [c for c in FACTORS if dtype == "f8" or 1e-30 < c < 1e30]
    merged = 0
    for c in given:
        for d in given:
            for f in (
                lambda x, c=c, d=d: c * (d * x),
                lambda x, c=c, d=d: -(x * d) * c,
                lambda x, c=c, d=d: (y := c * x * d) + y,
            ):
                tape = simplify(tape_of(f, x))
                merged += names(tape).count("multiply") < 2
                with np.errstate(all="ignore"):
                    np.testing.assert_array_equal(values(tape, x)[0], f(x), f"{c} {d}")
    assert merged > len(given) ** 2  # of three programs for each pair


def test_factors_of_derivatives_are_one():
    f = lambda x: np.sum(100.0 * (x * x - 3.0) ** 2)
    tape = gradient(f, X)
    back = names(tape)[names(tape).index("sum") :]
    assert back.count("multiply") == 2
    check(f, X)


@pytest.mark.parametrize("scale", [1e-307, 1e-200, 0.5, 0.3, 1e200, 1.7e308])
def test_factors_of_derivatives_neither_overflow_nor_vanish(scale):
    f = lambda x: np.sum((scale * (1.0 / scale * x)) ** 2 * (1.0 / scale * (scale * x)))
    x = np.linspace(-0.5, 0.5, 6)
    np.testing.assert_allclose(fdiff.grad(f)(x), 3.0 * x**2, rtol=1e-14)


# --- Rosenbrock's function, as benchmarks.spellings measures it -----------------------------------


@pytest.mark.parametrize("f", styles.ROSEN, ids=lambda f: f.__name__)
def test_rosenbrock(f):
    check(f, X)
    text = fdiff.source(fdiff.value_and_grad(f), X)
    window = text.split("    # s")[-1]  # the loop over all but the ends
    assert text.count("for i0 in") == 1
    assert "work[" not in text
    assert "gather" not in text
    if f is not styles.r_diff:  # which is another formula
        assert window.count(" * ") <= 9


def test_joins_of_nothing():
    e = np.zeros((0, 3))
    f = lambda x: np.sum(np.concatenate([x, x]) ** 2) + np.sum(np.subtract.accumulate(x))
    assert fdiff.grad(f)(e).shape == (0, 3)

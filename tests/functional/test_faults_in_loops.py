"""Errors raised in bodies of loops name the line of the body and the trip, in every tier."""

import re

import numpy as np
import pytest

import fdiff
from fdiff.errors import AnomalyError, KinkError

SINGULAR = np.diag([1.0, 2.0]), np.array([0.1, 0.3, 1.0, 5.0])  # in the third trip
PLACES = np.ones(4), np.array([[0, 1, 2], [1, 1, 9]])  # outside in the last one of each loop
ROOTS = np.array([0.4, 0.3, 0.1, 5.0])


def systems(m, x, *, reverse=False):
    def step(c, r):
        return np.linalg.solve(m - r * np.eye(2), c), None  # faulty

    return np.sum(fdiff.scan(step, np.ones(2), x, None, reverse)[0])


def indices(x, k):
    return fdiff.scan(lambda c, r: (c + x[k[1, r]] ** 2, None), 0.0, np.arange(3))[0]  # faulty


def nested(x, k):
    def inner(i, j, c):
        return c + x[k[i, j]] ** 2  # faulty

    outer = lambda i, c: fdiff.fori_loop(0, 3, lambda j, c: inner(i, j, c), c)
    return fdiff.fori_loop(0, 2, outer, 0.0)


def condition(x, k):
    state = fdiff.while_loop(
        lambda s: x[k[1, s[0]]] < 100,  # faulty
        lambda s: (s[0] + 1, s[1] * x[0]),
        (0, 1.0),
    )
    return state[1]


def ahead(x, k):
    def body(s):
        return s[0] + 1, s[1] + x[k[1, s[0]]] ** 2  # faulty

    return fdiff.while_loop(lambda s: s[1] < 100, body, (0, 0.0))[1]


def branches(x, k):
    def beyond(c):
        return c + x[k[1, 2]] ** 2  # faulty

    step = lambda i, c: fdiff.cond(c > 1, beyond, lambda c: c + x[0] ** 2, c)
    return fdiff.fori_loop(0, 3, step, 0.0)


def bounded(x, k):
    step = lambda i, c: c + x[k[1, i]] ** 2  # faulty
    return fdiff.fori_loop(0, k[1, 0] + 2, step, 0.0)


FAULTY = {
    "scan": (systems, SINGULAR, "Singular matrix", "trip 2 of its loop"),
    "from the end": (
        lambda m, x: systems(m, x[::-1], reverse=True), SINGULAR, "Singular", "trip 1 of its loop",
    ),
    "index": (indices, PLACES, "out of bounds", "trip 2 of its loop"),
    "nested": (nested, PLACES, "out of bounds", "trips 1, 2 of its loops, the outermost first"),
    "condition": (condition, PLACES, "out of bounds", "trip 2 of its loop"),
    "while": (ahead, PLACES, "out of bounds", "trip 2 of its loop"),
    "branch": (branches, PLACES, "out of bounds", "trip 2 of its loop"),
    "traced bounds": (bounded, PLACES, "out of bounds", "trip 2 of its loop"),
}  # fmt: skip


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
@pytest.mark.parametrize("name", FAULTY)
def test_errors_in_bodies_name_line_and_trip(name, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    f, args, words, place = FAULTY[name]
    for operator in (fdiff.jit, fdiff.grad):
        with pytest.raises((IndexError, np.linalg.LinAlgError), match=words) as raised:
            operator(f)(*args)
        (note,) = raised.value.__notes__
        assert f"this line raised the error, in {place}:\n" in note
        assert re.search(r"test_faults_in_loops.py:\d+: .*# faulty\n", note)
    with pytest.raises((IndexError, np.linalg.LinAlgError)) as raised:  # outside of a trace
        f(*args)
    trips = [int(k) for k in re.findall(r"\d", place)][::-1]
    found = re.findall(r"it was raised in trip (\d+)\.", "".join(raised.value.__notes__))
    assert [int(k) for k in found] == trips


@pytest.mark.slow
@pytest.mark.parametrize("operator", [fdiff.jit, fdiff.grad])
def test_trips_are_found_among_many(operator):
    """By bisection, also where a loop runs from its last row, and with a condition."""
    k = np.zeros(3000, int)
    k[1234] = 7
    x = np.ones(4)
    step = lambda c, r: (c + x[0] * np.take(r[0], r[1]), None)
    for reverse in (False, True):
        rows = lambda x: (np.ones((len(k), 1)) * x, k)
        f = lambda x, reverse=reverse: fdiff.scan(step, 0.0, rows(x), None, reverse)[0]
        with pytest.raises(IndexError) as raised:
            operator(f)(x)
        assert "in trip 1234 of its loop:" in raised.value.__notes__[0]
    f = lambda x: fdiff.while_loop(
        lambda s: s[0] < 2000, lambda s: (s[0] + 1, s[1] + x[k[s[0]]]), (0, 0.0)
    )[1]
    with pytest.raises(IndexError) as raised:
        operator(f)(x)
    assert "in trip 1234 of its loop:" in raised.value.__notes__[0]


def test_errors_in_derivatives_alone_name_the_trip():
    """The slope reads the inverse, the value does not; a budget makes segments of the loop."""

    @fdiff.custom_vjp
    def first(m):
        return m[0, 0] * 1.0

    first.defvjp(lambda m: (first(m), m), lambda m, bar: (bar * np.linalg.inv(m),))
    f = lambda rows: fdiff.scan(lambda c, m: (c * first(m), None), 1.0, rows)[0]
    rows = np.stack([np.eye(2)] * 40)
    rows[13] = 1.0
    assert fdiff.jit(f)(rows) == 1
    for bytes_ in (10**9, 64):
        with fdiff.memory_budget(bytes_), pytest.raises(np.linalg.LinAlgError) as raised:
            fdiff.grad(f)(rows)
        assert "in trip 13 of its loop:" in raised.value.__notes__[0]


def test_lines_are_those_of_the_function_though_equal_bodies_share_derivatives():
    one = lambda x, k: fdiff.scan(lambda c, r: (c * x[r], None), 1.0, k)[0]  # first
    two = lambda x, k: fdiff.scan(lambda c, r: (c * x[r], None), 1.0, k)[0]  # second
    for f, words in ((one, "# first"), (two, "# second")):
        with pytest.raises(IndexError) as raised:
            fdiff.grad(f)(np.ones(2), np.array([0, 3]))
        assert words in raised.value.__notes__[0]


def test_what_bodies_raise_themselves_passes_through():
    def step(c, r):
        raise KeyError("own")

    for run in (lambda f: f, fdiff.jit, fdiff.grad):
        with pytest.raises(KeyError, match="own"):
            run(lambda x: fdiff.scan(step, 0.0, x)[0])(np.ones(3))


# --- NaN, and points without a derivative ---------------------------------------------------------


def square_roots(x):
    return fdiff.scan(lambda c, r: (c + np.sqrt(r - 0.2), None), 0.0, x)[0]


def discarded(x):
    return fdiff.scan(lambda c, r: (c + np.where(r > 0.2, np.log(r - 0.2), r), None), 0.0, x)[0]


def in_two_loops(x):
    inner = lambda i, c: fdiff.fori_loop(0, 3, lambda j, c: c + np.sqrt(x[j] - 0.1 * i), c)
    return fdiff.fori_loop(0, 3, inner, 0.0)


def by_condition(x):
    step = lambda s: (s[0] + 1, s[1] * np.sqrt(x[0] - 0.2 * s[0]))
    return fdiff.while_loop(lambda s: s[0] < 4, step, (0, 1.0))[1]


def rows_of_several(x):
    """NaN that no result reads, in a loop with several outputs."""
    last, rows = fdiff.scan(lambda c, r: (c * r, np.log(r - 0.2)), 1.0, x)
    return last + rows[0]


NANS = {
    "carry": (square_roots, "sqrt returned nan values, in trip 2 of its loop"),
    "where": (discarded, "log returned nan values, in trip 2 of its loop"),
    "nested": (in_two_loops, "sqrt returned nan values, in trips 2, 2 of its loops"),
    "while": (by_condition, "sqrt returned nan values, in trip 3 of its loop"),
    "rows": (rows_of_several, "log returned nan values, in trip 2 of its loop"),
}


@pytest.mark.parametrize("name", NANS)
@pytest.mark.parametrize("operator", [fdiff.jit, fdiff.grad])
def test_nan_in_bodies(operator, name):
    f, words = NANS[name]
    with fdiff.debug_nans(), pytest.raises(AnomalyError, match=words):
        operator(f)(ROOTS)
    seen = name in ("where", "rows")  # what is discarded does not count, there
    if not seen:
        with fdiff.autograd.detect_anomaly(), pytest.raises(AnomalyError, match=words):
            operator(f)(ROOTS)


def test_infinite_slopes_in_bodies():
    f = lambda x: fdiff.scan(lambda c, r: (c * np.sqrt(r - 0.1), None), 1.0, x)[0]
    words = r"'SqrtBackward0' returned inf values in its 0th output, in trip 2 of its loop"
    with fdiff.debug_nans(), pytest.raises(AnomalyError, match=words):
        fdiff.grad(f)(ROOTS)


KINKS = {
    "scan": (
        lambda x: fdiff.scan(lambda c, r: (c + np.abs(r - 0.1), None), 0.0, x)[0],
        "in trip 2 of its loop",
    ),
    "nested": (
        lambda x: fdiff.scan(
            lambda c, r: fdiff.scan(lambda d, q: (d + np.abs(q - 2 * r + 0.1), None), c, x), 0.0, x
        )[0],
        "in trips 2, 2 of its loops, the outermost first",
    ),
    "while": (
        lambda x: fdiff.while_loop(
            lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] + np.abs(x[s[0]] - 0.1)), (0, 1.0)
        )[1],
        "in trip 2 of its loop",
    ),
}


@pytest.mark.parametrize("name", KINKS)
def test_kinks_in_bodies(name):
    f, words = KINKS[name]
    with fdiff.kinks("raise"), pytest.raises(KinkError, match=words):
        fdiff.grad(f)(ROOTS)

"""What is done to single terms, against dense matrices: windows, regions, sums of random terms."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdiff.interpret import evaluate
from fdiff.ops.terms import Entries, LinearTerm, placed, rows_key, without
from fdiff.trace import TracedArray
from fdiff.transforms.simplify import SimplifyingTrace
from fdiff.transforms.terms.affine_maps import Maps
from fdiff.transforms.terms.sparse_slots import places_of, textbook_places
from fdiff.transforms.terms.term_merging import Merging

LONG = "FDIFF_LONG_TESTS" in os.environ
COLUMNS = 40
MAPS = Maps(COLUMNS)
SEEDS = given(st.integers(0, 10**9))


def lifter(trace):
    def lift(value):
        node = trace.lift(value)
        return TracedArray(trace, node, trace.builder.type(node))

    return lift


def matrix(terms, shape, trace):
    """The dense Jacobian that terms stand for: every entry of every term, added up."""
    coefs = [t.coef for t in terms if t.coef is not None]
    given = iter(evaluate(trace.builder.finish([c.id for c in coefs])))
    full = np.zeros((*shape, COLUMNS))
    for t in terms:
        domain = t.domain
        coef = 1.0 if t.coef is None else np.asarray(next(given))
        rows = np.arange(int(np.prod(shape))).reshape(shape)[rows_key(t.rows)]
        rows = rows.reshape((*rows.shape, *(1,) * (len(domain) - len(shape))))
        rows, cols, values = (np.broadcast_to(a, domain).ravel() for a in (rows, t.cols, coef))
        np.add.at(full.reshape(-1, COLUMNS), (rows, cols), values)
    return full


def run(rng, size, steps=(1, 1, 1, 2)):
    """A run of entries along an axis of that size."""
    step = int(rng.choice(steps))
    count = int(rng.integers(1, (size - 1) // step + 2))
    return int(rng.integers(0, size - (count - 1) * step)), count, step if count > 1 else 1


def random_term(rng, shape, lift, windows):
    """A term on one of a few windows, whose map is affine or gathered."""
    rows = windows[int(rng.integers(len(windows)))]
    extra = tuple(rng.integers(1, 4, int(rng.integers(0, 3))).tolist())
    sides = [*[n for _, n, _ in rows], *extra]
    steps = [int(rng.choice([0, 0, 1, 2, 3])) for _ in sides]
    reach = sum((n - 1) * s for n, s in zip(sides, steps, strict=True))
    first = int(rng.integers(0, max(1, min(6, COLUMNS - reach))))
    axes = list(zip(sides, steps, strict=True))
    cols = MAPS.affine(first, axes[: len(shape)], axes[len(shape) :])
    if rng.random() < 0.2:
        cols = np.array(cols)
    if rng.random() < 0.3:
        return LinearTerm(rows, cols, None, -1)
    thin = [n if rng.random() < 0.6 else 1 for n in sides]
    return LinearTerm(rows, cols, lift(rng.integers(1, 9, thin).astype(float)), -1)


def relative(rng, term, lift):
    """A term that may be put together with another: of its map, or with an axis of it tied."""
    count, cols = len(term.rows), term.cols
    pairs = [
        (k, e)
        for k, (_, n, _) in enumerate(term.rows)
        for e in range(count, cols.ndim)
        if n > 1 and cols.shape[k] == 1 and cols.shape[e] == n
    ]
    if pairs and rng.random() < 0.8:
        k, e = pairs[int(rng.integers(len(pairs)))]
        cols = np.swapaxes(cols, k, e)[(slice(None),) * e + (0,)]
        cols = np.array(cols) if rng.random() < 0.3 else cols
    thin = [
        int(n) if rng.random() < 0.6 else 1
        for n in (*[n for _, n, _ in term.rows], *cols.shape[count:])
    ]
    return LinearTerm(term.rows, cols, lift(rng.integers(1, 9, thin).astype(float)), -1)


def family(rng, shape, lift):
    """Terms that share windows and maps in several ways."""
    windows = [tuple(run(rng, n) for n in shape) for _ in range(2)]
    windows.append(tuple((0, n, 1) for n in shape))
    terms = [random_term(rng, shape, lift, windows) for _ in range(int(rng.integers(1, 4)))]
    if len(set(shape)) < len(
        shape
    ):  # a square: all entries of one axis, and of both, by extra axes
        n, count = shape[0], len(shape)
        square = [(n, 0)] * count
        terms.append(LinearTerm(windows[-1], MAPS.affine(0, square, [(n, 1), (n, n)]), None, -1))
        square = [(n, n), *[(n, 0)] * (count - 1)]
        terms.append(LinearTerm(windows[-1], MAPS.affine(0, square, [(n, 1)]), None, -1))
    for _ in range(int(rng.integers(5))):
        terms.insert(
            int(rng.integers(len(terms) + 1)),
            relative(rng, terms[int(rng.integers(len(terms)))], lift),
        )
    return terms


@settings(max_examples=2000 if LONG else 150, deadline=None)
@SEEDS
def test_terms_put_together_are_the_same_sum(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 4, int(rng.integers(1, 4))).tolist())
    shape = shape if rng.random() < 0.5 else (shape[0],) * 2
    with SimplifyingTrace("test") as trace:
        lift = lifter(trace)
        terms = family(rng, shape, lift)
        merged = Merging(MAPS, lift, np.dtype(float)).merged(terms)
        assert len(merged) <= len(terms)
        before, after = matrix(terms, shape, trace), matrix(merged, shape, trace)
    np.testing.assert_array_equal(after, before)


@settings(max_examples=1000 if LONG else 100, deadline=None)
@SEEDS
def test_regions_are_left_out_and_windows_are_placed(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 7, int(rng.integers(1, 4))).tolist())
    with SimplifyingTrace("test") as trace:
        term = random_term(rng, shape, lifter(trace), [tuple(run(rng, n) for n in shape)])
        whole = matrix([term], shape, trace)
        region = tuple(run(rng, n, (1, 2, 3)) for n in shape)
        rest = matrix(without(term, region), shape, trace)
        wide, starts, steps = [], [], []
        for n in shape:
            step, before = int(rng.choice([-2, -1, 1, 2])), int(rng.integers(3))
            wide.append(before + (n - 1) * abs(step) + 1 + int(rng.integers(2)))
            starts.append(before + (n - 1) * abs(step) if step < 0 else before)
            steps.append(step)
        moved = matrix([placed(term, starts, steps)], tuple(wide), trace)
    expected = whole.copy()
    expected[rows_key(region)] = 0
    np.testing.assert_array_equal(rest, expected)
    expected = np.zeros((*wide, COLUMNS))
    for place in np.ndindex(*shape):
        there = tuple(a + k * s for a, k, s in zip(starts, place, steps, strict=True))
        expected[there] = whole[place]
    np.testing.assert_array_equal(moved, expected)


@pytest.mark.parametrize("first", [0, 5])
def test_views_tell_where_they_lie(first):
    view = MAPS.affine(first, [(3, 2), (2, 0)], [(4, 3)])
    np.testing.assert_array_equal(
        view, first + 2 * np.arange(3)[:, None, None] + 3 * np.arange(4)[None, None]
    )
    assert MAPS.first(view) == first
    assert MAPS.first(np.array(view)) is None
    assert MAPS.key(view) == MAPS.key(MAPS.affine(first, [(3, 2), (2, 0)], [(4, 3)]))


@settings(deadline=None)
@given(seed=st.integers(0, 10**9), ordered=st.booleans())
def test_places_are_those_of_the_textbook(seed, ordered):
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 7)), int(rng.integers(1, 7)))
    numbers = [rng.integers(0, shape[0] * shape[1], rng.integers(0, 9)) for _ in range(3)]
    if ordered:
        numbers = [np.unique(numbers[0])]
    entries = [Entries(*np.divmod(own, shape[1]), None, 0) for own in numbers]
    for fast, plain in zip(places_of(entries, shape), textbook_places(entries, shape), strict=True):
        np.testing.assert_array_equal(fast, plain)
    turned = [e._replace(rows=e.cols, cols=e.rows) for e in entries]
    for fast, plain in zip(
        places_of(entries, shape, by_columns=True),
        textbook_places(turned, shape[::-1]),
        strict=True,
    ):
        np.testing.assert_array_equal(fast, plain)

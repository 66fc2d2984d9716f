"""Slices of constant width from an index of a loop: views, stores, and what is refused."""

import re

import numpy as np
import pytest

import fdiff
from fdiff.errors import TraceError

LEAVES = "a slice of constant width that leaves the array"
X = np.linspace(0.4, 1.7, 8)


def unrolled(lower, upper, body, init):
    for i in range(lower, upper):
        init = body(i, init)
    return init


def stencil(loop, x):
    return loop(1, 7, lambda i, s: s + np.prod(x[i - 1 : i + 2] ** 2) * x[i], 0.0)


def blocks(loop, x):
    """Bounds that are multiples of the index, by a step, of one axis and of two."""

    def body(i, s):
        block = x[2 * i : 2 * (i + 1)] * square[2 * i : (i + 1) * 2, 3 - i : -i + 5]
        return np.sin(s + np.sum(block)) + np.dot(x[i : i + 5 : 2], x[5 - i : 2 - i + 6])

    square = np.outer(x, x[:5])
    return loop(0, 3, body, x[0])


def stores(loop, x):
    """A vector that is carried, and of which parts are replaced."""

    def body(i, c):
        c[i : i + 2] += c[i]
        part = c[i + 1 : i + 4]
        part[1:] *= np.cos(part[0])
        c[i : i + 3] = c[i + 2 : i + 5] * part
        c[i : i + 5 : 2] = np.sin(c[2::-1])
        return c

    return loop(0, 4, body, x * 1)


def views(loop, x):
    """Views of views share memory where NumPy's do: a reshape of rows does, of columns not."""

    def body(i, c):
        c[1:3, i : i + 2].reshape(-1)[0] = 3
        block = c[i : i + 2][:, i : i + 2]
        block *= 2
        c[i : i + 2, [0, 2]] += np.sin(block[::-1])
        c[None, i : i + 2, ..., 1:2] -= c[0, 0] * c[0, i]
        c[i : i + 2].T[...] = c[i : i + 2].T * x[i : i + 4, None]
        c[i : i + 2].reshape(-1)[2] = c[0, 0] ** 2
        c[i].reshape(2, 2)[1] *= x[i]
        return c

    return loop(0, 3, body, np.outer(x[:4], x[4:]))


def searched(loop, x):
    """The index is a carry of `while_loop`, in a branch."""

    def body(carry):
        i, s = carry
        head = lambda: np.sum(x[i : i + 3])
        return i + 2, s * fdiff.cond(i > 1, head, lambda: np.max(x[i : i + 2]))

    if loop is unrolled:
        return (x[0] + x[1] * 0) * 0 + np.max(x[:2]) * np.sum(x[2:5]) * np.sum(x[4:7])
    return fdiff.while_loop(lambda carry: carry[0] < 5, body, (0, 1.0))[1]


PROGRAMS = [stencil, blocks, stores, views, searched]


@pytest.mark.parametrize("program", PROGRAMS)
def test_values_and_derivatives_are_those_of_unrolled_loops(program):
    loop, plain = (lambda x, loop=loop: program(loop, x) for loop in (fdiff.fori_loop, unrolled))
    mapped = lambda f: fdiff.vmap(fdiff.jacrev(f))
    second = lambda f: fdiff.jacfwd(fdiff.jacrev(f))
    both = np.stack([X, X[::-1] ** 2])
    for operator, x in (
        (fdiff.jit, X),
        (fdiff.jacrev, X),
        (fdiff.jacfwd, X),
        (second, X),
        (mapped, both),
    ):
        np.testing.assert_allclose(operator(loop)(x), operator(plain)(x), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
@pytest.mark.parametrize("program", [stencil, stores])
def test_tiers_agree(program, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    found = fdiff.jacrev(lambda x: program(fdiff.fori_loop, x))
    expected = fdiff.jacfwd(lambda x: program(unrolled, x))(X)
    for _ in range(2):
        np.testing.assert_allclose(found(X), expected, rtol=1e-12)


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
@pytest.mark.parametrize(("first", "last"), [(0, 7), (-1, 3), (-6, -4)])
def test_a_slice_that_numpy_would_clip_or_wrap_raises(first, last, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)

    def reads(x, n):
        return fdiff.fori_loop(first, n, lambda i, s: s + np.sum(x[i : i + 3] ** 2), 0.0)

    def writes(x, n):
        def body(i, c):
            c[i : i + 3] = 0.0
            return c

        return np.sum(fdiff.fori_loop(first, n, body, x * 1))

    for f in map(fdiff.jit, (reads, writes)):
        if first == 0:
            f(X, 6)
        for _ in range(2):
            with pytest.raises(IndexError, match=LEAVES):
                f(X, last)
    with pytest.raises(IndexError, match=LEAVES):
        fdiff.grad(lambda x: reads(x, last))(X)


def test_a_slice_longer_than_the_array_raises():
    with pytest.raises(IndexError, match=LEAVES):
        fdiff.grad(lambda x: fdiff.fori_loop(0, 1, lambda i, s: s + np.sum(x[i : i + 9]), 0.0))(X)


def test_no_entries():
    f = lambda x: fdiff.fori_loop(0, 3, lambda i, s: s + np.sum(x[i + 90 : 90 + i]), 1.0)
    assert fdiff.value_and_grad(f)(X)[0] == 1


@pytest.mark.parametrize(
    "key",
    [
        lambda i: np.s_[i:],
        lambda i: np.s_[:i],
        lambda i: np.s_[2:i],
        lambda i: np.s_[i : 2 * i],
        lambda i: np.s_[i : i * i + 1],
        lambda i: np.s_[i + 1 : i],
        lambda i: np.s_[i + 3 : i : -1],
        lambda i: np.s_[i : i + 6 : i],
        lambda i: np.s_[i.astype("i4") : i.astype("i4") + 2],
    ],
)
def test_other_slices_are_refused(key):
    words = "slices by bounds that are not known when it is traced(.|\n)*" + re.escape(
        "Slice by a constant width, such as x[i:i + 3]"
    )
    f = lambda x: fdiff.fori_loop(1, 3, lambda i, s: s + np.sum(x[key(i)]), 0.0)
    with pytest.raises(TraceError, match=words):
        fdiff.grad(f)(X)


def test_bounds_that_are_known_are_looked_at():
    """A slice by an integer from around the loop is clipped as NumPy clips it."""
    f = lambda x, k: fdiff.fori_loop(0, 2, lambda i, s: s + np.sum(x[k : k + 3]) * x[i], 0.0)
    for k in (1, 7, -1):
        expected = np.sum(X[k : k + 3]) * (X[0] + X[1])
        np.testing.assert_allclose(fdiff.jit(f)(X, k), expected)


@pytest.mark.parametrize("shape", [(3, 2, 2), (2, 3, 4)])
def test_a_reshape_of_a_picked_row_is_a_view_where_numpy_has_one(shape):
    def f(x):
        x = x * 1
        k = np.argmin(x[:, 0, 0])
        x[k].reshape(-1)[1] = 7
        x[:, k].reshape(-1)[0] = 8
        x[..., k - 1].T.reshape(-1)[0] = 9
        x[k, :, ::2].reshape(-1)[1] = 10
        return x

    x = np.linspace(1, 2, np.prod(shape)).reshape(shape)
    np.testing.assert_array_equal(fdiff.jit(f)(x), f(x))


TRIPS = 3


def random_window(rng, n):
    """A slice of constant width of an axis of `n` entries, inside of it for all trips."""
    width = int(rng.integers(1, n - TRIPS + 2))
    start = int(rng.integers(0, n - TRIPS - width + 2))
    return [
        lambda i: slice(i + start, i + (start + width)),
        lambda i: slice(n - width - start - i, n - i - start),
        lambda i: slice(2 * i, 2 * (i + 1)) if n >= 2 * TRIPS else slice(i, i + 1),
        lambda i: slice(i, i + 3, 2) if n >= TRIPS + 2 else slice(i, i + 1),
    ][rng.integers(4)]


def random_key(rng, shape):
    """A window, beside other windows, integers, indices of the loop and reversed axes."""
    items = [random_window(rng, shape[0])]
    for n in shape[1 : rng.integers(1, len(shape) + 1)]:
        at = int(rng.integers(n))
        others = [lambda i: i, lambda i, at=at: at, lambda i: slice(None, None, -1)]
        items.append([random_window(rng, n), random_window(rng, n), *others][rng.integers(5)])
    ends = [([lambda i: None], []), ([], [lambda i: ...]), ([], []), ([], [])]
    before, behind = ends[rng.integers(4)]
    items = [*before, *items, *behind]
    return lambda i: tuple(item(i) for item in items)


def replaced(c, key, x):
    c[key] = np.sin(c[key]) * x


def added_to(c, key, x):
    c[key] += np.mean(c[key]) * x


def scaled(c, key, x):
    part = c[key]
    part *= np.cos(part.ravel()[0])


def reshaped(c, key, x):
    c[key].reshape(-1)[-1] = np.sum(c[key]) * x


def transposed(c, key, x):
    c[key].T[...] = c[key].T[::-1] * x


def reversed_part(c, key, x):
    part = c[key][..., ::-1]
    part[...] = part * x + np.sum(c[key]) * 0.1


STORES = [replaced, added_to, scaled, reshaped, transposed, reversed_part]


@pytest.mark.parametrize("seed", range(18))
def test_random_views_and_stores(seed):
    rng = np.random.default_rng(seed)
    shape = (6, 5, 4)[: rng.integers(1, 4)]
    chosen = [(STORES[k], random_key(rng, shape)) for k in rng.permutation(6)[:3]]

    def program(loop, x):
        def body(i, c):
            for store, key in chosen:
                store(c, key(i), x.ravel()[i])
            return c

        return loop(0, TRIPS, body, x * 1)

    x, bar = rng.uniform(0.2, 1, shape), rng.normal(size=shape)
    loop, plain = (lambda x, loop=loop: program(loop, x) for loop in (fdiff.fori_loop, unrolled))
    pulled = lambda f: fdiff.grad(lambda x: np.sum(f(x) * bar))
    np.testing.assert_allclose(fdiff.jit(loop)(x), plain(x), rtol=1e-12)
    for operator in (fdiff.jacfwd, pulled):
        np.testing.assert_allclose(operator(loop)(x), operator(plain)(x), rtol=1e-11, atol=1e-13)
    batch = np.stack([x, x**2])
    np.testing.assert_allclose(fdiff.vmap(loop)(batch), [*map(plain, batch)], rtol=1e-12)


WEIGHTS = np.arange(6.0).reshape(3, 2) + 1.0


def stored_at(z, i):
    """Stores into views that an index of a trace around names."""
    w = np.zeros((3, 2)) + 0.1 * z[0]
    w[i] += z[:2]
    row, column = w[i], w.T[0]
    row *= z[1]
    column[i : i + 1] += z[1] * z[0]
    return np.sum(WEIGHTS * w**2)


def slopes(x):
    inner = lambda i, s: s + fdiff.grad(lambda z: stored_at(z, i))(x)[0]
    return fdiff.fori_loop(0, 3, inner, 0.0)


def test_views_by_an_index_of_a_trace_around():
    x = np.array([0.3, 0.7, 1.0])
    plain = lambda x: sum(fdiff.grad(lambda z: stored_at(z, i))(x)[0] for i in range(3))
    step = 1e-20j  # `plain` by complex steps of `stored_at`
    exact = sum(np.imag(stored_at(x + np.array([step, 0, 0]), i)) / 1e-20 for i in range(3))
    np.testing.assert_allclose([slopes(x), plain(x)], exact, rtol=1e-13)
    np.testing.assert_allclose(fdiff.grad(slopes)(x), fdiff.grad(plain)(x), rtol=1e-12)

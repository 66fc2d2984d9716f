"""Loops whose trips do not wait for each other are batches, and the others stay loops."""

import numpy as np
import pytest

import fdiff
from fdiff.transforms.prepare import loop_batches

N = 6


def unrolled(f, init, xs, *, reverse=False):
    outs = [None] * len(xs)
    for k in reversed(range(len(xs))) if reverse else range(len(xs)):
        init, outs[k] = f(init, xs[k])
    return init, None if outs[0] is None else np.stack(outs)


def rows(scan, p, x):
    return np.sum(scan(lambda _, r: (None, np.sin(r * p[0]) * np.exp(-r)), None, x)[1] ** 2)


def total(scan, p, x):
    return scan(lambda c, r: (c + np.sin(r * p[0]), None), p[1], x)[0]


def difference_from_the_end(scan, p, x):
    return scan(lambda c, r: (c - p[0] * r**3, r * r), p[1], x, reverse=True)[0]


def sums_beside_rows(scan, p, x):
    def step(carry, r):
        s, kept, t = carry
        return (np.cos(r) * kept + s, kept, t - r * p[1] * np.ones(3)), r * kept + p[0]

    (s, kept, t), outs = scan(step, (p[0], p[1], p), x)
    return s * kept + np.sum(t**2) + np.sum(outs**2)


def of_matrices(scan, p, x):
    table = x[:, None, None] * np.outer(p, p) + np.eye(3)
    return np.sum(scan(lambda c, m: (c + np.linalg.solve(m, p), None), p, table)[0])


def within(scan, p, x):
    """The inner loop is a sum, the outer one is not."""
    step = lambda c, r: (np.tanh(c + scan(lambda s, q: (s + q * r, None), 0.0 * r, p)[0]), None)
    return scan(step, p[0], x)[0]


BATCHES = {f.__name__: f for f in (rows, total, difference_from_the_end, sums_beside_rows)}
BATCHES |= {"of matrices": of_matrices}


def loops(f, *args):
    """The loops of a function, and of their bodies."""
    tapes, found = [fdiff.make_tape(f, *args)], 0
    while tapes:
        tape = tapes.pop()
        found += sum(node.primitive.name == "loop" for node in tape.nodes)
        tapes += [body for _, _, body in tape.bodies()]
    return found


@pytest.mark.parametrize("name", [*BATCHES, "within"])
def test_batches_are_unrolled_loops(name, rng):
    f = BATCHES.get(name, within)
    p, x = rng.uniform(0.5, 1.5, 3), rng.uniform(0.5, 1.5, N)
    ours, plain = (lambda p, x, scan=scan: f(scan, p, x) for scan in (fdiff.scan, unrolled))
    assert loops(ours, p, x) == (name == "within")
    both = {"argnums": (0, 1)}
    several = np.stack([x, 0.7 * x])
    for operator, given in (
        (fdiff.jit, x),
        (lambda f: fdiff.grad(f, **both), x),
        (lambda f: fdiff.hessian(f, **both), x),
        (lambda f: fdiff.vmap(fdiff.jacfwd(f), in_axes=(None, 0)), several),
    ):
        found, expected = operator(ours)(p, given), operator(plain)(p, given)
        for a, b in zip(flat(found), flat(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def flat(tree):
    return [x for part in tree for x in flat(part)] if isinstance(tree, tuple) else [tree]


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.int64])
def test_dtypes_of_sums(dtype):
    x = np.arange(1, 9).astype(dtype)
    f = lambda x: fdiff.scan(lambda c, r: (c + r * r, r + r), dtype(3), x)
    assert loops(f, x) == (dtype == np.int64)
    (last, outs), (expected, plain) = fdiff.jit(f)(x), f(x)
    assert last.dtype == outs.dtype == dtype
    np.testing.assert_allclose(last, expected, rtol=1e-6)
    np.testing.assert_array_equal(outs, plain)


STAY = {
    "a carry is read": lambda x: fdiff.scan(lambda c, r: (c + r * c, None), 1.0, x)[0],
    "a carry is given out": lambda x: fdiff.scan(lambda c, r: (c + r, c), 0.0, x)[1],
    "a carry is the subtrahend": lambda x: fdiff.scan(lambda c, r: (r - c, None), 0.0, x)[0],
    "a sum is given out": lambda x: fdiff.scan(lambda c, r: (c + r, c + r), 0.0, x)[1],
    "carries that swap": lambda x: fdiff.scan(
        lambda c, r: ((c[1], c[0] + r), None), (x[0], x[1]), x
    )[0][0],
    "a branch": lambda x: fdiff.scan(
        lambda c, r: (c + fdiff.cond(r > 1, np.sin, np.cos, r), None), 0.0, x
    )[0],
    "a number of trips that is traced": lambda x: fdiff.fori_loop(
        0, np.argmax(x), lambda i, c: c + x[i], 0.0
    ),
    "wide sums": lambda x: fdiff.scan(
        lambda c, r: (c + r * np.ones(5000), None), np.zeros(5000), x
    )[0],
}
STAY["large products"] = lambda x: fdiff.scan(
    lambda c, r: (c + np.sum((r * np.ones((20, 20)) + np.eye(20)) @ np.ones((20, 20))), None),
    0.0,
    x,
)[0]


@pytest.mark.parametrize("name", STAY)
def test_what_waits_stays_a_loop(name, rng):
    f, x = STAY[name], rng.normal(size=N)
    tape = fdiff.make_tape(f, x)
    assert {n.primitive.name for n in tape.nodes} & {"loop", "while_loop"}
    np.testing.assert_allclose(fdiff.jit(f)(x), f(x), rtol=1e-13)


def test_long_loops_of_large_bodies_stay_loops(monkeypatch):
    f = lambda x: fdiff.scan(lambda c, r: (c + np.sin(r), None), 0.0, x)[0]
    assert loops(f, np.ones(100)) == 0
    monkeypatch.setattr(loop_batches, "MOST", 1000)
    assert loops(f, np.ones(100)) == 1


def test_trips_over_wide_rows_are_batches(rng):
    """One by one, rows of the size of a cache were read anew for each nest of loops."""
    p, x = rng.uniform(0.5, 1.5, 2), rng.normal(size=(N, 5000))
    f = lambda p, x, scan=fdiff.scan: scan(
        lambda c, r: (c + np.sum(np.tanh(r * p[0] + p[1])), None), p[0], x
    )[0]
    assert loops(f, p, x) == 0
    found = fdiff.jit(fdiff.value_and_grad(f, argnums=(0, 1)))(p, x)
    expected = fdiff.value_and_grad(lambda p, x: f(p, x, unrolled), argnums=(0, 1))(p, x)
    for a, b in zip(flat(found), flat(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_no_trips_keep_their_types():
    f = lambda x: fdiff.scan(lambda c, r: (c + np.sin(r), r), np.float64(-0.0), x)
    last, outs = fdiff.jit(f)(np.ones(0))
    assert np.signbit(last)
    assert outs.shape == (0,)


def test_jacobians_of_batches_are_sparse(rng):
    x = rng.normal(size=20)
    f = lambda x: fdiff.scan(lambda _, r: (None, np.sin(r) * r), None, x)[1]
    found = fdiff.jacobian(f, sparse=True)(x)
    assert found.nnz == 20
    np.testing.assert_allclose(found.toarray(), np.diag(np.cos(x) * x + np.sin(x)), rtol=1e-13)


COUNTED = {
    "all": (lambda x, i: x[i], 0, 9),
    "neighbours": (lambda x, i: x[i + 1] * x[i - 1], 1, 8),
    "every second": (lambda x, i: x[2 * i + 1], 0, 4),
    "from the end": (lambda x, i: x[8 - i], 0, 9),
    "wrapped": (lambda x, i: x[i - 2], 0, 5),
    "rows": (lambda x, i: np.sum(x.reshape(3, 3)[i] ** 2), 0, 3),
}


@pytest.mark.parametrize("name", COUNTED)
def test_entries_at_equally_spaced_places_are_slices(name, rng):
    entry, lower, upper = COUNTED[name]
    x = rng.normal(size=9)
    f = lambda x: fdiff.fori_loop(lower, upper, lambda i, c: c + np.sin(entry(x, i)), 0.0)
    plain = lambda x: sum(np.sin(entry(x, i)) for i in range(lower, upper))
    names = {node.primitive.name for node in fdiff.make_tape(fdiff.grad(f), x).nodes}
    assert ("gather" in names) == (name in ("from the end", "wrapped"))
    np.testing.assert_allclose(fdiff.jit(f)(x), plain(x), rtol=1e-13)
    np.testing.assert_allclose(fdiff.grad(f)(x), fdiff.grad(plain)(x), rtol=1e-13)


@pytest.mark.parametrize(("shift", "first", "last"), [(3, 6, 8), (-12, 0, 2)])
def test_entries_that_are_not_there_are_an_error(shift, first, last):
    """The first trip that fails, which of the gradient alone is the last one."""
    f = lambda x: fdiff.fori_loop(0, 9, lambda i, c: c + x[i + shift], 0.0)
    for run, trip in ((fdiff.jit(f), first), (fdiff.grad(f), last)):
        with pytest.raises(IndexError) as raised:
            run(np.ones(9))
        assert f"in trip {trip} of its loop" in raised.value.__notes__[0]


def test_windows_stay_in_loops():
    f = lambda x: fdiff.fori_loop(1, 8, lambda i, c: c + np.prod(x[i - 1 : i + 2]), 0.0)
    assert loops(f, np.ones(9)) == 1

"""Random index tuples, read, differentiated and stored through: NumPy says what each means.

Integers, slices, new axes, an Ellipsis (also one that stands for no axis), lists, index arrays,
masks, 0-d arrays and 0-d truth values, some of which do not fit. The gradient of a read is what
`numpy.bincount` adds up at the positions that the same index picks out of ``arange``.
"""

import warnings

import numpy as np
import pytest

import fdiff
from fdiff import autograd

SHAPES = [
    (),
    (3,),
    (1,),
    (0,),
    *4 * [(2, 3), (3, 3), (2, 3, 4), (2, 2, 2), (1, 3, 2), (2, 3, 2, 2), (2, 2, 2, 2)],
]
QUICK, ALL, CHUNK = 600, 30_000, 1_000


def index_array(rng, n, shape):
    """Positions on an axis of `n` entries; now and then one beyond it."""
    beyond = rng.random() < 0.02
    return rng.integers(-n - beyond, max(n + beyond, 1 - n), shape)


def item(rng, n, rest, shape):
    """One item of an index, and how many axes it takes up.

    `rest` are the sizes of the axes that are left, `shape` is that of index arrays.
    """
    kind = rng.integers(13)
    if kind < 2:
        return int(index_array(rng, n, ())), 1
    if kind == 2:
        bounds = [None if rng.random() < 0.4 else int(k) for k in rng.integers(-4, 5, 2)]
        return slice(*bounds, rng.choice([None, 1, 2, -1, -2])), 1
    if kind == 3:
        return slice(None), 1
    if kind == 4:
        return None, 0
    if kind == 5 and rng.random() < 0.5:
        return rng.choice([True, False, np.True_, np.array(True), np.array(False)]), 0
    if kind == 6:
        return rng.choice([np.int64, np.array])(index_array(rng, n, ())), 1
    if kind == 7:
        return rng.random(n) < 0.6, 1
    if kind == 8 and len(rest) > 1:
        return rng.random(rest[:2]) < 0.5, 2
    if kind == 9:
        return index_array(rng, n, shape).tolist(), 1
    return index_array(rng, n, shape).astype(rng.choice([np.int64, np.int32])), 1


def index_tuple(rng):
    """A shape, and an index for an array of it."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    common = [(), (2,), (2,), (1,), (2, 2), (2, 1), (0,)][rng.integers(7)]
    key, axis = [], 0
    while axis < len(shape) and rng.random() < 0.95:
        each, axes = item(rng, shape[axis], shape[axis:], common)
        key.append(each)
        axis += axes
    if rng.random() < 0.03:
        key.append(0)  # one too many, mostly
    for _ in range(int(rng.random() < 0.5) + int(rng.random() < 0.02)):
        key.insert(int(rng.integers(len(key) + 1)), Ellipsis)
    return shape, key[0] if len(key) == 1 and rng.random() < 0.5 else tuple(key)


def index_tuples(count, seed=0):
    rng = np.random.default_rng(seed)
    return [index_tuple(rng) for _ in range(count)]


def outcome(action):
    """What a call gives, or the class of its error."""
    try:
        return action()
    except (IndexError, ValueError, TypeError) as error:
        return type(error)


def same(actual, expected):
    if isinstance(actual, type) or isinstance(expected, type):
        assert actual is expected, f"{actual!r}, where NumPy has {expected!r}"
        return
    assert np.shape(actual) == np.shape(expected)
    np.testing.assert_array_equal(actual, expected)


def stored(x, key, values):
    out = x.copy()
    out[key] = values
    return out


def added(x, key, values):
    out = x.copy()
    np.add.at(out, key, values)
    return out


def check_read(x, key, values, spots):
    """Reads, in both modes, traced and recorded."""
    cotangent = np.bincount(spots.ravel(), values.ravel(), x.size).reshape(x.shape)
    value, bar = fdiff.vjp(lambda x: x[key], x, values)
    same(value, x[key])
    same(bar, cotangent)
    same(fdiff.jvp(lambda x: x[key], (x,), (2 * x,))[1], 2 * x[key])
    leaf = autograd.tensor(x, requires_grad=True)
    out = leaf[key]
    same(np.asarray(out.detach()), x[key])
    (grad,) = autograd.grad(out, (leaf,), values)
    same(np.asarray(grad), cotangent)


def check_stores(x, key, values, spots):
    """``out[key] = values`` and `numpy.add.at`, which differ where an entry is met twice."""
    bar = np.arange(1.0, 1 + x.size).reshape(x.shape)
    if not spots.size or np.unique(spots).size == spots.size:
        kept = np.isin(np.arange(x.size), spots, invert=True).reshape(x.shape)
        value, bars = fdiff.vjp(lambda x, v: stored(x, key, v), (x, values), bar)
        same(value, stored(x, key, values))
        same(bars[0], bar * kept)
        same(bars[1], bar[key])
        a, v = autograd.tensor(x, requires_grad=True), autograd.tensor(values, requires_grad=True)
        out = stored(a, key, v)
        same(np.asarray(out.detach()), value)
        for actual, expected in zip(autograd.grad(out, (a, v), bar), bars, strict=True):
            same(np.asarray(actual), expected)
    value, bars = fdiff.vjp(lambda x, v: added(x, key, v), (x, values), bar)
    same(value, added(x, key, values))
    same(bars[0], bar)
    same(bars[1], bar[key])


def check(shape, key):
    x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    expected = outcome(lambda: x[key])
    if isinstance(expected, type):
        same(outcome(lambda: fdiff.jit(lambda x: x[key])(x)), expected)
        same(outcome(lambda: fdiff.grad(lambda x: np.sum(x[key]))(x)), expected)
        same(outcome(lambda: autograd.tensor(x, requires_grad=True)[key]), expected)
        return
    spots = np.arange(x.size).reshape(shape)[key]
    values = 10.0 + np.arange(np.size(expected)).reshape(np.shape(expected))
    check_read(x, key, values, np.asarray(spots))
    check_stores(x, key, values, np.asarray(spots))


def failures(cases):
    """The cases that fail, each as text with the first line of what went wrong."""
    out = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fdiff.errors.RetraceWarning)
        for shape, key in cases:
            try:
                check(shape, key)
            except Exception as error:  # noqa: BLE001 - all are told
                out.append(
                    f"{shape} {key!r}: {type(error).__name__}: {str(error).strip().splitlines()[0]}"
                )
    return out


@pytest.mark.slow
def test_random_index_tuples_mean_what_they_mean_to_numpy():
    assert not failures(index_tuples(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 1 + ALL // CHUNK))
def test_many_random_index_tuples_mean_what_they_mean_to_numpy(seed):
    assert not failures(index_tuples(CHUNK, seed))


def test_the_tuples_have_what_they_are_to_test():
    """An Ellipsis for no axis among arrays, errors, masks and empty results, each often enough."""
    counts = dict.fromkeys(("for no axis", "errors", "empty"), 0)
    for shape, key in index_tuples(QUICK):
        x = np.empty(shape)
        out = outcome(lambda x=x, key=key: x[key])
        counts["errors"] += isinstance(out, type)
        counts["empty"] += not isinstance(out, type) and not np.size(out)
        items = key if isinstance(key, tuple) else ()
        if sum(i is Ellipsis for i in items) == 1 and not isinstance(out, type):
            at = next(k for k, i in enumerate(items) if i is Ellipsis)
            rest = tuple(i for i in items if i is not Ellipsis)
            without = outcome(lambda x=x, rest=rest: x[rest])
            sides = [
                any(isinstance(i, list | np.ndarray) for i in part)
                for part in (items[:at], items[at + 1 :])
            ]
            same_axes = not isinstance(without, type) and sum(i is not None for i in rest) == x.ndim
            counts["for no axis"] += all(sides) and same_axes
    assert counts["for no axis"] >= 20
    assert counts["errors"] >= 20
    assert counts["empty"] >= 100

# ruff: noqa: B008, E501, ICN001 - the ways of users are what is tested; tables
"""Arrays that a traced function makes, traced values stored into them, and who sees any of it.

Values are those of plain NumPy, derivatives those of differences. The arrays of the user, other
threads and code that is not traced see nothing.
"""

import copy
import functools
import gc
import io
import pickle
import sys
import threading
import weakref
from itertools import pairwise

import array_makers
import numpy
import numpy as np
import pytest
from numpy import (
    arange,
    array,
    asarray,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    identity,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)

import fdiff

X = np.array([1.7, -0.6, 0.9])
DATA = np.array([0.5, 2.0, -1.0])
MAKERS = {"zeros": np.zeros, "nested": [np.ones]}
MAKE = np.zeros
THREE_ZEROS = functools.partial(np.zeros, 3)
CASES = []


def case(f):
    CASES.append(f)
    return f


def differences(f, x):
    """Derivative along each entry: central differences, extrapolated twice."""
    columns = []
    for e in np.eye(x.size):
        rows = [(f(x + h * e) - f(x - h * e)) / (2 * h) for h in (4e-3, 2e-3, 1e-3)]
        for factor in (4.0, 16.0):
            rows = [(factor * b - a) / (factor - 1) for a, b in pairwise(rows)]
        columns.append(rows[0])
    return np.array(columns)


# --- names under which NumPy's functions are found --------------------------------------------------


@case
def imported_by_name(x):
    a, b, c, d = zeros(3), ones(3), full(3, 2.0), empty((2, 2))
    a[0] = x[1]
    a[1:] = x[:2] ** 2
    b[1] = x[0]
    c[:2] = x[1:]
    d[0] = x[:2]
    d[1, :] = x[1]
    return np.sum(a * b * c * arange(3.0)) + np.linalg.det(d + eye(2))


@case
def more_by_name(x):
    a, b, c, d = eye(3), identity(3), array([1.0, 2.0, 3.0]), linspace(0, 1, 3)
    e, f = array([[1, 2], [3, 4]], float), asarray([1.0, 2.0, 3.0])
    a[0, 2] = x[2]
    b[1] = x * x
    c[1] = x[0]
    d[2] = x[1]
    e[1] = x[:2]
    f[0] = x[2]
    return (a @ b @ c) @ (d * f) + np.prod(e)


@case
def like_others(x):
    a, b, c, d = zeros_like(x), empty_like(x), ones_like(x), full_like(x, x[0])
    a[0], c[1], d[1] = x[0], x[2], 1.0
    b[:] = x
    e, f, g, h = zeros_like(DATA), np.array(DATA), np.copy(DATA), DATA.copy()
    e[1] = x[0]
    f[1:] = x[1:]
    g[0] = x[2]
    h += x
    return a @ b + c @ d + e @ f + np.sum(g * h)


@case
def through_other_names(x):
    import numpy as another
    from numpy import zeros as made

    a, b, c, d = numpy.zeros(3), another.zeros(3), made(3), getattr(np, "zeros")(3)  # noqa: B009 - as users write it
    e, f, g, h = MAKE(3), MAKERS["zeros"](3), MAKERS["nested"][0](3), THREE_ZEROS()
    for k, each in enumerate((a, b, c, d, e, f, g, h)):
        each[k % 3] = x[k % 3] ** (k + 1)
    i, j = map(np.zeros, [3, 2])
    i[1], j[0] = x[0], x[1]
    return sum(np.sum(v) for v in (a, b, c, d, e, f, g, h)) + np.sum(i) * np.sum(j)


@case
def through_a_array_makers(x):
    a, b = array_makers.make_zeros(3), array_makers.make_full(3, value=2)
    array_makers.put(a, 1, x[0])
    array_makers.put(b, slice(0, 2), x[1:])
    c, d = array_makers.make(2), array_makers.with_default(x[2])
    c[1] = x[0] * x[1]
    e = array_makers.SHARED.copy()
    e[0] = x[0]
    return np.sum(a * b) + np.sum(c * d + c) + e @ x


@case
def through_defaults(x):
    def inner(v, make=np.zeros, buffer=np.zeros(2)):
        buffer[0] = v
        out = make(2)
        out[1] = v * v
        return np.sum(buffer) * np.sum(out)

    return inner(x[0]) + inner(x[1])


@case
def through_the_results_of_numpy(x):
    a, b, c = np.zeros(3) + 1, -np.ones(3), np.arange(3.0)[::-1]
    d, e, f = np.tile(np.zeros(2), 2), np.where(np.arange(3) > 1, 1.0, 2.0), np.eye(3) @ np.ones(3)
    g, h, i = DATA * 2, np.arange(3).astype(float), np.array(np.arange(3.0).tolist())
    j, k = np.loadtxt(io.StringIO("1 2 3")), np.linalg.inv(np.eye(3) * 2)
    for n, each in enumerate((a, b, c, d, e, f, g, h, i, j)):
        each[n % 3] = x[n % 3] ** (n // 3 + 1)
    k[1] = x
    return np.sum(a * b * c) + np.sum(d) * np.sum(e * f) + np.sum(g * h * i * j) + np.prod(k + 1)


# --- what is stored -------------------------------------------------------------------------------


@case
def dtypes_cut_off_what_is_stored(x):
    a, b, c = arange(3), zeros(3, int), zeros(3, np.uint8)
    a[1], b[0] = x[0] * 9.3, x[1] * 9.3
    c[:] = abs(x) * 9.3
    d = arange(3)
    d[x > 0] = x[x > 0] * 9.3
    e, f = zeros(3, bool), zeros(3, bool)
    e[1], e[2] = x[0] > 0, x[1]
    f[:] = x > 0
    return np.sum((a + b + c + d) * x) + np.sum(x[f] ** 2) + np.sum(x * e)


@case
def complex_arrays(x):
    a = np.zeros(3, complex)
    a[0], a[1] = x[0], 1j * x[1]
    a[2] = x[2] + 2j * x[0]
    return np.sum(np.abs(a) ** 2) + np.sum(a).imag


@case
def views_made_before_and_after(x):
    a = np.zeros((2, 3))
    row, turned, flat, raveled = a[0], a.T, a.reshape(-1), a.ravel()
    a[0, 0] = x[0]
    after = a[1]
    row[1], turned[2, 1], flat[3] = x[1], x[2], x[0] * x[1]
    after[1] += 7
    raveled[4] *= x[2]
    weights = np.arange(6.0).reshape(2, 3)
    return np.sum(a * weights) + np.sum(row * turned[:, 0].sum()) + np.sum(flat) * np.prod(after)


@case
def views_of_other_strides(x):
    a = np.zeros(4)
    windows = np.lib.stride_tricks.sliding_window_view(a, 2)
    pairs = np.lib.stride_tricks.as_strided(a, (2, 2), (16, 8))
    diagonal = np.einsum("ii->i", square := np.zeros((3, 3)))
    a[1:] = x
    diagonal[:] = x
    pairs[1, 0] += x[0]
    plain = a.view(np.ndarray)
    plain[0] = 2.0
    return np.sum(np.prod(windows, axis=1)) + np.linalg.det(square + 0.5) + np.sum(pairs**2)


@case
def windows_of_traced_arrays(x):
    a = np.outer(x, x + 1.0)
    windows = np.lib.stride_tricks.sliding_window_view(a, (2, 3))
    twice = np.lib.stride_tricks.sliding_window_view(a.T[::-1], (2, 2), axis=(-1, -1))
    blocks = np.lib.stride_tricks.as_strided(a, (2, 3, 2), (16, 8, 16))
    a[1] = x**2
    return (
        np.sum(np.prod(windows, axis=(2, 3)))
        + np.sum(np.prod(twice, axis=2))
        + np.sum(blocks[0] * blocks[1])
    )


@case
def split_and_joined(x):
    a = np.zeros(6)
    left, right = np.split(a, 2)
    left[:], right[:] = x, x * x
    rows = [np.zeros(3) for _ in range(2)]
    rows[0][:] = x
    table = np.array(rows)
    table[1] = x * 2
    out = np.empty((0, 3))
    for row in rows:
        out = np.vstack([out, row + x])
    return a @ np.arange(6.0) + np.sum(np.prod(table, axis=0)) + np.sum(rows[1]) + np.sum(out**2)


@case
def containers(x):
    state = {"a": [np.zeros(2) for _ in range(3)], "b": (np.zeros(3),)}
    for i in range(3):
        state["a"][i][i % 2] = x[i]
    state["b"][0][:] = np.sum(state["a"][0]) * x
    return sum(np.sum(v * v) for v in state["a"]) + np.prod(state["b"][0])


@case
def instances_of_classes(x):
    sums = array_makers.Accumulator(3)
    sums.add(0, x[0]).add(1, x[1] ** 2)
    sums.row[2] = x[2]
    return sums.total() * x[2] + sums.table[1, 1]


@case
def loops_over_rows(x):
    a, b = np.zeros((3, 2)), np.zeros(3)
    for row, v in zip(a, x, strict=True):
        row[0], row[1] = v, v * v
    for i in np.ndindex(3):
        b[i] = x[i] ** 2
    for i, v in np.ndenumerate(b):
        b[i] = v * 2 + i[0]
    return np.sum(a[:, 0] * a[:, 1]) + np.sum(b * x) + sum(v for v in b) + max(b)


@case
def functions_that_write(x):
    a, b, c, d = np.zeros(3), np.zeros(3), np.zeros((2, 2)), np.zeros(2)
    a.fill(x[0])
    np.put(a, [1], x[1])
    np.copyto(b, x)
    np.fill_diagonal(c, x[0])
    np.add.at(d, [0, 0, 1], x)
    b.sort()
    e, f = np.zeros(4), np.empty((2, 2))
    e.flat[1], e.flat[2:] = x[0], x[1:]
    f.flat = x[:2]
    return a @ b + np.sum(c) * np.prod(d) + e @ np.arange(4.0) + np.linalg.det(f + c)


OUTS = """
np.multiply(x, x, out=o); np.sin(x, o); np.add(x, 1, out=o, where=x > 0); np.cumsum(x, out=o); x.cumsum(out=o)
x.cumprod(0, None, o); x.clip(0, 1, out=o); x.clip(0, 1, o); np.clip(x, 0, 1, o); x.round(0, out=o); x.round(0, o)
np.round(x, 0, out=o); m.sum(axis=0, out=o); m.prod(0, out=o); m.mean(0, out=o); m.std(0, out=o); m.var(0, out=o)
m.max(0, o); m.min(axis=0, out=o); np.max(m, 0, o); np.sum(m, axis=0, out=o); np.add.reduce(m, axis=0, out=o)
m.dot(x, out=o); m.dot(x, o); np.dot(m, x, out=o); np.matmul(m, x, out=o); m.take([0, 4, 8], out=o); m.diagonal().round(0, out=o)
np.take(m, [0, 4, 8], out=o); m.compress([True, False, True], axis=0, out=np.zeros((2, 3))); np.add.accumulate(x, out=o)
np.concatenate([x[:1], x[1:]], out=o); np.stack([x[0], x[1], x[2]], out=o); np.einsum("ij,j->i", m, x, out=o)
np.median(m, axis=0, out=o); np.nanmax(m, axis=0, out=o); m.argmax(axis=0, out=k); m.argmin(0, k); m.any(axis=0, out=k)
np.trace(m, out=s); m.trace(out=s); x.sum(out=s); np.sum(x, out=s); x.all(out=s); np.add.reduce(x, out=s)
np.arange(3.0).clip(x[0], 9.0, out=o); np.eye(3).dot(x, o); np.ones(3).cumsum(out=o)
"""


def with_out(text):
    def f(x):
        m = np.outer(x, x) + np.diag(x)
        o, k, s = np.zeros(3), np.zeros(3, int), np.zeros(())
        o[0] = x[0]
        given = {"np": np, "x": x, "m": m, "o": o, "k": k, "s": s}
        result = eval(text, given)
        return (
            np.sum(o * np.array([1.0, 2.0, 3.0])) * x[1] + np.sum(k * x) + s * x[0] + np.sum(result)
        )

    f.__name__ = text
    return f


CASES += [with_out(text.strip()) for text in OUTS.replace("\n", ";").split(";") if text.strip()]

METHODS = """
a.take(k); a.repeat(abs(k)); a.clip(x[1], x[0]); a.compress(x > 0); a.sum(initial=x[0]); a.max(initial=x[0] + 5); a.dot(x)
a.searchsorted(x); a.prod(initial=x[0]); a.sum(where=x > 0); i.choose([x, x * x, -x]); a[k]; a[k[0]]; np.eye(3)[k] @ x
a.mean(where=x > 0); a.min(initial=x[1], where=x > 0); a.cumsum() * x; a.std() * x; a.astype(x.dtype) * x; a.tolist()[1] * x
"""


def with_method(text):
    def f(x):
        names = {
            "np": np,
            "x": x,
            "a": np.arange(3.0),
            "i": np.array([0, 2, 1]),
            "k": x.astype(int),
        }
        return np.sum(eval(text, names)) * x[0]

    f.__name__ = text
    return f


CASES += [with_method(t.strip()) for t in METHODS.replace("\n", ";").split(";") if t.strip()]


# --- code as it is written ------------------------------------------------------------------------


@case
def swaps(x):
    a = np.zeros(3)
    a[:] = x
    a[0], a[1] = a[1], a[0]
    a[[0, 2]] = a[[2, 0]]
    return a @ np.arange(3.0)


@case
def diffusion(x):
    u = np.zeros((4, 4))
    u[0, :], u[-1] = x[0], x[1]
    for _ in range(3):
        old = u.copy()
        u[1:-1, 1:-1] = 0.25 * (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:])
    return np.sum(u**2) * x[2]


@case
def recurrences(x):
    a = np.zeros(5)
    a[0] = x[0]
    for i in range(1, 5):
        a[i] = a[i - 1] * x[i % 3] + i
    memo = {}

    def fibonacci(n):
        if n not in memo:
            memo[n] = x[0] if n < 2 else fibonacci(n - 1) + fibonacci(n - 2) * x[1]
        return memo[n]

    @functools.lru_cache
    def cached(n):
        return x[1] if n < 2 else cached(n - 1) * x[2] + cached(n - 2)

    return a[-1] + fibonacci(5) + cached(5)


@case
def generators(x):
    def grow():
        a = np.zeros(3)
        for i in range(3):
            a[i] = x[i]
            yield a

    return sum(np.sum(a**2) for a in grow())


@case
def copies(x):
    a = np.zeros(3)
    b = copy.deepcopy(a)
    b[0], a[1] = x[0], x[1]
    c = copy.copy(b)
    c[2] = x[2]
    d = np.array(c)
    d[0] = 5.0
    return np.sum(a) + np.sum(b) * np.sum(c**2) + np.prod(d + 1)


@case
def augmented(x):
    a, s = np.zeros(3), 0.0
    a += x
    a[1:] *= x[:2]
    a /= 2
    a **= 2
    a -= 1
    for v in a:
        s += v * v
    t = np.float64(0)
    t += s
    return t * np.sum(a)


@case
def read_only_arrays(x):
    a, b = np.zeros(3), np.broadcast_to(np.zeros(1), 3)
    a.flags.writeable = False
    total = x[0]
    for array_ in (a, b):
        try:
            array_[0] = x[0]
        except ValueError:
            total = total * x[1]
    return total


@case
def object_arrays(x):
    a, b = np.empty(3, object), np.empty(3, object)
    a[0], a[1], a[2] = x[0], x[1] * 2, 1.0
    b[:] = list(x)
    return np.sum(a) * 1.0 + np.sum(b * b)


@case
def concrete_parts_stay_concrete(x):
    a = np.zeros(3)
    a[0] = 2.0
    n = int(a[0]) + (type(a) is np.ndarray) + isinstance(a, np.ndarray)
    scale = float(a[0])
    a[1] = x[0]
    known = type(a) is np.ndarray and isinstance(a, np.ndarray)
    return np.sum(a) * scale * known + sum(x[1] for _ in range(n))


@case
def arrays_handed_to_operators(x):
    start = np.zeros(3)
    start[0] = 1.5
    slope = fdiff.grad(lambda y, w: np.sum(y**2 * w * x))(start, np.ones(3))
    start[1] = x[0]
    again = fdiff.grad(lambda y: np.sum(y**3 * x))(start)
    rows = fdiff.vmap(lambda y: y * x[0])(np.ones((2, 2)))
    pushed = fdiff.jvp(lambda y: y * y, x, np.ones(3))[1]
    return np.sum(slope) + np.sum(again) + np.sum(rows) + np.sum(pushed * x)


@pytest.mark.parametrize("tier", ["interpret", "compile"])
def test_a_few_are_the_same_when_compiled(tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    for f in (imported_by_name, views_made_before_and_after, recurrences, dtypes_cut_off_what_is_stored):  # fmt: skip
        value, slope = fdiff.value_and_grad(f)(X)
        np.testing.assert_allclose(value, f(X), rtol=1e-13)
        np.testing.assert_allclose(slope, differences(f, X), rtol=1e-8, atol=1e-8)


@pytest.mark.filterwarnings("ignore:.*what `numpy.loadtxt` reads")  # one of the cases reads text
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_values_are_those_of_numpy_and_slopes_those_of_differences(f, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    for x in (X, X * 1.5, -X):
        given, data = x.copy(), DATA.copy()
        value, slope = fdiff.value_and_grad(f)(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(slope, differences(f, x), rtol=1e-7, atol=1e-7)
        np.testing.assert_array_equal(x, given)
        np.testing.assert_array_equal(DATA, data)
        v = np.array([0.3, -1.1, 0.7])
        np.testing.assert_allclose(fdiff.jvp(f, x, v)[1], slope @ v, rtol=1e-12, atol=1e-12)
        wanted = differences(fdiff.grad(f), x)
        np.testing.assert_allclose(fdiff.hessian(f, x), wanted, rtol=1e-7, atol=1e-7)
        nested = fdiff.grad(lambda x: fdiff.grad(f)(x) @ v)(x)
        np.testing.assert_allclose(nested, wanted @ v, rtol=1e-6, atol=1e-6)


def test_narrow_floats():
    def f(x):
        a, b = zeros(3, np.float32), zeros(3, np.float16)
        a[:] = x
        a[1] *= 2
        b[0] = x[2]
        return a, b

    for got, want in zip(fdiff.jit(f)(X), f(X), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    slopes = fdiff.jacobian(f)(X)
    np.testing.assert_array_equal(slopes[0], np.diag([1.0, 2.0, 1.0]))
    np.testing.assert_array_equal(slopes[1], [[0.0, 0.0, 1.0], [0.0] * 3, [0.0] * 3])


def test_errors_of_stores_are_those_of_numpy():
    def shape(x):
        a = np.zeros(2)
        a[:] = x

    def index(x):
        a = np.zeros(2)
        a[5] = x[0]

    def cast(x):
        a = np.arange(3)
        a += x

    def imaginary(x):
        a = np.zeros(2)
        a[0] = 1j * x[0]

    def sequence(x):
        a = np.zeros(2)
        a[0] = x

    def filled(x):
        a = np.zeros(3)
        a.fill(x)

    for f in (shape, index, cast, imaginary, sequence, filled):
        with pytest.raises((ValueError, IndexError, TypeError)) as plain:
            f(X)
        with pytest.raises(plain.type) as caught:
            fdiff.jit(f)(X)
        assert type(caught.value) is plain.type
        if f is not sequence:
            assert str(caught.value) == str(plain.value)


# --- who sees it ----------------------------------------------------------------------------------


def stores(x):
    a = np.zeros(3)
    a[0] = x[0]
    b = np.sqrt(a[:2] + 1)
    b += x[1]
    return np.sum(a) * np.sum(b)


def test_numpy_is_numpy_again_and_was_all_the_time():
    seen = []

    def f(x):
        a = np.zeros(3)
        seen.append((type(array_makers.SHARED).__name__, sys.modules["numpy"].zeros))
        a[0] = x[0]
        return np.sum(a)

    with pytest.warns(fdiff.errors.RetraceWarning):
        fdiff.grad(f)(X)
    assert sys.modules["numpy"].zeros is np.zeros is numpy.zeros is MAKE
    assert np.zeros.__module__ == "numpy"
    assert zeros is np.zeros
    assert array_makers.make is array_makers.zeros is np.zeros
    for made in (
        np.zeros(1),
        np.array([1.0]),
        np.arange(3),
        zeros(2),
        np.ones(2) * 2,
        np.eye(2)[0],
    ):
        assert type(made) is np.ndarray
    assert type(array_makers.make_zeros(2)) is np.ndarray
    assert type(array_makers.Accumulator(2).row) is np.ndarray
    assert array_makers.Accumulator(2).add(0, 1.0).total() == 2.0
    assert isinstance(1.0, float)
    assert type(1.0) is float  # noqa: UP003 - whether `float` is still what it was


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_another_thread_sees_nothing():
    """One makes and writes arrays while others trace; a trace waits until it has done so."""
    turns, failures = threading.Barrier(2, timeout=60), []

    def works():
        try:
            for k in range(20):
                turns.wait()  # the other stands in the middle of its trace
                a, b = np.zeros(4), np.arange(4.0)
                a[1], a[2:] = 3.0, b[:2]
                b += a
                c = np.array([a[1], b[0]])
                assert type(a) is type(b) is type(c) is np.ndarray
                assert type(a[0]) is np.float64
                assert a.flags.writeable and a.flags.owndata  # noqa: PT018 - one fact: its memory is its own
                assert not fdiff.trace.tracing()
                np.testing.assert_array_equal(a, [0.0, 3.0, 0.0, 1.0])
                np.testing.assert_array_equal(stores(X + k), stores(X + k))
                assert type(array_makers.make_zeros(2)) is np.ndarray
                assert np.zeros is MAKE
                turns.wait()
        except BaseException as error:  # noqa: BLE001 - whatever a thread raises is told by the test
            failures.append(error)
            turns.abort()

    def f(x, k):
        a = np.zeros(3)
        a[0] = x[0]
        turns.wait()
        turns.wait()
        a[1:] = x[1:] * k
        return np.sum(a**2)

    worker = threading.Thread(target=works)
    worker.start()
    try:
        for k in range(20):
            slope = fdiff.grad(f)(X, float(k))
            np.testing.assert_allclose(slope, [2 * X[0], 2 * X[1] * k * k, 2 * X[2] * k * k])
    finally:
        worker.join()
    assert not failures, failures[0]


def test_threads_that_trace_at_once_do_not_meet():
    def work(k, out):
        for i in range(15):

            def f(x):
                a = np.zeros(3)
                a[0] = x[0] * (k + 1)
                for j in range(1, 3):
                    a[j] = a[j - 1] * x[j] + i
                return np.sum(a)

            out.append(np.allclose(fdiff.grad(f)(X), differences(f, X), rtol=1e-8))

    out = []
    threads = [threading.Thread(target=work, args=(k, out)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert out == [True] * 60


def test_results_are_plain_arrays_the_user_owns():
    def f(x):
        a, b, c = np.zeros(3), np.ones((2, 3)), np.arange(3)
        a[0] = x[0]
        part = b[0]
        part[:] = x
        made = {"made": a, "view": part, "rows": b[:, ::2], "plain": np.ones(2), "ints": c}
        return made | {"same": (a, a), "x": x, "data": DATA, "part": DATA[1:], "number": a[0]}

    def leaves(tree):
        for value in tree.values() if isinstance(tree, dict) else tree:
            if isinstance(value, (dict, tuple)):
                yield from leaves(value)
            elif isinstance(value, np.ndarray):
                yield value

    plain = f(X)
    for operator in (fdiff.jit, fdiff.jacfwd, fdiff.jacrev):
        call, numbers = operator(f), operator is fdiff.jit  # gives numbers as numbers
        for _ in range(2):
            out = call(X)
            found = list(leaves(out))
            assert len(found) == (10 if numbers else 11)
            for value in found:
                assert type(value) is np.ndarray
                assert value.flags.writeable
                assert value.flags.owndata
                assert not any(np.shares_memory(value, v) for v in (X, DATA))
            assert sum(np.shares_memory(v, w) for v in found for w in found) == len(found)
            assert not numbers or type(out["number"]) is np.float64
            pickle.loads(pickle.dumps(out))
    for name, got in fdiff.jit(f)(X).items():
        if name != "same":
            np.testing.assert_array_equal(got, plain[name])
            assert np.asarray(got).dtype == np.asarray(plain[name]).dtype


def test_what_a_traced_function_keeps_is_an_array_to_everyone():
    kept = {}

    def f(x):
        if "weights" not in kept:
            kept["weights"] = np.linspace(1.0, 2.0, 3)
        return np.sum(x * kept["weights"])

    slope = fdiff.grad(f)
    np.testing.assert_array_equal(slope(X), [1.0, 1.5, 2.0])
    weights = kept["weights"]
    assert isinstance(weights, np.ndarray)
    weights[:] = 5.0
    np.testing.assert_array_equal(slope(X), [5.0, 5.0, 5.0])
    np.testing.assert_array_equal(fdiff.grad(np.sum)(weights), [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(fdiff.vjp(lambda x: 2 * x, X, weights)[1], [10.0, 10.0, 10.0])
    np.testing.assert_array_equal(fdiff.vmap(lambda w: w + 1)(weights), [6.0, 6.0, 6.0])
    assert type(pickle.loads(pickle.dumps(weights))) is np.ndarray


@pytest.mark.parametrize("when", ["before", "after", "never"])
def test_the_arrays_of_the_user_are_never_changed(when):
    mine, both = np.array([3.0, 1.0, 2.0]), np.arange(6.0).reshape(2, 3)
    box = [mine, {"both": both}]
    before = copy.deepcopy(box)

    def f(x, given, k):
        a, part = given.copy(), both[1].copy()
        a += x
        part[0] = x[1]
        x[0] = 7.0 + k[0]
        if when == "before":
            raise KeyError("in the middle")
        given[1:] = x[1:]
        box[1]["both"].T.copy()[0] = x[0]
        x *= 2
        if when == "after":
            raise KeyError("in the middle")
        return np.sum(a * part * x) + np.sum(given * mine) + np.sum(both) * k[0]

    x, given, k = X.copy(), np.array([1.0, 2.0, 3.0]), np.array([2, 3])
    for call in (fdiff.grad(f), fdiff.jit(f), fdiff.hessian(f)):
        if when == "never":
            call(x, given, k)
        else:
            with pytest.raises(KeyError, match="in the middle"):
                call(x, given, k)
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(given, [1.0, 2.0, 3.0])
        np.testing.assert_array_equal(k, [2, 3])
        np.testing.assert_array_equal(mine, before[0])
        np.testing.assert_array_equal(both, before[1]["both"])
        for array_ in (x, given, k, mine, both):
            assert array_.flags.writeable
            assert type(array_) is np.ndarray
    assert not fdiff.trace.tracing()


def test_arrays_made_inside_are_freed():
    kept = []

    def f(x):
        a = np.zeros(1000)
        kept.append(weakref.ref(a))
        a[0] = x[0]
        return np.sum(a)

    with pytest.warns(fdiff.errors.RetraceWarning):
        fdiff.grad(f)(X)
    gc.collect()
    assert [ref() for ref in kept] == [None]
    families = fdiff.trace.local_arrays._families
    fdiff.grad(stores)(X)
    gc.collect()
    before = len(families)
    for _ in range(5):
        fdiff.grad(lambda x: stores(x) * 1.0)(X)
    gc.collect()
    assert len(families) <= before


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_strided_views_read_no_other_memory(dtype):
    """What `as_strided` reads of a traced array are its entries, or the call is refused."""
    strided, x = np.lib.stride_tricks.as_strided, np.arange(1, 4, dtype=dtype)
    pairs = fdiff.jacobian(lambda x: np.prod(strided(x * 1, (2, 2), x.strides * 2), axis=1))
    np.testing.assert_array_equal(pairs(x), [[2, 1, 0], [0, 3, 2]])
    for order, step in ((-1, 1), (1, 2), (1, 0.5), (1, -1)):
        strides = (int(step * x.itemsize),) * 2
        bad = fdiff.jacobian(
            lambda x, order=order, strides=strides: strided(x[::order], (2, 2), strides)
        )
        with pytest.raises(fdiff.errors.TraceError, match="one behind the other"):
            bad(x)
    with pytest.raises(ValueError, match="read-only"):
        fdiff.jacobian(lambda x: strided(x * 1, (2,), x.strides).__iadd__(1))(x)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of the matrix class
@pytest.mark.parametrize("kind", [np.matrix, np.ma.masked_array])
def test_arrays_of_a_subclass_are_made_plain(kind):
    """`asarray` gives a plain array of what `f` reads; its entries are read at each call."""
    read = kind([[1.0, 2.0], [3.0, 4.0]])
    for make in (np.asarray, np.ascontiguousarray, np.array):
        slopes = fdiff.jacobian(lambda x, make=make: make(read)[:, 0] * x)
        for first in (5.0, 1.0):
            read[0, 0] = first
            np.testing.assert_array_equal(slopes(np.ones(2)), np.diag([first, 3.0]))

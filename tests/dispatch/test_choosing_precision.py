"""Loops that choose their branches, in single precision: NumPy's types on all paths.

Numbers of Python's adapt to single precision (NEP 50), and those of NumPy do not. So a node has to
tell them apart: the number of a trip, counters, floats, and the first value of a sum.
"""

import warnings

import numpy as np
import pytest
from test_choosing_loops import N, W, counted

import fdiff

W32 = W.astype(np.float32)
POINTS = [
    (np.array([0.7, 0.3, 0.6]) * (1 + 0.6 * np.sin(np.arange(3) + 2 * k))).astype(np.float32)
    for k in range(4)
]


def threshold(x):
    s = x[0]
    for k in range(N):
        s = s * 0.97 + 0.1 * W32[k]
        if s < 0.5 * x[1]:
            s = s + 0.01 * k
    return s


def counters(x):
    s, n, u = x[0], 0, np.zeros(N, np.float32)
    for k in range(N):
        s = np.sin(s) + k * W32[k] * 0.1
        u[k] = s * n
        if s > x[1]:
            n += 1
    return s * n + np.sum(u)


def floats(x):
    s, t = x[0], 0.0
    for k in range(N):
        s = np.sin(s + t) + 0.1 * W32[k]
        if s > x[1]:
            t += 0.1
    return s * t


def arrays(x):
    s, t = x * 1, np.float32(0.0)
    for k in range(N):
        s = np.tanh(s + t) + 0.1 * W32[k] * k
        if s[0] > x[1]:
            t = t + np.sum(s) * 0.01
        else:
            s = s / (k + 1)
    return np.sum(s * t)


def sums(x):
    s, total, worst = x[0], 0.0, -1.0
    for k in range(N):
        s = np.sin(s + W32[k])
        if s > x[1]:
            total = total + s * s
            s = s * 0.5
        worst = max(worst, s)
    return total + worst


def double_arrays(x):
    s, u = x[0], np.zeros(3)
    for k in range(N):
        s = np.sin(s + W32[k])
        u[k % 3] += s * W[k] if s > x[1] else s * k
    return s * u


def ints(x):
    s = x[0]
    for k in range(N):
        s = np.float32(0.5) * s + 0.1 * W32[k]
        if s > x[1]:
            s = s * (k**2) * 0.001 + abs(-k) * 0.01 + (k // 3) * x[2] + k % 7 + (2 * k - 1) / 5
    return s


def counter_of_numpy(x):
    s, t = x[0], np.float64(0.25)
    for k in range(N):
        s = np.sin(s + W32[k]).astype(np.float32)
        if s > x[1]:
            t = t + s
    return s * t


def halves(x):
    s, h = x[0], 0.5

    def kick(z):
        return h * z + np.float32(0.1)

    for k in range(N):
        s = kick(s) + W32[k]
        while s > 2.0 * x[1] + 1:
            s = s * 0.5
            h = 0.9 * h
    return s


PROGRAMS = (
    threshold, counters, floats, arrays, sums, double_arrays, ints, counter_of_numpy, halves,
)  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_one_trace_holds_for_all_paths(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    run, slope = fdiff.jit(f), fdiff.grad(_total(f))
    for x in POINTS:
        run(x), slope(x)
    assert [(own.refusals, own.sources) for own in drivers] == [({}, {})] * 2
    assert len(traces) == 2
    _compare(f, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("f", [threshold, counters, sums])
def test_compiled_code(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    monkeypatch.setenv("FDIFF_TIER", "compile")
    _compare(f, monkeypatch)


def _total(f):
    return (lambda x: np.sum(f(x))) if f is double_arrays else f


def _compare(f, monkeypatch):
    total = _total(f)
    run, slope = fdiff.jit(f), fdiff.grad(total)
    results = [(run(x.copy()), slope(x.copy())) for x in POINTS]
    exact = [fdiff.grad(total)(x.astype(float)) for x in POINTS]
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")
    unrolled = fdiff.grad(lambda x: total(x))
    for x, (value, own), other in zip(POINTS, results, exact, strict=True):
        plain = f(x)
        assert (type(value), np.asarray(value).dtype) == (type(plain), np.asarray(plain).dtype)
        np.testing.assert_allclose(value, plain, rtol=2e-6, atol=2e-7)
        expected = unrolled(x)
        assert own.dtype == expected.dtype == x.dtype
        np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-5)
        if f not in (ints, arrays):  # whose slopes are large
            np.testing.assert_allclose(own, other, rtol=1e-2, atol=1e-3)


# --------------------------------------------------------------------------- types that may differ


def number_or_single(x):
    s, t = x[0], 0.1
    for k in range(N):
        s = np.sin(s + W32[k])
        if s > x[1]:
            t = 0.9 * t + s  # a float of Python's by 0.9 is one of 64 bits
    return s * t


def compared_before(x):
    s, t = x[0], 0.1
    for k in range(N):
        s = np.sin(s + W32[k])
        if t < 0.1:  # not 0.1, but the next number of single precision is
            s = s + 0.25
        if s > x[1]:
            t = s * 0.0 + np.float32(0.1)
    return s + t


def keeps_the_first(x):
    s, t, best = x[0], 0.0, 0.0
    for k in range(N):
        best = t
        s = np.sin(s + W32[k])
        if s > x[1]:
            t = t + s
    return best * np.ones(2)


def first_of_two_types(x):
    s, t = x[0], 0.0
    for k in range(N):
        s = np.sin(s + W32[k])
        t = np.float64(t) + s if s > x[1] else t + s
    return t


def doubles_and_singles(x):
    s = x[0]
    for k in range(N):
        s = s * W[k] if s > x[1] else np.sin(s + W32[k])
    return s


def counts_truths(x):
    s, t = x[0], 0.0
    for k in range(N):
        s = np.sin(s + W32[k])
        t = t + (s > x[1])
    return s * t


def list_of_numbers(x):
    s, n, t = x[0], 0, 0.5
    for k in range(N):
        v = np.array([n, t, s]) * np.array([k, n])[0]
        if s > x[1]:
            n, t = n + 1, 0.5 * t
        s = (0.1 * s + 0.01 * v[2] + W[k]).astype(np.float32)
    return s + v[1]


def products_of_vectors(x):
    s, n, v = x[0], 1, x * 1
    for k in range(N):
        v = np.sin(np.dot(n, v) + np.outer(k, v)[0] * 0.1).astype(np.float32)
        if v[0] > x[1]:
            n += 1
        s = s + np.where(v[1] > 0.1, n, s) * np.float32(0.01) + np.inner(0.1, v)[0]
    return s


def int_of_numpy(x):
    s, n, step = x[0], 0, np.int64(2)
    for k in range(N):
        s = np.sin(s * 0.1 + W32[k] * n).astype(np.float32)
        if s > x[1]:
            n = n + step
    return s, n


def small_floats(x):
    s = x[0].astype(np.float16)
    for k in range(N):
        s = s * 0.5 + W32[k].astype(np.float16) if s > x[1] else s + 0.1 * k
    return s.astype(np.float32)


def float_behind(x):
    s, h, m = x[0], 1.0, 3
    for k in range(N):
        s = np.sin(s + W32[k])
        if s > x[1]:
            h, m = 0.5 * h, m + 1
    return s * h, s * m, h * np.ones(2, np.float32) * m


def large_counter(x):
    s, n = x[0], 16777215
    for k in range(N):
        s = np.sin(s + W32[k]) + (n - 16777215) * 0.01
        if s > x[1]:
            n += 1
    return s * n, n * x, x + n


ODD = (
    number_or_single, compared_before, keeps_the_first, first_of_two_types, doubles_and_singles,
    counts_truths, list_of_numbers, products_of_vectors, int_of_numpy, small_floats, float_behind,
    large_counter,
)  # fmt: skip


@pytest.mark.parametrize("f", ODD)
def test_types_are_those_of_numpy(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    run = fdiff.jit(f)
    for x in POINTS:
        with warnings.catch_warnings(action="ignore"):
            value, plain = run(x.copy()), f(x.copy())
        for a, b in zip(_parts(value), _parts(plain), strict=True):
            assert type(a) is type(b)
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_allclose(a, b, rtol=3e-6, atol=1e-6)


def _parts(result):
    return result if isinstance(result, tuple) else (result,)

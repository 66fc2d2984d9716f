"""Loops that choose their branches, and cut numbers to ints: places in tables, counts, bins."""

import math
import random

import numpy as np
import pytest
import random_choosing_loops
from test_choosing_loops import POINTS, N, W, counted, exact

import fdiff

CLOSE = {"rtol": 1e-12, "atol": 1e-13}
GRID = np.linspace(0.0, 3.0, 31)
TABLE = np.sin(1.3 * GRID) + 0.2 * GRID


def steps_by_a_table(x):
    t, y, h = 0.0, x[0], 0.05
    while t < 0.5:
        u = min(abs(y), 2.9) * 10.0
        k = int(u)
        heat = TABLE[k] * (1 - (u - k)) + TABLE[k + 1] * (u - k)
        first = heat * x[2] - x[1] * y
        error = abs(x[1] * h * first) * h
        if error > 0.004:
            h = 0.5 * h
            continue
        y, t = y + h * first, t + h
        if error < 0.001:
            h = min(1.3 * h, 0.1)
    return y


def interpolated(u):
    k = int(u)
    return TABLE[k] * (1 - (u - k)) + TABLE[k + 1] * (u - k)


def interpolates(x):
    s = x[0]
    for n in range(N):
        s = 0.9 * s + 0.1 * x[1] * interpolated((abs(s) % 2.8) * 10.0) + 0.05 * W[n] * x[2]
    return s * s


def floors(x):
    s = x[0]
    for n in range(N):
        k, j = math.floor(20 * s), math.ceil(s) - math.trunc(2 * s)
        s = 0.5 * s + 0.2 * TABLE[k % 31] * x[1] + 0.1 * W[n] + 0.01 * round(3 * s) * j
    return s * x[2]


def searches(x):
    s = x[0]
    for n in range(N):
        z = min(max(s, 0.01), 2.9)
        k = np.searchsorted(GRID, z) - 1
        w = (z - GRID[k]) / (GRID[k + 1] - GRID[k])
        s = 0.9 * s + 0.1 * x[1] * (TABLE[k] * (1 - w) + TABLE[k + 1] * w) + 0.05 * W[n] * x[2]
    return s * s


def histogram(x):
    h, s = np.zeros(10), x[0]
    for n in range(N):
        s = 0.7 * s + 0.5 * W[n] * x[1]
        k = int((s + 2.0) * 2.5)
        if 0 <= k < 10:
            h[k] += s * x[2]
    return np.sum(h**2)


def negative_places(x):
    s = x[0]
    for n in range(N):
        k = int(9 * s * W[n])
        s = 0.5 * s + 0.3 * TABLE[k] + W[n] * 0.1 * x[1]
    return s


def numbers_of_steps(x):
    y, total = x[0], 0.0
    for k in range(20):
        n = int(abs(y) / 0.11) + 1
        dt = 0.5 / n
        for _ in range(n):
            y = y + dt * (x[1] * W[k] - x[2] * y)
        total = total + y * y
    return total


def counts(x):
    s, total, last = x[0], 0, 0
    for k in range(N):
        s = 0.8 * s + x[1] * W[k]
        last = int(3 * s) if s > 0.1 else last
        total += last + int(s > x[2])
    return s * total + last


def divides(x):
    s, n = x[0], 1
    for k in range(N):
        s = 0.8 * s + x[1] * W[k]
        n += int(s > 0.3)
        m = int(5 * abs(s))
        s = s + (0.01 / (n - 7) if n != 7 else 0.2) + 0.001 * (n // (m + 1)) + 0.001 * (k % (m + 1))
    return s * x[2]


def bits(x):
    s = x[0]
    for k in range(N):
        i = int(5 * s)
        s = (0.7 if i & 1 else -0.5) * s + x[1] * W[k] + 0.02 * x[2] * ((i >> 1) ^ 3 | 4)
    return s


PROGRAMS = (
    steps_by_a_table, interpolates, floors, searches, histogram, negative_places, numbers_of_steps,
    counts, divides, bits,
)  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_one_trace_holds_for_all_ints(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert [(own.refusals, own.sources) for own in drivers] == [({}, {})] * len(drivers)
    assert len(traces) == 1
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


# --------------------------------------------------------------------------- what plain code says


def beyond_the_table(x):
    s = x[0]
    for n in range(N):
        s = 0.5 * s + 0.1 * TABLE[int(40 * abs(s) * x[1])] + 0.1 * W[n]
    return s


def cuts_what_may_be_no_number(x):
    s = x[0]
    for _ in range(N):
        s = 0.9 * s + 0.1 * int(3 * np.log(s - 0.1 * x[1])) + 0.2
    return s


def divides_by_zero(x):
    s = x[0]
    for k in range(N):
        s = 0.8 * s + x[1] * abs(W[k])
        s = s + 0.01 / int(2 * s + 1.2 - x[2])
    return s


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("f", [beyond_the_table, cuts_what_may_be_no_number, divides_by_zero])
def test_errors_of_python_are_its_own(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    run, ways = fdiff.jit(f), set()
    for factor in (0.3, 0.9, 3.0, 0.5, -3.0):
        x = factor * POINTS[0]
        try:
            expected, kind = f(x), None
        except (ArithmeticError, IndexError, ValueError) as error:
            kind = type(error)
        ways.add(kind)
        if kind is None:
            np.testing.assert_allclose(run(x), expected, **CLOSE)
        else:
            with pytest.raises(kind):
                run(x)
    assert len(ways) == 2


def large_ints(x):
    s, n = x[0], 0
    for k in range(N):
        s = 0.5 * s + W[k]
        n = int(1e9 * s * x[1]) % 1000
    return s, n


def types(x):
    s, k = x[0], 0
    for n in range(N):
        s = 0.5 * s + W[n]
        k = int(4 * s) if s > x[1] else k + 1
    whole = isinstance(k, int) and type(k) is int and not isinstance(s, int)
    return s, k, np.zeros(3, dtype=int)[abs(k) % 3] + s, float(whole)


def classes(x):
    class Whole(int):
        def twice(self):
            return 2 * self

    class Real(float):
        def half(self):
            return 0.5 * self

    match 3:
        case int(v):
            matched = v
        case _:
            matched = 0.5
    kinds = {int: 1, float: 2}[type(len(W))] + (int in (float, int)) + issubclass(bool, int)
    texts = int("ff", 16) + int.from_bytes(b"a", "big") + sum(map(int, "12"))
    own = isinstance(Whole(4), Whole) + isinstance(4, Whole) + isinstance(4, int)
    arrays = np.array([1.5, 2.5], int) + np.arange(2, dtype=int) + np.array([3.5, 1.2]).astype(int)
    return x[0], Whole(4).twice(), Real(4.0).half(), matched, kinds, texts, own, arrays[1]


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", [large_ints, types, classes])
def test_ints_are_those_of_python(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.jit(f)
    for x in POINTS:
        for a, b in zip(run(x), f(x), strict=True):
            assert type(a) is type(b)
            np.testing.assert_allclose(a, b, **CLOSE)


def equalities(x):
    s, c = x[0], 0.0
    for k in range(N):
        d = max(s - x[1], 0.0)
        if d == 0.0:
            c = c + 0.1 * s
        elif s != x[2]:
            c = c + d * d
        s = np.sin(s + W[k]) * x[2]
    return c


def test_equal_numbers_fail_a_guard(monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    slope = fdiff.grad(equalities)
    for x in POINTS:
        expected = exact(fdiff.grad, equalities, x, monkeypatch)
        np.testing.assert_allclose(slope(x), expected, rtol=1e-10, atol=1e-12)
    assert (len(traces), [own.refusals for own in drivers]) == (1, [{}])
    x = np.array([0.9, 0.4, 0.9])  # where s is x[2] in the first trip
    assert fdiff.jit(equalities)(x) == equalities(x)


@pytest.mark.parametrize("seed", [1, 4])
def test_random_programs_that_cut_numbers(seed):
    program = random_choosing_loops.program(random.Random(seed), "cuts")
    assert not random_choosing_loops.failure(program, seed)

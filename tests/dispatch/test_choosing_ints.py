"""Loops that choose their branches, with ints that change otherwise than by adding a constant.

Python's ints have any size. A node's have 64 bits, so that what becomes larger is left to Python.
"""

import numpy as np
import pytest
from test_choosing_loops import POINTS, N, W, counted, exact

import fdiff

CLOSE = {"rtol": 1e-12, "atol": 1e-13}


def doubles_and_halves(x):
    s, n = x[0], 1
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            n *= 2
        elif n > 8:
            n //= 2
        if n > 10**6:
            n = 1
        s = s + 0.01 * x[2] / (n + 1.0)
    return s * n


def collatz(x):
    s, n = x[0], 27
    for k in range(N):
        s = 0.9 * s + 0.01 * W[k] * (n % 10)
        n = 3 * n + 1 if n % 2 and s > 0.2 * x[1] else n // 2
    return s + 0.001 * n * x[2]


def longest_run(x):
    s, run, best = x[0], 0, 0
    for k in range(N):
        s = np.sin(s + W[k])
        run = run + 1 if s > 0.3 * x[1] else 0
        best = max(best, run)
        s = s + 0.01 * best
    return s * best + run * x[2]


def latest(x):
    s, last, gap = x[0], 0, 1
    for k in range(N):
        s = np.sin(s + W[k])
        if s > 0.5 * x[1]:
            gap, last = k - last, k
        s = s + 0.01 * gap
    return s * (last + gap)


def random_numbers(x):
    s, seed = x[0], 12345
    for k in range(N):
        seed = (16807 * seed) % 2147483647
        y = seed / 2147483647.0
        s = 0.9 * s + y * W[k] if y < 0.5 * x[1] else s + 0.01 * x[2] * y
    return s


def lengths(x):
    u, s, n = np.zeros(7), x[0], 0
    for k in range(N):
        s = np.sin(s + W[k])
        n = len(u) - n if s > x[1] else len(x)
        s = s + 0.1 * u[n % 7] + 0.01 * n
    return s * n


def negative(x):
    s, n = x[0], -100
    for k in range(N):
        s = np.sin(s + W[k])
        n = n // 3 if s > x[1] else n % 7 - 2 * n - 40
        s = s + 0.01 * (n // 7) + 0.001 * (n % 5)
        n = -n if n > 500 else n
    return s + n


def by_another(x):
    s, n, m = x[0], 1, 1
    for k in range(N):
        s = np.sin(s + W[k])
        if s > 0.2 * x[1]:
            n, m = m, n + m
        else:
            n, m = 1, abs(n - m)
    return s * n + m * x[2]


def backtracking(x):
    z, halvings = x[0], 0
    for _ in range(50):
        step, tries = 1.0, 1
        g = z - 0.5 * np.cos(z * x[1])
        while abs(z - step * g - 0.5 * np.cos((z - step * g) * x[1])) > 0.9 * abs(g):
            step, tries = 0.5 * step, tries * 2
            if tries > 100:
                break
        z, halvings = z - step * g, max(halvings, tries)
    return z * x[2] + 0.1 * halvings


def factor_in_a_while(x):
    s, n = x[0], 1
    while s < 2.0 + x[1] and n < 10**9:
        s, n = s + 0.1 * x[2] + 0.1, n * 2 if s > 0.5 else n + 1
    return s * x[0] + np.log(n * x[2])


PROGRAMS = (
    doubles_and_halves, collatz, longest_run, latest, random_numbers, lengths, negative, by_another,
    backtracking, factor_in_a_while,
)  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_one_trace_holds_for_all_paths(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert [(own.refusals, own.sources) for own in drivers] == [({}, {})] * len(drivers)
    assert len(traces) == 1
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


# ------------------------------------------------------------------------------- what has no limit


def powers_of_three(x):
    s, n = x[0], 1
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            n *= 3
    return s + 1.0 / n, n


def squares(x):
    s, n = x[0], 2
    for k in range(N):
        s = np.sin(s + W[k])
        n = n * n if s > x[1] else n + 1
        if n > 2**70:
            n = 2
        s = s + 1e-25 * n
    return s, n


def factorial(x):
    s, n = x[0], 1
    for k in range(N):
        s = np.sin(s + W[k])
        n = n * (k + 1) if s > -0.5 else n
    return s, n % 1000


def sum_of_large_numbers(x):
    s, n = x[0], 2**60
    for k in range(N):
        s = np.sin(s + W[k])
        n = n + n // 2 if s > x[1] else n - 2**59
    return s, n % 1009  # results of jit have 64 bits


def becomes_zero(x):
    s, n = x[0], 1000
    for k in range(N):
        s = np.sin(s + W[k])
        n = n // 2 if s > -0.3 else n
    return s / (n + 1), 1 / (n + 1), n


def divides_by_zero(x):
    s, n = x[0], 8
    for k in range(N):
        s = np.sin(s + W[k])
        n = n // 2 if s > -0.3 else n
        s = s + (0.001 * k) // (n + 1)
    return s, np.float64(1.0) / np.float64(n + 1)


def divisor_that_changes(x):
    s, n = x[0], 7
    for k in range(N):
        s = np.sin(s + W[k])
        n = 3 * n % 11 if s > x[1] else n
        s = s + 0.1 * (k % n) + 0.1 * (k // n)
    return s, n


def negative_powers(x):
    s, n = x[0], 2
    for k in range(N):
        s = np.sin(s + W[k])
        n = 1 - n if s > x[1] else n
        s = s + 0.01 * 2**n
    return s, n


def int_of_numpy(x):
    s, n, m = x[0], 1, np.arange(N)
    for k in range(N):
        s = np.sin(s + W[k])
        n = m[3] * 2 if s > x[1] else n
    return s, n


def int_of_a_sum(x):
    s, n = x[0], 0
    for k in range(N):
        s = np.sin(s + W[k])
        n = max(n, np.sum(x > s))
    return s, n


def becomes_a_float(x):
    s, n = x[0], 3
    for k in range(N):
        s = np.sin(s + W[k])
        n = n / 2 if s > x[1] else 3
    return s, n


def truth_and_int(x):
    s, n = x[0], 3
    for k in range(N):
        s = np.sin(s + W[k])
        n = n * 2 % 7 if s > x[1] else k > 10
    return s, n


def shifted(x):
    s, n = x[0], 1
    for k in range(N):
        s = np.sin(s + W[k])
        n = (n << 1) & 1023 if s > x[1] else (n >> 1) | 3
        s = s + 0.01 * (n ^ 5) + 0.01 * (~n & 7)
    return s, n


def inner_ints(x):
    s, n, total = x[0], 1, 0
    for k in range(N):
        m = n
        for j in range(15):
            s = np.sin(s + 0.1 * W[k])
            m = 2 * m % 13 if s > x[1] else m + j
        n = m if m > 3 else n
        total = total + n * n
    return s, n, total


def size_of_a_table(x):
    s, n = x[0], 1
    for k in range(N):
        s = np.sin(s + W[k])
        n = 2 * n % 9 if s > x[1] else n
        s = s + 0.01 * W[n] * n
    return s * np.ones(n)


def swapped_in_statements(x):
    s, n, m = x[0], 1, 2
    for k in range(N):
        s = np.sin(s + W[k])
        for _ in range(20):
            if s > x[1]:
                n, m = m, n
            if s > 0.5 * x[2]:
                m = min(m, 5) + n if n < 4 else 1
            s = s * 0.9
        if n > 3:
            n = 2 * m % 5
    return s, n, m


ODD = (
    swapped_in_statements,
    powers_of_three, squares, factorial, sum_of_large_numbers, becomes_zero, divides_by_zero,
    divisor_that_changes, negative_powers, int_of_numpy, int_of_a_sum, becomes_a_float,
    truth_and_int, shifted, inner_ints, size_of_a_table,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", ODD)
def test_ints_are_those_of_python(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.jit(f)
    for x in [*POINTS, POINTS[1]]:
        value, plain = run(x.copy()), f(x.copy())
        parts = [p if isinstance(p, tuple) else (p,) for p in (value, plain)]
        for a, b in zip(*parts, strict=True):
            assert type(a) is type(b)
            if isinstance(b, int):
                assert a == b
            np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), **CLOSE)

"""Loops that choose their branches, and count, have flags, or are left by ``break``."""

import random

import numpy as np
import pytest
import random_choosing_loops
from test_choosing_loops import POINTS, N, W, counted, exact

import fdiff

CLOSE = {"rtol": 1e-12, "atol": 1e-13}


def left(x):
    s = x[0]
    for k in range(N):
        s = s * 0.97 + 0.001 * W[k]
        if s < 0.5 * x[1]:
            break
    return s * x[2]


def left_at_once(x):
    s = x[0] * x[1]
    for k in range(N):
        s = np.sin(s) + 0.1 * W[k]
        if s > -5.0:
            break
    return s


def never_left(x):
    s = x[0]
    for k in range(N):
        if s > 5.0 + x[1]:
            break
        s = 0.5 * s if s > x[2] else np.sin(s + W[k])
    return s


def left_before_an_array_ends(x):
    u, s = 0.01 * np.arange(N // 2) * x[1], x[0]
    for k in range(N):
        if k > 30 or s < 0.1 * x[2]:
            break
        s = 0.95 * s + 0.01 * u[k]
        u[k + 1] = s * u[k]
    return s + np.sum(u)


def counts(x):
    s, n = x[0], 0
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            n += 1
    return s * n


def averages(x):
    s, mean, n = x[0], 0.0 * x[0], 0
    for k in range(N):
        s = np.sin(s + W[k])
        if s > 0.1 * x[1]:
            n += 1
            mean = mean + (s - mean) / n
    return mean / (n + 1) + x[2] * (n - 3) if n > 1 else s * n


def switched(x):
    s, on = x[0], False
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1] and not on:
            on = True
        elif s < -0.3 * x[2]:
            on = False
        if on:
            s = s * 0.5
    return s * 2.0 if on else s


def patience(x):
    """Early stopping, as of a fit."""
    w, best, waits = x[0], x[0] * 0.0 + 9.0, 0
    for k in range(N):
        loss = (w - 0.3 * x[1]) ** 2 + 0.01 * W[k]
        w = w - 0.1 * (w - 0.3 * x[1])
        if loss < best:
            best, waits = loss, 0
        else:
            waits += 1
        if waits >= 4:
            break
    return best + w * x[2]


def takes_from_a_table(x):
    table, s, n = np.sin(0.3 * np.arange(10.0)) * x[2], x[0], 0
    for k in range(N):
        s = 0.9 * s + table[n % 10] + 0.1 * W[k]
        if s > x[1]:
            n += 3
        if n > 60:
            n = 1
    return s


def left_inside(x):
    s, n = x[0], 0
    for k in range(N):
        for j in range(3):
            s = 0.9 * s + 0.1 * W[k] * (j + 1)
            if s > x[1]:
                n += 1
                break
        if n == 9:
            break
    return s * n


def remembers(x):
    s, last = x[0], 0
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            last = k
    return s * last


PROGRAMS = (
    left, left_at_once, never_left, left_before_an_array_ends, counts, averages, switched,
    patience, takes_from_a_table, left_inside, remembers,
)  # fmt: skip


@pytest.mark.parametrize(
    ("f", "tier"),
    [(f, "evaluate") for f in PROGRAMS]
    + [(f, "compile") for f in (left_before_an_array_ends, averages, takes_from_a_table)],
)
def test_values_and_gradients(f, tier, monkeypatch):
    """One trace holds for all paths; where a flag is read behind the loop, one for each of them."""
    traces, drivers = counted(monkeypatch, choosing=True)
    monkeypatch.setenv("FDIFF_TIER", tier)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert [own.refusals for own in drivers] == [{}] * len(drivers)
    assert len(traces) <= 2
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("f", [left, averages, patience])
def test_second_derivatives_and_batches(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    second, many = fdiff.hessian(f), fdiff.vmap(fdiff.grad(f))
    for x in POINTS[:2]:
        expected = exact(fdiff.hessian, f, x, monkeypatch)
        np.testing.assert_allclose(second(x), expected, rtol=1e-9, atol=1e-12)
    slopes = [exact(fdiff.grad, f, x, monkeypatch) for x in POINTS]
    np.testing.assert_allclose(many(np.stack(POINTS)), slopes, rtol=1e-9, atol=1e-12)


def numbers(x):
    s, n, on = x[0], 0, False
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            n += 1
            on = not on
    texts = f"{n:3d}", str(n)
    return [s * x[2], n, n + 1, n / 2, n % 3, n**2, on, texts, [0.5] * (n // 9), isinstance(n, int)]


def two_numbers(x):
    s, n, m, h = x[0], 0, 0, 0.5
    for k in range(N):
        s = 0.9 * s + W[k] * x[2]
        if s > x[1]:
            n += 1
        if k == 40 and x[0] > 0:
            m, h = 5, 0.25
    inverse = 0.5 / h
    return s * (n + m), s * n * m, s * (h + n), s * (m - h), s * inverse, n > m, n / (h + m)


@pytest.mark.slow
def test_numbers_of_two_variables_are_computed_anew(monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.jit(two_numbers)
    for first in (0.01, -0.01, 0.02, -0.03):
        x = np.array([first, 0.3, 0.6])
        for part, plain in zip(run(x), two_numbers(x), strict=True):
            assert type(part) is type(plain)
            np.testing.assert_allclose(part, plain, **CLOSE)


def test_numbers_behind_the_loop_are_pythons(monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.jit(numbers)
    for x in POINTS:
        value, plain = run(x), numbers(x)
        np.testing.assert_allclose(value[0], plain[0], **CLOSE)
        assert value[1:] == plain[1:]
        assert [type(v) for v in value] == [type(v) for v in plain]


def counts_truth_values(x):
    s, n = x[0], 0
    for k in range(N):
        s = np.sin(s + W[k])
        n += s > x[1]
        if s > 0.5:
            s = s * 0.5
    return s * n


def inverts(x):
    s, on = x[0], True
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            on = False
            s = s * 0.9 + 0.01 * ~on
    return s


REFUSED = {
    counts_truth_values: "n is of several types",
    inverts: None,
}


@pytest.mark.slow
@pytest.mark.parametrize("f", REFUSED)
def test_what_cannot_be_told_is_left_to_python(f, monkeypatch):
    _, drivers = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    for x in POINTS:
        value, slope = both(x)
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-13)
    reasons = {reason for own in drivers for reason in own.refusals.values()}
    if REFUSED[f] is not None:
        assert reasons == ({REFUSED[f]} if REFUSED[f] else set())


def stops_at_a_row(x):
    s = x[0]
    for y in W:
        s = s * 0.97 + 0.001 * y
        if s < 0.2 * x[1]:
            break
    return s * y


def test_the_reason_is_said_where_the_row_is_read(monkeypatch):
    _, drivers = counted(monkeypatch, choosing=True)
    fdiff.jit(stops_at_a_row)(POINTS[0])
    (reason,) = drivers[0].sources.values()
    assert reason == "the number of its last trip is read after it"


@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed):
    text = random_choosing_loops.program(random.Random(seed), "counts")
    assert not random_choosing_loops.failure(text, seed)

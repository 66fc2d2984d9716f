"""Loops with more paths than are run at once: each statement of the body chooses by itself."""

import random

import numpy as np
import pytest
import random_choosing_loops
from test_choosing_loops import POINTS, N, W, counted, exact

import fdiff
from fdiff.dispatch.choosing import path_runs

CLOSE = {"rtol": 1e-12, "atol": 1e-13}


def independent(x):
    s, v, u, n = x[0], x * 1.0, x * 0.5, 0
    for k in range(N):
        if v[1] > s:
            u[1] = 0.5 * u[1] + s * 0.3
        if s > x[1]:
            s = s * 0.5
            n -= 1
        else:
            s = s + 0.3
        if v[0] > 0.4:
            v = v * 0.9
        if np.sum(v) > 0.6:
            n += 1
            s = s + 0.01 * n
        elif s < 0.2:
            s = s + 0.2
            if v[2] > 0.1:
                v = v + 0.1
        z = s * 2 if s > v[2] else s
        s = np.sin(s + W[k]) + 0.1 * z
        v = np.cos(v) * 0.9 + 0.3 * x
    return s * s + np.sum(v) + np.sum(u) + 0.1 * n * x[2]


def bands(x):
    s, total = x[0] * 3.0, x[1] * 0.0
    for k in range(N):
        if s < -0.8:
            total = total + s
        elif s < -0.6:
            total = total - s * s
        elif s < -0.5:
            total = total * 0.9
        elif s < -0.4:
            total = total + np.sin(s)
        elif s < -0.3:
            total = total + 0.1 * s
        elif s < -0.2:
            total = total - 0.2 * s
        elif s < -0.1:
            total = total + 0.3 * s
        elif s < 0.0:
            total = total - 0.4 * s
        elif s < 0.1:
            total = total + 0.5 * s
        elif s < 0.2:
            total = total - 0.6 * s
        elif s < 0.3:
            total = total + 0.7 * s
        elif s < 0.4:
            total = total - 0.8 * s
        elif s < 0.5:
            total = total + 0.9 * s
        elif s < 0.6:
            total = total - s * 1.1
        elif s < 0.7:
            total = total + s * 1.2
        elif s < 0.8:
            total = total - s * 1.3
        else:
            total = total * 0.5 + s
        s = np.sin(0.9 * s + 2.0 * W[k] * x[2])
    return total


def left_early(x):
    a, b, c, d = x[0], x[1], x[2], x[0] * x[1]
    for k in range(N):
        if a > 0.5:
            a = a * 0.8
        if b > 0.4:
            b = b - 0.2 * a
        if c > a:
            c = c * 0.9
        if d > b:
            d = d - 0.1
        if k > 40 and a < 0.3 * x[1]:
            break
        a, b, c, d = np.cos(a + W[k]) * 0.5, np.sin(a - b) + 0.2, c + 0.1 * a, d + 0.3 * b * x[2]
    return a + 2.0 * b + 3.0 * c - d + 0.1 * k


def in_a_loop_of_loops(x):
    a, b, c, n = x[0], x[1], x[2], 0
    for k in range(14):
        for j in range(14):
            if a > 0.5:
                a = a * 0.8
            if b > 0.4:
                b = b - 0.2 * a
            if c > a:
                c = c * 0.9
            if (k + j) % 3 == 1:
                n += 1
            if a > b:
                a = 0.5 * (a + b)
            a, b, c = np.cos(a + W[j]) * 0.5 * x[0], np.sin(a - b) + 0.1 * k, c + 0.1 * a
    return a + 2.0 * b + 3.0 * c + 0.01 * n * x[1]


PROGRAMS = independent, bands, left_early, in_a_loop_of_loops


@pytest.mark.parametrize("f", PROGRAMS)
def test_one_trace_holds_for_all_paths(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert [own.refusals for own in drivers] == [{}] * len(drivers)
    assert len(traces) <= (2 if f is left_early else 1)
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


def stores_into_one_of_two_arrays(x):
    s, v, n = x[0], x * 1.0, 0
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
            n -= 1
        else:
            s = s + 0.3
        if v[0] > 0.4:
            v = v * 0.9
        if v[1] > s:
            v[1] = s * 0.3
        if np.sum(v) > 0.6:
            n += 1
            s = s + 0.01 * n
        elif s < 0.2:
            s = s + 0.2
            if v[2] > 0.1:
                v = v + 0.1
        z = s * 2 if s > v[2] else s
        s = np.sin(s + W[k]) + 0.1 * z
        v = np.cos(v) * 0.9 + 0.3 * x
    return s * s + np.sum(v) + 0.1 * n * x[2]


def test_a_store_into_an_array_that_an_arm_may_have_made_is_right(monkeypatch):
    counted(monkeypatch, choosing=True)
    f = stores_into_one_of_two_arrays
    both = fdiff.value_and_grad(f)
    for x in POINTS:
        value, slope = both(x)
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


def test_second_derivatives(monkeypatch):
    counted(monkeypatch, choosing=True)
    second = fdiff.hessian(independent)
    for x in POINTS[:2]:
        expected = exact(fdiff.hessian, independent, x, monkeypatch)
        np.testing.assert_allclose(second(x), expected, rtol=1e-9, atol=1e-11)


def numbers_of_trips(x):
    s, z = x[0], 0
    for k in range(50):
        double = k * 2
        for _ in range(20):
            if s > 0.3:
                s = s * 0.9
            z = double * 2
        s = np.sin(s + k)
    return s, z


def started_by_a_trip(x):
    s, total = x[0], 0
    for k in range(50):
        m = k + 1
        for _ in range(20):
            if s > 0.3:
                s = s * 0.9
                m = m + 1
        s = np.sin(s + k)
        total = m
    return s, total


def floats_of_trips(x):
    s, z = x[0], 0.0
    for k in range(50):
        h = 0.1 * k
        for _ in range(20):
            if s > 0.3:
                s = s * 0.9
            z = h * 2
        s = np.sin(s + k)
    return s, z


@pytest.mark.slow
@pytest.mark.parametrize("paths", [1, path_runs.MOST_PATHS])
@pytest.mark.parametrize("f", [numbers_of_trips, started_by_a_trip, floats_of_trips])
def test_numbers_of_the_loop_around_are_pythons(f, paths, monkeypatch):
    counted(monkeypatch, choosing=True)
    monkeypatch.setattr(path_runs, "MOST_PATHS", paths)
    call = fdiff.jit(f)
    for x in POINTS:
        value, number = call(x)
        expected = f(x)
        np.testing.assert_allclose(value, expected[0], **CLOSE)
        assert (type(number), number) == (type(expected[1]), expected[1])


@pytest.mark.parametrize("writer", ["forms", "lists"])
@pytest.mark.parametrize("seed", range(200, 208))
def test_random_programs(seed, writer, monkeypatch):
    monkeypatch.setattr(path_runs, "MOST_PATHS", 2)  # so that most bodies are split
    program = random_choosing_loops.program(random.Random(seed), writer)
    assert not random_choosing_loops.failure(program, seed)

"""Loops that choose their branches: ``while``, rows, Python's floats, loops in loops, errors."""

import random

import numpy as np
import pytest
import random_choosing_loops
from test_choosing_loops import POINTS, N, W, counted, exact

import fdiff

CLOSE = {"rtol": 1e-12, "atol": 1e-13}


def newton(x):
    z = x[0] + 1.0
    while abs(z * z - x[1] ** 2 - 1.0) > 1e-10:
        z = z - (z * z - x[1] ** 2 - 1.0) / (2 * z)
    return z * x[2]


def newton_with_a_limit(x):
    z, err, n = x[0] + 1.0, 1.0, 0
    while err > 1e-10:
        dz = (z * z - x[1] ** 2 - 1.0) / (2 * z)
        z, err = z - dz, abs(dz)
        n += 1
        if n > 50:
            raise RuntimeError("no root")
    return z * x[2] + err + 0.1 * n * x[0]


def newton_by_break(x):
    z = x[0] + 1.0
    while True:
        dz = (z * z - x[1] ** 2 - 1.0) / (2 * z)
        z = z - dz
        if abs(dz) < 1e-9:
            break
    return z * x[2]


def bisection(x):
    low, high = 0.0, 3.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        if middle**3 + middle * x[0] > x[1]:
            high = middle
        else:
            low = middle
    return low * x[2] + x[0]


def adaptive_steps(x):
    t, y, h, n = 0.0, x[0], 0.1, 0
    while t < 3.0:
        if t + h > 3.0:
            h = 3.0 - t
        whole = y + h * np.sin(y * x[1])
        half = y + 0.5 * h * np.sin(y * x[1])
        half = half + 0.5 * h * np.sin(half * x[1])
        if abs(half - whole) < 1e-3:
            t, y, h = t + h, half, h * 1.5
        else:
            h = h * 0.5
        n += 1
    return y * y + n * x[2]


def number_of_the_trip(x):
    s = x[0]
    for k in range(N):
        s = s * 0.97 + 0.001 * W[k]
        if s < 0.5 * x[1]:
            break
    return s * k


def over_an_array(x):
    s = x[0]
    for y in W:
        s = s * 0.5 + y if s * y > x[1] * 0.2 else np.sin(s) + 0.1 * y
    return s


def over_an_enumeration(x):
    s, u, last = x[0], np.cos(W * x[2]), 0
    for k, y in enumerate(u):
        if s * y > x[1] * 0.2:
            s, last = s * 0.5 + y, k
        else:
            s = np.sin(s) + 0.1 * k * W[k]
    return s + last * x[0] + y


def over_pairs(x):
    s, u = x[0], np.outer(W, x)
    for i, (y, row) in enumerate(zip(W, u, strict=False)):
        s = s * 0.5 + y if s * y > x[1] * 0.2 else np.sin(s) + 0.1 * i * row[1]
    return s + np.sum(row)


def over_zipped_rows(x):
    s, u = x[0], np.outer(W, x)
    for k, row in zip(range(3, N), u):  # noqa: B905 - keywords are left to Python
        s = s * 0.5 + row[0] if s * k > x[1] else np.sin(s) + 0.1 * row[1]
    return s * k


def clock(x):
    s, t, step = x[0], 0.0, 0.1
    for k in range(N):
        s = np.sin(s + step * W[k]) if s > x[1] else 0.9 * s + np.cos(t) * x[2]
        if s > x[2]:
            step *= 0.99
        elif step < 0.05:
            step = 0.2
        t += step
    return s * t * step


def implicit_steps(x):
    y, total, steps = x[0], 0.0, 0
    for k in range(N):
        z, err = y, 1.0
        while err > 1e-8:
            g = z - y - 0.1 * np.sin(z * x[1] + W[k])
            dz = g / (1 - 0.1 * x[1] * np.cos(z * x[1] + W[k]))
            z, err = z - dz, abs(dz)
            steps += 1
        y = z * 0.5 if z > x[2] else z
        total = total + y * y
    return total + 0.01 * steps * x[0]


def table_in_place(x):
    u = np.zeros(30)
    u[0] = x[0]
    for k in range(60):
        for j in range(1, 30):
            u[j] = u[j] * 0.9 + 0.1 * u[j - 1] + 0.01 * W[k]
            if u[j] > x[1] * 0.3:
                u[j] = u[j] * 0.5
    return np.sum(u * u)


def never_raises(x):
    s = x[0]
    for k in range(N):
        s = np.sin(s + W[k])
        if s > 5.0 * x[1] + 3:
            raise ValueError("far")
        s = s * 0.5 if s > x[2] else s
    return s


def swaps_numbers(x):
    s, t = x[0], 0.0
    for k in range(N):
        if s > t:
            s, t = t, s
        s = np.sin(s + W[k]) + 0.1 * t * x[2]
    return s + 2.0 * t


def swaps_arrays(x):
    u, v = x * 1.0, np.ones(3) * x[0]
    for k in range(N):
        w = np.sin(u + W[k]) + 0.1 * v * x[2]
        if w[0] > 0.3 * W[k] * x[1]:
            u, v = v, w
        else:
            u = w * 0.9
    return np.sum(u) + 2.0 * v[0]


def double_buffer(x):
    old, new = x * 1.0, np.zeros(3)
    for k in range(N):
        new = old * 0.9 + 0.1 * W[k] * x[1]
        if np.sum(new) > 0.5 * x[2]:
            old, new = new, old
    return np.sum(old) + np.sum(new)


def steps_of_varying_length(x):
    """More than 256 trips; `t` and `h` hold floats of Python's at first."""
    t, y, h = 0.0, x[0], 0.004
    while t < 1.5:
        dy = np.sin(y * x[1] + t)
        t, y = t + h, y + h * dy
        h = 0.005 / (1.0 + dy * dy) if y > x[2] else 0.004 + 0.001 * dy
    return y * y + t * x[2]


PROGRAMS = (
    newton, newton_with_a_limit, newton_by_break, bisection, adaptive_steps, number_of_the_trip,
    over_an_array, over_an_enumeration, over_zipped_rows, clock, implicit_steps, table_in_place,
    never_raises, swaps_numbers, swaps_arrays, double_buffer, steps_of_varying_length,
)  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_one_trace_holds_for_all_paths(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert [own.refusals for own in drivers] == [{}]
    assert len(traces) == 1
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("f", [newton_with_a_limit, adaptive_steps, implicit_steps])
def test_compiled_code_and_second_derivatives(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    second = fdiff.hessian(f)
    for x in POINTS[:2]:
        expected = exact(fdiff.hessian, f, x, monkeypatch)
        np.testing.assert_allclose(second(x), expected, rtol=1e-8, atol=1e-9)
    monkeypatch.setenv("FDIFF_TIER", "compile")
    fdiff.cache_clear()
    both = fdiff.value_and_grad(f)
    for x in POINTS:
        value, slope = both(x)
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


def decay(x):
    """Up to hundreds of trips, as the first entry of `x` says."""
    s, n = 1.0 + 0.1 * x[1], 0
    while s > 0.1:
        s = s * (1.0 - x[0]) if s > 0.3 else s - 0.1 * x[0] * x[2]
        n += 1
    return s * x[2] + n * x[1]


def decays(x):
    total = x[2]
    for k in range(30):
        total = total * 0.5 + decay(x + 0.01 * k) + 0.0 * W[k]
    return total


def decays_inside(x):
    total = x[2]
    for k in range(60):
        s = 1.0 + 0.1 * x[1]
        while s > 0.1 + 0.001 * k:
            s = s * (1.0 - x[0])
        total = np.sin(total) * 0.5 + s if total > 0.2 else total + s * x[1]
    return total


@pytest.mark.parametrize("f", [decay, pytest.param(decays, marks=pytest.mark.slow), decays_inside])
def test_a_node_of_a_while_has_room_for_trips_that_come(f, monkeypatch):
    traces, _ = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    points = [np.array([a, 0.3, 0.8]) for a in (0.4, 0.3, 0.05, 0.1, 0.02, 0.005, 0.3, 0.004, 0.4)]
    results = [both(x) for x in points]
    assert f is decays or len(traces) <= 4
    for x, (value, slope) in zip(points, results, strict=True):
        np.testing.assert_allclose(value, f(x), rtol=1e-10)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("f", [newton, decay, implicit_steps])
def test_batches_of_while_loops(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    points = np.stack(POINTS) * 0.5 if f is decay else np.stack(POINTS)
    slopes = [exact(fdiff.grad, f, x, monkeypatch) for x in points]
    many = fdiff.vmap(fdiff.grad(f))
    np.testing.assert_allclose(many(points), slopes, rtol=1e-8, atol=1e-9)


def raises(x):
    s = x[0]
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            raise ValueError(f"too large in step {k}")
        s = s * 0.5 if s > x[2] else s
    return s


def leaves_a_list(x):
    factors, n, s = [0.9, 0.5, 0.4], 0, x[0]
    for k in range(N):
        s = np.sin(factors[n] * s + W[k])
        if s > x[1]:
            n += 1
    return s


@pytest.mark.parametrize("f", [raises, leaves_a_list])
def test_errors_are_those_of_plain_code(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.value_and_grad(f)
    calm, wild = np.array([0.1, 2.0, 0.3]), np.array([0.1, 0.4, 0.3])
    for x in (calm, wild, calm * 1.1, wild * 1.1):
        if x[1] > 1:
            np.testing.assert_allclose(run(x)[0], f(x), **CLOSE)
            continue
        with pytest.raises((ValueError, IndexError), match=r"too large|out of range") as plain:
            f(x)
        with pytest.raises(plain.type, match=str(plain.value)):
            run(x)


def no_trip(x):
    z, err = x[0], 0.5
    while err > 0.4 + x[1]:
        z, err = np.sin(z), abs(z)
    return z, err


def fills_its_rows(x):
    u, s = np.outer(W, x), x[0]
    for k, row in enumerate(u):
        s = np.sin(s + row[0]) if s > x[1] else 0.9 * s
        u[(k + 3) % N, 0] = s
    return s


def changes_its_rows(x):
    u, s = np.outer(W, x), x[0]
    for row in u:
        s = np.sin(s + row[0]) if s > x[1] else 0.9 * s
        row *= 0.5  # noqa: PLW2901 - in place
    return s + np.sum(u)


def made_with_a_zip_of_its_own():
    def zip(*rows):  # noqa: A001 - that is what it is for
        return enumerate(reversed(rows[1]))

    def zip_of_its_own(x):
        s = x[0]
        for k, y in zip(W, W * 2.0):
            s = np.sin(s + y) if s > x[1] else 0.9 * s + 0.01 * k
        return s

    return zip_of_its_own


zip_of_its_own = made_with_a_zip_of_its_own()


def over_a_generator(x):
    s = x[0]
    for y in (w * x[2] for w in W):
        s = np.sin(s + y) if s > x[1] else 0.9 * s
    return s


def complex_root(x):
    s, h = x[0], 0.5
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            h -= 0.3
    return s * abs(h**0.5)


def grows_twice(x):
    s, n = x[0], 0
    for k in range(N):
        for _ in range(15):
            s = np.sin(s + 0.1 * W[k])
            if s > x[1]:
                n += 1
        if n > 40:
            n = 0
    return s * n, n, 0.5 * n


def inner_float(x):
    s, t = x[0], 0.0
    for k in range(N):
        while s > 0.5 * x[1] and t < 4.0:
            s, t = 0.9 * s, t + 0.25
        s = s + abs(W[k])
    return s * t, t


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize(
    "f",
    [
        no_trip, fills_its_rows, changes_its_rows, zip_of_its_own, over_a_generator, complex_root,
        grows_twice, inner_float, over_pairs,
    ],
)  # fmt: skip
def test_what_python_may_tell_apart_is_right(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.jit(f)
    for x in POINTS:
        value, plain = run(x.copy()), f(x.copy())
        parts = [(part if isinstance(part, tuple) else (part,)) for part in (value, plain)]
        for a, b in map(lambda *pair: pair, *parts):
            assert type(a) is type(b)
            np.testing.assert_allclose(a, b, **CLOSE)


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed):
    text = random_choosing_loops.program(random.Random(seed), "forms")
    assert not random_choosing_loops.failure(text, seed)

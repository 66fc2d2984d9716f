"""Loops that begin with trips in the log: few stay unrolled, and all compute what they should."""

import numpy as np
import pytest

import fdiff
from fdiff.trace.looping import logged_loops

X = np.array([0.3, 0.2, 0.1, 0.4, 0.25])
TRIPS = 640  # and as many calls at least: such a loop is logged at once
NUMBERS = np.sin(np.arange(1.0 * TRIPS) ** 2)


def in_place(x):
    u = x.copy()
    for _ in range(TRIPS):
        u[1:-1] -= 0.01 * (u[2:] - u[:-2])
    return np.sum(u * u)


def carried(x):
    a, b = x[0], x[1]
    for k in range(TRIPS):
        a, b = a + 0.01 * b * np.cos(a), b - 0.001 * k * np.sin(a)
    return a * b


def handed_on_three_times(x):
    a, b, c = x[0], x[1], x[2]
    for _ in range(TRIPS):
        a, b, c = b, c, 0.3 * a - 0.2 * b + 0.9 * np.cos(c)
    return a + 2.0 * b + 3.0 * c + a * x[3]


def swapped(x):
    a, b = x.copy(), x * 0.5
    for _ in range(TRIPS + 1):
        a[:] = 0.9 * b + 0.01 * np.sin(a)
        a, b = b, a
    return np.sum(a) + 2.0 * np.sum(b)


def entries_wait_to_be_stored(x):
    u = x.copy()
    u[3] = x[0] * 2.0
    for _ in range(TRIPS):
        u[1] = u[0] * 0.9 + 0.1 * u[3]
        u[0] = u[1] * 0.99 + 0.001 * np.cos(u[1])
    return np.sum(u)


def entries_of_a_new_array(x):
    u = np.zeros(TRIPS + 1)
    u[0] = x[2]
    for k in range(TRIPS):
        u[k + 1] = u[k] * 0.999 + x[0] * 0.01 * np.cos(u[k])
    return np.sum(u) * x[1]


def numbers_of_the_trips(x):
    s = x[0]
    for k, z in enumerate(NUMBERS):
        s = 0.99 * s + x[1] * z - 0.1 * k * x[2]
    return s


def negative_positions_first(x):
    u, s = np.concatenate([x] * 150), x[0]
    for k in range(-2, TRIPS):
        s = s * 0.9 + u[k] * u[k + 1]
    return s


def minus_zero_first(x):
    s = x[0]
    for k in range(TRIPS):
        s = 0.3 * s + 0.1 * np.arctan2(x[1] * (-0.0 if k < 3 else 0.0), -1.0 - s * s)
    return s


def a_second_number_early(x):
    u = x.copy()
    for k in range(TRIPS):
        u[1:-1] += (0.5 if k == 2 else 0.01) * (u[2:] - u[:-2])
    return np.sum(u * u)


def early_handles_live_on(x):
    u, kept, views = x.copy(), [], []
    for _ in range(TRIPS):
        v = u[1:-1] * 0.5
        u[1:-1] += 0.01 * np.sin(v)
        if len(kept) < 9:
            kept.append(v)
            views.append(u[2:])
    kept += views
    return sum(np.sum(v) * (k + 1.0) for k, v in enumerate(kept)) + np.sum(u)


def early_handles_are_stored_into_behind(x):
    u, kept = x.copy(), []
    for _ in range(TRIPS):
        v = u * 0.5
        u += 0.01 * np.sin(v)
        if len(kept) < 6:
            kept.append(v)
    for v in kept:
        v[0] = v[1] * u[2]
    return sum(np.sum(v) for v in kept) + np.sum(u)


def earlier_ones_are_stored_into(x):
    a = [x * 1.0]
    for _ in range(TRIPS):
        a.append(a[-1] * 0.9 + 0.01)
        a[-2][0] = a[-1][1] * 0.5
        if len(a) > 3:
            a.pop(0)
    return sum(np.sum(q) for q in a)


def local_arrays(x):
    s = x[2]
    for k in range(TRIPS):
        w = np.zeros(3)
        w[k % 3] = x[0]
        w[1] += x[1]
        s = s * 0.9 + np.sum(w * w)
    return s


def views_from_before(x):
    u = x.copy()
    v = u[1:]
    for _ in range(TRIPS):
        v *= 0.999
        u[0] = u[0] * 0.99 + 0.001 * v[0]
    return np.sum(u * u)


def stores_without_gates(x):
    u = x.copy()
    for _ in range(TRIPS):
        u[1:] += 0.0001 * u[:-1]
        np.copyto(u, u * 0.999)
        np.put(u, [0], u[1])
    return np.sum(u * u)


def loops_in_loops(x):
    u = x.copy()
    for i in range(20):
        for _ in range(700 if i == 0 else 20):
            u[1:] += 0.001 * u[:-1]
        u *= 0.99
    return np.sum(u)


def one_loop_twice(x):
    def steps(u):
        for _ in range(TRIPS):
            u[1:] += 0.0001 * u[:-1]
        return u

    return np.sum(steps(0.3 * steps(x.copy())) ** 2)


def ends(trips):
    def ends_early(x):
        u = x.copy()
        for k in range(10_000):
            u[1:-1] += 0.01 * (u[2:] - u[:-2])
            if k == trips:
                break
        return np.sum(u * u)

    return ends_early


PROGRAMS = [
    in_place, carried, handed_on_three_times, swapped, entries_wait_to_be_stored,
    entries_of_a_new_array, numbers_of_the_trips, negative_positions_first, minus_zero_first,
    a_second_number_early, early_handles_live_on, early_handles_are_stored_into_behind,
    earlier_ones_are_stored_into, local_arrays, views_from_before, stores_without_gates,
    loops_in_loops, one_loop_twice, *map(ends, (2, 3, 4, 5, 6, 9, 40, 100)),
]  # fmt: skip


@pytest.mark.parametrize("way", ["", "check"])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_loops_that_begin_in_the_log_compute_what_unrolled_ones_do(f, way, monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")
    value, slope = fdiff.value_and_grad(lambda x: f(x))(X)
    monkeypatch.setenv("FDIFF_LOOPS", way)
    ours = fdiff.value_and_grad(lambda x: f(x))(X)
    np.testing.assert_allclose(ours[0], value, rtol=1e-12)
    np.testing.assert_allclose(ours[1], slope, rtol=1e-11, atol=1e-12 * np.abs(slope).max())
    assert value == pytest.approx(f(X), rel=1e-12)


@pytest.mark.parametrize("f", [in_place, carried, numbers_of_the_trips])
def test_few_trips_of_a_long_loop_stay_unrolled(f):
    """Those before the first look at the trace."""
    (length,) = [dict(node.params)["length"] for node in loops(f)]
    assert length >= TRIPS - 3


def loops(f):
    return [n for n in fdiff.make_tape(f, X).nodes if n.primitive.name == "loop"]


def test_trips_are_those_of_the_log_only_if_each_call_fits(monkeypatch):
    """Where one does not, fewer trips are taken, or none."""
    assert len(loops(a_second_number_early)) == 1
    taken = logged_loops._takes
    refused = []

    def refuses(frame, calls, carried):
        refused.append(len(calls) // frame.template.length)
        return taken(frame, calls, carried) and refused[-1] < 2

    monkeypatch.setattr(logged_loops, "_takes", refuses)
    value = fdiff.jit(lambda x: in_place(x))(X)
    assert refused[:3] == [3, 2, 1]
    np.testing.assert_allclose(value, in_place(X), rtol=1e-13)

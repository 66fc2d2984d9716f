"""Loops that choose their branches, and append to lists until they are left, or on some paths."""

import numpy as np
import pytest
from test_choosing_containers import assert_same, summed
from test_choosing_loops import POINTS, N, W, counted, exact

import fdiff

CLOSE = {"rtol": 1e-12, "atol": 1e-13}


def newton_with_its_history(x):
    y, steps = 1.0 + x[0] ** 2, []
    for _ in range(30):
        step = (y**3 - 2 - x[1] ** 2) / (3 * y * y)
        y = y - step
        steps.append(y)
        if abs(step) < 1e-3:
            break
    return sum(steps) + steps[-1] * 0.1 * len(steps)


def waits_for_the_last(x):
    ys = [2.0 + x[0] ** 2]
    while abs(ys[-1] ** 2 - 2.0 - x[1] ** 2) > 1e-4:
        ys.append(0.5 * (ys[-1] + (2.0 + x[1] ** 2) / ys[-1]))
    return np.sum(np.array(ys)) + ys[-1] * x[2]


def adaptive_path(x):
    t, y, h, path = 0.0 * x[0], x[1] + 1.0, 0.1 + 0.01 * x[2], []
    while t < 1.0:
        k1 = -y * (1.0 + x[0] ** 2)
        k2 = -(y + h * k1) * (1.0 + x[0] ** 2)
        if abs(h * (k2 - k1)) < 0.02:
            t, y = t + h, y + 0.5 * h * (k1 + k2)
            path.append((t, y))
            h = h * 1.2
        else:
            h = h * 0.6
    return sum([t * y for t, y in path]) + path[-1][1] + 0.1 * len(path)


def accepted_alone(x):
    s, kept = x[0], []
    for k in range(N):
        y = np.sin(s + W[k])
        if y > x[1]:
            s = y * 0.9
            kept.append(s)
        else:
            s = s * 0.5 + 0.1
    return sum([k * y for k, y in enumerate(kept)]) + 0.1 * len(kept)


def accepted_arrays(x):
    u, kept = x * 1.0, [x * 0.5]
    for k in range(N):
        if np.sum(u) > x[1] + W[k]:
            u = np.sin(u) * 0.9
            kept.append(u)
    return np.sum(np.array(kept) ** 2) + kept[-1][0] * u[1]


def arrays_until_left(x):
    u, us = x + 2.0, []
    while np.max(np.abs(u)) > 0.2:
        u = u * (0.7 + 0.01 * np.sin(x[0]))
        us.append(u)
    return sum([np.sum(u) * k for k, u in enumerate(us)])


def crossings(x):
    v, times, drift = x[0], [], 0.2 + 0.02 * x[1]
    for k in range(N):
        slope = drift + 0.1 * W[k] if v > x[2] else 1.2 * drift
        if v + slope > 1.8:
            times.append(k + (1.8 - v) / slope)
            v = 0.1 * v
        else:
            v = v + slope
    return sum([t * t for t in times]) + 0.1 * len(times) + v


def two_lists(x):
    s, low, high = x[0], [], [x[2]]
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            high.append(s * 0.5)
        else:
            low.append((s, s * s))
    return sum(high) + sum([p * q for p, q in low]) + 0.1 * len(low) - high[-1]


PROGRAMS = (
    newton_with_its_history, waits_for_the_last, adaptive_path, accepted_alone, accepted_arrays,
    arrays_until_left, two_lists, crossings,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", PROGRAMS)
def test_there_is_a_trace_for_each_length(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    rng = np.random.default_rng(3)
    points = [*POINTS, *[rng.uniform(0.2, 0.4, 3) for _ in range(6)]]
    for x in points:
        value, slope = both(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-12)
        central = [(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
        np.testing.assert_allclose(slope, central, rtol=1e-5, atol=1e-6)
    assert not any(own.refusals for own in drivers), [own.refusals for own in drivers]
    count = len(traces)
    for x in points:
        both(x)
    if f not in (accepted_alone, adaptive_path, two_lists):  # of many lengths
        assert len(traces) == count


def test_lists_of_many_lengths_run_eagerly(monkeypatch):
    traces, _ = counted(monkeypatch)
    slope = fdiff.grad(accepted_alone)
    for x in np.random.default_rng(0).uniform(0.2, 1.3, (40, 3)):
        slope(x)
    assert traces.count(True) < 12


def gives_what_it_kept(x):
    s, kept, where = x[0], [0.5], []
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            kept.append(s)
            where.append((k, 0.5 * k, s))
    return kept, where


def gives_arrays(x):
    u, us = x * 1.0, []
    for k in range(N):
        if np.sum(u) > x[1] + W[k]:
            u = np.sin(u) * 0.9 + 0.3
            us.append(u)
    return us, u


def array_changed_behind(x):
    us, u = gives_arrays(x)
    u += 1.0
    return us, u


def last_array_changed_behind(x):
    us, u = gives_arrays(x)
    if us:
        us[-1][0] = 3.0
    return us, u


def another_array_where_it_is_left(x):
    u, us = x + 1.0, []
    for k in range(N):
        u = np.sin(u) + 0.1 * W[k]
        if u[0] < 0.75:
            break
        us.append(u)
    u += 1.0
    return us, u


def array_stored_into_elsewhere(x):
    u, us = x + 1.0, []
    for k in range(N):
        if u[0] > x[1] + W[k]:
            u = np.sin(u)
            us.append(u)
        else:
            u += 0.1
    return us, u


def keeps_the_one_before(x):
    u, old, us = x + 1.0, x * 2.0, []
    for k in range(N):
        if u[0] > x[1] + W[k]:
            old = u
            u = np.sin(u) + 0.2
            us.append(u)
    old += 1.0
    return us, old


def the_best_is_in_the_list(x):
    u, best, us = x + 1.0, x * 1.0, []
    for k in range(N):
        u = np.sin(u + W[k])
        if u[0] > x[1]:
            us.append(u)
            if u[1] > best[1]:
                best = u
    best += 1.0
    return us, best


def keeps_none(x):
    s, kept = x[0], []
    for k in range(N):
        s = np.sin(s + W[k])
        if s > 2.0 + x[1]:
            kept.append(s)
    return s, kept


def reads_the_last_kept(x):
    s, kept = x[0], [x[2]]
    for k in range(N):
        s = np.sin(s + W[k]) + 0.1 * kept[-1]
        if s > x[1]:
            kept.append(s * kept[-1])
    return s, kept


def reads_the_last_two_pairs(x):
    kept = [(x[2], 0.5), (x[1], x[0])]
    for k in range(N):
        s = np.sin(kept[-1][0] + kept[-2][1] + W[k])
        if s > x[1]:
            kept.append((s, s * 0.5))
        elif s < 0.1:
            kept.append((x[0], s))
    return kept


def kept_lists(x):
    s, kept = x[0], [[x[2], 1.0]]
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            kept.append([s, 2.0])
    kept[-1][0] = 5.0
    return s, kept


def twice_on_one_path(x):
    s, kept = x[0], []
    for k in range(N):
        s = np.sin(s + W[k])
        kept.append(s)
        if s > x[1]:
            kept.append(s * 0.5)
    return kept


def types_by_path(x):
    s, kept = x[0], []
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            kept.append(s)
        elif s > 0.1:
            kept.append(1.0)
    return kept


def floats_of_python(x):
    s, t, kept = x[0], 0.0, []
    for k in range(N):
        s = np.sin(s + W[k])
        t += 0.5 if s > x[1] else 0.25
        if s > 0.3:
            kept.append(t)
    return kept, t


def starts_of_python(x):
    s, last, kept = x[0], 0.0, []
    for k in range(N):
        s = np.sin(s + W[k])
        if s > 0.3:
            kept.append(last)
        last = s
    return kept


def returns_from_the_loop(x):
    s, kept = x[0], []
    for k in range(N):
        s = np.sin(s + W[k])
        kept.append(s)
        if s < x[1] * 0.4:
            return s
    return s + sum(kept)


def returns_the_list(x):
    s, kept = x[0], []
    for k in range(N):
        s = np.sin(s + W[k])
        kept.append(s)
        if s < x[1] * 0.4:
            return s, kept
    return s, kept


def left_with_else(x):
    s, kept = x[0], []
    for k in range(N):
        s = np.sin(s + W[k])
        if s < x[1] * 0.4:
            break
        kept.append((k, s))
    else:
        kept.append((100, s))
    return kept


def skips_by_continue(x):
    s, kept = x[0], []
    k = 0
    while k < N:
        k += 1
        s = np.sin(s + W[k - 1])
        if s > x[1]:
            continue
        kept.append(s)
        if len(x) > 5:
            break
    return kept, k


def in_a_loop(x):
    s, kept = x[0], []
    for k in range(14):
        for i in range(14):
            s = np.sin(s + W[i])
            if s > x[1]:
                kept.append(s)
        s = s * 0.5 + 0.1 * W[k]
    return s, kept


def new_in_each_trip(x):
    s, rows = x[0], []
    for k in range(14):
        row = []
        for i in range(14):
            s = np.sin(s + W[i])
            if s > x[1]:
                row.append(s)
            if s > 0.9:
                break
        rows.append(sum(row) + W[k])
    return rows


def two_names(x):
    s, kept = x[0], []
    other = kept
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            kept.append(s)
    return s, other, len(other)


def of_an_argument(x, kept):
    s = x[0]
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            kept.append((s, s))
    return s


def gets_an_argument(x):
    kept = [(0.5, x[0])]
    s = of_an_argument(x, kept)
    return s, kept, of_an_argument(x * 0.9, kept), len(kept)


def stops_half_way(x):
    kept = []
    try:
        raises(x, kept)
    except ValueError:
        kept.append(x[0])
    return kept


def raises(x, kept):
    s = x[0]
    for k in range(N):
        s = np.sin(s + W[k])
        kept.append(s)
        if s < x[1] * 0.4:
            raise ValueError
    return s


def integers(x):
    s, n, kept = x[0], 0, []
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            n += 2
            kept.append(n)
    return s, kept, n


OTHERS = (
    gives_what_it_kept, gives_arrays, array_changed_behind, last_array_changed_behind,
    another_array_where_it_is_left, array_stored_into_elsewhere, keeps_the_one_before,
    the_best_is_in_the_list, keeps_none, reads_the_last_kept, reads_the_last_two_pairs, kept_lists,
    twice_on_one_path, types_by_path, floats_of_python, starts_of_python, returns_from_the_loop,
    returns_the_list, left_with_else, skips_by_continue, in_a_loop, new_in_each_trip, two_names,
    gets_an_argument, stops_half_way, integers,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", OTHERS)
def test_what_python_may_tell_apart_is_right(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    call, slope = fdiff.jit(f), fdiff.grad(lambda x: summed(f(x)))
    for x in POINTS:
        assert_same(call(x.copy()), f(x.copy()))
        expected = exact(fdiff.grad, lambda x: summed(f(x)), x, monkeypatch)
        np.testing.assert_allclose(slope(x), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", [newton_with_its_history, accepted_alone])
def test_batches_and_hessians(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    points = np.array(POINTS)
    np.testing.assert_allclose(fdiff.vmap(f)(points), [f(x) for x in points], **CLOSE)
    for x in POINTS:
        expected = exact(fdiff.hessian, f, x, monkeypatch)
        np.testing.assert_allclose(fdiff.hessian(f)(x), expected, rtol=1e-8, atol=1e-10)


KEPT = []


def keeps_outside(x):
    s, kept = x[0], []
    KEPT.append(kept)
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            kept.append(s)
    return s


def appends_outside(x):
    s = x[0]
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            KEPT.append(s)
    return s


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", [keeps_outside, appends_outside])
def test_lists_outside_are_those_of_plain_code(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    states = []
    for call in (f, fdiff.jit(f)):
        KEPT.clear()
        values = [call(x) for x in POINTS]
        states.append((values, [*KEPT]))
    assert_same(states[1], states[0])

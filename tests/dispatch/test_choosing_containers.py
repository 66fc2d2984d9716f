"""Loops that choose their branches, and keep values in lists, tuples and dicts."""

import random

import numpy as np
import pytest
import random_choosing_loops
from test_choosing_loops import POINTS, N, W, counted, exact

import fdiff

CLOSE = {"rtol": 1e-12, "atol": 1e-13}
TIMES = [0.1 * k for k in range(N)]
FACTORS = [0.9, 0.5, 0.2]


def state(x):
    s = [x[0], x[1] * 1.0, 0.5 * x[2]]
    alias = s
    for k in range(N):
        if s[0] > s[1]:
            s[0] = s[0] * 0.5
        s[1] = np.sin(s[0] + s[1] + W[k])
        s[0], s[2] = s[2], s[0] * 0.9 + 0.1
    return s[0] + 2 * s[1] - s[2] + alias[1] * len(s)


def stores_into_a_list(x):
    s, last = x[0], [0]
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            last[0] = k
    return s * last[0]


def rebuilt(x):
    y = [x[0], x[1]]
    first = y
    for k in range(N):
        d = [y[1] * 0.1, -y[0] * 0.1 if y[0] > 0.2 else -0.05 * y[0] + 0.01 * W[k]]
        y = [a + b for a, b in zip(y, d, strict=False)]
    return y[0] * y[1] + first[0] + sum(y) * x[2]


def record(x):
    p = {"a": x[0], "n": 0, "v": x * 1.0}
    for k in range(N):
        if p["a"] > x[1]:
            p["a"] = p["a"] * 0.5
            p["n"] += 1
        p["v"] = np.cos(p["v"]) * 0.9 + 0.1 * x
        p["a"] = np.sin(p["a"] + W[k]) + p["v"][0]
    return p["a"] + 0.1 * p["n"] * x[1] + np.sum(p["v"])


def pair(x):
    t = (x[0], x[1])
    for k in range(N):
        if t[0] > t[1]:
            t = (t[1], t[0] * 0.9)
        t = (np.sin(t[0] + W[k]) * x[2], t[1] * 0.99 + 0.01)
    return t[0] * t[1]


def table(x):
    m = [[x[0], x[1]], [x[2], 0.3 * x[0]]]
    for k in range(N):
        if m[0][0] > m[1][1]:
            m[0][1] = m[0][0] * 0.3
        m[1][1] = np.sin(m[0][0] + m[0][1])
        m[0][0] = np.cos(m[1][1] + W[k])
    return m[0][0] + m[0][1] * m[1][0] + m[1][1]


def arrays_in_a_list(x):
    layers = [x * 1.0, x * 0.5]
    for k in range(N):
        if layers[0][0] > layers[1][1]:
            layers[0][1] = layers[0][0] * 0.3
            layers[1] *= 0.9
        layers[1][2] += 0.1 * W[k]
        layers[0] *= 0.9
        layers[0][0] += 0.2 * x[0]
    return np.sum(layers[0]) + np.sum(layers[1] * x)


def integrated(x):
    y, t = [x[0] + 2.0, x[1]], 0.0
    while t < 5.0 and y[0] > 0.1:
        h = 0.2 if y[0] > 1.0 else 0.1
        y = [y[0] - h * y[1] * y[1] - 0.05, y[1] + 0.02 * y[0]]
        t += h
    return y[0] * y[1] + t * x[2]


def history(x):
    s, out = x[0], []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k] * x[2])
        out.append(s)
    y = np.array(out)
    return np.sum(y * y) + out[3] - out[-1] * len(out)


def times_and_values(x):
    s, out, times, t = x[0], [], [], 0.0
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        t += 0.1
        out.append(s)
        out.append(x[2])
        times.append(t)
    return np.sum(np.array(out)[::2] * np.array(times)) + out[-1] * times[-1]


def trajectory(x):
    y = x * 1.0
    out = [y]
    for k in range(N):
        if y[0] > x[1]:
            y = y * 0.5
        y = np.sin(y + W[k])
        out.append(y)
    out[4] = out[4] * 2.0
    return np.sum(np.array(out) ** 2) + y[1] + out[0][2]


def recurrence(x):
    xs = [x[0], x[1]]
    for k in range(N):
        new = 0.5 * xs[-1] + 0.3 * xs[-2]
        if new > x[2]:
            new = new - 0.1 * x[0]
        xs.append(np.sin(new) + 0.2 * W[k])
    return np.sum(np.stack(xs)) + xs[5] * xs[-1]


def moving_means(x):
    xs = [x[0], x[1], x[2]]
    for k in range(N):
        mean = sum(xs[-3:]) / 3
        if mean > 0.3:
            xs.extend([0.8 * mean + 0.1 * W[k], 0.5 * xs[-2]])
        else:
            xs.extend((mean + 0.2 * W[k], 0.4 * sum(xs[-2:])))
    return xs[-1] + sum(xs[10:20]) + len(xs)


def two_histories(x):
    a, b, xs, ys = x[0], x * 1.0, [1.0], []
    for k in range(N):
        xs.append(a)
        if a > x[1]:
            a = a * 0.5
            b = b * 0.9
            ys.append(a * a)
        else:
            ys.append(-a)
        a = np.sin(a + W[k])
        ys.append(a * b[0])
        xs.append(np.sum(b) + a)
    return np.sum(np.array(xs)) + np.sum(np.stack(ys) * W[3]) + xs[7]


def inner_history(x):
    s, out = x[0], []
    for k in range(8):
        for j in range(14):
            if s > x[1]:
                s = s * 0.5
            s = np.sin(s + W[k] + 0.1 * j * x[2])
            out.append(s)
    return np.sum(np.array(out) * W[5]) + out[20]


def over_a_list(x):
    rows = [np.sin(x[0] * W[k]) for k in range(N)]
    s = x[1]
    for a in rows:
        if a > s:
            s = s * 0.5 + a
        s = np.sin(s) + 0.1 * x[2]
    return s * a


def over_arrays(x):
    rows = [np.sin(x * W[k]) for k in range(N)]
    s = x[1]
    for k, a in enumerate(rows):
        if a[0] > s:
            s = s * 0.5 + np.sum(a)
        s = np.sin(s + 0.1 * k)
    return s + a[1]


def over_zipped_lists(x):
    rows = [np.sin(x[0] * W[k]) for k in range(N)]
    s = x[1]
    for a, (t, b) in zip(rows, zip(TIMES, W, strict=False), strict=False):
        if a > s:
            s = s * 0.5 + a * t
        s = np.sin(s + b + t)
    return s * a + t * x[2]


def delay_line(x):
    delayed, place, s = [0.0, 0.0, 0.0], 0, x[0]
    for k in range(N):
        s = 0.6 * s + 0.3 * delayed[place] + W[k] * x[1]
        if s > x[2]:
            s = 0.5 * s
        delayed[place] = s
        place = (place + 1) % 3
    return s + delayed[0] * delayed[2]


def levels(x):
    s, level = x[0], 0
    for k in range(N):
        s = np.sin(FACTORS[level] * s + W[k]) + 0.1 * x[2 - level]
        if s > x[1] and level < 2:
            level += 1
        elif s < 0.0:
            level = 0
    return s * x[2]


CHOOSING = (
    state, stores_into_a_list, rebuilt, record, pair, table, arrays_in_a_list, integrated, history,
    times_and_values, trajectory, recurrence, two_histories, inner_history, over_a_list,
    over_arrays, over_zipped_lists, delay_line, levels, moving_means,
)  # fmt: skip


@pytest.mark.parametrize("f", CHOOSING)
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


@pytest.mark.parametrize("f", [state, trajectory, over_arrays])
def test_compiled_code_and_second_derivatives(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    second = fdiff.hessian(f)
    for x in POINTS[:2]:
        expected = exact(fdiff.hessian, f, x, monkeypatch)
        np.testing.assert_allclose(second(x), expected, rtol=1e-9, atol=1e-11)
    monkeypatch.setenv("FDIFF_TIER", "compile")
    both = fdiff.value_and_grad(f)
    for x in POINTS:
        value, slope = both(x)
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


# --------------------------------------------------------------- what Python may tell apart


def one_arm_appends(x):
    s, out = x[0], []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
            out.append(s)
        s = np.sin(s + W[k])
    return s, out


def one_arm_appends_twice(x):
    s, out = x[0], []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
            out.append(s)
        s = np.sin(s + W[k])
        out.append(s)
    return np.sum(np.array(out)) + len(out)


def appends_until_left(x):
    s, out = x[0], []
    for k in range(N):
        if s > 1.9 * x[1]:
            break
        s = np.sin(s + W[k]) + 0.4
        out.append(s)
    return s, out


def one_array_many_times(x):
    u, out = x * 1.0, []
    for k in range(N):
        if u[0] > x[1]:
            u[0] = u[0] * 0.5
        u += 0.1 * W[k]
        out.append(u)
    out[3][1] = 7.0
    return out, u


def appends_what_it_had(x):
    u, out = x * 1.0, []
    for k in range(N):
        out.append(u)
        if u[0] > x[1]:
            u = u * 0.5
        if W[k] > 0.3:
            u = np.sin(u)
    out[0][1] = 7.0
    return out, u


def stored_behind(x):
    y, out = x * 1.0, []
    for k in range(N):
        if y[0] > x[1]:
            y = y * 0.5
        y = np.sin(y + W[k])
        out.append(y)
    out[-1][0] = 5.0
    out[4][1] = 2.0
    y[2] = 3.0
    return out, y


def changed_after_appending(x):
    y, out = x * 1.0, []
    for k in range(N):
        if y[0] > x[1]:
            y = y * 0.5
        y = np.sin(y + W[k])
        out.append(y)
        y += 0.1
    return out, y


def changed_in_the_next_trip(x):
    y, out = x * 1.0, []
    for k in range(N):
        y[0] = 0.3 * x[1]
        if y[1] > x[1]:
            y = y * 0.5
        y = np.sin(y + W[k])
        out.append(y)
    return out, y


def read_by_another_name(x):
    s, out = x[0], []
    other = out
    for k in range(N):
        if s > x[1]:
            s = s * 0.5 * len(other)
        s = np.sin(s + W[k])
        out.append(s)
    return s, other


def numbers_of_python(x):
    s, out, times, t = x[0], [], [], 0.0
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        t += 0.1
        out.append(s)
        times.append(t)
    return out, times


def numbers_of_all_kinds(x):
    s, out, ks, ts, cs, t, n = x[0], [], [], [], [], 0.25, 0
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
            n += 2
        s = np.sin(s + W[k])
        t = t * 0.99
        out.append(x[1])
        out.append(W[3])
        ks.append(k)
        ks.append(2 * k + 1)
        cs.append(n)
        ts.append(t)
        ts.append(0.5 * k)
        ts.append(3.0)
    return out, ks, ts, cs, s


def arrays_of_no_axes(x):
    s, out, marks = x[0], [], []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        out.append(np.where(s > x[2], s, x[0]))
        last = np.array(s * 0.3)
        marks.append(last)
        s = np.sin(s + W[k])
    marks[-1][()] = 7.0
    return out, s, marks, last


def numbers_on_one_path(x):
    s, out = x[0], []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
            out.append(1.0)
        else:
            out.append(s)
        s = np.sin(s + W[k])
    return out


def flags_and_marks(x):
    s, out, marks = x[0], [], []
    for k in range(N):
        out.append(1 if s > x[1] else 0)
        marks.append(s > x[2])
        s = np.sin(s + W[k])
    return out, s, marks


def counts(x):
    s, out, n = x[0], [], 0
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
            n += 1
        s = np.sin(s + W[k])
        out.append(n)
    return s, out


def appends_its_start(x):
    s, out = 0.3, []
    for k in range(N):
        out.append(s)
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k] * x[0])
    return out, s


def half_a_trip_number(x):
    s, out = x[0], []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        out.append(0.5 * k)
    return s, out


def sliced(x):
    s, out = x[0], [x[0], x[1]]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5 + 0.01 * sum(out[-2:])
        s = np.sin(s + W[k])
        out.append(s)
    return s, out


def counted_length(x):
    s, out = x[0], []
    for k in range(N):
        if s > x[1] and len(out) > 3:
            s = s * 0.5
        s = np.sin(s + W[k])
        out.append(s)
    return s, out


def read_from_the_front(x):
    s, out = x[0], [x[2]]
    for k in range(N):
        if s > out[0]:
            s = s * 0.5
        s = np.sin(s + W[k])
        out.append(s)
    return s, out


def pops(x):
    s, out = x[0], [x[0], x[1]]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k]) + 0.1 * out.pop()
        out.append(s)
    return s, out


def shared(x):
    a = [x[0], x[1]]
    b = a
    for k in range(N):
        if a[0] > x[1]:
            a[0] = a[0] * 0.5
        b[1] = np.sin(b[0] + W[k])
        a[0] = a[0] + 0.1 * b[1]
    return a, b


def swapped_lists(x):
    a, b = [x[0], x[1]], [x[1], x[2]]
    first = a
    for k in range(N):
        if a[0] > b[0]:
            a, b = b, a
        a[0] = np.sin(a[0] + W[k])
        b[1] = b[1] * 0.9
    return a, b, first


def perhaps_a_new_list(x):
    y = [x[0], x[1]]
    before = y
    for k in range(N):
        if y[0] > 1.1:
            y = [y[0] * 0.5, y[1]]
        u = np.sin(y[0] + W[k])
    before[0] = 5.0
    return y, u


def new_and_changed(x):
    y = [x[0], x[1]]
    before = y
    for k in range(N):
        y[0] = y[0] * 0.9
        if y[0] > 0.3:
            y = [y[0] * 0.5, y[1] + 0.1]
        y[1] = np.sin(y[0] + W[k])
    return y, before


def grows_in_place(x):
    y, s = [x[0]], x[1]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        y += [s]
        s = np.sin(s + W[k])
    return y, s


def holds_itself(x):
    y, s = [x[0], x[1]], x[2]
    y[1] = y
    for k in range(N):
        if s > x[1]:
            y[0] = y[0] * 0.5
        s = np.sin(s + W[k])
    return y[0], s


def one_array_twice(x):
    u = x * 1.0
    y = [u, u]
    for k in range(N):
        if y[0][0] > x[1]:
            y[0][0] = y[0][0] * 0.5
        y[1][1] = y[1][1] + 0.1 * W[k]
    return y, u


def array_with_another_name(x):
    u = x * 1.0
    y, s = [u, x[0]], x[1]
    for k in range(N):
        if s > x[1]:
            y[0][0] = y[0][0] * 0.5
        s = np.sin(s + u[0] + W[k])
    return y[0], u, s


def one_list_in_two(x):
    inner = [x[0], x[1]]
    outer = [inner, [x[2], x[0]]]
    for k in range(N):
        if inner[0] > x[1]:
            outer[0][0] = outer[0][0] * 0.5
        inner[1] = np.sin(inner[0] + W[k])
    return outer, inner


def element_in_a_list(x):
    y, s = [x[0], x[1]], x[2]
    for k in range(N):
        if s in y or s > x[1]:
            y[0] = s * 0.5
        s = np.sin(s + W[k])
    return y, s


def numbers_become_arrays(x):
    y = [0.0, 1]
    for k in range(N):
        if x[0] > W[k]:
            y[0] = y[0] + x[1]
        y[1] = y[1] + 1
    return y


def other_keys(x):
    p = {"a": x[0]}
    for k in range(N):
        if p["a"] > x[1]:
            p["b"] = 0.5 * p["a"]
        p["a"] = np.sin(p["a"] + W[k])
    return p["a"], len(p)


def moving_place(x):
    y = [x[0], x[1], x[2]]
    for k in range(N):
        if y[0] > x[1]:
            y[k % 3] = 0.5 * y[0]
        y[0] = np.sin(y[0] + y[k % 2] + W[k])
    return y


def rows_changed_in_place(x):
    rows = [x * k for k in range(N)]
    s = x[1]
    for r in rows:
        b = r
        b[0] = 5.0
        if r[0] > s:
            s = s * 0.5 + r[1]
        s = np.sin(s + r[0])
    return s, rows, r


def constant_rows_changed(x):
    rows = [np.zeros(2) for k in range(N)]
    s = x[1]
    for r in rows:
        b = r
        b += 5.0
        if r[0] > s:
            s = s * 0.5 + r[1]
        s = np.sin(s + r[0])
    return s, rows, r


def last_row_changed_behind(x):
    rows = [x * k for k in range(N)]
    s = x[1]
    for r in rows:
        if r[0] > s:
            s = s * 0.5 + r[1]
        s = np.sin(s + r[0])
    r[0] = 7.0
    return s, rows, r


def keeps_a_row(x):
    rows = [x * k for k in range(N)]
    s, v = x[1], x * 1.0
    for r in rows:
        if r[0] > s:
            s = s * 0.5 + r[1]
            v = r
        s = np.sin(s + r[0])
    v[0] = 7.0
    return s, rows, v


def rows_that_change(x):
    rows = [np.sin(x[0] * k) for k in range(N)]
    s = x[1]
    for a in rows:
        if a > s:
            s = s * 0.5 + a
        rows[5] = s
        s = np.sin(s)
    return s, rows


def rows_that_grow(x):
    rows = [np.sin(x[0] * k) for k in range(N)]
    s = x[1]
    for a in rows:
        if a > s:
            s = s * 0.5 + a
        s = np.sin(s)
        if len(rows) < N + 5:
            rows.append(s)
    return s, rows


def divides_by_rows(x):
    s = x[1]
    for t in TIMES:
        if t > s:
            s = s * 0.5 + t
        s = np.sin(s + 1.0 / (t + 0.5))
    return s, t


def rows_of_several_types(x):
    rows = [0.5, *[x[0] * k for k in range(N)], 1]
    s = x[1]
    for a in rows:
        if a > s:
            s = s * 0.5 + a
        s = np.sin(s)
    return s, a


def keeps_a_float(x):
    s, z = x[1], 0.0
    for t in TIMES:
        if t > s:
            s = s * 0.5 + t
            z = t
        s = np.sin(s + t)
    return s, t, z


def made_by_one_arm(x):
    s, best = x[0], [0.0, 0.0]
    for k in range(N):
        if s > x[1]:
            best = [s, s * W[k]]
            s = s * 0.5
        s = np.sin(s + W[k])
    return s, best


def bound_in_the_loop(x):
    s = x[0]
    for k in range(N):
        y = [s, s * W[k]]
        if s > x[1]:
            y[1] = s * 0.5
        s = np.sin(y[1] + W[k])
    return s, y


def tally(x):
    sums, s = [0.0, 0.0, 0.0], x[0]
    for k in range(20):
        s = np.sin(s + W[k] * x[1])
        place = 0 if s > 0.9 else 1 if s > x[2] else 2
        sums[place] += s
    return s, sums, sums[place - 1]


OTHERS = (
    one_arm_appends, one_arm_appends_twice, appends_until_left, one_array_many_times,
    appends_what_it_had, stored_behind,
    changed_after_appending, changed_in_the_next_trip, read_by_another_name, numbers_of_python,
    numbers_of_all_kinds, arrays_of_no_axes, numbers_on_one_path, flags_and_marks,
    counts, appends_its_start, half_a_trip_number, sliced, counted_length, read_from_the_front,
    pops, shared, swapped_lists, perhaps_a_new_list, new_and_changed, grows_in_place, holds_itself,
    one_array_twice, array_with_another_name, one_list_in_two, element_in_a_list,
    numbers_become_arrays, other_keys, moving_place, rows_changed_in_place, constant_rows_changed,
    last_row_changed_behind, keeps_a_row, rows_that_change, rows_that_grow, divides_by_rows,
    rows_of_several_types, keeps_a_float, made_by_one_arm, bound_in_the_loop, tally,
)  # fmt: skip


def assert_same(result, expected):
    """Assert that results are of the same types and close."""
    assert type(result) is type(expected)
    if isinstance(expected, (list, tuple)):
        assert len(result) == len(expected)
        for a, b in zip(result, expected, strict=True):
            assert_same(a, b)
    else:
        np.testing.assert_allclose(result, expected, **CLOSE)


def summed(parts):
    """The sum of all numbers in a result, each with another weight."""
    if not isinstance(parts, (list, tuple)):
        return np.sum(parts * np.float64(1.0))
    total = 0.0
    for k, part in enumerate(parts):
        total = total + summed(part) * (1.0 + 0.1 * (k % 7))
    return total


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", OTHERS)
def test_what_python_may_tell_apart_is_right(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    call, slope = fdiff.jit(f), fdiff.grad(lambda x: summed(f(x)))
    for x in POINTS:
        expected = f(x.copy())
        assert_same(call(x.copy()), expected)
        expected = exact(fdiff.grad, lambda x: summed(f(x)), x, monkeypatch)
        np.testing.assert_allclose(slope(x), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed):
    program = random_choosing_loops.program(random.Random(seed), "lists")
    assert not random_choosing_loops.failure(program, seed)


@pytest.mark.parametrize("seed", range(16))
def test_random_programs_of_indices(seed):
    program = random_choosing_loops.program(random.Random(seed), "indices")
    assert not random_choosing_loops.failure(program, seed)


KEPT = []
OUTSIDE = [0.5, 0.25]


def kept_outside(x):
    s, out = x[0], []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        out.append(s)
    KEPT.append(out)
    return s


def list_from_outside(x):
    s, y = x[0], OUTSIDE
    for k in range(N):
        if s > x[1]:
            y[0] = y[0] * 0.5
        s = np.sin(s + W[k]) + 0.1 * y[0]
    return s


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", [kept_outside, list_from_outside])
def test_lists_outside_are_those_of_plain_code(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    states = []
    for call in (f, fdiff.jit(f)):
        KEPT.clear()
        OUTSIDE[:] = [0.5, 0.25]
        values = [call(x) for x in POINTS]
        states.append((values, [*KEPT], [*OUTSIDE]))
    assert_same(states[1], states[0])
    if f is kept_outside:
        assert len({*map(id, KEPT)}) == len(POINTS)


def test_explain_says_why_a_list_does_not_grow(monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.jit(one_arm_appends_twice)
    run(POINTS[0])
    [(_, what)] = fdiff.explain(run, POINTS[0]).loops
    assert what.endswith("out gets several elements on some paths alone")

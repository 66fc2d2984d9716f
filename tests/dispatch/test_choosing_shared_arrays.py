"""Variables that hold one array: ``best = u``, ``old = x``, and what is changed in place behind."""

import itertools
import random

import numpy as np
import pytest
import random_choosing_loops
from test_choosing_loops import counted, exact

import fdiff
from fdiff.dispatch.choosing import path_runs

CLOSE = {"rtol": 1e-11, "atol": 1e-12}
POINTS = [np.array(p) for p in itertools.product((-0.9, 0.2, 1.3), (-0.9, 0.3), (0.3, -1.1))]
M = np.array([[0.2, 0.1, 0.0], [0.3, -0.4, 0.2], [0.1, 0.0, 0.5]])


def fixed_point(x):
    v = x * 0.5
    for _ in range(40):
        old = v
        v = np.tanh(M @ v + 0.3 * x)
        if np.sum((v - old) ** 2) < 1e-8:
            break
    return np.sum(v * x)


def accepted_steps(x):
    u = x * 1.0
    h = 0.1 + 0.0 * x[0]
    for _ in range(30):
        new = u + h * np.sin(M @ u)
        err = np.sum((new - u) ** 2)
        if err < 0.01:
            u = new
            h = h * 1.2
        else:
            h = h * 0.5
    return np.sum(u * x)


def best_state(x):
    u = x * 1.0
    best = u
    fbest = np.sum(u * u)
    for k in range(30):
        u = np.cos(M @ u * 1.3 + 0.1 * k)
        f = np.sum(u * u)
        if f < fbest:
            best, fbest = u, f
    return np.sum(best * x) + fbest


def best_is_kept_and_the_other_changed(x):
    u = x * 1.0
    best = u
    fbest = np.sum(u * u)
    for k in range(30):
        u = np.cos(M @ u * 1.3 + 0.1 * k)
        f = np.sum(u * u)
        if f < fbest:
            best, fbest = u, f
    u += 1.0
    return np.sum(best * x) + fbest


def the_two_best(x):
    u = x * 1.0
    best = u
    prev = u
    fbest = np.sum(u * u)
    for k in range(30):
        u = np.cos(M @ u * 1.3 + 0.1 * k)
        f = np.sum(u * u)
        if f < fbest:
            prev = best
            best, fbest = u, f
    return np.sum(best * x) + fbest + np.sum(prev)


def returns_the_best(x):
    u = x * 1.0
    best = u
    fbest = np.sum(u * u)
    for k in range(30):
        u = np.cos(M @ u * 1.3 + 0.1 * k)
        f = np.sum(u * u)
        if f < fbest:
            best, fbest = u, f
        if f < 0.3:
            return np.sum(best * fbest)
    return np.sum(best * x)


def best_in_loops_in_loops(x):
    u = x * 1.0
    best = u
    fbest = np.sum(u * u)
    for _ in range(5):
        for k in range(15):
            u = np.cos(M @ u * 1.3 + 0.1 * k)
            f = np.sum(u * u)
            if f < fbest:
                best, fbest = u, f
        u = 0.5 * (u + best)
    return np.sum(best * x) + fbest


def changed_inside(x):
    u = x * 1.0
    best = u
    fbest = np.sum(u * u)
    for k in range(30):
        u *= 0.9
        u += 0.1 * np.sin(k + x)
        f = np.sum(u * u)
        if f < fbest:
            best, fbest = u, f
    return np.sum(best * x) + fbest


def bracket(x):
    lo = x * 0.0 - 1
    hi = x * 0 + 1.5
    for _ in range(30):
        mid = 0.5 * (lo + hi)
        if np.sum(mid**3 - x) > 0:
            hi = mid
        else:
            lo = mid
    return np.sum(mid * x)


def bracket_changed_behind(x):
    lo = x * 0.0 - 1
    hi = x * 0 + 1.5
    for _ in range(30):
        mid = 0.5 * (lo + hi)
        if np.sum(mid**3 - x) > 0:
            hi = mid
        else:
            lo = mid
    mid += 1
    return np.sum(mid * x) + np.sum(lo) + np.sum(hi)


def appended_and_handed_on(x):
    xs = []
    u = x * 1.0
    old = u
    for k in range(30):
        old = u
        u = np.cos(u + 0.1 * k)
        if np.sum(u) > x[1]:
            u = u * 0.9
        xs.append(u)
    old += 1.0
    return np.sum(np.array(xs) * x) + np.sum(old)


def element_changed_behind(x):
    xs = [x * 1.0]
    u = x * 1.0
    old = u
    for k in range(30):
        old = u
        u = np.cos(u + 0.1 * k)
        if np.sum(u) > x[1]:
            u = u * 0.9
        xs.append(u)
    xs[-2][0] = 7.0
    return np.sum(np.array(xs) * x) + np.sum(old)


def appended(x):
    xs = [x * 1.0]
    u = x * 1.0
    for k in range(30):
        old = u
        u = np.cos(u + 0.1 * k)
        if np.sum(u - old) > x[1]:
            u = u * 0.9
        xs.append(u)
    return np.sum(np.array(xs) * x)


def best_in_a_list(x):
    ls = [x * 1.0, x * 2.0]
    u = x * 0.5
    f = np.sum(u)
    for k in range(30):
        u = np.cos(u + 0.1 * k)
        if np.sum(u) < f:
            ls[0] = u
            f = np.sum(u)
    u += 1.0
    return np.sum(ls[0] * x) + np.sum(ls[1])


def lists_of_the_best(x):
    ls = [x * 1.0, x * 2.0]
    u = x * 0.5
    f = np.sum(u)
    for k in range(30):
        u = np.cos(u + 0.1 * k)
        if np.sum(u) < f:
            ls = [u, ls[0]]
            f = np.sum(u)
    ls[0][1] += 1.0
    return np.sum(u * x) + np.sum(ls[1])


def three_names(x):
    a = x * 1.0
    b = a
    c = b
    for k in range(20):
        if a[0] > 0.2:
            b = a
        a = np.cos(a + 0.1 * k)
        if a[1] < 0.5:
            c = b
        if a[2] > 0.9:
            b = c
    b += 1.0
    c *= 2.0
    return np.sum(a * x) + np.sum(b) - np.sum(c * x)


def views(x):
    a = x * 1.0
    b = a[:2]
    for k in range(20):
        if a[0] > 0.2:
            b = a[:2]
        a = np.cos(a + 0.1 * k)
    b += 1.0
    return np.sum(a * x) + np.sum(b)


def changed_behind_an_inner_loop(x):
    a = x * 1.0
    best = a * 0.5
    f = x[0]
    for _ in range(14):
        for k in range(13):
            a = np.cos(a + 0.1 * k)
            if a[0] < f:
                best = a
                f = a[0]
        best[0] = 0.3
        a = a * 0.9 + 0.1 * best
    return np.sum(a * x) + np.sum(best)


def other_name_changed(x):
    a = x * 1.0
    best = a * 0.5
    f = x[0]
    for i in range(14):
        for k in range(13):
            a = np.cos(a + 0.1 * k)
            if a[0] < f:
                best = a
                f = a[0]
        c = a
        c[0] = 0.3 + 0.01 * i
    return np.sum(a * x) + np.sum(best)


def held_behind_an_inner_loop(x):
    a = x * 1.0
    best = a * 0.5
    f = x[0]
    hist = best
    for _ in range(14):
        for k in range(13):
            a = np.cos(a + 0.1 * k)
            if a[0] < f:
                best = a
                f = a[0]
        if f < 0.3 + x[1]:
            hist = best
        f = f + 0.2
    hist *= 1.5
    return np.sum(a * x) + np.sum(best) * np.sum(hist)


def statements_hand_over(x):
    a = x * 1.0
    b = x * 2.0
    if x[0] > 0.5:
        a = b
    if x[1] > 0.3:
        b = a
    elif x[1] > 0.1:
        b = b * 1.5
    a += 1.0
    return np.sum(a * x) + np.sum(b)


def statements_that_return(x):
    a = x * 1.0
    b = x * 2.0
    if x[0] > 0.5:
        a = b
    if x[1] > 0.3:
        b = a
    elif x[1] > 0.1:
        return np.sum(b)
    a += 1.0
    if x[2] > 0.5:
        return np.sum(a * x)
    return np.sum(a * x) + np.sum(b)


def zero_trips(x):
    a = x * 1.0
    b = a
    n = 0
    while np.sum(a * a) > 1.5 and n < 20:
        a = a * 0.8
        if n % 2:
            b = a
        n += 1
    b += 1.0
    return np.sum(a * x) + np.sum(b), n


def while_pairs(x):
    a = x * 1.0
    b = a
    n = 0
    while True:
        old = a
        a = a * 0.8 + 0.05
        n += 1
        if a[0] > old[0] + x[2] * 0.01:
            a = old
            break
        if n > 17:
            b = a
            break
        if a[1] < 0.3:
            b = old
    a *= 2.0
    return np.sum(a * x) + np.sum(b) - np.sum(old), n


def before_an_inner_loop(x):
    best = x * 1.0
    fbest = np.sum(best)
    prev = best * 2.0
    for i in range(20):
        prev = best
        for k in range(13):
            u = np.cos(M @ best * 1.3 + 0.1 * k + i)
            f = np.sum(u * u) * (1 + 0.05 * i)
            if f < fbest:
                best = u * 1.0
                fbest = f
    best += 1.0
    return np.sum(prev * x) + np.sum(best) * fbest


def before_a_short_inner_loop(x):
    best = x * 1.0
    prev = best * 2.0
    s = x[0]
    for i in range(20):
        prev = best
        for k in range(13):
            s = np.cos(s + 0.1 * k + i)
            if s > 0.9 + x[1] - 0.02 * i:
                best = best * 0.9
    best += 1.0
    return np.sum(prev * x) + np.sum(best)


def before_statements(x):
    v = x * 1.0
    old = x * 2.0
    s = x[0]
    for i in range(20):
        old = v
        s = np.cos(s + 0.1 * i)
        if s > 0.9 + x[1] * 0.1:
            v = v * 0.9
        if s > 0.5:
            s = s * 0.9
        if s > 0.4:
            s = s * 0.8
        if s > 0.3:
            s = s * 0.7
        if s > 0.2:
            s = s * 0.6
        if s > 0.1:
            s = s * 0.5
        if s < -0.5:
            s = s * 0.9
        if s < -0.7:
            s = s * 0.9
    v += 1.0
    return np.sum(old * x) + np.sum(v) * s


def before_changed_behind_statements(x):
    v = x * 1.0
    old = x * 2.0
    s = x[0]
    for i in range(20):
        old = v
        s = np.cos(s + 0.1 * i)
        if s > 0.95 + x[1] * 0.1:
            v = v * 0.9
        if s > 0.5:
            s = s * 0.9
        if s > 0.4:
            s = s * 0.8
        if s > 0.3:
            s = s * 0.7
        if s > 0.2:
            s = s * 0.6
        if s > 0.1:
            s = s * 0.5
        if s < -0.5:
            s = s * 0.9
        if s < -0.7:
            s = s * 0.9
    old[0] = 7.0
    return np.sum(old * x) + np.sum(v) * s


ONE_TRACE = (
    fixed_point, accepted_steps, best_state, best_is_kept_and_the_other_changed, the_two_best,
    returns_the_best, best_in_loops_in_loops, appended_and_handed_on, element_changed_behind,
    appended, best_in_a_list, lists_of_the_best, three_names,
)  # fmt: skip
OTHERS = (
    changed_inside, bracket, bracket_changed_behind, views, changed_behind_an_inner_loop,
    other_name_changed, held_behind_an_inner_loop, statements_hand_over, statements_that_return,
    zero_trips, while_pairs, before_an_inner_loop, before_a_short_inner_loop, before_statements,
    before_changed_behind_statements,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", ONE_TRACE)
def test_few_traces_hold_for_all_paths(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert all(own.refusals == {} for own in drivers)
    assert len(traces) <= 2  # one for each way to share
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("most", [2, 16])
@pytest.mark.parametrize("f", ONE_TRACE + OTHERS)
def test_stores_are_seen_by_all_names(f, most, monkeypatch):
    counted(monkeypatch, choosing=True)
    monkeypatch.setattr(path_runs, "MOST_PATHS", most)
    run = fdiff.jit(f)
    for x in (*POINTS, *POINTS[::-1]):
        np.testing.assert_allclose(run(x.copy()), f(x.copy()), **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("f", [best_state, best_is_kept_and_the_other_changed, three_names])
def test_batches_and_second_derivatives(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    slopes = [exact(fdiff.grad, f, x, monkeypatch) for x in POINTS[:4]]
    many = fdiff.vmap(fdiff.grad(f))(np.stack(POINTS[:4]))
    np.testing.assert_allclose(many, slopes, rtol=1e-8, atol=1e-9)
    second = fdiff.hessian(f)
    for x in POINTS[:2]:
        expected = exact(fdiff.hessian, f, x, monkeypatch)
        np.testing.assert_allclose(second(x), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed):
    text = random_choosing_loops.program(random.Random(seed), "names")
    assert not random_choosing_loops.failure(text, seed)

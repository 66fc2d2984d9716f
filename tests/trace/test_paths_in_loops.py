"""Plain loops whose iterations take several paths: each is a branch of a switch in one loop."""

import numpy as np
import pytest
from test_guards_in_loops import OTHERS, traced

import fdiff
from fdiff.dispatch import call_tracing

N = 150
W = np.sin(1.7 * np.arange(N) ** 1.3)
POINT = np.array([0.7, 0.3, 0.6])


def two_arms(x):
    s = x[0]
    for k in range(N):
        y = np.sin(s) + x[1] * W[k]
        if y < 0.3:
            s = 0.8 * y + x[2]
        else:
            y = y * 0.7
            s = 0.9 * s - 0.3 * y
    return s


def best_so_far(x):
    s, best, at = x[0], x[1], 0
    for k in range(N):
        s = np.cos(s * 1.3 + x[2] * W[k])
        if W[k] * s > best - 0.5:
            best = s * 0.5 + x[0] * W[k]
            at += 1
    return best * s + at


def missing(x):
    y = np.where(W > 0.3, np.nan, W * x[2])
    m, p = x[0], 1.0
    for k in range(N):
        m, p = 0.95 * m, 0.9 * p + 0.1 * x[1] ** 2
        if not np.isnan(y[k]):
            g = p / (p + 0.5)
            m = m + g * (y[k] - m)
            p = (1 - g) * p
    return m + p


def three_ways(x):
    s, t = x[0], x[1]
    for k in range(N):
        u = s * t + W[k]
        if u > 0.5:
            s = s * 0.5
        elif u < -0.5:
            t = t * 0.7 + 0.1 * x[2]
        else:
            s, t = t + 0.1 * np.sin(s), s
    return s * t


def in_place(x):
    u = np.zeros(N + 2)
    u[:2] = x[:2]
    for k in range(N):
        a = u[k] * 0.7 + u[k + 1] * 0.2 + W[k] * x[2]
        if a > 0.4:
            u[k + 2] = np.sin(a)
        else:
            u[k + 2] = a * a
            u[k + 1] = u[k + 1] * 0.5
    return np.sum(u * u)


def vectors(x):
    v = x * 1.0
    for k in range(N):
        w = np.roll(v, 1) * 0.9 + W[k]
        if np.sum(w) > 0.0:
            v = np.tanh(w) * x
        else:
            v = w * 0.5 - x * 0.1
            if np.max(np.abs(v)) > 0.45:
                v = v / np.sum(v * v + 1)
    return np.sum(v**2)


def lists(x):
    states = [x[0], x[1]]
    for k in range(N):
        a = states[-1] * 0.5 + states[-2] * 0.3 + x[2] * W[k]
        if a < 0.1:
            a = np.sin(a) * 1.1
        states.append(a)
    return sum(states[::7]) * states[-1]


class Box:
    pass


def attributes(x):
    b = Box()
    b.a, b.n, b.last = x[0], 0, x[1]
    for k in range(N):
        b.a = b.a * 0.9 + x[1] * W[k]
        if b.a > 0:
            b.n += 1
            b.last = b.a * x[2]
        b.a = b.a - 0.1 * b.last
    return b.a * b.n + b.last


def counters(x):
    s, n = x[0], 0
    for k in range(N):
        s = np.sin(s + W[k] * x[1]) - 0.05 * n * x[2]
        if s > 0.1:
            n += 1
        elif s < 0.0:
            n = 0
    return s


def bounce(x):
    y, v = 1.0 * x[0], 0.0 * x[1]
    dt = 0.05
    for _ in range(N):
        v = v - 9.8 * dt
        y = y + v * dt
        if y < 0.0:
            y = -y * x[2]
            v = -v * x[2]
    return y + 0.1 * v


def numbers(x):
    s = x[0]
    for k in range(N):
        step = 0.3 * x[2] * W[k] ** 2 + 0.1
        if s > 0.1:
            step = -0.05 * x[1] * (k + 1) / N
        s = s + step
    return s


def rows(x):
    table = np.zeros((N, 3))
    table[0] = x
    for k in range(1, N):
        r = table[k - 1] * 0.8 + W[k] * x
        if r[0] > r[1]:
            table[k] = r[::-1]
        else:
            table[k, 1:] = r[:2]
            table[k] *= 0.9
    return np.sum(table**2)


def nested_calls(x):
    def f(s):
        return s * 0.9 if s > 0.4 else s + 0.2 * x[1]

    s = x[0]
    for k in range(N):
        s = f(f(s) * x[2] + 0.3) + 0.1 * W[k]
    return s


def max_builtin(x):
    s, best = x[0], x[1]
    for k in range(N):
        s = np.sin(s + x[2] * k)
        best = max(best, s) * 0.99
    return best * s


PROGRAMS = [
    two_arms,
    best_so_far,
    missing,
    three_ways,
    in_place,
    vectors,
    lists,
    attributes,
    counters,
    bounce,
    numbers,
    rows,
    nested_calls,
    max_builtin,
]


def derivatives(f, way, monkeypatch):
    """Values and derivatives at several points, where other paths are taken, and again."""
    traced(f, way, monkeypatch)
    both, results = fdiff.value_and_grad(f), []
    for x in (POINT, OTHERS[0], POINT):
        value, slope = both(x.copy())
        np.testing.assert_allclose(value, f(x.copy()), rtol=1e-12, atol=1e-13)
        results += [value, slope]
    return results


@pytest.mark.parametrize("f", PROGRAMS)
def test_loops_with_paths_compute_what_unrolled_ones_do(f, monkeypatch):
    checked, unrolled = (derivatives(f, way, monkeypatch) for way in ("check", "unroll"))
    for a, b in zip(checked, unrolled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("f", [two_arms, missing])
def test_second_derivatives(f, monkeypatch):
    results = []
    for way in ("unroll", "check"):
        traced(f, way, monkeypatch)
        results.append([fdiff.hessian(f)(POINT), fdiff.jacfwd(f)(POINT)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("f", [two_arms, best_so_far, missing, in_place, lists, counters, rows])
def test_paths_are_branches_of_a_switch(f, monkeypatch):
    traced(f, "check", monkeypatch)
    tape = fdiff.make_tape(f, POINT)
    inner = {n.primitive.name for _, _, body in tape.bodies() for n in body.nodes}
    assert "switch" in inner
    assert len(tape.nodes) < 200


def bounces_seldom(x, trips=1000):
    y, v = x[0], 0.0
    for _ in range(trips):
        v = v - 0.098 * x[1]
        y = y + 0.01 * v
        if y < 0.0:
            y = -y * x[2]
            v = -v * x[2]
    return y + v


def gaps(x, trips=300):
    m, data = x[0], np.where(np.sin(1.7 * np.arange(trips) ** 1.3) > 0.3, np.nan, x[1])
    for k in range(trips):
        m = 0.9 * m + 0.1 * np.sin(m)
        if not np.isnan(data[k]):
            m = m + x[2] * (data[k] - m)
    return m


@pytest.mark.slow
@pytest.mark.parametrize(("f", "most"), [(bounces_seldom, 500), (gaps, 200)])
def test_loops_that_branch_become_nodes_by_default(f, most, monkeypatch):
    monkeypatch.delenv("FDIFF_LOOPS", raising=False)
    fdiff.cache_clear()
    assert len(fdiff.make_tape(f, POINT).nodes) < most
    slope = fdiff.grad(f)(POINT)
    np.testing.assert_allclose(fdiff.jit(f)(POINT), f(POINT), rtol=1e-12)
    traced(f, "unroll", monkeypatch)
    np.testing.assert_allclose(slope, fdiff.grad(f)(POINT), rtol=1e-11, atol=1e-13)


def test_explanations_tell_the_number_of_paths(monkeypatch):
    traced(two_arms, "check", monkeypatch)
    told = [what for _, what in fdiff.explain(two_arms, POINT).loops]
    assert told == ["one node for 145 trips of 11 calls, each on one of 2 paths"]


def test_calls_that_branch_anew_are_traced_not_run_eagerly(monkeypatch):
    traced(two_arms, "check", monkeypatch)
    monkeypatch.setattr(call_tracing, "eager_trace", None)
    slope = fdiff.grad(two_arms)
    for k in range(12):
        x = POINT * (1.0 + 0.05 * k)
        h = 1e-6 * np.eye(3)
        ahead, behind = (np.array([two_arms(x + sign * d) for d in h]) for sign in (1.0, -1.0))
        np.testing.assert_allclose(slope(x), (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-7)

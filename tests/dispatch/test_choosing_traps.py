"""Loops that branch in ways that Python may tell apart: whatever becomes a node is right.

Which of these loops choose their branches themselves is not said here, only that none is wrong.
"""

import numpy as np
import pytest

import fdiff
from fdiff.trace import looping

N = 80
W = np.sin(1.7 * np.arange(N) ** 1.3)
POINTS = [np.array([0.7, 0.3, 0.6]) * (1 + 0.6 * np.sin(np.arange(3) + 2 * k)) for k in range(6)]


def last_k(x):
    s = x[0]
    for k in range(N):
        s = 0.9 * s + W[k] * x[1] if s > x[2] else np.sin(s) + W[k]
    return s * k


def bound_on_one(x):
    s, t = x[0], None
    for k in range(N):
        if s > x[2]:
            t = s * x[1]
            s = 0.5 * s
        else:
            s = s + abs(W[k]) * x[1]
    return s + (t if t is not None else 0)


def alias_swap(x):
    a, c = x * 1.0, x * 2.0
    for k in range(N):
        if np.sum(a) > np.sum(c):
            a, c = c, a
        a[k % 3] += W[k] * x[0]
        c = c * 0.99
    return np.sum(a * c * c)


def alias_one_path(x):
    a = x * 1.0
    d = a
    for k in range(N):
        if a[0] > x[2]:
            a = a * 0.5
        a[1] = a[1] + W[k] * x[1]
        a[0] = a[0] + 0.1 * x[0]
    return np.sum(a * a) + np.sum(d)


def pyfloat_state(x):
    s, f = x[0], 1.0
    for k in range(N):
        if s > x[2]:
            f = f * 0.5
            s = s * 0.3
        s = s + abs(W[k]) * x[1] * f
    return s * f


def flag_int(x):
    s, n = x[0], 0
    for k in range(N):
        if s > x[2]:
            n += 1
            s = s * 0.3
        s = s + abs(W[k]) * x[1]
    return s * n


def booly(x):
    s = x[0]
    on = False
    for k in range(N):
        on = bool(s > x[2])
        s = s * 0.3 if on else s + abs(W[k]) * x[1]
    return s * (2.0 if on else 3.0)


def prev_bool(x):
    s = x[0]
    on = False
    for k in range(N):
        if on:
            s = s * 0.4
        on = s > x[2]
        s = s + abs(W[k]) * x[1]
    return s


def chained(x):
    s = x[0]
    for k in range(N):
        s = s * 1.3 + W[k] * 0.1 if x[1] < s < x[2] or not s > 0 else 0.5 * s + W[k] * x[1]
    return s * s


def untaken_raises(x):
    s = x[0]
    v = np.array([1.0, 2.0])
    for k in range(N):
        if s > 1e9:
            s = s + v[k]
        elif s > x[2]:
            s = s * 0.5
        else:
            s = s + abs(W[k]) * x[1]
    return s


def minmax(x):
    s = x[0]
    m = x[0]
    for k in range(N):
        s = 0.9 * s + W[k] * x[1]
        m = max(m, s)
        s = min(s, x[2])
    return m * s


def nan_cmp(x):
    s = x[0]
    for k in range(N):
        q = W[k] if k % 5 else np.nan
        s = s * 0.9 + 0.01 if q * s > x[2] * 0.1 else np.sin(s) + x[1] * 0.1
    return s


def intcast(x):
    s = x[0]
    for k in range(N):
        s = s * 0.7 if int(s * 3) % 2 else s + abs(W[k]) * x[1]
    return s


def store_if(x):
    u = np.zeros(N + 1)
    u[0] = x[0]
    for k in range(N):
        if u[k] > x[2]:
            u[k + 1] = u[k] * 0.4
        else:
            u[k + 1] = u[k] + abs(W[k]) * x[1]
            u[k // 2] += 0.01 * x[0]
    return np.sum(u * u)


def rev_range(x):
    s = x[0]
    for k in range(N - 1, -1, -2):
        s = s * 0.4 + 0.01 * k if s > x[2] else s + abs(W[k]) * x[1] + 0.02 * (k / 7)
    return s


def kcond(x):
    s = x[0]
    for k in range(N):
        if s > x[2] and k > 20:
            s = s * 0.4
        elif k % 3 == 0:
            s = s - 0.05 * x[1] * k
        else:
            s = s + abs(W[k]) * x[1]
    return s


def isnt(x):
    s = x[0]
    p = x[1]
    for k in range(N):
        if s > x[2]:
            p = s
            s = s * 0.4
        else:
            s = s + abs(W[k]) * 0.3 * p
    return s * p


def wide(x):
    s = x * 1.0
    for k in range(N):
        if np.any(s > x[2]):
            s = np.where(s > x[2], s * 0.4, s)
        s = s + abs(W[k]) * x[::-1]
    return np.sum(s)


def lastbranch(x):
    s = x[0]
    y = x[1]
    for k in range(N):
        y = s * 2
        s = y * 0.2 if y > x[2] else s + abs(W[k]) * 0.5
    return s * y


def mixdtype(x):
    s = x[0]
    t = 0
    for k in range(N):
        if s > x[2]:
            s = s * 0.4
            t = t + x[1]
        else:
            s = s + abs(W[k]) * 0.5
    return s * t


PROGRAMS = [f for f in list(globals().values()) if getattr(f, "__module__", "") == __name__]


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")  # of how long it took
@pytest.mark.parametrize("f", PROGRAMS)
def test_a_call_whose_branches_differ_is_right(f, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "evaluate")
    monkeypatch.setattr(looping, "SLEEP", 0)
    both = fdiff.value_and_grad(f)
    for x in POINTS:
        monkeypatch.setenv("FDIFF_LOOPS", "check")
        value, slope = both(x)
        monkeypatch.setenv("FDIFF_LOOPS", "unroll")
        np.testing.assert_allclose(value, f(x), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(slope, fdiff.grad(lambda z: f(z))(x), rtol=1e-10, atol=1e-13)

"""Arrays that may have two names, numbers that may be Python's, and helpers that return early."""

import itertools

import numpy as np
import pytest
from test_choosing_loops import N, W, counted

import fdiff

CLOSE = {"rtol": 1e-12, "atol": 1e-13}
POINTS = [np.array(p) for p in itertools.product((0.2, 0.7), (0.1, 0.6), (0.3, 0.9))]


def halvings(z, n):
    if n == 0:
        return z
    if z > 0.9:
        return z * 0.5
    return halvings(np.sin(z) * 1.1, n - 1)


def recursion(x):
    return halvings(x[0], 25) * x[1]


def sums_of_sines(z, n):
    s = 0.0
    if z > 0.5:
        s = s + z
    if n == 0:
        return s + z
    return sums_of_sines(np.sin(z) * 1.1, n - 1) + s * 0.1


def recursion_in_statements(x):
    s = 0.0
    if x[0] > 0.5:
        s = s + x[1]
    return sums_of_sines(x[0], 12) * x[1] + s


def changed_or_new(u, c):
    if c > 0.5:
        u[0] = 7.0
        return u
    return u * 2.0


def array_of_the_caller(x):
    u = x * 1.0
    s = 0.0
    if x[1] > 0.3:
        s = s + x[0]
    v = changed_or_new(u, x[0])
    v[1] = 3.0
    return np.sum(u * x) + np.sum(v) + s


def ends_of(u, c):
    w = u * 1.0
    if c > 0.5:
        return w[1:]
    return w[:2]


def views_of_new_arrays(x):
    s = 0.0
    if x[1] > 0.3:
        s = s + x[0]
    v = ends_of(x, x[0])
    v[0] = 5.0
    return np.sum(v * x[:2]) * x[2] + s


def columns(x):
    A = np.outer(x, x)
    if x[0] > 0.6:
        return A.T[0]
    B = A + 1.0
    return B[:, 1]


def array_and_entry(u, c):
    a = u * 2.0
    if c > 0.5:
        return (a, a[0])
    return (a, u[1])


def parts_of_a_pair(x):
    s = 0.0
    if x[1] > 0.3:
        s = s + x[0]
    a, b = array_and_entry(x, x[0])
    a[0] = b * 3.0
    return np.sum(a) * b + s


def ints_by_arms(x):
    n = 0
    if x[0] > 0.5:
        n = 2
    if x[1] > 0.3:
        n += 1
    m = n * 2 + 1
    return (x[m % 3] * m + x[0] / (n + 1),)


def int_that_is_returned(x):
    n = 0
    if x[0] > 0.5:
        n = 2
    if x[1] > 0.3:
        n += 1
    return (x[n % 3] * x[1], n)


def truth_values_by_arms(x):
    f = False
    if x[0] > 0.5:
        f = x[1] > 0.3
    return (x[2], f)


def texts(x):
    mode = "a"
    if x[0] > 0.5:
        mode = "b"
    y = x[1]
    if mode == "b":
        y = y * 2.0
    return y * x[2]


def none_or_a_number(x):
    p = None
    if x[0] > 0.5:
        p = x[1]
    if p is None:
        return x[2]
    return p * x[2]


def largest_of_python(x):
    s = 0.5
    if x[0] > 0.5:
        s = x[1] * 2
    t = max(s, x[2])
    r = min(t, 0.7)
    return (t * 2.0, r, s)


def powers_of_python(x):
    s = 0.5
    if x[0] > 0.5:
        s = x[1] * 2
    return (s**2 * x[1], (s - 1.0) ** 0.5 if s > 1.0 else s, 2.0**s)


def quotients_of_python(x):
    s = 2.5
    if x[0] > 0.5:
        s = x[1] * 2
    return (s // 2.0, s % 0.7, round(s, 1), int(s > 1))


def zeros_or_new(x):
    u = np.zeros(3)
    if x[0] > 0.5:
        u = x * 2.0
    u[1] += x[1]
    if u[1] > 0.5:
        u = u * 2.0
    return (u, np.sum(u))


def stores_by_the_second_name(x):
    u = x * 2.0
    v = u
    if x[0] > 0.5:
        v = u * 1.5
    v[0] = 9.0
    if x[1] > 0.3:
        return u[0] * x[1]
    return u[0] + v[1]


def stores_by_the_first_name(x):
    u = x * 2.0
    v = u
    if x[0] > 0.5:
        v = u * 1.5
    u[0] = 9.0
    if x[1] > 0.3:
        return v[0] * x[1]
    return u[0] + v[1]


def stores_into_zeros(x):
    s = 0.0
    if x[2] > 0.5:
        s = s + x[2]
    u = np.zeros(3)
    v = u
    if x[0] > 0.5:
        v = x * 1.5
    u[0] = 9.0
    return v[0] * x[1] + s


def adds_to_zeros(x):
    s = 0.0
    if x[2] > 0.5:
        s = s + x[2]
    u = np.zeros(3)
    v = u
    if x[0] > 0.5:
        v = x * 1.5
    v += 2.0
    return u[0] * x[1] + s


def adds_to_a_view(x):
    s = 0.0
    if x[2] > 0.5:
        s = s + x[2]
    u = x * 3.0
    v = u[:2]
    if x[0] > 0.5:
        v = x[:2] * 1.5
    v += 2.0
    return u[0] * x[1] + s


def new_or_the_same(u, c):
    if c > 0.5:
        return u * 1.0
    w = u
    if c > 0.1:
        w = u
    return w


def stores_into_a_result(x):
    s = 0.0
    if x[2] > 0.5:
        s = s + x[2]
    u = x * 3.0
    v = new_or_the_same(u, x[0])
    v[0] = 8.0
    return u[0] * x[1] + s


def bump(v):
    v += 1.0
    return v[0]


def adds_in_a_helper(x):
    u = x * 2.0
    v = u
    if x[0] > 0.5:
        v = u * 1.5
    y = bump(v)
    if x[1] > 0.3:
        return u[0] * x[1]
    return u[0] + v[1] * y


def stores_behind_an_inner_loop(x):
    s = x[0]
    u = x * 1.0
    for _ in range(N):
        v = u
        for j in range(14):
            if s > 0.7:
                v = np.sin(v + 0.1)
            s = np.sin(s + W[j])
        v[0] = 0.5 * s
        u = u * 0.9 + 0.01 * v
    return np.sum(u)


def stores_into_what_it_had(x):
    s = x[0]
    u = x * 1.0
    for _ in range(N):
        v = u
        for j in range(14):
            if s > 0.7:
                v = np.sin(v + 0.1)
            s = np.sin(s + W[j])
        u[0] = 0.5 * s
        u = u * 0.9 + 0.01 * v
    return np.sum(u)


PROGRAMS = (
    recursion, recursion_in_statements, array_of_the_caller, views_of_new_arrays, columns,
    parts_of_a_pair, ints_by_arms, int_that_is_returned, truth_values_by_arms, texts,
    none_or_a_number, largest_of_python, powers_of_python, quotients_of_python, zeros_or_new,
    stores_by_the_second_name, stores_by_the_first_name, stores_into_zeros, adds_to_zeros,
    adds_to_a_view, stores_into_a_result, adds_in_a_helper, stores_behind_an_inner_loop,
    stores_into_what_it_had,
)  # fmt: skip


def parts(value):
    """The parts of a result."""
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", PROGRAMS)
def test_calls_do_what_python_does(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.jit(f)
    for x in (*POINTS, *POINTS[::-1]):
        for a, b in zip(parts(run(x.copy())), parts(f(x.copy())), strict=True):
            assert type(a) is type(b)
            np.testing.assert_allclose(a, b, **CLOSE)

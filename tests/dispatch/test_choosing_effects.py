"""Bodies of loops that change things in place, and numbers of Python's, which NumPy's differ from.

A body is run once for each path through it, on traced numbers. So what it changes by another name
than its variables is changed too seldom, and truth values, ints and floats of Python's are none.
"""

import numpy as np
import pytest

import fdiff
from fdiff.dispatch import program
from fdiff.trace import looping

N = 80
POINTS = [np.array([0.7, 0.3, 0.6]) * (1 + 0.6 * np.sin(np.arange(3) + 2 * k)) for k in range(4)]
OUTSIDE, NUMBERS, BYTES = np.zeros(3), [1.0], np.array([100, 50, 25], dtype=np.int8)


def bump(z):
    z += 0.1
    return z


def grow(items, z):
    items += [z]
    return z * 0.5


def bump_outside():
    w = OUTSIDE
    w += 0.1
    return w[0]


def grow_outside():
    w = NUMBERS
    w += [0.5]
    return len(w)


# ------------------------------------------------------------------------------ changes in place


def array_in_a_helper(x):
    u, s = np.zeros(3), x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        w = bump(u)
        s = np.sin(s + 0.1 * k) + 0.01 * w[0]
    return s + np.sum(u)


def traced_array_in_a_helper(x):
    u, s = x * 1.0, x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        w = bump(u)
        s = np.sin(s + 0.1 * k) + 0.01 * w[0]
    return s + np.sum(u)


def array_by_a_view(x):
    u, s = np.zeros(5), x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        row = u[1:3]
        row += 0.1
        s = np.sin(s + 0.1 * k) + 0.01 * u[1]
    return s + np.sum(u)


def array_that_becomes_traced_by_a_view(x):
    u, s = np.zeros(5), x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        row = u[1:3]
        row += 0.1 * s
        s = np.sin(s + 0.1 * k) + 0.01 * u[1]
    return s + np.sum(u)


def array_that_becomes_traced_by_a_name(x):
    u, s = np.zeros(5), x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        w = u
        w += 0.1 * s
        s = np.sin(s + 0.1 * k) + 0.01 * u[1]
    return s + np.sum(u)


def array_by_a_position(x):
    u, s = np.full(4, 0.5), x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        w = np.cumsum(0.9 * u, 0, None, u)
        s = np.sin(s + 0.1 * k) + 0.01 * w[1]
    return s + u[3]


def list_in_a_helper(x):
    log, s = [x[0]], x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(grow(log, s) + 0.1 * k)
    return s * len(log)


def list_by_a_name(x):
    log, s = [x[0]], x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        other = log
        other += [s]
        s = np.sin(s + 0.1 * k)
    return s * len(log)


def list_in_a_tuple(x):
    log, s = ([x[0]], 2.0), x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        other = log[0]
        other *= 2 if len(other) < 10 else 1
        s = np.sin(s + 0.1 * k)
    return s * len(log[0])


def list_of_a_trip(x):
    s = x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        parts = [s, 0.01 * k]
        parts += [s * 2]
        s = np.sin(sum(parts))
    return s


def array_from_outside(x):
    OUTSIDE[:] = 0.0
    s = x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + bump_outside() + 0.1 * k)
    return s


def array_from_outside_by_a_name(x):
    OUTSIDE[:] = 0.0
    s = x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        w = OUTSIDE
        w += 0.1
        s = np.sin(s + w[0] + 0.1 * k)
    return s


def list_from_outside(x):
    NUMBERS[:] = [1.0]
    s = x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + 0.1 * grow_outside() + 0.1 * k)
    return s


def list_from_outside_in_a_helper(x):
    NUMBERS[:] = [1.0]
    s = x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(grow(NUMBERS if k >= 0 else [0.0], 0.1 * k) + 0.1 * s)
    return s * len(NUMBERS)


# -------------------------------------------------------------------------- numbers of Python's


def product_beyond_64_bits(x):
    s = x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + 1e-19 * (k * 10**18))
    return s


def eighth_powers(x):
    s = x[0]
    for k in range(320):
        if s > x[1]:
            s = s * 0.5
        square = k * k
        fourth = square * square
        s = np.sin(s + 1e-20 * (fourth * fourth))
    return s


def quotient_of_large_numbers(x):
    s = x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + 1e-3 * ((k * (3**33) + 1) / 7 % 10.0))
    return s


def sum_of_truths(x):
    s = x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + 0.1 * ((k > 3) + (k > 5)))
    return s


def product_of_truths(x):
    s = x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + 0.1 * sum([(k > 3) * (k % 2 == 0), k > 7]) + 0.1 * (True + (k > 2)))
    return s


def inverted_truth(x):
    s = x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + 0.1 * -(2 * (k > 3)) + 0.01 * (k > 5) ** 2)
    return s


def truths_of_a_number_that_becomes_traced(x):
    s, f = x[0], 0.5
    for _ in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + 0.1 * ((f > 0.1) + (f > 0.2)))
        f = s * 0.5 + 0.6
    return s + f


def small_integers(x):
    s = x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + 0.01 * np.sum(BYTES.astype(np.int8) * (k % 3)))
    return s


def float_behind_the_loop(x):
    s, t = x[0], 0.3
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        t = 0.5 * k
        s = np.sin(s + t)
    return t, s


def truth_behind_the_loop(x):
    s, t = x[0], False
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        t = k > 3
        s = np.sin(s + t)
    return s * (t + t)


def int_behind_the_loop(x):
    s, t = x[0], 0
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        t = k
        s = np.sin(s + t)
    return s * (t / 2) + 2 ** (t // 10), t


def float_of_an_earlier_trip(x):
    s, t, f = x[0], 0.0, 0.5
    for k in range(N):
        t = f + 1.0
        if s > x[1] + 0.9 or k == N - 1:
            f = s * 0.5
        s = 0.9 * np.sin(s + np.cos(1.7 * k))
    return t, s, f


def floats_of_each_other(x):
    s, t, f = x[0], 0.0, 0.5
    for k in range(N):
        f = t * 2.0 + 0.25
        if s > x[1] + 0.5:
            t = t + s
        s = np.sin(s + np.cos(1.7 * k))
    return t / (1.0 + f), s, f


# --------------------------------------------------------- values that earlier trips have given


def value_of_an_earlier_trip(x):
    s = x[0]
    for k in range(N):
        for j in range(14):
            s = np.sin(s + 0.1 * j + np.cos(1.7 * k))
            if s > 0.9 + 0.05 * x[1] or k == N - 1:
                y = s * 2.0
        if k > 20:
            s = s + 0.1 * y
    return s


def value_of_an_earlier_while(x):
    s = x[0]
    for k in range(N):
        i = 0
        while s > 0.4 + 0.1 * x[1] and i < 14:
            y = s * 2.0
            s = 0.8 * s
            i += 1
        if k > 20:
            s = s + 0.1 * y
        s = np.sin(s + np.cos(1.7 * k)) + x[2]
    return s


PROGRAMS = [f for f in list(globals().values()) if getattr(f, "__module__", "") == __name__]
PROGRAMS = [f for f in PROGRAMS if f.__code__.co_varnames[0] == "x"]


def parts(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", PROGRAMS)
def test_a_loop_that_chooses_does_what_python_does(f, monkeypatch):
    trace = program.Program.trace

    def choosing(*args, **options):
        return trace(*args, **options | {"choosing": True, "eager": False})

    monkeypatch.setenv("FDIFF_LOOPS", "check")
    if f is not small_integers:
        monkeypatch.setenv("FDIFF_TIER", "evaluate")
    monkeypatch.setattr(looping, "SLEEP", 0)
    monkeypatch.setattr(program.Program, "trace", choosing)
    run = fdiff.jit(f)
    for x in POINTS:
        expected = parts(f(x.copy()))
        for part, wanted in zip(parts(run(x.copy())), expected, strict=True):
            assert type(part) is type(wanted)
            np.testing.assert_allclose(part, wanted, rtol=1e-12)

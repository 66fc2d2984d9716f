"""``else`` of loops that choose their branches."""

import itertools
import random

import numpy as np
import pytest
import random_choosing_loops
from test_choosing_loops import counted, exact

import fdiff

CLOSE = {"rtol": 1e-11, "atol": 1e-12}
POINTS = [np.array(p) for p in itertools.product((-0.9, 0.2, 1.3), (-0.4, 0.7), (0.3, -1.1))]


def raises(x):
    z = x[0] + 1.5
    for _ in range(60):
        dz = (z * z - x[1] ** 2 - 1.0) / (2 * z)
        z = z - dz
        if abs(dz) < 1e-9:
            break
    else:
        raise RuntimeError("no convergence")
    return z * x[2]


def waits(x):
    z, n = x[0], 0
    while n < 20:
        z = np.cos(z * x[1]) + 0.1 * x[2]
        n += 1
        if z > 1.02:
            break
    else:
        return z * 2.0 + 0.1 * n
    return z * x[0]


def in_loops_in_loops(x):
    z, c = x[0], 0
    for _ in range(16):
        for j in range(14):
            z = np.cos(z * x[1] + 0.1 * j) + 0.1 * x[2]
            if z > 1.02:
                break
        else:
            c += 1
            if c > 3:
                break
            continue
        z = z * 0.5
    else:
        z = z * x[0]
    return z + 0.1 * c


def leaves_the_loop_around(x):
    z = x[0]
    for _ in range(16):
        for j in range(3):
            z = np.cos(z * x[1] + 0.1 * j) + 0.1 * x[2]
            if z > 1.0:
                break
        else:
            z = z * 0.9
            if z < 0.3:
                break
    else:
        z = z * x[0]
    return z


def never_left(x):
    z = x[0]
    for _ in range(16):
        z = np.cos(z) if z > x[1] else np.sin(z)
    else:  # noqa: PLW0120 - users write it
        z = z * x[0]
    return z


def returns(x):
    if x[0] < 0:
        return x[1] * 2
    z = x[0]
    for k in range(20):
        z = np.cos(z * x[1]) + 0.1 * x[2]
        if z > 1.02:
            return z + 0.1 * k * x[1]
        if z < 0.1:
            break
    else:
        z = z * 3
    return z


def cosines(z, y):
    for _ in range(15):
        z = np.cos(z * y)
        if z > 0.9:
            break
    else:
        z = z * 2
    return z


def in_a_function(x):
    s = x[0]
    for _ in range(14):
        s = cosines(s, x[1]) * 0.5 if s > 0.2 else s + 0.1 * x[2]
    return s


def primes(x):
    s = x[0]
    for n in range(2, 20):
        for m in range(2, n):
            if n % m == 0:
                break
        else:
            s = s + x[1] * n if s < 5 else s * 0.3
    return s


FORMS = (
    raises, waits, in_loops_in_loops, leaves_the_loop_around, never_left, returns, in_a_function,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", [*FORMS, primes])
def test_else_is_run_unless_the_loop_is_left(f, monkeypatch):
    traces, _ = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert f is primes or len(traces) <= 2
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed):
    text = random_choosing_loops.program(random.Random(seed), "else")
    assert not random_choosing_loops.failure(text, seed)

"""Statements outside of loops that choose their branches from the third trace on."""

import itertools
import random

import numpy as np
import pytest
import random_choosing_loops
from test_choosing_loops import counted, exact

import fdiff

CLOSE = {"rtol": 1e-12, "atol": 1e-13}
POINTS = [np.array(p) for p in itertools.product((-0.9, 0.2, 1.3), (-0.4, 0.7), (0.3, -1.1))]


def eight(x):
    s = x[0]
    if s > x[1]:
        s = s * 0.5 + x[2]
    if s > x[2]:
        s = s * x[1]
    if s * x[0] > 0.3:
        s = np.cos(s)
    elif s < 0:
        s = -s
    t = s if s > 0.2 else s * s
    if t > x[0]:
        t = t - x[0]
    if t < x[1] and s > 0.1:
        t = t * 1.5
    u = x * t
    if u[1] > 0.3:
        u[0] = t
    if np.sum(u) > 1.0:
        t = t - 0.5 * s
    return t * s + np.sum(u)


def weights(x):
    w = 1.0
    if x[0] > x[1]:
        w = 0.5
    elif x[0] > x[2]:
        w = 2.0
    v = x * w + x[0]
    if x[2] > 30.0:
        raise ValueError("far")
    count = 3
    if v[0] > 0.3:
        count = 2
    return np.sum(v) * w + count * x[1]


def leaves_a_number_alone(x):
    s = 0.0
    if x[0] > 0.5:
        s = s + x[1]
    if x[1] > 0.3:
        s = s * 2.0
    t = s * x[2] + 1.0
    if t > 1.2:
        t = t - x[0]
    return t * x[1]


def leaves_an_array_alone(x):
    u = x * 2.0
    if x[0] > 0.5:
        u = np.sin(u)
    if x[1] > 0.3:
        u = u * x[2]
    return np.sum(u * x)


def chooses_numbers(x):
    w = 1.0 if x[0] > 0.5 else x[1]
    h = 0.5 if x[1] > 0.3 else x[2] * w
    return w * h + x[0]


def halved(z):
    if z > 0.4:
        return z * z
    return z * 0.5


def calls_many(x):
    y = 0.0
    if x[0] > 0.6:
        y = halved(x[2])
    parts = halved(x[0]) * x[1] + halved(x[1]) * x[2] + halved(x[2]) + halved(x[0] * x[1])
    return parts + halved(x[1] * 0.3) + y * x[1]


def swaps_arrays(x):
    a, b = x * 1.0, x * 2.0
    if x[0] > 0.5:
        a, b = b, a
    return np.sum(a * x) + b[0] * x[1]


def sorts(x):
    a, b, c = x
    if a > b:
        a, b = b, a
    if b > c:
        b, c = c, b
    if a > b:
        a, b = b, a
    return a + 2.0 * b + 3.0 * c * a


UNEVEN = (
    leaves_a_number_alone, leaves_an_array_alone, chooses_numbers, calls_many, swaps_arrays, sorts,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("f", [eight, weights, *UNEVEN])
def test_one_trace_holds_for_all_paths(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    both, second = fdiff.value_and_grad(f), fdiff.hessian(f)
    results = [both(x) for x in POINTS]
    assert [own.refusals for own in drivers] == [{}]
    assert len(traces) == 1
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), **CLOSE)
        np.testing.assert_allclose(slope, exact(fdiff.grad, f, x, monkeypatch), **CLOSE)
    for x in POINTS[::3]:
        np.testing.assert_allclose(second(x), exact(fdiff.hessian, f, x, monkeypatch), **CLOSE)


def test_the_third_trace_holds_for_all_paths(monkeypatch):
    traces, _ = counted(monkeypatch)
    monkeypatch.delenv("FDIFF_LOOPS")
    both = fdiff.value_and_grad(eight)
    for x in POINTS:
        np.testing.assert_allclose(both(x)[0], eight(x), **CLOSE)
    assert traces == [False, False, True]


def number_or_array(x):
    s = 0.0
    if x[0] > 0:
        s = s + x[1]
    return s, 1.0 / (1.0 + s)


def kinds(x):
    text, n, flag = "no", 1, False
    if x[0] > 0.5:
        text, n, flag = "yes", 2, True
    elif x[0] > 0:
        n = 7
    return text, n, flag, x[1] * n


def unbound(x):
    if x[0] > 0:
        a = x[1] * 2.0
    return a if x[0] > 0 else x[2]


def in_place(x):
    u = np.zeros(3)
    v = u
    if x[0] > 0.5:
        u[0] = x[1]
    if x[1] > 0.5:
        v += 1.0
    return np.sum(u * x), np.sum(v)


def swaps(x):
    a, b = x * 1.0, x * 2.0
    if x[0] > 0:
        a, b = b, a
    a[0] = 5.0
    return np.sum(a * x) + np.sum(b)


def returns(x):
    if x[0] > 0.5:
        return x[1]
    y = x[2] if x[0] > 0 else 0.5
    return y * x[0]


def number_or_not(x):
    s = 0.5
    if x[0] > 0.5:
        s = s * x[1]
    t = s + 1.0
    return s, t, -t, t * x[1], abs(s - 2.0)


def divides_by_a_number(x):
    s = 0.0
    if x[0] > 0.5:
        s = s + x[1]
    t = s * 2.0
    if x[2] > 0:
        t = t + 1.0
    try:
        return 1.0 / t
    except ZeroDivisionError:
        return x[2] * 3.0


def quotient(s):
    return 1.0 / s


def divides_elsewhere(x):
    s = 0.0
    if x[0] > 0.5:
        s = s + x[1]
    t = s * 2.0 if x[2] > 0 else s + x[1]
    return x[2] / (t + 0.1) + quotient(t) * x[1]


def divides(x):
    h = 0.5 if x[0] > 0 else 0.0
    try:
        return x[1] / 3.0 + 1.0 / h
    except ZeroDivisionError:
        return x[2] * 3.0


def lists(x):
    items = [x[0]]
    if x[0] > 0:
        items.append(x[1])
    if x[1] > 0:
        items += [x[2]]
    return sum(items), len(items)


def attributes(x):
    box = {"a": x[0]}
    if x[0] > 0:
        box["a"] = x[1]
    y = box["a"] if x[2] > 0 else x[0]
    return y * 2.0


def squared(z):
    w = z if z > 0 else -0.5 * z
    if w > 0.5:
        w = w * w
    return w


def calls(x):
    s = squared(x[0]) + squared(x[1])
    for _ in range(12):
        s = squared(np.sin(s - 0.3)) * 0.9
    return s * squared(x[2])


def raises(x):
    if x[0] > 0.5:
        raise ValueError("too large")
    y = x[1] if x[2] > 0 else x[0]
    return y * 2.0


OTHERS = (
    number_or_array, kinds, unbound, in_place, swaps, returns, divides, lists, attributes, calls,
    raises, number_or_not, divides_by_a_number, divides_elsewhere,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", OTHERS)
def test_statements_do_what_python_does(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    monkeypatch.delenv("FDIFF_LOOPS")
    run = fdiff.jit(f)
    for x in (*POINTS, *POINTS[::-1]):
        try:
            plain = f(x.copy())
        except (ValueError, ZeroDivisionError) as error:
            with pytest.raises(type(error), match=str(error)):
                run(x.copy())
            continue
        value = run(x.copy())
        parts = [(part if isinstance(part, tuple) else (part,)) for part in (value, plain)]
        for a, b in zip(*parts, strict=True):
            assert type(a) is type(b)
            if isinstance(b, str):
                assert a == b
            else:
                np.testing.assert_allclose(a, b, **CLOSE)


@pytest.mark.parametrize("seed", [*range(8), 86])
def test_random_programs(seed):
    text = random_choosing_loops.program(random.Random(seed), "statements")
    assert not random_choosing_loops.failure(text, seed)

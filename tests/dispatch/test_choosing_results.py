"""Results with ints, truth values and constants that differ from path to path."""

import itertools
import random

import numpy as np
import pytest
import random_choosing_loops
from test_choosing_loops import counted, exact, unrolled

import fdiff

CLOSE = {"rtol": 1e-11, "atol": 1e-12}
POINTS = [np.array(p) for p in itertools.product((-0.9, 0.2, 1.3), (-0.4, 0.7), (0.3, -1.1))]
POINTS += [np.array([200.0, 1.0, 1.0]), np.array([30.0, 1.0, 1.0])]


def newton_counts(x):
    z = x[0] + 1.5
    for k in range(60):  # noqa: B007 - the result has it
        dz = (z * z - x[1] ** 2 - 1.0) / (2 * z)
        z = z - dz
        if abs(dz) < 1e-9:
            break
    return z * x[2], k


def newton_returns_its_count(x):
    z = x[0] + 1.5
    for k in range(60):
        dz = (z * z - x[1] ** 2 - 1.0) / (2 * z)
        z = z - dz
        if abs(dz) < 1e-9:
            return z * x[2], k + 1
    return z * x[2], -1


def stages(x):
    if x[0] > 0.6:
        return x[1] * 2, 1
    if x[1] > 0.4:
        return x[2] * x[1], 2
    return x[1], 3


def crossings(x):
    z, n, m = x[0], 0, 0
    while True:
        z = 0.9 * np.cos(z * x[1]) + 0.1 * x[2] + 0.01 * n
        n += 1
        if z > 0.8:
            m += 2
        if n > 13:
            return z, (n, m)
        if z > 1.0:
            return z * x[0], (n - 1, m * 2)


def counts_down(x):
    z, n = x[0], 0
    for k in range(20):
        z = 0.9 * np.cos(z * x[1]) + 0.1 * x[2]
        if z > 0.3:
            n += 1
        else:
            n -= 3
        if z > 0.8:
            return z, n, k // 3
    return z, 3 * n, len(x)


def flags_of_numpy(x):
    z = x[0]
    for k in range(20):
        z = 0.9 * np.cos(z * x[1]) + 0.1 * x[2]
        if z > 0.8:
            return z, z > 0.9, k
    return z, z < 0, 20


def converged(x):
    z = x[0] + 1.5
    for k in range(15):
        dz = (z * z - x[1] ** 2 - 1.0) / (2 * z)
        z = z - dz
        if abs(dz) < 1e-5 * x[2]:
            return z * x[2], k + 1, True
        if z > 2.2:
            return z, k, False
    return z * x[2], k, False


def statuses(x):
    z = x[0]
    for k in range(30):
        for j in range(14):
            z = np.cos(z * x[1] + k * 0.1) + 0.1 * x[2]
            if z > 0.99:
                return z, "up", j
            if z < -0.1:
                return z, "down", k * 2
        z = z * 0.5
    return z * x[0], "end", k


def status_first(x):
    z = x[0]
    for k in range(30):
        z = np.cos(z * x[1]) + 0.1 * x[2]
        if z > 0.9:
            return "up", (z, k)
        if z < -0.1:
            return None, (z, k)
    return -1, (z * x[0], 30)


def calls_others(x):
    z, ok = converged(x)[::2]
    w, k = newton_returns_its_count(x)
    if ok:
        z = z * 2
    return z * w + 0.1 * k * x[1], k


COUNTING = (
    newton_counts, newton_returns_its_count, stages, crossings, counts_down, flags_of_numpy,
)  # fmt: skip
KINDS = converged, statuses, status_first, calls_others  # a trace for each flag or constant


def number_of_numpy(x):
    z = x[0]
    for _ in range(20):
        z = 0.9 * np.cos(z * x[1]) + 0.1 * x[2]
        if z > 0.8:
            return z, np.argmax(x)
    return z, 7


def float_or_int(x):
    z = x[0]
    for k in range(20):
        z = 0.9 * np.cos(z * x[1]) + 0.1 * x[2]
        if z > 0.8:
            return z, k * 1.0
    return z, 7


def int_or_truth_value(x):
    if x[0] > 0.6:
        return x[0], 1
    if x[1] > 0.4:
        return x[2], x[0] > 0.0
    return x[1], True


def floats(x):
    if x[0] > 0.6:
        return x[1] * 2, 1.0
    return (x[1], 0.0) if x[1] > 0 else (x[1], -0.0)


def int_or_none(x):
    z = x[0]
    for k in range(30):
        z = np.cos(z * x[1] + k * 0.1) + 0.1 * x[2]
        if z > 1.02:
            return z, k
    return z, None


def large_ints(x):
    z, n = x[0], 1
    for k in range(18):  # noqa: B007 - the result has it
        z = 0.9 * np.cos(z * x[1]) + 0.1 * x[2]
        if z > 0.3:
            n *= 3
        if z > 0.8:
            return z, n, n * n
    return z, n, k**2


def weight(x):
    z, h = x[0], 1.0
    for _ in range(20):
        z = 0.9 * np.cos(z * x[1]) + 0.1 * x[2]
        if z > 0.3:
            h *= 0.5
        if z > 0.8:
            break
    return z * h, h


def asks_what_they_are(x):
    z, k = newton_counts(x)
    kinds = isinstance(k, int), isinstance(k, float), type(k).__name__
    return z, k + 1, k * 2, k > 6, f"{k}", kinds, np.arange(60.0)[k]


ALL = (
    *COUNTING, *KINDS, number_of_numpy, float_or_int, int_or_truth_value, floats, int_or_none,
    large_ints, weight, asks_what_they_are,
)  # fmt: skip


def parts(result):
    return [p for r in result for p in parts(r)] if isinstance(result, tuple) else [result]


def check(own, plain):
    """The same types, and values."""
    for a, b in zip(parts(own), parts(plain), strict=True):
        assert type(a) is type(b)
        if isinstance(b, str | bool | int | None):
            assert a == b
        else:
            np.testing.assert_allclose(a, b, **CLOSE)
            assert np.all(np.signbit(a) == np.signbit(b))


def floating(result):
    return [p for p in parts(result) if not isinstance(p, str | bool | None)]


@pytest.mark.parametrize("f", COUNTING)
def test_one_trace_holds_for_all_numbers(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    run = fdiff.jit(f)
    for x in POINTS:
        check(run(x), f(x))
    assert len(traces) == 1
    assert [own.refusals for own in drivers] == [{}]


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", ALL)
def test_types_and_values(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.jit(f)
    for x in (*POINTS, *POINTS[::-1]):
        check(run(x), f(x))


@pytest.mark.slow
@pytest.mark.parametrize("f", [*COUNTING, *KINDS[:3]])
def test_auxiliary_results(f, monkeypatch):
    traces, _ = counted(monkeypatch, choosing=True)
    main = lambda x: (sum(np.sum(np.sin(p * x[2])) for p in floating(f(x))), f(x))
    both = fdiff.value_and_grad(main, has_aux=True)
    results = [both(x) for x in POINTS]
    assert len(traces) <= (1 if f in COUNTING else 3)
    for x, ((value, aux), slope) in zip(POINTS, results, strict=True):
        check((value, aux), main(x))
        expected = unrolled(fdiff.grad, lambda x: main(x)[0], x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("tier", ["compile", "interpret"])
@pytest.mark.parametrize("f", [newton_returns_its_count, converged])
def test_compiled_calls(f, tier, monkeypatch):
    counted(monkeypatch, choosing=True)
    monkeypatch.setenv("FDIFF_TIER", tier)
    run, both = fdiff.jit(f), fdiff.grad(lambda x: (f(x)[0], f(x)), has_aux=True)
    for x in POINTS * 3:
        check(run(x), f(x))
        check(both(x)[1], f(x))


@pytest.mark.parametrize("f", [newton_counts, newton_returns_its_count, converged, stages])
def test_numbers_of_a_batch_are_an_array(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    columns = [np.array(c) for c in zip(*map(f, POINTS), strict=True)]
    for own in (fdiff.vmap(f), fdiff.jit(fdiff.vmap(f))):
        for a, b in zip(own(np.stack(POINTS)), columns, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, **CLOSE)


@pytest.mark.slow
def test_products_and_tangents(monkeypatch):
    counted(monkeypatch, choosing=True)
    f = newton_returns_its_count
    for x in POINTS:
        value, tangent = fdiff.jvp(f, (x,), (np.ones(3),))
        check(value, f(x))
        slope = exact(fdiff.grad, lambda x: f(x)[0], x, monkeypatch)
        np.testing.assert_allclose(tangent, (np.sum(slope), 0.0), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(fdiff.jacobian(f)(x)[0], slope, rtol=1e-8, atol=1e-10)


def test_numbers_of_functions_that_are_called_inside(monkeypatch):
    counted(monkeypatch, choosing=True)
    inner = fdiff.jit(newton_returns_its_count)

    def outer(x):
        z, k = inner(x)
        return z * x[0] + k * x[1], k + 1, type(k).__name__

    run = fdiff.jit(outer)
    for x in POINTS:
        check(run(x), outer(x))
        slope = fdiff.grad(lambda x: outer(x)[0])(x)
        expected = exact(fdiff.grad, lambda x: outer(x)[0], x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed):
    text = random_choosing_loops.program(random.Random(seed), "results")
    assert not random_choosing_loops.failure(text, seed)

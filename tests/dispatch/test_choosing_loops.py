"""Loops that branch, which choose the branches themselves from the second trace on."""

import linecache
import random
import warnings

import numpy as np
import pytest
import random_choosing_loops
from exact_functions import exact_of_function
from loop_ways import TOLERANCE

import fdiff
from fdiff.autograd import no_grad
from fdiff.dispatch import program
from fdiff.dispatch.choosing import loop_driver
from fdiff.errors import RetraceWarning
from fdiff.trace import looping

N = 80
W = np.sin(1.7 * np.arange(N) ** 1.3)
GAPS = np.where(W > 0.6, np.nan, W)
POINTS = [np.array([0.7, 0.3, 0.6]) * (1 + 0.6 * np.sin(np.arange(3) + 2 * k)) for k in range(4)]


def threshold(x):
    s, total = x[0], 0.0
    for k in range(N):
        y = 0.9 * s + W[k] * x[1]
        if y > x[2]:
            y = y * 0.5
        s = y * 0.5 if y > 0.4 * x[2] else np.sin(y) - 0.1 * s
        total = total + s * s
    return total


def filtered(x):
    m, p, score = x[0], 1.0, 0.0
    for k in range(N):
        m, p = 0.95 * m, 0.9 * p + 0.1 * x[1] ** 2
        if np.isnan(GAPS[k]):
            continue
        v = x[2] * GAPS[k] - m
        if abs(v) < 0.5:
            s = p + 0.5
            m = m + p / s * v
            p = p - p * p / s
            score += 0.5 * (np.log(s) + v * v / s)
    return score + m


def clipped(x):
    v = x * 1.0
    for k in range(N):
        w = np.roll(v, 1) * 0.9 + W[k]
        size = np.sum(w * w)
        if size > 0.5 * x[0]:
            w = w * (0.5 * x[0] / size)
        v = np.tanh(w) + 0.1 * x
    return np.sum(v**2)


def stored(x):
    u = np.zeros(N + 2)
    u[:2] = x[:2]
    for k in range(N):
        a = u[k] * 0.7 + u[k + 1] * 0.2 + W[k] * x[2]
        if a > 0.3:
            u[k + 2] = np.sin(a)
        elif k % 3 == 0 and a < 0.0:
            u[k + 2] = a * a
            u[k + 1] *= 0.5
        else:
            u[k + 2] = 0.5 * a
    return np.sum(u * u)


def softened(z, m):
    if z > m:
        return m + 0.1 * (z - m)
    return z


def helper(x):
    s, best = x[0], -1.0
    for k in range(N):
        s = softened(np.sin(s + x[2] * k), x[1])
        best = max(best, s * W[k])
        last = s
    return best * s + last


def behind_no_grad(x):
    with no_grad():
        limit = 0.4 * x[2]
    s, total = x[0], limit * x[2]
    for k in range(N):
        y = 0.9 * s + W[k] * x[1]
        s = limit * y if y > limit else np.sin(y) - 0.1 * s
        total = total + s * s
    return total


def numbers_by_branch(x):
    s, step = x[0], 0.1
    for k in range(N):
        s = np.sin(s + step * W[k])
        if s > x[1]:
            step = step * 0.99
    return s * step


def stops(x):
    s = x[0]
    for k in range(N):
        s = s * 0.97 + 0.001 * W[k]
        if s < 0.2 * x[1]:
            break
    return s * k


PROGRAMS = (
    threshold, filtered, clipped, stored, helper, behind_no_grad, numbers_by_branch, stops,
)  # fmt: skip


def counted(monkeypatch, **changes):
    """The traces that are made from now on, and why loops were left to Python."""
    traces, drivers = [], []
    trace, begin = program.Program.trace, loop_driver.Driver.__init__

    def counting(*args, **options):
        traces.append(options.get("choosing"))
        return trace(*args, **options | changes)

    def noted(own):
        begin(own)
        drivers.append(own)

    monkeypatch.setenv("FDIFF_LOOPS", "check")
    monkeypatch.setenv("FDIFF_TIER", "evaluate")
    monkeypatch.setattr(looping, "SLEEP", 0)
    monkeypatch.setattr(program.Program, "trace", counting)
    monkeypatch.setattr(loop_driver.Driver, "__init__", noted)
    fdiff.cache_clear()
    return traces, drivers


def unrolled(operator, f, x, monkeypatch):
    """The results without nodes of loops, for which each point takes a trace."""
    with monkeypatch.context() as m, warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        m.setenv("FDIFF_LOOPS", "unroll")
        return operator(lambda x: f(x))(x)


def exact(operator, f, x, monkeypatch):
    """The derivative by numbers, which trace nothing; unrolled where numbers do not run `f`."""
    try:
        _, slope, curvature = exact_of_function(f, x)
    except (AttributeError, TypeError, ValueError):
        return unrolled(operator, f, x, monkeypatch)
    return curvature if operator is fdiff.hessian else slope


@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS)
def test_calls_on_other_branches_are_not_traced_again(f, monkeypatch):
    traces, drivers = counted(monkeypatch)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert traces in ([False], [False, True])  # the first one, too, if it asks for many values
    assert len(drivers) == 1
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(
            slope, exact(fdiff.grad, f, x, monkeypatch), rtol=1e-10, atol=1e-13
        )


@pytest.mark.parametrize("f", [threshold, clipped, stored])
def test_loops_choose_where_nothing_is_set(f, monkeypatch):
    traces, drivers = counted(monkeypatch)
    monkeypatch.delenv("FDIFF_LOOPS")
    monkeypatch.setattr(looping, "SLEEP", 16)
    both = fdiff.value_and_grad(f)
    for x in POINTS:
        np.testing.assert_allclose(both(x)[0], f(x), rtol=1e-12)
    assert traces in ([False], [False, True])
    assert [own.refusals for own in drivers] == [{}]


@pytest.mark.parametrize("f", [threshold, clipped, stored])
def test_second_derivatives(f, monkeypatch):
    counted(monkeypatch)
    second = fdiff.hessian(f)
    for x in POINTS[:3]:
        expected = exact(fdiff.hessian, f, x, monkeypatch)
        np.testing.assert_allclose(second(x), expected, rtol=1e-9, atol=1e-12)


class Box:
    log = 0

    def sum(self, z):
        Box.log += 1
        return z * 1.1


BOX, KEPT = Box(), {"n": 0}


def raises_to_a_counter(x):
    s, n = x[0], 1
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            n = 2 ** (n % 5)
    return s + 1.0 / (n + 1)


def appends(x):
    s, states = x[0], []
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            states.append(s)
    return s + len(states)


def inserts(x):
    s, states = x[0], []
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            states.insert(0, s)
    return s + len(states)


def calls_an_object(x):
    s = x[0]
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1]:
            s = BOX.sum(s)
    return s + Box.log * 0.0


def counts_in_a_helper(x):
    n = [0]

    def step(z):
        if z > x[1]:
            n[0] += 1
        return np.sin(z)

    s = x[0]
    for k in range(N):
        s = step(s + W[k])
    return s * n[0]


def looks_at_an_alias(x):
    u = x * 1.0
    v, total = u[:2], 0.0
    for k in range(N):
        if total < x[1]:
            u[0] = np.sin(u[1] + W[k])
        total = 0.9 * total + np.sum(v)
    return total


def meets_a_point(x):
    s = x[0]
    for k in range(N):
        if np.logical_or(s == x[1], s > 5.0):
            s = 0.3
        s = np.sin(s + W[k])
        if s > x[2]:
            s = s * 0.5
    return s


def returns_a_number(x):
    s, last = x[0], 0.0
    for k in range(N):
        s = np.sin(s + W[k])
        if s > x[1] + 0.4:
            last = s
        elif s > x[1]:
            last = 0.0
    return last


REFUSED = {
    raises_to_a_counter: "it computes power of the number of a trip",
    appends: "",
    inserts: "states may change by its methods",
    calls_an_object: "more may follow from sum: an attribute",
    counts_in_a_helper: "more may follow from step: a store",
    looks_at_an_alias: "u is stored into, and shares memory",
    meets_a_point: "a condition may hold at one point alone",
}


@pytest.mark.parametrize("f", REFUSED)
def test_loops_with_other_effects_are_left_to_python(f, monkeypatch):
    _, drivers = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    for x in POINTS:
        value, slope = both(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-13)
    reasons = {reason for own in drivers for reason in own.refusals.values()}
    assert reasons == ({REFUSED[f]} if REFUSED[f] else set())


@pytest.mark.parametrize("error", [AssertionError, KeyboardInterrupt, MemoryError, ValueError])
def test_defects_and_interrupts_are_no_refusals(error, monkeypatch):
    counted(monkeypatch, choosing=True)

    def enter(*_, **__):
        raise error

    monkeypatch.setattr(loop_driver, "_enter", enter)
    with pytest.raises(error):
        fdiff.jit(threshold)(POINTS[0])


def test_explain_says_why_a_loop_does_not_choose(monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.jit(raises_to_a_counter)
    run(POINTS[0])
    [(line, what)] = fdiff.explain(run, POINTS[0]).loops
    assert line.endswith("for k in range(N):")
    assert what.endswith(f"traced again where its branches differ: {REFUSED[raises_to_a_counter]}")


def test_explain_says_what_keeps_a_loop_from_choosing(monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.jit(inserts)
    run(POINTS[0])
    [(_, what)] = fdiff.explain(run, POINTS[0]).loops
    assert what.endswith("traced again where its branches differ: states may change by its methods")


def test_numbers_of_python_are_numbers_behind_the_loop(monkeypatch):
    counted(monkeypatch)
    run = fdiff.jit(returns_a_number)
    for x in [*POINTS, np.array([0.1, 2.0, 0.0]), *POINTS]:
        value = returns_a_number(x)
        assert type(run(x)) is type(unrolled(fdiff.jit, returns_a_number, x, monkeypatch))
        np.testing.assert_allclose(run(x), value, rtol=1e-12)


def test_a_source_that_says_something_else_is_not_read(monkeypatch):
    _, drivers = counted(monkeypatch, choosing=True)
    name, text = "<a program>", random_choosing_loops.THRESHOLD
    space = {"np": np}
    exec(compile(text, name, "exec"), space)
    other = text.replace("0.5", "0.25")
    monkeypatch.setitem(linecache.cache, name, (len(other), None, other.splitlines(True), name))
    run = fdiff.value_and_grad(space["f"])
    for x in POINTS:
        np.testing.assert_allclose(run(x)[0], space["f"](x), rtol=1e-12)
    assert drivers
    assert all(not own.visits for own in drivers)


@pytest.mark.parametrize("seed", [*range(9), 10, 11, 13, 14])  # NumPy does not run 9 and 12
def test_random_programs(seed, monkeypatch):
    monkeypatch.setattr(looping, "SLEEP", 0)
    text = random_choosing_loops.program(random.Random(seed))
    assert random_choosing_loops.failure(text, seed, TOLERANCE) == ""

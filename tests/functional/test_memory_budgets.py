"""Loops within a memory budget: the same bits at any order, and less memory."""

import tracemalloc
from math import comb

import numpy as np
import pytest

import fdiff
from fdiff.dispatch.tiers.fixed_tier import VARIABLE
from fdiff.errors import InputError
from fdiff.interpret import evaluate
from fdiff.ops.control.loop import LOOP
from fdiff.trace import Trace
from fdiff.transforms.loops.loop_checkpoints import _parts_to_next_snapshot
from fdiff.transforms.pipeline import RUN, derive

BUDGETS = (300, 1000, 4000, 20_000)


def pendulum(reverse):
    """Two carries, an invariant, rows and outs."""

    def f(p, xs):
        weights = np.exp(p[:2])

        def step(carry, x):
            angle, speed = carry
            speed = speed - 0.1 * weights[0] * np.sin(angle) + weights[1] * x
            angle = angle + 0.1 * speed * x
            return (angle, speed), speed * np.cos(angle)

        (angle, speed), outs = fdiff.scan(step, (p[2], p[3] * p[2]), xs, reverse=reverse)
        return angle * speed + np.sum(outs * outs)

    return f


def two_ways(p, xs):
    """A loop that reads what another has given, the other way, as smoothers do."""
    _, forwards = fdiff.scan(lambda y, x: (np.sin(y * p[0]) + x, y * x), p[1], xs)
    last, both = fdiff.scan(lambda z, y: (0.9 * z + y * z * p[2], z), p[3], forwards, reverse=True)
    return last + np.sum(both)


def until(p, xs):
    """As many trips as the values tell, in a loop whose index reads rows, within another."""

    def step(carry):
        y, k = carry
        return y + 0.05 * np.sin(p[1] * y + xs[k % len(xs)]), k + 1

    def twice(i, y):
        return fdiff.while_loop(lambda c: c[1] < 20 + i, step, (y * p[2], 0))[0]

    return fdiff.fori_loop(0, 5, twice, p[0])


PROGRAMS = {
    "pendulum": pendulum(reverse=False),
    "reversed": pendulum(reverse=True),
    "two ways": two_ways,
    "while": until,
}
ORDERS = {
    "gradient": lambda f: fdiff.grad(f, argnums=(0, 1)),
    "reverse over reverse": lambda f: fdiff.grad(
        lambda p, xs: np.sum(fdiff.grad(f)(p, xs) ** 2), argnums=(0, 1)
    ),
    "hessian": lambda f: fdiff.hessian(f),
    "vmap": lambda f: fdiff.vmap(fdiff.grad(f), in_axes=(0, None)),
}


def flat(results):
    parts = results if isinstance(results, tuple) else (results,)
    return np.concatenate([np.ravel(x) for x in parts])


@pytest.mark.parametrize("tier", ["interpret", "compile"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_budgets_change_no_bit(program, order, tier, monkeypatch, rng):
    monkeypatch.setenv(VARIABLE, tier)
    f, p, xs = PROGRAMS[program], rng.normal(size=4) / 2, rng.normal(size=60) / 4
    p = np.stack([p, p + 0.1]) if order == "vmap" else p
    expected = flat(fdiff.jit(ORDERS[order](f))(p, xs))
    worked = 0
    for size in BUDGETS:
        with fdiff.memory_budget(size):
            call = fdiff.jit(ORDERS[order](f))
            try:
                np.testing.assert_array_equal(flat(call(p, xs)), expected)
                worked += 1
            except InputError as error:
                assert f"more than {size:,}" in str(error)  # noqa: PT017 - it may be raised
    assert worked > 1


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [17, 100, 333])
def test_loops_are_cut_and_the_bits_are_the_same(n, reverse, rng):
    p, xs = rng.normal(size=4) / 2, rng.normal(size=n) / 4
    whole = fdiff.make_tape(fdiff.grad(pendulum(reverse), argnums=(0, 1)), p, xs)
    expected = evaluate(whole, p, xs)
    for budget in (100, 150, 200, 250):
        with fdiff.memory_budget(budget):
            tape = derive(RUN, whole)
        assert str(tape) != str(whole)
        for a, b in zip(evaluate(tape, p, xs), expected, strict=True):
            np.testing.assert_array_equal(a, b)
    with fdiff.memory_budget(10_000):
        tape = derive(RUN, whole)
    assert [node.param("length") for node in tape.nodes if node.primitive is LOOP] == [n, n]
    for a, b in zip(evaluate(tape, p, xs), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_least_budget():
    """Two snapshots, each copied once, and what one trip keeps; less is refused, with the bytes."""
    f = lambda x: np.sum(fdiff.fori_loop(0, 200, lambda i, y: y + 0.01 * np.sin(y), x))
    x = np.linspace(0.0, 1.0, 3)
    expected = fdiff.grad(f)(x)
    with fdiff.memory_budget(5 * x.nbytes):
        np.testing.assert_array_equal(fdiff.grad(f)(x), expected)
    with (
        fdiff.memory_budget(5 * x.nbytes - 1),
        pytest.raises(InputError, match=r"keeps 120 bytes at least, .* more than 119\.(.|\n)*120"),
    ):
        fdiff.grad(f)(x)


def test_snapshots_are_as_few_as_can_be():
    """The trips that are run again are as many as in the binomial schedule, which is the least."""

    def run(length, snapshots):
        """The trips that are run to reverse so many, where as many snapshots are left."""
        if length < 2:
            return 0
        if snapshots == 1:
            return length * (length - 1) // 2
        step = advance(length, snapshots)
        return step + run(length - step, snapshots - 1) + run(step, snapshots)

    steps = {}

    def advance(length, snapshots):
        if (length, snapshots) not in steps:
            with Trace("test", lines=False) as trace:
                tape = trace.builder.finish(
                    [_parts_to_next_snapshot(*map(np.asarray, (length, snapshots))).id]
                )
            steps[length, snapshots] = int(evaluate(tape)[0])
        return steps[length, snapshots]

    for snapshots in (2, 3, 5):
        for length in (2, 3, 4, 7, 12, 30):
            r = next(r for r in range(length) if comb(snapshots + r, r) >= length)
            least = r * length - comb(snapshots + r, r - 1) if r else 0
            assert run(length, snapshots) == least


@pytest.mark.slow
def test_a_budget_saves_memory():
    def peak(budget):
        with fdiff.memory_budget(budget):
            slope = derive(RUN, fdiff.make_tape(fdiff.grad(f), x))
        evaluate(slope, x)  # what is imported and kept then is no memory of the loop
        tracemalloc.start()
        evaluate(slope, x)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    x = np.linspace(0.0, 1.0, 1000)
    f = lambda x: np.sum(fdiff.fori_loop(0, 400, lambda i, y: y + 0.01 * np.sin(y), x))
    assert peak(10**9) > 400 * x.nbytes
    assert peak(500_000) < 70 * x.nbytes
    assert peak(100_000) < 30 * x.nbytes


@pytest.mark.parametrize("operator", ["vmap", "while_loop"])
def test_what_counts(operator):
    """A batch counts with all of its elements, and a loop that a run ends with all of its trips."""
    x = np.linspace(0.0, 1.0, 1000)

    def fixed(x):
        return fdiff.fori_loop(0, 400, lambda i, y: y + 0.01 * np.sin(y), x)

    def ended(x):
        step = lambda c: (c[0] + 0.01 * np.sin(c[0]), c[1] + 1)
        return np.sum(fdiff.while_loop(lambda c: c[1] < 400, step, (x, 0))[0])

    slopes = {"vmap": fdiff.vmap(fdiff.grad(fixed)), "while_loop": fdiff.grad(ended)}
    whole = fdiff.make_tape(slopes[operator], x)
    peaks = []
    for budget in (10**9, 500_000):
        with fdiff.memory_budget(budget):
            tape = derive(RUN, whole)
        evaluate(tape, x)
        tracemalloc.start()
        evaluate(tape, x)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] > 400 * x.nbytes
    assert peaks[1] < 90 * x.nbytes


@pytest.mark.slow
@pytest.mark.parametrize("orders", [1, 2])
def test_rows_that_no_trip_reads_take_no_memory(orders):
    """Such as the index of a `fori_loop`: inside of segments, too."""
    n, xs = 40_000, np.linspace(0.0, 1.0, 40_000)

    def by_index(x):
        return fdiff.fori_loop(0, n, lambda i, y: y + 1e-4 * np.sin(y), x)

    def by_rows(x):
        return fdiff.scan(lambda y, row: (y + 1e-4 * np.sin(y), None), x, xs)[0]

    def without_rows(x):
        return fdiff.scan(lambda y, _: (y + 1e-4 * np.sin(y), None), x, None, n)[0]

    held = []
    for f in (without_rows, by_index, by_rows):
        g = fdiff.grad(f) if orders == 1 else fdiff.grad(fdiff.grad(f))
        with fdiff.memory_budget(10_000):
            (cost, *_) = fdiff.explain(fdiff.jit(g), 1.0).costs
        held.append(cost.kernel_memory)
    assert held[0] == held[1] == held[2] < 8 * n


def test_an_index_is_counted_in_its_part():
    """The numbers of trips are no row in memory, in segments neither."""

    def f(x):
        return fdiff.fori_loop(3, 40_003, lambda i, y: y + 1e-4 * np.sin(y * i), x)

    with fdiff.memory_budget(10_000):
        (cost, *_) = fdiff.explain(fdiff.jit(fdiff.grad(f)), 1.0).costs
    assert cost.kernel_memory < 40_000


def test_what_a_budget_may_be():
    with pytest.raises(InputError, match="must be a number of bytes"), fdiff.memory_budget(1e6):
        pass

"""Loops within a memory budget: the same bits, at second order too, and less memory."""

import tracemalloc

import numpy as np
import pytest

import fdiff
from fdiff.errors import InputError
from fdiff.interpret import evaluate


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


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [17, 100, 333])
def test_budgets_change_no_bit(n, reverse, rng):
    p, xs = rng.normal(size=4) / 2, rng.normal(size=n) / 4
    gradient = fdiff.grad(pendulum(reverse), argnums=(0, 1))
    whole = fdiff.make_tape(gradient, p, xs)
    lengths = set()
    for budget in (0, 200, 1000, 10_000):
        with fdiff.memory_budget(budget):
            tape = fdiff.make_tape(fdiff.grad(pendulum(reverse), argnums=(0, 1)), p, xs)
        lengths.add(len(tape))
        for a, b in zip(evaluate(tape, p, xs), evaluate(whole, p, xs), strict=True):
            np.testing.assert_array_equal(a, b)
    assert len(lengths) == 2  # with the budget, and where everything fits


def test_second_order_within_a_budget(rng):
    p, xs = rng.normal(size=4) / 2, rng.normal(size=40) / 4
    expected = fdiff.hessian(pendulum(reverse=False))(p, xs)
    with fdiff.memory_budget(300):
        found = fdiff.hessian(pendulum(reverse=False))(p, xs)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


def test_a_budget_saves_memory():
    def peak(budget):
        with fdiff.memory_budget(budget):
            slope = fdiff.make_tape(fdiff.grad(f), x)
        tracemalloc.start()
        evaluate(slope, x)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    x = np.linspace(0.0, 1.0, 1000)
    f = lambda x: np.sum(fdiff.fori_loop(0, 400, lambda i, y: y + 0.01 * np.sin(y), x))
    assert peak(10**9) > 400 * x.nbytes
    assert peak(500_000) < 70 * x.nbytes


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


def test_what_a_budget_may_be():
    with pytest.raises(InputError, match="must be a number of bytes"), fdiff.memory_budget(1e6):
        pass

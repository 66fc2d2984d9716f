"""A body is run once for all trips: what each trip would find changed is refused."""

import itertools
import random
import re
import time

import numpy as np
import pytest

import fdiff
from fdiff.errors import TraceError

RNG, LEGACY, PYTHONS = np.random.default_rng(0), np.random.RandomState(0), random.Random(0)
NUMBERS, COUNT = iter([1.0, 1.0, 2.0, 2.0] * 9), itertools.count()


def generated(x):
    numbers = (k for k in range(9))
    return fdiff.fori_loop(0, 3, lambda i, y: y * x + next(numbers), 1.0)


def kept_by_the_function(x):
    def body(i, y):
        body.calls = getattr(body, "calls", 0) + 1
        return y * x + body.calls

    return fdiff.fori_loop(0, 3, body, 1.0)


def kept_by_a_default(x):
    def step(y, calls=[]):  # noqa: B006 - what is tested
        calls.append(1)
        return y * x + len(calls)

    return fdiff.fori_loop(0, 3, lambda i, y: step(y), 1.0)


def in_an_inner_loop(x):
    inner = lambda i, y: fdiff.fori_loop(0, 2, lambda j, z: z * x + RNG.integers(2), y)
    return fdiff.fori_loop(0, 3, inner, 1.0)


LOOPS = {
    "generator": lambda x: fdiff.fori_loop(0, 3, lambda i, y: y * x + RNG.integers(2), 1.0),
    "random state": lambda x: fdiff.fori_loop(0, 3, lambda i, y: y * x + LEGACY.randint(2), 1.0),
    "numpy.random": lambda x: fdiff.fori_loop(0, 3, lambda i, y: y * x + np.random.rand(), 1.0),  # noqa: NPY002 - is refused
    "random": lambda x: fdiff.fori_loop(0, 3, lambda i, y: y * x + random.random(), 1.0),
    "random object": lambda x: fdiff.fori_loop(0, 3, lambda i, y: y * PYTHONS.choice([1, 2]), x),
    "iterator": lambda x: fdiff.fori_loop(0, 3, lambda i, y: y * x + next(NUMBERS), 1.0),
    "count": lambda x: fdiff.fori_loop(0, 3, lambda i, y: y * x + next(COUNT), 1.0),
    "clock": lambda x: fdiff.fori_loop(0, 3, lambda i, y: y * x + time.perf_counter(), 1.0),
    "scan": lambda x: fdiff.scan(lambda y, r: (y * r + RNG.normal(), None), x, np.ones(3))[0],
    "while": lambda x: fdiff.while_loop(lambda y: y < 9, lambda y: y * 2 + RNG.random(), x),
    "local generator": generated,
    "attribute of the body": kept_by_the_function,
    "default argument": kept_by_a_default,
    "inner loop": in_an_inner_loop,
}
FACTS = (
    r"the body of `fdiff\.\w+` (computes something else at its second run|uses [^\n]*, which "
    r"may differ from trip to trip)\.(.|\n)*A body is run once, not once a trip"
)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("operator", [fdiff.grad, fdiff.jit, fdiff.hessian])
def test_what_each_trip_would_find_changed_is_refused(name, operator):
    with pytest.raises(TraceError) as raised:
        operator(LOOPS[name])(np.array(1.3))
    assert re.search(FACTS, str(raised.value))


def test_rows_of_random_numbers_are_the_way_out():
    numbers = np.random.default_rng(1).normal(size=4)
    f = lambda x: fdiff.scan(lambda y, r: (y * x + r, None), 1.0, numbers)[0]
    x, expected = 1.3, 1.0
    slope = 0.0
    for r in numbers:
        expected, slope = expected * x + r, slope * x + expected
    value, gradient = fdiff.value_and_grad(f)(x)
    np.testing.assert_allclose((value, gradient), (expected, slope), rtol=1e-14)


def test_rules_that_a_body_makes_anew_are_no_difference():
    def f(x):
        def body(i, y):
            square = fdiff.custom_vjp(lambda z: z * z)
            square.defvjp(lambda z: (z * z, z), lambda z, bar: (3 * z * bar,))
            return square(y) * x

        return fdiff.fori_loop(0, 2, body, x)

    y, slope = 1.1, 1.0
    for _ in range(2):
        y, slope = y * y * 1.1, 3 * y * slope * 1.1 + y * y
    np.testing.assert_allclose(fdiff.grad(f)(1.1), slope, rtol=1e-13)

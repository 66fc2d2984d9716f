"""Stores that together write a whole array, into slices and at constant index arrays."""

import numpy as np
import pytest
from fuzz_stores import compiled_quickly
from tapes import floating, values

from fdiff import kernels
from fdiff.dispatch.program import Program
from fdiff.functional.call.device_calls import tracing_for
from fdiff.functional.operators.jit_programs import ValuePlan
from fdiff.kernel_rule import Kind
from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

PROGRAMS = 60


def traced(f, x):
    """The tape of `f`, in which NumPy's arrays are traced too."""
    with tracing_for(None):
        variant, inputs = Program("make_tape", None, ValuePlan).trace(f, (x,), {})
    return simplify(variant.traced.tape), [np.asarray(a) for a in inputs]


def pieces(r):
    """Places that cover an array of two axes or one, most of the time, and few of them twice."""
    if r.random() < 0.3:
        n = int(r.integers(3, 7))
        rows = [(slice(k, k + 1), slice(None, None, int(r.choice([-1, 1])))) for k in range(n)]
        shape: tuple[int, ...] = (n, int(r.integers(1, 5)))
        return shape, [rows[k] for k in r.permutation(n)]
    n = int(r.integers(6, 40))
    order = r.permutation(n)
    cut = int(r.integers(n))
    step = int(r.integers(1, 4))
    slices = [slice(k, None, step) for k in range(step)]
    slices = [s if r.random() < 0.7 else slice(n - 1 - (n - 1 - k) % step, None, -step)
              for k, s in enumerate(slices)]  # fmt: skip
    places = {
        0: lambda: [order[:cut], order[cut:]],
        1: lambda: slices,
        2: lambda: [slice(0, cut), np.arange(cut, n)[::-1] - n * int(r.random() < 0.3)],
        3: lambda: [order.reshape(2, -1) if n % 2 == 0 else order],
        4: lambda: [slices[0], *[np.arange(n)[s] for s in slices[1:]]],
    }[int(r.integers(5))]()
    if r.random() < 0.25:
        places = places[:-1]
    if r.random() < 0.25:
        places.append(r.integers(-n, n, 3))
    places = [p.tolist() if isinstance(p, np.ndarray) else p for p in places]  # constants of f
    return (n,), [places[k] for k in r.permutation(len(places))]


def program(seed):
    shape, places = pieces(np.random.default_rng(seed))

    def f(x):
        r = np.random.default_rng(seed + 1)
        a = np.zeros(shape) if r.random() < 0.6 else np.resize(x, shape) * 2.0
        before, results = a, []
        for place in places:
            part = np.resize(x, before[place].shape) * r.normal()
            if r.random() < 0.15:
                part = part + a[place] * 3.0  # what was there is read
            a[place] = np.sin(part) if r.random() < 0.5 else part
            if r.random() < 0.15:
                results.append(a.copy())
            if r.random() < 0.1:
                results.append(a[::2] * 1.0)
        return (a, *results)

    return f


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("begin", range(0, PROGRAMS, 10))
def test_values_and_cotangents(begin, rng):
    with compiled_quickly():
        for seed in range(begin, begin + 10):
            f, x = program(seed), rng.normal(size=7)
            tape, inputs = traced(f, x)
            bars = [rng.normal(size=t.shape) for t in tape.output_types]
            slopes = simplify(vjp(tape, floating(tape)))
            for each, arguments, expected in (
                (tape, inputs, f(x.copy())),
                (slopes, [*inputs, *bars], values(slopes, *inputs, *bars)),
            ):
                got = kernels.compile(each, ("C",) * len(arguments))(*arguments)
                for mine, numpys in zip(got, expected, strict=True):
                    np.testing.assert_allclose(mine, numpys, rtol=1e-12, atol=1e-12, err_msg=seed)


def graph_of(f, x):
    tape, inputs = traced(f, x)
    return kernel_graph(tape, ("C",) * len(inputs))[0]


def test_positions_are_checked_where_they_may_lie_outside(rng):
    """Constants within their axis are not checked, and take four bytes."""
    inside, behind = [2, 0], [1, -1]
    for places, known in ((inside, True), (behind, False)):
        (array,) = (
            p for p in graph_of(lambda x: x[places] * 2, np.ones(5)).ops if p.kind is Kind.ARRAY
        )
        assert (array.dtype == "i4") == known
        assert len(array.data) == 1 + known


@pytest.mark.parametrize("dtype", ["u1", "u8", "i2", "i4", "i8"])
def test_positions_of_every_dtype(dtype, rng):
    """Whole and empty ones, read and stored to."""

    def f(x):
        a, places = x * 2.0, np.array([3, 0, 4], dtype)
        a[places] = x[places] ** 2
        a[places[:0]] = x[places[:0]]
        return a

    x = rng.normal(size=5)
    tape, inputs = traced(f, x)
    (got,) = kernels.compile(tape, ("C",) * len(inputs))(*inputs)
    np.testing.assert_allclose(got, f(x), rtol=1e-15)


def test_an_array_that_is_written_over_is_not_begun():
    """No zeros are stored where all entries are stored to afterwards, in one loop."""

    def f(x):
        a = np.zeros(4)
        a[1::2] = x * 2
        a[[0, 2]] = np.sin(x)
        return a

    tape, inputs = traced(f, np.ones(2))
    text = kernels.source(tape, ("C",) * len(inputs))
    assert text.count("for ") == 1

"""Kernels of tapes that hold loops: the same as the interpreter, for bodies of every kind."""

from __future__ import annotations

import signal
import sys
import time
from functools import partial
from itertools import product

import numpy as np
import pytest
from tapes import tape_of

import fdiff.kernels
from fdiff.arraytype import F8, INT, ArrayType
from fdiff.interpret import evaluate
from fdiff.kernels.interrupted_kernels import stoppable
from fdiff.kernels.ir.control_items import SequentialLoop
from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.passes.pipeline import lower_graph
from fdiff.kernels.runtime.status_errors import STOPPED
from fdiff.ops.control.loop import LOOP
from fdiff.tape import Builder, Tape
from fdiff.trace import apply_many

F4, BOOL = np.dtype(np.float32), np.dtype(np.bool_)
RK4_STEP = 0.01


def of(*shape, dtype=F8) -> ArrayType:
    return ArrayType(shape, dtype)


def looped(body, carries, rows, length, args, *, reverse=False, trips=None):
    """The results of a loop within a traced function."""
    count = np.array(length) if trips is None else trips
    params = {"carries": carries, "rows": rows, "length": length, "reverse": reverse}
    return apply_many(LOOP, count, *args, body=body, **params)


def tape_of_loop(body, carries, rows, length, *, reverse=False, traced=False) -> Tape:
    """A tape that is one loop over `length` rows; the number of trips is its input, if `traced`."""
    b, first = Builder(), len(body.inputs) - rows
    args = [b.input(of(dtype=INT)) if traced else b.constant(np.array(length))]
    for k, t in enumerate(body.input_types):
        args.append(b.input(t if k < first else of(length, *t.shape, dtype=t.dtype)))
    params = {"body": body, "carries": carries, "rows": rows, "length": length, "reverse": reverse}
    return b.finish(b.results(b.add(LOOP, tuple(args), tuple(sorted(params.items())))))


def arguments(tape, seed=0):
    rng = np.random.default_rng(seed)

    def drawn(t):
        if t.dtype == BOOL:
            return rng.random(t.shape) < 0.5
        values = rng.integers(0, 3, t.shape) if t.dtype == INT else 0.3 * rng.normal(size=t.shape)
        return np.asarray(values, t.dtype)

    return [drawn(t) for t in tape.input_types]


def compare(tape, given, compiler=""):
    """Hold the kernel of a tape against the interpreter."""
    kernel = fdiff.kernels.compile(tape, ("C",) * len(tape.inputs), compiler)
    for value, expected, type_ in zip(
        kernel(*given), evaluate(tape, *given), tape.output_types, strict=True
    ):
        assert (value.shape, value.dtype) == (type_.shape, type_.dtype)
        precision = 1e-5 if type_.dtype == F4 else 1e-12
        np.testing.assert_allclose(value, expected, rtol=precision, atol=precision)


def lorenz(y, p):
    return np.stack([p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]])


def rk4(y, p, r):
    h = RK4_STEP
    k1 = lorenz(y, p)
    k2 = lorenz(y + 0.5 * h * k1, p)
    k3 = lorenz(y + 0.5 * h * k2, p)
    new = y + h / 6 * (k1 + 2.0 * k2 + 2.0 * k3 + lorenz(y + h * k3, p)) + r
    return new, np.sum(new)


def stored(x, k, r):
    y = x.copy()
    y[2] = r
    y[3:5] = y[:2] * r
    return y, y[1] + k


def stored_at(x, k, r):
    y = x.copy()
    y[k] = r + y[k - 1]
    return (y,)


def stored_beside(x, k, r):
    y = x.copy()
    y[3:50] = x[:47] * r + k
    return y, np.sum(x), x


def stored_in_rows_and_columns(x, k, j, r):
    y = x.copy()
    y[k] = r[0]
    y[:, j] = r[1]
    y[k, :3] = r
    return (y,)


def spread(m):
    return m @ m.T + 5.0 * np.eye(len(m))


def inner(n):
    return tape_of(lambda y, p, k: (y + p * y[::-1] + k, np.sum(y)), *arrays(of(n), of(n), of(n)))


def arrays(*types):
    return [np.ones(t.shape, t.dtype) for t in types]


def nested(n):
    def step(x, p, r):
        y, sums = looped(inner(n), 1, 1, 4, (x + r[0], p, r), reverse=True)
        return 0.1 * y, sums

    return step


# By name: the body, the types of its inputs, how many are carries, and how many are rows.
BODIES = {
    "Runge-Kutta": (rk4, (of(3), of(3), of(3)), 1, 1),
    "numbers that swap": (lambda a, b: (b, a + b), (of(), of()), 2, 0),
    "few entries that swap": (lambda a, b: (b, a + b), (of(3), of(3)), 2, 0),
    "arrays that swap": (lambda a, b: (b, a + b), (of(70), of(70)), 2, 0),
    "carry that stays": (lambda a, b, r: (a, b + r, a), (of(70), of(70), of(70)), 2, 1),
    "carry in reverse order": (lambda a, r: (a[::-1] + r, a[1:]), (of(70), of(70)), 1, 1),
    "few in reverse order": (lambda a, r: (a[::-1] + r, a[1:]), (of(20), of(20)), 1, 1),
    "arrays of one entry": (
        lambda x, y, z, r: (x + np.sum(r), y * x[0], r[:1], x, y),
        (of(1), of(1), of(1), of(5)), 3, 1,
    ),
    "no carries": (lambda r, q: (r * q, np.sum(r)), (of(20), of(20)), 0, 1),
    "small matrix": (lambda x, m: (m @ x, x), (of(3), of(3, 3)), 1, 1),
    "matrices": (lambda x, m: (0.1 * (m @ x), np.sum(x, 0)), (of(80, 80), of(80, 80)), 1, 0),
    "system": (lambda x, m: (np.linalg.solve(spread(m), x), x), (of(6), of(6, 6)), 1, 1),
    "factor": (lambda x, m: (np.linalg.cholesky(spread(m) + 0.01 * x),), (of(3, 3),) * 2, 1, 1),
    "float32": (
        lambda a, s, r: (a * s + r, s * np.float32(0.5), a),
        (of(7, dtype=F4), of(dtype=F4), of(7, dtype=F4)), 2, 1,
    ),
    "truth value": (
        lambda a, x, r: (a ^ (r > x), np.where(a, x, r), a),
        (of(dtype=BOOL), of(), of()), 2, 1,
    ),
    "truth values": (
        lambda a, x, r: (a ^ (r > x), np.where(a, x, r), a),
        (of(70, dtype=BOOL), of(70), of(70)), 2, 1,
    ),
    "whole numbers": (lambda a, r: (a + r, a * 2), (of(dtype=INT), of(dtype=INT)), 1, 1),
    "gather": (lambda x, k: (x + x[k], x[k]), (of(5), of(dtype=INT)), 1, 1),
    "stores": (stored, (of(9), of(dtype=INT), of()), 1, 2),
    "stores into an array": (stored, (of(90), of(dtype=INT), of()), 1, 2),
    "stores at an index": (stored_at, (of(90), of(dtype=INT), of()), 1, 2),
    "stores beside reads": (stored_beside, (of(90), of(dtype=INT), of()), 1, 2),
    "stores in rows and columns": (
        stored_in_rows_and_columns, (of(6, 5), of(dtype=INT), of(dtype=INT), of(3)), 1, 3,
    ),
    "stores in rows and columns of an array": (
        stored_in_rows_and_columns, (of(60, 50), of(dtype=INT), of(dtype=INT), of(3)), 1, 3,
    ),
    "reductions": (lambda x, r: (np.cumsum(x) * 0.1 + r, np.argmax(x)), (of(30), of(30)), 1, 1),
    "tiles of rows": (
        lambda x, w: (np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True) + w, np.max(x, 1)),
        (of(100, 30), of(100, 30)), 1, 0,
    ),
    "points": (
        lambda x, p: (x + 0.1 * np.stack([p * x[:, 1], x[:, 0] * x[:, 2], x[:, 1]], axis=1),),
        (of(100, 3), of()), 1, 0,
    ),
    "sines": (lambda x: (np.sin(x) + np.cos(x), x), (of(33),), 1, 0),
    "loop in a loop": (nested(3), (of(3), of(3), of(4, 3)), 1, 1),
    "loop over arrays in a loop": (nested(70), (of(70), of(70), of(4, 70)), 1, 1),
}  # fmt: skip
VARIANTS = list(product((5, 1, 0), (False, True), (False, True)))  # length, reverse, traced trips
COMPILERS = ("", "numba")


def body_of(name):
    body, types, carries, rows = BODIES[name]
    return tape_of(body, *arrays(*types)), carries, rows


def hold(name, variant, compiler=""):
    length, reverse, traced = variant
    body, carries, rows = body_of(name)
    tape = tape_of_loop(body, carries, rows, length, reverse=reverse, traced=traced)
    given = arguments(tape)
    if traced:
        given[0] = np.asarray(min(3, length))
    compare(tape, given, compiler)


@pytest.mark.parametrize("name", BODIES)
def test_a_loop_is_one_kernel(name):
    hold(name, VARIANTS[0])
    hold(name, VARIANTS[3])


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_a_loop_of_any_length_in_any_order(name):
    for variant in VARIANTS:
        hold(name, variant)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Runge-Kutta", "truth value", "system", "loop in a loop"])
def test_numba_compiles_loops(name):
    hold(name, VARIANTS[3], "numba")


@pytest.mark.parametrize("length", [5, 1000])
def test_what_stands_around_a_loop_is_in_its_kernel(length):
    body = tape_of(
        lambda y, s, p, r: (y * s + r, s * 0.9 + p[0] * 0.1, np.sum(y)),
        *arrays(of(3), of(), of(3), of()),
    )

    def f(x, table):
        given = (np.sin(x[:3]), x[3], x[::2], table[1:] - table[:-1])
        y, s, sums = looped(body, 2, 1, length, given)
        return np.sum(sums * sums) + s, y * 2.0

    tape = tape_of(f, np.ones(6), np.ones(length + 1))
    compare(tape, arguments(tape))


def test_one_kernel_for_any_number_of_trips():
    body, carries, rows = body_of("Runge-Kutta")
    texts = {
        fdiff.kernels.source(tape_of_loop(body, carries, rows, n), ("C",) * 3)
        for n in (100, 1000, 10**6)
    }
    assert len(texts) == 1


@pytest.mark.parametrize("name", ["stores into an array", "stores at an index"])
def test_a_carried_array_is_updated_in_place(name):
    body, carries, rows = body_of(name)
    text = fdiff.kernels.source(tape_of_loop(body, carries, rows, 100), ("C",) * 3)
    assert "work[" not in text
    inside = text[text.index("for trip") :]
    assert "range(n0)" not in inside, "the array is copied in each trip"


@pytest.mark.slow
def test_slices_from_the_first_entry_are_no_whole_axes():
    """Of axes of up to 64 entries it is a literal where slices begin in a body, 0 as well."""

    def f(w, series):
        def step(h, x):
            h = np.tanh(w[0] * h + w[1]) * w[7] + np.exp(-w[3] * x)
            return h, np.sum(h * x) + np.sum(w[:3] * h)

        return np.sum(fdiff.scan(step, np.zeros(3), series)[1] ** 2)

    w, series = np.cos(np.arange(24.0)).reshape(8, 3), np.sin(np.arange(39.0)).reshape(13, 3)
    for operator in (fdiff.grad, fdiff.hessian):
        tape = fdiff.make_tape(operator(f), w, series)
        compare(tape, (w, series))
        assert "ints[" not in fdiff.kernels.source(tape, ("C", "C")).split("trip", 1)[1]


def test_rows_that_count_are_not_read():
    body = tape_of(lambda x, k: (x + k,), *arrays(of(), of(dtype=INT)))

    def f(x):
        return looped(body, 1, 1, 1000, (x, np.arange(1000)), reverse=True)[0]

    tape = tape_of(f, np.ones(()))
    assert "data[2]" not in fdiff.kernels.source(tape, ("C",))
    compare(tape, arguments(tape))


def test_rows_that_count_from_anywhere_are_not_read():
    body = tape_of(lambda x, i, j, k, m: (x + i * j - k + m,), *arrays(of(), *[of(dtype=INT)] * 4))
    rows = np.arange(5) + 7, np.arange(-3, 2), np.arange(5)[::-1].copy(), np.arange(5) * 2

    def f(x):
        return looped(body, 1, 4, 5, (x, np.add(np.arange(5), 7), *rows[1:]), reverse=True)[0]

    tape = tape_of(f, np.ones(()))
    text = fdiff.kernels.source(tape, ("C",))
    assert "k1: " in text
    assert "k2: " not in text, "two of four rows are read"
    compare(tape, [np.ones(())])


def test_errors_in_a_body():
    body, carries, rows = body_of("gather")
    tape = tape_of_loop(body, carries, rows, 4)
    kernel = fdiff.kernels.compile(tape, ("C", "C"))
    with pytest.raises(IndexError, match="out of bounds"):
        kernel(np.ones(5), np.array([0, 1, 7, 0]))
    tape = tape_of_loop(body, carries, rows, 4, traced=True)
    kernel = fdiff.kernels.compile(tape, ("C",) * 3)
    for trips in (5, -1):
        with pytest.raises(IndexError, match="out of bounds"):
            kernel(np.array(trips), np.ones(5), np.zeros(4, np.int64))


class StopError(Exception):
    """What a signal handler raises."""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
def test_an_exception_of_a_signal_handler_ends_the_loops_of_a_kernel():
    def stop(*_):
        raise StopError

    body = tape_of(lambda x, c: (0.999 * x + c,), *arrays(of(), of()))
    kernel = fdiff.kernels.compile(tape_of_loop(body, 1, 0, 10**12, traced=True), ("C",) * 3)
    before = signal.signal(signal.SIGALRM, stop)
    for _ in range(2):
        begin = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(StopError):
            kernel(np.asarray(10**12), np.ones(()), np.ones(()))
        assert time.monotonic() - begin < 1.0
        while kernel._bound.ints[-1]:  # until the kernel has ended
            assert time.monotonic() - begin < 5.0
            time.sleep(0.001)
    signal.signal(signal.SIGALRM, before)
    (value,) = kernel(np.asarray(3), np.ones(()), np.ones(()))
    assert value == ((0.999 + 1.0) * 0.999 + 1.0) * 0.999 + 1.0


@pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
def test_a_call_that_becomes_long_can_be_ended():
    """Calls of few trips are made by machine code, during which no signal handler runs."""

    def stop(*_):
        raise StopError

    for body in (
        tape_of(lambda x, c: (0.999 * x + c,), *arrays(of(), of())),
        tape_of(lambda x, c: (0.999 * x[::-1] + c,), *arrays(of(100), of())),
    ):
        tape = tape_of_loop(body, 1, 0, 10**12, traced=True)
        kernel, x = fdiff.kernels.compile(tape, ("C",) * 3), np.ones(body.input_types[0].shape)
        for _ in range(3):
            (few,) = kernel(np.asarray(3), x, np.ones(()))
        assert not kernel._is_long, "it is called by machine code"
        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        begin = time.monotonic()
        with pytest.raises(StopError):
            kernel(np.asarray(10**12), x, np.ones(()))
        assert time.monotonic() - begin < 5.0  # 0.1 on a machine that is not busy
        signal.signal(signal.SIGALRM, before)
        (again,) = kernel(np.asarray(3), x, np.ones(()))
        np.testing.assert_array_equal(again, few)
        many = kernel(np.asarray(3 * 10**6), x, np.ones(()))[0]
        np.testing.assert_allclose(many, 1000.0, rtol=1e-9)  # the sum of all powers of 0.999


def test_what_shares_the_word_of_a_call_that_was_stopped_begins_again():
    word = np.ones(1, np.int64)
    statuses = [STOPPED, STOPPED, 0]
    assert stoppable(lambda: statuses.pop(0), word, answering=False) == 0
    for answering in (False, True):
        with pytest.raises(ZeroDivisionError):
            stoppable(lambda: 1 // 0, word, answering=answering)
        assert not word[0]


def test_angles_that_only_libm_takes():
    body = tape_of(lambda x, r: (np.sin(x * r), x), *arrays(of(), of()))
    tape = tape_of_loop(body, 1, 1, 3)
    compare(tape, [np.array(1.0), np.array([1.0, 1e15, 1e12])])


def test_operands_of_any_layout():
    body, carries, rows = body_of("few in reverse order")
    tape = tape_of_loop(body, carries, rows, 4)
    x, r = arguments(tape)
    kernel = fdiff.kernels.compile(tape, ("A", "A"))
    given = x[::-1], np.asfortranarray(r)
    for value, expected in zip(kernel(*given), evaluate(tape, *given), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-13)


def test_the_program_after_each_pass_shows_the_body():
    body, carries, rows = body_of("Runge-Kutta")
    tape = tape_of_loop(body, carries, rows, 9, reverse=True)
    graph = fdiff.kernels.text_after(tape, ("C",) * 3, "reload_stores")
    assert "loop[carries=1" in graph
    assert "    %1: f8[3] = input[1, C]" in graph
    program = fdiff.kernels.text_after(tape, ("C",) * 3, "lower_bodies")
    assert "for trip in n0 in reverse:" in program
    assert "x0 = x0 at first" in program


def test_equal_bodies_are_lowered_once():
    """And their constants stand in the tables of the kernel once; other constants are others."""

    def loops(x, factors):
        for factor in factors:
            x = fdiff.fori_loop(0, 40, lambda _, y: np.sin(y) * factor + 0.125, x)
        return x

    x = np.linspace(0.1, 0.9, 5)
    equal, others = (
        fdiff.make_tape(partial(loops, factors=f), x) for f in ((0.3, 0.3), (0.3, 0.7))
    )
    bodies = [
        [op.bodies[0] for op in kernel_graph(tape, ("C",))[0].ops if op.bodies]
        for tape in (equal, others)
    ]
    assert [first is second for first, second in bodies] == [True, False]
    graph = kernel_graph(equal, ("C",))[0]
    loops_in_program = [i for i in lower_graph(graph).items if isinstance(i, SequentialLoop)]
    assert len({id(item.body.program) for item in loops_in_program}) == 1
    for tape in (equal, others):
        compare(tape, [x])

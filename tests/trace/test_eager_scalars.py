# ruff: noqa: FURB136, SIM202 - the ways in which users decide are what is tested
"""Scalars of eager traces: random programs against the complex step; what a call leaves behind."""

import gc
import itertools
import math
import sys
import types
import warnings

import numpy as np
import pytest
from american_put import conditional_put
from test_eager import eagerly

import fdiff
from fdiff.dispatch.program import Program
from fdiff.functional.call import slow_code
from fdiff.tape import Builder, Tape
from fdiff.trace import looping
from fdiff.trace.branching import guards
from fdiff.trace.recorder import Handle, Recorder

N = 4


def real(value):
    """What is compared: of the complex numbers of a complex step the real part."""
    return value.real if isinstance(value, (complex, np.complexfloating)) else value


UNARY = (np.exp, np.sin, np.cos, np.tanh, np.square, np.negative, lambda v: -v, lambda v: +v)
BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / (2.5 + b * b),
    "part": lambda a, b: a / (a + (3.0 + b * b)),
    "np": lambda a, b: np.float64(0.7) * a - np.add(b, 0.25),
    "hypot": lambda a, b: np.sqrt(a * a + b * b + 1.0),
}
POWERS = (2, 3, 2.0, np.float64(2.0), -1, 0.5)


def steps_of(rng, count):
    """A random program: steps with operands, drawn once."""
    kinds = (
        "unary", "binary", "number", "reverse", "power", "branch", "loop", "read", "write", "write",
        "vector", "view", "total",
    )  # fmt: skip
    return [
        (str(rng.choice(kinds)), *rng.integers(0, 1 << 20, 4).tolist(), float(rng.normal()))
        for _ in range(count)
    ]


def play(x, program):
    """Run a program on registers of scalars and an array with views; a scalar."""
    array = np.zeros_like(x)
    array[:] = 0.5 * x
    registers = [x[k] for k in range(N)]
    for kind, i, j, k, m, c in program:
        a, b = registers[i % N], registers[j % N]
        if kind == "unary":
            a = UNARY[k % len(UNARY)](0.3 * a)
        elif kind == "binary":
            a = tuple(BINARY.values())[k % len(BINARY)](a, b)
        elif kind == "number":
            a = (a + c) * 2 - np.float64(c) / (1.5 + b * b)
        elif kind == "reverse":
            a = c - a if m % 2 else 1 / (2.0 + a * a)
        elif kind == "power":
            a = (a * a + 1.0) ** POWERS[k % len(POWERS)]
        elif kind == "branch":
            if real(a) > real(b):
                a = a - 0.5 * b
            elif real(array[k % N]) <= c:
                a = array[m % N] * b
        elif kind == "loop":
            turns = 0
            while real(a) * real(a) > 0.5 and turns < 4:
                a = a * 0.5
                turns += 1
        elif kind == "read":
            a = array[-1 - k % N] + a
        elif kind == "write":
            array[k % N - (N if m % 2 else 0)] = a if m % 3 else c
        elif kind == "vector":
            array[1:] = 0.7 * array[:-1] + b * array[1:]
        elif kind == "view":
            part = array[::2]
            part[k % 2] = b
            a = part[m % 2] * a
        else:
            a = 0.1 * np.sum(array * x) + a
        registers[k % N] = 3.0 * np.tanh(a / 3.0)
    return registers[0] * registers[1] + registers[2] - registers[3] * np.sum(array)


def stepped(f, x):
    """The gradient by the complex step."""
    rows = [f(x + 1e-30j * e).imag / 1e-30 for e in np.eye(x.size)]
    return np.array(rows)


CASES = list(range(24))


def drawn(seed):
    rng = np.random.default_rng(seed)
    program = steps_of(rng, 30)
    return (lambda x: play(x, program)), rng.normal(size=N), rng


@pytest.mark.parametrize("seed", CASES)
def test_random_programs_in_all_operators(seed):
    f, x, rng = drawn(seed)
    wanted = stepped(f, x)
    close = {"rtol": 1e-11, "atol": 1e-12 * np.max(np.abs(wanted))}
    value, slope = eagerly(fdiff.value_and_grad(f), x)
    np.testing.assert_allclose(value, f(x), rtol=1e-13)
    np.testing.assert_allclose(slope, wanted, **close)
    v = rng.normal(size=N)
    np.testing.assert_allclose(eagerly(fdiff.jvp(f), x, v)[1], wanted @ v, **close)
    pair = lambda x: np.stack([f(x), 2.0 * f(x) * x[0]])
    rows = np.stack([wanted, 2.0 * wanted * x[0]])
    rows[1, 0] += 2.0 * f(x)
    large = {"rtol": 1e-10, "atol": 1e-11 * np.max(np.abs(rows))}
    for call in (fdiff.jacrev(pair), fdiff.jacfwd(pair)):
        np.testing.assert_allclose(eagerly(call, x), rows, **large)
    bar = rng.normal(size=2)
    np.testing.assert_allclose(eagerly(fdiff.vjp(pair), x, bar)[1], bar @ rows, **large)


@pytest.mark.parametrize("seed", CASES[:8])
def test_second_derivatives_of_random_programs(seed):
    f, x, rng = drawn(seed)
    h = 1e-5
    wanted = np.stack(
        [(stepped(f, x + h * e) - stepped(f, x - h * e)) / (2 * h) for e in np.eye(N)]
    )  # fmt: skip
    close = {"rtol": 1e-6, "atol": 1e-7 * np.max(np.abs(wanted))}
    np.testing.assert_allclose(eagerly(fdiff.hessian(f), x), wanted, **close)
    v = rng.normal(size=N)
    np.testing.assert_allclose(eagerly(fdiff.hvp(f), x, v), wanted @ v, **close)


@pytest.mark.parametrize("seed", CASES[:6])
def test_programs_in_single_precision(seed):
    f, x, _ = drawn(seed)
    value, slope = eagerly(fdiff.value_and_grad(f), x.astype(np.float32))
    plain = f(x.astype(np.float32))
    assert type(value) is type(plain)
    assert slope.dtype == np.float32
    np.testing.assert_allclose(value, plain, rtol=1e-5)
    usual = fdiff.grad(f)(x.astype(np.float32))
    np.testing.assert_allclose(slope, usual, rtol=1e-4, atol=1e-4 * np.max(np.abs(usual)))


# --- the kinds of scalars -------------------------------------------------------------------------

OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "lt": lambda a, b: (a < b) * 1.0 + a,
    "ge": lambda a, b: np.where(a >= b, a, 2 * b),
    "eq": lambda a, b: a * b if a == b else a - b,
    "ne": lambda a, b: a * b if not a != b else b * b + a,
    "and": lambda a, b: np.where((a > 0) & ~np.greater(b, 1), a * b, a),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_dtypes_of_operations_are_numpys(name):
    """Scalars of every kind beside numbers of every kind, both ways round."""
    operation = OPERATIONS[name]
    kinds = (np.float64(1.25), np.float32(1.25), 1.25, np.array(1.25), np.array([1.25, 2.0])[0])
    numbers = [2, 0.75, np.float64(0.75), np.float32(0.75), np.int64(2), 0.0]
    numbers += [] if name in ("eq", "ne") else [np.array([0.75, 2.0])]
    for x, number in itertools.product(kinds, numbers):
        if type(x) is float and type(number) is float and number == 0.0:
            continue  # Python raises ZeroDivisionError; fdiff gives NumPy's infinity
        for swap in (False, True):
            f = lambda x: np.sum(operation(*((number, x) if swap else (x, number))))
            with np.errstate(all="ignore"):
                wanted = f(x)
                value, slope = eagerly(fdiff.value_and_grad(f), x)
            assert np.asarray(value).dtype == np.asarray(wanted).dtype
            np.testing.assert_allclose(value, wanted, rtol=2e-7)  # powers of scalars and of arrays
            with np.errstate(all="ignore"):
                usual = fdiff.grad(f)(x)
            np.testing.assert_allclose(slope, usual, rtol=1e-6)


def test_numbers_that_are_equal_and_not_the_same():
    def f(x):
        zero = x[0] * 0.0 + x[1] * -0.0
        return np.copysign(1.0, x[0] * -0.0) * x[0] + np.copysign(2.0, x[0] * 0.0) * x[1] + zero

    x = np.array([1.5, 2.5])
    np.testing.assert_array_equal(eagerly(fdiff.grad(f), x), [-1.0, 2.0])


def test_comparisons_with_not_a_number_and_infinity():
    def f(x):
        bad = x[0] * np.nan
        told = [bad > 0, bad <= 0, bad == bad, bad != bad, x[0] / 0.0 > 1e300, not bad < 1]
        return x[0] * sum(2.0**k for k, t in enumerate(told) if t)

    x = np.array([1.5])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(eagerly(fdiff.grad(f), x), [8.0 + 16.0 + 32.0])


@pytest.mark.parametrize(
    ("key", "error"), [(3, IndexError), (-4, IndexError), ((0, 0), IndexError), ("a", IndexError)]
)
def test_keys_out_of_range_raise_as_in_plain_code(key, error):
    def read(x):
        y = x * 1.0
        return y[key] * 2.0

    def write(x):
        y = x * 1.0
        y[key] = x[0]
        return np.sum(y)

    for f in (read, write):
        with pytest.raises(error) as plain:
            f(np.ones(3))
        with pytest.raises(error) as found:
            eagerly(fdiff.grad(f), np.ones(3))
        assert str(found.value) == str(plain.value)


def test_the_arguments_stay_as_they_are():
    def f(x):
        x[0] = 2.0 * x[1]
        x[-1] = x[0] * x[0]
        return np.sum(x)

    x = np.array([1.0, 2.0, 3.0])
    slope = eagerly(fdiff.grad(f), x)
    np.testing.assert_array_equal(slope, [0.0, 3.0 + 8.0 * 2.0, 0.0])
    np.testing.assert_array_equal(x, [1.0, 2.0, 3.0])


def test_scalars_of_a_trace_around_another():
    def f(x):
        inner = fdiff.grad(lambda y: y * x[0] if y > x[1] else y * y * x[2])
        total = 0.0
        for k in range(3):
            total = total + inner(x[k]) * x[k]
        return total if total > 1 else total * total

    x = np.array([1.5, 0.5, 2.0])
    np.testing.assert_allclose(eagerly(fdiff.grad(f), x), fdiff.grad(f)(x), rtol=1e-13)


def test_complex_numbers_of_branching_programs():
    def f(x):
        y = np.zeros(3)
        y[1] = x[0] if x[0] > x[1] else x[1]
        y[-1] = y[1] * 2.0
        return y[1:] * 1j + y[2]

    x = np.array([1.5, 0.5])
    np.testing.assert_allclose(eagerly(fdiff.jacfwd(f), x), fdiff.jacfwd(f)(x))


# --- what a call leaves behind --------------------------------------------------------------------


@pytest.mark.parametrize("derive", [fdiff.value_and_grad, fdiff.grad, fdiff.jacfwd, fdiff.jit])
def test_an_eager_call_leaves_no_garbage(derive):
    """No node and no value: the record of what was read has cycles, whose size does not grow."""

    def garbage(steps):
        """The least of two, for other threads leave cycles meanwhile."""
        return min(garbage_of_call(steps) for _ in range(2))

    def garbage_of_call(steps):
        call = derive(lambda s: conditional_put(s, steps=steps))
        eagerly(call, 0.95)
        gc.collect()
        gc.disable()
        try:
            eagerly(call, 0.97)
            return gc.collect()
        finally:
            gc.enable()

    garbage_of_call(20)  # what is imported and learnt at the first time stays
    assert garbage(20) == garbage(50) < 200


@pytest.mark.slow
@pytest.mark.parametrize("loops", ["", "check"])
def test_a_trace_that_is_kept_leaves_no_garbage(loops, monkeypatch):
    """No trace, tape or value; other threads, which compile, may leave small cycles meanwhile.

    Of a function whose loops do not choose: bodies of loops that do lead to traces around them.
    """
    monkeypatch.setenv("FDIFF_LOOPS", loops)
    monkeypatch.setattr(guards, "MANY", sys.maxsize)
    monkeypatch.setattr(looping, "SLEEP", 0)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        fdiff.grad(lambda s: conditional_put(s))(0.95)
        gc.collect()
        garbage = list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert garbage  # the record of what was read
    large = (Recorder, Handle, Tape, Builder, np.ndarray)
    assert not [x for x in garbage if isinstance(x, large)]
    assert len(garbage) < 1000, len(garbage)


def test_values_that_outlive_an_eager_call_say_so():
    kept = []

    class Keeper:
        def __init__(self, value):
            self.value = value

        def __deepcopy__(self, memo):
            return self

    def f(x):
        y = x[0] * 2.0
        kept.extend([Keeper(y), Keeper(y > 1.0)])
        return y * x[1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eagerly(fdiff.grad(f), np.array([1.5, 2.0]))
    for keeper in kept:
        value = keeper.value
        if not isinstance(value, (float, np.generic)):
            for use in (
                lambda v: v + 1.0,
                lambda v: 1.0 + v,
                bool,
                lambda v: np.sin(v),
                lambda v: v > 0,
            ):
                with pytest.raises(fdiff.errors.LeakError, match=r"test_eager_scalars\.py"):
                    use(value)


def test_an_error_in_an_eager_call_leaves_no_garbage():
    def f(x):
        total = x[0]
        for k in range(2000):
            total = total * 1.001 if total > k else total + x[k % 3]
        return x[3]

    for _ in range(2):
        gc.collect()
        gc.disable()
        try:
            with pytest.raises(IndexError):
                eagerly(fdiff.grad(f), np.ones(3))
            found = gc.collect()
        finally:
            gc.enable()
    assert found < 1000  # the traceback's frames, but not the trace


def without_source(f):
    """The function with no lines of source, so that its loops cannot choose their branches."""
    code = f.__code__.replace(co_filename="<without source>")
    return types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, f.__closure__)


@pytest.mark.slow
def test_the_american_put_is_eager_from_the_third_call_on():
    points, put = 0.9 + 0.02 * np.arange(6), without_source(conditional_put)
    both = fdiff.value_and_grad(put)
    for s in points:
        value, slope = both(s)
        np.testing.assert_allclose(value, put(s), rtol=1e-14)
        np.testing.assert_allclose(slope, differences(put, s), rtol=1e-6)
    program = fdiff.value_and_grad(put).program
    assert isinstance(program, Program)
    (kept,) = program.variants.values()
    assert len(kept) <= 2


def differences(f, x, h=1e-7):
    return (f(x + h) - f(x - h)) / (2 * h)


def test_slow_code_is_named_once(monkeypatch):
    def f(x):
        total = x[0] * 0.0
        for k in range(40):
            total += x[k % 3] if (y := np.sin(37.0 * k * x[1])) > x[2] else k * x[0]  # here
        return total + 0.0 * y  # loops of functions with `:=` do not choose their branches

    monkeypatch.setattr(slow_code, "SECONDS", 0.02)
    monkeypatch.setattr(slow_code, "TIMES", 1.0)
    slope = fdiff.grad(f)
    points = np.random.default_rng(0).normal(size=(60, 3))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for x in points:
            slope(x)
    assert [w.category for w in told] == [fdiff.errors.RetraceWarning]
    words = str(told[0].message)
    assert "(40 times)" in words
    assert "# here" in words
    assert "numpy.where" in words
    assert "test_eager_scalars.py" in words


def test_operations_that_are_timed_warn_of_nothing(monkeypatch):
    """What Python refuses and the code catches is NaN among the operations of a trace."""

    def f(x):
        total = x[0] * 0.0
        for k in range(30):
            try:
                total += math.pow(x[k % 3], 0.5)
            except ValueError:
                total += x[k % 3] * k
        return total

    monkeypatch.setattr(slow_code, "SECONDS", 0.0)
    slope = fdiff.grad(f)
    for x in np.random.default_rng(0).normal(size=(40, 3)):
        slope(x)  # warnings are errors
    assert slope.program.ratios or slope.program.seconds


def test_code_that_is_not_slow_is_not_named(monkeypatch):
    def f(x):
        total = 0.0
        for k in range(12):
            if x[k] > 0:
                total = total + np.sum(np.sin(x) * x)
        return total

    monkeypatch.setattr(slow_code, "SECONDS", 0.2)
    monkeypatch.setattr(slow_code, "TIMES", 20.0)
    slope = fdiff.grad(f)
    for x in np.random.default_rng(0).normal(size=(40, 30_000)):
        slope(x)  # warnings are errors
    (stability,) = fdiff.grad(f).program.stability.values()
    assert stability.unstable()

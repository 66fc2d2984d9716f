"""Every op with a kernel for CUDA, on the simulator or a GPU: values, and derivatives both ways."""

import numpy as np
import pytest
from op_tapes import each_op, each_precision, tapes_with_arguments
from programs import PROGRAMS, flat
from running import TUNING, program_of, run_on_device
from tapes import tape_of, values

import fdiff
from fdiff.kernels.cuda.cuda_program import Role, SortKeys, entries
from fdiff.kernels.cuda.devices.simulated_words import _MATH, _RT
from fdiff.kernels.ir.word_table import OF_GPUS, WORDS
from fdiff.kernels.runtime import maths, scalar
from fdiff.transforms.simplify import simplify

TOLERANCE = {"f8": 1e-12, "f4": 2e-5}


def check(tape, given, expected, **options):
    """The outputs of a tape on the device are these, dtypes and shapes included."""
    for got, want in zip(run_on_device(tape, *given, **options), expected, strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if want.dtype.kind != "f":
            np.testing.assert_array_equal(got, want)
            continue
        single = any(np.asarray(g).dtype == np.float32 for g in given)
        tolerance = TOLERANCE["f4" if single else "f8"]
        scale = np.max(np.abs(want[np.isfinite(want)]), initial=1.0)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale)


@each_op
@each_precision
def test_op(op, sample, precision, rng):
    """Kernels of an op and of its derivatives give what NumPy gives."""
    for tape, given in tapes_with_arguments(op, sample, precision, rng):
        with np.errstate(all="ignore"):
            expected = values(tape, *given)
        check(tape, given, expected)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("deterministic", [False, True])
def test_program(name, deterministic):
    """Whole programs: fused nests, tiles of rows, reductions in two stages, scatters, products."""
    f, args = PROGRAMS[name]
    expected = flat(f(*args))
    tape = simplify(fdiff.make_tape(f, *args))
    check(tape, args, expected, deterministic=deterministic)


@pytest.mark.parametrize("shape", [(0, 1 << 40), (1 << 40, 0)], ids=str)
@pytest.mark.parametrize("tuning", [TUNING, TUNING._replace(light=-1)], ids=["alone", "shared"])
def test_tiles_of_no_rows(shape, tuning):
    """They had one row at least, of whatever length."""

    def f(x):
        e = np.exp(x - np.max(x, axis=axis, keepdims=True))
        return np.sum(np.sin(e / np.sum(e, axis=axis, keepdims=True)) * x)

    x, axis = np.empty(shape), shape.index(1 << 40)
    tape = simplify(fdiff.make_tape(lambda x: (f(x), fdiff.grad(f)(x)), x))
    program, _, numbers = program_of(tape, tuning=tuning)
    assert sum(entries(m, numbers) for m in program.of(Role.TEMPORARY)) < 64
    check(tape, [x], [np.float64(0.0), x], tuning=tuning)


@pytest.mark.parametrize("dtype", ["b1", "i1", "i4", "u2", "u8"])
def test_reductions_that_keep_a_dtype_of_few_bits(dtype):
    x = (np.arange(60) * 37 % 11).astype(dtype).reshape(3, 20)

    def every(x):
        whole = np.sum(x, dtype=x.dtype), np.prod(x[:, 1:3], axis=1, dtype=x.dtype)
        return *whole, x.max(), x.min(1), x @ x[0], x[0] @ x[1]

    check(fdiff.make_tape(every, x), (x,), [np.asarray(one) for one in every(x)])


@pytest.mark.parametrize("name", ["equal", "less", "greater_equal", "left_shift", "gcd"])
def test_integers_that_no_double_holds(name):
    x = np.array([0, 1, 2**53, 2**53 + 1, 2**63, 2**64 - 1], np.uint64)
    y = x[::-1].copy() if name in ("left_shift", "gcd") else np.array([0, -1, 2**53, -5, 7, 2])
    function = getattr(np, name)
    tape = fdiff.make_tape(lambda x, y: function(x, y), x, y)
    check(tape, (x, y), [function(x, y)])


def test_deterministic_scatters_are_sorted():
    """No entry of memory is added to in an order that may differ from run to run."""
    f, args = PROGRAMS["scatter"]
    tape = simplify(fdiff.make_tape(f, *args))
    for deterministic in (False, True):
        program, _, _ = program_of(tape, deterministic=deterministic)
        assert any(isinstance(step, SortKeys) for step in program.steps) == deterministic
        assert ("rt.atomic_sum" in program.text) != deterministic


def test_an_index_out_of_bounds_is_an_error():
    def pick(x, at):
        return x[at]

    x, at = np.arange(5.0), np.array([0, 4, 5])
    tape = tape_of(pick, x, at)
    with pytest.raises(IndexError):
        run_on_device(tape, x, at)
    (got,) = run_on_device(tape, x, np.array([0, -5, 4]))
    np.testing.assert_array_equal(got, [0.0, 0.0, 4.0])


def test_a_singular_matrix_is_an_error():
    def solved(a, b):
        return np.linalg.solve(a, b)

    a, b = np.zeros((2, 3, 3)), np.ones((2, 3, 1))
    with pytest.raises(np.linalg.LinAlgError):
        run_on_device(tape_of(solved, a, b), a, b)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_arrays(shape):
    def f(x):
        return np.exp(x), np.sum(x), np.sum(x, axis=0)

    x = np.zeros(shape)
    check(tape_of(f, x), [x], values(tape_of(f, x), x))


def test_numbers_that_are_stored_and_read_again():
    """All threads wait until the first has stored what they read."""

    def largest(x):
        return np.maximum.accumulate(x)

    for value in (-0.5, 2.0):
        check(tape_of(largest, np.ones(1)), [np.array([value])], [np.array([value])])


def test_many_numbers_come_from_a_table():
    """A kernel takes 4 KB of parameters; a program of more numbers than that reads them."""

    def f(x):
        for k in range(150):
            x = x + (k + 0.5) * 1e-6 * np.sin(x * (0.25 + k))  # which amplifies no rounding
        return x

    x = np.linspace(0.0, 1.0, 5)
    tape = tape_of(f, x)
    check(tape, [x], values(tape, x))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1", "b1"])
def test_words_of_the_simulator_give_the_types_of_their_rows(dtype):
    """Every word that has a formula or a text, where it has a meaning for the dtype."""
    done = 0
    for name in {**maths.FORMULAS, **scalar.TEXTS}:
        word = WORDS[f"rt.{name}"]
        meant = "f" if name in maths.FORMULAS else ""
        meant += "".join(families for families, _ in scalar.TEXTS.get(name, ()))
        if dtype[0] in meant and name != "out_of_range":  # which no kernel for a GPU calls
            numbers = [np.dtype(dtype).type(1)] * len(word.parameters)
            with np.errstate(all="ignore"):
                got = getattr(_RT, name)(*numbers)
            assert got.dtype.str[1:] == word.result([dtype] * len(numbers)), name
            done += 1
    assert done >= {"f": 50, "i": 10, "u": 10, "b": 4}[dtype[0]]


def test_words_of_the_simulator_convert_as_kernels_do():
    """To the type of the first argument; NumPy refuses some that kernels give a value for."""
    single = np.float32(1.0)
    assert _RT.nextafter(single, 2.0) == np.nextafter(single, np.float32(2.0))
    assert _MATH.sqrt(4) == 2.0
    assert _RT.power(np.int32(3), np.int32(-1)) == 1
    assert _RT.left_shift(np.uint8(3), 9) == 0
    assert _RT.right_shift(np.int8(-3), 9) == -1
    with np.errstate(all="ignore"):
        assert _RT.remainder(5, 0) == 0
        assert _RT.power(np.int8(3), 5) == np.int64(3**5).astype(np.int8)


def test_the_simulator_has_the_words_of_gpus():
    assert vars(_RT).keys() >= {name.removeprefix("rt.") for name in OF_GPUS}

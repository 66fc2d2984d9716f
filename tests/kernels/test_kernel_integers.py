"""Kernels of integers at the ends of every dtype, where numbers do not fit a double."""

import numpy as np
import pytest

import fdiff

DTYPES = [np.dtype(char) for char in "bBhHiIqQ"]
OPS = (
    "add", "subtract", "multiply", "floor_divide", "remainder", "fmod", "power", "gcd", "lcm",
    "left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum",
    "less", "equal",
)  # fmt: skip
ALONE = ("negative", "absolute", "sign", "invert", "square")
DIVIDING = ("floor_divide", "remainder", "fmod")


def operands(dtype, name, rng):
    """Both ends of the dtype and numbers of all sizes, with themselves, with small ones, with 2."""
    ends = np.iinfo(dtype)
    some = rng.integers(ends.min, ends.max, 20, dtype, endpoint=True)
    x = np.array([ends.min, ends.max, ends.min + 1, ends.max - 1, 0, 1, *some], dtype)
    for y in (x[::-1], rng.integers(0, 70, x.size).astype(dtype), np.full(x.size, 2, dtype)):
        if name == "power":
            yield x, y % 7
        else:
            yield x, np.where(y == 0, 1, y).astype(dtype) if name in DIVIDING else y


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_two_operands(name, dtype, rng):
    function = getattr(np, name)
    for x, y in operands(dtype, name, rng):
        run = fdiff.jit(lambda x, y: function(x, y))
        run.compile(x, y)
        with np.errstate(all="ignore"):
            want, found = function(x, y), run(x, y)
        np.testing.assert_array_equal(found, want, strict=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ALONE)
def test_one_operand(name, dtype, rng):
    function = getattr(np, name)
    x, _ = next(operands(dtype, name, rng))
    want = function(x)
    run = fdiff.jit(lambda x: function(x))
    run.compile(x)
    np.testing.assert_array_equal(run(x), want, strict=True)


SUMS = {
    "sum": lambda x: np.sum(x, dtype=x.dtype),
    "sum of columns": lambda x: np.sum(x, axis=0, dtype=x.dtype),
    "sum of rows": lambda x: np.sum(x, axis=1, dtype=x.dtype),
    "product": lambda x: np.prod(x, dtype=x.dtype),
    "smallest": lambda x: x.min(),
    "largest of columns": lambda x: x.max(0),
    "largest": lambda x: x.max(),
    "running": lambda x: np.cumsum(x, axis=1, dtype=x.dtype),
    "matrices": lambda x: x @ x.T,
    "matrix and vector": lambda x: x @ x[0],
    "vectors": lambda x: x[0] @ x[1],
    "vdot": lambda x: np.vdot(x, x),
    "all axes": lambda x: np.tensordot(x, x, 2),
    "diagonals": lambda x: np.einsum("ij,ij->j", x, x),
    "trace": lambda x: np.trace(x, dtype=x.dtype),
}


@pytest.mark.parametrize("dtype", [*DTYPES, np.dtype(bool)], ids=str)
@pytest.mark.parametrize("name", SUMS)
def test_sums_that_keep_their_dtype(name, dtype):
    x = (np.arange(12) * 37 % 11).astype(dtype).reshape(3, 4)
    run = fdiff.jit(lambda x: SUMS[name](x))
    run.compile(x)
    np.testing.assert_array_equal(run(x), SUMS[name](x), strict=True)


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater"])
def test_numbers_with_and_without_a_sign_are_compared_exactly(name, swap):
    unsigned = np.array([0, 1, 2**53, 2**53 + 1, 2**63, 2**64 - 1], np.uint64)
    signed = np.array([0, 1, -1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1])
    x, y = (one.ravel() for one in np.meshgrid(unsigned, signed))
    if swap:
        x, y = y, x
    function = getattr(np, name)
    for f in (lambda x, y: function(x, y), lambda x, y: np.where(function(x, y), 1.0, 2.0)):
        run = fdiff.jit(f)
        run.compile(x, y)
        np.testing.assert_array_equal(run(x, y), f(x, y), strict=True)

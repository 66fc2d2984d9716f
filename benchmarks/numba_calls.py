"""What a call costs in ``@njit`` code: `python -m benchmarks.numba_calls`.

Prints nanoseconds a call of value and gradient of a sum of squares of three numbers: the bare
kernel by its address, a prepared function by `fdiff.njit` with new arrays and with ``out=``, the
same written by hand, and calls from Python. Then the cost by the number of shapes that are known,
and what compiling takes.
"""

from __future__ import annotations

import os

os.environ.update(FDIFF_TIER="compile", FDIFF_NUM_THREADS="1")

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

import fdiff

from .report import table

CALLS, RUNS = 1_000_000, 9
SHAPES = (1, 100, 3000)
Array = np.ndarray


def squares(x: Array) -> Any:
    """The sum of squares."""
    return np.sum(x**2)


@numba.njit
def by_hand(x: Array) -> tuple[float, Array]:
    """Value and gradient of `squares`."""
    slope, value = np.empty(x.shape[0]), 0.0
    for i in range(x.shape[0]):
        value += x[i] * x[i]
        slope[i] = 2 * x[i]
    return value, slope


@numba.njit(inline="never")
def first(slope: Array) -> float:
    """Something done with an array, so that it is made."""
    return slope[0]


@numba.njit
def allocating(x: Array) -> tuple[float, Array]:
    """Only the array."""
    slope = np.empty(x.shape[0])
    slope[0] = 1.0
    return first(slope), slope


def loop_of(function: Any) -> Any:
    """A loop of calls in compiled code."""

    @numba.njit
    def loop(x: Array, count: int) -> float:
        total = 0.0
        for _ in range(count):
            value, slope = function(x)
            total += value + slope[0]
        return total

    return loop


def loop_into(function: Any) -> Any:
    """The same, with an array that results are written to."""

    @numba.njit
    def loop(x: Array, out: Array, count: int) -> float:
        total = 0.0
        for _ in range(count):
            value, slope = function(x, out=(None, out))
            total += value + slope[0]
        return total

    return loop


def loop_by_address(function: Any, x: Array) -> tuple[Any, list[Array]]:
    """Calls of the kernel with a table that is filled once, and the arrays that it is made of."""
    (records,) = function.callee.all_records()
    bound = records.table.record_at(records.table.find(x.shape)).kernel.kernel
    value, slope = np.zeros(1), np.zeros(3)
    data = np.array([x.ctypes.data, value.ctypes.data, slope.ctypes.data, 0], np.int64)
    kernel = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)(bound.address)
    ints, floats = bound.ints.ctypes.data, bound.floats.ctypes.data

    @numba.njit
    def loop(data: int, value: Array, count: int) -> float:
        total = 0.0
        for _ in range(count):
            kernel(data, 0, ints, floats)
            total += value[0]
        return total

    return loop, [data, value, slope]


def nanoseconds(call: Callable[[int], object], count: int = CALLS) -> float:
    """The least time of one of `count` calls."""
    call(1)
    found: list[float] = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        call(count)
        found.append(time.perf_counter() - begin)
    return min(found) / count * 1e9


def from_python(function: Callable[[Array], object], x: Array) -> Callable[[int], None]:
    """A loop of calls in Python."""

    def loop(count: int) -> None:
        for _ in range(count):
            function(x)

    return loop


def costs(function: Any, x: Array) -> list[list[str]]:
    """A row for each way to call."""
    out = np.zeros(3)
    new, into, hand = loop_of(function), loop_into(function), loop_of(by_hand)
    empty = loop_of(allocating)
    address, (data, value, _) = loop_by_address(function, x)
    calls: dict[str, tuple[Callable[[int], object], int]] = {
        "the kernel by its address": (lambda n: address(data.ctypes.data, value, n), CALLS),
        "into an array, out=": (lambda n: into(x, out, n), CALLS),
        "np.empty(3) alone": (lambda n: empty(x, n), CALLS),
        "with a new array": (lambda n: new(x, n), CALLS),
        "by hand, with np.empty": (lambda n: hand(x, n), CALLS),
        "from Python": (from_python(function, x), CALLS // 10),
    }
    return [[name, f"{nanoseconds(call, count):.1f}"] for name, (call, count) in calls.items()]


def by_shapes(function: Any, x: Array) -> list[list[str]]:
    """A row for each number of shapes that are known."""
    loop, rows = loop_of(function), []
    for shapes in SHAPES:
        for n in range(1, shapes + 1):
            function.compile(f"f8[{n}]")
        rows.append([str(shapes), f"{nanoseconds(lambda n: loop(x, n)):.1f}"])
    return rows


def compiling() -> list[list[str]]:
    """Seconds of the processor that a first call takes, and a new shape from there."""
    function = fdiff.njit(fdiff.value_and_grad(lambda x: np.sum(x**3)), "f8[3]")
    loop = loop_of(function)
    begin = time.process_time()
    loop(np.ones(3), 1)
    first_call = time.process_time() - begin
    begin = time.process_time()
    for n in range(4, 24):
        loop(np.ones(n), 1)
    another = (time.process_time() - begin) / 20
    return [["a first call", f"{first_call:.2f} s"], ["a new shape", f"{1e3 * another:.1f} ms"]]


def main() -> None:
    """Print all."""
    x = np.array([1.0, 2.0, 3.0])
    function: Any = fdiff.njit(fdiff.value_and_grad(squares), x)
    print(table(["value and gradient, n = 3", "ns a call"], costs(function, x)) + "\n")
    print(table(["shapes known", "ns a call"], by_shapes(function, x)) + "\n")
    print(table(["in @njit code", "takes"], compiling()))


if __name__ == "__main__":
    main()

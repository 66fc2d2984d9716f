"""Loops with many sines, which look for angles out of range: `python -m benchmarks.angles`.

Prints nanoseconds a call of an elementary function, and what compiling took, by the number of
calls: sums of sines and exponentials of 4,000 numbers, and their gradients. ``FDIFF_CPU=x86-64-v3``
is the table for AVX2.
"""

from __future__ import annotations

import ast
import os

os.environ.update(FDIFF_TIER="compile", FDIFF_CACHE_DIR="off", FDIFF_NUM_THREADS="1")

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fdiff
from fdiff.kernels.llvm.loop_hints import calls_in

from .report import table

ENTRIES, RUNS, CALLS = 4_000, 15, 5
TERMS = (4, 8, 12, 16, 18, 24)
Array = np.ndarray


def terms(x: Array, count: int) -> Array:
    """Half of the `count` terms are exponentials, half sines."""
    out = 0.0 * x
    for k in range(count):
        out = out + (np.sin(x * (k + 1.0)) if k % 2 else np.exp(-x * (k + 1.0)))
    return out


def functions(count: int) -> dict[str, Callable[[Array], Any]]:
    """The sum of `count` terms, and its value with gradient."""
    return {
        "value": fdiff.jit(lambda x: terms(x, count)),
        "value and gradient": fdiff.value_and_grad(lambda x: np.sum(terms(x, count))),
    }


def row(name: str, f: Any, count: int, dtype: str) -> list[str]:
    """One line: the median time of a call, after one that compiles."""
    x = np.linspace(0.0, 1.0, ENTRIES).astype(dtype)
    begin = time.process_time()
    f(x)
    compiling = time.process_time() - begin
    f(x)
    found: list[float] = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            f(x)
        found.append((time.perf_counter() - begin) / CALLS)
    calls = calls_in(ast.parse(fdiff.source(f, x)).body)
    each = statistics.median(found) / ENTRIES / calls * 1e9
    return [name, dtype, str(calls), f"{each:.2f}", f"{compiling * 1e3:.0f}"]


def main() -> None:
    row("warm up", fdiff.jit(np.sin), 1, "float64")  # the entry stub is compiled in the background
    time.sleep(1.0)
    rows = [
        row(name, f, count, dtype)
        for count in TERMS
        for name, f in functions(count).items()
        for dtype in ("float64", "float32")
    ]
    head = ["function", "dtype", "calls", "ns a call", "first call, ms"]
    print(table(head, sorted(rows, key=lambda r: (r[0], r[1]))))


if __name__ == "__main__":
    main()

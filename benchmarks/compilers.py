"""Kernels by both compilers, LLVM alone and Numba: `python -m benchmarks.compilers [WORDS]`.

Each case in one process, on one thread, nothing on disk: what compiling takes by each, what a call
takes, and whether the results have the same bits (else the largest difference, relative to the
largest number). `WORDS` choose among the cases, of which each problem's smallest is taken.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import fdiff

from .cases import CASES, Case
from .peers import fdiff_peer
from .report import duration, ratio, table
from .run import chosen
from .worker import flat, prepared

_CALLS, _SECONDS = 3, 0.2  # a call is timed at least so often, and for so long


def smallest(names: list[str]) -> list[Case]:
    """The smallest case of each problem."""
    found: dict[str, Case] = {}
    for case in (CASES[name] for name in names):
        if case.call != "fresh_jacobian":
            known = found.setdefault(case.problem, case)
            found[case.problem] = min(known, case, key=lambda c: c.size)
    return list(found.values())


def by(compiler: str, case: Case) -> tuple[np.ndarray, float, float]:
    """Results, seconds spent compiling, and seconds of a call."""
    os.environ["FDIFF_COMPILER"] = compiler
    fdiff.cache_clear()
    before = fdiff.cache_info().seconds
    derivative, (xs, _) = prepared(case, "fdiff", fdiff_peer), case.arguments()
    result = flat(derivative(*xs))
    seconds = fdiff.cache_info().seconds - before
    return result, seconds, _best(derivative, xs)


def _best(function: Callable[..., object], xs: tuple[np.ndarray, ...]) -> float:
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(times) < _CALLS or time.perf_counter() < end:
        begin = time.perf_counter()
        function(*xs)
        times.append(time.perf_counter() - begin)
    return min(times)


def difference(a: np.ndarray, b: np.ndarray) -> str:
    """ "bits", or the largest difference relative to the largest number."""
    if a.tobytes() == b.tobytes():
        return "bits"
    return f"{np.max(np.abs(a - b)) / np.max(np.abs(a)):.1e}"


def main() -> int:
    os.environ.update(FDIFF_TIER="compile", FDIFF_CACHE_DIR="off", FDIFF_NUM_THREADS="1")
    by("numba", CASES["value+grad sum(x²) n=3"])  # what is imported is imported
    rows, compiling, running = [], [], []
    for case in smallest(chosen(sys.argv[1:], CASES)):
        (a, own, call), (b, numba, other) = by("llvm", case), by("numba", case)
        compiling.append(numba / own)
        running.append(other / call)
        cells = [case.name, duration(own), duration(numba), ratio(compiling[-1])]
        rows.append([*cells, duration(call), ratio(running[-1]), difference(a, b)])
    head = ["kernel", "LLVM", "Numba", "Numba / LLVM", "call", "by Numba", "equal"]
    print(table(head, rows))
    means = (statistics.median(compiling), statistics.median(running))
    print(f"\n{len(rows)} cases; medians {means[0]:.1f} (compiling), {means[1]:.2f} (running).")
    return 0


if __name__ == "__main__":
    sys.exit(main())

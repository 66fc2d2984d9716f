"""The longest of the calls 2 to 20 of small functions: `python -m benchmarks.stalls`.

Sixty functions of a few operations each, one after the other in a process whose cache is empty, for
each operator and for one core and all: processor time of the calling thread, so that neither other
processes nor the background count. The median call of plain code takes some microseconds.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

import fdiff

from .report import duration, table
from .run import child

OPERATORS = ("value_and_grad", "grad", "jacobian", "hessian", "vmap")
WORDS = ["sin", "cos", "exp", "tanh", "sinh", "cosh", "arctan", "sqrt", "cbrt", "log1p", "square"]
FUNCTIONS, CALLS = 60, 20

Function = Callable[..., object]


def small(k: int) -> Function:
    """The function number `k`: two elementary functions and a branch-free sum."""
    first, second = (getattr(np, WORDS[j % len(WORDS)]) for j in (k, 3 * k + 1))

    def f(x):
        return np.sum(first(x) * second(x + 1.0)) + first(x[0]) / (2.0 + x[1] ** 2)

    return f


def measured(operator: str) -> dict[str, object]:
    """Seconds of the longest later call, of the tenth longest, and of the median."""
    rng, later = np.random.default_rng(0), []
    shape = (3, 4) if operator == "vmap" else (4,)
    for k in range(FUNCTIONS):
        prepared = getattr(fdiff, operator)(small(k))
        for call in range(CALLS):
            x = rng.uniform(0.1, 1.0, shape)
            begin = time.thread_time()
            prepared(x)
            if call:
                later.append(time.thread_time() - begin)
    later.sort()
    return {"longest": later[-1], "tenth": later[-10], "median": statistics.median(later)}


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        _, _, operator, cores = sys.argv
        if cores == "one":
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        print(json.dumps(measured(operator)))
        return 0
    rows = []
    for cores in ("one", "all"):
        for operator in OPERATORS:
            with tempfile.TemporaryDirectory() as folder:
                settings = {"FDIFF_CACHE_DIR": folder}
                found = child("stalls", "--worker", operator, cores, environment=settings)
            if "error" in found:
                sys.exit(f"{operator}: {found['error']}")
            times = [duration(float(found[key])) for key in ("longest", "tenth", "median")]  # type: ignore[arg-type] - numbers
            rows.append([operator, cores, *times])
    print(table(["calls 2 to 20", "cores", "longest", "tenth longest", "median"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

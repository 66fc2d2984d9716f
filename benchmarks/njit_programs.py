"""Programs in machine code that call derivatives: `python -m benchmarks.njit_programs`.

The programs of `examples/whole_programs.py`, in a process each: as they are, and with
``NUMBA_DISABLE_JIT=1``, where Python runs the same lines and calls the same kernels. Their results
are compared; times are those of the fastest run, once everything is compiled.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .report import duration, ratio, table
from .run import child

FILE = Path(__file__).parents[1] / "examples" / "whole_programs.py"
CORES = str(os.cpu_count() or 1)
RUNS = 7


def programs() -> dict[str, Callable[[], object]]:
    """Calls of the three programs."""
    names = runpy.run_path(str(FILE))
    newton, sensitivities, multistart = (
        names[name] for name in ("newton", "sensitivities", "multistart")
    )
    return {
        "Newton's method, Rosenbrock, n = 10": lambda: newton(names["POINT"]),
        "Runge and Kutta with adjoint, 1,000 steps": lambda: sensitivities(
            names["START"], names["RATES"], 0.01, 1_000
        ),
        "L-BFGS from 1,000 starts, n = 8": lambda: multistart(names["STARTS"]),
    }


def measured() -> dict[str, object]:
    """Of each program the seconds of its first call and of its fastest, and its numbers."""
    found: dict[str, object] = {}
    for name, call in programs().items():
        times: list[float] = []
        for _ in range(1 + RUNS):
            begin = time.perf_counter()
            result = call()
            times.append(time.perf_counter() - begin)
        numbers = [float(x) for part in result for x in np.ravel(part)]  # type: ignore[attr-defined] - each returns a tuple
        found[name] = {"first": times[0], "best": min(times[1:]), "numbers": numbers}
    return found


def main() -> int:
    if sys.argv[1:] == ["--worker"]:
        print(json.dumps(measured()))
        return 0
    threads = {"NUMBA_NUM_THREADS": CORES}
    compiled = child("njit_programs", "--worker", environment=threads)
    python = child("njit_programs", "--worker", environment={**threads, "NUMBA_DISABLE_JIT": "1"})
    rows: list[list[str]] = []
    for name, figures in compiled.items():
        assert isinstance(figures, dict), figures
        other = python[name]
        assert isinstance(other, dict), other
        np.testing.assert_allclose(figures["numbers"], other["numbers"], rtol=1e-8, atol=1e-8)
        times = duration(figures["best"]), duration(other["best"])
        rows.append(
            [name, *times, ratio(other["best"] / figures["best"]), duration(figures["first"])]
        )
    print(table([f"{CORES} cores", "@njit", "Python", "ratio", "first call of @njit"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Elementary functions by kernels and by NumPy: `python -m benchmarks.mathematics [FUNCTION...]`.

Nanoseconds an entry of 100,000, one core, in double and in single precision, into arrays that are
there already: the fastest tenth of batches of both in turn, which other processes disturb least.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import numpy as np
import scipy.special

import fdiff

from .report import ratio, table

SIZE, ROUNDS = 100_000, 300
UNIT, POSITIVE, WIDE, ABOVE = (-0.99, 0.99), (0.01, 100.0), (-5.0, 5.0), (1.01, 100.0)
FUNCTIONS: dict[str, tuple[Callable[..., object], tuple[float, float]]] = {
    **{name: (getattr(np, name), WIDE) for name in ("exp", "expm1", "exp2", "sinh", "cosh")},
    **{name: (getattr(np, name), POSITIVE) for name in ("log", "log1p", "log2", "log10", "sqrt")},
    **{name: (getattr(np, name), WIDE) for name in ("tanh", "sin", "cos", "tan", "arctan")},
    **{name: (getattr(np, name), WIDE) for name in ("cbrt", "arcsinh")},
    **{name: (getattr(np, name), UNIT) for name in ("arcsin", "arccos", "arctanh")},
    "arccosh": (np.arccosh, ABOVE),
    "logaddexp": (lambda x, **out: np.logaddexp(x, 0.5, **out), WIDE),
    "arctan2": (lambda x, **out: np.arctan2(x, 0.5, **out), WIDE),
    "power": (lambda x, **out: np.power(x, 1.7, **out), POSITIVE),
    "erf": (scipy.special.erf, WIDE),
    "expit": (scipy.special.expit, WIDE),
}  # fmt: skip


def figures(name: str, dtype: type) -> list[float]:
    """Nanoseconds an entry: of the kernel, and of NumPy."""
    function, (low, high) = FUNCTIONS[name]
    x = np.random.default_rng(2026).uniform(low, high, SIZE).astype(dtype)
    compiled, out = fdiff.jit(function), np.empty_like(x)
    calls = (lambda: compiled(x, out=out), lambda: function(x, out=out))
    found: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for call, times in zip(calls, found, strict=True):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
    return [1e9 / SIZE * sorted(times)[ROUNDS // 10] for times in found]


def main() -> None:
    os.environ["FDIFF_TIER"] = "compile"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows = []
    for name in sys.argv[1:] or FUNCTIONS:
        row = [name]
        for dtype in (np.float64, np.float32):
            ours, by_numpy = figures(name, dtype)
            row += [f"{ours:.2f}", f"{by_numpy:.2f}", ratio(ours / by_numpy)]
        rows.append(row)
    head = ["ns an entry", "float64", "NumPy", "ratio", "float32", "NumPy", "ratio"]
    print(table(head, rows))


if __name__ == "__main__":
    main()

"""What it costs to look for NaN, beside the interpreter: `python -m benchmarks.anomaly`.

A call of `value_and_grad` or `hessian` that finds nothing, as the interpreter runs it, and the same
inside of `detect_anomaly` and `debug_nans`; the same by compiled kernels; and backward passes of
recorded arrays. Medians of alternating calls, in microseconds of processor time, and the multiples.
Exits with 1 where `detect_anomaly` takes more than three times as long as the interpreter.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

import fdiff
import fdiff.autograd

ROUNDS, MOST = 20, 3.0
CONTEXTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "off": nullcontext,
    "detect_anomaly": fdiff.autograd.detect_anomaly,
    "debug_nans": fdiff.debug_nans,
}


def chain(x: np.ndarray) -> object:
    y = x
    for _ in range(10):
        y = np.sin(y) * x + 0.5
    return np.sum(y)


def rosenbrock(x: np.ndarray) -> object:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def softmax(x: np.ndarray) -> object:
    e = np.exp(x - np.max(x))
    return np.sum(np.log(e / np.sum(e)) * x)


def linear_system(x: np.ndarray) -> object:
    return np.sum(np.linalg.solve(np.eye(x.size) + np.outer(x, x), x) ** 2)


FUNCTIONS = (chain, rosenbrock, softmax, linear_system)


def backward(f: Callable[[object], object]) -> Callable[[np.ndarray], object]:
    """A forward and a backward pass of recorded arrays."""

    def call(x: np.ndarray) -> object:
        leaf = fdiff.autograd.tensor(x, requires_grad=True)
        f(leaf).backward()
        return leaf.grad

    return call


def microseconds(call: Callable[[np.ndarray], object], x: np.ndarray) -> dict[str, float]:
    """The median of a call in each context."""
    found: dict[str, list[float]] = {name: [] for name in CONTEXTS}
    for k in range(ROUNDS + 5):
        for name, context in CONTEXTS.items():
            with context():
                begin = time.thread_time_ns()
                call(x)
                taken = time.thread_time_ns() - begin
            if k >= 5:  # the first ones trace
                found[name].append(taken / 1000)
    return {name: statistics.median(times) for name, times in found.items()}


def measure(sizes: Sequence[int]) -> list[tuple[str, dict[str, float]]]:
    """One row for each function, size, tier and style."""
    rows: list[tuple[str, dict[str, float]]] = []
    for f in FUNCTIONS:
        for size in (10, 300) if f is linear_system else sizes:
            x = np.linspace(0.1, 1.0, size)
            named = f"{f.__name__} {x.size:,}"
            for tier in ("interpret", "compile"):
                os.environ["FDIFF_TIER"] = tier
                rows.append((f"{named} {tier}", microseconds(fdiff.value_and_grad(f), x)))
            os.environ["FDIFF_TIER"] = "interpret"
            if x.size <= 100:
                rows.append((f"{named} hessian", microseconds(fdiff.hessian(f), x)))
            rows.append((f"{named} backward", microseconds(backward(f), x)))
    return rows


def main() -> int:
    """Print the figures; 1 if the interpreter's time is exceeded more than threefold."""
    worst = 0.0
    print(f"{'':32}{'off':>12}{'detect':>12}{'times':>8}{'debug':>12}{'times':>8}")
    for name, times in measure((10, 1_000, 100_000)):
        off, detect, debug = times.values()
        print(
            f"{name:32}{off:12.1f}{detect:12.1f}{detect / off:8.2f}{debug:12.1f}{debug / off:8.2f}"
        )
        if "interpret" in name or "hessian" in name:
            worst = max(worst, detect / off)
    print(f"detect_anomaly beside the interpreter: at most {worst:.2f} times its time")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())

"""What `fdiff.explain` predicts beside what is measured: `python -m benchmarks.explain [WORDS]`.

For each case of the benchmarks, in a process of its own with one thread: the time of a call by a
kernel and by NumPy, the time of compiling, the peak of memory that NumPy holds. Times are those of
the processor, which other processes disturb least. A row has measured
figures and their ratios to the predicted ones; below are the quantiles of the ratios of all cases,
those of arrays beyond the cache apart, which the cost model does not know.

With `--routines` it is matrix routines of several sizes, with `--long` programs of thousands of
nodes, in this process: measured microseconds and their ratios to the predicted ones.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

import fdiff

from .cases import CASES
from .peers import PEERS, fdiff_peer
from .report import duration, ratio, table
from .run import child, chosen
from .worker import prepared

BUDGET = 0.3  # seconds of calls for each figure
SMALL = 1 << 14  # bytes of arrays, below which Python's own objects are most of the memory
LARGE = 1 << 21  # bytes that a kernel moves: more than half of a cache of a core
WHAT = ("kernel", "NumPy", "compiling", "memory")
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


class Measured(NamedTuple):
    """Predicted and measured figures of one case: seconds, bytes."""

    predicted: tuple[float, ...]
    measured: tuple[float, ...]
    moved: int
    seconds: float  # that `explain` took


@contextlib.contextmanager
def tier(name: str) -> Iterator[None]:
    os.environ["FDIFF_TIER"] = name
    try:
        yield
    finally:
        del os.environ["FDIFF_TIER"]


def of_case(name: str) -> Measured:
    """All figures of a case; NaN where nothing is predicted."""
    fdiff.jit(lambda x: np.sin(x) + 1.0)(np.ones(3))  # loads the compiler
    case = CASES[name]
    xs, _ = case.arguments()
    derivative = prepared(case, "fdiff", fdiff_peer)
    begin = time.perf_counter()
    told = fdiff.explain(derivative, *xs)
    seconds = time.perf_counter() - begin
    (step,) = told.steps
    counts = fdiff.kernels.costs_of_tape(step.tape)
    kernel = step.kernel
    predicted = (
        math.nan if kernel is None or kernel.uncounted else kernel.run_seconds,
        counts.numpy_seconds,
        math.nan if kernel is None else kernel.compile_seconds,
        float(counts.peak) if counts.peak >= SMALL else math.nan,
    )
    with tier("interpret"):
        derivative(*xs)
        by_numpy, peak = median(lambda: derivative(*xs)), held(lambda: derivative(*xs))
    by_kernel = compiling = math.nan
    if kernel is not None:
        with tier("compile"):
            begin = time.process_time()
            derivative(*xs)
            compiling = time.process_time() - begin
            by_kernel = median(lambda: derivative(*xs))
            compiling -= by_kernel
    moved = step.fusion.moved if step.fusion is not None else counts.moved
    return Measured(predicted, (by_kernel, by_numpy, compiling, peak), moved, seconds)


def median(call: Callable[[], object]) -> float:
    """The median seconds of a call, in batches of some milliseconds."""
    call()
    begin = time.process_time()
    call()
    count = max(1, round(2e-3 / max(time.process_time() - begin, 1e-7)))
    found: list[float] = []
    end = time.process_time() + BUDGET
    gc.disable()
    while time.process_time() < end or len(found) < 3:
        begin = time.process_time()
        for _ in range(count):
            call()
        found.append((time.process_time() - begin) / count)
    gc.enable()
    return statistics.median(found)


def held(call: Callable[[], object]) -> float:
    """The most bytes that a call holds at once."""
    tracemalloc.start()
    try:
        call()
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def told(seconds: float, over: float) -> str:
    """A time and its ratio to the predicted one."""
    return "—" if math.isnan(seconds) else f"{duration(seconds)} ({_ratio(over)})"


def _ratio(value: float) -> str:
    return "—" if math.isnan(value) else ratio(value)


def quantiles(ratios: Sequence[float]) -> list[str]:
    known = [r for r in ratios if not math.isnan(r)]
    if not known:
        return ["—"] * (len(QUANTILES) + 1)
    return [str(len(known)), *(ratio(float(np.quantile(known, q))) for q in QUANTILES)]


def report(names: Sequence[str]) -> str:
    """A row a case, and the quantiles of measured over predicted."""
    rows: list[list[str]] = []
    small: dict[str, list[float]] = {what: [] for what in WHAT}
    large: dict[str, list[float]] = {what: [] for what in WHAT}
    for name in names:
        environment = {**PEERS["fdiff"].environment, "FDIFF_CACHE_DIR": "off"}
        found = child("explain", "--worker", name, environment=environment)
        if "error" in found:
            rows.append([name, str(found["error"])[:60], *["—"] * 5])
            continue
        case = Measured(**found)
        ratios = [
            m / p if p else math.nan for m, p in zip(case.measured, case.predicted, strict=True)
        ]
        for what, value in zip(WHAT, ratios, strict=True):
            (large if case.moved > LARGE else small)[what].append(value)
        pairs = [told(t, r) for t, r in zip(case.measured[:3], ratios, strict=False)]
        rows.append([name, *pairs, _ratio(ratios[3]), duration(case.seconds)])
    head = ["measured (over predicted)", *WHAT[:3], "memory", "explain took"]
    below = [
        [what, where, *quantiles(group[what])]
        for what in WHAT
        for where, group in (("in the cache", small), ("beyond", large))
    ]
    quantile_head = ["measured / predicted", "data", "cases", *(f"{q:.0%}" for q in QUANTILES)]
    return f"{table(head, rows)}\n\n{table(quantile_head, below)}"


def routines() -> Iterator[tuple[str, Callable[..., object], tuple[np.ndarray, ...]]]:
    """Functions that take a matrix routine's time, with arguments of several sizes."""
    functions: dict[str, Callable[..., object]] = {
        "solve, a column": lambda a, b: np.linalg.solve(a, b[0]),
        "solve": np.linalg.solve,
        "inv": lambda a, _: np.linalg.inv(a),
        "slogdet": lambda a, _: np.linalg.slogdet(a)[1],
        "cholesky": lambda a, _: np.linalg.cholesky(a),
        "its derivative": fdiff.grad(lambda a, b: np.sum(np.linalg.cholesky(a) * b)),
        "derivative of det": fdiff.grad(lambda a, _: np.linalg.det(a)),
        "triangular, a column": lambda a, b: solve_triangular(a, b[0], lower=True),
        "triangular": lambda a, b: solve_triangular(a, b, lower=True),
    }
    for n in (4, 16, 32, 128):
        b = np.random.default_rng(n).normal(size=(n, n))
        for name, f in functions.items():
            yield f"{name}, {n}", f, (b @ b.T / n + np.eye(n), b)


def long_programs() -> Iterator[tuple[str, Callable[..., object], tuple[np.ndarray, ...]]]:
    """Loops that are rolled out."""
    matrix = np.random.default_rng(0).normal(size=(16, 16)) / 4.0

    def repeated(step: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], object]:
        def f(x: np.ndarray) -> object:
            for _ in range(1800):
                x = step(x)
            return np.sum(x)

        return f

    for n in (1, 10, 50):
        x = np.linspace(0.1, 0.5, n)
        yield f"products, {n}", repeated(lambda x: x + 0.01 * (x[::-1] * x - 0.3 * x)), (x,)
        yield f"tanh, {n}", repeated(lambda x: x - 0.01 * np.tanh(x) * x), (x,)
    yield "layers, 16", repeated(lambda x: np.tanh(matrix @ x) + 0.1 * x), (np.full(16, 0.1),)


def models(cases: Iterator[tuple[str, Callable[..., object], tuple[np.ndarray, ...]]]) -> str:
    """Measured times of kernels, and their ratios to what is predicted."""
    rows: list[list[str]] = []
    for name, f, args in cases:
        known = isinstance(f, fdiff.functional.call.prepared.Prepared)
        call = f if known else fdiff.jit(f)
        what = "gradient" if known else "value"
        predicted = fdiff.explain(f.__wrapped__ if known else f, *args).cost(what).seconds  # type: ignore[union-attr] - as `known` says
        with tier("compile"):
            measured = median(lambda call=call, args=args: call(*args))  # type: ignore[misc] - defaults that bind
        over = math.nan if predicted is None else measured / predicted
        rows.append([name, duration(measured), _ratio(over)])
    return table(["kernel", "measured", "over predicted"], rows)


def main() -> int:
    if sys.argv[1:2] in (["--routines"], ["--long"]):
        print(models(routines() if sys.argv[1] == "--routines" else long_programs()))
        return 0
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(of_case(sys.argv[2])._asdict()))
        return 0
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    names = [n for n in chosen(sys.argv[1:], CASES) if "fresh" not in n]  # cases of calls
    print(report(names))
    return 0


if __name__ == "__main__":
    sys.exit(main())

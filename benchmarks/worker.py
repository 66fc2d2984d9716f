"""One case with one peer in a fresh process: `python -m benchmarks.worker '{"case": ..., ...}'`.

Prints lines of JSON. The first comes unasked: seconds of the import and of the first result,
whether that loaded Numba, the largest deviation from the reference. Then for each line `time S`
read, the seconds a call of batches of calls that last S in all; for `end`, what the process took.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from .cases import CASES, Case
from .inputs import functions
from .peers import PEERS
from .resident import grown, peak

BATCH = 2e-3  # seconds a batch of calls takes at least: the clock does not show
TOLERANCE = 1e-9  # of a result's largest entry


def prepared(case: Case, peer: str, module: object) -> Callable[..., object]:
    """The derivative of `case` by `peer`, as a function of NumPy arrays."""
    xs, data = case.arguments()
    fixed = [module.constant(value) for value in data]
    if peer == "limit":
        return module.by_hand(case.call, case.kernel, fixed)
    pick = case.variants.get(peer, case.pick)
    f = pick(functions(case.file, module.NAMESPACE, module.SPECIAL))
    if case.call == "fresh_jacobian":
        return module.fresh_jacobian(f, fixed)

    def bound(*xs):
        return f(*xs, *fixed)

    if case.call == "value_and_grad":
        return module.value_and_grad(bound, len(xs))
    return getattr(module, case.call)(bound)


def flat(result: object) -> np.ndarray:
    """All the numbers of a result, nested as it may be."""
    if isinstance(result, (tuple, list)):
        return np.concatenate([flat(part) for part in result])
    return np.ravel(np.asarray(result, dtype=float))


def deviation(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference, in units of the largest entry."""
    assert found.shape == wanted.shape, f"{found.size} numbers instead of {wanted.size}"
    return float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))


def batches(call: Callable[[], object]) -> Iterator[float]:
    """Seconds a call, one batch after another: as many calls each as the clock wants."""
    begin = time.perf_counter()
    call()
    seconds = time.perf_counter() - begin
    count = max(1, round(BATCH / max(seconds, 1e-7)))
    if count == 1:  # a batch already, and perhaps one that took long
        yield seconds
    while True:
        begin = time.perf_counter()
        for _ in range(count):
            call()
        yield (time.perf_counter() - begin) / count


class Timed:
    """Calls of one prepared derivative; nothing is collected while it is timed."""

    def __init__(self, case: Case, peer: str, module: object) -> None:
        self.xs, _ = case.arguments()
        functions(case.file, module.NAMESPACE, module.SPECIAL)  # imports what the user's code does
        begin = time.perf_counter()
        self.derivative = prepared(case, peer, module)
        self.result = self.call()
        self.first = time.perf_counter() - begin
        self.batches = batches(self.call)
        self.warm = False

    def call(self) -> object:
        return self.derivative(*self.xs)

    def seconds(self, budget: float) -> list[float]:
        begin, found = time.perf_counter(), []
        if not self.warm:
            self.call()
            gc.collect()
            gc.disable()
            self.warm = True
        while not found or time.perf_counter() < begin + budget:
            found.append(next(self.batches))
        return found


def compared(result: object, reference: Path) -> float:
    """The deviation from the reference; the first result of a case becomes it."""
    found = flat(result)
    assert np.all(np.isfinite(found)), "the result is not finite"
    if not reference.exists():
        np.save(reference, found)
    return deviation(found, np.load(reference))


def value_compared(result: object, reference: Path, call: str) -> float:
    """The deviation of a plain value; NaN where the derivative comes without the value."""
    found = flat(result)
    assert np.all(np.isfinite(found)), "the result is not finite"
    if call not in {"value_and_grad", "vjp"}:
        return math.nan
    return deviation(found, np.load(reference)[: found.size])


def started(case: Case, peer: str, reference: Path) -> tuple[Timed, dict[str, object]]:
    """The first result, and its figures."""
    begin = time.perf_counter()
    module = importlib.import_module(f".peers.{PEERS[peer].module}", __package__)
    imported = time.perf_counter() - begin
    case.arguments()
    timed = Timed(case, peer, module)
    if PEERS[peer].plain:
        deviates = value_compared(timed.result, reference, case.call)
    else:
        deviates = compared(timed.result, reference)
    assert not deviates >= TOLERANCE, f"deviates by {deviates:.1e}"
    figures = {
        "import": imported,
        "first": timed.first,
        "numba_loaded": "numba" in sys.modules,
        **({} if math.isnan(deviates) else {"deviation": deviates}),
    }
    timed.result = None
    return timed, figures


def ended(timed: Timed) -> dict[str, object]:
    figures: dict[str, object] = {"peak": peak()}
    if timed.warm:
        figures["grown"] = grown(timed.call)
    if "fdiff" in sys.modules:
        figures["cache"] = sys.modules["fdiff"].cache_info()._asdict()
    return figures


def main() -> None:
    asked, answers = json.loads(sys.argv[1]), sys.stdout
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    def answer(figures: dict[str, object]) -> None:
        print(json.dumps(figures), file=answers, flush=True)

    with contextlib.redirect_stdout(sys.stderr):
        timed, figures = started(CASES[asked["case"]], asked["peer"], Path(asked["reference"]))
        answer(figures)
        for line in sys.stdin:
            word, *budget = line.split()
            if word == "end":
                answer(ended(timed))
                break
            answer({"seconds": timed.seconds(float(budget[0]))})


if __name__ == "__main__":
    main()

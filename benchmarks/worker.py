"""One case with one peer in a fresh process: `python -m benchmarks.worker '{"case": ..., ...}'`.

Prints one line of JSON: seconds of the import and of the first result, whether that loaded Numba,
quartiles of the seconds a call, the largest deviation from the reference.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .cases import CASES, Case, functions
from .peers import PEERS

BATCH = 2e-3  # seconds a batch of calls takes at least: the clock does not show
TOLERANCE = 1e-9  # of a result's largest entry


def prepared(case: Case, peer: str, module: object) -> Callable[..., object]:
    """The derivative of `case` by `peer`, as a function of NumPy arrays."""
    xs, data = case.arguments()
    fixed = [module.constant(value) for value in data]
    if peer == "limit":
        return module.by_hand(case.call, case.kernel, fixed)
    pick = case.variants.get(peer, case.pick)
    f = pick(functions(case.file, module.NAMESPACE))
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


def quartiles(call: Callable[[], object], budget: float) -> list[float]:
    """Seconds a call: the quartiles over batches of calls that last `budget` in all."""
    begin = time.perf_counter()
    call()
    count = max(1, round(BATCH / max(time.perf_counter() - begin, 1e-7)))
    end, seconds = time.perf_counter() + budget, []
    while len(seconds) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(count):
            call()
        seconds.append((time.perf_counter() - begin) / count)
    return [float(q) for q in np.percentile(seconds, [25, 50, 75])]


def measure(case: Case, peer: str, budget: float, reference: Path) -> dict[str, object]:
    """All figures of one case and one peer."""
    xs, _ = case.arguments()
    begin = time.perf_counter()
    module = importlib.import_module(f".peers.{PEERS[peer].module}", __package__)
    imported = time.perf_counter()
    case.arguments()
    given = time.perf_counter()
    call = prepared(case, peer, module)
    result = call(*xs)
    first = time.perf_counter() - given
    figures: dict[str, object] = {
        "import": imported - begin,
        "first": first,
        "numba_loaded": "numba" in sys.modules,
    }
    found = flat(result)
    if not reference.exists():
        np.save(reference, found)
    figures["deviation"] = deviation(found, np.load(reference))
    assert figures["deviation"] < TOLERANCE, f"deviates by {figures['deviation']:.1e}"
    if budget:
        warm(call, xs, budget, figures)
    if "fdiff" in sys.modules:
        figures["cache"] = sys.modules["fdiff"].cache_info()._asdict()
    return figures


def warm(call: Callable[..., object], xs: tuple, budget: float, figures: dict) -> None:
    """The seconds of later calls: what is prepared by then, and nothing collected in between."""
    for _ in range(2):
        call(*xs)
    gc.collect()
    gc.disable()
    figures["quartiles"] = quartiles(lambda: call(*xs), budget)


def main() -> None:
    asked = json.loads(sys.argv[1])
    with contextlib.redirect_stdout(sys.stderr):
        figures = measure(
            CASES[asked["case"]], asked["peer"], asked["budget"], Path(asked["reference"])
        )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

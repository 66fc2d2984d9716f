"""What we promise, measured: `python -m benchmarks.targets` prints each target, met or not.

The exit status is the number of targets not met. Each figure is the median of several processes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from .report import duration, ratio
from .run import Figures, child, one

SQUARES = "value+grad sum(x²) n=3"
ROSENBROCK = "value+grad Rosenbrock n=1,000"
MODELS = ("MGH10", "Hahn1", "Gauss1")
BUDGET = 0.5  # seconds of calls for each median
AUTO = {"FDIFF_TIER": ""}  # the tier that a user gets who sets nothing


class Target(NamedTuple):
    """What is promised, the bound and the figure as a reader sees them, and whether it holds."""

    text: str
    bound: str
    figure: str
    met: bool


class Bench:
    """Figures of single processes, each the median of `repeats`; kernels in `folder`."""

    def __init__(self, folder: Path, repeats: int) -> None:
        self.folder = folder
        self.repeats = repeats

    def runs(
        self,
        case: str,
        peer: str,
        *,
        budget: float = 0.0,
        cache: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> list[Figures]:
        """The figures of `repeats` processes; without a name, each has a cache of its own."""
        folders = [
            self.folder / (cache or f"{abs(hash((case, peer, k)))}") for k in range(self.repeats)
        ]
        reference = self.folder / f"{abs(hash(case))}.npy"
        found = [one(case, peer, budget, reference, folder, environment) for folder in folders]
        for figures in found:
            if "error" in figures:
                raise RuntimeError(f"{case}, {peer}: {figures['error']}")
        return found

    def warm(self, case: str, peer: str) -> float:
        """The median seconds of a call."""
        found = self.runs(case, peer, budget=BUDGET, cache="warm")
        return statistics.median(figures["quartiles"][1] for figures in found)


def small_call(bench: Bench) -> Iterator[Target]:
    seconds = bench.warm(SQUARES, "fdiff")
    yield Target(
        "value and gradient of sum(x**2), n = 3", "≤ 3 µs", duration(seconds), seconds <= 3e-6
    )


def against_others(bench: Bench) -> Iterator[Target]:
    """Rosenbrock: the limit, ours and JAX's, one after another in each round."""
    seconds: dict[str, list[float]] = {"limit": [], "fdiff": [], "jax": []}
    single = Bench(bench.folder, 1)
    for _ in range(bench.repeats):
        for peer, found in seconds.items():
            found.append(single.warm(ROSENBROCK, peer))
    limit, ours, jax = (statistics.median(found) for found in seconds.values())
    times = ours / limit
    text = "value and gradient of Rosenbrock, n = 1,000, over the hand-written kernel's time"
    yield Target(text, "≤ 5×", f"{ratio(times)} ({duration(ours)}, {duration(limit)})", times <= 5)
    text = "value and gradient of Rosenbrock, n = 1,000, against JAX"
    yield Target(text, "faster", f"{duration(ours)} against {duration(jax)}", ours < jax)


def first_results(bench: Bench) -> Iterator[Target]:
    """A user who sets nothing, an empty cache."""
    for case in (ROSENBROCK, *(f"Jacobian NIST {name}" for name in MODELS)):
        found = bench.runs(case, "interpreted", environment=AUTO)
        seconds = statistics.median(figures["first"] for figures in found)
        loaded = any(figures["numba_loaded"] for figures in found)
        figure = f"{duration(seconds)}, Numba {'loaded' if loaded else 'not loaded'}"
        met = seconds <= 0.030 and not loaded
        yield Target(f"first result: {case}", "≤ 30 ms without Numba", figure, met)


def second_process(bench: Bench) -> Iterator[Target]:
    """Kernels that an earlier process left on disk."""
    for case in (ROSENBROCK, f"Jacobian NIST {MODELS[1]}"):
        Bench(bench.folder, 1).runs(case, "fdiff", cache="disk")
        found = bench.runs(case, "disk", cache="disk")
        seconds = statistics.median(figures["first"] for figures in found)
        compiled = max(figures["cache"]["compiled"] for figures in found)
        figure = f"{duration(seconds)}, {compiled} compiled"
        met = seconds <= 0.4 and not compiled
        yield Target(f"second process: {case}", "≤ 0.4 s, 0 compiled", figure, met)


def fresh_lambdas(bench: Bench) -> Iterator[Target]:
    """Many calls of one process, a new lambda each; a second kernel would show in the counter."""
    for name in MODELS[:2]:
        found = bench.runs(f"Jacobian NIST {name} fresh lambda", "fdiff", budget=BUDGET)
        seconds = statistics.median(figures["quartiles"][1] for figures in found)
        compiled = max(figures["cache"]["compiled"] for figures in found)
        figure = f"{duration(seconds)}, {compiled} compiled in all"
        met = seconds <= 1e-3 and compiled <= 1
        yield Target(f"Jacobian NIST {name} of a fresh lambda", "≤ 1 ms, 1 compiled", figure, met)


def memory(bench: Bench) -> Iterator[Target]:
    environment = {"FDIFF_TIER": "compile", "FDIFF_CACHE_DIR": str(bench.folder / "memory")}
    figures = child("memory", environment=environment)
    if "error" in figures:
        raise RuntimeError(f"memory: {figures['error']}")
    arrays = figures["arrays"]
    text = "peak memory of value and gradient, elementwise chain, n = 1e7, beside its argument"
    yield Target(text, "≤ 4 arrays", f"{arrays:.2f} arrays", arrays <= 4)


GROUPS: tuple[Callable[[Bench], Iterator[Target]], ...] = (
    small_call,
    against_others,
    first_results,
    second_process,
    fresh_lambdas,
    memory,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.targets", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="processes for each figure")
    missed = 0
    print("| target | bound | measured | |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), parser.parse_args().repeats)
        for group in GROUPS:
            try:
                for target in group(bench):
                    missed += not target.met
                    verdict = "met" if target.met else "**not met**"
                    print(
                        f"| {target.text} | {target.bound} | {target.figure} | {verdict} |",
                        flush=True,
                    )
            except RuntimeError as error:
                missed += 1
                print(f"| {group.__name__} | | {error} | **failed** |", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())

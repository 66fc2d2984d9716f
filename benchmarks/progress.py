"""What saying how far it is costs work that is quick: `python -m benchmarks.progress`.

Nanoseconds of a stage by itself, of one inside of another, and of the thread's start where progress
may be shown.

`python -m benchmarks.progress --estimates`: how right the estimates of long programs are. A stage
that takes longer than half a second is asked, ten times a second, when it will be done.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np

import fdiff
from fdiff.process import progress
from fdiff.process.progress import AGAIN, Stage, _watcher
from fdiff.process.progress_display import VARIABLE, Report

from .inputs import HERE, functions
from .report import table

TIMES, REPEATS = 5_000, 60
SHORTEST = 0.5  # seconds of a stage that is looked at
TESTS = HERE.parent / "tests"


def alone() -> None:
    with Stage("tracing", "grad(f)"):
        pass


def nanoseconds(call: Callable[[], None], times: int = TIMES) -> float:
    """The least of many repeats, without the loop."""
    best = float("inf")
    for _ in range(REPEATS):
        begin = time.process_time_ns()
        for _ in range(times):
            call()
        best = min(best, (time.process_time_ns() - begin) / times)
    return best


def nothing() -> None:
    """What the rest is compared with."""
    with nullcontext():
        pass


def started() -> None:
    alone()
    _watcher.stop()


class Asked:
    """A display that keeps what it is to show."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.ends: dict[Stage, float] = {}

    def show(self, report: Report) -> None:
        self.reports.append(report)

    def erase(self) -> None:
        """Nothing is shown."""

    def rows(self, name: str) -> list[tuple[str, ...]]:
        """For each long stage: seconds, and the least and largest estimate over them."""
        found: list[tuple[str, ...]] = []
        for stage in dict.fromkeys(report.key for report in self.reports):
            took = self.ends.get(stage, 0.0)
            reports = [r for r in self.reports if r.key is stage and r.elapsed > 0.05 * took]
            if took < SHORTEST or len(reports) < 3:  # or nearly all of it was that of stages inside
                continue
            told = [r.expected / took for r in reports if r.expected]
            share = sum(0.5 <= r <= 2.0 for r in told) / len(reports)
            least, largest = (f"{x:.2f}" for x in (min(told), max(told))) if told else ("", "")
            what = f"{stage.what} {reports[-1].of}"
            found.append((name, what, f"{took:.1f} s", least, largest, f"{share:.0%}"))
        return found


def programs() -> dict[str, Callable[[], object]]:
    """Long programs: those of examples/, of the tests and of other benchmarks, with more steps."""
    put = functions(TESTS / "american_put.py", np)
    neuron = functions(TESTS / "neuron.py", np)
    user = {name: functions(TESTS / "user_code" / f"{name}.py", np) for name in ("sir", "nbody")}
    steps = functions(HERE.parent / "examples" / "whole_programs.py", np)
    n, v = np.random.default_rng(1).normal(size=(2, 6, 3))

    def fall(q: np.ndarray) -> float:
        """Lotka and Volterra's equations, by the method of Runge and Kutta."""
        y = q[:2]
        for _ in range(1_000):
            y = steps.runge_kutta(y, q[2:], 0.01)
        return np.sum(y)

    def orbits(pos: np.ndarray) -> float:
        return user["nbody"].closest_approach(np.ones(6), pos, v, 0.1, 1e-3, 60)

    def epidemic(theta: np.ndarray) -> float:
        return np.sum(user["sir"].daily_cases(theta, np.array([980.0, 10.0, 10.0, 0.0]), 800))

    def smooth(x: np.ndarray) -> np.ndarray:
        return np.sum(np.sin(np.cumsum(x)) ** 2)

    rates = np.array([2.0 / 3.0, 4.0 / 3.0, 1.0, 1.0])
    return {
        "american put": lambda: fdiff.grad(lambda s: put.american_put(s, steps=150))(0.95),
        "neuron": lambda: fdiff.value_and_grad(neuron.of_numbers(2_000))(neuron.PARAMETERS),
        "neuron, jit": lambda: fdiff.jit(neuron.of_array(250))(neuron.PARAMETERS),
        "neuron, hvp": lambda: fdiff.hvp(neuron.of_numbers(1_000), neuron.PARAMETERS, np.ones(4)),
        "Runge-Kutta": lambda: fdiff.grad(fall)(np.concatenate([np.ones(2), rates])),
        "orbits": lambda: fdiff.grad(orbits)(n),
        "epidemic": lambda: fdiff.grad(epidemic)(np.array([0.4, 0.2, 0.1, 0.5])),
        "dense Hessian": lambda: fdiff.hessian(smooth)(np.linspace(0.0, 1.0, 3_000)),
    }


def estimates(words: list[str]) -> None:
    """Print what is estimated, over what it took."""
    ends, leave = {}, Stage.__exit__

    def noted(stage: Stage, *error: object) -> None:
        ends[stage] = time.perf_counter() - stage._begin
        leave(stage, *error)

    Stage.__exit__ = noted
    progress.SECONDS = progress.INTERVAL = 0.1
    os.environ["FDIFF_CACHE_DIR"] = "off"
    rows: list[tuple[str, ...]] = []
    for name, program in programs().items():
        if words and not any(word in name for word in words):
            continue
        asked = Asked()
        progress.find_display = lambda worker, asked=asked: asked
        _watcher.next_try = 0.0
        program()
        _watcher.stop()
        asked.ends = ends
        rows += asked.rows(name)
    heads = ("program", "stage", "takes", "least", "largest", "within a factor of two")
    print(table(heads, rows))


def main() -> None:
    """Print the figures."""
    if "--estimates" in sys.argv:
        estimates([word for word in sys.argv[1:] if word != "--estimates"])
        return
    print(f"contextlib.nullcontext             {nanoseconds(nothing):7.0f} ns")
    os.environ[VARIABLE] = "0"
    print(f"a stage, FDIFF_PROGRESS=0          {nanoseconds(alone):7.0f} ns")
    time.sleep(AGAIN)
    del os.environ[VARIABLE]
    print(f"a stage, as the terminal says      {nanoseconds(alone):7.0f} ns")
    _watcher.stop()
    os.environ[VARIABLE] = "0"
    with Stage("preparing", "grad(f)"):
        print(f"a stage inside of a stage          {nanoseconds(alone):7.0f} ns")
    time.sleep(AGAIN)
    os.environ[VARIABLE] = "1"
    alone()
    print(f"a stage, the thread runs           {nanoseconds(alone):7.0f} ns")
    print(f"a stage, the thread starts and ends{nanoseconds(started, 20):7.0f} ns")


if __name__ == "__main__":
    main()

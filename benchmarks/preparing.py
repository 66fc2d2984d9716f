"""What a first result waits for, stage by stage: `python -m benchmarks.preparing [CASE...]`.

Each result is that of a function whose code has not been seen before, on the interpreter, in a
process that has differentiated others: medians, and the time of the very first one. Without
arguments for a program of a hundred nodes and for five of the cases; else for the cases named.
Times are those of the processor, which other processes disturb least.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from unittest import mock

import numpy as np

import fdiff
from fdiff import interpret
from fdiff.capture import Capture
from fdiff.dispatch import call_tracing
from fdiff.transforms import batch, forward, pipeline, reverse, simplify

from .cases import CASES
from .peers import fdiff_peer
from .report import duration, table
from .worker import prepared

STAGES = ("capture", "trace", "transforms", "simplify", "plan", "rest")
SHOWN = (
    "value+grad Rosenbrock n=1,000",
    "value+grad GMM 1k d=10 K=25",
    "Jacobian HAND c=192",
    "value+grad LSTM l=2 c=64",
    "value+grad LSTM l=2 c=1024",
)
BLOCKS = 8  # of the program of a hundred nodes: 10 operations and 2 constants each
BUDGET, MOST = 4.0, 200  # seconds and results for one row

Call = Callable[[], object]


def hundred(n: int, rng: np.random.Generator) -> Call:
    """Value and gradient of a new function of a hundred nodes, at a point of `n` entries."""
    lines = ["def f(x):", "    s = 0.0"]
    for _ in range(BLOCKS):
        a, b = rng.uniform(0.5, 1.5, 2).tolist()
        lines += [
            "    y = np.sin(x)",
            f"    z = y[1:] * {a} + np.exp(y[:-1])",
            "    s = s + np.sum(z)",
            f"    x = x * y + {b}",
        ]
    names: dict[str, object] = {"np": np}
    exec("\n".join([*lines, "    return s"]), names)  # noqa: S102 - our own text
    derivative, x = fdiff.value_and_grad(names["f"]), np.linspace(0.1, 0.9, n)
    return lambda: derivative(x)


def programs(name: str) -> Iterator[Call]:
    """First calls, each of a function of its own."""
    rng = np.random.default_rng(2026)
    if name not in CASES:
        sizes = iter(range(51, 51 + 10 * MOST)) if "lengths" in name else iter(lambda: 50, 0)
        while True:
            yield hundred(next(sizes), rng)
    case = CASES[name]
    xs, _ = case.arguments()
    while True:
        derivative = prepared(case, "fdiff", fdiff_peer)
        yield lambda derivative=derivative: derivative(*xs)


class Clock:
    """Seconds by stage; what a stage calls of another stage is the other's alone."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.stages: list[str] = []
        self.since = 0.0

    def turn(self) -> None:
        """Put what has passed to the stage under way."""
        now = time.process_time()
        stage = self.stages[-1]
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self.since
        self.since = now

    def timed(self, stage: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **keywords: object) -> object:
            self.turn()
            self.stages.append(stage)
            try:
                return function(*args, **keywords)
            finally:
                self.turn()
                self.stages.pop()

        return call

    def measure(self, call: Call) -> dict[str, float]:
        """Seconds of each stage of `call`; "rest" is what is none."""
        self.seconds, self.stages = {}, ["rest"]
        self.since = time.process_time()
        call()
        self.turn()
        return self.seconds


def watched(clock: Clock, stack: ExitStack) -> None:
    """Put the clock around what makes up the stages."""
    stages = [
        ("capture", Capture, "private"),
        ("capture", Capture, "finish"),
        ("trace", call_tracing, "record"),
        *[("transforms", owner, "derive") for owner in _having("derive", pipeline.derive)],
        *[("transforms", owner, "batch") for owner in _having("batch", batch.batch)],
        *[("transforms", owner, "jvp") for owner in _having("jvp", forward.jvp)],
        *[("transforms", owner, "vjp") for owner in _having("vjp", reverse.vjp)],
        *[("simplify", owner, "simplify") for owner in _having("simplify", simplify.simplify)],
        ("plan", interpret.Interpreter, "__init__"),
        ("run", interpret.Interpreter, "__call__"),
    ]
    known = set()
    for stage, owner, name in stages:
        if (owner, name) not in known:
            known.add((owner, name))
            wrapped = clock.timed(stage, getattr(owner, name))
            if isinstance(owner, type):
                function = wrapped
                wrapped = lambda self, *a, function=function: function(self, *a)  # noqa: E731 - a function in words of its own would say no more
            stack.enter_context(mock.patch.object(owner, name, wrapped))


def _having(name: str, function: object) -> list[object]:
    """The modules of fdiff that know `function` by this name."""
    return [
        module
        for key, module in list(sys.modules.items())
        if key.startswith("fdiff.") and getattr(module, name, None) is function
    ]


def row(name: str) -> list[str]:
    """Medians of first results, the interpreter's run apart."""
    clock, found = Clock(), []
    gc.collect()
    with ExitStack() as stack:
        watched(clock, stack)
        begin = time.perf_counter()
        for call in programs(name):
            if name in CASES:  # equal tapes share what is made of them
                fdiff.cache_clear()
            found.append(clock.measure(call))
            if len(found) == MOST or (time.perf_counter() > begin + BUDGET and len(found) > 1):
                break
    later = found[len(found) // 4 or 1 :]
    medians = [statistics.median([s.get(stage, 0.0) for s in later]) for stage in STAGES]
    waits = [sum(s.values()) - s.get("run", 0.0) for s in found]
    sums = [waits[0], statistics.median(waits[len(found) // 4 or 1 :])]
    return [name, *map(duration, [*sums, *medians])]


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ["FDIFF_TIER"] = "interpret"
    own = ["100 nodes", "100 nodes, lengths never seen"]
    names = sys.argv[1:] or [*own, *SHOWN]
    print(table(["first result", "of all", "later ones", *STAGES], [row(n) for n in names]))


if __name__ == "__main__":
    main()

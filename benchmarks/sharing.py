"""What several cores give: `python -m benchmarks.sharing [WORDS]`, seconds by number of threads.

Kernels on one thread, on two, four ... up to the cores there are, each in a process of its own, in
turn: medians of the fastest quarter of their batches, which other processes disturb least.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys

from .cases import CASES
from .report import duration, ratio, table
from .run import child, chosen
from .worker import Timed

SHOWN = (
    "n=1,000,000",
    "n=5,000,000",
    "1,000×1,000",
    "100,000×50",
    "Lennard-Jones n=1,000",
    "10k",
    "VJP",
)
SECONDS, ROUNDS = 1.0, 3


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measured(name: str) -> float:
    """Seconds a call in this process."""
    times = sorted(Timed(CASES[name], "fdiff", fdiff_peer()).seconds(SECONDS))
    return statistics.median(times[: max(1, len(times) // 4)])


def fdiff_peer() -> object:
    return importlib.import_module(".peers.fdiff_peer", __package__)


def of_threads(name: str, count: int) -> float:
    environment = {"FDIFF_TIER": "compile", "FDIFF_NUM_THREADS": str(count)}
    found = child("sharing", "--worker", name, environment=environment)
    assert "seconds" in found, found
    return found["seconds"]


def report(names: list[str]) -> str:
    """A row a case."""
    counts = [2**k for k in range(cores().bit_length())]
    rows = []
    for name in names:
        turns = [[of_threads(name, count) for count in counts] for _ in range(ROUNDS)]
        best = [min(times) for times in zip(*turns, strict=True)]
        shown = [f"{duration(t)} ({ratio(t / best[0])})" for t in best[1:]]
        rows.append([name, duration(best[0]), *shown])
    return table(["a call, threads", *map(str, counts)], rows)


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps({"seconds": measured(sys.argv[2])}))
        return 0
    print(report(chosen(sys.argv[1:] or SHOWN, CASES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

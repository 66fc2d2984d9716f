"""What compiling takes in a warm process, beside JAX: `python -m benchmarks.compiling [WORDS]`.

One process for fdiff (forced to compile, nothing on disk), one for JAX (trace, lower and compile);
both have compiled another program before. The first call of each case less a later call of it. On
one core, as all of the benchmarks; with `--all-cores` as first word XLA uses what there is.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import statistics
import sys
import time

from .cases import CASES
from .peers import PEERS
from .report import duration, ratio, table
from .run import child, chosen
from .worker import Timed

WARM = "value+grad MLP 32×10-16-16-1"  # everything is loaded with it
LEFT_OUT = (WARM, "fresh lambda", "c=1024")  # a case of calls; a tape of 172,000 nodes: evaluated
PAIR = ("fdiff", "jax")


def measured(peer: str, name: str) -> float:
    """Seconds from the function to its first result, less those of a call."""
    module = importlib.import_module(f".peers.{PEERS[peer].module}", __package__)
    timed = Timed(CASES[name], peer, module)
    calls = []
    for _ in range(3):
        begin = time.perf_counter()
        timed.call()
        calls.append(time.perf_counter() - begin)
    return timed.first - min(calls)


def of_peer(peer: str, name: str) -> float:
    """The seconds in a process of its own; NaN without a result."""
    environment = {**PEERS[peer].environment, "FDIFF_CACHE_DIR": "off"}
    return child("compiling", "--worker", peer, name, environment=environment).get(
        "seconds", math.nan
    )


def report(names: list[str]) -> str:
    """A row a case, and the geometric mean."""
    rows, ratios = [], []
    for name in names:
        ours, theirs = (of_peer(peer, name) for peer in PAIR)
        cells = [name, *("—" if math.isnan(t) else duration(t) for t in (ours, theirs)), "—"]
        if not math.isnan(ours / theirs):
            ratios.append(ours / theirs)
            cells[-1] = ratio(ratios[-1])
        rows.append(cells)
    head = ["compiling, warm process", "fdiff", "JAX", "fdiff / JAX"]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    summary = f"Geometric mean {mean:.2f}, at most {max(ratios):.1f} ({len(ratios)} cases)."
    return f"{table(head, rows)}\n\n{summary}"


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        _, _, peer, name = sys.argv
        measured(peer, WARM)
        print(json.dumps({"seconds": measured(peer, name)}))
        return 0
    words = sys.argv[1:]
    if words[:1] == ["--all-cores"]:
        words = words[1:]
    elif hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(report([n for n in chosen(words, CASES) if not any(w in n for w in LEFT_OUT)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

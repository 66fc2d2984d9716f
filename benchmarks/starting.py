"""First compiled results in fresh processes, beside JAX: `python -m benchmarks.starting [WORDS]`.

Each figure is the median of several processes, fdiff's and JAX's in turn, on one core; nothing is
on disk but Python's bytecode, which installed packages have, too. "First" is from the function to
its first compiled result, imports of fdiff or JAX excluded; "with import" includes them. NumPy is
loaded before. `--repeats N` says how many processes; `--repeats 1` for a quick look. `--processor`
counts the processor's time, which other processes disturb least. `--import` compares the import of
fdiff with that of NumPy instead: the least time of 45 processes, of the importing thread.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial

from .cases import CASES
from .inputs import functions
from .peers import PEERS
from .report import duration, ratio, table
from .run import child, chosen
from .worker import prepared

PAIR = ("fdiff", "jax")
LEFT_OUT = ("fresh lambda", "c=1024")  # a case of calls; a tape of 172,000 nodes: evaluated
SMALLEST = "value+grad sum(x²) n=3"


def measured(clock: Callable[[], float], peer: str, name: str) -> dict[str, float]:
    """Seconds of the import, and from the function to its first result."""
    begin = clock()
    module = importlib.import_module(f".peers.{PEERS[peer].module}", __package__)
    imported = clock() - begin
    case = CASES[name]
    xs, _ = case.arguments()
    functions(case.file, module.NAMESPACE, module.SPECIAL)  # imports what the user's code does
    begin = clock()
    prepared(case, peer, module)(*xs)
    return {"import": imported, "first": clock() - begin}


def of_peer(peer: str, name: str, clock: str) -> tuple[float, float]:
    """First result without and with the import, in a process of its own; NaN without a result."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"FDIFF_CACHE_DIR": folder, "PYTHONDONTWRITEBYTECODE": ""}
        environment = {**PEERS[peer].environment, **settings}
        found = child("starting", "--worker", clock, peer, name, environment=environment)
    if "error" in found:
        print(f"{name}, {peer}: {found['error']}", file=sys.stderr)
        return math.nan, math.nan
    imported, first = (float(found[key]) for key in ("import", "first"))  # type: ignore[arg-type] - numbers
    return first, imported + first


def row(name: str, repeats: int, clock: str) -> list[float]:
    """Medians: first results of both, then with their imports."""
    found = [[of_peer(peer, name, clock) for peer in PAIR] for _ in range(repeats)]
    return [statistics.median(turn[p][k] for turn in found) for k in (0, 1) for p in (0, 1)]


def cells(figures: Sequence[float]) -> list[str]:
    """Two times and their ratio, twice."""
    shown = []
    for ours, theirs in (figures[:2], figures[2:]):
        shown += ["—" if math.isnan(t) else duration(t) for t in (ours, theirs)]
        shown.append("—" if math.isnan(ours / theirs) else ratio(ours / theirs))
    return shown


def report(names: Sequence[str], repeats: int, clock: str) -> str:
    """A row a case, the medians, and the geometric means of the ratios."""
    for peer in PAIR:  # writes the bytecode
        of_peer(peer, SMALLEST, clock)
    rows = {name: row(name, repeats, clock) for name in names}
    whole = [r for r in rows.values() if not any(map(math.isnan, r))]
    rows["median"] = [statistics.median(column) for column in zip(*whole, strict=True)]
    means = [math.exp(statistics.fmean(math.log(r[k] / r[k + 1]) for r in whole)) for k in (0, 2)]
    head = ["first compiled result", "fdiff", "JAX", "fdiff / JAX"]
    head += ["fdiff, with import", "JAX, with import", "fdiff / JAX"]
    lines = table(head, [[name, *cells(figures)] for name, figures in rows.items()])
    summary = f"Geometric mean {means[0]:.2f}, with import {means[1]:.2f} ({len(whole)} cases)."
    return f"{lines}\n\n{summary}"


def report_of_imports() -> str:
    """Seconds of the imports of NumPy and of fdiff after it."""
    code = (
        "import time\n"
        "begin = time.thread_time()\n"
        "import numpy\n"
        "numpys, begin = time.thread_time() - begin, time.thread_time()\n"
        "import fdiff\n"
        "print(numpys, time.thread_time() - begin)\n"
    )
    command, kept = [sys.executable, "-c", code], os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
    run = partial(subprocess.run, env=kept, capture_output=True, text=True, check=True)
    run(command)  # writes the bytecode
    times = [map(float, run(command).stdout.split()) for _ in range(45)]
    numpys, ours = map(min, zip(*times, strict=True))
    return f"NumPy {duration(numpys)}, fdiff {duration(ours)}: {ratio(ours / numpys)} of it"


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        _, _, clock, peer, name = sys.argv
        print(json.dumps(measured(getattr(time, clock), peer, name)))
        return 0
    parser = argparse.ArgumentParser(prog="python -m benchmarks.starting", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="processes for each figure")
    parser.add_argument("--processor", action="store_true", help="time of the processor")
    parser.add_argument("--import", action="store_true", dest="imports", help="beside NumPy's")
    parser.add_argument("words", nargs="*", help="of the names of cases; all without")
    asked = parser.parse_args()
    if asked.imports:
        print(report_of_imports())
        return 0
    names = [n for n in chosen(asked.words, CASES) if not any(w in n for w in LEFT_OUT)]
    print(report(names, asked.repeats, "process_time" if asked.processor else "perf_counter"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

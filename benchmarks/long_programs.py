"""What kernels of long programs cost: `python -m benchmarks.long_programs [WORDS]`.

A loop of Python over the steps of a neuron, in several spellings, with `jit` and `jit` of its
gradient: milliseconds of processor time for each node of the tape, from the function to its first
compiled result, of programs with about 1,200 and 12,000 nodes. The price is linear where both are
alike: the short one has more of what any first result takes. Nothing is on disk, one process each.

Then how long the calls of ``jit`` take while a kernel that takes longer than a second is made.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import numpy as np

import fdiff

from .inputs import HERE, functions
from .report import duration, ratio, table
from .run import child, chosen

NEURON = functions(HERE.parent / "tests" / "neuron.py", np)
SIZES = (1_200, 12_000)
OPERATORS = ("jit", "jit of value_and_grad")
MEANWHILE = 400  # calls at most while a kernel is made
CASES = {f"{op}, {name}": (op, name) for name in NEURON.SPELLINGS for op in OPERATORS}

Function = Callable[..., object]


def program(op: str, name: str, nodes: int) -> tuple[Function, int]:
    """The function with about so many nodes on its tape, and how many they are."""

    def sized(steps: int) -> tuple[Function, int]:
        f = NEURON.SPELLINGS[name](steps)
        whole = f if op == "jit" else fdiff.value_and_grad(f)
        return whole, len(fdiff.make_tape(whole, NEURON.PARAMETERS))

    return sized(max(2, round(nodes * 4 / sized(4)[1])))


def measured(op: str, name: str, nodes: int) -> dict[str, float]:
    """Milliseconds a node to the first compiled result; a fresh function, so nothing is traced."""
    fdiff.jit(np.sin)(NEURON.PARAMETERS)  # LLVM is loaded with it
    whole, length = program(op, name, nodes)
    fdiff.cache_clear()
    begin = time.process_time()
    fdiff.jit(whole)(NEURON.PARAMETERS)
    return {"nodes": length, "ms": 1e3 * (time.process_time() - begin) / length}


def meanwhile(op: str, name: str, nodes: int) -> dict[str, float]:
    """Seconds of the first call, the longest of the later ones, and until the kernel is there."""
    whole, _ = program(op, name, nodes)
    fdiff.cache_clear()
    prepared = fdiff.jit(whole)
    begin, calls = time.perf_counter(), []
    while ": compiled" not in repr(prepared) and len(calls) < MEANWHILE:
        start = time.perf_counter()
        prepared(NEURON.PARAMETERS)
        calls.append(time.perf_counter() - start)
        time.sleep(0.01)
    later = calls[1:] or [0.0]
    there = time.perf_counter() - begin
    return {"first": calls[0], "longest": max(later), "kernel": there}


def asked(what: str, case: str, nodes: int, background: str) -> dict[str, float]:
    """The figures of a process of its own."""
    settings = {"FDIFF_CACHE_DIR": "off", "FDIFF_BACKGROUND": background}
    found = child("long_programs", "--worker", what, case, str(nodes), environment=settings)
    if "error" in found:
        sys.exit(f"{case}: {found['error']}")
    return {key: float(value) for key, value in found.items()}  # type: ignore[arg-type] - numbers


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        _, _, what, case, nodes = sys.argv
        print(json.dumps(globals()[what](*CASES[case], int(nodes))))
        return 0
    prices, waits = [], []
    for case in chosen(sys.argv[1:], CASES):
        short, long = (asked("measured", case, nodes, "0") for nodes in SIZES)
        sizes = f"{short['nodes']:,.0f} / {long['nodes']:,.0f}"
        figures = [f"{one['ms']:.3f}" for one in (short, long)]
        prices.append([case, sizes, *figures, ratio(long["ms"] / short["ms"])])
        calls = asked("meanwhile", case, SIZES[1], "1")
        waits.append([case, *(duration(calls[key]) for key in ("first", "longest", "kernel"))])
    print(table(["first result", "nodes", "short, ms a node", "long, ms a node", "ratio"], prices))
    print(f"\n{len(os.sched_getaffinity(0))} cores")
    print(table(["12,000 nodes", "first call", "longest later call", "kernel there after"], waits))
    return 0


if __name__ == "__main__":
    sys.exit(main())

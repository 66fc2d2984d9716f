"""Where the nanoseconds of a small call go: `python -m benchmarks.dispatch [CASE...]`.

A prepared function is taken apart: the builtin behind it is made again with nothing to do, then
with one of its duties more at a time, up to the whole. Each column is what that duty adds to a
call, in the fastest tenth of many batches of all in turn, which other processes disturb least; the
hand-written kernel is called through Numba.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

from .cases import CASES
from .peers import fdiff_peer
from .report import table
from .worker import prepared

SHOWN = (
    "value+grad sum(x²) n=3",
    "value+grad Rosenbrock n=10",
    "Hessian Rosenbrock n=10",
    "Jacobian NIST MGH10",
    "Jacobian NIST Hahn1",
)
DUTIES = ("the call", "arguments", "outside", "results", "kernel")
ROUNDS, BATCH = 400, 2_000

Quick = Callable[..., object]


def duties(case: str) -> tuple[list[Quick], tuple[Any, ...]]:
    """The builtin of a case with one duty more at a time, the last the prepared function itself."""
    native = importlib.import_module("fdiff.kernels.llvm.stub.stub_binding")
    asked: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    made = native.bind_entry_stub

    def noting(*given: Any, **options: Any) -> Quick:
        asked.append((given, options))
        return made(*given, **options)

    xs, _ = CASES[case].arguments()
    derivative = prepared(CASES[case], "fdiff", fdiff_peer)
    with mock.patch.object(native, "bind_entry_stub", noting):
        for _ in range(100):  # the fast path is sought again where the stub was not ready
            derivative(*xs)
    (call, machinery, shape, inputs, outputs, recipe, outside, guard), options = asked[-1]
    assert outside.fallback is not None, f"{case} has no shortcut"
    idle = machinery._replace(  # a function that returns zero
        address=native.interpreter_abi.python_api("PyErr_Occurred"), size=0, release=False
    )
    alone = outside._replace(lookups=(), predicates=())
    parts = (
        (idle, (), (), (), alone),
        (idle, inputs, (), (), alone),
        (idle, inputs, (), (), outside),
        (idle, inputs, outputs, recipe, outside),
    )
    quick = [
        made(call, machine, shape, ins, outs, how, look, guard if outs else None, **options)
        for machine, ins, outs, how, look in parts
    ]
    return [*quick, derivative], xs


def nanoseconds(calls: Sequence[Quick], xs: tuple[Any, ...]) -> list[float]:
    """Of one call each, by batches in turn."""
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for call, times in zip(calls, found, strict=True):
            begin = time.perf_counter()
            for _ in range(BATCH):
                call(*xs)
            times.append((time.perf_counter() - begin) / BATCH)
    return [1e9 * sorted(times)[ROUNDS // 10] for times in found]


def main() -> None:
    os.environ["FDIFF_TIER"] = "compile"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    limit = importlib.import_module(".peers.limit_peer", __package__)
    gc.disable()
    rows = []
    for name in sys.argv[1:] or SHOWN:
        calls, xs = duties(name)
        hand = prepared(CASES[name], "limit", limit)
        *found, by_hand = nanoseconds([*calls, hand], xs)
        steps = [b - a for a, b in zip([0.0, *found], found, strict=False)]
        figures = [*steps, found[-1], by_hand]
        rows.append([name, *[f"{x:.0f}" for x in figures]])
    head = ["nanoseconds a call", *DUTIES, "in all", "hand-written"]
    print(table(head, rows))


if __name__ == "__main__":
    main()

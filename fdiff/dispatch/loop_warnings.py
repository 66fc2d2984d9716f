"""NumPy's floating-point warnings in loops of many trips, which NumPy would take long to run.

A kernel sets the processor's flags where an operation in any trip does: so the first such trip is
found by bisection, and NumPy runs that trip alone. Where it has nothing to warn of, as lanes that a
kernel masks may set flags, too, the search goes on behind that trip.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fdiff.intact_numpy as np

from ..interpret import Interpreter, Step
from ..ops.control.loop import LOOP
from ..process.float_flags import noting, taken
from ..tape import Node, Tape
from ..transforms.custom_calls import inlined
from ..transforms.loops.body_runs import body_runs
from .numpy_warnings import Noted, flagged
from .partial_loops import FEW, Values, alone, counted, laid_out
from .tiers.tiered_execution import runner

_SEARCHES = 8  # for trips that flags tell of and NumPy does not


def warnings_of_trips(tape: Tape, arrays: Values) -> list[Noted]:
    """What NumPy warns of at the values of a tape; in a loop of many trips of the first such."""
    tape = inlined(tape)

    def run(step: Step, args: tuple[Any, ...], warned: list[Noted]) -> object:
        node = tape.nodes[step[1]]
        if node.primitive is LOOP and int(args[0]) > FEW:
            return _run(node, laid_out(args), warned)
        return step[0](*args)

    return flagged(Interpreter(tape), tape, arrays, run)


def _run(node: Node, args: list[np.ndarray], warned: list[Noted]) -> object:
    """The values of a loop, and what NumPy warns of there."""
    outs, hint = _hinted(runner(alone(node, args)), args)
    if hint:
        warned += _first_of(node, args)
    return outs[0] if len(node.types) == 1 else tuple(outs)


def _hinted(run: Callable[[Any], Any], argument: object) -> tuple[Any, bool]:
    """What a run gives, and whether it has set a flag."""
    taken()
    with noting():
        outs = run(argument)
    return outs, taken()


def _first_of(node: Node, args: list[np.ndarray]) -> list[Noted]:
    """What NumPy warns of in the first trip of a loop that sets flags, and in which it does so."""
    params, count = dict(node.params), int(args[0])
    first, begin = 1 + params["carries"], 0
    for _ in range(_SEARCHES):
        run, good, bad = counted(params, args, begin), 0, count - begin
        if bad < 1 or not _hinted(run, bad)[1]:
            break
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (good, middle) if _hinted(run, middle)[1] else (middle, bad)
        args = [args[0], *map(np.asarray, run(good) or ()), *args[first:]]
        trip = next(body_runs(node, args, begin + good))
        if warned := warnings_of_trips(trip.tape, trip.arguments):
            return warned
        args = [
            args[0],
            *map(np.asarray, counted(params, args, begin + good)(1) or ()),
            *args[first:],
        ]
        begin += good + 1
    return []

"""Notes on NumPy errors: the user's line, and the trip of the loop around it.

A kernel has one status for all of its operations, and a loop on the tape has one line. After an
error, the function is traced anew, with the lines of its derivatives, and inspected node by node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch.inspection.inspector import Inspector, NodeRun, Values
from ...dispatch.plans import Inspection
from ...errors import FAULTS, FdiffError
from ...foreign_errors import not_foreign
from ...process.memory_reserve import budget
from ...tape import Tape
from ...trace.derived_lines import TripLine, derived_lines, in_trips, written_line
from ...tracebacks import explain
from ...user_lines import Line, line_in

if TYPE_CHECKING:
    from .operator_call import OperatorCall


class _FaultPlace(Exception):  # noqa: N818 - it never leaves this module
    """The place where a tape fails: the trips of the loops, outermost first, and the line."""

    def __init__(self, trips: tuple[int, ...], line: Line | None) -> None:
        super().__init__()
        self.trips, self.line = trips, line


def note_place(error: Exception, call: OperatorCall) -> None:
    """Add to a NumPy error a note with the line, and the trip of a loop, that raised it.

    There is no note if the traceback shows the line and the function has no loops. A function that
    writes to the outside, or is traced at each call, is not run again.
    """
    variant = call.variant
    if isinstance(error, FdiffError) or variant is None:
        return
    if variant.repeats or not variant.conditions.cacheable:
        return
    if line_in(error.__traceback__) and not _has_trips(variant.traced.tape):
        return
    before = budget.get()

    def inspect() -> None:
        with derived_lines():
            variant, inputs, vectors = call.traced_anew()
            variant.plan.call(inputs, vectors, Inspection(_outputs))

    try:
        budget.set(None)  # a budget cuts loops into segments, which are not the user's loops
        inspect()
    except _FaultPlace as place:
        explain(error, call.name, call.f, written_line(place.line), in_trips(place.trips))
    except not_foreign(*FAULTS, again=inspect):  # raised by code that is not on a tape
        return
    finally:
        budget.set(before)


def _has_trips(tape: Tape) -> bool:
    """Whether a tape holds loops, or values that loops have computed."""
    lines = [line for own in tape.lines.values() for line in own]
    looped = any(isinstance(line, TripLine) for line in lines)
    return looped or next(tape.bodies(), None) is not None


def _outputs(tape: Tape, arrays: Values) -> list[object]:
    """The outputs of a tape; raises `_FaultPlace` if it fails."""
    return Inspector(tape).outputs(arrays, _located)


def _located(run: NodeRun) -> object:
    """The value of a node; raises `_FaultPlace` if it fails."""
    try:
        return run.value()
    except not_foreign(*FAULTS, again=run.value):
        raise _place_in_bodies(run) from None


def _place_in_bodies(run: NodeRun) -> _FaultPlace:
    """The place within a node that fails: inside its bodies, if it has bodies."""
    for body in run.bodies(lambda partial, trips: partial(trips) is None):
        try:
            body.inspector.outputs(body.arguments, _located)
        except _FaultPlace as place:
            return _FaultPlace(body.trips(place.trips), place.line or run.line)
    return _FaultPlace((), run.line)

"""Loops ask the driver whether they are nodes: docs/decisions/loops-that-choose-branches.md."""

from __future__ import annotations

from collections.abc import Callable

from ...capture.sources.loop_functions import LoopNames
from ...foreign_errors import environment_value
from ...ops.entrywise.kink_marks import kink_search
from ...trace import Trace
from ...trace.looping.call_log import CallLog
from ...trace.looping.periods import loop_behind
from ...trace.recorder import Loops
from ...trace.trace_stack import stack
from ...user_lines import numbered, user_line
from .answers import Answers, Cells, value_of
from .surroundings import Surroundings
from .variables import RefusedLoopError, Variable, cells_of, check_cells
from .ways import UNBRANCHED, Ways

FEWEST = 40  # trips of a loop that is worth a node
VISITS = 8  # times that a loop in another one becomes a node
PASSES = 4  # through all ways, until types are settled


class Driver:
    """The driver of one run's loops; `refusals` say by place why Python runs them.

    `sources` say why the sources of others do not let them ask.
    """

    def __init__(self) -> None:
        self.visits: dict[str, int] = {}
        self.refusals: dict[str, str] = {}
        self.sources: dict[str, str] = {}

    def told(self, loops: Loops) -> Loops:
        """The facts about loops, with the reason why a loop with branches does not choose."""
        told = []
        for line, times, trips, calls, reason in loops:
            name, number = numbered(line)
            source = self.sources.get(f"{name}:{number}") if reason else None
            why = f"; more may follow from its branches, by its source: {source}" if source else ""
            told.append((line, times, trips, calls, reason + why))
        return (*told,)

    def __call__(
        self, rows: object, names: LoopNames, body: Callable[..., Cells], cells: Cells
    ) -> tuple[object, ...] | None:
        """The values of a loop's variables behind it; None where Python runs the loop."""
        trace = stack.traces[-1] if stack.traces else None
        few = 0 if environment_value("FDIFF_LOOPS") == "check" else FEWEST
        if not isinstance(rows, range) or len(rows) <= few:
            return None
        place = f"{body.__code__.co_filename}:{body.__code__.co_firstlineno}"
        count = self.visits[place] = self.visits.get(place, 0) + 1
        if type(trace) is not Trace or trace.calls is None or count > VISITS:
            return None
        if kink_search.on or any(running.derivative_free for running in stack.traces):
            return None
        try:
            return _enter(trace, rows, names, body, cells)
        except RefusedLoopError as refusal:
            self.refusals[place] = str(refusal)
            line = user_line() if str(refusal) != UNBRANCHED else None
            if isinstance(trace.calls, CallLog) and line is not None:
                why = f"traced again where its branches differ: {refusal}"
                trace.calls.refusals[loop_behind(line)] = why
            return None


def _enter(
    trace: Trace, rows: range, names: LoopNames, body: Callable[..., Cells], cells: Cells
) -> tuple[object, ...]:
    """Enter the node of a loop; what the variables of the loop hold behind it."""
    check_cells(body)
    starts = [value_of(cell) for cell in cells[1:]]
    variables = [Variable(*each) for each in zip(names.carried, starts, strict=True)]
    for _ in range(PASSES):
        around = Surroundings(cells_of(body))
        with around, Trace(trace.call) as inner:
            inner.calls = inner.listener = Answers(inner, around)
            try:
                ways = Ways(inner, variables, body)
                if ways.settled:
                    ways.check()
                    ways.finish(rows)
            finally:
                inner.calls = inner.listener = inner.refused = None
        if ways.settled:
            return rows[-1], *ways.enter(trace, rows)
    raise RefusedLoopError("its types do not settle")

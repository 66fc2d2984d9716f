"""Loops ask the driver whether they are nodes: docs/decisions/loops-that-choose-branches.md."""

from __future__ import annotations

from functools import partial

from ...capture.sources.loop_frames import LoopNames
from ...capture.symbolic_numbers import SymbolicNumber
from ...foreign_errors import environment_value
from ...ops.entrywise.kink_marks import kink_search
from ...trace import Trace
from ...trace.looping import looks_for_loops
from ...trace.looping.call_log import CallLog
from ...trace.looping.code_loops import loop_behind
from ...trace.recorder import Loops
from ...trace.trace_stack import stack
from ...user_lines import numbered, user_line
from .array_checks import check_arrays
from .body_paths import UNBRANCHED, BodyPaths
from .containers import TakenApart
from .counters import is_read_anew
from .emptied_cells import emptied
from .outer_numbers import check_start
from .owned_arrays import owned
from .path_runs import Answers, Body, Cells, EnclosingLoop, Splits, enclosing_loop, value_of
from .reached_objects import NewAttributeError, ReachedObjects
from .surroundings import Surroundings
from .trip_rows import TripRows, trip_rows
from .variables import (
    ManyPathsError,
    RefusedLoopError,
    TooFewTripsError,
    Variable,
    cells_of,
    check_bounds,
)

FEWEST = 12  # trips of a loop that is worth a node
FEW = 4  # of a loop with loops in it
INNER = 12  # of a loop in the body of a node
VISITS = 8  # times that a loop in another one becomes a node
WITHIN = 16, 64, 256, 1024, 4096, 16384, None  # trips of the node of a ``while``
LONGEST = 256  # in no other loop, where one of any number of trips has a kernel in reverse
PASSES = 6  # through all paths, until types are settled


class Driver:
    """The driver of one run's loops; `refusals` say by place why Python runs them.

    `sources` say why the sources of others do not let them ask. The trace may rely on `lengths` of
    lists.
    """

    def __init__(self) -> None:
        self.visits: dict[str, int] = {}
        self.refusals: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.lengths = False

    def reasoned(self, loops: Loops) -> Loops:
        """The facts about loops, with the reason why a loop with branches does not choose."""
        facts = []
        for line, times, trips, calls, reason in loops:
            name, number = numbered(line)
            source = self.sources.get(f"{name}:{number}") if reason else None
            why = f"; more may follow from its branches, by its source: {source}" if source else ""
            facts.append((line, times, trips, calls, reason + why))
        return (*facts,)

    def __call__(
        self, rows: object, names: LoopNames, body: Body, cells: Cells
    ) -> tuple[object, ...] | None:
        """The values of a loop's variables after it; None where Python runs the loop."""
        if names.is_while:
            check_bounds(body)
        trace = stack.traces[-1] if stack.traces else None
        if type(trace) is not Trace or not looks_for_loops(trace):
            return None
        around = enclosing_loop(trace)
        inner, table = around is not None, trip_rows(rows, names)
        few = INNER if inner else FEWEST if names.simple else FEW
        few = 1 if around is not None and around.splits is Splits.LOOPS else few
        few = 0 if names.is_statement or environment_value("FDIFF_LOOPS") == "check" else few
        if names.in_loop_body and not (around is not None and around.splits):
            return None
        nested = around is not None and (around.level or not around.whole or names.raises)
        if names.to_function_end and nested:
            return None  # the function is on a path of the body around
        if table is None or table.length <= few or not (names.branches or inner):
            return None
        place = f"{body.__code__.co_filename}:{body.__code__.co_firstlineno}"
        if not inner:
            count = self.visits[place] = self.visits.get(place, 0) + 1
            if count > VISITS:
                return None
        if kink_search.on or any(running.derivative_free for running in stack.traces):
            return None
        try:
            starts = {n: value_of(cell) for n, cell in zip(names.carried, cells[1:], strict=True)}
            if names.replaced and type(trace.calls) is CallLog and trace.calls.frame is None:
                trace.calls.forget()  # what has been logged refers to arrays
            table.owned = owned(starts, names.replaced & starts.keys())
            with emptied(cells):
                values = self._within(trace, table, names, body, starts)
        except RefusedLoopError as refusal:
            if around is not None and around.whole and (table.is_while or table.length > FEWEST):
                raise  # rather than unroll a long loop on each path
            self.refusals[place] = str(refusal)
            line = user_line() if str(refusal) != UNBRANCHED else None
            if isinstance(trace.calls, CallLog) and line is not None and not names.is_statement:
                why = f"traced again where its branches differ: {refusal}"
                trace.calls.refusals[loop_behind(line)] = why
            return None
        self.lengths |= table.lengths
        return values

    @staticmethod
    def _within(
        trace: Trace, rows: TripRows, names: LoopNames, body: Body, starts: dict[str, object]
    ) -> tuple[object, ...]:
        """The values after a loop whose ``while`` loops make as few trips as can be."""
        splits = Splits.NOTHING
        for within in WITHIN:
            outer = enclosing_loop(trace)
            rows.unshared, rows.dead = names.unshared, names.dead
            rows.most_inner_trips = within if outer is None else outer.most_trips
            long = (
                outer is None
                and rows.most_inner_trips is not None
                and rows.most_inner_trips > LONGEST
            )
            rows.most_trips = None if long else rows.most_inner_trips
            try:
                while True:
                    try:
                        return _enter(trace, rows, names, body, starts, splits)
                    except ManyPathsError:
                        if splits is Splits.LOOPS or rows.indices:  # parts have no indices
                            raise
                        splits = Splits.LOOPS if splits else Splits.STATEMENTS
            except TooFewTripsError:
                continue
        raise RefusedLoopError("it makes many trips, or an int becomes large")


def _enter(
    trace: Trace, rows: TripRows, names: LoopNames, body: Body, starts: dict[str, object],
    splits: Splits,
) -> tuple[object, ...]:  # fmt: skip
    """Enter the node of a loop, and return the values of its variables after it.

    The body `splits` into nodes of its statements that branch, or of these and its loops. Ints that
    each call reads anew are counted from zero, where nothing depends on them.
    """
    reached = ReachedObjects(body, names.objects, starts.values())
    if (
        names.is_statement
        and not names.in_loop_body
        and reached.names.stored - names.objects.stored
    ):
        raise RefusedLoopError("its methods store attributes: a trace of each path does")
    if names.counter:
        starts = {**starts, names.counter: rows.numbers[0]}
    rows.stack(trace)
    own = trace, rows, names, body, starts, reached
    if enclosing_loop(trace) is not None or not any(
        map(is_read_anew, [*starts.values(), *reached.starts()])
    ):
        return _entered(*own, splits)
    try:
        return _entered(*own, splits, anew=True)
    except (ManyPathsError, TooFewTripsError):
        raise
    except RefusedLoopError:
        return _entered(*own, splits)


def _entered(
    trace: Trace, rows: TripRows, names: LoopNames, body: Body, starts: dict[str, object],
    reached: ReachedObjects, splits: Splits, *, anew: bool = False,
) -> tuple[object, ...]:  # fmt: skip
    """Enter the node of a loop, whose ints that are read `anew` are counted from zero."""
    outer = enclosing_loop(trace)
    taken: TakenApart | None = None
    variables = list[Variable]()
    for _ in range(PASSES + len(reached.objects)):
        if taken is None or reached.learn():
            taken = TakenApart(starts, body, rows.objects(), names, reached)
            variables = taken.variables(partial(_variable, outer, anew))
            for v in variables:
                v.owned = v.name in rows.owned and v.own is starts[v.name]
        surroundings = Surroundings([*cells_of(taken), *rows.objects()])
        with surroundings, Trace(trace.call) as inner:
            answers = Answers(EnclosingLoop(inner, outer, rows, splits), surroundings)
            inner.calls = inner.listener = answers
            try:
                paths = BodyPaths(answers, variables, rows, taken, nested=outer is not None)
                if paths.settled:
                    check_arrays(paths)
                    taken.check(variables, inner=outer is not None)
                    paths.finish()
            except NewAttributeError:
                continue
            finally:
                inner.calls = inner.listener = inner.refused = None
        if paths.settled:
            values = paths.enter(trace)
            return rows.last(), *taken.behind(values, paths.appended.entries())
    raise RefusedLoopError("its types do not settle")


def _variable(outer: EnclosingLoop | None, anew: bool, name: str, start: object) -> Variable:  # noqa: FBT001 - bound
    """A variable of a loop, which may stand in the body of another one."""
    if outer is None:
        if anew and isinstance(start, SymbolicNumber) and is_read_anew(start):
            return Variable.of_offset(name, start)
        return Variable(name, start)
    check_start(outer, start)
    variable = Variable(name, start, outer.type_of(start))
    variable.may_be_python_float |= outer.flag_of(start) is not None
    return variable

"""All ways through the body of a loop as one node: docs/decisions/loops-that-choose-branches.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...arraytype import BOOL, INT, ArrayType
from ...capture.sources.loop_functions import LEFT, UNBOUND
from ...ops.control.loop import LOOP
from ...ops.shapes.gather_scatter import iota
from ...tape import Tape
from ...trace import Trace, TracedArray, apply, apply_many
from ...trace.array_links import root_of
from ...transforms.loops.branch_tree import Way, branching_body
from ...user_lines import user_line
from .answers import Cells, runs_of
from .counters import counted, size_of_count
from .trip_numbers import check_condition, check_numbers
from .variables import RefusedLoopError, Variable, WayRun, arrays_in, cells_of, check_memory

UNBRANCHED = "it does not branch"


class Ways:
    """All ways through the body of a loop, in a trace of their own.

    Variables are *loose* that may hold behind the loop what they held before: a number of Python's,
    or an array that has other names. Of each, one more carry tells whether it holds a new value,
    and the trace relies on that.
    """

    def __init__(
        self, inner: Trace, variables: Sequence[Variable], body: Callable[..., Cells]
    ) -> None:
        self.inner, self.variables, self.body = inner, variables, body
        self.index = inner.input(ArrayType((), INT), scalar=True)
        self.inputs = [
            v.start
            if v.type is None or v.start is UNBOUND
            else self._input(v.type, scalar=v.scalar)
            for v in variables
        ]
        self.runs = [*runs_of(inner, self.index, self.inputs, body)]
        if not any(run.asked for run in self.runs):
            raise RefusedLoopError(UNBRANCHED)
        settled = [v.settle(self.runs, k) for k, v in enumerate(variables)]
        self.settled = all(settled)
        self.carried = [(k, v, v.type) for k, v in enumerate(variables) if v.type is not None]
        self.loose = self._loose()
        self.tape: Tape | None = None

    def _input(self, type_: ArrayType, *, scalar: bool) -> TracedArray:
        h = self.inner.input(type_, scalar=scalar)
        if type_.floating:
            self.inner.guards.active.add(h.node)
        return h

    def _loose(self) -> list[int]:
        """The carried variables that may hold, behind the loop, what Python held before it."""
        runs, carried = self.runs, [each for each in self.carried if not each[1].counts]
        loose = {k for k, *_ in carried for run in runs if not _is_new(run.values[k])}
        first = {k for k, v, _ in carried if v.loose or not (v.scalar or v.stays)}
        handed = {
            (k, j)
            for run in runs
            for k, v, _ in carried
            for j, *_ in carried
            if run.values[k] is run.inputs[j] and not v.stays
        }
        while True:
            more = {i for pair in handed if pair[1] in first | loose for i in pair}
            if more <= loose:
                return sorted(loose)
            loose |= more

    # ----------------------------------------------------------------------------------- refusals

    def check(self) -> None:
        """Refuse arrays that two variables share, or that cannot be told from others."""
        for run in self.runs:
            arrays = [v for v in run.values if isinstance(v, TracedArray) and not v.scalar]
            for array in arrays:
                if root_of(array) is not array or array.home is not self.inner:
                    raise RefusedLoopError("a variable holds a view, or an array from outside")
                axes = self.inner.layouts.axes(array.made)
                if axes != sorted(axes):
                    raise RefusedLoopError("a variable holds an array that is not in C order")
            if len({*map(id, arrays)}) < len(arrays):
                raise RefusedLoopError("two variables hold one array")
        changed = [v for v in self.variables if v.changed]
        others = [v.start for v in self.variables]
        others += [a for value in cells_of(self.body) for a in arrays_in(value)]
        others += self.inner.extra
        check_memory(changed, others)

    # ----------------------------------------------------------------------------------- the body

    def finish(self, rows: range) -> None:
        """Make the body of the loop."""
        inner, runs = self.inner, self.runs
        flags = {k: self._input(ArrayType((), BOOL), scalar=True).node for k in self.loose}
        inputs = []
        for k, v, type_ in self.carried:
            h = self.inputs[k]
            h = h if isinstance(h, TracedArray) else self._input(type_, scalar=v.scalar)
            inputs.append(h.node)
        inputs += flags.values()
        outs = [self._outs(run, flags) for run in runs]
        extras = [i for i in inner.builder.inputs if i not in (*inputs, self.index.node)]
        first = [*inputs, *extras, self.index.node]
        asked = [node for run in runs for node, _ in run.asked]
        tape = inner.builder.finish([*first, *asked, *[i for own in outs for i in own]])
        places = iter(tape.outputs)
        order = [next(places) for _ in first]
        questions = [[(next(places), answer) for _, answer in run.asked] for run in runs]
        results = [[next(places) for _ in own] for own in outs]
        sizes = {order[-1]: max(abs(rows[0]), abs(rows[-1]))}
        for i, (_, v, _) in enumerate(self.carried):
            if v.counts:
                nodes = {own[i] for own in results}
                sizes[order[i]] = size_of_count(tape, order[i], nodes, v, len(rows))
        numbers = [i for i, (_, v, _) in enumerate(self.carried) if not v.counts]
        held = [own[i] for own in results for i in numbers]
        divides = not any(v.numbers for v in self.variables)
        check_numbers(tape, sizes, held, divides=divides)
        for node in {node for own in questions for node, _ in own}:
            check_condition(tape, node)
        self.tape = branching_body(tape, order, [*map(Way, questions, results)])

    def _outs(self, run: WayRun, flags: dict[int, int]) -> list[int]:
        """The nodes of what a run hands on."""
        lift = self.inner.lift
        outs = [lift(run.values[k], type_.dtype) for k, _, type_ in self.carried]
        return outs + [self._flag(run, k, flags) for k in flags]

    def _flag(self, run: WayRun, k: int, flags: dict[int, int]) -> int:
        """The node of whether a loose variable holds a new value."""
        value = run.values[k]
        for j, before in flags.items():
            if value is run.inputs[j]:
                return before
        return self.inner.builder.constant(np.array(_is_new(value)))

    # ----------------------------------------------------------------------------------- the node

    def enter(self, trace: Trace, rows: range) -> list[object]:
        """Enter the loop in the trace around; what the variables hold behind it."""
        length, state = len(rows), list[object]()
        for _, v, type_ in self.carried:
            start = np.zeros(type_.shape) if v.start is UNBOUND else v.start
            node = trace.lift(start, type_.dtype)
            state.append(TracedArray(trace, node, type_))
        state += [np.array(self._is_new_before(self.variables[k])) for k in self.loose]
        index = apply(iota, size=length)
        results = apply_many(
            LOOP, np.asarray(length), *state, *self.inner.extra, index * rows.step + rows.start,
            body=self.tape, carries=len(state), length=length, reverse=False, rows=1,
        )  # fmt: skip
        for flag in results[len(self.carried) :]:
            if not trace.guards.value(flag.id, "compared a value"):
                raise RefusedLoopError("a variable holds what it held before")
            trace.guards.expect(flag.id, value=True)
        if trace.calls is not None and (line := user_line()) is not None:
            trace.calls.note(
                ((line, 1, length, 1, f"each on one of {len(self.runs)} paths, which it chooses"),)
            )
        values = [v.constant for v in self.variables]
        for (k, v, _), result in zip(self.carried, results, strict=False):
            values[k] = TracedArray(trace, result.id, result.type, scalar=v.scalar)
            if v.counts:
                values[k] = False if v.name == LEFT else counted(trace, v, result)
            if v.changed:
                v.own[...] = values[k]  # type: ignore[index] - an array
            if v.stays:
                values[k] = v.own
        return values

    @staticmethod
    def _is_new_before(variable: Variable) -> bool:
        return variable.scalar and _is_new(variable.start)


def _is_new(value: object) -> bool:
    """Whether a value is traced, and no number of Python's, nor as weak as such."""
    return isinstance(value, TracedArray) and not value.weak

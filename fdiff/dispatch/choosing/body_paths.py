"""All paths through a loop's body as one node: docs/decisions/loops-that-choose-branches.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...capture.sources.loop_frames import LEFT, RAISED
from ...capture.sources.loop_rewriting import UNBOUND
from ...ops.control.loop import LOOP
from ...ops.control.while_loop import WHILE
from ...ops.shapes.gather_scatter import iota
from ...primitive import PRIMITIVES
from ...tape import Tape
from ...trace import Trace, TracedArray, apply, apply_many, splice
from ...trace.looping.call_log import CallLog
from ...transforms.loops.branch_tree import BranchPath, branching_body, goes_on
from .appended_rows import AppendedRows, in_places
from .array_identities import (
    equal_pairs,
    hand_numbers,
    handed_on,
    numbers_before,
    sharing,
    unify,
)
from .count_sizes import CountSizes
from .counters import check_offsets, counted, total
from .int_limits import IntLimits, demand_limits
from .mixed_numbers import note_inputs, note_unsure
from .narrow_variables import check_views, views_of
from .outer_numbers import outer_size
from .path_runs import Answers, Body, runs_of
from .relied_flags import python_floats, rely_on
from .trip_numbers import check_condition, check_numbers, check_precision
from .trip_rows import TripRows
from .variables import (
    TRUTH,
    WHOLE,
    Growth,
    PathRun,
    RefusedLoopError,
    TooFewTripsError,
    Variable,
    is_new,
)  # fmt: skip

UNBRANCHED = "it does not branch"
DEMANDS = "numbers are equal, or large, or a list is left"


class BodyPaths:
    """All paths through the body of a loop, in a trace of their own.

    *Loose* variables may have, after the loop, their value from before it: a Python number,
    or an array that has other names. One more carry for each tells whether its value is new,
    and the trace relies on that.
    """

    def __init__(
        self, answers: Answers, variables: Sequence[Variable], rows: TripRows, body: Body, *,
        nested: bool,
    ) -> None:  # fmt: skip
        self.loop = loop = answers.loop
        self.inner, self.variables, self.rows = loop.trace, variables, rows
        self.body, self.nested = body, nested
        loop.outermost.has_while |= rows.is_while
        self.index = self.inner.input(WHOLE, scalar=True, weak=True)
        if not (rows.is_while or rows.is_statement):
            loop.sizes[self.index.node] = rows.size()
        self.inputs = [self._start(v) for v in variables]
        self.flags = {
            k: self._input(TRUTH, scalar=True) for k, v in enumerate(variables) if v.has_new_flag
        }
        note_inputs(loop.mixed, self.index.node, variables, self.inputs, self.flags)
        entries = lambda: rows.entries(self.index)  # noqa: E731 - a line
        views = views_of(variables, self.inputs)
        tagged = [k for k, v in enumerate(variables) if v.has_array_number]
        self.tags = {k: self._input(WHOLE, scalar=True) for k in tagged}
        self.fresh = [self._input(WHOLE, scalar=True)] if rows.numbers_arrays else []
        loop.tags = {k: tag.node for k, tag in self.tags.items()}
        loop.fresh = self.fresh[0].node if self.fresh else None
        self.runs = runs_of(answers, entries, views, variables, self.flags, body)
        lists = in_places(self.runs, len(variables))
        check_views(self.inner, variables, views, self.runs)
        asks = loop.branches or any(run.asked for run in self.runs)
        asks |= any(v.option for v in variables)  # whether it is None, from the next pass on
        if not (asks or nested or rows.is_while):
            raise RefusedLoopError(UNBRANCHED)
        for k, v in enumerate(variables):
            if rows.to_function_end and v.local:
                v.end(self.runs, k)
        settled = [v.settle(self.runs, k) for k, v in enumerate(variables)]
        self.settled = all(settled)
        self.carried = [(k, v, v.type) for k, v in enumerate(variables) if v.type is not None]
        self.loose = self._loose()
        self.appended = AppendedRows(self.runs, len(variables), lists)
        demand_limits(variables, self.runs)
        self.demanding = any(run.demands for run in self.runs)
        self.settled &= {*self.flags} == {*self.loose} and self._settle_numbers()
        self.settled &= note_unsure(variables, self.loose, self.runs, self.is_new)
        for k, v in enumerate(variables):
            v.has_new_flag = k in self.loose
        self.tape: Tape | None = None

    def _settle_numbers(self) -> bool:
        """Find the variables that may share arrays; whether they were told before."""
        places = [k for k, v, _ in self.carried if not (v.scalar or v.result)]
        shared, asked = {*self.tags}, {k for run in self.runs for k in run.arrays.asked}
        for run in self.runs:
            shared |= sharing(run.values, run.inputs, run.arrays, {*self.tags}, places)
        others = [k for k in self.loose if self.variables[k].name not in self.rows.unshared]
        shared |= {*others} & {*places} if self.nested else set()
        shared |= handed_on(self.runs, places)
        for k in shared:
            self.variables[k].has_array_number = True
        self.rows.numbers_arrays |= bool(shared or asked)
        return shared == {*self.tags} and self.rows.numbers_arrays is bool(self.fresh)

    def _start(self, v: Variable) -> object:
        """What a variable holds before a trip."""
        endless = self.rows.is_statement or (self.rows.is_while and not self.rows.most_trips)
        untold = endless and v.name.startswith(LEFT)
        if v.type is None or (v.start is UNBOUND and not v.option) or untold:
            return v.constant if v.option else v.start
        return self._input(v.type, scalar=v.scalar, weak=v.of_python)

    def _input(self, type_: ArrayType, *, scalar: bool, weak: bool = False) -> TracedArray:
        h = self.inner.input(type_, scalar=scalar, weak=weak)
        if type_.floating:
            self.inner.guards.active.add(h.node)
        return h

    def _loose(self) -> list[int]:
        """The carried variables that may have, after the loop, their value from before it."""
        runs = self.runs
        carried = [each for each in self.carried if not (each[1].is_counted or each[1].weak)]
        loose = {k for k, v, _ in carried for run in runs if self._is_kept(v, run.values[k])}
        first = {
            k for k, v, _ in carried if v.may_be_python_float or not (v.scalar or v.keeps_binding)
        }
        handed = {
            (k, j)
            for run in runs
            for k, v, _ in carried
            for j, *_ in carried
            if run.values[k] is run.inputs[j] and not v.keeps_binding
        }
        while True:
            more = {i for pair in handed if pair[1] in first | loose for i in pair}
            if more <= loose:
                return sorted(loose)
            loose |= more

    # ----------------------------------------------------------------------------------- the body

    def finish(self) -> None:
        """Make the body of the loop, which may be in the body of another one."""
        tape, order, paths, moving = self._whole()
        if not self.settled:
            return
        asked = {node for path in paths for node, _ in path.asked}
        self.branches = self.loop.branches or bool(asked)
        unasked = moving.isdisjoint(asked) and not self.loop.branches
        if not self.nested and unasked and self.rows.is_while:
            raise RefusedLoopError(UNBRANCHED)
        for node in asked:
            check_condition(tape, node)
        self.tape = branching_body(tape, order, paths)

    def _whole(self) -> tuple[Tape, list[int], list[BranchPath], set[int]]:
        """All runs as one tape: its inputs, its paths, and what depends on traced values."""
        inner, runs = self.inner, self.runs
        plain = self.rows.is_while or self.rows.is_statement
        inputs = []
        for k, v, type_ in self.carried:
            h = self.inputs[k]
            h = h if isinstance(h, TracedArray) else self._input(type_, scalar=v.scalar)
            inputs.append(h.node)
        inputs += [self.flags[k].node for k in self.loose]
        inputs += [tag.node for tag in (*self.tags.values(), *self.fresh)]
        if self.demanding:
            inputs.append(self._input(TRUTH, scalar=True).node)
        outs = [self._outs(run, inputs) for run in runs]
        self.loop.mixed.check()
        extras = [i for i in inner.builder.inputs if i not in (*inputs, self.index.node)]
        first = [*inputs, *extras, *([] if plain else [self.index.node])]
        asked, counts = [node for run in runs for node, _ in run.asked], self.loop.counts
        quotients = self.loop.quotients
        told = [*first, *counts, *quotients]
        tape = inner.builder.finish([*told, *asked, *[i for own in outs for i in own]])
        places = iter(tape.outputs)
        nodes = {node: next(places) for node in told}
        order = [nodes[node] for node in first]
        questions = [[(next(places), answer) for _, answer in run.asked] for run in runs]
        results = [[next(places) for _ in own] for own in outs]
        check_offsets([v for _, v, _ in self.carried], tape, order, results, questions)
        read = {} if plain else {order[-1]: self.rows.size()}
        read |= self._read_sizes(dict(zip(extras, order[len(inputs) :], strict=False)))
        sizes = CountSizes(
            tape,
            read,
            {nodes[i]: growth.on(nodes) for i, growth in counts.items()},
            self.loop.level,
        )
        limits = IntLimits(sizes)
        self._note_sizes(limits, order, results)
        self.settled = not limits.places
        numbers = [i for i, (_, v, _) in enumerate(self.carried) if not (v.is_counted or v.weak)]
        first = len(results[0]) - self.appended.width
        numbers += [first + j for j, kind in enumerate(self.appended.kinds) if not kind.python]
        held = [own[i] for own in results for i in numbers]
        if any(self._is_mixed(k, v) for k, v, _ in self.carried):
            check_precision(tape)
        divided = {nodes[i]: size for i, size in quotients.items()}
        check = lambda: check_numbers(tape, sizes.all(), held, divided)  # noqa: E731 - a line
        return tape, order, [*map(BranchPath, questions, results)], limits.checked(check)

    def _read_sizes(self, extras: Mapping[int, int]) -> dict[int, int]:
        """The sizes of Python numbers that change in the loop around, by nodes of the tape."""
        sizes = {node: outer_size(self.loop, extra) for extra, node in extras.items()}
        return {node: size for node, size in sizes.items() if size is not None}

    def _is_mixed(self, k: int, v: Variable) -> bool:
        """Whether a variable holds Python numbers and others, which are carried alike."""
        if v.is_counted or v.weak or v.narrow:
            return False
        values = [run.values[k] for run in self.runs if run.values[k] is not UNBOUND]
        return v.scalar and (v.may_be_python_float or not all(map(self.is_new, values)))

    def _note_sizes(self, limits: IntLimits, order: list[int], results: list[list[int]]) -> None:
        """Note the sizes of Python numbers that are carried; floats have none."""
        sizes = limits.sizes
        for of_result in (False, True):  # which may be others
            growths = dict[int, Growth]()
            for i, (_, v, _) in enumerate(self.carried):
                if v.is_counted and v.result is of_result:
                    outs = {own[i] for own in results}
                    growths[i] = v.growth = limits.growth(v, order[i], outs, self.rows.length)
            for i, growth in growths.items():
                sizes.note(order[i], growth)
        sizes.largest.update({order[i]: 0 for i, (_, v, _) in enumerate(self.carried) if v.weak})

    def _outs(self, run: PathRun, inputs: Sequence[int]) -> list[int]:
        """The nodes of what a run hands on, where the carries have some nodes."""
        lift, outs = self.inner.lift, list[int]()
        for (k, _, type_), node in zip(self.carried, inputs, strict=False):
            value = run.values[k]
            outs.append(node if value is UNBOUND else lift(value, type_.dtype))
        outs += [self._flag(run.values[k], k) for k in self.loose]
        held = [(run.values[k], tag.node) for k, tag in self.tags.items()]
        outs += [tag if v is UNBOUND else run.arrays.number(v) for v, tag in held]
        outs += [run.arrays.next()] if self.fresh else []
        if self.demanding:
            outs.append(reduce(self._both, run.demands, inputs[-1]))
        return outs + self.appended.nodes(run, self.inner)

    def _both(self, first: int, second: int) -> int:
        return self.inner.add(PRIMITIVES["logical_and"], (first, second))

    def _flag(self, value: object, k: int) -> int:
        """The node of whether a loose variable holds a new value."""
        flag = self.flags[k] if value is UNBOUND else self.loop.flag_of(value)
        return self.inner.builder.constant(np.array(is_new(value))) if flag is None else flag.node

    def _is_kept(self, variable: Variable, value: object) -> bool:
        """Whether a variable may still have its value from before the path."""
        return not ((variable.result and value is UNBOUND) or self.is_new(value))

    def is_new(self, value: object) -> bool:
        """Whether a value that the body gives is new on all paths."""
        return is_new(value) and self.loop.flag_of(value) is None

    # ----------------------------------------------------------------------------------- the node

    def enter(self, trace: Trace) -> list[object]:
        """Enter the loop in the trace around, and return the values of the variables after it."""
        if isinstance(log := trace.calls, CallLog):  # which sees no call that enters these nodes
            if log.frame is not None:
                log.leave(log.frame)
            log.forget()
        old = len(trace.builder.nodes)
        around = trace.calls if isinstance(trace.calls, Answers) else None
        state = self._state(trace, around)
        results = self._results(trace, state)
        numbers = results[len(self.carried) + len(self.loose) :]
        tags = dict(zip(self.tags, numbers, strict=False))
        same = [] if around is not None else equal_pairs(trace, tags)
        flags = dict(zip(self.loose, results[len(self.carried) :], strict=False))
        demands = self._demands(results)
        dead = {k for k, v, _ in self.carried if v.scalar and v.name in self.rows.dead}
        floats = dict[int, object]()
        if around is not None:
            around.demands += [h.id for h in demands]
        else:
            loops, trips = (RefusedLoopError, DEMANDS), (TooFewTripsError, "it makes more trips")
            for flag in demands:
                rely_on(trace, flag, *trips if self.rows.has_while else loops)
            floats = python_floats(self, trace, results, {k: flags[k] for k in {*flags} - dead})
        self.appended.enter(trace, results[len(state) :], self.rows, tags)
        own = f"each on one of {len(self.runs)} paths, which it chooses"
        self.rows.note(trace, "whose statements choose their paths" if self.loop.splits else own)
        values = [v.constant for v in self.variables]
        pairs = zip(self.carried, results, strict=False)
        stores_last = sorted(pairs, key=lambda pair: pair[0][1].stored_into)  # others may refuse
        for (k, v, _), result in stores_last:
            kept = v.offset is not None and all(r.values[k] is r.inputs[k] for r in self.runs)
            values[k] = floats.get(k, v.own)
            if not (kept or k in dead or k in floats):
                values[k] = self._behind(trace, v, result, new=result.id >= old)
            if k in flags and k not in dead and around is not None:
                around.loop.flags.append((values[k], flags[k]))
                if not (v.scalar or v.name in self.rows.unshared):
                    around.shared = max(around.shared, result.id)
                if v.scalar and (v.option or not v.result):
                    around.loop.mixed.add(result.id, flags[k])
                    around.loop.mixed.unsure.add(result.id)
        unify(self.variables, values, same)
        if around is not None:
            last = numbers[len(tags) : len(tags) + len(self.fresh)]
            hand_numbers(around, self.variables, values, tags, last)
            around.loop.branches |= self.branches
        self.appended.hold(values)
        return values

    def _state(self, trace: Trace, around: Answers | None) -> list[object]:
        """The values of the carries before the loop."""
        state = list[object]()
        for _, v, type_ in self.carried:
            start = np.zeros(type_.shape) if v.start is UNBOUND else v.start
            node = trace.lift(start, type_.dtype)
            state.append(TracedArray(trace, node, type_))
        state += [self._is_new_before(self.variables[k], around) for k in self.loose]
        state += numbers_before(around, [self.variables[k].start for k in self.tags], self.fresh)
        return state + [np.array(True)] * self.demanding

    def _demands(self, results: Sequence[TracedArray]) -> list[TracedArray]:
        """Whether a ``while`` ended, and those in it."""
        pairs = zip(self.carried, results, strict=False)
        left = [h for (_, v, _), h in pairs if v.name.startswith(LEFT)]
        ends = left if self.rows.is_while and self.rows.most_trips else []
        place = len(self.carried) + len(self.loose) + len(self.tags) + len(self.fresh)
        return ends + ([results[place]] if self.demanding else [])

    def _results(self, trace: Trace, state: Sequence[object]) -> Sequence[TracedArray]:
        """The results of the node that is entered."""
        rows, count, tape = self.rows, len(state), self.tape
        assert tape is not None, "a loop is entered after its body"
        if rows.is_statement:
            values = [*state, *self.inner.extra]
            nodes = [(trace.lift(x), t) for x, t in zip(values, tape.input_types, strict=True)]
            return splice(tape, [TracedArray(trace, node, t) for node, t in nodes], trace)
        if rows.is_while and rows.most_trips:
            return apply_many(
                LOOP, np.asarray(rows.most_trips), *state, *self.inner.extra,
                body=tape, carries=count, length=rows.most_trips, reverse=False, rows=0,
            )  # fmt: skip
        if rows.is_while:
            left = next(i for i, (_, v, _) in enumerate(self.carried) if v.name.startswith(LEFT))
            return apply_many(
                WHILE, *state, *self.inner.extra, body=tape, carries=count, limit=0,
                cond=goes_on(tape, left, count - 1 if self.demanding else None),
            )  # fmt: skip
        length, numbers = rows.length, rows.numbers
        index = apply(iota, size=length)
        return apply_many(
            LOOP, np.asarray(length), *state, *self.inner.extra,
            index * numbers.step + numbers.start,
            body=tape, carries=count, length=length, reverse=False, rows=1,
        )  # fmt: skip

    @staticmethod
    def _behind(trace: Trace, v: Variable, result: TracedArray, *, new: bool) -> object:
        """The value of a carried variable after the loop."""
        value: object = TracedArray(
            trace, result.id, result.type, scalar=v.scalar, weak=v.of_python
        )
        if v.is_counted or v.weak:
            value = not v.name.startswith(LEFT) and counted(trace, v, result, new=new)
            if v.offset is not None:
                value = total(trace, v.offset, value)
            if v.name.startswith(RAISED) and value is True:
                raise RefusedLoopError("it raises an error")
        if v.stored_into and v.keeps_binding:
            v.own[...] = value  # type: ignore[index] - an array
        return v.own if v.keeps_binding else value

    @staticmethod
    def _is_new_before(variable: Variable, around: Answers | None) -> object:
        flag = None if around is None else around.loop.flag_of(variable.start)
        return np.array(variable.scalar and is_new(variable.start)) if flag is None else flag

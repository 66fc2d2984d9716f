"""The body of a loop: the items of a template, run once: docs/decisions/plain-loops.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import fdiff.intact_numpy as np

from ...arraytype import BOOL, ArrayType
from ...errors import FdiffError
from ...foreign_errors import not_foreign
from ...hooks import Args, Function, Named
from ...primitive import PRIMITIVES
from ..array_links import root_of
from ..masked_parts import MaskedType, link_of
from ..node_strides import memory_layout
from ..ordinary_trace import Trace
from ..recorder import Loops, Recorder
from ..traced_array import TracedArray, handle
from .late_handles import viewed_again
from .logged_calls import (
    IncomparableError,
    LoggedCall,
    arguments_of,
    memory_of,
    note_result,
    written,
)
from .loop_template import LoopTemplate, Path, UnrolledError
from .nested_loops import LoggedLoop, loop_node, rows_of
from .path_bodies import check_prefixes, joined
from .periods import Fixed, HandleKind, Shifted, TemplateCall, Varying
from .questions import Question
from .trip_values import AskedPlan

BOOL_TYPE = ArrayType((), BOOL)
_FAULTS = FdiffError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError


class StoreLog:
    """A log for replays, which notes stores and no calls."""

    depth, frame, trace = 1, None, None  # no frame compares calls

    def __init__(self) -> None:
        self.writes: list[TracedArray] = []

    def look(self) -> None:
        """Listen to no call."""

    def is_idle(self) -> bool:
        return True

    def question(self, kind: object, handle: TracedArray) -> NoReturn:
        raise UnrolledError("a value is looked at")

    def listens(self) -> bool:
        return False

    def is_checked(self, handle: TracedArray) -> bool:
        return False

    def is_asked(self) -> bool:
        return False

    def stored(self, handle: TracedArray) -> None:
        self.writes.append(handle)

    def loops(self) -> Loops:
        return ()

    def note(self, loops: Loops) -> None:
        """Leave loops to the log of the trace around."""

    def close(self) -> None:
        self.writes.clear()

    def call(self, fn: Function, args: Args, named: Named) -> object:
        return fn(*args, **named)

    def converted(self, array: object, convert: object) -> NoReturn:
        raise UnrolledError("a local array becomes a traced one")


def replayed(template: LoopTemplate, trace: Recorder) -> None:
    """Give a template its body; UnrolledError where the replay does not do what the trace did.

    Where that needs the values of arrays that the trace relies on, they are constants of the body.
    """
    log = trace.calls
    assert log is not None
    log.depth += 1
    replay = partial(_replay, template, trace)
    try:
        _try(replay)
    except UnrolledError:
        if template.relies or not _relies(template, trace):
            raise
        template.relies = True
        _try(replay)
    finally:
        log.depth -= 1


def _try(replay: Callable[[], None]) -> None:
    try:
        replay()
    except UnrolledError:
        raise
    except not_foreign(*_FAULTS, again=replay) as error:
        raise UnrolledError(str(error).partition("\n")[0].removeprefix("loop: ")) from None


def _relies(template: LoopTemplate, trace: Recorder) -> bool:
    """Whether the trace relies on the values of an invariant: of integers."""
    return any(
        h.home is trace and not h.type.floating and trace.guards.is_pinned(h.id)
        for k, h in enumerate(template.invariants)
        if k not in template.mutated
    )


def _replay(template: LoopTemplate, trace: Recorder) -> None:
    inner = Trace("loop", lines=False)
    try:
        with inner:
            inner.mutable = True
            inner.calls = StoreLog()
            _Replay(template, trace, inner).run()
    finally:
        inner.calls = inner.refused = None  # which lead to handles, and so back to the trace


class _Replay:
    """One replay under way: what stands in the slots of its template."""

    def __init__(self, template: LoopTemplate, trace: Recorder, inner: Trace) -> None:
        self.template, self.trace, self.inner = template, trace, inner
        self.slots: list[Any] = [None] * template.size  # handles, which are filled in in order
        self.rows: list[TracedArray] = []
        self.asked: list[int] = []  # nodes of what Python asks for, on a path
        self.agree = -1  # node: whether its answers agree with the answers of the trips
        items = [item for path in template.paths for item in path.items]
        self.questions = any(isinstance(item.fn, Question) for item in items)
        self.made = {
            slot: view
            for item in items
            for slot, origin, view in zip(item.outs, item.origins, item.views, strict=True)
            if origin < 0
        }
        self.stacks: dict[tuple[int, int], TracedArray] = {}  # what inner loops gave in all trips

    def run(self) -> None:
        """Run the items of each path, and finish the body."""
        template, inner = self.template, self.inner
        carried, fixed = [*template.carries.values()], range(len(template.invariants))
        rest = [k for k in fixed if k not in template.mutated]
        begin = [*carried, *template.mutated, *([-1] if self.questions else []), *rest]
        kinds = [*template.kinds, (BOOL_TYPE, True, False)]
        for slot in begin:
            h = self._input(kinds[slot])
            if slot < 0:
                self.agree = h.node
            else:
                self.slots[slot] = h
        template.layouts = dict.fromkeys(carried, ())
        for slot in fixed:
            template.layouts[slot] = self._lay_out(self.slots[slot], template.invariants[slot])
        for slot in set(rest).difference(template.views) if template.relies else ():
            self._pin(slot)
        self.rows = [self._input(kind) for kind in template.row_kinds]
        template.bodies = [item.inner.body for item in template.inner if item.inner]
        template.short, template.outputs, template.orders = False, {}, {}
        first, agree, bodies, asked = self.slots, self.agree, list[list[int]](), list[list[int]]()
        for path in template.paths:
            self.slots = [self._again(h) for h in first]
            self.agree, self.asked = agree, []
            bodies.append(self._outs(path, carried))
            asked.append(self.asked)
        if inner.extra or inner.guards.expected or inner.guards.pinned or inner.refused:
            raise UnrolledError("a value is looked at")
        count = len(carried) + len(template.mutated)
        tapes = [inner.builder.finish(outs) for outs in bodies]
        template.body = tapes[0] if len(tapes) == 1 else joined(tapes)
        if self.questions:
            outs = [
                i
                for nodes, body in zip(asked, bodies, strict=True)
                for i in (*nodes, *body[:count])
            ]
            tape = inner.builder.finish(outs)
            template.plan = AskedPlan(tape, begin, count, [*map(len, asked)])
            check_prefixes(template)

    def _again(self, h: TracedArray | None) -> TracedArray | None:
        """Another handle of the node of an input, for a path of its own."""
        return h if h is None else handle(self.inner, h.node, h.type, h.scalar, h.weak)

    def _outs(self, path: Path, carried: Sequence[int]) -> list[int]:
        """Run the items of a path; the nodes of what the body gives on it."""
        template, inner, sources = self.template, self.inner, dict(path.moves)
        for slot, (root, views) in template.views.items():
            self.slots[slot] = viewed_again(inner, self.slots[root], views)
        inputs = {id(h): k for k, h in enumerate(self.slots) if h is not None}
        for item, call in zip(path.items, path.calls, strict=True):
            if item.inner is None:
                self._run_item(item, call, path.slot_of)
            else:
                self._run_loop(item, item.inner)
        for slot, source in path.moves:
            self._check_carry(self.slots[slot], self.slots[source], inputs)
        outs = [inner.lift(self.slots[sources.get(slot, slot)]) for slot in carried]
        outs += [inner.lift(self.slots[slot]) for slot in template.mutated]
        outs += [self.agree] if self.questions else []
        for slot, view in self.made.items():
            if not view:
                template.outputs[slot] = len(outs)
                outs += self._out(slot)
        for slot, carries in template.stored_later.items():
            template.finals[slot] = len(outs)
            outs.append(inner.lift(self.slots[carries[-1]]))
        for place, stack in self.stacks.items():
            template.stacks[place] = len(outs)
            outs.append(stack.node)
        return outs

    def _out(self, slot: int) -> list[int]:
        """The node of what is made in a slot, zeros where a path does not make it.

        Of a part by a mask the whole array, and the mask.
        """
        h, inner = self.slots[slot], self.inner
        type_ = self.template.kinds[slot][0]
        if h is None:  # it is filled on other paths
            types = type_.parts() if isinstance(type_, MaskedType) else [type_]
            return [inner.builder.constant(np.zeros(t.shape, t.dtype)) for t in types]
        if isinstance(type_, MaskedType):
            if (link := link_of(h)) is None:
                raise UnrolledError("a value is looked at")
            return [inner.lift(link.whole()), inner.lift(link.mask)]
        axes = inner.layouts.axes(h.made)
        if axes != sorted(axes):
            self.template.orders[slot] = axes
        return [inner.lift(h)]

    def _check_carry(self, old: TracedArray, new: TracedArray, inputs: Mapping[int, int]) -> None:
        """Refuse what is carried if it cannot be told apart from an array of its own."""
        if self.inner.layouts.axes(old.made) != self.inner.layouts.axes(new.made):
            raise UnrolledError("what is carried changes its order in memory")
        base, template = root_of(new), self.template
        later = {id(self.slots[slot]) for slot in template.stored_later}
        if base is not new and (inputs.get(id(base)) in template.stored or id(base) in later):
            raise UnrolledError("a view of an array that is stored into lives on")

    def _input(self, kind: HandleKind) -> TracedArray:
        type_, scalar, weak = kind
        handle = self.inner.input(type_, scalar=scalar, weak=weak)
        if type_.floating:
            self.inner.guards.active.add(handle.node)
        return handle

    def _lay_out(self, handle: TracedArray, like: TracedArray) -> tuple[int, ...]:
        """Let an input have the layout of what it stands for; that layout."""
        layout = memory_layout(like.example()) if handle.ndim > 1 else ()
        self.inner.layouts.of_inputs[handle.node] = layout
        return layout

    def _pin(self, slot: int) -> None:
        """Let an invariant be a constant where the trace relies on its value: of integers."""
        template, trace, own = self.template, self.trace, self.slots[slot]
        handle = template.invariants[slot]
        if own.type.floating or handle.home is not trace or template.layouts[slot]:
            return
        node = template.pinned.setdefault(slot, handle.id)
        if trace.guards.is_pinned(node):
            value = np.array(trace.guards.value(node, ""), own.type.dtype)
            own.node = own.made = self.inner.builder.constant(value)
        else:
            del template.pinned[slot]

    def _given(self, item: TemplateCall) -> tuple[list[TracedArray], list[object]]:
        """The handles and the other values that an item is run on."""
        rows, slots = self.rows, self.slots
        handles = [rows[s.row] if isinstance(s, Varying) else slots[s] for s in item.slots]
        return handles, [self._value(v) for v in item.values]

    def _value(self, value: Fixed | Varying | Shifted) -> object:
        if isinstance(value, Fixed):
            return value.value
        row = self.rows[value.row]
        return row + value.by if isinstance(value, Shifted) else row

    def _run_loop(self, item: TemplateCall, loop: LoopTemplate) -> None:
        """Enter the node of an inner loop, and what its trips made."""
        inner, stores, first = self.inner, self.inner.calls, len(loop.carries)
        if loop.plan is not None:
            raise UnrolledError("a loop inside of it looks at values")
        if loop.views:
            raise UnrolledError("a loop inside of it reads views of an array that it stores into")
        if loop.stored_later:
            raise UnrolledError("a loop inside of it stores into arrays of its earlier iterations")
        assert isinstance(stores, StoreLog)
        assert isinstance(item.call, LoggedLoop)
        handles, (trips, *values) = self._given(item)
        assert isinstance(trips, (int, TracedArray))
        length = self.template.lengths[self.template.inner.index(item)]
        slots = [*loop.carries.values(), *range(len(loop.invariants))]
        for h, slot, outer in zip(handles, slots, item.slots, strict=False):
            pinned = None if isinstance(outer, Varying) else self.template.pinned.get(outer)
            if slot in loop.pinned and loop.pinned[slot] != pinned:
                raise UnrolledError("an inner loop relies on the value of an array")
            same = (h.type, h.scalar, h.weak) == loop.kinds[slot]
            if not same or (h.ndim > 1 and memory_layout(h.example()) != loop.layouts[slot]):
                raise UnrolledError("an inner loop is given arrays of another kind")
            if slot in loop.mutated and root_of(h) is not h:
                raise UnrolledError("an inner loop stores into a view")
        with np.errstate(all="ignore"):
            rows = rows_of(loop, item.call.result[1], handles[len(slots) :], values, length)
        inner.line = item.call.place[0]
        outs = loop_node(inner, loop, handles[: len(slots)], rows, trips, length, item.call.first)
        for k in loop.mutated:
            stores.stored(handles[first + k])
        for output in range(first + len(loop.mutated), len(outs)):
            stack = TracedArray(inner, outs[output], inner.builder.type(outs[output]))
            self.stacks[item.child, output] = stack
        self._enter_outs(item, loop, outs, trips)

    def _enter_outs(
        self, item: TemplateCall, loop: LoopTemplate, outs: Sequence[int], trips: TracedArray | int
    ) -> None:
        """Let the slots of an inner loop hold what its last trip made, and other ones."""
        inner, lasts = self.inner, loop.paths[0].lasts

        def entry(slot: int, trip: int | None) -> TracedArray:
            if trip is None and slot in lasts:
                node = outs[lasts[slot]]
            else:
                stack = self.stacks[item.child, loop.outputs[slot]]
                rows = TracedArray(inner, stack.node, stack.type)
                node = rows[trips - 1 if trip is None else trip].id
            if slot in loop.orders:
                node = inner.copy_in_order(node, loop.orders[slot])
            return handle(inner, node, *loop.kinds[slot])

        for inner_slot, slot in zip(loop.out_slots, item.outs, strict=False):
            self.slots[slot] = entry(inner_slot, None)
        for trip, place, slot in item.outs_of_earlier_trips:
            self.slots[slot] = entry(loop.out_slots[place], trip)

    def _run_item(
        self, item: TemplateCall, call: LoggedCall, slot_of: Mapping[int, object]
    ) -> None:
        stores = self.inner.calls
        self.inner.line = call.place[0] if call.place else None
        handles, values = self._given(item)
        if isinstance(call.fn, Question):
            self._ask(call.fn, handles[0], values[0])
            return
        args, named = arguments_of(call.shape, iter(handles), iter(values))
        assert isinstance(stores, StoreLog)
        stores.writes = []
        again = LoggedCall()
        again.handles = handles
        try:
            note_result(again, call.fn(*args, **named), tuple(args), named)
        except IncomparableError:
            raise UnrolledError(f"{_name(call)} gives concrete numbers") from None
        if (again.result, again.origins, again.types) != (call.result, call.origins, call.types):
            types = " and ".join([", ".join([str(t) for t, *_ in c.types]) for c in (again, call)])
            raise UnrolledError(f"{_name(call)} of what varies from trip to trip gives {types}")
        for slot, origin, h in zip(item.outs, again.origins, again.outs, strict=True):
            if origin < 0:
                self.slots[slot] = h
        again.writes = written(stores.writes, handles)
        own = {id(h): k for k, h in enumerate(self.slots)}
        if memory_of(again, own) != memory_of(call, slot_of):
            raise UnrolledError(f"{_name(call)} stores into something else, or views it")

    def _ask(self, question: Question, handle: TracedArray, answer: object) -> None:
        """Let the answer of a question be one more that agrees."""
        inner = self.inner
        self.asked.append(inner.lift(handle))
        agrees = question.agrees(inner, self.asked[-1], answer)
        self.agree = inner.add(PRIMITIVES["logical_and"], (self.agree, agrees))


def refresh(template: LoopTemplate, trace: Recorder) -> None:
    """Make the body anew where bodies of inner loops have changed, or their trips are more."""
    for item in template.inner:
        assert item.inner is not None
        refresh(item.inner, trace)
    bodies = [item.inner.body for item in template.inner if item.inner]
    if template.short or any(a is not b for a, b in zip(template.bodies, bodies, strict=True)):
        replayed(template, trace)


def _name(call: LoggedCall) -> str:
    return getattr(call.fn, "__name__", "a call")

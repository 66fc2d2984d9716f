"""Frames: the trips of a loop whose calls are only compared with those of a template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import fdiff.intact_numpy as np

from ... import user_lines
from ...primitive import FUNCTIONS, PRIMITIVES
from ..array_links import LateLink, ViewLink, in_memory_order, outside
from ..node_strides import memory_layout
from ..traced_array import TracedArray
from .call_gates import entries
from .late_handles import LateView, StoredInto, Trip
from .logged_calls import (
    HANDLE,
    IncomparableError,
    arguments_of,
    at_place,
    content,
    may_vary,
    rebuilt,
    same,
    structure,
    taken_apart,
)
from .periods import loop_of
from .templates import FIXED, FLOAT_ROW, INT_ROW, KEY, LOCAL_SLOT, SLOT, Item, LoopTemplate, Varying
from .trip_checks import (
    become,
    is_inside,
    is_key,
    is_storable,
    looks_at,
    may_be_entry,
    names_the_same,
)

_new = object.__new__
_ROWS = (FLOAT_ROW, INT_ROW)
MISMATCH = object()  # no result: the call is another one than that of the template


class FrameLog(Protocol):
    """What a frame asks of the log of calls."""

    trace: Any
    depth: int
    frame: Any
    varying: set[tuple[object, int, int]]
    rolled: list[tuple[Any, int, int]]
    fewest: int

    def run(self, fn: Any, args: tuple[object, ...], named: dict[str, object], /) -> Any: ...
    def leave(self, frame: Any, /, *, whole: bool = False) -> None: ...
    def forget(self) -> None: ...
    def outermost(self) -> AbstractContextManager[None]: ...


class Frame:
    """A template that is being checked: what stands in its slots, and in which trip.

    `at` is the item that is due. The slots of invariants and carries are filled as they are met in
    the first trip, where a template is met again; `bound` tells that they are.
    """

    def __init__(self, log: FrameLog, template: LoopTemplate) -> None:
        self.log, self.template = log, template
        self.trace = log.trace
        self.items = template.items
        self.at, self.trips = 0, 0
        self.slots: list[Any] = [None] * template.size
        self.rows: list[list[Any]] = [[] for _ in template.row_kinds]
        self.inits: list[TracedArray] = []
        self.trip = Trip(self, 0)
        self.outs: list[int] = []  # nodes of the outputs of the loop
        self.history: list[list[TracedArray]] = []  # what the first trips made
        self.bound = False

    def begin(self, carried: Mapping[tuple[int, int, int], TracedArray]) -> bool:
        """Fill the slots from the log; whether the loop can be entered."""
        template = self.template
        filled = [*enumerate(template.invariants)]
        filled += [(slot, carried[key]) for key, slot in template.carries.items()]
        if not all(self._fill(slot, h) for slot, h in filled) or not self._bind():
            self._release()
            return False
        return True

    def _fill(self, slot: int, handle: TracedArray) -> bool:
        """Let a handle stand in the slot of an invariant or a carry, if it can."""
        if self._made(handle):
            return False
        if (handle.type, handle.scalar, handle.weak) != self.template.kinds[slot]:
            return False
        if handle.home is not self.log.trace:
            return False
        if handle.type.ndim > 1 and memory_layout(handle.example()) != self.template.layouts[slot]:
            return False
        if slot in self.template.mutated:
            if isinstance(handle.link, (ViewLink, LateLink)) or outside(handle) is not None:
                return False
            handle.link = StoredInto(self, handle.link)
        self.slots[slot] = handle
        return True

    def _made(self, handle: TracedArray) -> bool:
        """Whether a handle was made in these trips."""
        return isinstance(handle.link, LateLink) and getattr(handle.link, "frame", None) is self

    def _bind(self) -> bool:
        """Note that the slots are filled; whether none looks at what is stored into."""
        template = self.template
        first = len(template.invariants)
        handles = self.slots[: first + len(template.carries)]
        self.inits, self.bound = handles[first:], True
        stored = {id(handles[k]) for k in template.mutated}
        if len(stored) < len(template.mutated):
            return False
        others = [h for k, h in enumerate(handles) if k not in template.mutated]
        others += [h for row in self.rows for h in row if isinstance(h, TracedArray)]
        return not stored or not any(looks_at(h, stored) for h in others)

    def _release(self) -> None:
        """Give what is stored into its own links again."""
        for k in self.template.mutated:
            h = self.slots[k]
            if h is not None and isinstance(h.link, StoredInto) and h.link.frame is self:
                h.link = h.link.link

    # ----------------------------------------------------------------------------------- calls

    def take(self, fn: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The result of a call that is the next one of the template; MISMATCH if it is another."""
        item = self.items[self.at]
        if item.fn is not fn:
            return MISMATCH
        quick = item.quick
        if quick is None or named or len(quick) != len(args) or not self._agrees(quick, args):
            if not self._fits(item, args, named) or self.log.frame is not self:
                return MISMATCH  # or what was compared has ended the checking
        elif item.varies:
            for a, (way, row, _) in zip(args, quick, strict=True):
                if way in _ROWS:
                    self.rows[row].append(a)
        if item.single < 0:
            return self._accept(item, args, named)
        handle = _new(TracedArray)
        handle.type, handle.scalar, handle.weak = item.kind
        handle.home = handle.born = self.trace
        handle.node, handle.made = -1, item.single
        handle.link = self.trip
        self.slots[item.single] = handle
        self._advance()
        return handle

    def _agrees(self, quick: Sequence[tuple[int, Any, Any]], args: tuple[Any, ...]) -> bool:
        """Whether arguments are those of an item, compared without being taken apart."""
        slots = self.slots
        for a, (way, value, kind) in zip(args, quick):  # noqa: B905 - of one length
            if way == SLOT:
                if a is not slots[value]:
                    return False
            elif way == FIXED:
                if a.__class__ is not kind or a != value:
                    return False
            elif way == KEY:
                if a is not value and not is_key(a, value):
                    return False
            elif way == FLOAT_ROW:
                if a.__class__ is not float:
                    return False
            elif way == LOCAL_SLOT:
                if getattr(a, "handle", None) is not slots[value]:
                    return False
            elif a.__class__ is not int or not -kind <= a < kind:
                return False
        return True

    def take_content(self, array: np.ndarray, handle: TracedArray) -> bool:
        """Whether an array that was made a traced one is what the template has next."""
        item = self.items[self.at]
        if item.fn is not content or not self._values_fit(item, [array]):
            return False
        self._lend(handle, item.outs[0])
        self._advance()
        return True

    def _fits(self, item: Item, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Whether the arguments are those of an item; enters what varies in the rows."""
        handles: list[TracedArray] = []
        values: list[object] = []
        try:
            if taken_apart(args, named, handles, values) != item.call.shape:
                return False
        except IncomparableError:
            return False
        for h, slot in zip(handles, item.slots, strict=True):
            if isinstance(slot, Varying):
                if self._made(h) or not may_be_entry(h, self, slot.row):
                    return False
                continue
            there = self.slots[slot]
            if h is not there and not (
                self._fill(slot, h)
                if there is None
                else slot < len(self.template.invariants) and names_the_same(h, there)
            ):
                return False
        if not self._values_fit(item, values):
            return False
        for h, slot in zip(handles, item.slots, strict=True):
            if isinstance(slot, Varying):
                self.rows[slot.row].append(h)
        return True

    def _values_fit(self, item: Item, values: Sequence[Any]) -> bool:
        """Whether values are those of an item; those that vary go into the rows."""
        for k, (value, entry) in enumerate(zip(values, item.values, strict=True)):
            if isinstance(entry, Varying):
                if not may_vary(value, self.template.examples[entry.row]) or not is_storable(value):
                    return False
            elif not same(value, entry.value):
                if may_vary(value, entry.value):
                    self.log.varying.add((self.template.key, self.at, k))
                return False
        if item.varies and not is_inside(item, values):
            return False
        for value, entry in zip(values, item.values, strict=True):
            if isinstance(entry, Varying):
                self.rows[entry.row].append(value)
        return True

    def _accept(self, item: Item, args: tuple[Any, ...], named: dict[str, Any]) -> object:
        """The result of a call that fits: handles without nodes."""
        call = item.call
        for slot, origin, view in zip(item.outs, call.origins, item.views, strict=True):
            if origin < 0:
                handle = _new(TracedArray)
                handle.type, handle.scalar, handle.weak = self.template.kinds[slot]
                self._lend(handle, slot)
                if view:
                    handle.link = LateView(self.trip, item, self._given(item))
        if call.result[0] == "given":
            out = at_place(call.result[1], args, named)
        elif call.result[1] == HANDLE:
            out = self.slots[item.outs[0]]
        else:
            _, shape, values, _ = call.result
            out = rebuilt(shape, iter([self.slots[s] for s in item.outs]), iter(values))
        self._advance()
        return out

    def _lend(self, handle: TracedArray, slot: int) -> None:
        """Put a handle in a slot that gets a node when it is asked for one."""
        handle.home = handle.born = self.log.trace
        handle.node, handle.made = -1, slot
        handle.link = self.trip
        self.slots[slot] = handle

    def _given(self, item: Item) -> tuple[list[Any], list[Any]]:
        """The handles and values of an item in the trip under way."""
        t = self.trips
        handles = [
            self.rows[s.row][t] if isinstance(s, Varying) else self.slots[s] for s in item.slots
        ]
        values = [self.rows[v.row][t] if isinstance(v, Varying) else v.value for v in item.values]
        return handles, values

    def _advance(self) -> None:
        self.at += 1
        if self.at < self.template.length:
            return
        if not self.bound and not self._bind():
            self.at -= 1  # the trip is run again, as far as it is made
            self.log.leave(self, whole=True)
            return
        if self.trips * self.at < self.log.fewest:
            self.history.append(self.slots[self.template.first_made :])
        self.at = 0
        self.trips += 1
        self.trip = Trip(self, self.trips)
        if user_lines.at_line is not None:
            user_lines.user_line()  # progress shows where the user's code is
        self._carry_on()

    def _carry_on(self) -> None:
        """Let what a trip has made be what the next one carries."""
        slots = self.slots
        for target, source in self.template.moves:
            slots[target] = slots[source]

    # ----------------------------------------------------------------------------------- nodes

    def finish(self, items: int) -> None:
        """Enter the loop of the trips so far, and run the first items of the next one again.

        A loop of few calls is unrolled: all of its items are run again.
        """
        self._release()
        template, last = self.template, self.slots[:]
        if self.trips * template.length < self.log.fewest:
            self.slots[len(template.invariants) : template.first_made] = self.inits
            trips, self.trips = self.trips, 0
            for trip_outs in self.history[:trips]:
                self.slots[template.first_made :] = trip_outs
                self._run_again(template.length)
                self._carry_on()
                self.trips += 1
        elif self.trips:
            self._enter()
        self.slots = last
        self.log.forget()
        self._run_again(items)

    def _run_again(self, items: int) -> None:
        """Run the first items of a trip on handles with nodes; what they made gets nodes so."""
        trace = self.trace
        lines, line, trace.lines = trace.lines, trace.line, False
        try:
            for item in self.items[:items]:
                trace.line = item.call.place[0] if item.call.place else None
                outs = self._run(item, *self._given(item))
                for slot, origin, real in zip(item.outs, item.call.origins, outs, strict=False):
                    if origin < 0:
                        become(self.slots[slot], real)
        finally:
            trace.lines, trace.line = lines, line

    def _run(self, item: Item, handles: Sequence[Any], values: Sequence[Any]) -> list[TracedArray]:
        """Run an item; the handles in its result."""
        args, named = arguments_of(item.call.shape, iter(handles), iter(values))
        out = self.log.run(item.fn, tuple(args), named)
        if item.call.result[0] == "given":
            return []
        outs: list[TracedArray] = []
        structure(out, outs, [])
        return outs

    def _enter(self) -> None:
        """The node of the loop, and what is stored into as it is then."""
        template, trace, n = self.template, self.log.trace, self.trips
        stored = [self.slots[k] for k in template.mutated]
        rest = [self.slots[k] for k in range(len(template.invariants)) if k not in template.mutated]
        ids = [trace.lift(h) for h in (*self.inits, *stored, *rest)]
        ids += [
            self._row(row[:n], type_)
            for row, (type_, *_) in zip(self.rows, template.row_kinds, strict=True)
        ]
        trips = trace.builder.constant(np.array(n))
        params = (
            ("body", template.body), ("carries", len(self.inits) + len(stored)), ("length", n),
            ("reverse", False), ("rows", len(self.rows)),
        )  # fmt: skip
        place = template.items[0].call.place[0]
        node = trace.builder.add(PRIMITIVES["loop"], (trips, *ids), params, place)
        self.outs = trace.builder.results(node)
        for k, h in enumerate(stored, len(self.inits)):
            h.link = None
            h.node = in_memory_order(h, self.outs[k])
        self.log.rolled.append((loop_of(template.items[0].call.place), n, template.length))

    def _row(self, entries: Sequence[Any], type_: Any) -> int:
        """The node of a row: numbers and arrays, or handles from outside."""
        trace = self.log.trace
        if isinstance(entries[0], TracedArray):
            self.log.depth += 1
            try:
                return trace.lift(FUNCTIONS[np.stack](entries))
            finally:
                self.log.depth -= 1
        return trace.lift(np.array(entries, type_.dtype).reshape((len(entries), *type_.shape)))

    def settle(self, handle: TracedArray, trip: int) -> None:
        """Give a handle that was made in a trip its node."""
        template, trace = self.template, self.log.trace
        if trace.refused is not None:
            raise trace.refused
        slot, output = handle.made, template.outputs[handle.made]
        last = template.lasts.get(slot) if trip == self.trips - 1 else None
        with self.log.outermost():
            if last is not None:
                node = self.outs[last]
            else:
                rows = TracedArray(trace, self.outs[output], trace.builder.type(self.outs[output]))
                node = self.log.run(entries[0], (rows, trip), {}).id
            if slot in template.orders:
                node = trace.copy_in_order(node, template.orders[slot])
        handle.link, handle.node, handle.made = None, node, node

    def take_again(
        self, handle: TracedArray, item: Item, arguments: tuple[Sequence[Any], Sequence[Any]]
    ) -> None:
        """Take a view again of the handles that it was taken of."""
        with self.log.outermost():
            outs = self._run(item, *arguments)
        become(handle, outs[item.outs.index(handle.made)])

"""The nodes of a frame's trips, and of handles after the loop: docs/decisions/plain-loops.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...hooks import Args, Named
from ...primitive import FUNCTIONS
from ..array_links import in_memory_order
from ..masked_parts import MaskedLink, MaskedType
from ..recorder import Recorder
from ..traced_array import TracedArray
from .call_gates import entries
from .late_handles import StoredInto
from .logged_calls import Arguments, arguments_of, structure
from .loop_template import LoopTemplate, Path
from .nested_loops import LoggedLoop, loop_node
from .periods import Fixed, Shifted, TemplateCall, Varying
from .replay import refresh
from .trip_checks import become
from .trip_values import TripValues

if TYPE_CHECKING:
    from .call_log import CallLog
    from .checked_trips import Frame

SHORTEST = 60  # calls of a part of a loop that is worth a node


class TripNodes:
    """The state with which a frame enters nodes: its slots and rows after `count` trips."""

    log: CallLog
    template: LoopTemplate
    trace: Recorder
    items: Sequence[TemplateCall]
    trips: int
    count: int
    taken: list[int]
    slots: list[Any]  # handles, None for those not met yet, frames of inner loops
    rows: list[list[Any]]  # numbers, arrays, or handles
    inits: list[TracedArray]
    resumed: list[TracedArray]
    begun: dict[int, int]  # by id of arrays that trips store into: their nodes before the trips
    logged: int  # the number of first trips whose calls were logged, and have nodes
    outs: list[int]
    history: list[list[TracedArray]]
    values: TripValues | None
    fewest: int  # calls of a loop that is a node
    parent: Frame | None  # the frame of the loop around, while this is a loop in its trip `number`
    number: int
    item: TemplateCall | None  # this loop, as an item of the loop around
    limit: int | None  # the number of trips, where the loop around tells it
    first: int | None  # the number of the user's iteration that is the first trip, if known
    call: LoggedLoop | None  # this loop, as a call in the log

    def drop(self) -> None:
        """Forget the values that only the trip of the loop around needed."""
        self.slots, self.rows, self.inits, self.history = [], [], [], []
        self.log.frames.discard(self)

    def release(self) -> None:
        """Give arrays that are stored into their own links again."""
        for h in self.stored():
            if h is not None and isinstance(h.link, StoredInto) and h.link.frame is self:
                h.link = h.link.link

    def stored(self) -> list[TracedArray | None]:
        """Arrays from before the first trip that are stored into; None for those not met yet."""
        first = len(self.template.invariants)
        before = [*self.slots[:first], *(self.inits or self.slots[first:])]
        return [before[slot] for slot in self.template.stored]

    def operands(self, item: TemplateCall) -> tuple[list[TracedArray], list[object]]:
        """The handles and values of an item in the trip under way."""
        if item.fixed is not None:
            return [self.slots[s] for s in item.slots], item.fixed  # type: ignore[index] - none varies
        t = self.trips
        handles = [
            self.rows[s.row][t] if isinstance(s, Varying) else self.slots[s] for s in item.slots
        ]
        return handles, [self._value(v) for v in item.values]

    def arguments(self, item: TemplateCall) -> Arguments:
        """The arguments of an item in the trip under way, by position and by name."""
        handles, values = self.operands(item)
        args, named = arguments_of(item.call.shape, iter(handles), iter(values))
        return tuple(args), named

    def _value(self, value: Fixed | Varying | Shifted) -> object:
        if isinstance(value, Fixed):
            return value.value
        entry = self.rows[value.row][self.trips]
        return entry + value.by if isinstance(value, Shifted) else entry

    def carry_on(self, path: Path) -> None:
        """Move the results of a trip to the slots of the next trip's carries."""
        slots = self.slots
        for target, source in path.moves:
            slots[target] = slots[source]

    def finish(self, items: int) -> None:
        """Enter the loop of the trips so far, and run the first items of the next one again.

        A loop of few calls is unrolled: all of its items are run again. So is a part of few calls,
        where it branches elsewhere at times.
        """
        self.release()
        template, last = self.template, self.slots[:]
        template.checked += self.count
        if template.checked < self.fewest or (self.fewest and self.count < SHORTEST):
            self.slots[len(template.invariants) : template.first_made] = self.resumed
            left, self.trips = self.trips - self.logged, self.logged
            paths = self.taken[self.logged :]
            for number, trip_outs in zip(paths, self.history[:left], strict=False):
                self.slots[template.first_made :] = trip_outs
                path = template.paths[number]
                self._run_again(path.items)
                self.carry_on(path)
                self.trips += 1
        elif self.trips > self.logged:
            self._enter()
        self.slots = last
        self._run_again(self.items[:items])

    def _run_again(self, items: Sequence[TemplateCall]) -> None:
        """Run the first items of a trip again on handles with nodes, so that results get nodes."""
        trace = self.trace
        lines, line, trace.lines = trace.lines, trace.line, False
        try:
            for item in items:
                if item.inner is not None:
                    self.slots[item.child].parent = None
                    self.slots[item.child].finish(0)
                    continue
                trace.line = item.call.place[0] if item.call.place else None
                outs = self._run(item, *self.arguments(item))
                for slot, origin, real in zip(item.outs, item.call.origins, outs, strict=False):
                    if origin < 0:
                        become(self.slots[slot], real)
        finally:
            trace.lines, trace.line = lines, line

    def _run(self, item: TemplateCall, args: Args, named: Named) -> list[TracedArray]:
        """Run an item; the handles in its result."""
        out = self.log.run(item.fn, args, named)
        if item.call.result[0] != "new":
            return []
        outs: list[TracedArray] = []
        structure(out, outs, [])
        return outs

    def _enter(self) -> None:
        """Enter the node of the loop; arrays that it stores into get their nodes after it."""
        template, trace, n = self.template, self.log.trace, self.trips
        refresh(template, trace)
        rows = [
            self._row(row[:n], type_)
            for row, (type_, *_) in zip(self.rows, template.row_kinds, strict=True)
        ]
        if len(template.paths) > 1:
            rows.append(np.array(self.taken[:n]))
        handles = [*self.inits, *self.slots[: len(template.invariants)]]
        self.outs = loop_node(trace, template, handles, rows, n, n, self.first, self.begun)
        for latest, carries in template.stored_later.items():
            for lag, slot in enumerate(carries, 1):
                h = self.inits[slot - len(template.invariants)]
                h.link, h.node = None, in_memory_order(h, self._behind(latest, -lag))
        if self.values is not None:
            self.values.enter(self.outs[: len(self.inits) + len(template.mutated) + 1])
        self.log.entered(template.items[0].call, n, template.length, len(template.paths))

    def _row(self, entries: Sequence[object], type_: ArrayType) -> object:
        """The node of a row: numbers and arrays, or handles from outside."""
        if isinstance(entries[0], TracedArray):
            self.log.depth += 1
            try:
                return FUNCTIONS[np.stack](entries)
            finally:
                self.log.depth -= 1
        return np.array(entries, type_.dtype).reshape((len(entries), *type_.shape))

    def settle(self, handle: TracedArray, trip: int) -> None:
        """Give a handle that was made in a trip its node."""
        trace, slot = self.log.trace, handle.made
        if trace.refused is not None:
            raise trace.refused
        call, out = self.place(slot, trip)
        kind = self.template.kinds[slot][0]
        if isinstance(kind, MaskedType):
            with self.log.innermost():
                at = self.template.outputs[slot]
                nodes = [self._entry_of(self.stack(output), trip) for output in (at, at + 1)]
            whole, mask = [TracedArray(trace, i, trace.builder.type(i)) for i in nodes]
            handle.link = MaskedLink(mask, kind, (whole,))
            return
        with self.log.innermost():
            node = self.entry(slot, trip)
            if slot in self.template.orders:
                node = trace.copy_in_order(node, self.template.orders[slot])
        handle.link, handle.node, handle.made = None, node, node
        if call is not None:
            self.log.register(call, out, handle)

    def entry(self, slot: int, trip: int) -> int:
        """The node of a slot's value in a trip: a last carry of a loop, or a row of its outs."""
        last, parent = trip == self.trips - 1, self.parent
        if last and parent is not None and self.item is not None:
            outs: list[int] = self.item.outs
            return parent.entry(outs[self.template.out_slots.index(slot)], self.number)
        if slot in self.template.stored_later:
            return self._behind(slot, trip)
        if last and slot in (lasts := self.template.paths[self.taken[trip]].lasts):
            return self.outs[lasts[slot]]
        return self._entry_of(self.stack(self.template.outputs[slot]), trip)

    def _behind(self, slot: int, trip: int) -> int:
        """The node, after the loop, of an array that a trip made and later trips store into."""
        carries = self.template.stored_later[slot]
        age = self.trips - trip
        if age <= len(carries):
            return self.outs[carries[age - 1] - len(self.template.invariants)]
        return self._entry_of(self.outs[self.template.finals[slot]], trip + len(carries))

    def stack(self, output: int) -> int:
        """The node of an output, with a row for each trip."""
        if self.parent is None or self.item is None:
            return self.outs[output]
        stacks = self.parent.template.stacks
        return self._entry_of(self.parent.stack(stacks[self.item.child, output]), self.number)

    def _entry_of(self, stack: int, trip: int) -> int:
        rows = TracedArray(self.trace, stack, self.trace.builder.type(stack))
        node: int = self.log.run(entries[0], (rows, trip), {}).id
        return node

    def place(self, slot: int, trip: int) -> tuple[LoggedLoop | None, int]:
        """The call in the log that made a slot's value in a trip, and the number of its out."""
        if self.parent is None or self.item is None:
            return (None, -1) if self.call is None else (self.call, self.call.number_of(slot, trip))
        if trip < self.trips - 1 or slot not in self.template.out_slots:
            return None, -1
        out = self.item.outs[self.template.out_slots.index(slot)]
        return self.parent.place(out, self.number)

    def take_again(self, handle: TracedArray, item: TemplateCall, arguments: Arguments) -> None:
        """Take a view again, by the arguments of its call."""
        with self.log.innermost():
            outs = self._run(item, *arguments)
        call, _ = self.place(handle.made, -1)
        become(handle, outs[item.outs.index(handle.made)])
        if call is not None:
            self.log.register(call, -1, handle)

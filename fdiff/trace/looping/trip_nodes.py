"""The nodes of a frame's trips: the loop, its rows, and what handles stand for behind it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import fdiff.intact_numpy as np

from ...primitive import FUNCTIONS, PRIMITIVES
from ..array_links import in_memory_order
from ..traced_array import TracedArray
from .call_gates import entries
from .late_handles import StoredInto
from .logged_calls import arguments_of, structure
from .templates import Item, LoopTemplate, Path, Varying
from .trip_checks import become
from .trip_values import TripValues


class FrameLog(Protocol):
    """What a frame asks of the log of calls."""

    trace: Any
    depth: int
    frame: Any
    varying: set[tuple[object, int, int]]
    fewest: int

    def run(self, fn: Any, args: tuple[object, ...], named: dict[str, object], /) -> Any: ...
    def leave(self, frame: Any, /, *, whole: bool = False) -> None: ...
    def forget(self) -> None: ...
    def entered(self, place: Any, trips: int, calls: int, /) -> None: ...
    def outermost(self) -> AbstractContextManager[None]: ...


class TripNodes:
    """What a frame needs to enter nodes: what stands in its slots and rows, after so many trips."""

    log: FrameLog
    template: LoopTemplate
    trace: Any
    items: Sequence[Item]
    trips: int
    count: int
    taken: list[int]
    slots: list[Any]
    rows: list[list[Any]]
    inits: list[TracedArray]
    outs: list[int]
    history: list[list[TracedArray]]
    values: TripValues | None

    def _release(self) -> None:
        """Give what is stored into its own links again."""
        for k in self.template.mutated:
            h = self.slots[k]
            if h is not None and isinstance(h.link, StoredInto) and h.link.frame is self:
                h.link = h.link.link

    def _given(self, item: Item) -> tuple[list[Any], list[Any]]:
        """The handles and values of an item in the trip under way."""
        t = self.trips
        handles = [
            self.rows[s.row][t] if isinstance(s, Varying) else self.slots[s] for s in item.slots
        ]
        values = [self.rows[v.row][t] if isinstance(v, Varying) else v.value for v in item.values]
        return handles, values

    def _carry_on(self, path: Path) -> None:
        """Let what a trip has made be what the next one carries."""
        slots = self.slots
        for target, source in path.moves:
            slots[target] = slots[source]

    def finish(self, items: int) -> None:
        """Enter the loop of the trips so far, and run the first items of the next one again.

        A loop of few calls is unrolled: all of its items are run again.
        """
        self._release()
        template, last = self.template, self.slots[:]
        if self.count < self.log.fewest:
            self.slots[len(template.invariants) : template.first_made] = self.inits
            trips, self.trips = self.trips, 0
            for number, trip_outs in zip(self.taken, self.history[:trips], strict=False):
                self.slots[template.first_made :] = trip_outs
                path = template.paths[number]
                self._run_again(path.items)
                self._carry_on(path)
                self.trips += 1
        elif self.trips:
            self._enter()
        self.slots = last
        self.log.forget()
        self._run_again(self.items[:items])

    def _run_again(self, items: Sequence[Item]) -> None:
        """Run the first items of a trip on handles with nodes; what they made gets nodes so."""
        trace = self.trace
        lines, line, trace.lines = trace.lines, trace.line, False
        try:
            for item in items:
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
        ids = [trace.lift(h) for h in (*self.inits, *stored)]
        if self.values is not None:
            ids.append(trace.builder.constant(np.array(True)))
        carries = len(ids)
        ids += [trace.lift(h) for h in rest]
        ids += [
            self._row(row[:n], type_)
            for row, (type_, *_) in zip(self.rows, template.row_kinds, strict=True)
        ]
        several = len(template.paths) > 1
        if several:
            ids.append(trace.lift(np.array(self.taken[:n])))
        trips = trace.builder.constant(np.array(n))
        params = (
            ("body", template.body), ("carries", carries), ("length", n),
            ("reverse", False), ("rows", len(self.rows) + several),
        )  # fmt: skip
        place = template.items[0].call.place
        node = trace.builder.add(PRIMITIVES["loop"], (trips, *ids), params, place[0])
        self.outs = trace.builder.results(node)
        if self.values is not None:
            self.values.enter(self.outs[:carries])
        for k, h in enumerate(stored, len(self.inits)):
            h.link = None
            h.node = in_memory_order(h, self.outs[k])
        self.log.entered(place, n, template.length)

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
        last = None
        if trip == self.trips - 1:
            last = template.paths[self.taken[trip]].lasts.get(slot)
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

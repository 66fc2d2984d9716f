"""Frames: trips whose calls are only compared with a template: docs/decisions/plain-loops.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ... import user_lines
from ...hooks import Args, Named
from ..array_links import LateLink, ViewLink, outside
from ..masked_parts import MaskedPart, unfilled
from ..node_strides import memory_layout
from ..traced_array import TracedArray
from .inner_frames import end
from .late_handles import LateView, StoredInto, Trip, views_to
from .logged_calls import (
    HANDLE,
    IncomparableError,
    at_place,
    content,
    may_vary,
    rebuilt,
    same,
    taken_apart,
)
from .loop_template import LoopTemplate
from .periods import INDEPENDENT, Shifted, TemplateCall, loop_of
from .trip_checks import (
    FIXED,
    FLOAT_ROW,
    INT_ROW,
    SLICE,
    SLOT,
    Varying,
    agrees,
    belongs,
    is_inside,
    is_sound,
    is_storable,
    may_be_entry,
    names_the_same,
)
from .trip_counts import trip_of
from .trip_nodes import TripNodes
from .trip_values import TripValues

if TYPE_CHECKING:
    from .call_log import CallLog

_new = object.__new__
_ROWS = (FLOAT_ROW, INT_ROW)
FEWEST_NESTED = 300  # calls of a loop in another one, which may come again, from which it is a node
KEPT = 3000  # calls of a loop whose handles are remembered, for reads of them after the loop
MISMATCH = object()  # no result: the call differs from the template's item


class Frame(TripNodes):
    """A template that is being checked: what stands in its slots, and in which trip.

    `at` is the item that is due. The slots of invariants and carries are filled as they are met in
    the first trip, where a template is met again; `bound` tells that they are.
    """

    def __init__(self, log: CallLog, template: LoopTemplate) -> None:
        self.log, self.template = log, template
        self.trace = log.trace
        self.items = template.items
        self.at, self.trips, self.count = 0, 0, 0
        self.path = 0  # of the trip under way, as far as is known
        self.taken: list[int] = []  # the paths of the trips before
        self.slots = [None] * template.size
        self.rows = [[] for _ in template.row_kinds]
        self.inits: list[TracedArray] = []
        self.resumed: list[TracedArray] = []  # the carries after the trips of the log
        self.begun: dict[int, int] = {}
        self.logged = 0
        self.trip = Trip(self, 0)
        self.outs: list[int] = []  # nodes of the outputs of the loop
        self.history: list[list[TracedArray]] = []  # what the first trips made
        self.bound = False
        self.again = True  # whether its template was met again
        self.fewest = min(log.fewest, FEWEST_NESTED) if template.nested else log.fewest
        if template.independent:
            self.fewest *= INDEPENDENT
        self.parent, self.item, self.number, self.limit, self.call = None, None, 0, None, None
        self.first: int | None = None
        self.values = None if template.plan is None else TripValues(self, template.plan)

    def begin(self, carried: Mapping[tuple[int, int, int], TracedArray]) -> bool:
        """Fill the slots from the log; whether the loop can be entered."""
        template = self.template
        filled = [*enumerate(template.invariants)]
        filled += [(slot, carried[key]) for key, slot in template.carries.items()]
        if not all(self._fill(slot, h) for slot, h in filled) or not self._bind():
            self.release()
            return False
        return True

    def _fill(self, slot: int, handle: TracedArray) -> bool:
        """Let a handle stand in the slot of an invariant or a carry, if it can."""
        if self.made(handle) or isinstance(handle, MaskedPart):
            return False
        if (handle.type, handle.scalar, handle.weak) != self.template.kinds[slot]:
            return False
        if not belongs(handle, self.trace):
            return False
        if slot in self.template.views:
            return self._fill_view(slot, handle)
        pinned = self.template.pinned.get(slot)
        if pinned is not None and (handle.home, handle.id) != (self.trace, pinned):
            return False
        if handle.type.ndim > 1 and memory_layout(handle.example()) != self.template.layouts[slot]:
            return False
        if slot in self.template.stored and (
            isinstance(handle.link, (ViewLink, LateLink))
            or outside(handle) is not None
            or handle.home is not self.trace
        ):
            return False
        if self.values is not None:
            self.values.fill(slot, handle)
        self.put(slot, handle)
        return True

    def _fill_view(self, slot: int, handle: TracedArray) -> bool:
        """Fill a slot with a view, if it is the template's view of the slot's array."""
        at, views = self.template.views[slot]
        root = views_to(handle)
        if root is None or root[1] != views:
            return False
        if self.slots[at] is None and not self._fill(at, root[0]):
            return False
        self.slots[slot] = handle
        return self.slots[at] is root[0]

    def put(self, slot: int, handle: TracedArray) -> None:
        """Let a handle stand in a slot, whose node is known to be fit for it."""
        if slot in self.template.stored:
            handle.link = StoredInto(self, handle.link)
        self.slots[slot] = handle

    def made(self, handle: TracedArray) -> bool:
        """Whether a handle was made in these trips, or in the trips of a loop within."""
        frame = getattr(handle.link, "frame", None) if isinstance(handle.link, LateLink) else None
        while frame is not None and frame is not self:
            frame = frame.parent
        return frame is self

    def _bind(self) -> bool:
        """Note that the slots are filled; whether the loop is sound.

        It is sound if no slot views memory that is stored into.
        """
        first = len(self.template.invariants)
        self.inits, self.bound = self.slots[first : self.template.first_made], True
        self.resumed = self.inits
        return is_sound(self)

    # ----------------------------------------------------------------------------------- calls

    def take(self, fn: object, args: Args, named: Named) -> object:
        """The result of a call that is the next one of the template; MISMATCH if it is another."""
        at = self.at
        item = self.items[at]
        if item.fn is not fn:
            return MISMATCH
        slots, quick = self.slots, item.quick
        agree = False
        if quick is not None and len(args) == len(quick) and not named:
            if len(args) == 2:  # as operators have them: without a call
                (first, slot, _), (second, value, kind) = quick
                if first == SLOT and args[0] is slots[slot] and args[0] is not None:
                    b = args[1]
                    if second == SLOT:
                        agree = b is slots[value] and b is not None
                    elif second == FIXED:
                        agree = type(b) is kind and b == value
                    elif second == SLICE:
                        parts = type(b) is slice and (type(b.start), type(b.stop), type(b.step))
                        agree = parts == kind and b == value
            agree = agree or agrees(quick, args, slots)
            if agree and item.varies:
                for a, (way, row, _) in zip(args, quick, strict=True):
                    if way in _ROWS:
                        self.rows[row].append(a)
        if not agree and not (self._fits(item, args, named) and self.log.frame is self):
            return MISMATCH  # or what was compared has ended the checking
        if item.only_out >= 0:
            out = _new(TracedArray)
            out.type, out.scalar, out.weak = item.kind
            out.home = out.born = self.trace
            out.node, out.made = -1, item.only_out
            if not item.views[0]:
                out.link = self.trip
            elif agree and item.has_immutable_arguments:
                out.link = LateView(self.trip, item, (args, named))
            else:
                out.link = LateView(self.trip, item, self.arguments(item))
            slots[item.only_out] = out
        elif item.returned_argument is None:
            return self._accept(item, args, named)
        else:
            out = args[item.returned_argument] if item.returned_argument >= 0 else None
        if at + 1 < len(self.items):
            self.at = at + 1
        else:
            self.advance()
        return out

    def take_content(self, array: np.ndarray) -> object:
        """The handle of an array that is made a traced one; MISMATCH if another call is due."""
        item = self.items[self.at]
        if item.fn is not content or not self.values_fit(item, [array]):
            return MISMATCH
        slot = item.outs[0]
        handle = _new(TracedArray)
        handle.type, handle.scalar, handle.weak = self.template.kinds[slot]
        self._lend(handle, slot)
        self.advance()
        return handle

    def _fits(self, item: TemplateCall, args: Args, named: Named) -> bool:
        """Whether the arguments agree with an item; enters what varies in the rows."""
        handles: list[TracedArray] = []
        values: list[object] = []
        try:
            if taken_apart(args, named, handles, values) != item.call.shape:
                return False
        except IncomparableError:
            return False
        return self.enters(item, handles, values)

    def enters(
        self, item: TemplateCall, handles: Sequence[TracedArray], values: Sequence[object]
    ) -> bool:
        """Whether handles and values agree with an item; enters what varies in the rows."""
        if not self.handles_fit(item, handles) or not self.values_fit(item, values):
            return False
        for h, slot in zip(handles, item.slots, strict=True):
            if isinstance(slot, Varying):
                self.rows[slot.row].append(h)
        return True

    def handles_fit(self, item: TemplateCall, handles: Sequence[TracedArray]) -> bool:
        """Whether handles agree with an item; a handle that is met first is put into its slot."""
        for h, slot in zip(handles, item.slots, strict=True):
            if isinstance(slot, Varying):
                if self.made(h) or not may_be_entry(h, self, slot.row):
                    return False
                continue
            there = self.slots[slot]
            if h is not there and not (
                self._fill(slot, h)
                if there is None
                else slot < len(self.template.invariants) and names_the_same(h, there)
            ):
                return False
        return True

    def values_fit(self, item: TemplateCall, values: Sequence[object]) -> bool:
        """Whether values agree with an item; values that vary go into the rows."""
        start: object = None
        for k, (value, entry) in enumerate(zip(values, item.values, strict=True)):
            if isinstance(entry, Varying):
                if not may_vary(value, self.template.examples[entry.row]) or not is_storable(value):
                    return False
            elif isinstance(entry, Shifted):
                if type(value) is not int or value - entry.by != start:
                    return False
            elif not same(value, entry.value):
                if may_vary(value, entry.value):
                    self.log.varying.add((self.template.key, self.at, k))
                return False
            start = value  # of a slice, whose end comes next
        if item.varies and not is_inside(item, values):
            return False
        for value, entry in zip(values, item.values, strict=True):
            if isinstance(entry, Varying):
                self.rows[entry.row].append(value)
        return True

    def _accept(self, item: TemplateCall, args: Args, named: Named) -> object:
        """The result of a call that fits: handles without nodes."""
        call = item.call
        for slot, origin, view in zip(item.outs, call.origins, item.views, strict=True):
            if origin < 0:
                handle = unfilled(self.template.kinds[slot])
                self._lend(handle, slot)
                if view:
                    handle.link = LateView(self.trip, item, self.arguments(item))
        if call.result[0] == "given":
            out = at_place(call.result[1], args, named)
        elif call.result[0] == "local":
            out = call.result[1].again()
        elif call.result[1] == HANDLE:
            out = self.slots[item.outs[0]]
        else:
            _, shape, values, _ = call.result
            out = rebuilt(shape, iter([self.slots[s] for s in item.outs]), iter(values))
        self.advance()
        return out

    def _lend(self, handle: TracedArray, slot: int) -> None:
        """Put a handle in a slot that gets a node when it is asked for one."""
        handle.home = handle.born = self.log.trace
        handle.node, handle.made = -1, slot
        handle.link = self.trip
        self.slots[slot] = handle

    def advance(self) -> None:
        """Go on to the next item, or to the first one of the next trip."""
        self.at += 1
        if self.at < len(self.items):
            return
        if not self.bound and not self._bind():
            self.at -= 1  # the trip is run again, as far as it is made
            self.log.leave(self, whole=True)
            return
        if self.count < max(self.fewest, KEPT) or (
            self.item is not None and self.item.outs_of_earlier_trips
        ):
            self.history.append(self.slots[self.template.first_made :])
        else:
            for item in self.template.inner:
                self.slots[item.child].drop()
        if self.values is not None:
            self.values.end_trip()
        self.taken.append(self.path)
        self.count += self.at - len(self.template.inner)
        self.at = 0
        self.trips += 1
        own = self.trips == self.logged + 1 and self.parent is None and self.first is not None
        if own and trip_of(loop_of(self.items[0].call)) != (self.first or 0) + self.logged:
            self.first = None  # a trip is not one iteration
        if len(self.template.paths) > 1:
            self._fill_rows()
        self.trip = Trip(self, self.trips)
        if user_lines.at_line is not None:
            user_lines.user_line()  # progress shows where the user's code is
        self.carry_on(self.template.paths[self.path])
        if self.trips == self.limit:
            end(self)

    def end_logged_trip(self) -> None:
        """Go on to the next trip, where all items of one were in the log."""
        self.taken.append(self.path)
        self.trips += 1
        self.logged += 1
        self.trip = Trip(self, self.trips)
        self.carry_on(self.template.paths[self.path])
        self.resumed = self.slots[len(self.template.invariants) : self.template.first_made]

    def _fill_rows(self) -> None:
        """Give rows that the path of a trip does not read an entry."""
        for row, example in zip(self.rows, self.template.examples, strict=True):
            if len(row) < self.trips:
                row.append(example)

    def switch_path(self, question: object, handle: TracedArray, answer: object) -> bool:
        """Go on as a path does that is the same so far, where an answer leads elsewhere."""
        before = self.items[: self.at]
        for number, path in enumerate(self.template.paths):
            items = path.items
            if len(items) > self.at and items[: self.at] == before:
                item = items[self.at]
                same = item.fn is question and self.handles_fit(item, [handle])
                if same and self.values_fit(item, [answer]):
                    self.path, self.items = number, items
                    return True
        return False

"""Loops within loops: an inner loop is one item of the trip around it.

The handles of the item are its carries, its invariants and the handles in its rows; its other
values are the number of trips and the content of the rows. Its results are the handles of its last
trip, and the handles of earlier trips that are read after the loop. Tracing compilers nest the
traces of inner loops likewise (A. Gal et al., Trace-based just-in-time type specialization for
dynamic languages, PLDI 2009, section 4.1): docs/decisions/plain-loops-that-branch.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...primitive import FUNCTIONS, PRIMITIVES
from ..array_links import in_memory_order
from ..derived_lines import PlainLoopLine
from ..recorder import Recorder
from ..traced_array import TracedArray
from .logged_calls import LoggedCall, same

if TYPE_CHECKING:
    from .checked_trips import Frame
    from .loop_template import LoopTemplate

COUNT, EQUAL, TABLE = range(3)  # the forms of a row: start and step; the only entry; all entries


class LoggedLoop(LoggedCall):
    """A loop that was run, as one call; `fn` is its template.

    The first `width` outs belong to the last trip, the next ones to the first trip, and so on.
    `inside` is the number of loops in it, one within the other.
    """

    __slots__ = "frame", "inside", "registered", "size", "trips", "width"

    frame: Frame
    inside: int
    size: int
    registered: list[TracedArray]
    trips: int
    width: int

    @property
    def first(self) -> int | None:
        """The number of the user's iteration that is its first trip, if it is known."""
        return self.frame.first

    def kind(self, out: int) -> tuple[ArrayType, bool, bool] | None:
        return self.types[out % self.width] if 0 <= out < self.width * (1 + self.trips) else None

    def out(self, out: int) -> TracedArray | None:
        """The handle that is an out of the call; None where it is gone."""
        if out < self.width:
            return self.outs[out]
        trip, out = divmod(out - self.width, self.width)
        frame = self.frame
        trip -= frame.logged
        if not 0 <= trip < len(frame.history):
            return None
        slot = frame.template.out_slots[out]
        return frame.history[trip][slot - frame.template.first_made]

    def number_of(self, slot: int, trip: int) -> int:
        """The number of the out that was made in a trip; -1 for a view."""
        slots = self.frame.template.out_slots
        if slot not in slots:
            return -1
        place = slots.index(slot)
        return place if trip == self.trips - 1 else place + self.width * (1 + trip)

    def held(self) -> list[TracedArray]:
        return [*self.outs, *self.registered]


def loop_call(frame: Frame) -> LoggedLoop:
    """The trips of a frame as one call."""
    template = frame.template
    first = template.items[0].call
    call = LoggedLoop()
    call.frame, call.fn, call.trips = frame, template, frame.trips
    call.handles, call.values, forms = contents(frame, ())
    call.place, call.order = first.place, first.order
    call.inside = 1 + max(item.call.inside for item in template.items)
    call.key, call.size = key_of(template), frame.count
    call.shape = ()
    call.result = "loop", forms, len(call.handles)
    call.outs = [_last(frame, slot) for slot in template.out_slots]
    call.width = len(call.outs)
    call.types = [template.kinds[slot] for slot in template.out_slots]
    call.origins = [-1] * len(call.outs)
    call.bases = [[] for _ in call.outs]
    call.writes = [frame.slots[k] for k in template.mutated]
    call.registered = []
    return call


def _last(frame: Frame, slot: int) -> Any:
    """The value of a slot after the last whole trip; None where a trip cut short changed it."""
    first_out = min([slot for item in frame.items[frame.at :] for slot in item.outs], default=slot)
    if not frame.at or slot >= first_out:
        return frame.slots[slot]
    last = frame.template.paths[0].lasts.get(slot)
    return None if last is None else frame.slots[len(frame.template.invariants) + last]


def key_of(template: LoopTemplate) -> object:
    """The key of a loop in the log."""
    return (template,)


def contents(frame: Frame, before: Sequence[int]) -> tuple[list[Any], list[object], list[int]]:
    """The handles of a loop that was run (None if unbound), its other values, its rows' forms.

    Rows keep their forms from `before` where they can.
    """
    handles = [*frame.inits, *frame.slots[: len(frame.template.invariants)]]
    values: list[object] = [frame.trips]
    forms: list[int] = []
    for k, entries in enumerate(frame.rows):
        row = entries[: frame.trips]
        if isinstance(frame.template.examples[k], TracedArray):
            handles += row
            continue
        form = before[len(forms)] if before else None
        form, parts = _row_form(row, form, frame.template.row_kinds[k][0])
        forms.append(form)
        values += parts
    return handles, values, forms


def _row_form(row: Sequence[Any], form: int | None, type_: ArrayType) -> tuple[int, list[object]]:
    """The form of a row, `form` if this is possible, and the values that state the row."""
    if form in (None, COUNT) and all(entry.__class__ is int for entry in row):
        step = row[1] - row[0] if len(row) > 1 else 0
        if all(entry == row[0] + k * step for k, entry in enumerate(row)):
            return COUNT, [row[0] if row else 0, step]
    if form in (None, EQUAL) and row and all(same(entry, row[0]) for entry in row[1:]):
        return EQUAL, [row[0]]
    return TABLE, [np.array(row, type_.dtype).reshape((len(row), *type_.shape))]


def rows_of(
    template: LoopTemplate,
    forms: Sequence[int],
    handles: Sequence[TracedArray],
    values: Sequence[Any],
    length: int,
) -> list[object]:
    """The rows of a loop, from the handles and values in its call."""
    rows: list[object] = []
    handles, values, forms = [*handles], [*values], [*forms]
    for example, (type_, *_) in zip(template.examples, template.row_kinds, strict=True):
        if isinstance(example, TracedArray):
            rows.append(FUNCTIONS[np.stack](handles[:length]))
            del handles[:length]
            continue
        form = forms.pop(0)
        entry = values.pop(0)
        if form == COUNT:
            row: object = entry + values.pop(0) * np.arange(length)
        elif form == EQUAL and isinstance(entry, TracedArray):
            row = FUNCTIONS[np.broadcast_to](entry, (length, *type_.shape))
        elif form == EQUAL:
            row = np.full((length, *type_.shape), entry, type_.dtype)
        else:
            row = entry
        rows.append(row)
    return rows


def loop_node(
    trace: Recorder,
    template: LoopTemplate,
    handles: Sequence[TracedArray],
    rows: Sequence[object],
    trips: TracedArray | int,
    length: int,
    first: int | None,
    begun: Mapping[int, int] = MappingProxyType({}),
) -> list[int]:
    """The outputs of the node of a loop; arrays that it stores into get their nodes after it.

    `handles` are its carries and then its invariants; `begun` are the nodes, by id of handles, from
    before stores of its trips. The user's iteration with number `first` is its first trip.
    """
    carries = len(template.carries)
    stored = [handles[carries + k] for k in template.mutated]
    rest = [h for k, h in enumerate(handles[carries:]) if k not in template.mutated]
    own = [*handles[:carries], *stored]
    ids = [begun[id(h)] if id(h) in begun else trace.lift(h) for h in own]
    if template.plan is not None:  # that all answers agree
        ids.append(trace.builder.constant(np.array(True)))
    carried = len(ids)
    ids += [trace.lift(h) for h in rest]
    ids += [trace.lift(row) for row in rows]
    count = (
        trace.lift(trips)
        if isinstance(trips, TracedArray)
        else trace.builder.constant(np.array(trips))
    )
    params = (
        ("body", template.body), ("carries", carried), ("length", length),
        ("reverse", False), ("rows", len(rows)),
    )  # fmt: skip
    place = PlainLoopLine.of(template.items[0].call.place[0], first)
    outs = trace.builder.results(
        trace.builder.add(PRIMITIVES["loop"], (count, *ids), params, place)
    )
    for k, h in enumerate(stored, carries):
        h.link = None
        h.node = in_memory_order(h, outs[k])
    return outs

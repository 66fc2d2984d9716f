"""Trips that frames take from the log, and enter there: docs/decisions/plain-loops.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..traced_array import TracedArray
from .checked_trips import Frame
from .logged_calls import LoggedCall, bases_of, memory_of
from .loop_template import LoopTemplate, UnrolledError
from .nested_loops import LoggedLoop, loop_call
from .periods import TemplateCall, loop_of
from .trip_counts import trip_of

if TYPE_CHECKING:
    from .call_log import CallLog

Carry = tuple[int, int, int]  # the lag, the call and which of its outs

# ------------------------------------------------------------------------- from the log to a frame


def frame_after_logged_trips(log: CallLog, template: LoopTemplate, first: int, trips: int) -> Frame:
    """A frame that goes on after the last trip in the log; UnrolledError where that cannot be.

    The last one of some equal `trips` in the log begins with the call that has number `first`. They
    are trips of the frame already, as many as can be told: their nodes are needed no more.
    """
    calls, p = log.calls, template.length
    now = template.handed_on(calls, first)
    for n in range(trips if _takes_logged(template) else 0, -1, -1):
        carried = template.handed_on(calls, first - n * p)
        if carried is None or now is None:
            continue
        frame = log.framed(template)
        frame.again = False
        logged = [calls[k] for k in range(first - (n - 1) * p, first + p)]
        if frame.begin(carried) and (not n or _takes(frame, logged, now)):
            trip = trip_of(loop_of(calls[first]))
            begun = -1 if trip is None else trip + (not log.pending) - n
            frame.first = None if begun < 0 else begun
            return frame
        frame.release()
        frame.drop()
    raise UnrolledError("its iterations hand on other arrays")


def _takes_logged(template: LoopTemplate) -> bool:
    """Whether a frame of a template may begin with trips that are in the log."""
    return not (
        template.nested
        or template.inner
        or template.stored_later
        or template.plan is not None
        or len(template.paths) > 1
    )


def _takes(frame: Frame, calls: Sequence[LoggedCall], carried: Mapping[Carry, TracedArray]) -> bool:
    """Let a frame take calls in the log for its first trips; whether all of them fit.

    Its carries are then the values after these trips.
    """
    template, path = frame.template, frame.template.paths[0]
    if not _note_nodes(frame, calls):
        return False
    for begin in range(0, len(calls), template.length):
        own = {id(h): slot for slot, h in enumerate(frame.slots)}
        for item, call in zip(path.items, calls[begin : begin + template.length], strict=True):
            if _sign(call) != _sign(item.call) or not frame.enters(item, call.handles, call.values):
                return False
            for slot, origin, h in zip(item.outs, call.origins, call.outs, strict=True):
                if origin < 0:
                    frame.slots[slot] = h
                    own[id(h)] = slot
            if memory_of(call, own) != memory_of(item.call, path.slot_of):
                return False
        frame.end_logged_trip()
    return all(h is carried[key] for h, key in zip(frame.resumed, template.carries, strict=True))


def _sign(call: LoggedCall) -> tuple[object, ...]:
    """The facts about a call that are the same in all trips."""
    return call.fn, call.shape, call.result, call.origins, call.types


def _note_nodes(frame: Frame, calls: Sequence[LoggedCall]) -> bool:
    """Note the nodes that arrays stored into had before the calls; whether all are known."""
    stored = {*map(id, frame.stored())}
    for call in calls:
        for h in call.writes:
            if id(h) in stored:
                frame.begun.setdefault(id(h), call.before.get(id(h), -1))
    return min(frame.begun.values(), default=0) >= 0


# ------------------------------------------------------------------------- from a frame to the log


def log_again(log: CallLog, frames: Sequence[Frame]) -> None:
    """Log the trips of frames, the innermost first, and the items of those that were cut short."""
    # Where it is asleep, what comes next is not logged either; loops that ask are no items.
    if not log.awake or any(frame.values is not None for frame in frames):
        log.forget()
        return
    if any(frame.logged for frame in frames):
        log.forget()  # calls that are trips of the loop
    calls: list[LoggedCall] = []
    for frame in reversed(frames):
        if frame.trips and frame.bound:
            calls.append(loop_call(frame))
        for item in frame.items[: frame.at]:
            inner = None if item.inner is None else frame.slots[item.child]
            calls.append(_call(frame, item) if inner is None else loop_call(inner))
    for call in calls:
        log.append(call)
        if isinstance(call, LoggedLoop):
            call.frame.call = call
            log.learned = 0
            _register_unrolled(log, call)
    if calls:
        log.pending = True
        log.search()
        log.pending = False


def _call(frame: Frame, item: TemplateCall) -> LoggedCall:
    """An item of a trip that was cut short, as a call."""
    call, old = LoggedCall(), item.call
    call.handles, call.values = frame.operands(item)
    call.fn, call.key, call.place, call.order = item.fn, old.key, old.place, old.order
    call.shape, call.result, call.origins, call.types = (
        old.shape,
        old.result,
        old.origins,
        old.types,
    )
    call.outs = [frame.slots[slot] for slot in item.outs]
    call.writes = [frame.slots[frame.template.paths[frame.path].slot_of[id(h)]] for h in old.writes]
    call.before = {}
    call.bases = [bases_of(h) for h in call.outs]
    return call


def _register_unrolled(log: CallLog, call: LoggedLoop) -> None:
    """Let what the trips of a loop made be known, where they were unrolled."""
    frame = call.frame
    if frame.outs:
        return
    first, slots = frame.template.first_made, frame.template.out_slots
    last = call.trips - 1
    for trip, handles in zip(range(frame.logged, last), frame.history, strict=False):
        for place, slot in enumerate(slots):
            log.register(call, call.width * (1 + trip) + place, handles[slot - first])

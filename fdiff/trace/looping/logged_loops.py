"""What was compared, logged again as a loop is left: docs/decisions/plain-loops-that-branch.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .logged_calls import LoggedCall, bases_of
from .nested_loops import LoggedLoop, loop_call
from .periods import Item


def log_again(log: Any, frames: Sequence[Any]) -> None:
    """Log the trips of frames, the innermost first, and the items of those that were cut short."""
    # Where it is asleep, what comes next is not logged either; loops that ask are no items.
    if not log.awake or any(frame.values is not None for frame in frames):
        log.forget()
        return
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


def _call(frame: Any, item: Item) -> LoggedCall:
    """An item of a trip that was cut short, as a call."""
    call, old = LoggedCall(), item.call
    call.handles, call.values = frame.given(item)
    call.fn, call.key, call.place, call.order = item.fn, old.key, old.place, old.order
    call.shape, call.result, call.origins, call.types = (
        old.shape,
        old.result,
        old.origins,
        old.types,
    )
    call.outs = [frame.slots[slot] for slot in item.outs]
    call.writes = [frame.slots[frame.template.paths[frame.path].slot_of[id(h)]] for h in old.writes]
    call.bases = [bases_of(h) for h in call.outs]
    return call


def _register_unrolled(log: Any, call: LoggedLoop) -> None:
    """Let what the trips of a loop made be known, where they were unrolled."""
    frame = call.frame
    if frame.outs:
        return
    first, slots = frame.template.first_made, frame.template.out_slots
    for trip, handles in enumerate(frame.history[: call.trips - 1]):
        for place, slot in enumerate(slots):
            log.register(call, call.width * (1 + trip) + place, handles[slot - first])

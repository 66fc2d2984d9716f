"""Frames of inner loops in a trip that is checked: docs/decisions/plain-loops-that-branch.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..array_links import ViewLink
from .late_handles import LateView
from .nested_loops import LoggedLoop, contents, key_of
from .periods import Fixed, TemplateCall, Varying

if TYPE_CHECKING:
    from .call_log import CallLog
    from .checked_trips import Frame


def chain(frame: Frame | None) -> list[Frame]:
    """A frame, the one around it, and so on."""
    frames: list[Frame] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.parent
    return frames


def begin(parent: Frame, item: TemplateCall) -> Frame | None:
    """The frame of an inner loop that is due; None if it cannot be entered."""
    template = item.inner
    assert template is not None
    child = parent.log.framed(template)
    trips = item.values[0]
    child.parent, child.item, child.number = parent, item, parent.trips
    assert isinstance(item.call, LoggedLoop)
    child.first = item.call.first
    limit = trips.value if isinstance(trips, Fixed) else None
    child.limit = limit if isinstance(limit, int) else None
    carries = [*template.carries.values()]
    for source, slot in zip(item.slots, [*carries, *range(len(template.invariants))], strict=False):
        handle = None if isinstance(source, Varying) else parent.slots[source]
        if handle is None:
            continue
        if slot in template.mutated and isinstance(handle.link, (ViewLink, LateView)):
            break
        child.put(slot, handle)
    else:
        if template.reentrant or all(child.slots[slot] is not None for slot in carries):
            return child
    child.release()
    child.drop()
    return None


def accept(parent: Frame, child: Frame) -> bool:
    """Whether a loop that was run is what a frame has next; if so, it goes on."""
    item = parent.items[parent.at]
    if item.inner is not child.template:
        return False
    child.release()
    if not child.trips and not child.bound:
        first = len(child.template.invariants)
        child.inits = inits = child.slots[first : child.template.first_made]
        if any(h is None for h in inits):
            return False
    handles, values, forms = contents(child, item.call.result[1])
    if forms != item.call.result[1] or len(handles) != len(item.slots):
        return False
    if any(h is None for h in handles) or not parent.enters(item, handles, values):
        return False
    template = child.template
    for inner_slot, slot in zip(template.out_slots, item.outs, strict=False):
        if child.trips:
            parent.slots[slot] = child.slots[inner_slot]
        else:
            last = template.paths[0].lasts.get(inner_slot)
            parent.slots[slot] = None if last is None else child.inits[last]
    for trip, place, slot in item.outs_of_earlier_trips:
        held = child.history[trip] if trip < len(child.history) else None
        number = template.out_slots[place] - template.first_made
        parent.slots[slot] = None if held is None else held[number]
    k = parent.template.inner.index(item)
    if child.trips > parent.template.lengths[k]:
        parent.template.lengths[k], parent.template.short = child.trips, True
    child.parent, child.item, child.number = parent, item, parent.trips
    parent.slots[item.child] = child
    parent.count += child.count
    parent.log.frame = parent
    parent.advance()
    return True


def end(child: Frame) -> None:
    """End an inner loop whose trips have all been run."""
    assert child.parent is not None
    if not accept(child.parent, child):
        child.log.leave(child)


def switch_frame(log: CallLog, take: Callable[[Frame], object], mismatch: object) -> object:
    """The result of a call that begins or follows an inner loop; `mismatch` for other calls.

    `take` compares it with what is due in a frame.
    """
    frame = log.frame
    assert frame is not None
    for _ in range(2 * frame.template.size):
        item = frame.items[frame.at]
        if item.inner is not None:
            child = begin(frame, item)
            if child is None:
                return mismatch
            log.frame = frame = child
        elif frame.at or frame.limit is not None or not _leave_to_parent(log, frame):
            return mismatch
        else:
            frame = log.frame
            assert frame is not None
        out = take(frame)
        if out is not mismatch:
            return out
        if log.frame is not frame:
            return mismatch
    return mismatch


def _leave_to_parent(log: CallLog, frame: Frame) -> bool:
    """Whether the loop around goes on, or one begins whose first item is the loop that was run.

    That loop was its last item, too, if no frame is left.
    """
    if frame.parent is not None:
        return accept(frame.parent, frame) and log.frame is not None
    template = log.templates.get(key_of(frame.template)) if frame.trips else None
    if template is None or frame.logged:
        return False
    outer = log.framed(template)
    if accept(outer, frame):
        return log.frame is not None
    outer.release()
    frame.parent = frame.item = None
    return False

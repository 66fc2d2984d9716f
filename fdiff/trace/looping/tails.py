"""Slices whose length changes from trip to trip, of which entries or windows are taken.

``x[k:][a:b]`` is logged and compared as ``x[k + a:k + b]``, and ``x[k:][i]`` as ``x[k + i]``. The
slice itself, a *tail*, is no call of the log. While calls are compared, it is a late view. Why a
tail is no call: docs/decisions/plain-loops.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...arraytype import ArrayType
from ...hooks import Args
from ..recorder import Handle
from ..traced_array import TracedArray
from .call_gates import entries
from .checked_trips import MISMATCH
from .late_handles import LateView, Trip
from .periods import Place, user_place
from .trip_checks import become

if TYPE_CHECKING:
    from .call_log import CallLog


class TailLink(LateView):
    """The link of a tail, which is taken from its array when it is needed."""

    __slots__ = ()

    def __init__(self, trip: Trip, args: Args) -> None:
        self.trip, self.given = trip, (args, {})

    def settle(self, handle: Handle) -> None:
        log = self.frame.log
        log.leave(self.frame)
        if handle.link is self:
            with log.innermost():
                become(handle, log.run(entries[0], *self.given))


class Tails:
    """The tails in one trace, and the places in the user's code where their begins vary.

    `last` is the last tail, with its array, the index at which it begins, and its place.
    """

    def __init__(self) -> None:
        self.starts: dict[Place, int] = {}
        self.varying: set[Place] = set()
        self.never: set[Place] = set()  # where tails were used otherwise
        self.last: tuple[TracedArray, TracedArray, int, Place] | None = None

    def joined(self, args: tuple[object, ...]) -> tuple[object, ...]:
        """The arguments of a call by key; reads of the last tail become reads of its array."""
        if self.last is None or args[0] is not self.last[0]:
            return args
        tail, array, start, _ = self.last
        key = _joined(start, tail.shape[0], args[1])
        return args if key is None else (array, key, *args[2:])

    def logged(self, log: CallLog, args: tuple[Any, ...]) -> TracedArray | None:
        """The tail that a logged call takes; None if it takes none."""
        if not _is_tail(args):
            return None
        place, start = user_place(), args[1].start
        if place not in self.varying:
            if place in self.never or self.starts.setdefault(place, start) == start:
                return None
            self.varying.add(place)
        tail: TracedArray = log.run(entries[0], args, {})
        self.last = tail, args[0], start, place
        return tail

    def compared(self, log: CallLog, args: tuple[Any, ...]) -> object:
        """The tail that a compared call takes; MISMATCH if it takes none."""
        if not self.varying or not _is_tail(args) or args[0].home is not log.trace:
            return MISMATCH
        assert log.frame is not None
        place, (array, key) = user_place(), args
        if place not in self.varying:
            return MISMATCH
        rows, *rest = array.type.shape
        tail = TracedArray(log.trace, -1, ArrayType((rows - key.start, *rest), array.type.dtype))
        tail.link = TailLink(log.frame.trip, args)
        self.last = tail, array, key.start, place
        return tail

    def note_use(self, handles: list[TracedArray]) -> None:
        """Note the place of a tail that is used otherwise than as an array that is indexed.

        No tail is made there again.
        """
        if self.last is not None and any(h is self.last[0] for h in handles):
            self.varying.discard(self.last[3])
            self.never.add(self.last[3])


def _is_tail(args: tuple[Any, ...]) -> bool:
    array, key = args
    return (
        key.__class__ is slice
        and key.start.__class__ is int
        and key.stop is key.step is None
        and array.type.ndim > 0
        and 0 <= key.start <= array.type.shape[0]
    )


def _joined(start: int, length: int, key: Any) -> object:
    """The key of the array for a key of its tail; None where there may be none."""
    first, *rest = key if key.__class__ is tuple and key else (key,)
    if first.__class__ is int and 0 <= first < length:
        first = start + first
    elif first.__class__ is slice and first.stop.__class__ is int and 0 <= first.stop <= length:
        begin = 0 if first.start is None else first.start
        step = 1 if first.step is None else first.step
        if begin.__class__ is not int or step.__class__ is not int or begin < 0 or step < 1:
            return None
        first = slice(start + begin, start + first.stop, first.step)
    else:
        return None
    return (first, *rest) if key.__class__ is tuple else first

"""Handles without nodes yet: what was made, or may have been stored into, while calls were checked.

A request for the node of such a handle ends the checking. The node of a handle from the last trip
is a last carry of the loop, from another one a row of its outs; a view is taken again. Our own
method: docs/decisions/plain-loops.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...arraytype import ArrayType
from ...primitive import Primitive
from ...tape import Params
from ..array_links import LateLink, ViewLink
from ..recorder import Handle, Link, Recorder
from ..traced_array import TracedArray
from .logged_calls import Arguments

if TYPE_CHECKING:
    from .checked_trips import Frame
    from .periods import TemplateCall

# A view: its primitive and parameters, whether it is fixed, the key that gives it, and its kind.
View = tuple[Primitive, Params, bool, tuple[int | slice, ...], tuple[ArrayType, bool, bool]]


class Trip(LateLink):
    """The handle was made in a trip of a frame: by the out of its template at ``handle.made``."""

    __slots__ = ("frame", "number")

    def __init__(self, frame: Frame, number: int) -> None:
        self.frame, self.number = frame, number

    def settle(self, handle: Handle) -> None:
        self.frame.log.leave(self.frame)
        if handle.link is self:
            assert isinstance(handle, TracedArray)
            self.frame.settle(handle, self.number)


class LateView(LateLink):
    """The handle is a view, to be taken again by the arguments that the call was given."""

    __slots__ = ("given", "item", "trip")

    def __init__(self, trip: Trip, item: TemplateCall, arguments: Arguments) -> None:
        self.trip, self.item, self.given = trip, item, arguments

    @property
    def frame(self) -> Frame:
        return self.trip.frame

    def settle(self, handle: Handle) -> None:
        frame = self.trip.frame
        frame.log.leave(frame)
        if handle.link is self:
            assert isinstance(handle, TracedArray)
            frame.take_again(handle, self.item, self.given)


class StoredInto(LateLink):
    """The handle, made before the loop, is stored into in it; `link` is what it had."""

    __slots__ = ("frame", "link")

    def __init__(self, frame: Frame, link: Link | None) -> None:
        self.frame, self.link = frame, link

    def settle(self, handle: Handle) -> None:
        self.frame.log.leave(self.frame)
        if handle.link is self:
            handle.link = self.link


def views_to(handle: TracedArray) -> tuple[TracedArray, list[View]] | None:
    """The base of a handle and its views, the last one first; asks for no node.

    None where NumPy may have copied instead.
    """
    views = []
    while isinstance(link := handle.link, ViewLink):
        if link.extra or link.primitive.structure.layout.may_copy:
            return None
        kind = handle.type, handle.scalar, handle.weak
        views.append((link.primitive, link.params, link.fixed, link.part, kind))
        handle = link.parent
    return handle, views


def viewed_again(trace: Recorder, handle: TracedArray, views: Sequence[View]) -> TracedArray:
    """Take these views of another handle."""
    for primitive, params, fixed, part, kind in reversed(views):
        node = trace.add(primitive, (handle.id,), params)
        type_, scalar, weak = kind
        view = TracedArray(trace, node, type_, scalar=scalar, weak=weak)
        view.link = ViewLink(handle, primitive, params, handle.node, fixed=fixed, part=part)
        handle = view
    return handle

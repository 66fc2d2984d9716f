"""Views and stores: the links between a traced array and its node.

A traced array is a handle that names a node. A store puts another node behind the handle; a view
recomputes its node when the handle it was taken from has changed (`ViewLink.current`). NumPy itself
decides what is a view and what a copy: it is asked on arrays of the same strides whose memory is
never touched (`Handle.example`). Single entries that are stored wait in `PendingStores` until the
array is read, and then become one node.
"""

from __future__ import annotations

from typing import cast

import fdiff.intact_numpy as np

from ..arraytype import example_of
from ..device_arrays import DeviceArray
from ..primitive import Primitive
from ..tape import Params
from .node_strides import slowest_first
from .recorder import Handle, Recorder
from .trace_stack import stack
from .traced_array import TracedArray

SMALL = 4096  # the positions of a view's entries are computed up to this size


class CapturedLink:
    """The handle stands for an array that `f` captures; stores go there when the run is over."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray | DeviceArray) -> None:
        self.array = array

    @property
    def writeable(self) -> bool:
        """Whether NumPy would store there; a store to an array on a GPU is refused later."""
        return isinstance(self.array, DeviceArray) or self.array.flags.writeable

    def current(self, handle: Handle) -> int:
        return handle.node

    def example(self, handle: Handle) -> np.ndarray | None:
        if not handle.type.shape:
            return None
        return example_of(handle.type, handle.home.layouts.of_input(handle.made))


class ViewLink:
    """The handle is a view of `parent`: ``primitive(parent, *extra, **params)``.

    A view that is `fixed` cannot be written to. `part` is a key that gives a view of the same
    strides, of a primitive that copies in NumPy.
    """

    __slots__ = ("extra", "fixed", "flat", "params", "parent", "part", "primitive", "seen")

    def __init__(
        self,
        parent: TracedArray,
        primitive: Primitive,
        params: Params,
        seen: int,
        extra: tuple[int, ...] = (),
        *,
        fixed: bool = False,
        part: tuple[int | slice, ...] = (),
    ) -> None:
        self.parent = parent
        self.primitive = primitive
        self.params = params
        self.seen = seen
        self.extra = extra
        self.fixed = fixed
        self.part = part
        self.flat: np.ndarray | None = None

    def current(self, handle: Handle) -> int:
        """The node of the view as the parent is now."""
        above = self.parent
        simple = above.link is None and above.home is handle.home
        parent = above.node if simple else handle.home.own(above)
        if parent != self.seen:
            if is_copy(handle):
                handle.link = None
                return handle.node
            args = (parent, *self.extra)
            handle.node = handle.home.add(self.primitive, args, self.params)
            self.seen = parent
        return handle.node

    def example(self, handle: Handle) -> np.ndarray:
        if self.part:
            return self.parent.example()[self.part]
        if self.extra:  # picked by index arrays: entries at a distance from one another
            apart = np.empty(tuple(2 * n for n in handle.type.shape), handle.type.dtype)
            return apart[(slice(None, None, 2),) * handle.type.ndim]
        if is_copy(handle):
            return np.empty(handle.type.shape, handle.type.dtype)
        return self.of_array(self.parent.example())

    def of_array(self, array: np.ndarray) -> np.ndarray:
        """The view taken of a concrete array, by NumPy."""
        if part := self.primitive.structure.layout.part:
            return getattr(array, part)
        return cast("np.ndarray", self.primitive.rules.evaluate(array, **dict(self.params)))


class LateLink:
    """The handle has no node yet: it gets one when it is asked for (`looping/late_handles.py`)."""

    __slots__ = ()

    def settle(self, handle: Handle, /) -> None:
        """Give the handle its node, and another link."""
        raise NotImplementedError

    def current(self, handle: Handle) -> int:
        if not _is_under_way(handle.home):
            return handle.node
        self.settle(handle)
        return handle.id

    def example(self, handle: Handle) -> np.ndarray | None:
        if not _is_under_way(handle.home):
            return None
        self.settle(handle)
        return handle.example()


def _is_under_way(home: Recorder) -> bool:
    """Whether a trace is one of this thread; in another thread its loops are left alone."""
    return home.alive and any(trace.builder is home.builder for trace in stack.traces)


class PendingStores:
    """Single entries stored into a handle that is no view, by position; not yet one node."""

    __slots__ = ("before", "entries")

    def __init__(self, before: CapturedLink | None) -> None:
        self.before = before
        self.entries: dict[int, int] = {}

    def current(self, handle: Handle) -> int:
        """The node with all entries stored."""
        node = handle.home.store(handle.node, handle.type, self.entries)
        handle.link = self.before
        handle.node = in_memory_order(handle, node)
        return handle.node

    def example(self, handle: Handle) -> np.ndarray | None:
        return None if self.before is None else self.before.example(handle)


def settled(handle: Handle) -> Handle:
    """The handle, whose link says what it is."""
    if isinstance(handle.link, LateLink):
        handle.link.current(handle)
    return handle


def outside(handle: Handle) -> CapturedLink | None:
    """The link to the captured array that a handle stands for, if it does."""
    link = settled(handle).link
    link = link.before if isinstance(link, PendingStores) else link
    return link if isinstance(link, CapturedLink) else None


def is_copy(handle: Handle) -> bool:
    """Whether NumPy would have copied instead of viewing; of all views only a reshape may."""
    view = settled(handle).link
    if not isinstance(view, ViewLink) or not view.primitive.structure.layout.may_copy:
        return False
    if handle.type.size == 0 or max(view.parent.ndim, 1) == 1 == handle.type.ndim:
        return False
    source = view.parent.example()
    return not np.shares_memory(source, view.of_array(source))


def memory_axes(x: Handle) -> list[int]:
    """The axes of `x` from the slowest to the fastest in memory."""
    return slowest_first(x.example().strides)


def in_memory_order(handle: Handle, node_id: int) -> int:
    """Node to be put behind `handle`, its entries in the order in memory that the handle has.

    A store changes entries and not where they are: later views of the handle depend on that.
    """
    trace = handle.home
    if handle.type.ndim < 2 or not trace.mutable:
        return node_id
    node = trace.builder.nodes[node_id]
    if node.primitive.structure.layout.strides == "update" and node.args[0] == handle.id:
        return node_id
    viewed = isinstance(handle.link, ViewLink)
    axes = memory_axes(handle) if viewed else trace.layouts.axes(handle.made)
    return trace.copy_in_order(node_id, axes)


def positions(handle: TracedArray) -> tuple[TracedArray, np.ndarray] | None:
    """The handle whose memory a view looks at, and where in it; None for a large one."""
    view = settled(handle).link
    if not isinstance(view, ViewLink):
        if handle.type.size > SMALL:
            return None
        return handle, np.arange(handle.type.size).reshape(handle.shape)
    if view.extra or view.primitive.structure.layout.part or is_copy(handle):
        return None
    above = positions(view.parent)
    if above is None:
        return None
    if view.flat is None:
        view.flat = view.of_array(above[1])
    return above[0], view.flat


def root_of(handle: TracedArray) -> TracedArray:
    """The handle whose memory this one looks at: itself if it is no view."""
    while isinstance(link := settled(handle).link, ViewLink) and not is_copy(handle):
        handle = link.parent
    return handle

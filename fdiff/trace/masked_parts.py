"""Entries picked by a traced mask, ``x[mask]``, as long as nobody asks how many they are.

``x[mask] -= c`` reads such a part, computes with it, and stores it by the same mask. None of that
depends on how many entries the mask picks, so it is a `where` of whole arrays
(`ops/shapes/masked_entries.py`). A part is settled as soon as its shape or its node is asked for:
it becomes an ordinary traced array, and the mask is looked at, which is a guard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import fdiff.intact_numpy as np

from ..arraytype import BOOL, ArrayType
from ..foreign_errors import hiding, whole_exit
from ..hooks import hooks
from ..named_tuples import NamedTuple
from ..primitive import UFUNCS
from .array_links import LateLink
from .recorder import Handle, Recorder, leaked
from .trace_stack import stack
from .traced_array import TracedArray

DEPTH = 8  # ufuncs that a part is made by at most


class MaskedType(NamedTuple):
    """What stands for the type of a part: the type of the whole array, and the axes of the mask."""

    whole: ArrayType
    axis: int
    ndim: int

    def parts(self) -> tuple[ArrayType, ArrayType]:
        """The types of the whole array and of the mask."""
        shape = self.whole.shape[self.axis : self.axis + self.ndim]
        return self.whole, ArrayType(shape, BOOL)

    @property
    def behind(self) -> int:
        """The number of axes after the axes of the mask."""
        return len(self.whole.shape) - self.axis - self.ndim


class MaskedPart(TracedArray):
    """A part by a mask. Its slot `type` is empty until the part is settled."""

    __slots__ = ()

    @hiding
    def __getattr__(self, name: str) -> object:
        if name != "type":
            return super().__getattr__(name)
        settle(self)
        return self.type


MaskedPart.__name__ = TracedArray.__name__  # Python's TypeErrors name it; `tracebacks` reads them


class MaskedLink:
    """The handle is a part: entries of ``operands[0]``, or what a ufunc makes of its operands.

    The operands are arrays as they were then, numbers, and links of parts by the same `mask`. A
    ufunc or a store uses a part once. At the second use it is settled, so that no long chain of
    ufuncs waits, and a part from before a loop is an ordinary array in the loop.
    """

    __slots__ = ("depth", "mask", "operands", "type", "ufunc", "used")

    def __init__(
        self,
        mask: TracedArray,
        type_: MaskedType,
        operands: tuple[TracedArray, ...],
        ufunc: np.ufunc | None = None,
    ) -> None:
        self.mask, self.type, self.operands, self.ufunc = mask, type_, operands, ufunc
        self.depth = 1 + max([o.depth for o in operands if isinstance(o, MaskedLink)], default=0)
        self.used = False

    def whole(self) -> TracedArray:
        """The array of which the part is picked."""
        return self._computed(MaskedLink.whole)

    def picked(self) -> TracedArray:
        """The part, by a mask that is looked at."""
        if self.ufunc is None:
            return hooks.pick(self.operands[0], self.type.axis, self.mask)
        return self._computed(MaskedLink.picked)

    def _computed(self, operand: Callable[[MaskedLink], TracedArray]) -> TracedArray:
        values = [operand(o) if isinstance(o, MaskedLink) else o for o in self.operands]
        return cast("TracedArray", UFUNCS[self.ufunc](*values) if self.ufunc else values[0])

    def is_by(self, mask: TracedArray, type_: MaskedType) -> bool:
        """Whether it is picked by a mask, of an array of such a type."""
        return (
            self.mask.home is mask.home
            and self.mask.id == mask.id
            and self.type._replace(whole=type_.whole) == type_
            and self.type.whole.shape == type_.whole.shape
        )

    def current(self, handle: Handle) -> int:
        settle(handle)
        return handle.id

    def example(self, handle: Handle) -> np.ndarray:
        settle(handle)
        return handle.example()


def kind_of(handle: TracedArray) -> tuple[Any, bool, bool]:
    """The type of a handle, or what stands for it, and whether it is a scalar, or weak."""
    link = handle.link
    return link.type if isinstance(link, MaskedLink) else handle.type, handle.scalar, handle.weak


def masked_part(trace: Recorder, link: MaskedLink) -> TracedArray:
    """A new part."""
    part = unfilled((link.type, False, False))
    part.home = part.born = trace
    part.node = part.made = -1
    part.link = link
    return part


def unfilled(kind: tuple[ArrayType | MaskedType, bool, bool]) -> TracedArray:
    """A handle of a kind that has no node, and no link."""
    type_, scalar, weak = kind
    handle = object.__new__(MaskedPart if isinstance(type_, MaskedType) else TracedArray)
    handle.scalar, handle.weak = scalar, weak
    if not isinstance(type_, MaskedType):
        handle.type = type_
    return handle


def link_of(x: object) -> MaskedLink | None:
    """The link of a part; None of any other value, also of a part that has been settled."""
    if not isinstance(x, MaskedPart):
        return None
    if isinstance(x.link, LateLink) and x.home.alive:
        x.link.settle(x)
    return x.link if isinstance(x.link, MaskedLink) else None


def settle(part: Handle) -> None:
    """Let a part be an ordinary traced array, whose entries are picked by a guarded mask."""
    if (link := link_of(part)) is None:
        return
    trace = part.home
    if not trace.alive or all(t.builder is not trace.builder for t in stack.traces):
        raise leaked(part)
    with Innermost(trace):
        become_array(part, link.picked())


def become_array(part: Handle, array: TracedArray) -> None:
    """Let a part be what an array is."""
    part.__class__ = TracedArray
    part.type, part.link = array.type, None
    part.node = part.made = array.id


class Innermost:
    """A context in which a trace is the innermost one, whatever runs inside of it.

    What is called there are no calls of the user's.
    """

    def __init__(self, trace: Recorder) -> None:
        self.trace = trace

    def __enter__(self) -> None:
        self.traces, self.log = stack.traces, self.trace.calls
        builder = self.trace.builder
        place = [trace.builder is builder for trace in self.traces].index(True)
        stack.traces = [*self.traces[:place], self.trace]
        if self.log is not None:
            self.log.depth += 1

    @whole_exit
    def __exit__(self, *_: object) -> None:
        stack.traces = self.traces
        if self.log is not None:
            self.log.depth -= 1

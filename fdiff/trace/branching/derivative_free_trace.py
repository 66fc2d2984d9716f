"""A trace under way as it is seen where gradients are off: nothing entered has a derivative.

`DerivativeFreeTrace` shares every attribute with the trace that it is made of, its nodes too, and
takes its place in the stack of traces. A traced array from before belongs to another trace object,
so each use of it asks `own`, which puts a ``stop_gradient`` in between. Arrays made meanwhile
belong to this object, and are used as they are. Traces without such a block pay nothing. Source:
torch's note "Autograd mechanics", section "Locally disabling gradient computation".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from ...primitive import PRIMITIVES
from ..array_links import ViewLink
from ..eager.eager_trace import EagerTrace
from ..ordinary_trace import Trace
from ..recorder import Handle, Recorder, TracedHandle
from ..trace_stack import stack
from ..traced_array import TracedArray


class DerivativeFreeTrace(Trace):
    """An ordinary trace, `original`, in which nothing that is entered has a derivative."""

    __slots__ = ("original",)
    original: Recorder
    derivative_free = True

    def close(self) -> None:
        self.original.close()

    def own(self, handle: Handle) -> int:
        """Id of a traced array in this trace, behind a ``stop_gradient`` if it is from outside."""
        node = super().own(handle)
        return node if handle.home is self else self._stopped(node)

    def adopt(self, handle: Handle) -> None:
        """Take a handle that was just made, of a node of this trace, without its derivative."""
        if handle.home.builder is self.builder:
            handle.home = self
            handle.node = handle.made = self._stopped(handle.node)

    def seen(self, handle: TracedHandle) -> TracedHandle:
        """A view of all of an array from outside, without its derivative."""
        if handle.home is self or not isinstance(handle, TracedArray):
            return handle
        view = TracedArray(self, self.own(handle), handle.type)
        view.scalar, view.weak = handle.scalar, handle.weak
        if not handle.scalar:
            shape = (("shape", handle.type.shape),)
            view.link = ViewLink(handle, PRIMITIVES["reshape"], shape, view.node)
        return cast("TracedHandle", view)

    def _stopped(self, node: int) -> int:
        """The node without its derivative; itself if it can have none."""
        if not self.builder.type(node).floating:
            return node
        return self.builder.add(PRIMITIVES["stop_gradient"], (node,), (), self.where(2))


class DerivativeFreeEagerTrace(DerivativeFreeTrace, EagerTrace):
    """A derivative-free trace within an eager trace."""

    __slots__ = ()


def seen_with(trace: Recorder, *, derivatives: bool) -> Recorder:
    """The trace, seen so that what is entered has a derivative, or has none."""
    if isinstance(trace, DerivativeFreeTrace):
        return trace.original if derivatives else trace
    if derivatives:
        return trace
    seen = object.__new__(DerivativeFreeEagerTrace if trace.eager else DerivativeFreeTrace)
    seen.__dict__ = trace.__dict__
    seen.original = trace
    return seen


def see(trace: Recorder) -> None:
    """Let a trace under way be seen as this from now on; nothing if it is over.

    It is over where a generator goes on that was begun in a function traced before.
    """
    for k, other in enumerate(stack.traces):
        if other.builder is trace.builder:
            stack.traces[k] = trace
            stack.free = True
            if trace.derivative_free:
                trace.__dict__["entry"] = _entry  # no entry that was read before is given
            else:
                trace.__dict__.pop("entry", None)


def _entry(x: TracedArray, key: object, getitem: Callable[..., object]) -> object:
    return getitem(x, key)

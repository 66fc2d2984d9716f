"""An ordinary trace: a recorder that hands out traced arrays for its inputs.

Those are the arguments, captured arrays, and values of enclosing traces. `eager_trace.py` has the
trace whose nodes are computed as they are added.
"""

from __future__ import annotations

import sys
from functools import cache
from threading import get_ident
from types import FrameType
from typing import Self

import fdiff.intact_numpy as np

from ..arraytype import ArrayType
from ..device_arrays import DeviceArray
from ..process.forking import is_running
from ..tape import Builder
from .array_links import CapturedLink
from .recorder import Handle, Recorder
from .trace_stack import occupied, stack, tracing
from .traced_array import TracedArray, handle


class Trace(Recorder):
    """One recording under way, and the traced arrays that stand for its inputs.

    `extra` holds, for every input beyond the arguments, what it stands for: a captured array, or
    the traced array of an enclosing trace.
    """

    depth = 1  # of the frame of the ``with`` statement, as `__enter__` sees it

    def __init__(self, call: str, *, lines: bool = True, builder: Builder | None = None) -> None:
        super().__init__(call, lines=lines, builder=builder)
        self.extra: list[np.ndarray | DeviceArray | TracedArray] = []
        self._enclosing: dict[tuple[int, int], int] = {}
        # By which frame of which thread it was entered, and where it stands in which stack.
        self._entered: list[tuple[FrameType, int, list[Recorder], int]] = []

    def __enter__(self) -> Self:
        tracing()  # so that those that exceptions have left open are closed
        traces = stack.traces
        self._entered.append((sys._getframe(self.depth), get_ident(), traces, len(traces)))
        self.alive = True
        occupied[self] = None  # first: calls look for traces left open where it is not empty
        traces.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_running(self) -> bool:
        """Whether the code runs that has entered it last; other threads ask, while it may end."""
        return any(is_running(frame, thread) for frame, thread, *_ in self._entered[-1:])

    def give_up(self) -> None:
        if self._entered and self._entered[-1][1] == get_ident():
            self.close()
        occupied.pop(self, None)

    def close(self) -> None:
        """End it, and with it those inside that an exception left open.

        Nothing is done twice where an exception arrives while this runs, and it is called again.
        """
        if not self._entered:
            return
        *_, traces, place = self._entered[-1]
        for inner in reversed(traces[place + 1 :]):
            inner.close()
        self.alive = False
        self.arguments = ()
        del traces[place:]
        stack.traces = traces
        if self.mutable and traces:  # what it made may be among what the user keeps
            traces[0].inner.append(self.guards)
        else:
            self.guards.close()
        for guards in self.inner:
            guards.close()
        self.inner.clear()
        if self not in traces:
            occupied.pop(self, None)
        self._entered.pop()

    def begin(self) -> None:
        """Called when the arguments are known and before code of the user runs."""

    def input(self, type_: ArrayType, *, scalar: bool = False, weak: bool = False) -> TracedArray:
        """A traced array for one more input."""
        return handle(self, self.builder.input(type_), type_, scalar, weak)

    def capture(self, array: np.ndarray | DeviceArray) -> TracedArray:
        """The input that stands for a captured array."""
        self.extra.append(array)
        type_ = ArrayType(array.shape, array.dtype.newbyteorder("="))
        traced = self.input(type_)
        # What lies on a device is copied to the host where Python asks for values.
        value = cache(array.host) if isinstance(array, DeviceArray) else array
        self.guards.given[traced.node] = value
        traced.link = CapturedLink(array)
        return traced

    def enclosing(self, handle: Handle) -> int:
        """Id of the input that stands for a traced array of an enclosing trace, as it is now."""
        key = (id(handle.home), handle.id)
        if key not in self._enclosing:
            outer = TracedArray(handle.home, handle.id, handle.type)
            self.extra.append(outer)
            node_id = self._enclosing[key] = self.builder.input(handle.type)
            self.guards.given[node_id] = outer
        return self._enclosing[key]

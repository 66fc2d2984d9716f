"""Python numbers that change in a loop, as a loop in its body reads them.

Our own method: docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from ...arraytype import BOOL, INT
from ...trace import TracedArray
from .path_runs import EnclosingLoop
from .trip_numbers import size_of_number
from .variables import RefusedLoopError

LARGEST = 1 << 52  # of an int that a loop around counts


def outer_size(loop: EnclosingLoop, node: int) -> int | None:
    """The largest size of a Python number that changes, by its node; None of other values."""
    if node not in loop.sizes:
        loop.sizes[node] = _new_size(loop, node)
    return loop.sizes[node]


def _new_size(loop: EnclosingLoop, node: int) -> int | None:
    handle = loop.trace.guards.given.get(node)
    growth = loop.counts.get(node)
    if growth is not None and growth.start is None:
        return growth.fixed
    if any(isinstance(h, TracedArray) and h.node == node for h, _ in loop.numbers):
        return 1 if loop.trace.builder.type(node).dtype == BOOL else LARGEST
    if isinstance(handle, TracedArray):
        outer = loop.outer
        while outer is not None and outer.trace is not handle.home:
            outer = outer.outer
        return None if outer is None else outer_size(outer, handle.id)
    args = loop.trace.builder.nodes[node].args
    own = {a: size for a in args if (size := outer_size(loop, a)) is not None}
    if not own or node in loop.quotients:
        return loop.quotients[node] if own else None
    return size_of_number(loop.trace.builder, node, own)


def check_start(outer: EnclosingLoop, start: object) -> None:
    """Refuse a variable whose value is computed of Python numbers that change."""
    if isinstance(start, TracedArray) and start.scalar and outer.type_of(start) is None:
        own = start.home is outer.trace and not start.weak
        whole = start.weak and start.type.dtype == INT
        if whole or (own and outer_size(outer, start.id) is not None):
            raise RefusedLoopError("a variable holds a Python number that changes")

"""The profiler's view of recorded arrays: operations, backward passes, and their nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import fdiff.intact_numpy as np

from ...dispatch.forward_nodes import around
from ...dispatch.tiers.observed_kernels import NAMED, shapes_of
from ...process import observation
from ...process.observation import BACKWARD, FORWARD, Span, span
from ...user_lines import user_line
from ..backward_passes.nodes import GraphNode


def observed_operation(
    what: Callable[..., Any],
    name: str,
    operands: Sequence[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """``what(*args, **kwargs)`` by NumPy, in a span of its own."""
    seen = observation.observer
    if seen is None:  # the last profile has just ended
        return what(*args, **kwargs)
    category = BACKWARD if around().backward else FORWARD  # in a rule of the user's
    with seen.begin(name, category, shapes_of(operands) if seen.shapes else None) as event:
        result = what(*args, **kwargs)
        event.memory = sum(map(_owned, result if isinstance(result, tuple | list) else (result,)))
    if seen.stack and (line := user_line()) is not None:
        event.lines = (line,)
    return result


def _owned(x: object) -> int:
    """Bytes of the memory that belongs to an array; none to a view."""
    return x.nbytes if isinstance(x, np.ndarray) and x.base is None else 0


def observed_pass(nodes: Sequence[GraphNode]) -> AbstractContextManager[Span | None]:
    """A span for a backward pass that one tape computes: what it pulls back through."""
    if observation.observer is None:
        return span("", BACKWARD)
    names = Counter(node.name() for node in nodes).most_common()
    told = ", ".join(f"{name} x{n}" if n > 1 else name for name, n in names[:NAMED])
    more = f" and {len(names) - NAMED} more" * (len(names) > NAMED)
    return span("backward", BACKWARD, nodes=f"{told}{more}")


def observed_node(node: GraphNode) -> AbstractContextManager[Span | None]:
    """A span for one node of a backward pass."""
    seen = observation.observer
    if seen is None:
        return span("", BACKWARD)
    event = seen.begin(node.name(), BACKWARD)
    event.lines = () if node.line is None else (node.line,)
    return event

"""The profiler's view of recorded arrays: operations, backward passes, and their nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from ...dispatch.primal_nodes import around
from ...dispatch.tiers.profiled_kernels import most_common, owned_bytes, shapes_of
from ...process import observed_spans
from ...process.observed_spans import BACKWARD, FORWARD, Span, span
from ...user_lines import user_line
from ..backward_passes.nodes import GraphNode


def observed_operation(
    what: Callable[..., object],
    name: str,
    operands: Sequence[object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    """``what(*args, **kwargs)`` by NumPy, in a span of its own."""
    seen = observed_spans.observer
    if seen is None:  # the last profile has just ended
        return what(*args, **kwargs)
    category = BACKWARD if around().backward else FORWARD  # in a rule of the user's
    with seen.begin(name, category, shapes_of(operands) if seen.shapes else None) as event:
        result = what(*args, **kwargs)
        event.memory = owned_bytes(result)
    if seen.stack and (line := user_line()) is not None:
        event.lines = (line,)
    return result


def observed_pass(nodes: Sequence[GraphNode]) -> AbstractContextManager[Span | None]:
    """A span for a backward pass by one tape, with the nodes that it pulls back through."""
    if observed_spans.observer is None:
        return span("", BACKWARD)
    return span("backward", BACKWARD, nodes=most_common(node.name() for node in nodes))


def observed_node(node: GraphNode) -> AbstractContextManager[Span | None]:
    """A span for one node of a backward pass."""
    seen = observed_spans.observer
    if seen is None:
        return span("", BACKWARD)
    event = seen.begin(node.name(), BACKWARD)
    event.lines = () if node.line is None else (node.line,)
    return event

"""The nodes of a derivative's tape that belong to the function; differentiation added the others.

Nodes are values (`fdiff.tape`): equal nodes are one operation, so the tapes are compared.
"""

from __future__ import annotations

from functools import lru_cache

from ..named_tuples import NamedTuple
from ..process import observed_spans
from ..process.observed_spans import BACKWARD, DERIVATIVE, FORWARD, Span
from ..tape import Tape
from ..transforms.simplify import simplify


class Around(NamedTuple):
    """The call that runs a tape: a call of a function with this tape, or a `backward` pass."""

    function: Tape | None
    backward: bool


def around(span: Span | None = None) -> Around:
    """The function or backward pass around a span; by default, around this thread's open span."""
    span = span or observed_spans.innermost()
    while span is not None and span.tape is None:
        if span.category == BACKWARD:
            return Around(None, backward=True)
        span = span.parent
    function = None if span is None else span.tape
    return Around(function if isinstance(function, Tape) else None, backward=False)


@lru_cache(maxsize=256)
def forward_nodes(tape: Tape, function: Tape | None) -> frozenset[int]:
    """The nodes of `tape` that belong to the function; all nodes if it is unknown."""
    if function is None:
        return frozenset(range(len(tape)))
    places = {node[:3]: i for i, node in enumerate(tape.nodes)}
    forward: set[int] = set()
    for version in (function, simplify(function)):
        ids: dict[int, int] = {}
        for i, node in enumerate(version.nodes):
            if all(a in ids for a in node.args):
                place = places.get(
                    (node.primitive, tuple([ids[a] for a in node.args]), node.params)
                )
                if place is not None:
                    ids[i] = place
        forward.update(ids.values())
    return frozenset(forward)


def phase_of(nodes: frozenset[int], tape: Tape, of: Around) -> str:
    """Whether nodes belong to the function, were added by differentiation, or both."""
    if of.backward:
        return BACKWARD
    forward = forward_nodes(tape, of.function)
    if nodes <= forward:
        return FORWARD
    return f"{FORWARD}, {DERIVATIVE}" if nodes & forward else DERIVATIVE

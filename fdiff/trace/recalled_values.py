"""Branches on whether the argument equals what `f` has kept from an earlier call.

``if np.array_equal(x, self.last_x): return self.last_value`` is right for values, but would drop
every derivative. Such a branch is therefore taken as if nothing had been kept: `f` computes the
value again and stores it again, which is checked when the run is over.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ..capture.kept_values import KeptValue
from ..tape import CONSTANT, INPUT
from .guards import is_enclosing
from .recorder import Recorder

FEW = 64  # a predicate of this kind depends on at most so many nodes


def recalled(trace: Recorder, node_id: int, root: Recorder) -> bool | None:
    """The truth value of a node as if nothing had been kept; None where that makes no difference.

    `root` is the outermost trace, whose session knows what is kept.
    """
    guards = trace.guards
    session = root.session
    if not guards.active or session is None or not session.keeps():
        return None
    cone = _cone(trace, node_id)
    if cone is None or guards.active.isdisjoint(cone):
        return None
    kept = {i: place for i in cone if (place := _place(trace, root, i)) is not None}
    found = {i: place for i, place in kept.items() if _met(trace, i, cone)}
    if not found:
        return None
    there, gone = _evaluate(trace, cone, ()), _evaluate(trace, cone, found)
    if there == gone:
        return None
    for place in found.values():
        session.asked(place)
    return gone


def recalled_key(key: object, root: Recorder) -> bool:
    """Whether a key made of the differentiated argument is taken to be absent from a dict."""
    session = root.session
    if session is None or not root.guards.active:
        return False
    place = session.place_of_key(key)
    if place is not None:
        session.asked(place)
    return place is not None


def _cone(trace: Recorder, node_id: int) -> list[int] | None:
    """A node and all it depends on, in order; None if they are many or a value is not known."""
    nodes, seen, pending = trace.builder.nodes, {node_id}, [node_id]
    while pending:
        for a in nodes[pending.pop()].args:
            if a not in seen:
                seen.add(a)
                pending.append(a)
        if len(seen) > FEW:
            return None
    return sorted(seen) if trace.guards.is_known(node_id) else None


def _place(trace: Recorder, root: Recorder, node_id: int) -> KeptValue | None:
    """Where `f` keeps what a node is, or None: a captured array, or a number that was read."""
    node, session = trace.builder.nodes[node_id], root.session
    assert session is not None, "only a session tells what is kept"
    if node.primitive is INPUT and node_id not in trace.guards.active:
        outer = trace.guards.given.get(node_id)
        if is_enclosing(outer) and outer.home is root:
            node_id = outer.id
        return session.place_of_array(node_id)
    if node.primitive is CONSTANT and node.type.floating and node.type.size == 1:
        return session.place_of_number(node.value.item())  # type: ignore[union-attr] - a constant has one
    return None


def _met(trace: Recorder, node_id: int, cone: list[int]) -> bool:
    """Whether some value that moves is equal to the one kept, in every entry."""
    nodes, guards = trace.builder.nodes, trace.guards
    kept = np.asarray(guards.value(node_id, "compared a value"))
    return any(
        guards.is_active(i)
        and nodes[i].type.shape == kept.shape
        and np.array_equal(np.asarray(guards.value(i, "compared a value")), kept)
        for i in cone
        if len(nodes[i].types) == 1
    )


def _evaluate(trace: Recorder, cone: list[int], gone: Collection[int]) -> bool:
    """The truth value of the last node of `cone`, with infinity for the nodes that are `gone`."""
    known: dict[int, object] = {}
    with np.errstate(all="ignore"):
        for i in cone:
            node = trace.builder.nodes[i]
            if i in gone:
                known[i] = np.full(node.type.shape, np.inf, node.type.dtype)
            elif node.primitive is INPUT or node.primitive is CONSTANT:
                known[i] = trace.guards.value(i, "compared a value")
            else:
                args = [known[a] for a in node.args]
                known[i] = node.primitive.evaluate(*args, **dict(node.params))
    return bool(known[cone[-1]])

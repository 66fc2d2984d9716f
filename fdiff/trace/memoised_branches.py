"""Hand-written memoisation: branches on whether the argument equals the one of an earlier call.

``if np.array_equal(x, self.last_x): return self.last_value`` gives the right value, but no
derivative. Such a branch is therefore taken as a cache miss: `f` computes the value again and
stores it again, which is checked when the run is over. Our own method.
"""

from __future__ import annotations

from collections.abc import Collection

import fdiff.intact_numpy as np

from ..capture.memoised_values import MemoisedValue
from ..tape import CONSTANT, INPUT
from .guards import is_enclosing
from .recorder import Recorder

FEW = 64  # the condition of such a branch depends on at most so many nodes


def truth_if_not_memoised(trace: Recorder, node_id: int, root: Recorder) -> bool | None:
    """The truth value of a condition on a cache miss; None where it is the same as on a hit.

    `root` is the outermost trace, whose session knows what `f` has memoised.
    """
    guards = trace.guards
    session = root.session
    if not guards.active or session is None or not session.memoises():
        return None
    cone = _ancestors(trace, node_id)
    if cone is None or guards.active.isdisjoint(cone):
        return None
    places = {i: found for i in _equal(trace, cone) if (found := _places(trace, root, i))}
    hits = {i: found[0] for i, found in places.items()}
    if not hits or not _differs(trace, cone, hits):
        return None
    for i in [*hits]:
        node = trace.builder.nodes[i]
        if node.primitive is CONSTANT:  # which may come from elsewhere
            place = session.place_in_condition(places[i], np.asarray(node.value))
            hits = {k: kept for k, kept in {**hits, i: place}.items() if kept is not None}
    if not hits or not _differs(trace, cone, hits):
        return None
    for place in hits.values():
        session.assumed_missing(place)
    return not _evaluate(trace, cone, hits, None)


def _differs(trace: Recorder, cone: list[int], hits: Collection[int]) -> bool:
    """Whether a condition is another without the `hits`.

    Not where it asks which is larger, as for the best value so far.
    """
    on_hit, *misses = [_evaluate(trace, cone, hits, absent) for absent in (None, np.inf, -np.inf)]
    return on_hit not in misses


def is_memoised_key(key: object, root: Recorder) -> bool:
    """Whether a dict has this key, made of a differentiated argument: it is taken to be absent."""
    session = root.session
    if session is None or not root.guards.active:
        return False
    place = session.place_of_key(key)
    if place is not None:
        session.assumed_missing(place)
    return place is not None


def _ancestors(trace: Recorder, node_id: int) -> list[int] | None:
    """A node and all that it depends on, in the order of the tape.

    None if they are more than `FEW`, or if the value of the node is not known.
    """
    nodes, seen, pending = trace.builder.nodes, {node_id}, [node_id]
    while pending:
        for a in nodes[pending.pop()].args:
            if a not in seen:
                seen.add(a)
                pending.append(a)
        if len(seen) > FEW:
            return None
    return sorted(seen) if trace.guards.is_known(node_id) else None


def _may_be_memoised(trace: Recorder, node_id: int) -> bool:
    """Whether a node is captured, or a constant of floating point."""
    node = trace.builder.nodes[node_id]
    if node.primitive is INPUT:
        return node_id not in trace.guards.active
    return node.primitive is CONSTANT and node.type.floating


def _places(trace: Recorder, root: Recorder, node_id: int) -> list[MemoisedValue]:
    """Where `f` has memoised the captured array, or may have the constant, that a node is."""
    node, session = trace.builder.nodes[node_id], root.session
    assert session is not None, "the caller has asked it before"
    if node.primitive is INPUT:
        outer = trace.guards.given.get(node_id)
        if is_enclosing(outer) and outer.home.builder is root.builder:
            node_id = outer.id
        place = session.place_of_array(node_id)
        return [] if place is None else [place]
    return session.places_of_constant(np.asarray(node.value))


def _equal(trace: Recorder, cone: list[int]) -> list[int]:
    """Nodes that may be memoised and equal one of `cone` that has a derivative, in every entry.

    Or of which something does that is taken of them, such as a row.
    """
    nodes, guards = trace.builder.nodes, trace.guards
    values = {
        i: np.asarray(guards.value(i, "compared a value")) for i in cone if len(nodes[i].types) == 1
    }
    active = [value for i, value in values.items() if guards.is_active(i)]

    def is_equal(value: np.ndarray) -> bool:
        return any(a.shape == value.shape and bool((a == value).all()) for a in active)

    return [
        i
        for i in cone
        if _may_be_memoised(trace, i) and any(is_equal(values[k]) for k in _parts(trace, i, cone))
    ]


def _parts(trace: Recorder, node_id: int, cone: list[int]) -> set[int]:
    """A node and those of `cone` that depend on it and have no derivative."""
    nodes, parts = trace.builder.nodes, {node_id}
    for i in cone:
        floating = len(nodes[i].types) == 1 and nodes[i].type.floating
        if floating and not parts.isdisjoint(nodes[i].args) and not trace.guards.is_active(i):
            parts.add(i)
    return parts


def _evaluate(
    trace: Recorder, cone: list[int], hits: Collection[int], absent: float | None
) -> bool:
    """The truth value of the last node of `cone`, with a number in place of the `hits` if given."""
    known: dict[int, object] = {}
    with np.errstate(all="ignore"):
        for i in cone:
            node = trace.builder.nodes[i]
            if absent is not None and i in hits:
                known[i] = np.full(node.type.shape, absent, node.type.dtype)
            elif node.primitive is INPUT or node.primitive is CONSTANT:
                known[i] = trace.guards.value(i, "compared a value")
            else:
                args = [known[a] for a in node.args]
                known[i] = node.primitive.evaluate(*args, **dict(node.params))
    return bool(known[cone[-1]])

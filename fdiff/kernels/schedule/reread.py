"""What was stored into an array is read there by all that comes later, and not computed again.

While a tape is recorded a read of what was just stored becomes the value stored itself. In a kernel
that value would be computed once more in each nest, or need memory of its own beside the array's.
"""

from __future__ import annotations

from dataclasses import replace

from ..loops import proper
from ..skeleton import Part, Skeleton
from .plan import users_of


def reread(bones: Skeleton) -> Skeleton:
    """The same structure: later users of a part that was stored read a slice of the array."""
    if not any(part.op == "update" for part in bones.parts):
        return bones
    bones = _stores_first(bones)
    users = users_of(bones)
    sources: dict[int, list[int]] = {}
    for u, part in enumerate(bones.parts):
        if part.op == "update" and _worth(bones, users, u):
            sources.setdefault(_last(bones, users, u), []).append(u)
    parts: list[Part] = []
    place: list[int] = []
    for i, part in enumerate(bones.parts):
        place.append(len(parts))
        parts.append(part._replace(args=tuple([place[a] for a in part.args])))
        for u in sources.get(i, ()):
            new, at = bones.parts[u].args[1], bones.parts[u].slices
            if max(users[new]) > i:
                stored = bones.parts[new]
                read = Part("slice", "", (place[i],), stored.dtypes, stored.shapes, at)
                place[new] = len(parts)
                parts.append(read)
    return _renumbered(bones, parts, place)


def _renumbered(bones: Skeleton, parts: list[Part], place: list[int]) -> Skeleton:
    inputs, outputs = (tuple(place[i] for i in ids) for ids in (bones.inputs, bones.outputs))
    return replace(bones, parts=tuple(parts), inputs=inputs, outputs=outputs)


def _stores_first(bones: Skeleton) -> Skeleton:
    """Each store as soon as what it stores is there."""
    waits = {i: len(set(p.args)) for i, p in enumerate(bones.parts) if p.op == "update"}
    users = users_of(bones)
    order: list[int] = []
    done: set[int] = set()
    for i in range(len(bones.parts)):
        ready = [] if i in done else [i]
        while ready:
            k = ready.pop()
            done.add(k)
            order.append(k)
            for u in dict.fromkeys(users[k]):
                if u in waits:
                    waits[u] -= 1
                    if not waits[u]:
                        ready.append(u)
    place = [0] * len(order)
    for new, old in enumerate(order):
        place[old] = new
    parts = [bones.parts[i] for i in order]
    moved = [part._replace(args=tuple([place[a] for a in part.args])) for part in parts]
    return _renumbered(bones, moved, place)


def _worth(bones: Skeleton, users: list[list[int]], u: int) -> bool:
    """Whether what `u` stores is computed entry by entry, is used elsewhere too, and is large."""
    new = bones.parts[u].args[1]
    stored = bones.parts[new]
    rank = len(proper(stored.dims))
    return (
        bool(stored.text)
        and bool(rank)
        and rank == len(proper(bones.parts[u].dims))
        and len(users[new]) > 1
        and new not in bones.outputs
    )


def _last(bones: Skeleton, users: list[list[int]], u: int) -> int:
    """The last array with these entries in a row of stores beside them, which may be in place."""
    last, depth = u, 0
    while True:
        above = [
            v
            for v in users[last]
            if bones.parts[v].op == "update"
            and bones.parts[v].args[0] == last
            and bones.parts[v].apart > depth
        ]
        if len(above) != 1:
            return last
        last, depth = above[0], depth + 1

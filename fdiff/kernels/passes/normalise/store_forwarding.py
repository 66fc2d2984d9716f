"""What was stored into an array is read there by all that comes later, and not computed again.

While a tape is recorded a read sees through stores: of what was stored it becomes the value itself,
of other entries a read of the array below. In a kernel the value would be computed once more in
each nest, and the array below be kept beside the one that could have its memory.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.graph import Data, Part, Skeleton
from ...ir.loops import proper
from ..materialise.operation_kinds import users_of


def reread(bones: Skeleton) -> Skeleton:
    """The same structure: what follows a store reads the array that was stored into."""
    if not any(part.op == "update" for part in bones.parts):
        return bones
    bones = _stores_first(bones)
    users = users_of(bones)
    tops = _tops(bones, users)
    readers: dict[int, list[int]] = {}
    for i, (top, _) in tops.items():
        readers.setdefault(top, []).append(i)
    parts: list[Part] = []
    place: list[int] = []
    for i, part in enumerate(bones.parts):
        top = tops[i][0] if part.op == "slice" and i in tops else i
        args = (top,) if top < i else part.args
        place.append(len(parts))
        parts.append(part.reading(tuple([place[a] for a in args])))
        for k in readers.get(i, ()):
            if k < i < max(users[k], default=0):
                old = bones.parts[k]
                read = Part("slice", "", (place[i],), old.dtypes, old.shapes, tops[k][1])
                place[k] = len(parts)
                parts.append(read)
    return _renumbered(bones, parts, place)


def _tops(bones: Skeleton, users: list[list[int]]) -> dict[int, tuple[int, Data]]:
    """For slices and what is stored, the last of the arrays that hold the entries, and where."""
    out: dict[int, tuple[int, Data]] = {}
    for i, part in enumerate(bones.parts):
        if part.op == "slice" and part.apart:
            source = part.args[0]
            out[i] = _highest(bones, users, source, part.apart), part.slices
        elif part.op == "update" and _worth(bones, users, i):
            out[part.args[1]] = _highest(bones, users, i), part.slices
    return out


def _highest(bones: Skeleton, users: list[list[int]], node: int, most: int = 1 << 30) -> int:
    """The last of a row of stores upon `node`: `most` of them, or those beside the store `node`."""
    beside = bones.parts[node].op == "update" and most == 1 << 30
    depth = 0
    while depth < most:
        above = [
            v
            for v in users[node]
            if bones.parts[v].op == "update" and bones.parts[v].args[0] == node
        ]
        if len(above) != 1 or (beside and bones.parts[above[0]].apart <= depth):
            break
        node, depth = above[0], depth + 1
    return node


def _renumbered(bones: Skeleton, parts: list[Part], place: list[int]) -> Skeleton:
    inputs, outputs = (tuple(place[i] for i in ids) for ids in (bones.inputs, bones.outputs))
    return replace(bones, parts=tuple(parts), inputs=inputs, outputs=outputs)


def _stores_first(bones: Skeleton) -> Skeleton:
    """Each store as soon as can be: what it does not need comes after it."""
    parts, users = bones.parts, users_of(bones)
    stores = [i for i, part in enumerate(parts) if part.op == "update"]
    order: list[int] = []
    done: set[int] = set()
    for top in (*bones.inputs, *stores, *range(len(parts))):
        stack = [top]
        while stack:
            i = stack.pop()
            missing = [] if i in done else [a for a in parts[i].args if a not in done]
            if missing:
                stack += [i, *reversed(missing)]
            elif i not in done:
                done.add(i)
                order.append(i)
                waiting = (u for u in users[i] if parts[u].op == "update")
                stack += [u for u in waiting if done.issuperset(parts[u].args)]
    place = [0] * len(order)
    for new, old in enumerate(order):
        place[old] = new
    moved = [parts[i].reading(tuple([place[a] for a in parts[i].args])) for i in order]
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

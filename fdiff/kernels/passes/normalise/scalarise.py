"""Rows of a few components become as many arrays, so that loops run over the rows.

``np.sum((x[i] - x[j]) ** 2, axis=1)`` of points in space is three gathers and three subtractions
in one loop over the pairs, not a loop of three turns in each of them. What an op cannot do by
components it does with its arguments in one piece again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...ir.graph import Part, Skeleton
from ..materialise.operation_kinds import SCANS, STORES
from .component_graph import Ids, Pieces, is_small
from .contraction_components import contracted
from .elementwise_components import (
    COMBINED,
    broadcast,
    elementwise,
    iota,
    reduced,
    reshaped,
    scanned,
    sliced,
    transposed,
    unsliced,
)
from .indexing_components import gathered, joined, scattered, updated

Rule = Callable[[Pieces, int, Part], "Ids | None"]
# How many parts there may be in the end: so many times as many and a hundred, but this many at
# most, and this many in any case: a program that is spared an operation keeps its components.
_GROWTH, _MOST, _ALWAYS = 4, 1000, 600
RULES: dict[str, Rule] = {
    "broadcast_to": broadcast,
    "iota": iota,
    **dict.fromkeys(COMBINED, reduced),
    **dict.fromkeys(SCANS, scanned),
    "transpose": transposed,
    "reshape": reshaped,
    "slice": sliced,
    "unslice": unsliced,
    "concatenate": joined,
    "gather": gathered,
    "scatter_add": scattered,
    "update": updated,
    "contract": contracted,
}


def split(bones: Skeleton) -> Skeleton:
    """The same structure with the components of small axes apart, where that is worth it."""
    if not any(is_small(d) for part in bones.parts for dims in part.shapes for d in dims):
        return bones
    new = Pieces(bones.parts)
    most = max(_ALWAYS, min(_MOST, 100 + _GROWTH * len(bones.parts)))
    for i, part in enumerate(bones.parts):
        _enter(new, i, part)
        if part.op in STORES and i not in new.split and any(is_small(d) for d in part.dims):
            return bones  # an array that is stored into row by row stays in one piece
        if len(new.parts) > most:
            return bones
    made = replace(
        bones, parts=tuple(new.parts), inputs=tuple(new.all(i) for i in bones.inputs),
        outputs=tuple(new.all(o) for o in bones.outputs),
    )  # fmt: skip
    return pruned(replace(made, parts=tuple(new.parts)))


def _enter(new: Pieces, i: int, part: Part) -> None:
    """What stands for the part."""
    touched = part.op == "concatenate" or any(
        is_small(d) for k in (i, *part.args) for d in new.dims(k)
    )
    rule = RULES.get(part.op) or (elementwise if part.text and part.args else None)
    if touched and rule is not None and len(part.shapes) == 1:
        found = rule(new, i, part)
        if found is not None:
            if any(is_small(d) for d in part.dims):
                new.split[i] = found
            else:
                (new.whole[i],) = found
            return
    if i not in new.whole:
        new.whole[i] = new.add(part.reading(tuple([new.all(a) for a in part.args])))


def pruned(bones: Skeleton) -> Skeleton:
    """Without the parts that nothing reads."""
    live = {*bones.inputs, *bones.outputs}
    for i in range(len(bones.parts) - 1, -1, -1):
        if i in live:
            live.update(bones.parts[i].args)
    place = {old: new for new, old in enumerate(sorted(live))}
    parts = tuple(
        [bones.parts[i].reading(tuple([place[a] for a in bones.parts[i].args])) for i in place]
    )
    return replace(
        bones, parts=parts, inputs=tuple(place[i] for i in bones.inputs),
        outputs=tuple(place[o] for o in bones.outputs),
    )  # fmt: skip

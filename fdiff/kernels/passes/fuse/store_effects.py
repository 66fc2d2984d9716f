"""Arrays with other entries in some places: what they were before, then loops over the places."""

from __future__ import annotations

from dataclasses import replace

from ...ir.graph import Part
from ...ir.loops import FIRST, ONE, Dims, Hole, identity, plus, proper, through_slice
from ..materialise.materialisation import Plan
from .effect import Root
from .loop_body import literal

_MOST_KIN = 8  # stores whose memory one may take over


def stored(plan: Plan, i: int, part: Part) -> list[Root]:
    """The entries around those that are stored, unless they are in place, and the store."""
    index = part.op == "scatter_set"
    hole = () if index else _hole(part, plan.parts[part.args[1]].dims)
    whole = not index and _whole(part, plan.parts[part.args[1]].dims)
    over = plan.reused.get(i, -1)
    before = [] if over >= 0 or whole else [_base(plan, i, part, hole)]
    after = (i,) if before and not hole else ()
    store = _indexed(plan, i, part) if index else _sliced(plan, i, part)
    return [*before, replace(store, after=after, over=over)]


def _whole(part: Part, new: Dims) -> bool:
    return part.dims == new and all(pair == ("0", "1") for pair in part.slices)


def _sliced(plan: Plan, i: int, part: Part) -> Root:
    new = part.args[1]
    dims = plan.parts[new].dims
    starts, steps = tuple(p[0] for p in part.slices), tuple(p[1] for p in part.slices)
    place = through_slice(identity(dims), starts, steps)
    value = (new, identity(dims))
    return Root("store", i, proper(dims), (value,), part.dims, place, plan.buffer(i), hands=True)


def _indexed(plan: Plan, i: int, part: Part) -> Root:
    """In row-major order of the indices: of those that name one entry the last is stored last."""
    _, new, *positions = part.args
    dims = plan.parts[new].dims
    lead = len(plan.parts[positions[0]].dims)
    index = identity(dims)
    place = (*(FIRST for _ in positions), *index[lead:])
    views = tuple((p, index[:lead]) for p in positions)
    return Root(
        "store", i, proper(dims), ((new, index),), part.dims, place, plan.buffer(i), positions=views
    )


def _base(plan: Plan, i: int, part: Part, hole: Hole) -> Root:
    """The array as it was, or only what lies around the hole."""
    base, dims = part.args[0], part.dims
    number = filling(plan, base)
    values = () if number else ((base, identity(dims)),)
    copied = (base, *_kin(plan, i, part))
    return Root(
        "store", i, proper(dims), values, dims, identity(dims), plan.buffer(i), number,
        hole=hole, copied=copied,
    )  # fmt: skip


def _kin(plan: Plan, i: int, part: Part) -> list[int]:
    """Earlier stores at the same place in the same array: the rest of it is the same."""
    parts = plan.parts
    if part.op != "update":
        return []
    same = (part.args[0], part.slices, parts[part.args[1]].dims)
    return [
        k for k in plan.of.updates.get(part.args[0], ())
        if k < i and (parts[k].args[0], parts[k].slices, parts[parts[k].args[1]].dims) == same
    ][-_MOST_KIN:]  # fmt: skip


def filling(plan: Plan, i: int) -> str:
    """The number that fills node `i`; empty if none does."""
    while plan.parts[i].op in ("reshape", "broadcast_to") and i not in plan.kept:
        i = plan.parts[i].args[0]
    return literal(plan.parts[i]) if plan.parts[i].op == "value" else ""


def _hole(part: Part, new: Dims) -> Hole:
    """What the store covers, if it is a large block with as many axes as the array has.

    Only the frame around it is copied then. Of a small block that would be nearly all, in loops
    that cannot be merged.
    """
    if part.large and proper(new) and len(proper(new)) == len(proper(part.dims)):
        pairs = part.slices
        if all(step in ("1", "-1") for _, step in pairs):
            return tuple(
                None if (start, step, n) == ("0", "1", full) else _extent(start, step, n)
                for (start, step), n, full in zip(pairs, new, part.dims, strict=True)
                if full != ONE
            )
    return ()


def _extent(start: str, step: str, n: str) -> tuple[str, str]:
    end = plus(start, "1")
    return (plus(end, f"-{n}"), end) if step == "-1" else (start, plus(start, n))

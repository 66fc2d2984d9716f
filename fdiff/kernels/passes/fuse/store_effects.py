"""The effects of a store: a copy of the array, unless it is in place, then the store itself.

`in_place_updates.py` finds which stores are in place, by the idea of P. Hudak and A. Bloss, The
aggregate update problem in functional programming systems, POPL 1985.
"""

from __future__ import annotations

from dataclasses import replace

from ....kernel_rule import Kind
from ...ir.effect import Effect, EffectKind
from ...ir.index_expressions import (
    FIRST,
    ONE,
    WHOLE,
    Dims,
    Slices,
    identity,
    nonunit,
    plus,
    through_slice,
)
from ...ir.kernel_graph import Operation
from ...ir.loops import Ranges
from ...ir.operation_text import literal
from ..materialise.materialisation import Plan

_MOST_KIN = 8  # earlier stores whose memory a store may take over


def store_effects(plan: Plan, i: int, op: Operation) -> list[Effect]:
    """A copy of the array if it is needed, then the store into a slice or at index arrays."""
    index, new = op.kind is Kind.SCATTER_SET, plan.ops[op.args[1]].dims
    excluded = () if index else _excluded(op, new)
    whole = not index and op.dims == new and all(pair == WHOLE for pair in op.slices)
    overwrites = plan.overwrites.get(i, -1)
    alone = overwrites >= 0 or whole or op.region.unread
    before = [] if alone else [_copy_of_base(plan, i, op, excluded)]
    after = (i,) if before and not excluded else ()
    store = _indexed(plan, i, op) if index else store_into_slice(plan, i, op.args[1], op.slices)
    return [*before, replace(store, after=after, overwrites=overwrites, forwards=not index)]


def store_into_slice(plan: Plan, i: int, new: int, slices: Slices) -> Effect:
    """The store of node `new` into a slice of node `i`."""
    dims = plan.ops[new].dims
    index = identity(dims)
    return plan.effect(EffectKind.STORE, i, dims, ((new, index),), through_slice(index, slices))


def _indexed(plan: Plan, i: int, op: Operation) -> Effect:
    """A store at index arrays, in row-major order, so that the last of equal indices counts."""
    _, new, *positions = op.args
    dims = plan.ops[new].dims
    lead = len(plan.ops[positions[0]].dims)
    index = identity(dims)
    place = (*(FIRST for _ in positions), *index[lead:])
    views = tuple((p, index[:lead]) for p in positions)
    return plan.effect(EffectKind.STORE, i, dims, ((new, index),), place, positions=views)


def _copy_of_base(plan: Plan, i: int, op: Operation, excluded: Ranges) -> Effect:
    """A copy of the array before the store, without the entries that are `excluded`."""
    base, dims = op.args[0], op.dims
    number = fill_literal(plan, base)
    values = () if number else ((base, identity(dims)),)
    copies_of = (base, *_earlier_stores_there(plan, i, op))
    return plan.effect(
        EffectKind.STORE, i, dims, values, identity(dims),
        literal=number, excluded=excluded, copies_of=copies_of,
    )  # fmt: skip


def _earlier_stores_there(plan: Plan, i: int, op: Operation) -> list[int]:
    """The last few nodes that equal the array of store `i` but for the slice that is stored now.

    They store other values into the same slice of the same array, so the entries beside it may be
    copied from any of them.
    """
    ops = plan.ops
    if op.kind is not Kind.UPDATE:
        return []
    same = (op.args[0], op.slices, ops[op.args[1]].dims)
    return [
        k for k in plan.analysis.updates.get(op.args[0], ())
        if k < i and (ops[k].args[0], ops[k].slices, ops[ops[k].args[1]].dims) == same
    ][-_MOST_KIN:]  # fmt: skip


def fill_literal(plan: Plan, i: int) -> str:
    """The number that all entries of node `i` are, as text; empty if they differ."""
    while plan.ops[i].kind in (Kind.RESHAPE, Kind.BROADCAST) and i not in plan.stored:
        i = plan.ops[i].args[0]
    return literal(plan.ops[i]) if plan.ops[i].kind is Kind.VALUE else ""


def _excluded(op: Operation, new: Dims) -> Ranges:
    """The box that a large store covers, which needs no copy; empty for a small store.

    Around a small box lie nearly all entries, and a nest that leaves out a box fuses with few
    others.
    """
    if op.region.large and nonunit(new) and len(nonunit(new)) == len(nonunit(op.dims)):
        pairs = op.slices
        if all(step in ("1", "-1") for _, step in pairs):
            return tuple(
                None if (start, step, n) == (*WHOLE, full) else _extent(start, step, n)
                for (start, step), n, full in zip(pairs, new, op.dims, strict=True)
                if full != ONE
            )
    return ()


def _extent(start: str, step: str, n: str) -> tuple[str, str]:
    """The first position of a slice in ascending order, and the one after the last."""
    end = plus(start, "1")
    return (plus(end, f"-{n}"), end) if step == "-1" else (plus(start, "0"), plus(start, n))

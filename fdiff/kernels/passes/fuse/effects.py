"""The effects that compute the stored nodes of a plan, in order.

Most nodes have one effect. One that is added up has an effect for its first values and others for
the terms, as a reduction of Halide has an initial value and an update (J. Ragan-Kelley et al.,
Halide, PLDI 2013, section 2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ....kernel_rule import Kind
from ...ir.accesses import Buffer
from ...ir.effect import Effect, EffectKind, View
from ...ir.index_expressions import (
    FIRST,
    ONE,
    WHOLE,
    Axes,
    Axis,
    Dims,
    Index,
    Slices,
    identity,
    nonunit,
    plus,
    same_nonunit,
    through_broadcast,
    through_ones,
)
from ...ir.kernel_graph import Operation, sizes_of_labels
from ...ir.operation_text import identity_of
from ..materialise.materialisation import Plan
from .stencil_adjoint import stencil_adjoint_effects
from .store_effects import fill_literal, store_effects, store_into_slice


def effects_of_plan(plan: Plan) -> list[Effect]:
    """The effects of all nodes in the order of the graph, then copies to further outputs."""
    effects: list[Effect] = []
    for i, op in enumerate(plan.ops):
        if op.kind.is_routine:
            effects.append(Effect(EffectKind.CALL, i, (), tuple((a, ()) for a in op.args)))
        elif i in plan.stored and op.kind is not Kind.ITEM:
            effects.extend(_memoised_effects(plan, i, op))
    for k, o in enumerate(plan.graph.outputs):
        if plan.outputs.get(plan.storage_of(o)) != k:
            dims, out = plan.ops[o].dims, Buffer(f"out{k}")
            index = identity(dims)
            effects.append(
                Effect(EffectKind.STORE, o, nonunit(dims), ((o, index),), dims, index, out)
            )
    return effects


def _memoised_effects(plan: Plan, i: int, op: Operation) -> list[Effect]:
    """The effects of a node, made once for all plans under which they are equal."""
    filled = fill_literal(plan, op.args[0]) if op.kind.is_store else ""
    state = (i, plan.names[i], plan.overwrites.get(i, -1), filled)
    effects = plan.analysis.effects.get(state)
    if effects is None:
        effects = plan.analysis.effects[state] = _effects_of_node(plan, i, op)
    return effects


def _effects_of_node(plan: Plan, i: int, op: Operation) -> list[Effect]:
    """The effects that compute a stored node."""
    if i in plan.accumulated:
        return stencil_adjoint_effects(plan, i)
    if op.kind.is_store:
        return store_effects(plan, i, op)
    if op.kind in (Kind.CONCATENATE, Kind.PLACE):
        return _stores_of_operands(plan, i, op)
    if op.kind.is_reduction:
        return _reduced(plan, i, op)
    if op.kind.is_extremum:
        return [_argument(plan, i, op)]
    if op.kind.is_scan:
        return [_scan(plan, i, op)]
    if op.kind is Kind.CONTRACT:
        return _contraction(plan, i, op)
    if plan.is_local(i):
        return [Effect(EffectKind.LOCAL, i, (), ((i, ()),), compute=True)]
    index = identity(op.dims)
    return [plan.effect(EffectKind.STORE, i, op.dims, ((i, index),), index, compute=True)]


# --- joins, reductions, scans, contractions -----------------------------------------------------


def _stores_of_operands(plan: Plan, i: int, op: Operation) -> list[Effect]:
    """A store of each operand into the slice of the result that it fills."""
    if op.kind is Kind.PLACE:
        slices = list(cast("tuple[Slices, ...]", op.data))
    else:
        axis, start, slices = op.parameter("axis", int), "0", []
        for a in op.args:
            slices.append(tuple((start, "1") if k == axis else WHOLE for k in range(len(op.dims))))
            start = plus(start, plan.ops[a].dims[axis])
    return [store_into_slice(plan, i, a, own) for a, own in zip(op.args, slices, strict=True)]


def _reduced(plan: Plan, i: int, op: Operation) -> list[Effect]:
    """A reduction over some axes."""
    (a,) = op.args
    index = identity(plan.ops[a].dims)
    place = tuple(p for k, p in enumerate(index) if k not in op.axes)
    loops = tuple(index[k].var for k in op.axes if index[k].var >= 0)
    return _reduction(plan, i, plan.ops[a].dims, ((a, index),), place, loops)


def _reduction(
    plan: Plan, i: int, shape: Dims, values: tuple[View, ...], place: Index, reduced: Axes
) -> list[Effect]:
    """A reduction into a local accumulator, if the loops reduced over are the innermost.

    Else memory is filled with the neutral element first, and each iteration updates it.
    """
    op = plan.ops[i]
    effect = plan.effect(EffectKind.REDUCE, i, shape, values, place, reduced=reduced)
    if effect.innermost_reduced == len(reduced):
        return [effect]
    kind = Kind.SUM if op.kind is Kind.CONTRACT else op.kind
    neutral = identity_of(kind, op.dtype)
    fill = plan.effect(EffectKind.STORE, i, op.dims, (), identity(op.dims), literal=neutral)
    return [fill, replace(effect, after=(i,))]


def _argument(plan: Plan, i: int, op: Operation) -> Effect:
    """The position of an extreme entry along an axis, which becomes the innermost loop."""
    (a,) = op.args
    axis = op.parameter("axis", int)
    place, length = identity(op.dims), plan.ops[a].dims[axis]
    inner = Axis(len(nonunit(op.dims))) if length != ONE else FIRST
    index = (*place[:axis], inner, *place[axis:])
    shape = (*op.dims, length)
    return plan.effect(EffectKind.ARGUMENT, i, shape, ((a, index),), place, reduced=(inner.var,))


def _scan(plan: Plan, i: int, op: Operation) -> Effect:
    """A running total along an axis, from its end if it is reversed."""
    axis = op.parameter("axis", int)
    place = identity(op.dims)
    var = place[axis].var
    if op.parameter("reverse", int) and var >= 0:
        last = plus(op.dims[axis], "-1")
        place = (*place[:axis], Axis(var, "-1", last), *place[axis + 1 :])
    values = tuple((a, _aligned(plan.ops[a].dims, place, op.dims)) for a in op.args)
    return plan.effect(EffectKind.SCAN, i, op.dims, values, place, reduced=(var,), compute=True)


def _aligned(source: Dims, place: Index, dims: Dims) -> Index:
    """Index into an operand of shape `source` for the index of the scan; 0 where it broadcasts."""
    same = same_nonunit(source, dims)
    return (through_ones if same else through_broadcast)(place, source, dims)


def _contraction(plan: Plan, i: int, op: Operation) -> list[Effect]:
    """A loop nest over the labels of the operand with more axes, then the other's."""
    left, right, result = op.subscripts
    sizes = sizes_of_labels(plan.ops, op)
    order = right + left if len(right) > len(left) else left + right
    loops = [label for label in dict.fromkeys(order) if sizes[label] != ONE]
    var = {label: Axis(loops.index(label)) if label in loops else FIRST for label in sizes}
    values = tuple(
        (a, tuple(var[x] for x in labels)) for labels, a in zip((left, right), op.args, strict=True)
    )
    reduced = tuple(k for k, label in enumerate(loops) if label not in result)
    domain = tuple(sizes[label] for label in loops)
    return _reduction(plan, i, domain, values, tuple(var[x] for x in result), reduced)

"""The effects that compute the materialised nodes of a plan, in order."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ....kernel_rule import Kind
from ...ir.graph import Operation
from ...ir.indexing import (
    FIRST,
    Axis,
    Dims,
    Index,
    identity,
    nonunit,
    plus,
    same_nonunit,
    through_ones,
    through_slice,
)
from ...ir.loops import Buffer
from ...ir.operation_text import identity_of
from ..materialise.materialisation import Plan
from ..normalise.component_graph import Slices
from .effect import Effect, View
from .stencil_adjoint import stencil_adjoint_effects
from .store_effects import fill_literal, store_effects


def effects_of_plan(plan: Plan) -> list[Effect]:
    """The effects of all nodes, in the order of the graph, then copies to further outputs."""
    effects: list[Effect] = []
    for i, op in enumerate(plan.ops):
        if op.kind.is_routine:
            effects.append(Effect("call", i, (), tuple((a, ()) for a in op.args)))
        elif i in plan.kept and op.kind is not Kind.ITEM:
            effects.extend(_memoised_effects(plan, i, op))
    for k, o in enumerate(plan.graph.outputs):
        if plan.outputs.get(plan.laid(o)) != k:
            dims = plan.ops[o].dims
            index = identity(dims)
            effects.append(
                Effect("store", o, nonunit(dims), ((o, index),), dims, index, Buffer(f"out{k}"))
            )
    return effects


def _memoised_effects(plan: Plan, i: int, op: Operation) -> list[Effect]:
    """The effects of a node, made once for all plans that agree on what these depend on."""
    filled = fill_literal(plan, op.args[0]) if op.kind.is_store else ""
    state = (i, plan.names[i], plan.reused.get(i, -1), filled)
    found = plan.of.effects.get(state)
    if found is None:
        found = plan.of.effects[state] = _roots_of(plan, i, op)
    return found


def _roots_of(plan: Plan, i: int, op: Operation) -> list[Effect]:
    if i in plan.adds:
        return stencil_adjoint_effects(plan, i)
    if op.kind.is_store:
        return store_effects(plan, i, op)
    if op.kind is Kind.CONCATENATE:
        return _concatenated(plan, i, op)
    if op.kind is Kind.PLACE:
        return _placed(plan, i, op)
    if op.kind.is_reduction:
        return _reduced(plan, i, plan.ops[op.args[0]].dims, op.axes)
    if op.kind.is_extremum:
        return [_argument(plan, i, op)]
    if op.kind.is_scan:
        return [_scan(plan, i, op)]
    if op.kind is Kind.CONTRACT:
        return _contraction(plan, i, op)
    index = identity(op.dims)
    if plan.local(i):
        return [Effect("local", i, (), ((i, ()),), compute=True)]
    return [
        Effect(
            "store",
            i,
            nonunit(op.dims),
            ((i, index),),
            op.dims,
            index,
            plan.buffer(i),
            compute=True,
        )
    ]


# --- stores, reductions, scans, contractions ---------------------------------------------------


def _concatenated(plan: Plan, i: int, op: Operation) -> list[Effect]:
    axis = op.parameter("axis", int)
    effects: list[Effect] = []
    start = "0"
    for a in op.args:
        dims = plan.ops[a].dims
        index = identity(dims)
        moved = index[axis]._replace(start=start)
        place = (*index[:axis], moved, *index[axis + 1 :])
        effects.append(
            Effect("store", i, nonunit(dims), ((a, index),), op.dims, place, plan.buffer(i))
        )
        start = plus(start, dims[axis])
    return effects


def _placed(plan: Plan, i: int, op: Operation) -> list[Effect]:
    """Stores of each operand at the start and step it has on every axis."""
    effects: list[Effect] = []
    for a, pairs in zip(op.args, cast("tuple[Slices, ...]", op.data), strict=True):
        dims = plan.ops[a].dims
        index = identity(dims)
        place = through_slice(index, tuple(p[0] for p in pairs), tuple(p[1] for p in pairs))
        effects.append(
            Effect("store", i, nonunit(dims), ((a, index),), op.dims, place, plan.buffer(i))
        )
    return effects


def _loops_over(index: Index, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(index[a].var for a in axes if index[a].var >= 0)


def _reduced(plan: Plan, i: int, dims: Dims, axes: tuple[int, ...]) -> list[Effect]:
    index = identity(dims)
    kept = tuple(p for a, p in enumerate(index) if a not in axes)
    return _reduction(
        plan,
        i,
        nonunit(dims),
        ((plan.ops[i].args[0], index),),
        kept,
        _loops_over(index, axes),
    )


def _reduction(
    plan: Plan,
    i: int,
    domain: Dims,
    values: tuple[View, ...],
    place: Index,
    reduced: tuple[int, ...],
) -> list[Effect]:
    """A reduction with a local accumulator, if the loops reduced over are the innermost.

    Else memory is filled with the neutral element first, and each iteration updates it.
    """
    op = plan.ops[i]
    buffer = Buffer(f"s{i}") if plan.local(i) else plan.buffer(i)
    inner = _trailing(domain, reduced)
    effect = Effect("reduce", i, domain, values, op.dims, place, buffer, reduced=reduced)
    if inner == len(reduced):
        return [effect]
    kind = Kind.SUM if op.kind is Kind.CONTRACT else op.kind
    fill = Effect(
        "store",
        i,
        nonunit(op.dims),
        (),
        op.dims,
        identity(op.dims),
        buffer,
        identity_of(kind, op.dtype),
    )
    return [fill, replace(effect, after=(i,))]


def _trailing(domain: Dims, reduced: tuple[int, ...]) -> int:
    """How many of the innermost loops are reduced over."""
    count = 0
    while count < len(domain) and len(domain) - 1 - count in reduced:
        count += 1
    return count


def _argument(plan: Plan, i: int, op: Operation) -> Effect:
    """The position of the largest or smallest entry along an axis, which is the innermost loop."""
    source = plan.ops[op.args[0]].dims
    axis = op.parameter("axis", int)
    place = identity(op.dims)
    domain = (*nonunit(op.dims), *nonunit((source[axis],)))
    inner = Axis(len(domain) - 1) if source[axis] != "1" else FIRST
    index = (*place[:axis], inner, *place[axis:])
    buffer = Buffer(f"s{i}") if plan.local(i) else plan.buffer(i)
    return Effect(
        "argument",
        i,
        domain,
        ((op.args[0], index),),
        op.dims,
        place,
        buffer,
        reduced=(inner.var,),
    )


def _scan(plan: Plan, i: int, op: Operation) -> Effect:
    axis = op.parameter("axis", int)
    place = identity(op.dims)
    var = place[axis].var
    if op.parameter("reverse", int) and var >= 0:
        last = plus(op.dims[axis], "-1")
        place = (*place[:axis], Axis(var, "-1", last), *place[axis + 1 :])
    values = tuple((a, _aligned(plan, a, place, op.dims)) for a in op.args)
    return Effect(
        "scan",
        i,
        nonunit(op.dims),
        values,
        op.dims,
        place,
        plan.buffer(i),
        reduced=(var,),
        compute=True,
    )


def _aligned(plan: Plan, a: int, place: Index, dims: Dims) -> Index:
    source = plan.ops[a].dims
    if source == dims:
        return place
    if same_nonunit(source, dims):
        return through_ones(place, source, dims)
    lead = len(dims) - len(source)
    return tuple(FIRST if d == "1" else place[lead + k] for k, d in enumerate(source))


def _contraction(plan: Plan, i: int, op: Operation) -> list[Effect]:
    """A plain loop nest in the order of the first operand's labels, then the second's."""
    subscripts = op.parameter("subscripts", str)
    inputs, result = subscripts.split("->")
    sides = inputs.split(",")
    sizes: dict[str, str] = {}
    for labels, a in zip(sides, op.args, strict=True):
        sizes.update(zip(labels, plan.ops[a].dims, strict=True))
    if len(sides[1]) > len(sides[0]):
        order = list(dict.fromkeys(sides[1] + sides[0]))
    else:
        order = list(dict.fromkeys(sides[0] + sides[1]))
    loops = [label for label in order if sizes[label] != "1"]
    var = {label: Axis(loops.index(label)) if label in loops else FIRST for label in sizes}
    values = tuple(
        (a, tuple(var[x] for x in labels)) for labels, a in zip(sides, op.args, strict=True)
    )
    reduced = tuple(k for k, label in enumerate(loops) if label not in result)
    domain = tuple(sizes[label] for label in loops)
    return _reduction(plan, i, domain, values, tuple(var[x] for x in result), reduced)

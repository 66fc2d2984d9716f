"""Scheduled effects become nests and calls (J. Ragan-Kelley, Halide, PLDI 2013, section 4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from ....kernel_rule import Kind
from ....process.background import checkpoint
from ...ir.effect import Effect, EffectKind
from ...ir.kernel_graph import Computed, KernelGraph
from ...ir.loops import (
    Accumulator,
    Argument,
    Call,
    Guard,
    LoopProgram,
    Nest,
    Output,
    Statement,
    Temporary,
)
from ..fuse.fusion_rounds import Schedule
from ..materialise.materialisation import Plan
from .effect_statements import lower_effect
from .loop_body import Body
from .routine_calls import call_of, memory_of_calls


def lower(schedule: Schedule) -> LoopProgram:
    """The loop program of a schedule: one nest or one call for each group of effects."""
    plan = schedule.plan
    dtypes: dict[str, str] = {}
    items = tuple(_items(plan, schedule.nests, dtypes))
    temporaries = (*_materialised(plan), *memory_of_calls(plan))
    arguments = tuple(_arguments(plan.graph))
    return LoopProgram(temporaries, items, _outputs(plan), _locals(plan), arguments, dtypes)


# --- nests and calls --------------------------------------------------------------------------


def _items(plan: Plan, nests: list[list[Effect]], dtypes: dict[str, str]) -> Iterator[Nest | Call]:
    """The nests and calls in order; the dtypes of values are entered into `dtypes`, by name."""
    names = count()
    for members in nests:
        checkpoint()
        first = members[0]
        if first.kind is EffectKind.CALL:
            yield call_of(plan, first)
            continue
        computed = tuple(
            dict.fromkeys(Computed(e.buffer.name, plan.ops[e.node].label) for e in members)
        )
        comment = ", ".join(c.comment for c in computed)
        if first.boundary:
            boundary = _boundary_nest(plan, members, names, f"around {comment}")
            yield replace(boundary, computed=computed)
            continue
        body = Body(plan, names)
        for effect in members:
            lower_effect(body, effect)
        dtypes |= body.dtypes
        lines, sums = tuple(body.statements), tuple(body.accumulators)
        nest = Nest(first.domain, lines, sums, comment, first.excluded, first.ranges)
        yield replace(nest, computed=computed)


def _boundary_nest(plan: Plan, members: list[Effect], names: Iterator[int], comment: str) -> Nest:
    """The nest over the entries around an interior: statements under the guard of each effect."""
    branches: list[tuple[Guard, tuple[Statement, ...]]] = []
    sums: list[Accumulator] = []
    for guard in sorted({effect.guard for effect in members}):  # no guard first: it begins the sums
        body = Body(plan, names)
        for effect in members:
            if effect.guard == guard:
                lower_effect(body, effect)
        branches.append((guard, tuple(body.statements)))
        sums += body.accumulators
    first = members[0]
    return Nest(first.domain, (), tuple(sums), comment, first.excluded, (), tuple(branches))


# --- memory and locals ------------------------------------------------------------------------


def _arguments(graph: KernelGraph) -> Iterator[Argument]:
    """The inputs and captured arrays."""
    for op in graph.ops:
        if op.kind is Kind.INPUT:
            yield Argument(f"x{op.data[0]}", op.dtype, op.dims, contiguous=op.data[1] == "C")
        elif op.kind is Kind.ARRAY:
            yield Argument(f"k{op.data[0]}", op.dtype, op.dims, contiguous=True)


def _materialised(plan: Plan) -> Iterator[Temporary]:
    """The memory of stored nodes; outputs, carries and nodes updated in place have no new memory.

    A carry is no temporary of its trip: it holds what the trip before has left.
    """
    stored = {plan.names[i]: plan.ops[i] for i in sorted(plan.stored) if plan.is_writable(i)}
    others = {f"x{op.data[0]}" for op in plan.ops if op.kind is Kind.INPUT}
    others |= {f"out{k}" for k in range(len(plan.graph.outputs))}
    for name, op in stored.items():
        if name not in others:
            yield Temporary(name, op.dtype, op.dims)


def _locals(plan: Plan) -> tuple[tuple[str, str], ...]:
    """The names and dtypes of stored nodes that are locals."""
    stored = (i for i in sorted(plan.stored) if plan.is_local(i) and not plan.ops[i].kind.is_leaf)
    return tuple((plan.names[i], plan.ops[i].dtype) for i in stored)


def _outputs(plan: Plan) -> tuple[Output, ...]:
    """The outputs; an output of one number with the local that holds it."""
    out: list[Output] = []
    for k, o in enumerate(plan.graph.outputs):
        op = plan.ops[o]
        scalar = plan.names[o] if plan.outputs.get(o) == k and plan.is_local(o) else ""
        out.append(Output(f"out{k}", op.dtype, op.dims, scalar))
    return tuple(out)

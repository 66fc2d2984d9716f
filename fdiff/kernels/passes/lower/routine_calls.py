"""Calls of matrix routines, and memory that only they use: docs/decisions/matrix-routines.md."""

from __future__ import annotations

from collections.abc import Iterator

from ....kernel_rule import Category, Kind, Routine
from ...ir.effect import Effect
from ...ir.index_expressions import Dims, size
from ...ir.kernel_graph import Computed, Operation
from ...ir.loops import Call, Temporary
from ..materialise.materialisation import Plan
from .sequential_loops import control_item


def call_of(plan: Plan, effect: Effect) -> Call:
    """The call that computes a node: operands, results and scratch memory, then sizes."""
    op = plan.ops[effect.node]
    results = results_of(plan, effect.node)
    if op.kind.category is Category.CONTROL:
        return control_item(plan, effect.node, results)
    arguments = [plan.names[a] for a in op.args]
    assert op.routine is not None
    return Call(
        op.routine.name,
        op.dtypes[-1],
        (*arguments, *results, *_scratch(plan, effect.node)),
        _sizes(plan, op, op.routine),
        f"{', '.join(results)} = {op.label}",
        inline=effect.node in plan.written_out,
        computed=tuple(Computed(place, op.label) for place in results),
    )


def results_of(plan: Plan, node: int) -> list[str]:
    """The memory of each result of a call."""
    shapes = plan.ops[node].shapes
    if len(shapes) == 1:
        return [plan.names[node]]
    items = _used_results(plan, node)
    return [plan.names[items[k]] if k in items else f"u{node}_{k}" for k in range(len(shapes))]


def memory_of_calls(plan: Plan) -> Iterator[Temporary]:
    """Scratch memory of routines, and memory for results that nothing reads."""
    for i, op in enumerate(plan.ops):
        for name in _scratch(plan, i):
            assert op.routine is not None
            matrix = plan.ops[op.args[0]]
            dtype = op.routine.scratch_dtype or matrix.dtype
            yield Temporary(name, dtype, matrix.dims[-2:], over=matrix.dims[:-2])
        if op.kind.is_routine and len(op.shapes) > 1:
            used = _used_results(plan, i)
            for k in range(len(op.shapes)):
                if k not in used:
                    yield Temporary(f"u{i}_{k}", op.dtypes[k], op.shapes[k])


def _scratch(plan: Plan, node: int) -> tuple[str, ...]:
    """The names of the scratch matrices of a routine's call."""
    op = plan.ops[node]
    own = op.routine is not None and node not in plan.written_out
    count = op.routine.scratch if op.routine is not None and own else 0
    return tuple(f"w{node}" + f"_{k}" * bool(k) for k in range(count))


def _used_results(plan: Plan, node: int) -> dict[int, int]:
    """The operations that stand for results of a routine, by the number of the result."""
    return {
        op.parameter("k", int): i
        for i, op in enumerate(plan.ops)
        if op.kind is Kind.ITEM and op.args == (node,)
    }


def _sizes(plan: Plan, op: Operation, routine: Routine) -> tuple[str, ...]:
    """The size of the stack of matrices, then the sizes of one matrix."""
    if op.kind is Kind.MATMUL:
        return (*op.parameter("sizes", tuple), *op.parameter("flips", str))
    first: Dims = plan.ops[op.args[0]].dims
    batch, n = size(first[:-2]), first[-1]
    return (batch, n, op.dims[-1]) if routine.columns else (batch, n)

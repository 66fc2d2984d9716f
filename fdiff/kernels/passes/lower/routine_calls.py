"""Calls of matrix routines, and the memory that only these need."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.graph import Operation
from ...ir.loops import Call, Dims, Temporary, size
from ..fuse.effect import Effect
from ..materialise.materialisation import Plan
from ..materialise.operation_kinds import ROUTINES, SCRATCH


def call_of(plan: Plan, effect: Effect) -> Call:
    """The call of the routine that computes a node: operands, results, scratch; then its sizes."""
    op = plan.ops[effect.node]
    if len(op.shapes) == 1:
        results = [plan.names[effect.node]]
    else:
        items = _used_results(plan, effect.node)
        results = [
            plan.names[items[k]] if k in items else f"u{effect.node}_{k}"
            for k in range(len(op.shapes))
        ]
    arguments = [plan.names[a] for a in op.args]
    return Call(
        _routine(op),
        (*arguments, *results, *_scratch(op, effect.node)),
        _sizes(plan, op),
        f"{', '.join(results)} = {op.kind}",
    )


def memory_of_calls(plan: Plan) -> Iterator[Temporary]:
    """Scratch memory of routines, and memory for results of theirs that nothing reads."""
    for i, op in enumerate(plan.ops):
        for name in _scratch(op, i):
            matrix = plan.ops[op.args[0]]
            dtype = SCRATCH[op.kind][1] or matrix.dtype
            yield Temporary(name, dtype, matrix.dims[-2:])
        if op.kind in ROUTINES and len(op.shapes) > 1:
            used = _used_results(plan, i)
            for k in range(len(op.shapes)):
                if k not in used:
                    yield Temporary(f"u{i}_{k}", op.dtypes[k], op.shapes[k])


def _scratch(op: Operation, node: int) -> tuple[str, ...]:
    count, _ = SCRATCH.get(op.kind, (0, ""))
    return tuple(f"w{node}" + f"_{k}" * bool(k) for k in range(count))


def _used_results(plan: Plan, node: int) -> dict[int, int]:
    """The results of `node` that are read, by number, and the operations that stand for them."""
    return {
        op.parameter("k", int): i
        for i, op in enumerate(plan.ops)
        if op.kind == "item" and op.args == (node,)
    }


def _routine(op: Operation) -> str:
    kinds = {"triangular": "flip", "matmul": "masked"}
    kind = op.parameter(kinds[op.kind], str) if op.kind in kinds else ""
    return f"{op.kind}{kind}_{op.dtypes[-1]}"


def _sizes(plan: Plan, op: Operation) -> tuple[str, ...]:
    """The number of matrix problems in a batch, then the sizes of one of them."""
    if op.kind == "matmul":
        return (*op.parameter("sizes", tuple), *op.parameter("flips", str))
    first: Dims = plan.ops[op.args[0]].dims
    batch, n = size(first[:-2]), first[-1]
    return (batch, n, op.dims[-1]) if op.kind in ("solve", "triangular") else (batch, n)

"""From the structure of a tape to loop nests: what is kept, what is fused, what shares a loop."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from ...process.background import checkpoint
from ..ir.graph import KernelGraph, Operation
from ..ir.loops import (
    Accumulator,
    Call,
    Dims,
    Guard,
    LoopProgram,
    Nest,
    Output,
    Statement,
    Temporary,
    size,
)
from .fuse.dead_stores import eliminate_dead_stores
from .fuse.dependences import in_order
from .fuse.effect import Effect
from .fuse.loop_body import Body
from .fuse.loop_fusion import fuse
from .fuse.lower_effects import lower_effect
from .fuse.stencil_adjoint import fuse_reductions_with_gathers
from .materialise.graph_analysis import Structure
from .materialise.in_place import reuse
from .materialise.materialisation import Plan, make_plan
from .materialise.operation_kinds import LEAVES, ROUTINES, SCRATCH
from .materialise.recomputation import computed_again
from .normalise.library_calls import lower
from .normalise.reduce_first import summed_first
from .normalise.rows_innermost import rows_last
from .normalise.scalarise import split
from .normalise.store_forwarding import reread
from .normalise.transpose_sinking import turned
from .tile.loop_fission import split_long_loops
from .tile.row_tiling import tile_rows
from .tile.staging import stage_gathers

_ROUNDS = 4


def lower_graph(graph: KernelGraph) -> LoopProgram:
    """The loops of a kernel; nodes found to be computed in several nests are kept instead."""
    graph = lower(rows_last(turned(split(summed_first(reread(graph))))))
    plan, nests = _settled(Structure(graph))
    dtypes: dict[str, str] = {}
    items = tuple(_items(plan, nests, dtypes))
    made = LoopProgram(_temporaries(plan), items, _outputs(plan), _locals(plan))
    blocked = tile_rows(eliminate_dead_stores(made), _given(graph))
    return split_long_loops(stage_gathers(blocked, _dtypes(graph, made)), dtypes)


def _settled(structure: Structure) -> tuple[Plan, list[list[Effect]]]:
    """What is kept in the end, and the effects that share each nest or are a call."""
    also: set[int] = set()
    plan, rounds = None, 0
    while True:
        checkpoint()
        rounds += 1
        plan, effects = reuse(make_plan(structure, also, plan), also)
        effects = in_order(plan, fuse_reductions_with_gathers(plan, effects))
        nests = [[effects[r] for r in g.members] for g in fuse(plan, effects)]
        again = computed_again(plan, nests) if rounds < _ROUNDS else set()
        if not again:
            return plan, nests
        also |= again | plan.deep


def _items(plan: Plan, nests: list[list[Effect]], dtypes: dict[str, str]) -> Iterator[Nest | Call]:
    """The nests and calls in order; the dtypes of values are entered into `dtypes`, by name."""
    names = count()
    for members in nests:
        checkpoint()
        first = members[0]
        if first.kind == "call":
            yield _call(plan, first)
            continue
        comment = ", ".join(dict.fromkeys(_describe(plan, effect) for effect in members))
        if first.boundary:
            yield _around(plan, members, names, comment)
            continue
        body = Body(plan, names)
        for effect in members:
            lower_effect(body, effect)
        dtypes |= body.dtypes
        lines, sums = tuple(body.statements), tuple(body.accumulators)
        yield Nest(first.domain, lines, sums, comment, first.excluded, first.ranges)


def _around(plan: Plan, members: list[Effect], names: Iterator[int], comment: str) -> Nest:
    """The nest of effects on few entries, where their guards hold."""
    branches: list[tuple[Guard, tuple[Statement, ...]]] = []
    sums: list[Accumulator] = []
    for guard in sorted({effect.guard for effect in members}):  # none first: what others add to
        body = Body(plan, names)
        for effect in members:
            if effect.guard == guard:
                lower_effect(body, effect)
        branches.append((guard, tuple(body.statements)))
        sums += body.accumulators
    first = members[0]
    about = f"around {comment}"
    return Nest(first.domain, (), tuple(sums), about, first.excluded, (), tuple(branches))


def _describe(plan: Plan, effect: Effect) -> str:
    name = plan.ops[effect.node].kind
    return f"{effect.buffer.name} = {name}" if effect.buffer.name else name


def _call(plan: Plan, effect: Effect) -> Call:
    op = plan.ops[effect.node]
    if len(op.shapes) == 1:
        results = [plan.names[effect.node]]
    else:
        items = _projections(plan, effect.node)
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


def _scratch(op: Operation, node: int) -> tuple[str, ...]:
    count, _ = SCRATCH.get(op.kind, (0, ""))
    return tuple(f"w{node}" + f"_{k}" * bool(k) for k in range(count))


def _projections(plan: Plan, node: int) -> dict[int, int]:
    """Which of the outputs of `node` are used, and by which parts."""
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
    """Batch, then the sizes of one matrix problem."""
    if op.kind == "matmul":
        return (*op.parameter("sizes", tuple), *op.parameter("flips", str))
    first: Dims = plan.ops[op.args[0]].dims
    batch, n = size(first[:-2]), first[-1]
    return (batch, n, op.dims[-1]) if op.kind in ("solve", "triangular") else (batch, n)


def _temporaries(plan: Plan) -> tuple[Temporary, ...]:
    kept = {plan.names[i]: plan.ops[i] for i in sorted(plan.kept) if plan.owned(i)}
    out = [
        Temporary(name, op.dtype, op.dims)
        for name, op in kept.items()
        if not name.startswith("out")
    ]
    for i, op in enumerate(plan.ops):
        for name in _scratch(op, i):
            matrix = plan.ops[op.args[0]]
            dtype = SCRATCH[op.kind][1] or matrix.dtype
            out.append(Temporary(name, dtype, matrix.dims[-2:]))
        if op.kind in ROUTINES and len(op.shapes) > 1:
            used = _projections(plan, i)
            out += [
                Temporary(f"u{i}_{k}", op.dtypes[k], op.shapes[k])
                for k in range(len(op.shapes))
                if k not in used
            ]
    return tuple(out)


def _locals(plan: Plan) -> tuple[tuple[str, str], ...]:
    kept = (i for i in sorted(plan.kept) if plan.local(i) and plan.ops[i].kind not in LEAVES)
    return tuple((plan.names[i], plan.ops[i].dtype) for i in kept)


def _given(graph: KernelGraph) -> dict[str, Dims]:
    """The shapes of inputs and captured arrays whose entries lie in order, by name."""
    return {
        f"{'x' if op.kind == 'input' else 'k'}{op.data[0]}": op.dims
        for op in graph.ops
        if op.kind == "array" or (op.kind == "input" and op.data[1] == "C")
    }


def _dtypes(graph: KernelGraph, program: LoopProgram) -> dict[str, str]:
    """The dtypes of all memory, by name."""
    given = {
        f"{'x' if op.kind == 'input' else 'k'}{op.data[0]}": op.dtype
        for op in graph.ops
        if op.kind in ("input", "array")
    }
    return given | {m.name: m.dtype for m in (*program.temporaries, *program.outputs)}


def _outputs(plan: Plan) -> tuple[Output, ...]:
    out: list[Output] = []
    for k, o in enumerate(plan.graph.outputs):
        op = plan.ops[o]
        scalar = plan.names[o] if plan.outputs.get(o) == k and plan.local(o) else ""
        out.append(Output(f"out{k}", op.dtype, op.dims, scalar))
    return tuple(out)

"""From the structure of a tape to loop nests: what is kept, what is fused, what shares a loop."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from ...process.background import checkpoint
from ..ir.graph import Part, Skeleton
from ..ir.loops import (
    Accumulator,
    Call,
    Dims,
    Guard,
    Nest,
    Output,
    Program,
    Statement,
    Temporary,
    size,
)
from .fuse.dead_stores import without_unread
from .fuse.dependences import in_order
from .fuse.effect import Root
from .fuse.loop_body import Body
from .fuse.loop_fusion import group
from .fuse.lower_effects import enter
from .fuse.stencil_adjoint import beside
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
from .tile.loop_fission import cut
from .tile.row_tiling import in_blocks
from .tile.staging import in_stages

_ROUNDS = 4


def schedule(bones: Skeleton) -> Program:
    """The loops of a kernel; nodes found to be computed in several nests are kept instead."""
    bones = lower(rows_last(turned(split(summed_first(reread(bones))))))
    plan, nests = _settled(Structure(bones))
    dtypes: dict[str, str] = {}
    items = tuple(_items(plan, nests, dtypes))
    made = Program(_temporaries(plan), items, _outputs(plan), _locals(plan))
    blocked = in_blocks(without_unread(made), _given(bones))
    return cut(in_stages(blocked, _dtypes(bones, made)), dtypes)


def _settled(structure: Structure) -> tuple[Plan, list[list[Root]]]:
    """What is kept in the end, and the effects that share each nest or are a call."""
    also: set[int] = set()
    plan, rounds = None, 0
    while True:
        checkpoint()
        rounds += 1
        plan, roots = reuse(make_plan(structure, also, plan), also)
        roots = in_order(plan, beside(plan, roots))
        nests = [[roots[r] for r in g.members] for g in group(plan, roots)]
        again = computed_again(plan, nests) if rounds < _ROUNDS else set()
        if not again:
            return plan, nests
        also |= again | plan.deep


def _items(plan: Plan, nests: list[list[Root]], dtypes: dict[str, str]) -> Iterator[Nest | Call]:
    """The nests and calls in order; the dtypes of values are entered into `dtypes`, by name."""
    names = count()
    for members in nests:
        checkpoint()
        first = members[0]
        if first.kind == "call":
            yield _call(plan, first)
            continue
        comment = ", ".join(dict.fromkeys(_describe(plan, root) for root in members))
        if first.edge:
            yield _around(plan, members, names, comment)
            continue
        body = Body(plan, names)
        for root in members:
            enter(body, root)
        dtypes |= body.dtypes
        lines, sums = tuple(body.statements), tuple(body.accumulators)
        yield Nest(first.domain, lines, sums, comment, first.hole, first.window)


def _around(plan: Plan, members: list[Root], names: Iterator[int], comment: str) -> Nest:
    """The nest of effects on few entries, where their guards hold."""
    branches: list[tuple[Guard, tuple[Statement, ...]]] = []
    sums: list[Accumulator] = []
    for guard in sorted({root.guard for root in members}):  # none first: what others add to
        body = Body(plan, names)
        for root in members:
            if root.guard == guard:
                enter(body, root)
        branches.append((guard, tuple(body.statements)))
        sums += body.accumulators
    first = members[0]
    about = f"around {comment}"
    return Nest(first.domain, (), tuple(sums), about, first.hole, (), tuple(branches))


def _describe(plan: Plan, root: Root) -> str:
    name = plan.parts[root.node].op
    return f"{root.buffer.name} = {name}" if root.buffer.name else name


def _call(plan: Plan, root: Root) -> Call:
    part = plan.parts[root.node]
    if len(part.shapes) == 1:
        results = [plan.names[root.node]]
    else:
        items = _projections(plan, root.node)
        results = [
            plan.names[items[k]] if k in items else f"u{root.node}_{k}"
            for k in range(len(part.shapes))
        ]
    arguments = [plan.names[a] for a in part.args]
    return Call(
        _routine(part),
        (*arguments, *results, *_scratch(part, root.node)),
        _sizes(plan, part),
        f"{', '.join(results)} = {part.op}",
    )


def _scratch(part: Part, node: int) -> tuple[str, ...]:
    count, _ = SCRATCH.get(part.op, (0, ""))
    return tuple(f"w{node}" + f"_{k}" * bool(k) for k in range(count))


def _projections(plan: Plan, node: int) -> dict[int, int]:
    """Which of the outputs of `node` are used, and by which parts."""
    return {
        part.parameter("k", int): i
        for i, part in enumerate(plan.parts)
        if part.op == "item" and part.args == (node,)
    }


def _routine(part: Part) -> str:
    kinds = {"triangular": "flip", "matmul": "masked"}
    kind = part.parameter(kinds[part.op], str) if part.op in kinds else ""
    return f"{part.op}{kind}_{part.dtypes[-1]}"


def _sizes(plan: Plan, part: Part) -> tuple[str, ...]:
    """Batch, then the sizes of one matrix problem."""
    if part.op == "matmul":
        return (*part.parameter("sizes", tuple), *part.parameter("flips", str))
    first: Dims = plan.parts[part.args[0]].dims
    batch, n = size(first[:-2]), first[-1]
    return (batch, n, part.dims[-1]) if part.op in ("solve", "triangular") else (batch, n)


def _temporaries(plan: Plan) -> tuple[Temporary, ...]:
    kept = {plan.names[i]: plan.parts[i] for i in sorted(plan.kept) if plan.owned(i)}
    out = [
        Temporary(name, part.dtype, part.dims)
        for name, part in kept.items()
        if not name.startswith("out")
    ]
    for i, part in enumerate(plan.parts):
        for name in _scratch(part, i):
            matrix = plan.parts[part.args[0]]
            dtype = SCRATCH[part.op][1] or matrix.dtype
            out.append(Temporary(name, dtype, matrix.dims[-2:]))
        if part.op in ROUTINES and len(part.shapes) > 1:
            used = _projections(plan, i)
            out += [
                Temporary(f"u{i}_{k}", part.dtypes[k], part.shapes[k])
                for k in range(len(part.shapes))
                if k not in used
            ]
    return tuple(out)


def _locals(plan: Plan) -> tuple[tuple[str, str], ...]:
    kept = (i for i in sorted(plan.kept) if plan.local(i) and plan.parts[i].op not in LEAVES)
    return tuple((plan.names[i], plan.parts[i].dtype) for i in kept)


def _given(bones: Skeleton) -> dict[str, Dims]:
    """The shapes of inputs and captured arrays whose entries lie in order, by name."""
    return {
        f"{'x' if part.op == 'input' else 'k'}{part.data[0]}": part.dims
        for part in bones.parts
        if part.op == "array" or (part.op == "input" and part.data[1] == "C")
    }


def _dtypes(bones: Skeleton, program: Program) -> dict[str, str]:
    """The dtypes of all memory, by name."""
    given = {
        f"{'x' if part.op == 'input' else 'k'}{part.data[0]}": part.dtype
        for part in bones.parts
        if part.op in ("input", "array")
    }
    return given | {m.name: m.dtype for m in (*program.temporaries, *program.outputs)}


def _outputs(plan: Plan) -> tuple[Output, ...]:
    out: list[Output] = []
    for k, o in enumerate(plan.bones.outputs):
        part = plan.parts[o]
        scalar = plan.names[o] if plan.outputs.get(o) == k and plan.local(o) else ""
        out.append(Output(f"out{k}", part.dtype, part.dims, scalar))
    return tuple(out)

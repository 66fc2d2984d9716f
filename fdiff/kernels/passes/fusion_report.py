"""A report on the passes over a kernel graph: loop nests, their operations, stored values.

Passes work on structure alone and do not know which node of the tape an operation comes from. To
find out, the report runs them on a graph whose operations have names that know their nodes; names
stand in comments only. What a pass makes anew has no node. Why it runs the passes once more:
docs/decisions/explaining-without-running.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...kernel_rule import Category, Kind
from ...named_tuples import NamedTuple
from ..ir.accesses import Access
from ..ir.effect import Effect, EffectKind
from ..ir.expression_names import names_in
from ..ir.index_expressions import nonunit
from ..ir.kernel_graph import KernelGraph, Operation
from ..ir.loops import Call, LoopProgram, Nest, Statement, nests_and_calls
from ..kernel_source import Work
from .fuse.dead_stores import eliminate_dead_stores
from .fuse.effects import effects_of_plan
from .fuse.fusion_rounds import Schedule
from .fuse.memory_reads import fused_nodes
from .listing import ProgramForm
from .materialise.graph_analysis import ALWAYS, MOVED, REPEATED
from .materialise.materialisation import Plan
from .pipeline import forms


class _NameOfNode(str):
    """The name of an operation that knows the number of its node."""

    __slots__ = ("node",)
    node: int


class PassEffect(NamedTuple):
    """A pass that changed the program: counts before and after it, and the form that it leaves.

    The units are "operation" of a graph, "stored value" of a plan, "loop nest" of what is lower.
    """

    name: str
    before: int
    unit_before: str
    after: int
    unit: str
    leaves: str


class FusedNest(NamedTuple):
    """One loop nest, or the call of a routine: its loops, operations and written arrays.

    `nodes` are those nodes of the tape that are computed in it, in order; `names` are all
    operations in it, also those that a pass has made.
    """

    loops: tuple[str, ...]
    names: tuple[str, ...]
    nodes: tuple[int, ...]
    writes: tuple[str, ...]
    routine: bool


class StoredValue(NamedTuple):
    """A value with memory of its own: its operation, the node (-1: none), its place, and why."""

    name: str
    node: int
    place: str
    shape: tuple[str, ...]
    why: str


class FusionReport(NamedTuple):
    """The report on a graph; `program` is the result of the passes for all targets."""

    passes: tuple[PassEffect, ...]
    operations: int
    nests: tuple[FusedNest, ...]
    stored: tuple[StoredValue, ...]
    program: LoopProgram


def fusion_report(graph: KernelGraph, nodes: Mapping[int, int]) -> FusionReport:
    """The report of a graph, of which operation ``i`` stands for node ``nodes[i]`` of a tape."""
    passes: list[PassEffect] = []
    schedule: Schedule | None = None
    program: LoopProgram | None = None
    for step, before, after in forms(_tagged(graph, nodes)):
        if isinstance(after, Schedule):
            schedule = after
        if isinstance(after, LoopProgram) and (
            program is None or step.function is eliminate_dead_stores
        ):
            program = after
        if before != after:
            passes.append(PassEffect(step.name, *_counted(before), *_counted(after), step.leaves))
    assert schedule is not None, "there is a pass that fuses"
    assert program is not None, "there is a pass that lowers"
    return FusionReport(
        tuple(passes),
        _counted(graph)[0],
        tuple([_nest(schedule.plan, members) for members in schedule.nests]),
        tuple(_stored(schedule.plan)),
        program,
    )


def _tagged(graph: KernelGraph, nodes: Mapping[int, int]) -> KernelGraph:
    """The graph with the number of its node in the name of each operation that has one."""
    ops = [
        op._replace(name=_name_of_node(op.label, nodes[i])) if i in nodes else op
        for i, op in enumerate(graph.ops)
    ]
    return replace(graph, ops=tuple(ops))


def _name_of_node(label: str, node: int) -> _NameOfNode:
    name = _NameOfNode(label)
    name.node = node
    return name


def _node_of(op: Operation) -> int:
    """The number of an operation's node; -1 without one."""
    return op.name.node if isinstance(op.name, _NameOfNode) else -1


def _counted(program: ProgramForm) -> tuple[int, str]:
    """The number of parts of a program, and their unit."""
    if isinstance(program, KernelGraph):
        computing = [op for op in program.ops if not (op.kind.is_leaf or op.kind.is_view)]
        return len(computing), "operation"
    if isinstance(program, Plan):  # each would have a nest of its own
        return len(effects_of_plan(program)), "stored value"
    if isinstance(program, Schedule):
        return len(program.nests), "loop nest"
    return sum(1 for item in program.items for _ in nests_and_calls(item)), "loop nest"  # type: ignore[arg-type] - for one thread


def _nest(plan: Plan, members: list[Effect]) -> FusedNest:
    """The computations of the effects of one nest."""
    own = [effect.node for effect in members]
    below = [a for i in own for a in plan.ops[i].args]
    memory = {i for i in plan.names if i not in own}
    inside = sorted({*own, *fused_nodes(plan, below, memory)})
    ops = [op for i in inside if not (op := plan.ops[i]).kind.is_leaf]
    first = members[0]
    places = (effect.buffer.name or plan.names.get(effect.node, "") for effect in members)
    return FusedNest(
        first.domain,
        tuple([op.label for op in ops]),
        tuple(sorted({node for op in ops if (node := _node_of(op)) >= 0})),
        tuple(dict.fromkeys(place for place in places if place)),
        first.kind is EffectKind.CALL,
    )


def _stored(plan: Plan) -> list[StoredValue]:
    """The stored values in order, without inputs and numbers."""
    stored: list[StoredValue] = []
    for i in sorted(plan.stored):
        if not plan.ops[i].kind.is_leaf and i in plan.names:
            op, why = plan.ops[i], reason_to_store(plan, i)
            if i in plan.overwrites:
                why += f"; in the memory of {plan.ops[plan.overwrites[i]].label}"
            stored.append(StoredValue(op.label, _node_of(op), plan.names[i], op.dims, why))
    return stored


# --- reasons to store -----------------------------------------------------------------------------

_BY_CATEGORY = {
    Category.REDUCTION: "a reduction: it is complete only after its loops",
    Category.EXTREMUM: "a search along an axis: it is complete only after its loops",
    Category.SCAN: "a running total: each entry needs the one before",
    Category.PRODUCT: "a sum of products: it is complete only after its loops",
    Category.STORE: "an array in which some entries are replaced",
    Category.JOIN: "arrays side by side: each part has loops of its own",
    Category.SCATTER: "terms are added to it one after another",
    Category.ROUTINE: "the result of a routine, which writes to memory",
    Category.RESULT: "the result of a routine, which writes to memory",
}


def reason_to_store(plan: Plan, i: int) -> str:
    """Why node `i`, which is stored, is not computed where it is read: the conditions of
    `materialisation` in words, asked one by one.
    """
    analysis, op = plan.analysis, plan.ops[i]
    if i in analysis.outputs:
        return "an output"
    if i in plan.accumulated:
        return _BY_CATEGORY[Category.SCATTER]
    if op.kind.is_routine or op.kind.in_memory:
        return _BY_CATEGORY[Category.ROUTINE if op.kind.is_routine else op.kind.category]
    if op.kind is Kind.COPY or i in analysis.read_in_memory:
        return "a routine or a gather reads it in memory"
    if not nonunit(op.dims):
        return "one number, computed once"
    return _by_cost(plan, i)


def _by_cost(plan: Plan, i: int) -> str:
    """The reason for a value that could be computed where it is read."""
    analysis = plan.analysis
    limit = analysis.limits[i]
    if limit == ALWAYS:
        return "a function of each row, read all along the row"
    if any(u in analysis.reordering_reshapes for u in analysis.readers[i]):
        return "its entries are read in the order of another shape"
    if limit == REPEATED:
        return "it is repeated along an axis: each entry would be computed many times"
    if limit == MOVED:
        return "several read it, one of them in another order"
    return "it costs much, and would be computed more than once"


# --- memory traffic -------------------------------------------------------------------------------


def moved_bytes(program: LoopProgram, sizes: tuple[int, ...]) -> int:
    """Bytes that a kernel reads and writes, for these values of ``n0, n1, ...``.

    The model is a cache that holds everything while a nest runs and nothing between two nests: each
    nest reads and writes each entry that it accesses once.
    """
    memory = (*program.arguments, *program.temporaries, *program.outputs)
    shapes = {m.name: (m.dims, int(m.dtype[1:])) for m in memory}
    total = 0
    for item in program.items:
        for part in nests_and_calls(item):
            if isinstance(part, Call):
                total += sum(_product(*shapes[b], sizes) for b in part.buffers if b in shapes)
            else:
                total += _moved_by_nest(part, shapes, sizes)
    return total


_Shapes = Mapping[str, tuple[tuple[str, ...], int]]


def _moved_by_nest(nest: Nest, shapes: _Shapes, sizes: tuple[int, ...]) -> int:
    most: dict[tuple[str, bool], int] = {}
    own = {statement.target for statement in nest.all_statements}
    for statement in nest.all_statements:
        for name, written, access in _accesses(statement):
            if name not in shapes:
                continue
            whole, width = shapes[name]
            loops = {axis.var for axis in access.index if axis.var >= 0}
            if any(own & {*names_in(axis.start)} for axis in access.index):
                loops = set(range(len(nest.domain)))  # a position that is found at run time
            dims = tuple(nest.domain[k] for k in sorted(loops) if k < len(nest.domain))
            entries = min(_product(dims, width, sizes), _product(whole, width, sizes))
            key = name, written
            most[key] = max(most.get(key, 0), entries)
    return sum(most.values())


def _accesses(statement: Statement) -> list[tuple[str, bool, Access]]:
    """The memory that a statement reads and writes; an update does both."""
    access = statement.access
    if access is None:
        return []
    kinds = [True] if statement.kind.writes else [False]
    if statement.kind.writes and statement.text:
        kinds.append(False)
    return [(access.buffer.name, written, access) for written in kinds]


def _product(dims: tuple[str, ...], width: int, sizes: tuple[int, ...]) -> int:
    return int(Work(dims, 1.0).nanoseconds(sizes)) * width

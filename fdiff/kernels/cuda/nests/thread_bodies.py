"""Bodies of loops as what one thread of a GPU does in a trip, where that is possible.

It is possible if each entry is computed from entries at the same place: then nothing is read that
another thread has written. The conditions and their gain: docs/decisions/loops-on-a-gpu.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from math import prod

from ....named_tuples import NamedTuple
from ...ir.accesses import Access
from ...ir.index_expressions import ONE, Axis, Dims, Index, plus, times
from ...ir.kernel_graph import KernelGraph
from ...ir.loops import LoopProgram, Nest, Statement, StatementKind
from ...passes.pipeline import lower_for_cuda

_COMPUTED = (StatementKind.LET, StatementKind.LOAD, StatementKind.STORE, StatementKind.POSITION)


class ThreadStep(NamedTuple):
    """A statement of one entry: of each thread's, if it is `mapped`, or of all."""

    statement: Statement
    mapped: bool


class ThreadBody(NamedTuple):
    """A body as the statements that a thread runs for its entry of arrays of the shape `mapped`."""

    program: LoopProgram
    mapped: Dims
    steps: tuple[ThreadStep, ...]


@lru_cache(maxsize=64)
def thread_body(graph: KernelGraph) -> ThreadBody | None:
    """The body of a loop as one thread's statements; None if entries depend on other entries."""
    if any(op.kind.is_routine for op in graph.ops):
        return None
    program = lower_for_cuda(graph, tiled=False)
    nests = [item for item in program.items if isinstance(item, Nest)]
    # Threads share the long axes: few components of an entry are loops of a thread.
    shapes = {tuple(d for d in nest.domain if not d.isdigit()) for nest in nests} - {()}
    simple = all(
        not (n.accumulators or n.branches or n.excluded or n.ranges)
        and all(s.kind in _COMPUTED for s in n.statements)
        for n in nests
    )
    if len(nests) < len(program.items) or len(shapes) > 1 or not simple:
        return None
    mapped = shapes.pop() if shapes else ()
    steps = tuple(step for nest in nests for step in _unrolled(nest))
    body = ThreadBody(program, mapped, steps)
    return body if _keeps_to_its_entries(body, graph) else None


def _unrolled(nest: Nest) -> Iterator[ThreadStep]:
    """The statements of a nest for each component, whose locals have names of their own."""
    few = {k: int(d) for k, d in enumerate(nest.domain) if d.isdigit()}
    rest = [k for k in range(len(nest.domain)) if k not in few]
    targets = {s.target for s in nest.statements if s.target}
    for place in product(*map(range, few.values())):
        at = dict(zip(few, place, strict=True))
        suffix = "".join(f"_{p}" for k, p in at.items() if nest.domain[k] != ONE)

        def named(name: str, suffix: str = suffix) -> str:
            return name + suffix if name in targets else name

        def moved(axis: Axis, at: Mapping[int, int] = at) -> Axis:
            if axis.var in at:
                return Axis(-1, "1", plus(axis.start, times(axis.step, str(at[axis.var]))))
            return axis if axis.var < 0 else axis._replace(var=rest.index(axis.var))

        for s in nest.statements:
            access = s.access and s.access._replace(index=tuple(map(moved, s.access.index)))
            operands = tuple(map(named, s.operands))
            new = s._replace(target=named(s.target), operands=operands, access=access)
            yield ThreadStep(new, bool(rest))


def _keeps_to_its_entries(body: ThreadBody, graph: KernelGraph) -> bool:
    """Whether a thread reads, of memory that the body writes, only entries it has written.

    All entries of a carry have to be among those that it reads or writes, or none: then it stays.
    """
    seen: dict[str, set[Index]] = {}
    carries = body.program.outputs[: graph.carries]
    for s, mapped in body.steps:
        name = memory_of(s, graph.carries)
        if s.access is None or (name not in body.program.own_memory):
            continue
        if not _is_own(s.access, body.mapped) or (s.writes and mapped is not is_mapped(s.access)):
            return False
        first_read = not s.writes and s.access.index not in seen.setdefault(name, set())
        if first_read and name not in {out.name for out in carries}:
            return False
        seen.setdefault(name, set()).add(s.access.index)
    return all(
        out.scalar or not out.dims or len(seen.get(out.name, ())) in (0, _components(out.dims))
        for out in carries
    )


def memory_of(s: Statement, carries: int) -> str:
    """The memory of a statement; a carry's before the trip, by its name after the trip."""
    carry = s.memory[:1] == "x" and int(s.memory[1:]) < carries
    return f"out{s.memory[1:]}" if carry else s.memory


def _components(dims: Dims) -> int:
    """How many entries a thread has of an array."""
    return prod(int(d) for d in dims if d.isdigit())


def is_mapped(access: Access) -> bool:
    return any(axis.var >= 0 for axis in access.index)


def _is_own(access: Access, mapped: Dims) -> bool:
    """Whether each thread accesses an entry of its own, or all the same entry."""
    loops = [axis.var for axis in access.index if axis.var >= 0]
    direct = all(
        axis == Axis(axis.var) if axis.var >= 0 else dim.isdigit() and axis.start.isdigit()
        for axis, dim in zip(access.index, access.dims, strict=True)
    )
    return direct and loops in ([], list(range(len(mapped))))

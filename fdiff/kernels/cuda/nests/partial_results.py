"""Reductions in two stages: many threads leave partial results, which a second nest reduces.

Partial results lie in memory and are added in one order: sums do not differ from run to run.

Tree reductions in two launches: M. Harris, Optimizing parallel reduction in CUDA, 2007, page 5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from ....named_tuples import NamedTuple
from ...ir.accesses import Access, Buffer
from ...ir.index_expressions import Axis, Dims, Index
from ...ir.loops import Accumulator, Nest, Statement, StatementKind
from .nest_mapping import MappedNest, neutral_of
from .nest_text import iterations


class PartialMemory(Protocol):
    """Who gives memory for partial results; `dtypes` has the dtype of each name so far."""

    dtypes: dict[str, str]

    def partial(self, dtype: str, dims: Dims) -> str:
        """The name of new memory."""
        ...


class _Stages(NamedTuple):
    """Partial results of shape `dims`: stored at `stored`, read at `read` within `outer` loops."""

    dims: Dims
    stored: Index
    read: Index
    outer: int


def neutral_element(a: Accumulator) -> str:
    """The neutral element of a reduction, with which its iterations may begin."""
    assert a.combiner is not None
    return a.identity if a.identity != a.name else neutral_of(a.combiner, a.dtype)


def by_blocks(mapped: MappedNest, blocks: str, memory: PartialMemory) -> tuple[MappedNest, Nest]:
    """Split a nest that reduces all its loops: each of `blocks` blocks leaves a partial result."""
    stages = _Stages((blocks,), (Axis(-1, "1", "block_number"),), (Axis(0),), 0)
    return _staged(mapped, mapped.nest, stages, memory)


def chunked(
    mapped: MappedNest, most: int, memory: PartialMemory, *, together: bool
) -> tuple[MappedNest, Nest]:
    """The terms of each entry in chunks, so that there are up to `most` partial results in all.

    Chunks are an outer loop: neighbouring threads have neighbouring entries of the same chunk, or
    share a chunk if they work `together`.
    """
    nest, first = mapped.nest, mapped.parallel
    begin, end = (nest.ranges[first] if nest.ranges else None) or ("0", nest.domain[first])
    count = f"({end} - ({begin}))"
    chunks = f"max(1, min({count}, {most} // max(1, {iterations(nest, 0, first)})))"
    wide = _inside_a_loop(nest, chunks)
    ranges = list(wide.ranges or (None,) * len(wide.domain))
    ends = [f"({begin}) + {count} * {k} // ({chunks})" for k in ("i0", "(i0 + 1)")]
    ranges[first + 1] = (ends[0], ends[1])
    wide = replace(wide, ranges=tuple(ranges))
    own = [Axis(k) for k in range(first)]
    stages = _Stages(
        (chunks, *nest.domain[:first]),
        tuple(Axis(k) for k in range(first + 1)),
        (Axis(first), *own),
        first,
    )
    reduced = mapped.reduced if together else 0
    moved = MappedNest(wide, first + 1, reduced, mapped.atomic, contiguous=not together)
    return _staged(moved, nest, stages, memory)


def _staged(
    mapped: MappedNest, original: Nest, stages: _Stages, memory: PartialMemory
) -> tuple[MappedNest, Nest]:
    """The nest that stores partial results, and the one that reduces them as `original` does."""
    sums: list[Accumulator] = []
    statements: list[Statement] = []
    ends: list[Accumulator] = []
    final = {a.name: a.final for a in original.accumulators}
    for a in mapped.nest.accumulators:
        if a.depth != mapped.parallel:
            sums.append(a)
            continue
        assert a.combiner is not None
        neutral, dtype = neutral_element(a), a.dtype
        buffer = Buffer(memory.partial(dtype, stages.dims))
        stored = Statement.store((a.name,), Access(buffer, stages.dims, stages.stored))
        sums.append(replace(a, identity=neutral, final=(stored,)))
        part, text = f"part_{a.name}", a.combiner.text(dtype)
        statements.append(Statement.load(part, Access(buffer, stages.dims, stages.read)))
        statements.append(Statement(StatementKind.ACCUMULATE, a.name, text, (part,)))
        ends.append(replace(a, depth=stages.outer, final=final[a.name]))
    second = Nest(
        (*original.domain[: stages.outer], stages.dims[0]),
        tuple(statements),
        tuple(ends),
        f"{original.comment}, from partial results",
        ranges=(*original.ranges[: stages.outer], None) if original.ranges else (),
    )
    return replace(mapped, nest=replace(mapped.nest, accumulators=tuple(sums))), second


def _inside_a_loop(nest: Nest, count: str) -> Nest:
    """The nest inside one more loop."""

    def moved(s: Statement) -> Statement:
        if s.access is None:
            return s
        index = tuple(a._replace(var=a.var + 1) if a.var >= 0 else a for a in s.access.index)
        return s._replace(access=s.access._replace(index=index))

    new = nest.map(moved)
    sums = tuple(replace(a, depth=a.depth + 1) for a in new.accumulators)
    ranges = (None, *nest.ranges) if nest.ranges else ()
    return replace(new, domain=(count, *nest.domain), accumulators=sums, ranges=ranges)

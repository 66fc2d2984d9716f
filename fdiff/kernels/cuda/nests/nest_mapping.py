"""The mapping of a nest to threads: loops that threads may share, and the order of loops.

The loops of a nest are *parallel* (each iteration writes entries of its own), *reduced* (iterations
combine values by an operator that may be reordered) or *ordered* (scans, and what overwrites
entries that other iterations write or read). Parallel loops come first: threads share them.
The facts are those that loop programs state: combiners, scans, and `Access.injective_loops`.

Which loops are parallel follows from the dependences they carry, and which may be exchanged, too:
R. Allen and K. Kennedy, Optimizing Compilers for Modern Architectures, Morgan Kaufmann 2001,
chapter 2 and section 5.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ...ir.combiners import KINDS, Combiner
from ...ir.loops import Accumulator, Nest, Statement, StatementKind
from ...ir.operation_text import identity_of

_ATOMIC_SUMS = ("f4", "f8", "i4", "i8", "u4", "u8")  # dtypes that GPUs add to memory atomically


@dataclass(frozen=True)
class MappedNest:
    """A nest whose first `parallel` loops are parallel: threads share them.

    The next `reduced` loops may be shared as well: their accumulators (of depth `parallel`) can be
    combined in any order. `atomic` has the memory that several threads may update at once, and
    `contiguous` says whether the loop that was innermost is parallel.
    """

    nest: Nest
    parallel: int
    reduced: int
    atomic: frozenset[str]
    contiguous: bool

    @property
    def reductions(self) -> tuple[Accumulator, ...]:
        """The accumulators over all loops that are not parallel."""
        return tuple(a for a in self.nest.accumulators if a.depth == self.parallel)


def neutral_of(combiner: Combiner, dtype: str) -> str:
    """The neutral element of an operator, as text."""
    return identity_of(KINDS[combiner], dtype)


def map_nest(nest: Nest, memory: Mapping[str, str], *, atomics: bool) -> MappedNest:
    """The loops of a nest by kind; `memory` has the dtypes of all that the program writes to.

    Without `atomics`, updates of one entry by several iterations are done by one thread, in order.
    """
    rank = len(nest.domain)
    every = frozenset(range(rank))
    inside = _statements_in_loops(nest)
    ordered = ordered_loops(nest)
    depth = min((a.depth for a in nest.accumulators), default=rank)
    kept = ordered | frozenset(range(depth, rank))  # loops that are not parallel
    shared: set[str] = set()  # memory that parallel iterations update atomically
    for update in inside:
        if update.kind is not StatementKind.UPDATE:
            continue
        own = _own_loops(update, inside)
        if every <= own | kept:
            continue
        # One thread adds up the terms of an entry, in a register, where nothing else keeps loops
        # from being parallel and the entry is known, or where no GPU does that atomically.
        if (not kept and not _is_dynamic(update)) or not (atomics and is_atomic(update, memory)):
            kept |= every - own
        else:
            shared.add(update.memory)
    order = [k for k in range(rank) if k not in kept] + sorted(kept)
    parallel = rank - len(kept)
    if atomics and not ordered:
        shared |= _left_in_memory(nest, inside, kept, memory)
    new, in_place = _in_registers(_permuted(nest, order), parallel, memory, shared)
    inner = min((a.depth for a in new.accumulators if a.depth > parallel), default=rank)
    free = not ordered and not in_place and all(map(_reorderable, new.accumulators))
    contiguous = rank - 1 not in kept
    return MappedNest(new, parallel, inner - parallel if free else 0, frozenset(shared), contiguous)


def scattered_updates(nest: Nest) -> list[Statement]:
    """The updates of entries found at run time, which several iterations may update."""
    every = frozenset(range(len(nest.domain)))
    inside = _statements_in_loops(nest)
    return [
        s
        for s in nest.statements
        if s.kind is StatementKind.UPDATE and _is_dynamic(s) and not every <= _own_loops(s, inside)
    ]


def _left_in_memory(
    nest: Nest, inside: list[Statement], kept: frozenset[int], memory: Mapping[str, str]
) -> set[str]:
    """The memory that statements in loops `kept` update, and that no register stands in for."""
    every = frozenset(range(len(nest.domain)))
    counts = _uses_of_memory(nest)
    out: set[str] = set()
    for s in inside:
        if s.kind is not StatementKind.UPDATE or every <= _own_loops(s, inside):
            continue
        assert s.access is not None
        fixed = not _is_dynamic(s) and all(axis.var not in kept for axis in s.access.index)
        if not (fixed and counts[s.memory] == 1) and is_atomic(s, memory):
            out.add(s.memory)
    return out


def _uses_of_memory(nest: Nest) -> dict[str, int]:
    counts: dict[str, int] = {}
    for s in nest.all_statements:
        if s.kind.uses_memory:
            counts[s.memory] = counts.get(s.memory, 0) + 1
    return counts


def _statements_in_loops(nest: Nest) -> list[Statement]:
    """The statements that loops run, with those that store accumulators of inner loops."""
    late = {id(s) for a in nest.accumulators if a.depth == 0 for s in a.final}
    return [s for s in nest.all_statements if id(s) not in late]


def _reorderable(accumulator: Accumulator) -> bool:
    return accumulator.combiner is not None and not accumulator.scan


def _is_dynamic(statement: Statement) -> bool:
    """Whether the entry that is accessed is found at run time."""
    return len(statement.operands) > 1


def is_atomic(update: Statement, memory: Mapping[str, str]) -> bool:
    """Whether threads of several blocks may do an update of memory at once."""
    dtype = memory[update.memory]
    if update.combiner is Combiner.ADD:
        return dtype in _ATOMIC_SUMS
    return dtype == "b1" and update.combiner in (Combiner.OR, Combiner.AND)


def ordered_loops(nest: Nest) -> frozenset[int]:
    """The loops whose iterations must run in order."""
    rank, inside = len(nest.domain), _statements_in_loops(nest)
    out = {int(s.operands[0]) for s in inside if s.kind is StatementKind.CARRY}
    for accumulator in nest.accumulators:
        if not _reorderable(accumulator):
            out |= set(range(accumulator.depth, rank))
    stored = {id(s): a.depth for a in nest.accumulators for s in a.final}
    uses: dict[str, list[Statement]] = {}
    for s in inside:
        if s.access is not None and s.kind.uses_memory and s.kind is not StatementKind.CARRY:
            uses.setdefault(s.memory, []).append(s)
    for some in uses.values():
        for loop in range(rank):
            # what an accumulator stores is stored after its loops, so these do not carry it
            repeated = [s for s in some if stored.get(id(s), rank) > loop]
            if not _reads_or_combines(repeated) and not _is_parallel(repeated, loop):
                out.add(loop)
    return frozenset(out)


def _reads_or_combines(uses: list[Statement]) -> bool:
    """Whether accesses of one memory are loads, or updates by one operator, in any order."""
    if not any(s.writes for s in uses):
        return True
    combined = all(s.kind is StatementKind.UPDATE and s.combiner is not None for s in uses)
    return combined and len({s.combiner for s in uses}) == 1


def _is_parallel(uses: list[Statement], loop: int) -> bool:
    """Whether each iteration of a loop uses entries of its own of memory that is written."""
    rows = {s.access.row_in(loop) for s in uses if s.access is not None}
    # stores of one nest into one array are of disjoint pieces of it
    return None not in rows and (len(rows) == 1 or all(s.kind is StatementKind.STORE for s in uses))


def _own_loops(update: Statement, inside: list[Statement]) -> frozenset[int]:
    """The loops of which each iteration updates entries of its own."""
    assert update.access is not None
    uses = [s for s in inside if s.memory == update.memory and s.kind.uses_memory]
    return frozenset(k for k in update.access.injective_loops if _is_parallel(uses, k))


# --- the nest with its loops in another order -------------------------------------------------


def _permuted(nest: Nest, order: list[int]) -> Nest:
    """The nest with loop ``order[k]`` in place `k`."""
    if order == sorted(order):
        return nest
    place = {old: new for new, old in enumerate(order)}
    rank = len(order)

    def moved(statement: Statement) -> Statement:
        if statement.kind is StatementKind.CARRY:
            loop, *rest = statement.operands
            statement = statement._replace(operands=(str(place[int(loop)]), *rest))
        if statement.access is None:
            return statement
        index = tuple(
            axis._replace(var=place[axis.var]) if axis.var >= 0 else axis
            for axis in statement.access.index
        )
        return statement._replace(access=statement.access._replace(index=index))

    new = nest.map(moved)
    return replace(
        new,
        domain=tuple(nest.domain[k] for k in order),
        ranges=tuple(nest.ranges[k] for k in order) if nest.ranges else (),
        accumulators=tuple(
            replace(a, depth=min((place[k] for k in range(a.depth, rank)), default=rank))
            for a in new.accumulators
        ),
        branches=tuple(
            (tuple(sorted((place[k], begin, end) for k, begin, end in guard)), statements)
            for guard, statements in new.branches
        ),
    )


def _in_registers(
    nest: Nest, parallel: int, memory: Mapping[str, str], shared: set[str]
) -> tuple[Nest, bool]:
    """Updates of one entry in all but the parallel loops, as accumulators (scalar replacement).

    Also whether other updates are left that are not in `shared`, and so must stay in order.
    """
    rank = len(nest.domain)
    if parallel == rank:
        return nest, False
    counts = _uses_of_memory(nest)
    statements: list[Statement] = []
    sums = list(nest.accumulators)
    for s in nest.statements:
        if s.kind is StatementKind.UPDATE and counts[s.memory] == 1 and _is_fixed(s, parallel):
            assert s.access is not None
            assert s.combiner is not None
            dtype = memory[s.memory]
            name = f"{s.target}_sum"
            text = s.combiner.text(dtype)
            value = s.operands[0]
            statements.append(Statement(StatementKind.ACCUMULATE, name, text, (value,)))
            final = s._replace(operands=(name,))
            neutral = neutral_of(s.combiner, dtype)
            sums.append(Accumulator(name, neutral, dtype, parallel, (final,), s.combiner))
        else:
            statements.append(s)
    new = replace(nest, statements=tuple(statements), accumulators=tuple(sums))
    return new, any(_updates_in_place(new, parallel, shared))


def _updates_in_place(nest: Nest, parallel: int, shared: set[str]) -> Iterator[bool]:
    """For each update that is not `shared`, whether several iterations update one entry.

    They may do so by one update, or by several updates at other places of the same memory.
    """
    rank, inside = len(nest.domain), _statements_in_loops(nest)
    loops = {id(s): a.depth for a in nest.accumulators for s in a.final}
    for s in inside:
        depth = loops.get(id(s), rank)
        if s.kind is StatementKind.UPDATE and s.memory not in shared and depth > parallel:
            yield not frozenset(range(depth)) <= _own_loops(s, inside)


def _is_fixed(update: Statement, parallel: int) -> bool:
    """Whether the entry depends on the parallel loops alone."""
    access = update.access
    assert access is not None
    return not _is_dynamic(update) and all(axis.var < parallel for axis in access.index)

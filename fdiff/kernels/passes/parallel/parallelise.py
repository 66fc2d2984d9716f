"""Parallelisation: which loops threads may share, and privatisation of what they write.

A loop is parallel if each iteration of its outermost loop writes entries of its own, or combines
values into locals or memory by an operator that may be reordered. Such reductions are private to
each part of the loop, and combined in the order of the parts, so that results do not depend on the
threads (privatisation: R. Allen and K. Kennedy, Optimizing Compilers for Modern Architectures,
Morgan Kaufmann 2001, section 6.2.1). All else (scans, routines, boundaries) is for one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ...ir.accesses import Access, Buffer
from ...ir.combiners import Combiner
from ...ir.loops import (
    BEGIN,
    END,
    Call,
    Item,
    LoopProgram,
    Nest,
    Statement,
    StatementKind,
    Temporary,
    TileLoop,
    VersionedLoop,
    map_nests,
    nests_and_calls,
)
from ...ir.parallel import (
    PARTS,
    THREADS,
    ParallelLoop,
    ParallelProgram,
    PrivateReduction,
    SerialRegion,
    name_of_private_copy,
)
from ..tile.loop_collapse import collapse

_ROWS = (BEGIN, END)  # the range of a loop over the rows of a tile
T = TypeVar("T", Nest, TileLoop, VersionedLoop)


def parallelise(program: LoopProgram, heavy: frozenset[int]) -> ParallelProgram | None:
    """The program for several threads, which share the items numbered in `heavy`.

    None if none of these is parallel.
    """
    sharing = _Parallelisation(program)
    items: list[ParallelLoop | SerialRegion | Nest] = []
    for k, item in enumerate(program.items):
        shared = sharing.item(item, heavy=k in heavy)
        last = items[-1] if items else None
        if isinstance(shared, SerialRegion) and isinstance(last, SerialRegion):
            shared = SerialRegion((*last.items, *shared.items), (*last.locals, *shared.locals))
            items.pop()
        items.append(shared)
    if not any(isinstance(item, ParallelLoop) for item in items):
        return None
    return ParallelProgram(sharing.temporaries(), tuple(items), program.outputs, program.locals)


class _Parallelisation:
    """The state of the pass on its way through the items of a program."""

    def __init__(self, program: LoopProgram) -> None:
        self.program = program
        self.locals = dict(program.locals)
        self.memory = program.own_memory
        self.tile_local = _tile_local(program)
        self.neutral: dict[str, str] = {}  # the initial values of accumulators
        self.private_memory: list[Temporary] = []

    def temporaries(self) -> tuple[Temporary, ...]:
        """The memory of the program, and private memory of threads and parts."""
        own = (
            t._replace(copies=THREADS) if t.name in self.tile_local else t
            for t in self.program.temporaries
        )
        return (*own, *self.private_memory)

    def item(self, item: Item, *, heavy: bool) -> ParallelLoop | SerialRegion | Nest:
        """The item as a parallel loop if it is heavy and parallel; else for one thread."""
        shared: ParallelLoop | Nest | None = None
        count = len(self.private_memory)
        if isinstance(item, Nest):
            if not item.domain:
                shared = self._replicated(item)
            elif heavy:
                shared = self._nest(collapse(item))
            self.neutral |= {a.name: a.identity for a in item.accumulators if a.identity != a.name}
            lets = (s for s in item.statements if s.kind is StatementKind.LET and not s.operands)
            self.neutral |= {s.target: s.text for s in lets}
        elif isinstance(item, TileLoop) and heavy:
            shared = self._tile_loop(item)
        elif isinstance(item, VersionedLoop) and heavy:
            shared = self._versioned(item)
        if shared is None:
            del self.private_memory[count:]
        return shared or self._serial(item)

    def _serial(self, item: Item) -> SerialRegion:
        """The item for one thread, with the locals of it that other items may read."""
        names: dict[str, None] = {}
        for nest in _nests(item):
            names |= dict.fromkeys(s.target for s in nest.all_statements)
            names |= dict.fromkeys(a.name for a in nest.accumulators)
        slots = [(name, self._slot(self.locals[name])) for name in names if name in self.locals]
        return SerialRegion((item,), tuple(slots))

    def _slot(self, dtype: str) -> str:
        """Memory for a local, one entry for each part."""
        self.private_memory.append(
            Temporary(f"slot{len(self.private_memory)}", dtype, (), (), PARTS)
        )
        return self.private_memory[-1].name

    def _replicated(self, nest: Nest) -> Nest | None:
        """A nest without a loop that every thread can compute: it reads only the inputs."""
        used = {s.memory for s in nest.all_statements}
        return nest if used.isdisjoint(self.memory) else None

    def _nest(self, nest: Nest) -> ParallelLoop | None:
        """A loop nest whose outermost loop is shared; None if that is not parallel."""
        if not nest.domain or nest.excluded or nest.branches:
            return None
        outer = [a for a in nest.accumulators if a.depth == 0]
        late = {id(s) for a in outer for s in a.final}
        inside = [s for s in nest.all_statements if id(s) not in late]
        totals = self._totals([nest], inside, [a.name for a in outer])
        copies = self._copies(inside, {id(s): 0 for s in inside})
        if totals is None or copies is None:
            return None
        bounds = nest.ranges[0] if nest.ranges and nest.ranges[0] else ("0", nest.domain[0])
        inner = nest.ranges[1:] or (None,) * (len(nest.domain) - 1)
        final = [s for a in outer for s in a.final]
        sums = tuple(
            replace(a, identity=a.name, final=()) if a.depth == 0 else a for a in nest.accumulators
        )
        ranges = ((_first_of_part(bounds, "part"), _first_of_part(bounds, "part + 1")), *inner)
        lines = replace(nest, ranges=ranges, accumulators=sums)
        return ParallelLoop(_with_private_copies(lines, copies), totals, copies, tuple(final))

    def _tile_loop(self, tile_loop: TileLoop) -> ParallelLoop | None:
        """A tile loop whose tiles are shared; None if it is not parallel."""
        nests = list(_nests(tile_loop))
        continues = [a.name for n in nests for a in n.accumulators if a.identity == a.name]
        inside = [s for nest in nests for s in nest.all_statements]
        row_loops = {
            id(s): nest.ranges.index(_ROWS)
            for nest in nests
            if _ROWS in nest.ranges
            for s in nest.all_statements
        }
        totals = self._totals(nests, inside, list(dict.fromkeys(continues)))
        copies = self._copies(inside, row_loops)
        calls = (i for i in tile_loop.items if isinstance(i, Call))
        if totals is None or copies is None or not all(map(self._writes_own_rows, calls)):
            return None
        return ParallelLoop(_with_private_copies(tile_loop, copies), totals, copies, ())

    def _writes_own_rows(self, call: Call) -> bool:
        """Whether a matrix product of a tile writes only rows of that tile."""
        return call.buffers[2] in self.tile_local or bool(call.begins and call.begins[2])

    def _versioned(self, runs: VersionedLoop) -> ParallelLoop | None:
        """Parallel form of a loop with versions: if its fallback has one, for all do the same."""
        fallback = self._tile_loop(runs.fallback)
        if fallback is None or not isinstance(fallback.item, TileLoop):
            return None
        nests = [nest for way in runs.versions for nest in way.items]
        summed = {a.name for nest in nests for a in nest.accumulators if a.identity == a.name}
        if not summed <= {total.name for total in fallback.totals}:
            return None
        return replace(fallback, item=_with_private_copies(runs, fallback.copies))

    def _totals(
        self, nests: Sequence[Nest], inside: Sequence[Statement], names: list[str]
    ) -> tuple[PrivateReduction, ...] | None:
        """The reductions into these locals, private to each part; None if one must keep order."""
        if any(s.target in self.locals and s.target not in names for s in inside):
            return None  # a local that only one of the parts would assign
        if any(s.kind is StatementKind.CARRY and s.operands[0] == "0" for s in inside):
            return None
        out: list[PrivateReduction] = []
        for name in names:
            accumulators = [a for n in nests for a in n.accumulators if a.name == name]
            last = accumulators[-1]
            combiner, identity, dtype = last.combiner, last.identity, last.dtype
            continues = identity == name
            neutral = self.neutral.get(name, "") if continues else identity
            if combiner is None or not neutral or any(a.scan for a in accumulators):
                return None
            text = combiner.text(dtype)
            out.append(PrivateReduction(name, self._slot(dtype), neutral, text, continues))
        return tuple(out)

    def _copies(
        self, inside: Sequence[Statement], row_loops: Mapping[int, int]
    ) -> tuple[tuple[Temporary, Temporary], ...] | None:
        """Memory that several iterations may add to, with its private copies.

        None if iterations depend on each other in any other way. `row_loops` has the number of the
        parallel loop for each statement, by its `id`.
        """
        uses: dict[str, list[Statement]] = {}
        for s in inside:
            if s.memory in self.memory:
                uses.setdefault(s.memory, []).append(s)
        out: list[tuple[Temporary, Temporary]] = []
        for name, some in uses.items():
            if name in self.tile_local or not any(s.writes for s in some):
                continue
            rows = {
                s.access.row_in(row_loops[id(s)]) if s.access and id(s) in row_loops else None
                for s in some
            }
            # stores of one nest into one array are of disjoint pieces of it
            if None not in rows and (
                len(rows) == 1 or all(s.kind is StatementKind.STORE for s in some)
            ):
                continue
            if any(s.combiner is not Combiner.ADD for s in some):
                return None
            whole = self.memory[name]
            self.private_memory.append(
                Temporary(f"all{len(self.private_memory)}", whole.dtype, whole.dims, (), PARTS)
            )
            out.append((whole, self.private_memory[-1]))
        return tuple(out)


def _first_of_part(bounds: tuple[str, str], part: str) -> str:
    """The first iteration of a part, as text."""
    begin, end = bounds
    if begin == "0":
        return f"rt.part_begin({end}, {part}, parts)"
    return f"({begin}) + rt.part_begin(max(({end}) - ({begin}), 0), {part}, parts)"


def _tile_local(program: LoopProgram) -> frozenset[str]:
    """Temporaries that a single tile loop uses: each thread has a copy of its own."""
    users: dict[str, set[int]] = {}
    for k, item in enumerate(program.items):
        for part in nests_and_calls(item):
            calls = isinstance(part, Call)
            for name in part.buffers if calls else {s.memory for s in part.all_statements}:
                users.setdefault(name, set()).add(k)
    return frozenset(
        t.name
        for t in program.temporaries
        if len(users.get(t.name, ())) == 1
        and all(isinstance(program.items[k], TileLoop | VersionedLoop) for k in users[t.name])
    )


def _nests(item: Item) -> Iterator[Nest]:
    """All nests in an item."""
    return (part for part in nests_and_calls(item) if isinstance(part, Nest))


def _with_private_copies(item: T, copies: tuple[tuple[Temporary, Temporary], ...]) -> T:
    """The item with private copies in place of the memory that they are copies of."""
    names = {whole.name: Buffer(name_of_private_copy(copy)) for whole, copy in copies}

    def renamed(access: Access) -> Access:
        return access._replace(buffer=names.get(access.buffer.name, access.buffer))

    return map_nests(item, lambda nest: nest.map_accesses(renamed))

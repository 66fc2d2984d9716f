"""Gather and scatter staging: loops with indirect accesses, cut so that arithmetic vectorises.

Entries at indices that are known at run time only make a loop scalar: each index is checked, and
two rows may add to one entry. So a tile of a few rows is processed in three loops: the first
gathers all that is read indirectly into contiguous buffers, the second computes from these, in
vectors, and the third scatters the results.

The cuts are loop distribution (`separable_statements.py`): docs/decisions/gather-staging.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ....lazy_attributes import cached_property
from ...ir.accesses import Access, Buffer
from ...ir.index_expressions import FIRST, Axis
from ...ir.loops import (
    BEGIN,
    END,
    Accumulator,
    Conditional,
    Item,
    LoopProgram,
    Nest,
    Statement,
    StatementKind,
    Temporary,
    TileLoop,
    VersionedLoop,
)
from ...ir.operation_costs import SLOW, flops_of
from .contiguous_runs import IndexedRows, as_reduction, backward_slice
from .row_dependence import finalisation, initialisation, restricted_to_tile

_ROWS = "64"  # of a tile: their buffers stay in the first-level cache


def stage_gathers(program: LoopProgram) -> LoopProgram:
    """The program with its loops that gather and scatter in stages."""
    dtypes = program.memory
    items: list[Item] = []
    buffers: list[Temporary] = []
    for item in program.items:
        staged = _Staged(item, dtypes, len(buffers)) if isinstance(item, Nest) else None
        if staged is None or not staged.is_profitable():
            items.append(item)
            continue
        items += staged.items()
        buffers += staged.buffers()
    if not buffers:
        return program
    return replace(program, items=tuple(items), temporaries=(*program.temporaries, *buffers))


@dataclass
class _StagedValue:
    """Where a value is stored for a later stage: a row of a buffer."""

    buffer: str
    dtype: str
    row: int


@dataclass(frozen=True)
class _Staged:
    """A nest of one loop whose statements are put into stages; its `number` names its buffers."""

    nest: Nest
    dtypes: Mapping[str, str]
    number: int

    @cached_property
    def indirect(self) -> IndexedRows:
        return IndexedRows(self.nest, self.dtypes)

    @property
    def indices(self) -> Mapping[str, Statement]:
        return self.indirect.checked_indices

    @cached_property
    def varying(self) -> frozenset[str]:
        """The locals that differ between rows."""
        out: set[str] = set()
        for s in self.nest.statements:
            walks = s.access is not None and any(a.var >= 0 for a in s.access.index)
            if walks or not out.isdisjoint(s.reads):
                out.add(s.target)
        return frozenset(out)

    @cached_property
    def indirect_reads(self) -> list[Statement]:
        """Checks of indices and loads at them: the first stage."""
        return [
            s for s in self.nest.statements
            if s.kind is StatementKind.WRAP
            or (s.kind is StatementKind.LOAD and self.indirect.is_indirect(s))
        ]  # fmt: skip

    @cached_property
    def scatters(self) -> list[Statement]:
        """Writes at indices, or at several entries of one array: the third stage.

        Such writes may alias, which alone would keep the arithmetic from being vectorised.
        """
        writes = [s for s in self.nest.statements if s.writes]
        counts = Counter(s.memory for s in writes)
        return [s for s in writes if self.indirect.is_indirect(s) or counts[s.memory] > 1]

    @cached_property
    def scatter_groups(self) -> dict[tuple[str, ...], list[Statement]]:
        """The writes of the third stage, grouped by the indices they write at."""
        out: dict[tuple[str, ...], list[Statement]] = {}
        for s in self.scatters:
            out.setdefault(tuple(n for n in s.reads if n in self.indices), []).append(s)
        return out

    @cached_property
    def gathers(self) -> list[Statement]:
        """The first stage: indirect reads, and what computes the indices."""
        return backward_slice(self.nest.statements, self._gathered)

    @cached_property
    def arithmetic(self) -> list[Statement]:
        """The second stage: what is computed, added up or stored without an index."""
        late = {id(s) for s in self.scatters}

        def is_end(s: Statement) -> bool:
            return (s.writes or s.kind is StatementKind.ACCUMULATE) and id(s) not in late

        values = self.scattered_values
        return backward_slice(self.nest.statements, values, is_end, self._gathered)

    @cached_property
    def _gathered(self) -> frozenset[str]:
        """The locals that the first stage leaves for later ones."""
        return frozenset(s.target for s in self.indirect_reads)

    @cached_property
    def scattered_values(self) -> dict[str, str]:
        """The values that the second stage computes for the third, and their dtypes."""
        computed = {s.target for s in self.nest.statements if s.target} - self._gathered
        values = ((s.operands[0], self.dtypes[s.memory]) for s in self.scatters)
        return {name: dtype for name, dtype in values if name in computed}

    def is_profitable(self) -> bool:
        """Whether staging is legal, and the arithmetic expensive enough to gain by it."""
        nest = self.nest
        if len(nest.domain) != 1 or nest.ranges or nest.excluded or nest.branches:
            return False
        if any(s.kind in (StatementKind.CARRY, StatementKind.EXTREME) for s in nest.statements):
            return False
        if not self.indices.keys() <= self.varying:
            return False  # an index that is the same for all rows prevents nothing
        if any(a.scan for a in nest.accumulators):
            return False  # each row reads what the rows before it add up to
        if not self.indices and not any(map(_is_strided, self.scatters)):
            return False
        work = [flops_of(s.text) for s in self.arithmetic if s.kind is StatementKind.LET]
        if not self.indices and max(work, default=0) < SLOW:
            return False  # without function calls, strided stores are vectorised as they are
        return sum(work) >= SLOW and self._stages_are_independent()

    def _stages_are_independent(self) -> bool:
        """Whether no memory that is written is used in more than one stage."""
        used: dict[str, set[int]] = {}
        written: set[str] = set()
        for k, stage in enumerate((self.gathers, self.arithmetic, self.scatters)):
            for s in stage:
                used.setdefault(s.memory, set()).add(k)
                written.update([s.memory] if s.writes else [])
        return all(len(used[name]) == 1 for name in written) and self._scatters_are_ordered()

    def _scatters_are_ordered(self) -> bool:
        """Whether each memory of the third stage is only added to, or written by one loop."""
        stored: dict[str, int] = {}
        for k, statements in enumerate(self.scatter_groups.values()):
            for s in statements:
                group = -1 if s.kind is StatementKind.UPDATE else k
                if stored.setdefault(s.memory, group) != group:
                    return False
        return True

    # --- the stages as nests ------------------------------------------------------------------

    @cached_property
    def staged_values(self) -> dict[str, _StagedValue]:
        """Where each value is stored that one stage leaves for a later one."""
        gathered_values = {s.target: self._dtype(s) for s in self.indirect_reads}
        counts: dict[str, int] = {}
        out: dict[str, _StagedValue] = {}
        for kind, values in (("got", gathered_values), ("put", self.scattered_values)):
            for name, dtype in values.items():
                buffer = f"{kind}{self.number}_{dtype}"
                out[name] = _StagedValue(buffer, dtype, counts.get(buffer, 0))
                counts[buffer] = out[name].row + 1
        return out

    def _dtype(self, s: Statement) -> str:
        assert s.access is not None or s.kind is StatementKind.WRAP
        return "i8" if s.access is None else self.dtypes[s.memory]

    def buffers(self) -> list[Temporary]:
        rows = {f.buffer: (f.dtype, f.row + 1) for f in self.staged_values.values()}
        return [Temporary(name, d, (str(n), _ROWS)) for name, (d, n) in rows.items()]

    def _staged_access(self, name: str, *, first_row: bool = False) -> Access:
        """The entry that holds a value, for each row or for the first row of a tile."""
        staged_value = self.staged_values[name]
        values = self.staged_values.values()
        rows = max(f.row for f in values if f.buffer == staged_value.buffer) + 1
        row = FIRST if first_row else Axis(0, "1", f"-{BEGIN}")
        index = (Axis(-1, "1", str(staged_value.row)), row)
        return Access(Buffer(staged_value.buffer), (str(rows), _ROWS), index)

    def _stores_of(self, names: Iterable[str]) -> Iterator[Statement]:
        """The statements that store values for a later stage."""
        return (Statement.store((name,), self._staged_access(name)) for name in names)

    def _with_loads(self, stage: list[Statement]) -> list[Statement]:
        """The statements of a stage, after loads of what earlier stages have stored for it."""
        own = {s.target for s in stage}
        names = dict.fromkeys(
            n for s in stage for n in s.reads if n in self.staged_values and n not in own
        )
        return [*(Statement.load(n, self._staged_access(n)) for n in names), *stage]

    def items(self) -> list[Item]:
        """One tile loop around a loop for each stage."""
        nest = self.nest
        read = {n for s in (*self.arithmetic, *self.scatters) for n in s.reads}
        needed = [s.target for s in self.indirect_reads if s.target in read]
        gathers = (*self.gathers, *self._stores_of(needed))
        first = Nest(nest.domain, gathers, (), "gathered", computed=nest.computed)
        lines = (*self._with_loads(self.arithmetic), *self._stores_of(self.scattered_values))
        inside = [
            restricted_to_tile(s, {})
            for s in (first, replace(nest, statements=lines))
            if s.statements
        ]
        tile_loop = TileLoop(nest.domain[0], _ROWS, (*inside, *self._scattered()))
        return [*initialisation(nest), self._versioned(tile_loop), *finalisation(nest)]

    def _versioned(self, tile_loop: TileLoop) -> TileLoop | VersionedLoop:
        """The tile loop, with versions for runs of rows in which index vectors stay or count.

        In such a run accesses are contiguous, and one loop does all, if all writes are indirect.
        """
        rows = self.indirect
        if not self.indices or not all(rows.is_indirect(s) for s in self.scatters):
            return tile_loop
        versions = tuple(rows.versions())
        return VersionedLoop(rows.measured(), versions, tile_loop) if versions else tile_loop

    def _scattered(self) -> Iterator[Nest | Conditional]:
        """The loops of the third stage."""
        loaded: set[str] = set()  # indices whose first row is loaded
        for indices, statements in self.scatter_groups.items():
            row_by_row = self._loop(self._with_loads(statements), "scattered")
            if indices and all(self.indirect.adds_indirectly(s) for s in statements):
                yield from self._summed_at_one_index(indices, statements, row_by_row, loaded)
            else:
                yield row_by_row

    def _loop(
        self, statements: Iterable[Statement], comment: str, sums: Iterable[Accumulator] = ()
    ) -> Nest:
        loop = Nest(self.nest.domain, tuple(statements), tuple(sums), comment)
        return replace(loop, ranges=((BEGIN, END),), computed=self.nest.computed)

    def _summed_at_one_index(
        self,
        indices: tuple[str, ...],
        statements: list[Statement],
        row_by_row: Nest,
        loaded: set[str],
    ) -> Iterator[Nest | Conditional]:
        """A version that reduces first, for tiles whose rows all add at one index (sorted rows).

        Added one by one, each row would wait for the entry that the row before has just written.
        Indices of the first row that are not `loaded` yet are loaded.
        """
        indices = tuple(dict.fromkeys(indices))
        first_index = {p: f"one_{p}" for p in indices}
        differ = f"differ_{'_'.join(indices)}"
        new = [p for p in indices if p not in loaded]
        begin = [
            Statement.load(first_index[p], self._staged_access(p, first_row=True)) for p in new
        ]
        loaded.update(new)
        if begin:
            yield Nest((), tuple(begin), (), "places")
        test = [
            Statement(StatementKind.ACCUMULATE, differ, "{0} | ({1} ^ {2})", (p, first_index[p]))
            for p in indices
        ]
        loads = [Statement.load(p, self._staged_access(p)) for p in indices]
        yield self._loop([*loads, *test], "one place?", [Accumulator(differ, "0", "i8", 0, ())])
        lines: list[Statement] = []
        sums: list[Accumulator] = []
        for s in statements:
            line, total = as_reduction(s, self.dtypes, first_index)
            lines.append(line)
            sums.append(total)
        yield Conditional(
            differ, self._loop(self._with_loads(lines), "at one place", sums), row_by_row
        )


def _is_strided(s: Statement) -> bool:
    """Whether the entries of consecutive rows are not adjacent in memory."""
    assert s.access is not None
    last = s.access.index[-1]
    return last.var != 0 or last.step != "1"

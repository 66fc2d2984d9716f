"""Loops that gather and scatter, in three stages: what lies between them runs in vectors.

Entries whose places are found at run time make a loop scalar: each place is checked, and two rows
may add to one entry. So, for a few rows at a time, everything that is gathered is first put side
by side; then everything is computed from there; then the results go where they belong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ....attributes import cached_property
from ...ir.indexing import FIRST, Axis
from ...ir.loops import (
    BEGIN,
    END,
    Access,
    Accumulator,
    Buffer,
    Call,
    Conditional,
    LoopProgram,
    Nest,
    Statement,
    Temporary,
    TileLoop,
    VersionedLoop,
)
from ...ir.operation_costs import SLOW, flops_of
from .contiguous_runs import Rows, locals_of, summed
from .row_dependence import finished, for_rows, started

_ROWS = "64"  # at a time: what they need stays in the first-level cache
_WRITES = ("store", "update")

Item = Nest | Call | TileLoop | VersionedLoop


def stage_gathers(program: LoopProgram) -> LoopProgram:
    """The program with its loops that gather and scatter in stages."""
    dtypes = program.memory
    items: list[Item] = []
    rooms: list[Temporary] = []
    for item in program.items:
        staged = _Staged(item, dtypes, len(rooms)) if isinstance(item, Nest) else None
        if staged is None or not staged.worth():
            items.append(item)
            continue
        items += staged.items()
        rooms += staged.rooms()
    if not rooms:
        return program
    return replace(program, items=tuple(items), temporaries=(*program.temporaries, *rooms))


@dataclass
class _Field:
    """Where a value waits for a later stage: a row of the memory called `room`."""

    room: str
    dtype: str
    row: int


@dataclass(frozen=True)
class _Staged:
    """A nest of one loop and its statements by stages."""

    nest: Nest
    dtypes: Mapping[str, str]
    number: int

    @cached_property
    def made(self) -> dict[str, Statement]:
        return {s.target: s for s in self.nest.statements if s.target}

    @cached_property
    def at_run_time(self) -> Rows:
        return Rows(self.nest, self.dtypes)

    @property
    def places(self) -> Mapping[str, Statement]:
        return self.at_run_time.wraps

    @cached_property
    def varying(self) -> frozenset[str]:
        """What is not the same for all rows."""
        out: set[str] = set()
        for s in self.nest.statements:
            walks = s.access is not None and any(a.var >= 0 for a in s.access.index)
            if walks or not out.isdisjoint(locals_of(s)):
                out.add(s.target)
        return frozenset(out)

    @cached_property
    def gathered(self) -> list[Statement]:
        """Places, and entries that are read there: what waits for the stages behind the first."""
        return [
            s for s in self.nest.statements
            if s.kind == "wrap" or (s.kind == "load" and self.at_run_time.picks(s))
        ]  # fmt: skip

    @cached_property
    def last(self) -> list[Statement]:
        """What is written to places found at run time, or to several in one array.

        How far those lie apart is not known, which alone would stop the middle from being vectors.
        """
        writes = [s for s in self.nest.statements if s.kind in _WRITES]
        counts = Counter(s.access.buffer.name for s in writes if s.access is not None)
        picks = self.at_run_time.picks
        return [
            s for s in writes
            if s.access is not None and (picks(s) or counts[s.access.buffer.name] > 1)
        ]  # fmt: skip

    @cached_property
    def groups(self) -> dict[tuple[str, ...], list[Statement]]:
        """What is written in the last stage, by the places it is written to."""
        out: dict[tuple[str, ...], list[Statement]] = {}
        for s in self.last:
            out.setdefault(tuple(n for n in locals_of(s) if n in self.places), []).append(s)
        return out

    @cached_property
    def first(self) -> list[Statement]:
        return self._with_needed(self.gathered, set())

    @cached_property
    def middle(self) -> list[Statement]:
        late = {id(s) for s in self.last}
        ends = [
            s for s in self.nest.statements
            if s.kind in (*_WRITES, "accumulate") and id(s) not in late
        ]  # fmt: skip
        there = {s.target for s in self.gathered}
        results = [self.made[name] for name in self.results]
        return self._with_needed([*ends, *results], there)

    @cached_property
    def results(self) -> dict[str, str]:
        """What the middle stage computes for the last, with its dtype."""
        there = {s.target for s in self.gathered}
        return {
            s.operands[0]: self.dtypes[s.access.buffer.name]
            for s in self.last
            if s.access is not None and s.operands[0] in self.made and s.operands[0] not in there
        }

    def _with_needed(self, ends: Iterable[Statement], there: set[str]) -> list[Statement]:
        """These statements and all they need that is not there yet, in order."""
        needed: dict[str, None] = {}
        ids: set[int] = set()
        stack = list(ends)
        while stack:
            s = stack.pop()
            ids.add(id(s))
            for name in locals_of(s):
                if name in self.made and name not in there and name not in needed:
                    needed[name] = None
                    stack.append(self.made[name])
        return [s for s in self.nest.statements if id(s) in ids]

    def worth(self) -> bool:
        """Whether there is enough to compute, in an order that may be changed."""
        nest = self.nest
        if len(nest.domain) != 1 or nest.ranges or nest.excluded or nest.branches:
            return False
        if any(s.kind in ("carry", "pick") for s in nest.statements):
            return False
        if not self.places.keys() <= self.varying:
            return False  # a place for all rows stops nothing
        if any(a.scan for a in nest.accumulators):
            return False  # each row reads what the rows before it add up to
        if not self.places and not any(map(_strided, self.last)):
            return False
        work = [flops_of(s.text) for s in self.middle if s.kind == "let"]
        if not self.places and max(work, default=0) < SLOW:
            return False  # processors can write apart what takes no function to compute
        return sum(work) >= SLOW and self._apart()

    def _apart(self) -> bool:
        """Whether no memory that is written to is used in more than one stage."""
        used: dict[str, set[int]] = {}
        written: set[str] = set()
        for k, stage in enumerate((self.first, self.middle, self.last)):
            for s in stage:
                if s.access is not None and s.access.buffer.name:
                    used.setdefault(s.access.buffer.name, set()).add(k)
                    written.update([s.access.buffer.name] if s.kind in _WRITES else [])
        return all(len(used[name]) == 1 for name in written) and self._in_turn()

    def _in_turn(self) -> bool:
        """Whether each memory of the last stage is added to only, or stored into by one loop."""
        stored: dict[str, int] = {}
        for k, statements in enumerate(self.groups.values()):
            for s in statements:
                assert s.access is not None
                group = -1 if s.kind == "update" else k
                if stored.setdefault(s.access.buffer.name, group) != group:
                    return False
        return True

    # --- the stages as nests ------------------------------------------------------------------

    @cached_property
    def fields(self) -> dict[str, _Field]:
        """The place of each value that waits."""
        waiting = {s.target: self._dtype(s) for s in self.gathered}
        counts: dict[str, int] = {}
        out: dict[str, _Field] = {}
        for kind, values in (("got", waiting), ("put", self.results)):
            for name, dtype in values.items():
                room = f"{kind}{self.number}_{dtype}"
                out[name] = _Field(room, dtype, counts.get(room, 0))
                counts[room] = out[name].row + 1
        return out

    def _dtype(self, s: Statement) -> str:
        assert s.access is not None or s.kind == "wrap"
        return "i8" if s.access is None else self.dtypes[s.access.buffer.name]

    def rooms(self) -> list[Temporary]:
        rows = {f.room: (f.dtype, f.row + 1) for f in self.fields.values()}
        return [Temporary(name, d, (str(n), _ROWS)) for name, (d, n) in rows.items()]

    def _waiting(self, name: str, *, first: bool = False) -> Access:
        """Where the value waits, of each row or of the first."""
        field = self.fields[name]
        rows = max(f.row for f in self.fields.values() if f.room == field.room) + 1
        row = FIRST if first else Axis(0, "1", f"-{BEGIN}")
        index = (Axis(-1, "1", str(field.row)), row)
        return Access(Buffer(field.room), (str(rows), _ROWS), index)

    def _kept(self, names: Iterable[str]) -> Iterator[Statement]:
        return (Statement("store", "", "", (name,), self._waiting(name)) for name in names)

    def _taken(self, stage: list[Statement]) -> list[Statement]:
        """The stage behind loads of all that waits for it."""
        own = {s.target for s in stage}
        names = dict.fromkeys(
            n for s in stage for n in locals_of(s) if n in self.fields and n not in own
        )
        return [*(Statement("load", n, "", (), self._waiting(n)) for n in names), *stage]

    def items(self) -> list[Item]:
        """One loop over blocks around a loop for each stage."""
        nest = self.nest
        read = {n for s in (*self.middle, *self.last) for n in locals_of(s)}
        needed = [s.target for s in self.gathered if s.target in read]
        first = Nest(nest.domain, (*self.first, *self._kept(needed)), (), "gathered")
        lines = (*self._taken(self.middle), *self._kept(self.results))
        inside = [for_rows(s, {}) for s in (first, replace(nest, statements=lines)) if s.statements]
        blocks = TileLoop(nest.domain[0], _ROWS, (*inside, *self._scattered()))
        return [*started(nest), self._in_runs(blocks), *finished(nest)]

    def _in_runs(self, blocks: TileLoop) -> TileLoop | VersionedLoop:
        """The same, with loops of their own where index vectors stay or count.

        There one loop does all, as long as nothing else keeps it from being vectors.
        """
        rows = self.at_run_time
        if not self.places or not all(rows.picks(s) for s in self.last):
            return blocks
        versions = tuple(rows.versions())
        return VersionedLoop(rows.measured(), versions, blocks) if versions else blocks

    def _scattered(self) -> Iterator[Nest | Conditional]:
        known: set[str] = set()  # places of which the first row's is at hand
        for places, statements in self.groups.items():
            row_by_row = self._loop(self._taken(statements), "scattered")
            if places and all(self.at_run_time.adds(s) for s in statements):
                yield from self._at_one_place(places, statements, row_by_row, known)
            else:
                yield row_by_row

    def _loop(
        self, statements: Iterable[Statement], comment: str, sums: Iterable[Accumulator] = ()
    ) -> Nest:
        ranges = ((BEGIN, END),)
        return Nest(self.nest.domain, tuple(statements), tuple(sums), comment, (), ranges)

    def _at_one_place(
        self,
        places: tuple[str, ...],
        statements: list[Statement],
        row_by_row: Nest,
        known: set[str],
    ) -> Iterator[Nest | Conditional]:
        """Where all rows of a block add to one place, as sorted rows do, they are summed first.

        One after another, each would wait for the entry that the last has just written. The places
        of the first row that are not `known` yet are loaded.
        """
        places = tuple(dict.fromkeys(places))
        one = {p: f"one_{p}" for p in places}
        apart = f"apart_{'_'.join(places)}"
        new = [p for p in places if p not in known]
        begin = [Statement("load", one[p], "", (), self._waiting(p, first=True)) for p in new]
        known.update(new)
        if begin:
            yield Nest((), tuple(begin), (), "places")
        test = [Statement("accumulate", apart, "{0} | ({1} ^ {2})", (p, one[p])) for p in places]
        loads = [Statement("load", p, "", (), self._waiting(p)) for p in places]
        yield self._loop([*loads, *test], "one place?", [Accumulator(apart, "0", 0, ())])
        lines: list[Statement] = []
        sums: list[Accumulator] = []
        for s in statements:
            line, total = summed(s, self.dtypes, one)
            lines.append(line)
            sums.append(total)
        yield Conditional(apart, self._loop(self._taken(lines), "at one place", sums), row_by_row)


def _strided(s: Statement) -> bool:
    """Whether rows lie apart in the memory that a statement of one loop is about."""
    assert s.access is not None
    last = s.access.index[-1]
    return last.var != 0 or last.step != "1"

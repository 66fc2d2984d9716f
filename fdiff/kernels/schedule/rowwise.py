"""What nests and routines read and write, row by row or else; a nest for some of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ..loops import BEGIN, BLOCK, END, Access, Accumulator, Axis, Call, Dims, Nest, Statement
from .products import operands_of, role_of

Rows = tuple[Dims, int]  # the shape in which memory is read or written, and the axis of the rows
_WRITES = frozenset(["store", "update"])
_IN_ORDER = Axis(0)


@dataclass
class Uses:
    """How memory is used, by name, and in which rows (None: not by rows); which locals are."""

    kinds: dict[str, set[str]] = field(default_factory=dict)
    rows: dict[str, set[Rows | None]] = field(default_factory=dict)
    reads: set[str] = field(default_factory=set)
    totals: set[str] = field(default_factory=set)  # locals that are complete at the end only

    written: set[str] = field(default_factory=set)  # memory that is written to, and totals

    def note(self, name: str, kind: str, rows: Rows | None) -> None:
        self.kinds.setdefault(name, set()).add(kind)
        self.rows.setdefault(name, set()).add(rows)
        if kind in _WRITES:
            self.written.add(name)

    def add(self, new: Uses) -> None:
        for name, kinds in new.kinds.items():
            self.kinds.setdefault(name, set()).update(kinds)
            self.rows.setdefault(name, set()).update(new.rows[name])
        self.reads |= new.reads
        self.totals |= new.totals
        self.written |= new.written

    def meets(self, names: set[str]) -> bool:
        """Whether any of these is used."""
        memory = self.kinds.keys()
        apart = memory.isdisjoint(names) and self.reads.isdisjoint(names)
        return not apart or not self.totals.isdisjoint(names)

    def follows(self, before: Uses) -> bool:
        """Whether this has to come after what `before` does."""
        return self.meets(before.written) or before.meets(self.written)

    def together(self, new: Uses) -> bool:
        """Whether `new` can take turns with all of this, of which that is known."""
        if new.meets(self.totals) or self.meets(new.totals):
            return False
        nothing: set[str] = set()
        for name, kinds in new.kinds.items():
            both = kinds | self.kinds.get(name, nothing)
            if both & _WRITES and both != {"update"}:
                rows = new.rows[name] | self.rows.get(name, set())
                if len(rows) > 1 or None in rows:
                    return False
        return True

    def by_rows(self, name: str) -> Rows | None:
        """The one way in which memory is used, if that is row by row."""
        found = self.rows.get(name, set())
        return next(iter(found)) if len(found) == 1 else None


def uses_of(item: Nest | Call, axis: str, shapes: Mapping[str, Dims]) -> Uses:
    """What the item reads and writes, as loops over the rows of `axis`."""
    uses = Uses()
    if isinstance(item, Call):
        role = role_of(item, axis, shapes)
        for name, kind in operands_of(item):
            dims = shapes.get(name, ())
            rows = (dims, dims.index(axis)) if role is not None and axis in dims else None
            uses.note(name, "update" if role == "sum" and kind == "store" else kind, rows)
        return uses
    for s in item.everything:
        uses.reads.update(s.operands)
        if s.access is not None and s.access.buffer.name:
            kind = s.kind if s.kind in _WRITES else "load"
            uses.note(s.access.buffer.name, kind, _rows(s.access, axis))
    totals = [a for a in item.accumulators if a.depth == 0]
    uses.totals.update(a.name for a in totals)
    uses.totals.update(s.target for a in totals for s in a.final if s.target)
    if not item.domain:
        uses.totals.update(s.target for s in item.statements if s.target)
    uses.written |= uses.totals
    return uses


def _rows(access: Access, axis: str) -> Rows | None:
    """Where the rows are read in order; None where it is not as simple."""
    at = [k for k, a in enumerate(access.index) if a.var == 0]
    plain = len(at) == 1 and access.index[at[0]] == _IN_ORDER and access.dims[at[0]] == axis
    return (access.dims, at[0]) if plain and access.buffer.strides is None else None


def rowwise(nest: Nest, axis: str) -> bool:
    """Whether the outermost loop of a nest is over the rows, which may come a few at a time."""
    if not nest.domain or nest.domain[0] != axis or nest.hole or nest.window or nest.branches:
        return False
    whole = {a.name for a in nest.accumulators if a.depth == 0}
    return not any(
        (s.kind == "carry" and s.operands[0] == "0") or (s.kind == "pick" and s.target in whole)
        for s in nest.statements
    )


def for_rows(nest: Nest, short: Mapping[str, int]) -> Nest:
    """The nest for the rows of a block; `short` are the axes of temporaries as long as that."""

    def of(s: Statement) -> Statement:
        if s.access is None or s.access.buffer.name not in short:
            return s
        at = short[s.access.buffer.name]
        dims = tuple(BLOCK if k == at else d for k, d in enumerate(s.access.dims))
        index = tuple(
            Axis(0, "1", f"-{BEGIN}") if k == at else a for k, a in enumerate(s.access.index)
        )
        return s._replace(access=Access(s.access.buffer, dims, index))

    sums = tuple(
        replace(a, identity=a.name, final=()) if a.depth == 0
        else replace(a, final=tuple(of(s) for s in a.final))
        for a in nest.accumulators
    )  # fmt: skip
    window = ((BEGIN, END), *(None for _ in nest.domain[1:]))
    statements = tuple(of(s) for s in nest.statements)
    return replace(nest, statements=statements, accumulators=sums, window=window)


def _totals(nest: Nest) -> Iterator[Accumulator]:
    return (a for a in nest.accumulators if a.depth == 0)


def started(nest: Nest) -> list[Nest]:
    """The sums over all rows before the first."""
    lines = [Statement("let", a.name, a.identity) for a in _totals(nest) if a.identity != a.name]
    return _lines(lines, "before the rows")


def finished(nest: Nest) -> list[Nest]:
    """Where the sums over all rows go after the last."""
    return _lines([s for a in _totals(nest) for s in a.final], "after the rows")


def _lines(lines: Iterable[Statement], comment: str) -> list[Nest]:
    statements = tuple(lines)
    return [Nest((), statements, (), comment)] if statements else []

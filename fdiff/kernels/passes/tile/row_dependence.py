"""Dependences between items over the rows of an axis, and nests restricted to a tile of rows.

Two items may share a tile loop if what one writes for a row the other uses in that row only.

Dependence tests on one subscript; R. Allen and K. Kennedy, Optimizing Compilers for Modern
Architectures, Morgan Kaufmann 2001, chapter 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ...ir.accesses import Access
from ...ir.index_expressions import Axis, Dims, nonunit
from ...ir.loops import BEGIN, BLOCK, END, Accumulator, Call, Nest, Statement, StatementKind
from .row_products import operands_of, role_of_rows

Rows = str | Dims  # where the axis of the rows lies in memory: see `rows_of`


def rows_of(dims: Dims, axis: str) -> Rows | None:
    """Where the axis of the rows lies in an array; None if it is not one axis of it.

    Two shapes under which one array is accessed place each row in the same memory if both have the
    rows first, or both last, or if they are equal.
    """
    wide = nonunit(dims)
    if wide.count(axis) != 1:
        return None
    if len(wide) == 1:
        return "all"
    return "first" if wide[0] == axis else "last" if wide[-1] == axis else wide


@dataclass
class MemoryUses:
    """The memory and locals that items use: how, by name, and in which rows.

    Rows are None where memory is not accessed row by row.
    """

    kinds: dict[str, set[StatementKind]] = field(default_factory=dict)
    rows: dict[str, set[Rows | None]] = field(default_factory=dict)
    reads: set[str] = field(default_factory=set)
    totals: set[str] = field(
        default_factory=set
    )  # locals that are complete after the last row only

    written: set[str] = field(default_factory=set)  # memory that is written to, and totals

    def add_access(self, name: str, kind: StatementKind, rows: Rows | None) -> None:
        self.kinds.setdefault(name, set()).add(kind)
        self.rows.setdefault(name, set()).add(rows)
        if kind.writes:
            self.written.add(name)

    def add(self, new: MemoryUses) -> None:
        for name, kinds in new.kinds.items():
            self.kinds.setdefault(name, set()).update(kinds)
            self.rows.setdefault(name, set()).update(new.rows[name])
        self.reads |= new.reads
        self.totals |= new.totals
        self.written |= new.written

    def touches(self, names: set[str]) -> bool:
        """Whether any of these names is used."""
        memory = self.kinds.keys()
        disjoint = memory.isdisjoint(names) and self.reads.isdisjoint(names)
        return not disjoint or not self.totals.isdisjoint(names)

    def depends_on(self, before: MemoryUses) -> bool:
        """Whether there is a flow, output or anti-dependence on `before`."""
        return self.touches(before.written) or before.touches(self.written)

    def may_share_tiles(self, new: MemoryUses) -> bool:
        """Whether `new` may be in one tile loop with all of this: no dependence between rows."""
        if new.touches(self.totals) or self.touches(new.totals):
            return False
        nothing: set[StatementKind] = set()
        for name, kinds in new.kinds.items():
            both = kinds | self.kinds.get(name, nothing)
            if any(kind.writes for kind in both) and both != {StatementKind.UPDATE}:
                rows = new.rows[name] | self.rows.get(name, set())
                if len(rows) > 1 or None in rows:
                    return False
        return True

    def by_rows(self, name: str) -> Rows | None:
        """Where the rows lie in memory that is accessed row by row, in one way; else None."""
        rows = self.rows.get(name, set())
        return next(iter(rows)) if len(rows) == 1 else None


def memory_uses(item: Nest | Call, axis: str, shapes: Mapping[str, Dims]) -> MemoryUses:
    """Reads and writes of an item as a loop over the rows of `axis`."""
    uses = MemoryUses()
    if isinstance(item, Call):
        role = role_of_rows(item, axis, shapes)
        for k, (name, kind) in enumerate(operands_of(item)):
            rows = role.places[k] or None if role is not None else None
            added = role is not None and role.sums and kind is StatementKind.STORE
            uses.add_access(name, StatementKind.UPDATE if added else kind, rows)
        return uses
    loop = row_loop(item, axis) or 0
    added = {id(s) for a in item.accumulators if 0 < a.depth <= loop for s in a.final}
    for s in item.all_statements:
        uses.reads.update(s.operands)
        if s.access is not None and s.memory:
            if id(s) in added:
                uses.add_access(s.memory, StatementKind.UPDATE, None)
            else:
                kind = s.kind if s.writes else StatementKind.LOAD
                uses.add_access(s.memory, kind, _rows(s.access, axis, loop))
    totals = [a for a in item.accumulators if a.depth == 0]
    uses.totals.update(a.name for a in totals)
    uses.totals.update(s.target for a in totals for s in a.final if s.target)
    if not item.domain:
        uses.totals.update(s.target for s in item.statements if s.target)
    uses.written |= uses.totals
    return uses


def _rows(access: Access, axis: str, loop: int) -> Rows | None:
    """Where the rows lie in an access that reads them in the order of a loop; else None."""
    at = [k for k, a in enumerate(access.index) if a.var == loop]
    plain = len(at) == 1 and access.index[at[0]] == Axis(loop) and access.dims[at[0]] == axis
    return rows_of(access.dims, axis) if plain and access.buffer.strides is None else None


def row_loop(nest: Nest, axis: str) -> int | None:
    """The number of the loop of a nest over the rows of an axis, if that loop may be tiled.

    It is the outermost loop or the innermost. A reduction over the innermost is initialised before
    the first tile, and updated by each.
    """
    if not nest.domain or nest.excluded or nest.ranges or nest.branches:
        return None
    if nest.domain[0] == axis:
        loop = 0
    elif nest.domain[-1] == axis and nest.domain.count(axis) == 1:
        loop = len(nest.domain) - 1
    else:
        return None
    inside = [a for a in nest.accumulators if a.depth <= loop]
    if any(a.depth and a.scan for a in inside):
        return None  # a scan, begun anew by an outer loop
    whole = {a.name for a in inside}
    carried = any(
        (s.kind is StatementKind.CARRY and s.operands[0] == str(loop))
        or (s.kind is StatementKind.EXTREME and s.target in whole)
        for s in nest.statements
    )
    return None if carried else loop


def restricted_to_tile(nest: Nest, tile_local: Mapping[str, str], loop: int = 0) -> Nest:
    """The nest for the rows of one tile only, over which its loop number `loop` runs.

    `tile_local` names temporaries of one tile's size, and the axis of the rows in each.
    """

    def in_tile(access: Access) -> Access:
        if access.buffer.name not in tile_local:
            return access
        at = access.dims.index(tile_local[access.buffer.name])
        row = Axis(loop, "1", f"-{BEGIN}")
        dims, index = (*access.dims[:at], BLOCK, *access.dims[at + 1 :]), access.index
        return Access(access.buffer, dims, (*index[:at], row, *index[at + 1 :]))

    ranges = tuple((BEGIN, END) if k == loop else None for k in range(len(nest.domain)))
    sums = tuple(_continued(nest, a) if a.depth <= loop else a for a in nest.accumulators)
    return replace(nest, accumulators=sums, ranges=ranges).map_accesses(in_tile)


def _continued(nest: Nest, sum_: Accumulator) -> Accumulator:
    """A reduction over the rows of a tile that goes on from the result of the tiles before."""
    if sum_.depth == 0:
        return replace(sum_, identity=sum_.name, final=())
    combine = next(s.text for s in nest.statements if s.target == sum_.name)
    updates = tuple(
        Statement(
            StatementKind.UPDATE, f"at_{sum_.name}", combine, s.operands, s.access, sum_.combiner
        )
        if s.kind is StatementKind.STORE else s
        for s in sum_.final
    )  # fmt: skip
    return replace(sum_, final=updates)


def _totals(nest: Nest) -> Iterator[Accumulator]:
    return (a for a in nest.accumulators if a.depth == 0)


def initialisation(nest: Nest, loop: int = 0) -> list[Nest]:
    """Nests that initialise the reductions over the rows, before the first tile."""
    lines = [Statement.let(a.name, a.identity) for a in _totals(nest) if a.identity != a.name]
    sums = [a for a in nest.accumulators if 0 < a.depth <= loop]
    return _lines(lines, "before the rows") + [
        Nest(nest.domain[: a.depth], _neutral_stores(a), (), "before the rows")
        for a in sums
        if any(s.kind is StatementKind.STORE for s in a.final)
    ]


def _neutral_stores(sum_: Accumulator) -> tuple[Statement, ...]:
    """The stores of a reduction, with its neutral element in place of its result."""
    names = {sum_.name: sum_.identity}
    out: list[Statement] = []
    for s in sum_.final:
        operands = tuple([names.get(o, o) for o in s.operands])
        if s.kind is StatementKind.LET:
            names[s.target] = f"no_{s.target}"
        out.append(s._replace(target=names.get(s.target, s.target), operands=operands))
    return tuple(out)


def finalisation(nest: Nest) -> list[Nest]:
    """Nests that store the reductions over the rows, after the last tile."""
    return _lines([s for a in _totals(nest) for s in a.final], "after the rows")


def _lines(lines: Iterable[Statement], comment: str) -> list[Nest]:
    statements = tuple(lines)
    return [Nest((), statements, (), comment)] if statements else []

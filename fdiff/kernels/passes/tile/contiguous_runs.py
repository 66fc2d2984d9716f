"""Rows of which the places follow each other, or stay: loops over them gather nothing.

Index vectors of pairs, of the entries of sparse rows or of what was sorted come in runs: one of
them counts, place by place, while the others stay. ``for i: for j > i`` is what such a run stands
for. What is read at places that stay is read once, what is added there is summed first, and what
is read or added where places count lies side by side. Whether there is a run is found as the
kernel runs: index vectors are data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ....attributes import cached_property
from ...ir.combiners import Combiner
from ...ir.indexing import Axis, plus, times
from ...ir.loops import AHEAD, BEGIN, END, NUMPY, Access, Accumulator, LoopVersion, Nest, Statement
from ...ir.operation_costs import SLOW, flops_of
from .row_dependence import for_rows

_MOST = 3  # index vectors, for each of which there is a loop of its own
_LONG, _DEAR = 150, 4  # statements of such a loop, and elementary functions among them
_WIDE = 8  # entries from row to row, up to which processors load them into vectors


@dataclass(frozen=True)
class Rows:
    """A nest of one loop that reads and adds at places found at run time, and all its dtypes."""

    nest: Nest
    dtypes: Mapping[str, str]

    @cached_property
    def wraps(self) -> dict[str, Statement]:
        """The places."""
        return {s.target: s for s in self.nest.statements if s.kind == "wrap"}

    @cached_property
    def vectors(self) -> list[str]:
        """The numbers the places come from, as they stand in index vectors."""
        return list(dict.fromkeys(s.operands[0] for s in self.wraps.values()))

    def picks(self, s: Statement) -> bool:
        """Whether memory is used at a place."""
        places = self.wraps
        return bool(places and s.access and any(a.start in places for a in s.access.index))

    def adds(self, s: Statement) -> bool:
        """Whether floating-point numbers are added at a place, which may be done in any order."""
        assert s.access is not None
        fixed = not s.access.injective_loops
        real = self.dtypes[s.access.buffer.name] in ("f8", "f4")
        return s.combiner is Combiner.ADD and fixed and real

    # --- how far places stay or count -----------------------------------------------------------

    @cached_property
    def _found(self) -> list[Statement]:
        """What the numbers are found by, in order."""
        needed = set(self.vectors)
        out: list[Statement] = []
        for s in reversed(self.nest.statements):
            if s.target in needed:
                needed.update(locals_of(s))
                out.insert(0, s)
        return out

    def measured(self) -> tuple[Nest, ...]:
        """Locals of each vector: its first number, and how far the next stay or count."""
        names = {s.target: f"first_{s.target}" for s in self._found}
        first = [_begun(s, names) for s in self._found]
        lines: list[Statement] = []
        sums: list[Accumulator] = []
        for v in self.vectors:
            first.append(Statement("let", f"from_{v}", "np.int64({0})", (f"first_{v}",)))
            first.append(Statement("let", f"shift_{v}", f"{{0}} - {BEGIN}", (f"from_{v}",)))
            lines.append(Statement("let", f"at_{v}", "np.int64({0})", (v,)))
            stay = f"min({{0}}, {AHEAD} if {{1}} == {{2}} else i0)"
            lines.append(Statement("accumulate", f"stay_{v}", stay, (f"at_{v}", f"from_{v}")))
            count = f"min({{0}}, {AHEAD} if {{1}} - i0 == {{2}} else i0)"
            lines.append(Statement("accumulate", f"count_{v}", count, (f"at_{v}", f"shift_{v}")))
            sums += [Accumulator(f"{kind}_{v}", AHEAD, 0, ()) for kind in ("stay", "count")]
        ranges = ((BEGIN, AHEAD),)
        loop = Nest(self.nest.domain, (*self._found, *lines), tuple(sums), "runs?", (), ranges)
        return Nest((), tuple(first), (), "the first"), loop

    # --- the loops ------------------------------------------------------------------------------

    def versions(self) -> list[LoopVersion]:
        """A loop for each vector that may count while the others stay."""
        lets = (s for s in self.nest.statements if s.kind == "let")
        dear = [s for s in lets if flops_of(s.text) >= SLOW]
        if len(self.nest.statements) > _LONG or len(dear) > _DEAR:
            return []  # where so much is computed, it takes longer than to gather
        if len(self.vectors) > _MOST or not self._plain():
            return []
        return [self._run(v) for v in self.vectors if self._side_by_side(v)]

    def _plain(self) -> bool:
        """Whether places serve to read and add alone, and are not found at other places."""
        used = {n for s in self.nest.statements if not self.picks(s) for n in locals_of(s)}
        writes = [s for s in self.nest.statements if s.kind in ("store", "update")]
        return (
            used.isdisjoint(self.wraps)
            and not any(map(self.picks, self._found))
            and all(self.adds(s) for s in writes if self.picks(s))
        )

    def _side_by_side(self, vector: str) -> bool:
        """Whether what is used at places that count lies in rows of a few entries.

        Where several are added in one array, so that it is seen how far they lie apart.
        """
        used = [(s, self._axes(s.access, vector)) for s in self.nest.statements if s.access]
        used = [(s, axes) for s, axes in used if axes]
        counts = Counter(s.access.buffer.name for s, _ in used if s.access and s.kind == "update")
        for s, axes in used:
            assert s.access is not None
            many = counts[s.access.buffer.name] > 1
            if len(axes) > 1 or not _narrow(s.access, axes[0]) or (many and axes[0] > 0):
                return False
        return bool(used)

    def _axes(self, access: Access, vector: str) -> list[int]:
        """The axes along which places of this vector are counted."""
        starts = [self.wraps.get(a.start) for a in access.index]
        return [k for k, s in enumerate(starts) if s is not None and s.operands[0] == vector]

    def _run(self, vector: str) -> LoopVersion:
        """The loop for rows where the places of this vector count."""
        nest = for_rows(self.nest, {})
        lines: list[Statement] = []
        sums: list[Accumulator] = list(nest.accumulators)
        for s in nest.statements:
            axes = self._axes(s.access, vector) if s.access is not None else []
            if s.kind == "wrap":
                lines.append(_known(s, counts=s.operands[0] == vector))
            elif s.kind == "update" and self.picks(s) and not axes:
                line, total = summed(s, self.dtypes, {})
                lines.append(line)
                sums.append(total)
            else:
                lines.append(_along(s, axes))
        final = [s for total in sums for s in total.final]
        made = replace(
            nest,
            statements=tuple(_without_unread(lines, final)),
            accumulators=tuple(sums),
            comment=f"{nest.comment}, a run",
        )
        ends = tuple(f"count_{v}" if v == vector else f"stay_{v}" for v in self.vectors)
        return LoopVersion(ends, tuple(self._inside(vector)), (made,))

    def _inside(self, vector: str) -> Iterator[str]:
        """That no place of the run has to be wrapped or refused; no sum here can overflow."""
        for s in self.wraps.values():
            (v,) = s.operands
            end = f"<= {s.text} - ({END} - {BEGIN})" if v == vector else f"< {s.text}"
            yield f"0 <= from_{v} {end}"


def summed(
    s: Statement, dtypes: Mapping[str, str], places: Mapping[str, str]
) -> tuple[Statement, Accumulator]:
    """An update at one place for all rows as a sum of its own, which is added there at the end.

    `places` are other locals that hold some of its places.
    """
    assert s.access is not None
    name = f"sum_{s.target}"
    index = tuple(a._replace(start=places.get(a.start, a.start)) for a in s.access.index)
    access = s.access._replace(index=index)
    total = Statement("update", s.target, s.text, (name,), access, s.combiner)
    zero = f"{NUMPY[dtypes[s.access.buffer.name]]}(0)"
    line = Statement("accumulate", name, s.text, s.operands[:1])
    return line, Accumulator(name, zero, 0, (total,), s.combiner)


def locals_of(s: Statement) -> list[str]:
    """The locals that a statement reads."""
    starts = [a.start for a in s.access.index] if s.access is not None else []
    return [*s.operands, *starts]


def _begun(s: Statement, names: Mapping[str, str]) -> Statement:
    """The statement for the row at `BEGIN`, where its locals have other names."""
    operands = tuple(names.get(n, n) for n in s.operands)
    access = s.access
    if access is not None:
        index = tuple(
            a if a.var < 0 else Axis(-1, "1", plus(a.start, times(a.step, BEGIN)))
            for a in access.index
        )
        access = access._replace(index=index)
    return s._replace(target=names[s.target], operands=operands, access=access)


def _known(wrap: Statement, *, counts: bool) -> Statement:
    """A place, from that of the first row; where places count, the loop's variable is added."""
    (vector,) = wrap.operands
    source = f"shift_{vector}" if counts else f"from_{vector}"
    return Statement("let", wrap.target, "{0}", (source,))


def _along(s: Statement, axes: list[int]) -> Statement:
    """The statement with the loop's variable along these axes."""
    if s.access is None or not axes:
        return s
    index = tuple(a._replace(var=0) if k in axes else a for k, a in enumerate(s.access.index))
    return s._replace(access=s.access._replace(index=index))


def _without_unread(lines: list[Statement], final: list[Statement]) -> list[Statement]:
    """The lines without what nothing reads, as no run reads its index vectors."""
    read = {n for s in final for n in locals_of(s)}
    out: list[Statement] = []
    for s in reversed(lines):
        if s.kind not in ("load", "let") or s.target in read:
            read.update(locals_of(s))
            out.append(s)
    return out[::-1]


def _narrow(access: Access, axis: int) -> bool:
    """Whether few entries lie between one place along the axis and the next."""
    after = access.dims[axis + 1 :]
    if access.buffer.strides is not None or access.index[axis]._replace(start="0") != Axis():
        return False
    wide = 1
    for dim in after:
        wide *= int(dim) if dim.isdigit() else _WIDE + 1
    return wide <= _WIDE

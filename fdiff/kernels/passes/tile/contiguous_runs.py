"""Versions of indirect loops for contiguous runs of indices (loop versioning by run-time tests).

Index vectors of pairs, of the entries of sparse rows or of sorted data come in runs: one of them
counts up by one from row to row, while the others stay the same, as in ``for i: for j > i``. In a
run no load is a gather: entries at indices that stay are read once, additions there are reduced
first, and entries at indices that count are contiguous. Whether rows are a run is tested as the
kernel runs, because index vectors are data (run-time resolution: R. Allen and K. Kennedy,
Optimizing Compilers for Modern Architectures, Morgan Kaufmann 2001, section 5.8). What runs bring:
docs/decisions/gather-staging.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from ....lazy_attributes import cached_property
from ...ir.accesses import Access
from ...ir.combiners import Combiner
from ...ir.index_expressions import Axis, plus, times
from ...ir.loops import (
    AHEAD,
    BEGIN,
    END,
    NUMPY,
    Accumulator,
    LoopVersion,
    Nest,
    Statement,
    StatementKind,
)
from ...ir.operation_costs import SLOW, flops_of
from .row_dependence import restricted_to_tile

_MOST_VECTORS = 3  # index vectors: there is a version for each
_MOST_STATEMENTS, _MOST_FUNCTIONS = 150, 4  # of a version, and elementary functions among them
_WIDEST = 8  # entries from row to row up to which processors load vectors of them


@dataclass(frozen=True)
class IndexedRows:
    """A nest of one loop with indirect accesses, and the dtypes of all memory."""

    nest: Nest
    dtypes: Mapping[str, str]

    @cached_property
    def checked_indices(self) -> dict[str, Statement]:
        """The statements that check an index, by the local they assign."""
        return {s.target: s for s in self.nest.statements if s.kind is StatementKind.WRAP}

    @cached_property
    def index_vectors(self) -> list[str]:
        """The locals that hold entries of index vectors."""
        return list(dict.fromkeys(s.operands[0] for s in self.checked_indices.values()))

    def is_indirect(self, s: Statement) -> bool:
        """Whether a statement accesses memory at a checked index."""
        places = self.checked_indices
        return bool(places and s.access and any(a.start in places for a in s.access.index))

    def adds_indirectly(self, s: Statement) -> bool:
        """Whether a statement adds floating-point numbers at indices, and by no loop variable."""
        assert s.access is not None
        fixed = not s.access.injective_loops
        real = self.dtypes[s.memory] in ("f8", "f4")
        return s.combiner is Combiner.ADD and fixed and real

    # --- the length of runs -----------------------------------------------------------

    @cached_property
    def _index_computation(self) -> list[Statement]:
        """The statements that compute the entries of index vectors, in order."""
        return backward_slice(self.nest.statements, self.index_vectors)

    def measured(self) -> tuple[Nest, ...]:
        """Nests that find the first entry of each index vector, and how far it stays or counts."""
        names = {s.target: f"first_{s.target}" for s in self._index_computation}
        first = [_at_first_row(s, names) for s in self._index_computation]
        lines: list[Statement] = []
        sums: list[Accumulator] = []
        for v in self.index_vectors:
            first.append(Statement.let(f"from_{v}", "np.int64({0})", (f"first_{v}",)))
            first.append(Statement.let(f"shift_{v}", f"{{0}} - {BEGIN}", (f"from_{v}",)))
            lines.append(Statement.let(f"at_{v}", "np.int64({0})", (v,)))
            stay = f"min({{0}}, {AHEAD} if {{1}} == {{2}} else i0)"
            lines.append(
                Statement(StatementKind.ACCUMULATE, f"stay_{v}", stay, (f"at_{v}", f"from_{v}"))
            )
            count = f"min({{0}}, {AHEAD} if {{1}} - i0 == {{2}} else i0)"
            lines.append(
                Statement(StatementKind.ACCUMULATE, f"count_{v}", count, (f"at_{v}", f"shift_{v}"))
            )
            sums += [Accumulator(f"{kind}_{v}", AHEAD, "i8", 0, ()) for kind in ("stay", "count")]
        ranges = ((BEGIN, AHEAD),)
        loop = Nest(
            self.nest.domain, (*self._index_computation, *lines), tuple(sums), "runs?", (), ranges
        )
        return Nest((), tuple(first), (), "the first"), loop

    # --- the loops ------------------------------------------------------------------------------

    def versions(self) -> list[LoopVersion]:
        """A version for each index vector that may count while the others stay."""
        lets = (s for s in self.nest.statements if s.kind is StatementKind.LET)
        functions = [s for s in lets if flops_of(s.text) >= SLOW]
        if len(self.nest.statements) > _MOST_STATEMENTS or len(functions) > _MOST_FUNCTIONS:
            return []  # versions of long bodies cost more than gathers
        if len(self.index_vectors) > _MOST_VECTORS or not self._is_simple():
            return []
        return [self._version(v) for v in self.index_vectors if self._is_contiguous(v)]

    def _is_simple(self) -> bool:
        """Whether index values are used as positions alone, and all indirect writes are additions.

        Nor may an index value be computed from what was loaded at another one.
        """
        used = {n for s in self.nest.statements if not self.is_indirect(s) for n in s.reads}
        writes = [s for s in self.nest.statements if s.writes]
        return (
            used.isdisjoint(self.checked_indices)
            and not any(map(self.is_indirect, self._index_computation))
            and all(self.adds_indirectly(s) for s in writes if self.is_indirect(s))
        )

    def _is_contiguous(self, vector: str) -> bool:
        """Whether accesses at indices that count are contiguous, or with a stride of a few entries.

        Several additions to one array have to count along its first axis, so that they provably
        do not alias.
        """
        used = [(s, self._axes(s.access, vector)) for s in self.nest.statements if s.access]
        used = [(s, axes) for s, axes in used if axes]
        counts = Counter(s.memory for s, _ in used if s.kind is StatementKind.UPDATE)
        for s, axes in used:
            assert s.access is not None
            many = counts[s.memory] > 1
            if len(axes) > 1 or not _has_short_rows(s.access, axes[0]) or (many and axes[0] > 0):
                return False
        return bool(used)

    def _axes(self, access: Access, vector: str) -> list[int]:
        """The axes along which an access has indices from this vector."""
        starts = [self.checked_indices.get(a.start) for a in access.index]
        return [k for k, s in enumerate(starts) if s is not None and s.operands[0] == vector]

    def _version(self, vector: str) -> LoopVersion:
        """The version for runs in which this index vector counts."""
        nest = restricted_to_tile(self.nest, {})
        lines: list[Statement] = []
        sums: list[Accumulator] = list(nest.accumulators)
        for s in nest.statements:
            axes = self._axes(s.access, vector) if s.access is not None else []
            if s.kind is StatementKind.WRAP:
                lines.append(_index_in_run(s, counts=s.operands[0] == vector))
            elif s.kind is StatementKind.UPDATE and self.is_indirect(s) and not axes:
                line, total = as_reduction(s, self.dtypes, {})
                lines.append(line)
                sums.append(total)
            else:
                lines.append(_with_loop_variable(s, axes))

        def has_effect(s: Statement) -> bool:
            return not s.kind.gives_value

        stored = {name for total in sums for s in total.final for name in s.reads}
        direct = replace(
            nest,
            statements=tuple(backward_slice(lines, stored, has_effect)),
            accumulators=tuple(sums),
            comment=f"{nest.comment}, a run",
        )
        ends = tuple(f"count_{v}" if v == vector else f"stay_{v}" for v in self.index_vectors)
        return LoopVersion(ends, tuple(self._bounds_tests(vector)), (direct,))

    def _bounds_tests(self, vector: str) -> Iterator[str]:
        """Tests that no index of the run is negative or too large (their sums cannot overflow)."""
        for s in filter(attrgetter("text"), self.checked_indices.values()):
            (v,) = s.operands
            end = f"<= {s.text} - ({END} - {BEGIN})" if v == vector else f"< {s.text}"
            yield f"0 <= from_{v} {end}"


def as_reduction(
    s: Statement, dtypes: Mapping[str, str], places: Mapping[str, str]
) -> tuple[Statement, Accumulator]:
    """An update of one entry in every row, as a reduction and one update after it.

    `places` are other names for some of the locals that hold indices.
    """
    assert s.access is not None
    name = f"sum_{s.target}"
    index = tuple(a._replace(start=places.get(a.start, a.start)) for a in s.access.index)
    access = s.access._replace(index=index)
    total = Statement(StatementKind.UPDATE, s.target, s.text, (name,), access, s.combiner)
    dtype = dtypes[s.memory]
    line = Statement(StatementKind.ACCUMULATE, name, s.text, s.operands[:1])
    return line, Accumulator(name, f"{NUMPY[dtype]}(0)", dtype, 0, (total,), s.combiner)


def backward_slice(
    statements: Sequence[Statement],
    names: Iterable[str],
    is_end: Callable[[Statement], bool] | None = None,
    available: Container[str] = (),
) -> list[Statement]:
    """The statements that compute the locals `names`, those that are ends, and all they depend on.

    In their order, without those whose locals are `available` already. An idea of M. Weiser,
    Program slicing, IEEE Trans. Softw. Eng. 10(4), 1984, for code without branches.
    """
    needed = set(names)
    out: list[Statement] = []
    for s in reversed(statements):
        end = is_end is not None and is_end(s)
        if end or (s.target in needed and s.target not in available):
            needed.update(s.reads)
            out.append(s)
    return out[::-1]


def _at_first_row(s: Statement, names: Mapping[str, str]) -> Statement:
    """The statement for the row `BEGIN`, with its locals renamed."""
    operands = tuple(names.get(n, n) for n in s.operands)
    access = s.access
    if access is not None:
        index = tuple(
            a if a.var < 0 else Axis(-1, "1", plus(a.start, times(a.step, BEGIN)))
            for a in access.index
        )
        access = access._replace(index=index)
    return s._replace(target=names[s.target], operands=operands, access=access)


def _index_in_run(wrap: Statement, *, counts: bool) -> Statement:
    """An index from the index of the first row; a counting index is relative to the loop's
    variable.
    """
    (vector,) = wrap.operands
    source = f"shift_{vector}" if counts else f"from_{vector}"
    return Statement.let(wrap.target, "{0}", (source,))


def _with_loop_variable(s: Statement, axes: list[int]) -> Statement:
    """The statement with the loop's variable added along these axes."""
    if s.access is None or not axes:
        return s
    index = tuple(a._replace(var=0) if k in axes else a for k, a in enumerate(s.access.index))
    return s._replace(access=s.access._replace(index=index))


def _has_short_rows(access: Access, axis: int) -> bool:
    """Whether one step along the axis moves by at most `_WIDEST` entries in contiguous memory."""
    after = access.dims[axis + 1 :]
    if access.buffer.strides is not None or access.index[axis]._replace(start="0") != Axis():
        return False
    wide = 1
    for dim in after:
        wide *= int(dim) if dim.isdigit() else _WIDEST + 1
    return wide <= _WIDEST

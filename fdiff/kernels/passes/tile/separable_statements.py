"""Places to cut the body of a loop nest: statements that have to stay in one loop.

Loop distribution puts the statements of a nest into several loops, one after another. It is legal
where no dependence leads from a later loop back to an earlier one (D. F. Bacon et al., ACM
Computing Surveys 26(4), 1994, section "Loop distribution").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from ....lazy_attributes import cached_property
from ...ir.loops import Nest, Statement, StatementKind, depth_of


class SeparableStatements:
    """The statements of a nest, and where they may be separated."""

    def __init__(self, nest: Nest, dtypes: Mapping[str, str]) -> None:
        self.nest = nest
        self.dtypes = dtypes
        self.lines = nest.statements
        self.definitions = {s.target: k for k, s in enumerate(self.lines) if s.target}
        self.sums = {a.name: a for a in nest.accumulators}
        self.written = {s.memory for s in nest.all_statements if s.writes}
        rank = len(nest.domain)
        self.depth = dict.fromkeys(self.sums, rank)  # how many loops enclose each assignment
        for s in self.lines:
            self.depth[s.target] = depth_of(s, self.depth, rank)

    @cached_property
    def inseparable(self) -> list[bool]:
        """Positions where fission would violate a loop-carried dependence."""
        out = [False] * (len(self.lines) + 1)
        if not self.nest.domain:
            return out
        for begin, end in self._inseparable_ranges():
            out[begin + 1 : end + 1] = [True] * (end - begin)
        return out

    def _inseparable_ranges(self) -> Iterator[tuple[int, int]]:
        """The first and last of statements that have to stay in one loop, for each such group."""
        touches: dict[str, list[int]] = {}
        for k, s in enumerate(self.lines):
            for name in {n for n in (s.target, *s.reads) if n in self.sums}:
                touches.setdefault(name, []).append(k)
            if s.memory in self.written:
                touches.setdefault(f"[{s.memory}]", []).append(k)
        for a in self.nest.accumulators:
            for memory in {f"[{s.memory}]" for s in a.final}.intersection(touches):
                places = [*touches[memory], *touches.get(a.name, [])]
                yield min(places), max(places)
        for name, places in touches.items():
            if name in self.sums or not self._iterations_commute([self.lines[k] for k in places]):
                yield places[0], places[-1]
        for name, last in self.last_uses():
            if not self.transferable(name):
                yield self.definitions[name], last

    def _iterations_commute(self, touches: list[Statement]) -> bool:
        """Whether iterations commute: all are additions, or each has an entry of its own."""
        if all(s.kind is StatementKind.UPDATE for s in touches):
            return True
        access = touches[0].access
        assert access is not None
        loops = sorted(axis.var for axis in access.index if axis.var >= 0)
        whole = all(a.step in ("1", "-1") for a in access.index if a.var >= 0)
        alone = loops == list(range(len(self.nest.domain))) and whole
        kinds = {s.kind for s in touches} <= {
            StatementKind.STORE,
            StatementKind.UPDATE,
            StatementKind.LOAD,
        }
        return alone and kinds and all(s.access == access for s in touches)

    def last_uses(self) -> Iterable[tuple[str, int]]:
        """The last statement that reads each local."""
        last: dict[str, int] = {}
        for k, s in enumerate(self.lines):
            last.update((n, k) for n in s.reads if n != s.target and n in self.definitions)
        return last.items()

    def transferable(self, name: str) -> bool:
        """Whether a later piece can get the value: spilled, loaded again, or loop-invariant."""
        s = self.lines[self.definitions[name]]
        typed = s.kind.gives_value and name in self.dtypes
        return not self.depth[name] or typed or self.reloadable(name)

    def reloadable(self, name: str) -> bool:
        """Whether the value can be loaded again from memory that the nest does not write."""
        s = self.lines[self.definitions[name]]
        readable = (
            s.kind in (StatementKind.LOAD, StatementKind.POSITION) and s.memory not in self.written
        )
        return readable and self.definitions.keys().isdisjoint(s.reads)

    @cached_property
    def crossing(self) -> list[int]:
        """How many values a cut at each position would have to hand over in memory."""
        more = [0] * (len(self.lines) + 1)
        for name, last in self.last_uses():
            if self.depth[name] and not self.reloadable(name):
                more[self.definitions[name] + 1] += 1
                more[last + 1] -= 1
        return list(accumulate(more))

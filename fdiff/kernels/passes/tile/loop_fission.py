"""Loops around thousands of statements, cut into several around some hundred each.

What LLVM takes for a loop grows with more than the square of its length. Pieces take turns, a few
rows at a time, and hand values on in memory, which stays in the cache; what is read from memory
that the loop leaves alone is read again. An unrolled program does the same again and again, and its
pieces had better be the same: cuts are made where the statements that follow occur most often. In
a long program shorter loops are cut, too, where they do the same again and again and hand on next
to nothing.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from operator import is_

from ....attributes import cached_property
from ...ir.indexing import Axis
from ...ir.loops import (
    BEGIN,
    Access,
    Accumulator,
    Buffer,
    Call,
    LoopProgram,
    Nest,
    Statement,
    Temporary,
    TileLoop,
    VersionedLoop,
)
from .repeated_lines import bounds_of_turns
from .row_dependence import finished, for_rows, rowwise, started

LONG = 1000  # statements up to which a loop stays whole
SHORT = 160  # those of a loop in which nobody looks for what it does again and again
LEAST, PIECE, MOST = 120, 240, 400  # statements of a piece
ROWS = "64"  # at a time
FEW, MORE_ROWS = 2, "256"  # values that are next to nothing; rows at a time where so few wait
_ALIKE = 12  # statements that are compared with those at other places
_NUMBERS = re.compile(r"\d+")
_WRITES = ("store", "update")


def split_long_loops(program: LoopProgram) -> LoopProgram:
    """The program with loops around thousands of statements cut into several."""
    items: list[Nest | Call | TileLoop | VersionedLoop] = []
    rooms: list[Temporary] = []
    long = sum(len(item.statements) for item in program.items if isinstance(item, Nest)) > LONG
    for item in program.items:
        pieces = _pieces(item, program.dtypes, long=long) if isinstance(item, Nest) else None
        items += pieces.items() if pieces is not None else [item]
        rooms += pieces.rooms if pieces is not None else []
    if all(map(is_, items, program.items)):
        return program
    return replace(program, items=tuple(items), temporaries=(*program.temporaries, *rooms))


def _pieces(nest: Nest, dtypes: Mapping[str, str], *, long: bool) -> _Pieces | None:
    """The pieces of a loop of a program that is `long` or not; None if it stays whole."""
    count = len(nest.statements)
    if nest.excluded or nest.ranges or nest.branches or count <= (SHORT if long else LONG):
        return None
    if nest.domain and not rowwise(nest, nest.domain[0]):
        return None
    if count > LONG:
        return _Pieces(nest, dtypes)
    pieces = _Pieces(nest, dtypes, MORE_ROWS) if nest.domain else None
    return pieces if pieces is not None and len(pieces.bounds) > 2 else None


def _touched(s: Statement) -> list[str]:
    """The locals that a statement reads or makes."""
    starts = [a.start for a in s.access.index] if s.access is not None else []
    return [s.target, *s.operands, *starts] if s.target else [*s.operands, *starts]


class _Pieces:
    """A nest and where it is cut; pieces take turns, so many `rows` at a time."""

    def __init__(self, nest: Nest, dtypes: Mapping[str, str], rows: str = ROWS) -> None:
        self.nest = nest
        self.rows = rows
        self.dtypes = dtypes
        self.rooms: list[Temporary] = []
        self.lines = nest.statements
        self.made = {s.target: k for k, s in enumerate(self.lines) if s.target}
        self.sums = {a.name: a for a in nest.accumulators}
        self.written = {
            s.access.buffer.name for s in self.lines if s.access is not None and s.kind in _WRITES
        }
        self.depth = self._depths()

    def _depths(self) -> dict[str, int]:
        """How many loops each local depends on."""
        out: dict[str, int] = {name: len(self.nest.domain) for name in self.sums}
        for s in self.lines:
            known = [out.get(name, 0) for name in _touched(s) if name != s.target]
            if s.access is not None:
                known += [axis.var + 1 for axis in s.access.index]
            inner = s.kind in ("accumulate", "pick", "carry", "update")
            out[s.target] = len(self.nest.domain) if inner else max(known, default=0)
        return out

    # --- where it can be cut ------------------------------------------------------------------

    @cached_property
    def held(self) -> list[bool]:
        """Before which statements it cannot be cut: turns of the loops would change places."""
        out = [False] * (len(self.lines) + 1)
        if not self.nest.domain:
            return out
        for begin, end in self._together():
            out[begin + 1 : end + 1] = [True] * (end - begin)
        return out

    def _together(self) -> Iterator[tuple[int, int]]:
        """The first and last of statements that have to stay in one loop."""
        touches: dict[str, list[int]] = {}
        for k, s in enumerate(self.lines):
            for name in {n for n in _touched(s) if n in self.sums}:
                touches.setdefault(name, []).append(k)
            if s.access is not None and s.access.buffer.name in self.written:
                touches.setdefault(f"[{s.access.buffer.name}]", []).append(k)
        for name, places in touches.items():
            if name in self.sums or not self._independent([self.lines[k] for k in places]):
                yield places[0], places[-1]
        for name, last in self._last_uses():
            if not self._movable(name):
                yield self.made[name], last

    def _independent(self, touches: list[Statement]) -> bool:
        """Whether all are additions, or each turn has an entry of its own."""
        if all(s.kind == "update" for s in touches):
            return True
        access = touches[0].access
        assert access is not None
        loops = sorted(axis.var for axis in access.index if axis.var >= 0)
        whole = all(a.step in ("1", "-1") for a in access.index if a.var >= 0)
        alone = loops == list(range(len(self.nest.domain))) and whole
        kinds = {s.kind for s in touches} <= {"store", "update", "load"}
        return alone and kinds and all(s.access == access for s in touches)

    def _last_uses(self) -> Iterable[tuple[str, int]]:
        """The last statement that reads each local."""
        last: dict[str, int] = {}
        for k, s in enumerate(self.lines):
            last.update((n, k) for n in _touched(s) if n != s.target and n in self.made)
        return last.items()

    def _movable(self, name: str) -> bool:
        """Whether a later piece can have the value."""
        s = self.lines[self.made[name]]
        known = s.kind in ("let", "load") and name in self.dtypes
        return not self.depth[name] or known or self._again(name)

    def _again(self, name: str) -> bool:
        """Whether the value can as well be read again."""
        s = self.lines[self.made[name]]
        return (
            s.kind in ("load", "position") and s.access is not None
            and s.access.buffer.name not in self.written
            and not any(n in self.made for n in _touched(s) if n != name)
        )  # fmt: skip

    @cached_property
    def free(self) -> list[bool]:
        """Before which statements a cut hands on few values."""
        more = [0] * (len(self.lines) + 1)
        for name, last in self._last_uses():
            if self.depth[name] and not self._again(name):
                more[self.made[name] + 1] += 1
                more[last + 1] -= 1
        return [n <= FEW and not held for n, held in zip(accumulate(more), self.held, strict=True)]

    # --- where it is cut ----------------------------------------------------------------------

    @cached_property
    def shapes(self) -> list[int]:
        """A number for each statement that tells what it does, and to which of those before it."""
        out: list[int] = []
        for k, s in enumerate(self.lines):
            operands = [
                str(k - self.made[n]) if n in self.made and k - self.made[n] <= _ALIKE else n[:1]
                for n in s.operands
            ]
            words = [s.kind, s.text, *operands]
            if s.access is not None:
                name, index = s.access.buffer.name, str(s.access.index)
                words += [name[:1], *s.access.dims, _NUMBERS.sub("", index)]
            out.append(zlib.crc32(" ".join(words).encode()))
        return out

    @cached_property
    def bounds(self) -> list[int]:
        """Where the pieces begin, and where the last one ends."""
        few = len(self.lines) <= LONG
        return self._filled(bounds_of_turns(self.shapes, self.free) if few else self._often())

    def _often(self) -> list[int]:
        """The places where what follows occurs most often."""
        shapes, end = self.shapes, len(self.lines)
        following = [tuple(shapes[k : k + _ALIKE]) for k in range(end)]
        often = Counter(following)
        out = [0]
        while end - out[-1] > MOST:
            first, last = out[-1] + LEAST, min(out[-1] + MOST, end - LEAST)
            places = [k for k in range(first, last + 1) if not self.held[k]]
            if not places:
                later = (k for k in range(last + 1, end) if not self.held[k])
                places = [next(later, end)]
            middle = out[-1] + PIECE
            best = max(
                places,
                key=lambda k: (often[following[k]], following[k], -abs(k - middle))
                if k < end else (0, (), 0),
            )  # fmt: skip
            out.append(best)
        return [*out, end] if out[-1] < end else out

    def _filled(self, bounds: list[int]) -> list[int]:
        """The bounds without those between which nothing stands in the innermost loop."""
        rank = len(self.nest.domain)
        inner = [not s.target or self.depth[s.target] == rank for s in self.lines]
        out = bounds[:1]
        for begin, end in pairwise(bounds):
            if any(inner[max(begin, out[-1]) : end]):
                out.append(end)
        return [*out[:-1], bounds[-1]]

    # --- the pieces ---------------------------------------------------------------------------

    def nests(self) -> list[Nest]:
        """The pieces, each with what it reads of those before it and leaves to those behind it."""
        bounds = self.bounds
        piece = {}
        for p, (begin, end) in enumerate(pairwise(bounds)):
            piece |= dict.fromkeys(range(begin, end), p)
        handed = dict.fromkeys(
            name for name, last in self._last_uses()
            if self.depth[name] and piece[last] > piece[self.made[name]] and not self._again(name)
        )  # fmt: skip
        for name in handed:
            waiting = self._waiting(name)
            self.rooms.append(Temporary(waiting.buffer.name, self.dtypes[name], waiting.dims))
        return [self._piece(begin, end, handed) for begin, end in pairwise(bounds)]

    def items(self) -> list[Nest | TileLoop]:
        """What is the same for all rows, then the pieces, for a few rows at a time."""
        if not self.nest.domain:
            return list(self.nests())
        fixed = tuple(s for k, s in enumerate(self.lines) if k in self.fixed)
        before = [Nest((), fixed, (), "for all rows")] if fixed else []
        inside = tuple(for_rows(piece, {}) for piece in self.nests())
        blocks = TileLoop(self.nest.domain[0], self.rows, inside)
        return [*before, *started(self.nest), blocks, *finished(self.nest)]

    @cached_property
    def fixed(self) -> set[int]:
        """The statements that are the same for all rows, by number."""
        return {
            k for k, s in enumerate(self.lines)
            if s.kind in ("let", "load") and not self.depth[s.target] and self.nest.domain
            and (s.access is None or s.access.buffer.name not in self.written)
        }  # fmt: skip

    def _piece(self, begin: int, end: int, handed: Mapping[str, None]) -> Nest:
        own = [s for k, s in enumerate(self.lines[begin:end], begin) if k not in self.fixed]
        names = dict.fromkeys(n for s in own for n in _touched(s) if n in self.made)
        taken = [
            self._load(n, handed) for n in names if self.made[n] < begin and self.depth[n]
        ]  # fmt: skip
        lines: list[Statement] = []
        for s in own:
            lines.append(s)
            if s.target in handed:
                lines.append(Statement("store", "", "", (s.target,), self._waiting(s.target)))
        sums = tuple(a for a in self.nest.accumulators if a.name in names or self._sum_of(a, own))
        return replace(self.nest, statements=(*taken, *lines), accumulators=sums)

    def _sum_of(self, accumulator: Accumulator, own: list[Statement]) -> bool:
        return any(accumulator.name in _touched(s) for s in own)

    def _load(self, name: str, handed: Mapping[str, None]) -> Statement:
        if name in handed:
            return Statement("load", name, "", (), self._waiting(name))
        return self.lines[self.made[name]]

    def _waiting(self, name: str) -> Access:
        """Where a value waits for a later piece."""
        dims = (self.rows, *self.nest.domain[1 : self.depth[name]])
        index = (Axis(0, "1", f"-{BEGIN}"), *(Axis(k) for k in range(1, len(dims))))
        return Access(Buffer(f"h{name}"), dims, index)

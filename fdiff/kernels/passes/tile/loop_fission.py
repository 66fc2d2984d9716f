"""Loop fission (distribution): loops around thousands of statements, cut into shorter loops.

LLVM's time for a loop grows faster than the square of its length. The pieces run one after another
for a tile of a few rows. Values that later pieces need are spilled to memory, which stays in the
cache, or loaded again. Unrolled programs repeat themselves, and equal pieces are compiled once: so
cuts are made where the statements that follow occur most often. Legality is checked by
`separable_statements.py`. Measurements: docs/decisions/long-loops-are-split.md.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from operator import is_

from ....lazy_attributes import cached_property
from ...ir.accesses import Access, Buffer
from ...ir.index_expressions import Axis
from ...ir.loops import BEGIN, Item, LoopProgram, Nest, Statement, Temporary, TileLoop
from .row_dependence import finalisation, initialisation, restricted_to_tile, row_loop
from .separable_statements import SeparableStatements

# Measured in docs/decisions/long-kernels-are-outlined.md. Sizes of loops and pieces in statements:
LONGEST_BODY = 3000  # a loop up to here stays whole: it runs faster than its pieces
SHORTEST_PIECE = 120  # the least that is worth loads, spills and a loop of its own
USUAL_PIECE = 240  # of cuts before equal code, the one nearest to this is taken
LONGEST_PIECE = 400  # LLVM's time for a loop grows faster than the square of this
_COMPARED = 12  # the statements after a cut that must be equal to count as the same code
ROWS = "64"  # of a tile: what all cuts of a body spill has to stay in the cache
_NUMBERS = re.compile(r"\d+")


def split_long_loops(program: LoopProgram) -> LoopProgram:
    """The program with loops around thousands of statements cut into several."""
    items: list[Item] = []
    spill_buffers: list[Temporary] = []
    for item in program.items:
        pieces = _pieces(item, program.dtypes) if isinstance(item, Nest) else None
        items += pieces.items() if pieces is not None else [item]
        spill_buffers += pieces.spill_buffers if pieces is not None else []
    if all(map(is_, items, program.items)):
        return program
    return replace(program, items=tuple(items), temporaries=(*program.temporaries, *spill_buffers))


def _pieces(nest: Nest, dtypes: Mapping[str, str]) -> _Pieces | None:
    """The pieces of a nest; None if it is not cut."""
    whole = nest.excluded or nest.ranges or nest.branches
    if whole or len(nest.statements) <= LONGEST_BODY:
        return None
    if nest.domain and row_loop(nest, nest.domain[0]) != 0:
        return None
    return _Pieces(nest, dtypes)


class _Pieces(SeparableStatements):
    """A nest and where it is cut; the pieces run for tiles of rows."""

    def __init__(self, nest: Nest, dtypes: Mapping[str, str]) -> None:
        super().__init__(nest, dtypes)
        self.spill_buffers: list[Temporary] = []

    # --- where it is cut ----------------------------------------------------------------------

    @cached_property
    def fingerprints(self) -> list[int]:
        """A hash of what each statement does, and how far back its operands are: equal if alike."""
        out: list[int] = []
        for k, s in enumerate(self.lines):
            operands = [
                str(k - self.definitions[n])
                if n in self.definitions and k - self.definitions[n] <= _COMPARED
                else n[:1]
                for n in s.operands
            ]
            words = [s.kind.value, s.text, *operands]
            if s.access is not None:
                index = _NUMBERS.sub("", str(s.access.index))
                words += [s.memory[:1], *s.access.dims, index]
            out.append(zlib.crc32(" ".join(words).encode()))
        return out

    @cached_property
    def bounds(self) -> list[int]:
        """Where pieces begin, before code that occurs most often, and where the last one ends."""
        fingerprints, end = self.fingerprints, len(self.lines)
        following = [tuple(fingerprints[k : k + _COMPARED]) for k in range(end)]
        frequency = Counter(following)
        out = [0]
        while end - out[-1] > LONGEST_PIECE:
            first = out[-1] + SHORTEST_PIECE
            last = min(out[-1] + LONGEST_PIECE, end - SHORTEST_PIECE)
            places = [k for k in range(first, last + 1) if not self.inseparable[k]]
            if not places:
                later = (k for k in range(last + 1, end) if not self.inseparable[k])
                places = [next(later, end)]
            middle = out[-1] + USUAL_PIECE
            best = max(
                places,
                key=lambda k: (frequency[following[k]], following[k], -abs(k - middle))
                if k < end else (0, (), 0),
            )  # fmt: skip
            out.append(best)
        return [*out, end] if out[-1] < end else out

    # --- the pieces ---------------------------------------------------------------------------

    def nests(self) -> list[Nest]:
        """The pieces, each with loads of values from earlier ones, and spills for later ones."""
        bounds = self.bounds
        piece = {}
        for p, (begin, end) in enumerate(pairwise(bounds)):
            piece |= dict.fromkeys(range(begin, end), p)
        spilled = dict.fromkeys(
            name for name, last in self.last_uses()
            if self.depth[name] and not self.reloadable(name)
            and piece[last] > piece[self.definitions[name]]
        )  # fmt: skip
        for name in spilled:
            waiting = self._spill_access(name)
            over = self.nest.domain[:1] if len(waiting.dims) > 1 else ()
            self.spill_buffers.append(
                Temporary(waiting.buffer.name, self.dtypes[name], waiting.dims, over=over)
            )
        return [self._piece(begin, end, spilled) for begin, end in pairwise(bounds)]

    def items(self) -> list[Nest | TileLoop]:
        """Loop-invariant statements, then a tile loop around the pieces."""
        if not self.nest.domain:
            return list(self.nests())
        invariant = tuple(s for k, s in enumerate(self.lines) if k in self.invariant)
        before = [Nest((), invariant, (), "for all rows")] if invariant else []
        inside = tuple(restricted_to_tile(piece, {}) for piece in self.nests())
        tile_loop = TileLoop(self.nest.domain[0], ROWS, inside)
        return [*before, *initialisation(self.nest), tile_loop, *finalisation(self.nest)]

    @cached_property
    def invariant(self) -> set[int]:
        """The loop-invariant statements, by number."""
        return {
            k for k, s in enumerate(self.lines)
            if s.kind.gives_value and not self.depth[s.target] and self.nest.domain
            and s.memory not in self.written
        }  # fmt: skip

    def _piece(self, begin: int, end: int, spilled: Mapping[str, None]) -> Nest:
        """A piece: loads of values of earlier ones, its statements, spills for later ones."""
        own = [s for k, s in enumerate(self.lines[begin:end], begin) if k not in self.invariant]
        touched = dict.fromkeys(n for s in own for n in (s.target, *s.reads))
        names = [n for n in touched if n in self.definitions]
        taken = [
            self._load(n, spilled) for n in names if self.definitions[n] < begin and self.depth[n]
        ]  # fmt: skip
        lines: list[Statement] = []
        for s in own:
            lines.append(s)
            if s.target in spilled:
                lines.append(Statement.store((s.target,), self._spill_access(s.target)))
        sums = tuple(a for a in self.nest.accumulators if a.name in touched)
        return replace(self.nest, statements=(*taken, *lines), accumulators=sums)

    def _load(self, name: str, spilled: Mapping[str, None]) -> Statement:
        """The statement that loads a value of an earlier piece."""
        if name in spilled:
            return Statement.load(name, self._spill_access(name))
        return self.lines[self.definitions[name]]

    def _spill_access(self, name: str) -> Access:
        """The entry to which a value is spilled."""
        dims = (ROWS, *self.nest.domain[1 : self.depth[name]])
        index = (Axis(0, "1", f"-{BEGIN}"), *(Axis(k) for k in range(1, len(dims))))
        return Access(Buffer(f"h{name}"), dims, index)

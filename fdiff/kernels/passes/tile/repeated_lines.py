"""Where lines do the same again and again, and into which pieces they are cut to be alike.

An unrolled program leaves loops in which the terms of all turns stand side by side: zeros stored
into as many arrays, as many terms added up. Pieces of so many turns each are compiled once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

LONGEST = 40  # lines of a turn
TURNS = 5  # that are the least to be looked at
CALL = 8  # lines that take as long to compile as the call of a piece
SAVED = 50  # lines that are to be compiled less: as long take the loops around the rest


class Stretch(NamedTuple):
    """Lines from `begin` on that do the same in each of so many `turns` of `period` lines."""

    begin: int
    period: int
    turns: int

    def lines(self, size: int) -> int:
        """What is compiled if pieces are `size` turns long: one of them, the rest, the calls."""
        count, rest = divmod(self.turns, size)
        return (size + rest) * self.period + CALL * count

    @property
    def size(self) -> int:
        """The turns of a piece for which least is compiled."""
        return min(range(1, self.turns + 1), key=self.lines)

    @property
    def saved(self) -> int:
        """Lines that are compiled less for it."""
        return self.turns * self.period - self.lines(self.size)


def bounds_of_turns(shapes: Sequence[int], free: Sequence[bool]) -> list[int]:
    """Where pieces begin, and where the last one ends: lines of one of the `shapes` are alike.

    Pieces begin only before lines that are `free` for it.
    """
    out = [0]
    for stretch in _stretches(shapes):
        if stretch.saved >= SAVED:
            out += [k for k in _places(stretch, free) if k > out[-1]]
    return [*out, len(shapes)] if out[-1] < len(shapes) else out


def _places(stretch: Stretch, free: Sequence[bool]) -> list[int]:
    """Where the pieces of a stretch begin, and where the last one ends; the rest comes first."""
    count, rest = divmod(stretch.turns, stretch.size)
    first = stretch.begin + rest * stretch.period
    for begin in range(first, first + stretch.period):
        all_places = (begin + stretch.size * stretch.period * k for k in range(count + 1))
        places = [k for k in all_places if k < len(free)]
        if all(free[k] for k in places):
            return places
    return []


def _stretches(shapes: Sequence[int]) -> Iterator[Stretch]:
    """The stretches one after another, each of the least period there is."""
    alike = {p: _alike(shapes, p) for p in range(1, LONGEST + 1)}
    k = 0
    while k < len(shapes):
        least = ((p, same[k] + p) for p, same in alike.items() if same[k])
        period, length = next(((p, n) for p, n in least if n >= max(TURNS * p, SAVED)), (0, 0))
        if period:
            yield Stretch(k, period, length // period)
        k += length // period * period if period else 1


def _alike(shapes: Sequence[int], period: int) -> list[int]:
    """For each line, how many from there on are as those a period later."""
    out = [0] * len(shapes)
    for k in range(len(shapes) - period - 1, -1, -1):
        out[k] = out[k + 1] + 1 if shapes[k] == shapes[k + period] else 0
    return out

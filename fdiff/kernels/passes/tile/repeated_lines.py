"""Repeated lines in long loop bodies, and where to cut the body into equal pieces.

Unrolling in Python leaves loop bodies in which the statements of all iterations stand one after
another. Pieces of a few such iterations each are equal, and equal pieces are compiled once.

Finding equal pieces is loop rerolling; R. C. O. Rocha et al., Loop rolling for code size reduction,
CGO 2022.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

LONGEST_PERIOD = 40  # lines of one iteration, at most
LEAST_REPEATS = 5  # of a repetition worth looking at
LINES_PER_CALL = 8  # the call of a piece takes as long to compile as this many lines
LEAST_SAVED = 50  # lines to save at least, since further loops take time to compile, too


class Repetition(NamedTuple):
    """Lines from `begin` on that come `repeats` times, every `period` lines."""

    begin: int
    period: int
    repeats: int

    def lines(self, size: int) -> int:
        """Lines to compile with pieces of `size` repeats: one piece, the remainder, the calls."""
        repeats, rest = divmod(self.repeats, size)
        return (size + rest) * self.period + LINES_PER_CALL * repeats

    @property
    def size(self) -> int:
        """The repeats of a piece for which the fewest lines are compiled."""
        return min(range(1, self.repeats + 1), key=self.lines)

    @property
    def saved(self) -> int:
        """The lines that need not be compiled."""
        return self.repeats * self.period - self.lines(self.size)


def bounds_of_repeats(shapes: Sequence[int], may_cut: Sequence[bool]) -> list[int]:
    """Where pieces begin, and where the last one ends; lines of equal `shapes` do the same.

    A cut stands only before a line where it `may_cut`.
    """
    out = [0]
    for repetition in _repetitions(shapes):
        if repetition.saved >= LEAST_SAVED:
            out += [k for k in _cuts(repetition, may_cut) if k > out[-1]]
    return [*out, len(shapes)] if out[-1] < len(shapes) else out


def _cuts(repetition: Repetition, may_cut: Sequence[bool]) -> list[int]:
    """Where the pieces of a repetition begin and the last one ends, after its remainder."""
    repeats, rest = divmod(repetition.repeats, repetition.size)
    first = repetition.begin + rest * repetition.period
    for begin in range(first, first + repetition.period):
        all_cuts = (begin + repetition.size * repetition.period * k for k in range(repeats + 1))
        cuts = [k for k in all_cuts if k < len(may_cut)]
        if all(may_cut[k] for k in cuts):
            return cuts
    return []


def _repetitions(shapes: Sequence[int]) -> Iterator[Repetition]:
    """The repetitions in order, each of the smallest period that fits."""
    matching = {p: _matching_lines(shapes, p) for p in range(1, LONGEST_PERIOD + 1)}
    k = 0
    while k < len(shapes):
        least = ((p, same[k] + p) for p, same in matching.items() if same[k])
        period, length = next(
            ((p, n) for p, n in least if n >= max(LEAST_REPEATS * p, LEAST_SAVED)), (0, 0)
        )
        if period:
            yield Repetition(k, period, length // period)
        k += length // period * period if period else 1


def _matching_lines(shapes: Sequence[int], period: int) -> list[int]:
    """For each line, how many lines from there on equal those one period later."""
    out = [0] * len(shapes)
    for k in range(len(shapes) - period - 1, -1, -1):
        out[k] = out[k + 1] + 1 if shapes[k] == shapes[k + period] else 0
    return out

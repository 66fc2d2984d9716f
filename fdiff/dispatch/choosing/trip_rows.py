"""The rows of a ``for``: numbers of a range, or entries of sequences of one length.

Our own method: docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...trace import TracedArray
from ...trace.handler_arguments import resolve

Row = range | np.ndarray | TracedArray
UNTOLD = 1 << 40  # trips of a ``while``: more than a run makes


class TripRows:
    """The rows of a loop: the `numbers` of its trips, and sequences.

    A ``while``, which `waits`, has none, nor has a statement that is run `once`. A ``while`` makes
    up to `within` trips, or any number. A trip of `sequences` gets its number and an entry of each.
    """

    def __init__(
        self,
        numbers: range,
        sequences: Sequence[Row] | None = None,
        *,
        waits: bool = False,
        once: bool = False,
    ) -> None:
        self.numbers, self.sequences, self.waits, self.once = numbers, sequences, waits, once
        self.within: int | None = None

    @property
    def length(self) -> int:
        """The largest number of trips."""
        return (self.within or UNTOLD) if self.waits else len(self.numbers)

    def entries(self, index: object) -> object:
        """The number of a trip, and its entries of the sequences."""
        if self.sequences is None:
            return index
        number = cast("int", index)  # or a traced one
        each = [
            number * s.step + s.start if isinstance(s, range) else s[number] for s in self.sequences
        ]
        return (number, *each)

    def last(self) -> object:
        """The number and the entries of the last trip."""
        return self.entries(self.numbers[-1])

    def arrays(self) -> list[object]:
        """The arrays of which trips read entries."""
        return [resolve(s) for s in self.sequences or () if not isinstance(s, range)]

    def size(self) -> int:
        """The largest size of a number that a trip is given."""
        ends = [n for s in (self.numbers, *self._ranges()) for n in (s[0], s[-1])]
        return max(map(abs, ends))

    def _ranges(self) -> list[range]:
        return [s for s in self.sequences or () if isinstance(s, range)]


def trip_rows(rows: object, *, waits: bool, once: bool) -> TripRows | None:
    """The rows of a loop; None where it runs over something else."""
    if once:
        return TripRows(range(1), once=True)
    if waits:
        return TripRows(range(1), waits=True)
    if isinstance(rows, range):
        return TripRows(rows)
    lengths = []
    for sequence in cast("tuple[object, ...]", rows) if isinstance(rows, tuple) else ():
        if type(sequence) is range:
            lengths.append(len(sequence))
            continue
        h = resolve(sequence)
        if not isinstance(h, (np.ndarray, TracedArray)) or not h.ndim:
            return None
        lengths.append(h.shape[0])
    if not lengths:
        return None
    return TripRows(range(min(lengths)), cast("tuple[Row, ...]", rows))

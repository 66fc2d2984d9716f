"""The rows of a ``for``: numbers of a range, or entries of sequences.

The shortest sequence ends the loop. Lists of arrays or numbers of one type are stacked.

Our own method: docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...capture.sources.loop_frames import LoopNames
from ...primitive import FUNCTIONS
from ...trace import Trace, TracedArray
from ...trace.handler_arguments import resolve
from ...trace.looping.periods import HandleKind
from ...user_lines import user_line
from .variables import FLOAT

Row = range | np.ndarray | TracedArray
UNBOUNDED = 1 << 40  # trips of a ``while``: more than a run makes


class StackedRow:
    """A list or tuple as a row: of its `elements`, all of one kind, trips read a stack.

    The elements are `plain` numbers, or others. They may be `scalar`, and `weak` as floats of
    Python's.
    """

    def __init__(self, elements: Sequence[object], *, kind: HandleKind, plain: bool) -> None:
        self.elements, self.kind = elements, kind
        self.whole: np.ndarray | TracedArray | None = None
        if plain:
            self.whole = np.array(elements)

    def stack(self, trace: Trace) -> None:
        """Stack the elements in the trace around the loop."""
        if self.whole is None and trace.calls is not None:
            trace.calls.depth += 1  # the call is none of the user's
            try:
                whole = FUNCTIONS[np.stack]([*map(resolve, self.elements)])
                self.whole = cast("TracedArray", whole)
            finally:
                trace.calls.depth -= 1

    def entry(self, number: object) -> object:
        """An element: itself, or of a traced number the entry of the stack."""
        if not isinstance(number, TracedArray):
            return self.elements[cast("int", number)]
        whole, trace = self.whole, number.home
        if not isinstance(whole, TracedArray):
            assert whole is not None, "elements are stacked before trips read them"
            whole = TracedArray(trace, trace.lift(whole), ArrayType(whole.shape, whole.dtype))
        entry, (type_, scalar, weak) = whole[number], self.kind
        if not scalar:
            return entry
        return TracedArray(trace, entry.id, type_, scalar=True, weak=weak)


class TripRows:
    """The rows of a loop: the `numbers` of its trips, and `sequences` that trips read entries of.

    A trip gets its number and an entry of each sequence. A ``while`` and a statement outside of
    loops (`LoopNames`) have no rows.
    """

    def __init__(
        self,
        numbers: range,
        sequences: Sequence[Row | StackedRow] | None = None,
        *,
        is_while: bool = False,
        is_statement: bool = False,
        to_function_end: bool = False,
    ) -> None:
        self.numbers, self.sequences, self.is_while = numbers, sequences, is_while
        self.is_statement, self.to_function_end = is_statement, to_function_end
        self.most_trips: int | None = None  # of a ``while``; None for any number
        self.most_inner_trips: int | None = None  # of a ``while`` in the body
        self.unshared = frozenset[str]()  # variables whose arrays no other name holds
        self.dead = frozenset[str]()  # variables that nothing after the loop reads
        self.owned = frozenset[str]()  # variables whose arrays nothing else held before the loop
        self.numbers_arrays = False  # whether the body has numbers of arrays
        self.has_while = is_while  # or a loop in the body is one
        self.indices = 0  # questions for indices, of loops in the body, too
        self.lengths = False  # whether the trace relies on how much few trips append

    @property
    def length(self) -> int:
        """The largest number of trips."""
        return (self.most_trips or UNBOUNDED) if self.is_while else len(self.numbers)

    def entries(self, index: object) -> object:
        """The number of a trip, and its entries of the sequences."""
        if self.sequences is None:
            return index
        number = cast("int", index)  # or a traced one
        return (number, *[_entry(s, number) for s in self.sequences])

    def last(self) -> object:
        """The number and the entries of the last trip."""
        return self.entries(self.numbers[-1])

    def stack(self, trace: Trace) -> None:
        """Stack lists in the trace around the loop."""
        for s in self.sequences or ():
            if isinstance(s, StackedRow):
                s.stack(trace)

    def arrays(self) -> list[object]:
        """The arrays of which trips read entries."""
        arrays = list[object]()
        for s in self.sequences or ():
            stacked = isinstance(s, StackedRow)
            arrays += map(resolve, s.elements if stacked else [] if isinstance(s, range) else [s])
        return arrays

    def objects(self) -> list[object]:
        """The sequences, and the elements of lists."""
        own = [s.elements if isinstance(s, StackedRow) else s for s in self.sequences or ()]
        return cast("list[object]", own)

    def note(self, trace: Trace, paths: str) -> None:
        """Note for `explain` that the loop is a node, and which `paths` its trips take."""
        line = None if trace.calls is None or self.is_statement else user_line()
        if trace.calls is not None and line is not None:
            trace.calls.note(((line, 1, 0 if self.is_while else self.length, 1, paths),))

    def size(self) -> int:
        """The largest size of a number that a trip is given."""
        ends = [n for s in (self.numbers, *self._ranges()) for n in (s[0], s[-1])]
        return max(map(abs, ends))

    def _ranges(self) -> list[range]:
        return [s for s in self.sequences or () if isinstance(s, range)]


def _entry(sequence: Row | StackedRow, number: int) -> object:
    if isinstance(sequence, range):
        return number * sequence.step + sequence.start
    return sequence.entry(number) if isinstance(sequence, StackedRow) else sequence[number]


def trip_rows(rows: object, names: LoopNames) -> TripRows | None:
    """The rows of a loop; None where it runs over something else."""
    if names.is_statement:
        return TripRows(range(1), is_statement=True, to_function_end=names.to_function_end)
    if names.is_while:
        return TripRows(range(1), is_while=True)
    if isinstance(rows, range):
        return TripRows(rows)
    lengths, sequences = list[int](), list[Row | StackedRow]()
    for sequence in cast("tuple[object, ...]", rows) if isinstance(rows, tuple) else ():
        row = _row(sequence)
        if row is None:
            return None
        lengths.append(_length(row))
        sequences.append(row)
    return TripRows(range(min(lengths)), sequences) if lengths else None


def _length(row: Row | StackedRow) -> int:
    if isinstance(row, StackedRow):
        return len(row.elements)
    return len(row) if isinstance(row, range) else int(row.shape[0])


def _row(sequence: object) -> Row | StackedRow | None:
    """A sequence as a row; None of another one."""
    if type(sequence) is range:
        return sequence
    if type(sequence) is list or type(sequence) is tuple:
        return _stacked(sequence)
    h = resolve(sequence)
    return cast("Row", sequence) if isinstance(h, (np.ndarray, TracedArray)) and h.ndim else None


def _stacked(elements: Sequence[object]) -> StackedRow | None:
    """A list as a row; None where its elements are of several types."""
    values = [*map(resolve, elements)]
    kinds = {*map(_kind, values)}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None:
        return None
    return StackedRow(elements, kind=kind, plain=all(isinstance(v, float) for v in values))


def _kind(value: object) -> HandleKind | None:
    """The type of a number or an array, and whether it is scalar and weak; None of other values."""
    if isinstance(value, float):
        return FLOAT, True, type(value) is float
    if isinstance(value, TracedArray):
        return value.type, value.scalar, value.weak
    whole = isinstance(value, np.ndarray)
    return (ArrayType(value.shape, value.dtype), False, False) if whole else None

"""What trips of a loop append to lists, as rows of its node.

Our own method: docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...named_tuples import NamedTuple
from ...trace import Trace, TracedArray
from .answers import Answers
from .array_identities import relied_on
from .variables import FLOAT, WHOLE, RefusedLoopError, Variable, WayRun


class EntryKind(NamedTuple):
    """The type of a row's entries: arrays, scalars, or numbers of Python's."""

    type: ArrayType
    scalar: bool = False
    python: bool = False


class AppendedRows:
    """The rows of a loop's node that hold what its trips append; `kinds` are their types.

    Numbers of Python's are numbers behind the loop, on which the trace relies.
    `partners` are the variables that hold an appended array, by its place, behind the trip. Of
    those that other variables may hold later, at the `numbered` places, the numbers are rows, too.
    """

    def __init__(self, runs: Sequence[WayRun], count: int) -> None:
        self.runs, self.count = runs, count
        self.kinds: list[EntryKind] = []
        self.partners: dict[int, int] = {}
        self.numbered: list[int] = []
        self._trace: Trace | None = None
        self._rows: Sequence[TracedArray] = ()
        self._length, self._values = 0, list[object]()
        self._numbers = dict[int, np.ndarray]()
        self._others = dict[tuple[int, int], int]()  # the variables with appended arrays

    def check(self, log: Answers, variables: Sequence[Variable]) -> None:
        """Refuse values that are not traced, of several types, or held elsewhere."""
        for run in self.runs:
            own = run.values[self.count :]
            kinds, partners = list[EntryKind](), dict[int, int]()
            for place, value in enumerate(own):
                kinds.append(kind := _kind(value, log))
                if kind.scalar and not kind.python:
                    _check_number(value, run, log, variables)
                elif not kind.scalar:
                    if any(v is value for v in run.inputs) or sum(v is value for v in own) > 1:
                        raise RefusedLoopError("it appends an array that has other names")
                    held = [k for k in range(self.count) if run.values[k] is value]
                    if held:
                        partners[place] = held[0]
                    if len(held) > 1:
                        raise RefusedLoopError("it appends an array that has other names")
            if run is not self.runs[0] and (kinds, partners) != (self.kinds, self.partners):
                raise RefusedLoopError("it appends values of several types, or with other names")
            self.kinds, self.partners = kinds, partners
        self.numbered = [place for place, k in self.partners.items() if variables[k].tagged]

    def nodes(self, run: WayRun, trace: Trace) -> list[int]:
        """The nodes of what a run appends."""
        own = run.values[self.count :]
        pairs = zip(own, self.kinds, strict=True)
        nodes = [trace.lift(value, kind.type.dtype) for value, kind in pairs]
        return nodes + [run.arrays.number(own[place]) for place in self.numbered]

    def arrays(self, run: WayRun) -> list[object]:
        """The arrays that a run appends, but for those that variables hold, too."""
        own = enumerate(run.values[self.count :])
        return [v for place, v in own if place not in self.partners]

    def enter(
        self, trace: Trace, rows: Sequence[TracedArray], length: int,
        tags: Mapping[int, TracedArray],
    ) -> None:  # fmt: skip
        """Note the rows of the node that is entered; rely on rows of Python's numbers.

        The arrays that some variables hold have numbers, too.
        """
        self._trace, self._rows, self._length = trace, rows[: len(self.kinds)], length
        if self.numbered and isinstance(trace.calls, Answers):
            raise RefusedLoopError("it appends an array that has other names")
        for row, kind in zip(rows, self.kinds, strict=False):
            if kind.python:
                self._rely_on(trace, row.id)
        for place, row in zip(self.numbered, rows[len(self.kinds) :], strict=True):
            for k, tag in tags.items():
                trips = np.flatnonzero(relied_on(trace, row, tag))
                self._others |= {(int(trip), place): k for trip in trips}

    def _rely_on(self, trace: Trace, row: int) -> None:
        """Rely on a row of Python's numbers."""
        guards = trace.guards
        at_hand = guards.is_known(row) and not guards.is_batched(row)
        if isinstance(trace.calls, Answers) or not at_hand:
            raise RefusedLoopError("it appends numbers of Python's, which are not at hand")
        self._numbers[row] = np.array(guards.value(row, "kept"))
        guards.expect(row, self._numbers[row])

    def hold(self, values: list[object]) -> None:
        """Note what variables hold behind the loop."""
        self._values = values

    def trips(self) -> Iterator[list[object]]:
        """What each trip has appended."""
        trace = self._trace
        if not self._rows or trace is None or trace.calls is None:
            return
        trace.calls.depth += 1  # the calls are none of the user's
        try:
            for trip in range(self._length):
                pairs = zip(self._rows, self.kinds, strict=True)
                own = [self._element(trace, row, kind, trip) for row, kind in pairs]
                last = trip == self._length - 1
                for place, partner in self.partners.items():
                    k = partner if last else self._others.get((trip, place), -1)
                    own[place] = own[place] if k < 0 else self._values[k]
                yield own
        finally:
            trace.calls.depth -= 1

    def _element(self, trace: Trace, row: TracedArray, kind: EntryKind, trip: int) -> object:
        """What a trip has appended."""
        if kind.python:
            return self._numbers[row.id][trip].item()
        return TracedArray(trace, row[trip].id, kind.type, scalar=kind.scalar)


def _kind(value: object, log: Answers) -> EntryKind:
    """The type of an appended value; RefusedLoopError if no row can hold it."""
    if isinstance(value, TracedArray):
        whole = value.type == WHOLE and value.scalar
        counted = whole and (value.weak or log.type_of(value) is int)
        if value.scalar and not counted and not value.weak:
            return EntryKind(value.type, scalar=True)
        if counted or (value.scalar and value.weak and value.type == FLOAT):
            return EntryKind(value.type, scalar=True, python=True)
        if value.home is log.trace and not (value.scalar or value.weak):
            return EntryKind(value.type)
    elif type(value) is float or type(value) is int:
        return EntryKind(FLOAT if type(value) is float else WHOLE, scalar=True, python=True)
    elif isinstance(value, np.float64):
        return EntryKind(FLOAT, scalar=True)
    raise RefusedLoopError("it appends what is not traced in the trip")


def _check_number(value: object, run: WayRun, log: Answers, variables: Sequence[Variable]) -> None:
    """Refuse a number that may be one of Python's, which a variable held before."""
    before = [v.start for v, h in zip(variables, run.inputs, strict=True) if h is value]
    python = any(not isinstance(h, TracedArray) or h.weak for h in before)
    python |= log.flag_of(value) is not None
    around: Answers | None = log
    while around is not None:
        python |= around.type_of(value) is not None or any(h is value for h, _ in around.flags)
        around = around.outer
    if python:
        raise RefusedLoopError("it appends what may be a number of Python's")

"""What trips of a loop append to lists, as rows of its node.

Our own method: docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import INT, ArrayType
from ...named_tuples import NamedTuple
from ...primitive import PRIMITIVES
from ...trace import Trace, TracedArray, apply
from ...trace.handler_arguments import resolve
from .array_identities import relied_on
from .path_runs import EnclosingLoop, enclosing_loop
from .trip_rows import TripRows
from .variables import FLOAT, WHOLE, PathRun, RefusedLoopError, Variable

_SUMS, _SEARCH = PRIMITIVES["cumsum"], PRIMITIVES["searchsorted"]
SHORT = 256  # trips of a loop that runs eagerly sooner than it is traced for many lengths


class EntryKind(NamedTuple):
    """The type of a row's entries: arrays, scalars, or Python numbers."""

    type: ArrayType
    scalar: bool = False
    python: bool = False


class Appended:
    """The entries that a run of the body appends to a list: all of what it appends, or none."""

    def __init__(self, entries: list[object]) -> None:
        self.entries = entries


class Absent:
    """Stands for an entry that a run does not append, as others do."""


ABSENT = Absent()


class GrownList(NamedTuple):
    """The places of a list's entries, from `first` to `end`; some paths append none if `uneven`."""

    first: int
    end: int
    uneven: bool = False


def in_places(runs: Sequence[PathRun], count: int) -> list[GrownList]:
    """Put the entries that runs append after their `count` variables, absent ones among them."""
    each = [cast("list[Appended]", run.appended) for run in runs]
    lists, end = list[GrownList](), 0
    for k in range(len(each[0])):
        lengths = [len(own[k].entries) for own in each]
        lists.append(GrownList(end, end + max(lengths), uneven=min(lengths) < max(lengths)))
        end = lists[-1].end
    for run, own in zip(runs, each, strict=True):
        places = [
            a.entries or [ABSENT] * (n.end - n.first) for a, n in zip(own, lists, strict=True)
        ]
        run.values[count:] = [resolve(entry) for entries in places for entry in entries]
    return lists


class AppendedRows:
    """The rows of a loop's node that hold what its trips append; `kinds` are their types.

    Python numbers stay numbers after the loop, and the trace relies on them.
    `partners` are the variables that hold an appended array, by its place, after the trip.
    Other variables may hold the arrays at the `numbered` places later: the number of such an array
    is one more row.
    Of `lists` to which some paths append nothing, one more row says which trips append: the trace
    relies on the number of these trips.
    """

    def __init__(self, runs: Sequence[PathRun], count: int, lists: Sequence[GrownList]) -> None:
        self.runs, self.count, self.lists = runs, count, lists
        self.kinds: list[EntryKind] = []
        self.partners: dict[int, int] = {}
        self.numbered: list[int] = []
        self._trace: Trace | None = None
        self._rows = dict[int, TracedArray]()
        self._trips = list[Sequence[int]]()  # by list
        self._values = list[object]()
        self._numbers = dict[int, np.ndarray]()
        self._others = dict[tuple[int, int], int]()  # the variables with appended arrays

    @property
    def width(self) -> int:
        """How many rows there are."""
        return len(self.kinds) + len(self.numbered) + sum(own.uneven for own in self.lists)

    def check(self, loop: EnclosingLoop, variables: Sequence[Variable]) -> None:
        """Refuse values that are not traced, of several types, or held elsewhere."""
        kinds, partners = dict[int, EntryKind](), dict[int, int | None]()
        for run in self.runs:
            for place, value in enumerate(run.appended):
                if value is ABSENT:
                    continue
                kind = _kind(value, loop)
                if kind.scalar and not kind.python:
                    _check_number(value, run, loop, variables)
                partner = None if kind.scalar else self._partner(run, value)
                first = kinds.setdefault(place, kind), partners.setdefault(place, partner)
                if first != (kind, partner):
                    raise RefusedLoopError(
                        "it appends values of several types, or with other names"
                    )
        self.kinds = [kinds[place] for place in sorted(kinds)]
        self.partners = {place: k for place, k in partners.items() if k is not None}
        if any(variables[k].stored_into for k in self.partners.values()):  # in the next trip
            raise RefusedLoopError("it stores into an array that a list holds")
        self.numbered = [
            place for place, k in self.partners.items() if variables[k].has_array_number
        ]
        uneven = {place for own in self.lists if own.uneven for place in range(own.first, own.end)}
        if not uneven.isdisjoint(self.numbered):
            raise RefusedLoopError("it appends an array that has other names")
        for run in self.runs:
            for place, k in self.partners.items():
                if run.appended[place] is ABSENT and run.values[k] is not run.inputs[k]:
                    raise RefusedLoopError(
                        "it appends an array on some paths, and changes its name"
                    )

    def _partner(self, run: PathRun, value: object) -> int | None:
        """The variable that holds an appended array after a run."""
        if any(v is value for v in run.inputs) or sum(v is value for v in run.appended) > 1:
            raise RefusedLoopError("it appends an array that has other names")
        held = [k for k in range(self.count) if run.values[k] is value]
        if len(held) > 1:
            raise RefusedLoopError("it appends an array that has other names")
        return held[0] if held else None

    def nodes(self, run: PathRun, trace: Trace) -> list[int]:
        """The nodes of what a run appends."""
        own, nodes = run.appended, list[int]()
        for value, kind in zip(own, self.kinds, strict=True):
            entry = np.zeros(kind.type.shape) if value is ABSENT else value
            nodes.append(trace.lift(entry, kind.type.dtype))
        nodes += [run.arrays.number(own[place]) for place in self.numbered]
        appends = [own[each.first] is not ABSENT for each in self.lists if each.uneven]
        return nodes + [trace.lift(np.array(int(a), INT), INT) for a in appends]

    def arrays(self, run: PathRun) -> list[object]:
        """The arrays that a run appends, but for those that variables hold, too."""
        own = enumerate(run.appended)
        return [v for place, v in own if place not in self.partners]

    def enter(
        self, trace: Trace, rows: Sequence[TracedArray], loop: TripRows,
        tags: Mapping[int, TracedArray],
    ) -> None:  # fmt: skip
        """Note the rows of the node that is entered; rely on rows of Python numbers.

        The arrays that some variables hold have numbers, too.
        """
        if self.kinds and loop.is_while and not loop.most_trips:
            raise RefusedLoopError("it makes many trips, which append to a list")
        self._trace, self._rows = trace, dict(zip(range(len(self.kinds)), rows, strict=False))
        if self.numbered and enclosing_loop(trace) is not None:
            raise RefusedLoopError("it appends an array that has other names")
        numbers = iter(rows[len(self.kinds) :])
        for place, row in zip(self.numbered, numbers, strict=False):
            for k, tag in tags.items():
                trips = np.flatnonzero(relied_on(trace, row, tag))
                self._others |= {(int(trip), place): k for trip in trips}
        flags = iter(rows[len(self.kinds) + len(self.numbered) : self.width])
        self._trips = [
            self._appending(trace, own, next(flags), loop) if own.uneven else range(loop.length)
            for own in self.lists
        ]
        for place, kind in enumerate(self.kinds):
            if kind.python:
                self._rely_on(trace, self._rows[place].id)

    def _appending(
        self, trace: Trace, own: GrownList, flags: TracedArray, loop: TripRows
    ) -> Sequence[int]:
        """The places of a list's elements in its rows; the row `flags` says which trips append.

        The trace relies on the number of trips that append, and on the flags if they append Python
        numbers. Else the rows are gathered.
        """
        guards, places = trace.guards, range(own.first, own.end)
        if trace.calls is None or enclosing_loop(trace) is not None:
            raise RefusedLoopError("it appends to a list on some paths alone")
        if not guards.is_known(flags.id) or guards.is_batched(flags.id):
            raise RefusedLoopError("how much it appends is not at hand")
        loop.lengths |= loop.length <= SHORT
        if any(self.kinds[place].python for place in places):
            which = np.array(guards.value(flags.id, "appended"))
            guards.expect(flags.id, which)
            return [int(trip) for trip in np.flatnonzero(which)]
        trace.calls.depth += 1  # the calls are none of the user's
        try:
            sums = apply(_SUMS, flags, axis=0, reverse=False)
            number = sums[-1]
            count = int(np.array(guards.value(number.id, "appended")))
            guards.expect(number.id, count)
            if count:
                order = apply(_SEARCH, sums, np.arange(1, count + 1), side="left")
                self._rows |= {place: self._rows[place][order] for place in places}
        finally:
            trace.calls.depth -= 1
        return range(count)

    def _rely_on(self, trace: Trace, row: int) -> None:
        """Rely on a row of Python numbers."""
        guards = trace.guards
        at_hand = guards.is_known(row) and not guards.is_batched(row)
        if enclosing_loop(trace) is not None or not at_hand:
            raise RefusedLoopError("it appends Python numbers, which are not at hand")
        self._numbers[row] = np.array(guards.value(row, "kept"))
        guards.expect(row, self._numbers[row])

    def hold(self, values: list[object]) -> None:
        """Note the values of variables after the loop."""
        self._values = values

    def entries(self) -> Iterator[list[list[object]]]:
        """What trips have appended, by list."""
        trace = self._trace
        if trace is None or trace.calls is None:
            return
        trace.calls.depth += 1  # the calls are none of the user's
        try:
            for own, trips in zip(self.lists, self._trips, strict=True):
                places = range(own.first, own.end)
                last = trips[-1] if trips else -1
                yield [
                    [self._entry(trace, place, trip, last=trip == last) for place in places]
                    for trip in (trips if places else ())
                ]
        finally:
            trace.calls.depth -= 1

    def _entry(self, trace: Trace, place: int, trip: int, *, last: bool) -> object:
        """What a trip has appended."""
        row, kind = self._rows[place], self.kinds[place]
        if kind.python:
            return self._numbers[row.id][trip].item()
        k = self._others.get((trip, place), -1)
        k = self.partners.get(place, -1) if last else k
        if k >= 0:
            return self._values[k]
        return TracedArray(trace, row[trip].id, kind.type, scalar=kind.scalar)


def _kind(value: object, loop: EnclosingLoop) -> EntryKind:
    """The type of an appended value; RefusedLoopError if no row can hold it."""
    if isinstance(value, TracedArray):
        whole = value.type == WHOLE and value.scalar
        counted = whole and (value.weak or loop.type_of(value) is int)
        if value.scalar and not counted and not value.weak:
            return EntryKind(value.type, scalar=True)
        if counted or (value.scalar and value.weak and value.type == FLOAT):
            return EntryKind(value.type, scalar=True, python=True)
        if value.home is loop.trace and not (value.scalar or value.weak):
            return EntryKind(value.type)
    elif type(value) is float or type(value) is int:
        return EntryKind(FLOAT if type(value) is float else WHOLE, scalar=True, python=True)
    elif isinstance(value, np.float64):
        return EntryKind(FLOAT, scalar=True)
    raise RefusedLoopError("it appends what is not traced in the trip")


def _check_number(
    value: object, run: PathRun, loop: EnclosingLoop, variables: Sequence[Variable]
) -> None:
    """Refuse a number that may be a Python number from a variable before the loop."""
    before = [v.start for v, h in zip(variables, run.inputs, strict=True) if h is value]
    python = any(not isinstance(h, TracedArray) or h.weak for h in before)
    python |= loop.flag_of(value) is not None
    around: EnclosingLoop | None = loop
    while around is not None:
        python |= around.type_of(value) is not None or any(h is value for h, _ in around.flags)
        around = around.outer
    if python:
        raise RefusedLoopError("it appends what may be a Python number")

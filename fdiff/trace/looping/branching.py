"""Loops whose iterations branch: the paths of a trip, and what they hand on to one another.

The iterations of a loop that begin with one call, its *head*, are grouped by what Python saw. Each
group is a *path*; what they do alike before they part is one and the same item of all of them. A
handle of an earlier trip is read from a *variable*: what the calls at some places of the code made
last. Which places these are is told by the trips in the log, by identity. Paths are units of a
loop after the idea of T. Ball and J. R. Larus, Efficient path profiling, MICRO 1996. The method is
our own: docs/decisions/plain-loops-that-branch.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ...named_tuples import NamedTuple
from ..masked_parts import MaskedPart
from ..traced_array import TracedArray
from .logged_calls import LoggedCall, may_vary, same
from .loop_template import LoopTemplate, Path, UnrolledError
from .periods import INVARIANT, MADE, HandleKind, Reference, TemplateCall, Varying
from .questions import Question

PATHS = 16  # of a loop at most
VARIABLE = 3  # a reference: (VARIABLE, places, depth)

CallPlace = tuple[
    object, int
]  # the key of a call, and how many of this key there were before in its trip
CallPlaces = frozenset[tuple[CallPlace, int]]  # with which of the outs it is
Variable = tuple[CallPlaces, int]  # what was made last but (depth - 1) at one of the places
Read = tuple[int, int, int]  # of which trip, by which call, as which handle


class Made(NamedTuple):
    """Where a handle was made."""

    trip: int
    call: int
    out: int


def last_trips(
    calls: Mapping[int, LoggedCall], places: Sequence[int], end: int
) -> list[list[LoggedCall]]:
    """The last trips of a loop whose head was called at these places in the log, in order."""
    trips: list[list[LoggedCall]] = []
    for begin, stop in reversed([*pairwise([*places, end])]):
        if begin not in calls:
            break
        trip = [calls[k] for k in range(begin, stop)]
        if any(call.order < trip[0].order for call in trip):
            break
        trips.append(trip)
    return trips[::-1]


def asks(trips: Sequence[Sequence[LoggedCall]]) -> bool:
    """Whether Python looks at values in trips."""
    return any(isinstance(call.fn, Question) for trip in trips for call in trip)


class Paths:
    """The paths of trips, and where the handles in them come from."""

    def __init__(self, trips: Sequence[Sequence[LoggedCall]]) -> None:
        self.trips = trips
        if any(call.inside for trip in trips for call in trip):
            raise UnrolledError("its iterations branch, and have loops in them")
        self.places = [_places(trip) for trip in trips]
        self.made = {
            id(h): Made(t, k, o)
            for t, trip in enumerate(trips)
            for k, call in enumerate(trip)
            for o, (h, origin) in enumerate(zip(call.outs, call.origins, strict=True))
            if origin < 0
        }
        self.signs = [tuple(map(_sign, trip)) for trip in trips]
        counts = Counter(self.signs)
        self.signatures = [s for s in dict.fromkeys(self.signs) if counts[s] > 1][:PATHS]
        if len(self.signatures) < 2:
            raise UnrolledError("its iterations differ")
        for a in self.signatures:
            if any(a == b[: len(a)] for b in self.signatures if b is not a):
                raise UnrolledError("an iteration may end where another one goes on")
        self._variables: dict[Read, Variable] = {}
        self.inits: dict[Variable, TracedArray] = {}
        self._find_variables()

    # --------------------------------------------------------------------------- variables

    def _find_variables(self) -> None:
        """Find what is read of earlier trips: by place of the code, and which handle there."""
        reads: dict[tuple[CallPlace, int], list[Read]] = {}
        for t, trip in enumerate(self.trips):
            for k, call in enumerate(trip):
                for j, h in enumerate(call.handles):
                    maker = self.made.get(id(h))
                    if maker is None or maker.trip < t:
                        reads.setdefault((self.places[t][k], j), []).append((t, k, j))
        for events in reads.values():
            try:
                self._assign(events)
            except UnrolledError:  # the place reads one thing on one path, and another on others
                for sign in {self.signs[t] for t, _, _ in events}:
                    self._assign([read for read in events if self.signs[read[0]] == sign])

    def _assign(self, events: Sequence[Read]) -> None:
        """Find the variable that is read, if it is not the same handle each time."""
        sources = [self.made.get(id(self._handle(*read))) for read in events]
        of = frozenset((self.places[s.trip][s.call], s.out) for s in sources if s is not None)
        if of:
            self._variables |= dict.fromkeys(events, self._variable(of, events))

    def _handle(self, trip: int, call: int, j: int) -> TracedArray:
        return self.trips[trip][call].handles[j]

    def _written(self, places: CallPlaces) -> list[tuple[int, TracedArray]]:
        """In which trips something is made at some places, and what is made there last."""
        latest = []
        for t, trip in enumerate(self.trips):
            for k in range(len(trip) - 1, -1, -1):
                out = next((o for p, o in places if p == self.places[t][k]), None)
                if out is not None and out < len(trip[k].outs):
                    latest.append((t, trip[k].outs[out]))
                    break
        return latest

    def _variable(self, places: CallPlaces, events: Sequence[Read]) -> Variable:
        """The variable that the same place reads in several trips."""
        written = self._written(places)
        depths, before = set[int](), list[tuple[int, TracedArray]]()
        for t, k, j in events:
            h, history = self._handle(t, k, j), [x for s, x in written if s < t]
            ages = [age for age, x in enumerate(reversed(history), 1) if x is h]
            if ages:
                depths.add(ages[0])
            else:
                before.append((len(history), h))
        depth = depths.pop() if len(depths) == 1 else 0
        for count, h in before:
            if count >= depth or self.inits.setdefault((places, depth - count), h) is not h:
                depth = 0
        if not depth:
            raise UnrolledError("what its iterations hand on is not what one of them made last")
        return places, depth

    def now(self, variable: Variable) -> TracedArray:
        """The value of a variable after all trips."""
        places, depth = variable
        written = self._written(places)
        if len(written) >= depth:
            return written[-depth][1]
        before = places, depth - len(written)
        if before not in self.inits:
            raise UnrolledError("what its iterations hand on is not known yet")
        return self.inits[before]

    def reference(self, t: int, k: int, j: int) -> Reference:
        """Where a handle in a call comes from."""
        h = self._handle(t, k, j)
        maker = self.made.get(id(h))
        if maker is not None and maker.trip == t:
            return MADE, 0, maker.call, maker.out
        variable = self._variables.get((t, k, j))
        return (INVARIANT, id(h)) if variable is None else (VARIABLE, *variable)

    # ------------------------------------------------------------------------------- items

    def item(
        self, signature: tuple[object, ...], k: int
    ) -> tuple[LoggedCall, list[Reference], list[bool]]:
        """A call of a path, where its handles come from, and which of its values vary."""
        alike = [t for t, s in enumerate(self.signs) if s[: k + 1] == signature[: k + 1]]
        last = max(t for t in alike if self.signs[t] == signature)
        calls, call = [self.trips[t][k] for t in alike], self.trips[last][k]
        for other in calls:
            if (other.result, other.origins, other.types) != (
                call.result,
                call.origins,
                call.types,
            ):
                raise UnrolledError("its calls give other types")
            if len(other.writes) != len(call.writes):
                raise UnrolledError("it stores into other arrays")
        references = [self.reference(last, k, j) for j in range(len(call.handles))]
        for t in alike:
            if [self.reference(t, k, j) for j in range(len(call.handles))] != references:
                raise UnrolledError("its iterations take other arrays")
        handles = [
            (INVARIANT, h) if r[0] == INVARIANT else r
            for r, h in zip(references, call.handles, strict=True)
        ]
        varying = []
        for j, value in enumerate(call.values):
            others = [other.values[j] for other in calls]
            equal = all(same(value, other) for other in others)
            if not equal and not all(may_vary(value, other) for other in others):
                raise UnrolledError("its iterations take other arguments")
            varying.append(not equal)
        return call, handles, varying


def _places(trip: Sequence[LoggedCall]) -> list[CallPlace]:
    """The place of each call of a trip."""
    count: Counter[object] = Counter()
    places = []
    for call in trip:
        places.append((call.key, count[call.key]))
        count[call.key] += 1
    return places


def _sign(call: LoggedCall) -> object:
    """By what the same call of another trip is told: also by the truth that Python saw."""
    seen = call.values[0] if isinstance(call.fn, Question) and call.fn.kind is bool else None
    return call.key, seen


class BranchingTemplate(LoopTemplate):
    """The paths of a loop, with slots that all of them share."""

    def __init__(self, paths: Paths) -> None:
        self._begin(paths.trips[0][0].key, max(map(len, paths.signatures)))
        self.observed = paths
        parts = [
            [paths.item(signature, k) for k in range(len(signature))]
            for signature in paths.signatures
        ]
        references = [r for part in parts for _, handles, _ in part for r in handles]
        for r in references:
            if r[0] == INVARIANT:
                self._invariant(r[1])
        self._add_roots([call for part in parts for call, _, _ in part])
        read = [r[1:] for r in references if r[0] == VARIABLE]
        variables = dict.fromkeys([(of, n) for of, depth in read for n in range(1, depth + 1)])
        first = len(self.invariants)
        order = sorted(variables, key=lambda v: -v[1])
        self.carries = {v: first + n for n, v in enumerate(order)}
        self.size = self.first_made = first + len(self.carries)
        self.kinds = [_kind(h) for h in (*self.invariants, *map(paths.now, self.carries))]
        nodes: dict[object, TemplateCall] = {}
        for signature, part in zip(paths.signatures, parts, strict=True):
            self._add_path(signature, part, nodes)
        self._finish()

    def _add_path(
        self,
        signature: tuple[object, ...],
        part: Sequence[tuple[LoggedCall, list[Reference], list[bool]]],
        nodes: dict[object, TemplateCall],
    ) -> None:
        """Enter a path, whose first items may be shared with other paths."""
        items = []
        self.made = []
        for k, (call, references, varying) in enumerate(part):
            item = nodes.get(signature[: k + 1])
            if item is None:
                self.made.append([self.size + n for n in range(len(call.outs))])
                self.size += len(call.outs)
                self.kinds += call.types
                item = nodes[signature[: k + 1]] = self._item(k, call, references, varying)
            else:
                self.made.append([*item.made])
            items.append(item)
        calls = [call for call, _, _ in part]
        moves = [*self._moves(_places(calls), items)]
        self.paths.append(Path(items, calls, moves, len(self.invariants)))

    def _moves(
        self, places: Sequence[CallPlace], items: Sequence[TemplateCall]
    ) -> Iterator[tuple[int, int]]:
        """The slots of the variables that a path writes, each with the slot of its new value."""
        for (of, depth), slot in self.carries.items():
            written = None
            for place, item in zip(places, items, strict=True):
                out = next((o for p, o in of if p == place and o < len(item.made)), None)
                written = written if out is None else item.made[out]
            if written is not None:
                source = written if depth == 1 else self.carries[of, depth - 1]
                if self.kinds[source] != self.kinds[slot]:
                    raise UnrolledError("what its iterations hand on has several types")
                yield slot, source

    def _slot(self, reference: Reference) -> int | Varying:
        if reference[0] == VARIABLE:
            return self.carries[reference[1], reference[2]]
        return super()._slot(reference)


def _kind(handle: TracedArray) -> HandleKind:
    if isinstance(handle, MaskedPart):
        raise UnrolledError("entries picked by a mask live on in later iterations")
    return handle.type, handle.scalar, handle.weak

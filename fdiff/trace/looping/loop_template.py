"""Templates: a period with slots in place of handles.

The slots of a frame hold, in this order, the *invariants*, the *carries* (what a call of an earlier
trip made) and the outs of the period's calls. A template says for each call in which slots its
handles stand, which of its values are fixed and which vary, and in which slots its outs go. A
template is the least general generalisation of equal periods (G. D. Plotkin, A note on inductive
generalization, Machine Intelligence 5, pages 153-163, 1970): docs/decisions/plain-loops.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ...tape import Tape
from ..array_links import CapturedLink, outside, root_of
from ..masked_parts import MaskedPart, MaskedType
from ..traced_array import TracedArray
from .call_gates import entries
from .late_handles import View, views_to
from .logged_calls import HANDLE, LoggedCall, row_type, starts_of_windows
from .nested_loops import LoggedLoop
from .periods import (
    INVARIANT,
    MADE,
    Fixed,
    HandleKind,
    Period,
    Reference,
    Shifted,
    Slots,
    TemplateCall,
    Varying,
    is_nested,
)
from .trip_checks import LASTING, layout_of, quick_checks

if TYPE_CHECKING:
    from .trip_values import AskedPlan

_NONE = "new", NoneType, (None,)  # the result of a call that gives None
_MASKED = "entries picked by a mask of a traced array live on in later iterations"


class UnrolledError(Exception):
    """Why a loop is not rolled."""


class Path:
    """One path of a trip: its items, and the slots that it carries over.

    `calls` are the calls of a trip in the log. `moves` give the slots that it hands on, each with
    the slot of the new value, `lasts` by slot of an out the carry that is its last value.
    """

    def __init__(
        self,
        items: Sequence[TemplateCall],
        calls: Sequence[LoggedCall],
        moves: Sequence[tuple[int, int]],
        first: int,
    ) -> None:
        self.items, self.calls, self.moves = items, calls, moves
        self.lasts = {source: slot - first for slot, source in moves}
        self.slot_of: dict[int, Any] = {}  # by id of a handle
        for item, call in zip(items, calls, strict=True):
            self.slot_of |= zip(map(id, call.handles), item.slots, strict=True)
        for item, call in zip(items, calls, strict=True):
            self.slot_of |= zip(map(id, call.outs), item.outs, strict=False)


class LoopTemplate:
    """A period, and the body of the loop that it is; or several that a trip may be."""

    carries: dict[Any, int]

    def __init__(self, calls: Sequence[LoggedCall], period: Period) -> None:
        self._begin(calls[0].key, len(calls))
        carried = self._referred(calls, period)
        self.carries = {}  # by lag, call and out: the slot
        first = len(self.invariants)
        for lag, k, out in sorted(carried):
            self.carries[lag, k, out] = first + len(self.carries)
        self.size = self.first_made = first + len(self.carries)
        for k, call in enumerate(calls):
            numbers = [*range(len(call.outs)), *sorted(self._others[k])]
            self.made.append({out: self.size + n for n, out in enumerate(numbers)})
            self.size += len(numbers)
        moves = [
            (slot, self.made[k][out] if lag == 1 else self.carries[lag - 1, k, out])
            for (lag, k, out), slot in sorted(self.carries.items(), reverse=True)
        ]
        self.kinds = [(h.type, h.scalar, h.weak) for h in self.invariants]
        self.kinds += [_kind(calls[k], out) for _, k, out in self.carries]
        self.kinds += [
            _kind(call, n) for call, outs in zip(calls, self.made, strict=True) for n in outs
        ]
        items = [self._item(*each) for each in zip(range(len(calls)), calls, *period, strict=True)]
        self.paths.append(Path(items, calls, moves, first))
        self._finish()
        self.nested = is_nested(calls)
        read = {slot for item in items for slot in item.slots}
        self.reentrant = read.issuperset(self.carries.values())  # its first trip shows all of them

    def _begin(self, key: object, length: int) -> None:
        """Begin a template without paths."""
        self.length = length
        self.key, self.reentrant, self.nested = key, False, False
        self.checked = 0  # calls, in all trips so far
        self.invariants: list[TracedArray] = []
        self.row_kinds: list[HandleKind] = []
        self.examples: list[object] = []  # what the rows held: numbers, arrays, handles
        self._places: dict[int, int] = {}
        self.made: list[Slots] = []  # of each call
        self.kinds: list[HandleKind] = []  # by slot
        self.paths: list[Path] = []
        self.body: Tape | None = None
        self.plan: AskedPlan | None = None  # of its questions
        self.outputs: dict[int, int] = {}  # by slot of an out: the output of the body
        # By slot of an out that later trips store into: the carries that it is until then, by lag;
        # and the output of the body that is the last of them after a trip.
        self.stored_later: dict[int, list[int]] = {}
        self.finals: dict[int, int] = {}
        # By slot of an invariant that is a view of what is stored into: the slot of that, and how.
        self.views: dict[int, tuple[int, list[View]]] = {}
        self._carried: dict[int, tuple[int, int, int]] = {}  # by id of a handle: the carry
        self.stacks: dict[tuple[int, int], int] = {}  # likewise, of outputs of an inner loop
        self.bodies: list[Tape | None] = []  # of the inner loops, as they are in the body
        self.short = False  # whether there were more trips since
        self.layouts: dict[int, tuple[int, ...]] = {}  # by slot of an invariant or a carry
        self.orders: dict[int, list[int]] = {}  # by slot: the axes of an out in memory
        # Whether values are constants of the body; by slot of such an invariant: its node.
        self.relies, self.pinned = False, dict[int, int]()

    def _finish(self) -> None:
        """Look at what all paths do."""
        self.items = self.paths[0].items
        self.inner = [item for path in self.paths for item in path.items if item.inner is not None]
        for item in self.inner:
            item.child = self.size
            self.size += 1
        loops = [item.call for item in self.inner if isinstance(item.call, LoggedLoop)]
        self.lengths = [loop.trips for loop in loops]  # of rows: the most trips
        for path in self.paths:
            path.slot_of |= {h: k for h, k in self._places.items() if h not in path.slot_of}
        self.mutated = self._stored_into()

    @property
    def independent(self) -> bool:
        """Whether iterations differ in the keys that they read and store at, and in nothing else.

        None of them reads what another one made or stored. Such a loop becomes one batch once it
        is unrolled, too.
        """
        if self.nested or self.carries or self.views or self.row_kinds[len(self._keys()) :]:
            return False
        items = [item for path in self.paths for item in path.items]
        read = [slot for item in items for slot in item.slots[item.fn is entries[1] :]]
        return not set(self.mutated).intersection(read)

    def _keys(self) -> list[int]:
        """The rows of the values in keys."""
        items = [item for path in self.paths for item in path.items if item.fn in entries]
        return [v.row for item in items for v in item.values if isinstance(v, Varying)]

    @property
    def out_slots(self) -> list[int]:
        """The slots of what a trip makes that is no view, and no part by a mask."""
        return [slot for slot in self.outputs if not isinstance(self.kinds[slot][0], MaskedType)]

    def _referred(self, calls: Sequence[LoggedCall], period: Period) -> set[tuple[int, int, int]]:
        """Number the invariants; what is carried, with all the trips between."""
        carried: set[tuple[int, int, int]] = set()
        self._others: list[set[int]] = [set() for _ in calls]  # of earlier trips of inner loops
        for call, references in zip(calls, period.references, strict=True):
            for handle, reference in zip(call.handles, references, strict=True):
                if reference[0] == INVARIANT:
                    self._invariant(reference[1])
                elif reference[0] == MADE:
                    _, lag, k, out = reference
                    if out < 0:
                        raise UnrolledError("a view that a loop inside takes is read after it")
                    if calls[k].kind(out) is None:  # or an earlier call made more
                        raise UnrolledError("a call gives one of its arguments among others")
                    if lag and isinstance(calls[k].kind(out)[0], MaskedType):
                        raise UnrolledError(_MASKED)
                    if out >= len(calls[k].outs):
                        self._others[k].add(out)
                    carried |= {(n, k, out) for n in range(1, lag + 1)}
                    self._carried[id(handle)] = lag, k, out
        self._add_roots(calls)
        return carried

    def handed_on(
        self, calls: Mapping[int, LoggedCall], first: int
    ) -> dict[tuple[int, int, int], TracedArray] | None:
        """Carried values that earlier trips have made; None where they made other things.

        The last one begins with the call that has number `first` in the log.
        """
        carried = {}
        for lag, k, out in self.carries:
            call = calls.get(first + k - (lag - 1) * self.length)
            handle = None if call is None else call.out(out)
            if handle is None:
                return None
            carried[lag, k, out] = handle
        return carried

    def _invariant(self, handle: TracedArray) -> int:
        if isinstance(handle, MaskedPart):
            raise UnrolledError(_MASKED)
        place = self._places.setdefault(id(handle), len(self.invariants))
        if place == len(self.invariants):
            self.invariants.append(handle)
        return place

    def _add_roots(self, calls: Sequence[LoggedCall]) -> None:
        """Let arrays be invariants that are stored into by views taken before the loop."""
        roots = {id(w) for call in calls for w in call.writes}
        for handle in [*self.invariants]:
            root = root_of(handle)
            if root is not handle and id(root) in roots and views_to(handle) is not None:
                self._invariant(root)

    def _slot(self, reference: Reference) -> int | Varying:
        if reference[0] == INVARIANT:
            return self._places[id(reference[1])]
        if reference[0] == MADE:
            _, lag, k, out = reference
            return self.carries[lag, k, out] if lag else self.made[k][out]
        handle = reference[1]
        if self.length == 1:  # a function of NumPy that takes a list apart
            raise UnrolledError("a call is made of one array after the other")
        return self._row(handle, (handle.type, handle.scalar, handle.weak))

    def _row(self, example: object, kind: HandleKind) -> Varying:
        array = example if isinstance(example, (TracedArray, np.ndarray)) else None
        if kind[0].ndim > 1 and array is not None and layout_of(array):
            raise UnrolledError("arrays that differ from trip to trip are not in C order")
        self.row_kinds.append(kind)
        self.examples.append(example)
        return Varying(len(self.row_kinds) - 1)

    def _item(
        self, k: int, call: LoggedCall, references: Sequence[Reference], varying: Sequence[bool]
    ) -> TemplateCall:
        item = TemplateCall()
        item.fn, item.call = call.fn, call
        item.slots = [self._slot(r) for r in references]
        item.values = self._values(call, varying)
        item.made, item.outs, item.only_out = self.made[k], [], -1
        item.origins, item.inner, item.outs_of_earlier_trips = call.origins, None, []
        item.fixed = [v.value for v in item.values if isinstance(v, Fixed)]
        item.varies = len(item.fixed) < len(item.values)
        if item.varies or any(isinstance(s, Varying) for s in item.slots):
            item.fixed = None
        if call.inside:
            self._loop_item(item, k)
            return item
        for n, origin in enumerate(call.origins):
            slot = self.made[k][n] if origin < 0 else item.slots[origin]
            if isinstance(slot, Varying):
                raise UnrolledError("a call gives back what varies from trip to trip")
            item.outs.append(slot)
        item.views = [bool(bases) for bases in call.bases]
        item.quick = quick_checks(item, call)
        item.has_immutable_arguments = (
            item.quick is not None and {way for way, _, _ in item.quick} <= LASTING
        )
        item.returned_argument = -1 if call.result[:3] == _NONE else None
        if call.result[0] == "given" and isinstance(call.result[1][0], int):
            item.returned_argument = call.result[1][0]
        single = call.result[0] == "new" and call.result[1] is HANDLE and call.origins == [-1]
        single = single and not isinstance(self.kinds[item.outs[0]][0], MaskedType)
        item.only_out = item.outs[0] if single else -1
        if item.only_out >= 0:
            item.kind = self.kinds[item.only_out]
        return item

    def _values(self, call: LoggedCall, varying: Sequence[bool]) -> list[Fixed | Varying | Shifted]:
        """Where the values of a call come from."""
        values: list[Fixed | Varying | Shifted] = []
        starts = starts_of_windows(call.shape[0]) if call.fn in entries else {}
        for j, (value, varies) in enumerate(zip(call.values, varying, strict=True)):
            start = values[starts[j]] if j in starts else None
            if varies and isinstance(start, Varying):
                values.append(Shifted(start.row, value - call.values[starts[j]]))
            else:
                values.append(self._row(value, _number_kind(value)) if varies else Fixed(value))
        return values

    def _loop_item(self, item: TemplateCall, k: int) -> None:
        """Set up an inner loop as an item, with the outs of its last and of earlier trips."""
        item.inner, item.quick, item.returned_argument, item.has_immutable_arguments = (
            item.fn,
            None,
            None,
            False,
        )
        width, slots = len(item.call.outs), self.made[k]
        assert isinstance(slots, dict)
        item.outs = [*slots.values()]
        more = [(n - width, slot) for n, slot in slots.items() if n >= width]
        item.outs_of_earlier_trips = [(n // width, n % width, slot) for n, slot in more]
        item.origins, item.views = [-1] * len(item.outs), [False] * len(item.outs)

    def _stored_into(self) -> list[int]:
        """The invariants that are stored into."""
        places: set[int] = set()
        for path in self.paths:
            outs = [
                pair for call in path.calls for pair in zip(call.outs, call.origins, strict=True)
            ]
            of_this_trip = {id(h) for h, origin in outs if origin < 0}
            roots = {id(root) for call in path.calls for root in call.writes}
            for root in roots - of_this_trip:
                if root in self._carried:
                    self._store_later(*self._carried[root])
                elif root in self._places:
                    places.add(self._places[root])
                else:
                    raise UnrolledError(
                        "an array of an earlier iteration is stored into, or a view that it took"
                    )
        roots = {id(self.invariants[k]) for k in places}
        roots |= {
            h for h, (_, k, n) in self._carried.items() if self.made[k][n] in self.stored_later
        }
        for k in places:
            if isinstance(outside(self.invariants[k]), CapturedLink):
                raise UnrolledError("an array from outside of the function is stored into")
        for k, h in enumerate(self.invariants):
            root = root_of(h)
            if root is not h and self._places.get(id(root)) in places and (views := views_to(h)):
                self.views[k] = self._places[id(root)], views[1]
        kept = places | self.views.keys()
        read = [h for k, h in enumerate(self.invariants) if k not in kept]
        read += [row for row in self.examples if isinstance(row, TracedArray)]
        if any(id(root_of(h)) in roots for h in read):
            raise UnrolledError(
                "a view that was taken before the loop reads an array that is stored into"
            )
        return sorted(places)

    def _store_later(self, lag: int, call: int, out: int) -> None:
        """Note that what a call made is stored into in a later trip."""
        before = self.stored_later.setdefault(self.made[call][out], [])
        before += [self.carries[n, call, out] for n in range(len(before) + 1, lag + 1)]

    @property
    def stored(self) -> list[int]:
        """The slots of what is stored into and was there before the trip: invariants, carries."""
        return [*self.mutated, *(slot for slots in self.stored_later.values() for slot in slots)]


def _kind(call: LoggedCall, out: int) -> HandleKind:
    kind: HandleKind | None = call.kind(out)
    return call.types[out] if kind is None else kind  # a call may give one of its arguments


def _number_kind(value: object) -> HandleKind:
    """The kind of the traced value that stands for a number or an array in the body."""
    type_ = row_type(value)
    return type_, not type_.shape and not hasattr(value, "flags"), value.__class__ is float

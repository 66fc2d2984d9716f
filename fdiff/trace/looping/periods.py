"""Where handles and values of a period come from, by comparison: docs/decisions/plain-loops.md."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

from ...arraytype import ArrayType
from ...named_tuples import NamedTuple
from ...user_lines import Line, is_internal
from ..array_links import root_of
from ..masked_parts import MaskedPart
from ..traced_array import TracedArray
from .code_loops import loops_around
from .logged_calls import LoggedCall, may_vary, same

if TYPE_CHECKING:
    from .loop_template import LoopTemplate

PERIODS = 2  # equal to the one before, before checking begins
EARLIER = 2  # periods before these two, whose values may tell that one varies
INDEPENDENT = 5  # times as many calls has a loop that is a node where no trip waits for another

INVARIANT, MADE, ROW = 0, 1, 2
Slots = Sequence[int] | Mapping[int, int]  # by number of an out: the slot for what a call makes
Place = tuple[tuple[CodeType, int], ...]
# (INVARIANT, handle): the very same one; (MADE, lag, k, out): what call `k` made so many periods
# before; (ROW, handle): another one of the same type each time.
Reference = tuple[Any, ...]
HandleKind = tuple[ArrayType, bool, bool]  # its type, and whether it is scalar and weak
# How an argument is compared (`trip_checks.py`): how, with what, and its class or bound.
QuickCheck = tuple[int, Any, Any]


class Period(NamedTuple):
    """For each call, where its handles come from, and which of its values vary."""

    references: list[list[Reference]]
    varying: list[list[bool]]


class Fixed(NamedTuple):
    """A value that is the same in each trip."""

    value: object


class Varying(NamedTuple):
    """A value, or a handle from outside, that is an entry of a row."""

    row: int


class Shifted(NamedTuple):
    """The end of a window such as ``x[k:k + 3]``: an entry of a row, and the width."""

    row: int
    by: int


@dataclass(init=False, repr=False, eq=False, slots=True)
class TemplateCall:
    """An item of a template: a call, or a loop inside, which stands for its calls."""

    fn: Any  # what is called; of a loop, its template
    call: LoggedCall  # the call as it was logged
    slots: list[int | Varying]  # of its handles, or the rows that the handles come from
    values: list[Fixed | Varying | Shifted]
    fixed: list[object] | None  # the values where nothing varies
    varies: bool  # whether one of the values does
    quick: list[QuickCheck] | None  # how arguments are compared by position; None if in full
    has_immutable_arguments: bool
    made: Slots
    origins: list[int]
    outs: list[int]  # the slots of its outs; for an out that is an argument, the argument's slot
    views: list[bool]  # which of its outs are views
    only_out: int  # the slot of the only out, else -1
    kind: HandleKind  # of the only out
    returned_argument: int | None  # the argument that is the result, -1 for None, else None
    inner: LoopTemplate | None  # of a loop
    child: int  # the slot for the frame of a loop that was run
    outs_of_earlier_trips: list[tuple[int, int, int]]  # of a loop: the trip, the place, the slot


def period_of(
    calls: Sequence[LoggedCall],
    before: Sequence[LoggedCall],
    first: int,
    makers: Mapping[int, tuple[int, int, TracedArray]],
    varying: set[tuple[object, int, int]],
    earlier: Sequence[Sequence[LoggedCall]] = (),
) -> Period | None:
    """The period that the last calls are, the first of which has number `first`; None if none.

    `varying` are values known to vary from earlier trips, by the key of the first call; values of
    `earlier` periods tell of more, such as ``k // 2``, where rows of inner loops are written alike.
    """
    p, key = len(calls), calls[0].key
    references, vary = [], []
    for k, (old, new) in enumerate(zip(before, calls, strict=True)):
        if (old.result, old.origins, old.types) != (new.result, new.origins, new.types):
            return None
        if len(old.writes) != len(new.writes):
            return None
        pairs = zip(old.handles, new.handles, strict=True)
        pair_references = [_reference(a, b, p, first, makers) for a, b in pairs]
        if None in pair_references or _stores_into_rows(new, pair_references):
            return None
        flags = []
        alike = [period[k].values for period in earlier if period[k].result == new.result]
        for j, (a, b) in enumerate(zip(old.values, new.values, strict=True)):
            equal = same(a, b) and (key, k, j) not in varying
            equal = equal and not any(_varies(values[j], b) for values in alike)
            if not equal and not may_vary(a, b):
                return None
            flags.append(not equal)
        references.append(pair_references)
        vary.append(flags)
    return Period(references, vary)


def periods_before(
    calls: Mapping[int, LoggedCall], p: int, first: int, equal: int
) -> list[list[LoggedCall]]:
    """The `equal` periods before the one that begins with a call, or some; the last one first."""
    starts = [first - n * p for n in range(1, min(equal, 1 + EARLIER) + 1)]
    return [[calls[at + k] for k in range(p)] for at in starts]


def _varies(earlier: object, value: object) -> bool:
    return may_vary(earlier, value) and not same(earlier, value)


def _stores_into_rows(call: LoggedCall, references: Sequence[Reference | None]) -> bool:
    """Whether a call stores into an array that is another one in each period."""
    rows = [r[1] for r in references if r is not None and r[0] == ROW]
    return any(root_of(h) is w for h in rows for w in call.writes)


def _reference(
    a: TracedArray,
    b: TracedArray,
    p: int,
    first: int,
    makers: Mapping[int, tuple[int, int, TracedArray]],
) -> Reference | None:
    """Where a handle comes from, given the one a period before."""
    if a is b:
        return INVARIANT, b
    old, new = makers.get(id(a)), makers.get(id(b))
    if old is not None and new is not None and (new[0] - old[0], new[1]) == (p, old[1]):
        lag = 0 if new[0] >= first else -(-(first - new[0]) // p)
        return MADE, lag, new[0] - first + lag * p, new[1]
    if isinstance(b, MaskedPart):
        return None
    alike = (a.type, a.scalar, a.weak) == (b.type, b.scalar, b.weak)
    before = all(maker is None or maker[0] < first - p for maker in (old, new))
    if before and alike and a.home is b.home:
        return ROW, b
    return None


def user_place() -> tuple[tuple[CodeType, int], ...]:
    """The instructions under way in the user's frames, the innermost first."""
    frame, place = sys._getframe(2), []
    while frame is not None:
        code = frame.f_code
        if not is_internal(code.co_filename):
            place.append((code, frame.f_lasti))
        elif place:
            break
        frame = frame.f_back
    return tuple(place)


def is_nested(calls: Iterable[LoggedCall]) -> bool:
    """Whether more than one loop stands around each of the calls."""
    return all(sum(len(loops_around(*at)) for at in c.place) > 1 + c.inside for c in calls)


def loop_of(call: LoggedCall) -> Line | None:
    """Where the innermost loop around a call begins; its place if there is none."""
    inside = call.inside
    for code, at in call.place:
        starts = sorted(loops_around(code, at), reverse=True)
        if len(starts) > inside:
            return code, starts[inside]
        inside -= len(starts)
    return call.place[0] if call.place else None

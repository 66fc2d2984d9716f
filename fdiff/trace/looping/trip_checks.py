"""Whether a call is the one that a template has next: docs/decisions/plain-loops.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ...foreign_errors import not_foreign
from ..array_links import ViewLink
from ..local_arrays import TracedLocalArray
from ..masked_parts import MaskedPart
from ..node_strides import memory_layout
from ..recorder import Handle, Recorder
from ..traced_array import TracedArray
from .call_gates import by_position, entries
from .late_handles import LateView
from .logged_calls import (
    HANDLE,
    LOCAL,
    IncomparableError,
    LoggedCall,
    Structure,
    arguments_of,
    leaves,
    rebuilt,
    same,
    structure,
)
from .periods import Fixed, QuickCheck, Shifted, TemplateCall, Varying

if TYPE_CHECKING:
    from .checked_trips import Frame

# How an argument is compared without being taken apart.
SLOT, FIXED, FLOAT_ROW, INT_ROW, SLICE, KEY, LOCAL_SLOT, ARRAY, PARTS = range(9)
_KEYS = (SLICE, KEY)
LASTING = frozenset((SLOT, FIXED, FLOAT_ROW, INT_ROW, SLICE, KEY))  # arguments that none changes


def agrees(quick: Sequence[QuickCheck], args: Sequence[Any], slots: Sequence[object]) -> bool:
    """Whether arguments agree with an item, compared without being taken apart."""
    for a, (way, value, kind) in zip(args, quick):  # noqa: B905 - of one length
        if way == SLOT:
            if a is not slots[value] or a is None:  # an empty slot is no argument
                return False
        elif way == FIXED:
            if a.__class__ is not kind or a != value:
                return False
        elif way in _KEYS:
            if a is not value and not _is_key(a, value):
                return False
        elif way == FLOAT_ROW:
            if a.__class__ is not float:
                return False
        elif way == ARRAY:
            if a.__class__ is not kind or not _is_array(a, *value):
                return False
        elif way == PARTS:
            if a.__class__ is not kind or len(a) != len(value) or not agrees(value, a, slots):
                return False
        elif way == LOCAL_SLOT:
            if a.__class__ is not TracedLocalArray or a.handle is not slots[value]:
                return False
        elif a.__class__ is not int or not -kind <= a < kind:
            return False
    return True


def _is_key(a: Any, b: Any) -> bool:
    """Whether a key of integers and slices is another one, of the same classes."""
    kind = a.__class__
    if kind is not b.__class__:
        return False
    if kind is tuple:
        return len(a) == len(b) and all(map(_is_key, a, b))
    if kind is slice:
        return _is_key(a.start, b.start) and _is_key(a.stop, b.stop) and _is_key(a.step, b.step)
    return a == b


def _is_array(a: Any, value: Any, content: bytes, strides: set[tuple[int, ...]]) -> bool:
    """Whether an array, or a NumPy number, has the type, the content and the order of another.

    `strides` are the strides of arrays with that order.
    """
    if a.dtype is value.dtype and a.strides in strides and a.shape == value.shape:
        return bool(a.tobytes() == content)
    values: list[object] = []
    try:
        structure(a, [], values)
    except IncomparableError:
        return False
    if not same(values[0], value):
        return False
    strides.add(a.strides)
    return True


def quick_checks(item: TemplateCall, call: LoggedCall) -> list[QuickCheck] | None:
    """How the arguments by position are compared without being taken apart, where that can be."""
    positional, names = call.shape[:2]
    if names:
        return None
    return _quick_parts(item, call, positional[1:], iter(item.slots), iter(item.values))


def _quick_parts(
    item: TemplateCall,
    call: LoggedCall,
    parts: Sequence[Structure],
    slots: Iterator[int | Varying],
    values: Iterator[Fixed | Varying | Shifted],
) -> list[QuickCheck] | None:
    quick: list[QuickCheck] = []
    for k, part in enumerate(parts):
        if part is HANDLE or part is LOCAL:
            slot = next(slots)
            if isinstance(slot, Varying):
                return None
            quick.append((SLOT if part is HANDLE else LOCAL_SLOT, slot, None))
        elif part.__class__ is tuple and part[0] is not slice and {*leaves(part)} == {HANDLE}:
            inner = _quick_parts(item, call, part[1:], slots, values)
            if inner is None:
                return None
            quick.append((PARTS, inner, part[0]))
        elif part.__class__ is tuple:
            if set(leaves(part)) - {int, NoneType} or part[0] is list or k != 1:
                return None
            ends = [next(values) for _ in leaves(part)]
            fixed = [end.value for end in ends if isinstance(end, Fixed)]
            if len(fixed) < len(ends):
                return None
            key, is_slice = rebuilt(part, iter(()), iter(fixed)), part[0] is slice
            quick.append((SLICE, key, part[1:]) if is_slice else (KEY, key, None))
        else:
            check = _quick_value(item, call, part, next(values))
            if check is None:
                return None
            quick.append(check)
    return quick


def _quick_value(
    item: TemplateCall, call: LoggedCall, part: Structure, value: Fixed | Varying | Shifted
) -> QuickCheck | None:
    """How a number is compared without being taken apart, where that can be."""
    if isinstance(value, Varying):
        if part is float and item.fn not in entries:
            return FLOAT_ROW, value.row, None
        if part is not int or not call.handles or item.fn in by_position:
            return None
        shape = call.handles[0].shape
        if item.fn in entries:  # a key: it must not leave the array
            return (INT_ROW, value.row, shape[0]) if shape and call.shape[0][2] is int else None
        return INT_ROW, value.row, 2**63
    if isinstance(value, Shifted):
        return None
    if part in (int, str, bool, NoneType) or (part is float and value.value):
        return FIXED, value.value, part
    if isinstance(value.value, (np.ndarray, np.generic)):
        return ARRAY, (value.value, value.value.tobytes(), set()), part
    return None


def become(handle: Handle, real: Handle) -> None:
    """Let a handle without a node stand for what another one does."""
    if handle.__class__ is not real.__class__:  # a part by a mask that has been looked at
        handle.__class__, handle.type = real.__class__, real.type
    handle.link, handle.node, handle.made = real.link, real.node, real.made


def belongs(handle: TracedArray, trace: Recorder) -> bool:
    """Whether a handle was made in a trace, or in one around it."""
    return handle.home is trace or (handle.home.builder is not trace.builder and handle.home.alive)


def looks_at(handle: TracedArray, stored: set[int]) -> bool:
    """Whether a handle is one of others, or may be a view of one."""
    while isinstance(handle.link, ViewLink):
        handle = handle.link.parent
    return id(handle) in stored or isinstance(handle.link, LateView)


def is_sound(frame: Frame) -> bool:
    """Whether no slot of a frame that is filled looks at what is stored into."""
    template, rows = frame.template, frame.rows
    handles = frame.slots[: template.first_made]
    there = [k for k in template.stored if handles[k] is not None]
    stored = {id(handles[k]) for k in there}
    if len(stored) < len(there):
        return False
    replayed = {*template.stored, *template.views}
    others = [h for k, h in enumerate(handles) if k not in replayed and h is not None]
    others += [h for row in rows for h in row if isinstance(h, TracedArray)]
    return not stored or not any(looks_at(h, stored) for h in others)


def may_be_entry(handle: TracedArray, frame: Frame, row: int) -> bool:
    """Whether a handle from outside can be an entry of a row, which is read as the loop ends.

    It must not be a view of what is stored into until then.
    """
    template = frame.template
    if (
        isinstance(handle, MaskedPart)
        or (handle.type, handle.scalar, handle.weak) != template.row_kinds[row]
    ):
        return False
    stored = {*map(id, frame.stored())}
    if not belongs(handle, frame.trace) or (stored and looks_at(handle, stored)):
        return False
    return handle.type.ndim < 2 or not layout_of(handle)


def names_the_same(handle: TracedArray, there: TracedArray) -> bool:
    """Whether another handle names the same node, which no store can change."""
    return (
        handle.link is None is there.link
        and handle.home is there.home
        and handle.node == there.node
        and (handle.scalar, handle.weak) == (there.scalar, there.weak)
    )


def is_storable(value: object) -> bool:
    """Whether a number can be an entry of an array."""
    return type(value) is not int or -(2**63) <= value < 2**63


def is_inside(item: TemplateCall, values: Sequence[object]) -> bool:
    """Whether a key whose numbers vary picks what the key of the template did, from the front.

    NumPy is asked on an array of the same shape whose memory is never touched. So it is where
    positions are given to a function.
    """
    if item.fn not in entries:
        return item.fn not in by_position or _picks(item, values)
    args, _ = arguments_of(item.call.shape, iter(item.call.handles), iter(values))
    shape, key = args[0].shape, args[1]
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) <= len(shape) and all(
        k.__class__ is int and -n <= k < n for k, n in zip(parts, shape, strict=False)
    ):
        return True
    old, _ = arguments_of(item.call.shape, iter(item.call.handles), iter(item.call.values))
    for part, n in zip(parts, (*shape, *shape), strict=False):
        if isinstance(part, slice) and not (
            0 <= (part.start or 0) <= n and 0 <= (n if part.stop is None else part.stop) <= n
        ):
            return False
        if isinstance(part, TracedArray):
            return False
    dummy = np.broadcast_to(np.zeros(()), shape)
    try:
        return np.shape(dummy[key]) == np.shape(dummy[old[1]])
    except not_foreign(IndexError):
        return False


def _picks(item: TemplateCall, values: Sequence[object]) -> bool:
    """Whether NumPy would take the positions that a function is given."""
    arrays = [np.broadcast_to(np.zeros((), h.dtype), h.shape) for h in item.call.handles]
    args, named = arguments_of(item.call.shape, iter(arrays), iter(values))
    try:
        by_position[item.fn](*args, **named)
    except not_foreign(IndexError, TypeError, ValueError):
        return False
    return True


def layout_of(entry: TracedArray | np.ndarray) -> tuple[int, ...]:
    """How an entry of a row lies in memory; () for C order."""
    return memory_layout(entry.example() if isinstance(entry, TracedArray) else entry)

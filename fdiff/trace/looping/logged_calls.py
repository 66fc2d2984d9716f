"""Calls taken apart: the handles in the arguments, the other values, and the structure of all.

Two calls are equal if they have one structure, the same handles by identity, and equal other
values: of one class, and of the same bits (``-0.0`` is not ``0.0``, ``True`` is not ``1``). Why
values are compared by class and bits: docs/decisions/plain-loops.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...generated_text import Namespace
from ...hooks import Args, Named
from ..array_links import ViewLink, is_copy, root_of
from ..local_arrays import LocalArray, TracedLocalArray
from ..masked_parts import MaskedPart, kind_of
from ..node_strides import memory_layout
from ..shared_memory import constant
from ..traced_array import TracedArray

HANDLE, LOCAL = 0, 1  # in a structure: a traced array, a local array that became traced
Arguments = tuple[Args, Named]  # by position, and by name
MOST_BYTES = 1 << 20  # of an array that is compared at each call

_NUMBERS = (int, float)
_FIXED = (
    bool, complex, str, bytes, type(None), type(...), type(NotImplemented), type, np.dtype,
    np.ufunc,
)  # fmt: skip
Structure = Any  # HANDLE, LOCAL, the class of a value, or a tuple of a container and its parts


class IncomparableError(Exception):
    """An argument or a result whose content cannot be compared."""


def structure(x: object, handles: list[TracedArray], values: list[object]) -> Structure:
    """The structure of an argument, whose handles and other values are taken out in order."""
    kind = x.__class__
    if type(x) is TracedArray or type(x) is MaskedPart:
        handles.append(x)
        return HANDLE
    if kind is int or kind is float:
        values.append(x)
        return kind
    if type(x) is tuple or type(x) is list:
        return (kind, *[structure(part, handles, values) for part in x])
    if type(x) is slice:
        return (kind, *[structure(e, handles, values) for e in (x.start, x.stop, x.step)])
    if type(x) is TracedLocalArray:
        handles.append(x.handle)
        return LOCAL
    values.append(_value(x))
    return kind


def _value(x: object) -> object:
    """A value that can be compared later: of an array, which may be changed, a copy."""
    if type(x) is np.ndarray or type(x) is LocalArray:
        return _copy_of(x)
    if not isinstance(x, (*_FIXED, np.generic)) and type(x) is not type(np.sum):
        raise IncomparableError
    return x


def _copy_of(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biufc" or array.nbytes > MOST_BYTES:
        raise IncomparableError
    return np.array(array).view(np.ndarray)


def rebuilt(shape: Structure, handles: Iterator[object], values: Iterator[object]) -> Any:
    """Rebuild arguments from their structure, handles and other values."""
    if shape is HANDLE or shape is LOCAL:
        return next(handles)
    if shape.__class__ is not tuple:
        return next(values)
    kind, *parts = shape
    items = [rebuilt(part, handles, values) for part in parts]
    return slice(*items) if kind is slice else kind(items)


def same(a: object, b: object) -> bool:
    """Whether two values are of one class, and have the same bits; arrays in the same order."""
    if a.__class__ is not b.__class__:
        return False
    if isinstance(a, (np.ndarray, np.generic)):
        return may_vary(a, b) and a.tobytes() == np.asarray(b).tobytes()
    if isinstance(a, (float, complex)):
        return np.array(a).tobytes() == np.array(b).tobytes()  # also signs of NaN
    return a is b or bool(a == b)


def may_vary(a: object, b: object) -> bool:
    """Whether a value may differ from trip to trip: numbers, and arrays of one type."""
    kind = a.__class__
    if kind is not b.__class__:
        return False
    if isinstance(a, (np.ndarray, np.generic)):
        x, y = np.asarray(a), np.asarray(b)
        alike = x.shape == y.shape and x.dtype == y.dtype
        return alike and (x.ndim < 2 or memory_layout(x) == memory_layout(y))
    return kind in _NUMBERS


def row_type(value: object) -> ArrayType:
    """The type of a row's entry that holds a value."""
    array = np.asarray(value)
    return ArrayType(array.shape, array.dtype.newbyteorder("="))


class LocalResult:
    """A local array that a call makes anew, of the same content each time: ``np.zeros_like(x)``."""

    __slots__ = ("array",)

    def __init__(self, array: LocalArray) -> None:
        self.array = _copy_of(array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalResult) and same(self.array, other.array)

    __hash__ = None  # type: ignore[assignment] - it is only compared

    def again(self) -> LocalArray:
        return self.array.copy(order="K").view(LocalArray)


class LoggedCall:
    """One call of the user's code on traced arrays, and what it gave.

    `handles` and `values` were taken out of the arguments, which had `shape`. `outs` are the
    handles in the result: `origins` tells of each which of `handles` it is, or -1 for a new one.
    `result` is the structure of the result with its other values; or where among the arguments it
    stands, if it is one of them; or a local array. `writes` are the arrays that were stored into,
    `before` their nodes until then by id (-1 if entries waited to be stored), `bases` what each of
    the outs is a view of, the nearest first.
    """

    __slots__ = (
        "bases", "before", "fn", "handles", "key", "number", "order", "origins", "outs", "place",
        "result", "shape", "types", "values", "writes",
    )  # fmt: skip

    inside, size = 0, 1  # how many loops it is, one within the other, and of how many calls
    fn: Any
    key: object
    number: int  # in the log
    place: tuple[tuple[CodeType, int], ...]
    order: tuple[int, ...]
    shape: Structure
    handles: list[TracedArray]
    values: list[Any]
    outs: list[TracedArray]
    origins: list[int]
    types: list[tuple[ArrayType, bool, bool]]
    result: tuple[Any, ...]
    writes: list[TracedArray]
    before: Mapping[int, int]
    bases: list[list[TracedArray]]

    def stand_at(self, place: tuple[tuple[CodeType, int], ...]) -> None:
        """Enter the instructions under way in the user's frames, the innermost first.

        By their `order`, calls of one iteration come one after the other.
        """
        self.place = place
        self.order = tuple([at for _, at in reversed(place)])

    def kind(self, out: int) -> tuple[ArrayType, bool, bool] | None:
        """The kind of a new handle that the call gave; None if it gave no such."""
        return self.types[out] if out < len(self.outs) and self.origins[out] < 0 else None

    def out(self, out: int) -> TracedArray | None:
        """A new handle that the call gave; None if it gave no such."""
        return None if self.kind(out) is None else self.outs[out]

    def held(self) -> Sequence[TracedArray]:
        """The handles that the log remembers by this call."""
        return self.outs


def note_result(call: LoggedCall, out: object, args: Args, named: Mapping[str, object]) -> None:
    """Enter in a call what it gave; IncomparableError where that cannot be compared."""
    call.outs, values = [], []
    where = place_of(out, args, named) if isinstance(out, (TracedArray, np.ndarray)) else ()
    if where:
        call.result = "given", where
    elif type(out) is LocalArray and out.flags.writeable:
        call.result = "local", LocalResult(out)
    else:
        shape = structure(out, call.outs, values)
        concrete = any(isinstance(v, (np.ndarray, np.generic)) for v in values)
        if concrete or LOCAL in leaves(shape):
            raise IncomparableError
        call.result = "new", shape, tuple(values), tuple(map(type, values))
    ids = {id(h): k for k, h in enumerate(call.handles)}
    call.origins = [ids.get(id(h), -1) for h in call.outs]
    call.types = [*map(kind_of, call.outs)]
    call.bases = [bases_of(h) for h in call.outs]
    if any(b is h for bases in call.bases for b in bases for h in call.outs):
        raise IncomparableError


def references(call: LoggedCall) -> list[int]:
    """How many references there are to each handle that a call gave.

    Counted in C: how many bytecode holds meanwhile depends on the version of Python.
    """
    return [*map(sys.getrefcount, call.outs)]


def leaves(shape: Structure) -> list[object]:
    """The leaves of a structure."""
    if shape.__class__ is not tuple:
        return [shape]
    return [leaf for part in shape[1:] for leaf in leaves(part)]


def starts_of_windows(shape: Structure) -> dict[int, int]:
    """Of slices from one integer to another, the places among the values: by end, the start."""
    starts: dict[int, int] = {}
    _enter_starts(shape, 0, starts)
    return starts


def _enter_starts(part: Structure, count: int, starts: dict[int, int]) -> int:
    """Enter the windows of a part after `count` values; the number of values with the part."""
    if part.__class__ is not tuple:
        return count + (part is not HANDLE and part is not LOCAL)
    if part[0] is slice and part[1] is int and part[2] is int:
        starts[count + 1] = count
    for each in part[1:]:
        count = _enter_starts(each, count, starts)
    return count


def bases_of(handle: TracedArray) -> list[TracedArray]:
    """The bases of a handle, the nearest first."""
    bases = []
    while isinstance(handle.link, ViewLink) and not is_copy(handle):
        handle = handle.link.parent
        bases.append(handle)
    return bases


def written(writes: Sequence[TracedArray], handles: Sequence[TracedArray]) -> list[TracedArray]:
    """The arrays stored into that a call was given, or views of which it was given."""
    if not writes:
        return []
    ids = {id(root_of(h)) for h in handles}
    return [w for w in {id(w): w for w in writes}.values() if id(w) in ids]


def memory_of(call: LoggedCall, slot_of: Mapping[int, object]) -> object:
    """The slots of arrays that a call stores into, and the slots of the bases of its outs."""
    bases = [
        next((slot_of[id(b)] for b in call_bases if id(b) in slot_of), -1)
        for call_bases in call.bases
    ]
    return [slot_of.get(id(w), -1) for w in call.writes], bases, [bool(b) for b in call.bases]


def content(x: TracedArray | np.ndarray) -> TracedArray:
    """A new traced array of the content of an array, or of a traced one."""
    return TracedArray(x.home, x.id, x.type) if isinstance(x, TracedArray) else constant(x)


def arguments_of(
    shape: Structure, handles: Iterator[object], values: Iterator[object]
) -> tuple[list[Any], Namespace]:
    """The arguments by position and by name that have a structure, as `taken_apart` gives it."""
    positional, names, *named = shape
    args = rebuilt(positional, handles, values)
    return args, {n: rebuilt(s, handles, values) for n, s in zip(names, named, strict=True)}


def taken_apart(
    args: tuple[object, ...],
    named: Mapping[str, object],
    handles: list[TracedArray],
    values: list[object],
) -> Structure:
    """The structure of the arguments of a call."""
    positional = (list, *[structure(a, handles, values) for a in args])
    if not named:
        return positional, ()
    parts = [structure(a, handles, values) for a in named.values()]
    return (positional, (*named,), *parts)


def place_of(out: object, args: Args, named: Mapping[str, object]) -> tuple[int | str, ...]:
    """Where a result stands among the arguments; () if it is none of them."""
    for k, a in enumerate(args):
        if out is a:
            return (k,)
    for name, a in named.items():
        if out is a:
            return (name,)
        if name == "out" and type(a) is tuple:
            for k, part in enumerate(a):
                if out is part:
                    return name, k
    return ()


def at_place(place: tuple[Any, ...], args: Args, named: Mapping[str, Any]) -> object:
    """The argument at a place."""
    if isinstance(place[0], int):
        return args[place[0]]
    return named[place[0]] if len(place) == 1 else named[place[0]][place[1]]


def calls_back(args: Args, named: Mapping[str, object]) -> bool:
    """Whether a function that may be called is among the arguments."""
    harmless = (type, np.ufunc, np.ndarray)
    return any(callable(a) and not isinstance(a, harmless) for a in (*args, *named.values()))

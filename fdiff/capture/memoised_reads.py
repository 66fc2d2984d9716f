"""Hand-written memoisation: what a run has read in places where `f` may keep computed values.

Such a place outlives the run, and code of the run stores into it.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType, FunctionType
from typing import cast

import fdiff.intact_numpy as np

from .conditions import identifier, is_data, is_of_numpy, origins, with_functions
from .memoised_values import (
    ITEM,
    MemoisedValue,
    code_of,
    fits_within,
    names_in,
    parts_of,
    stored_again,
    stored_names,
)
from .proxy_context import label
from .symbolic_numbers import SymbolicNumber
from .user_objects import UserObjects
from .writes import Places

_ITEMS = {ITEM}
_MOST_METHODS = 64
_ROOT = "watched_run"  # the function that calls the private copy, in `fdiff.dispatch`
_WITHOUT_ITEMS = (tuple, str, int, float, complex, np.generic)  # that code could store


def _as_it_is(value: object) -> object:
    return value


def _attributes(value: object) -> dict[str, object] | None:
    """The attributes of a function, or of an object of a library; None of what has none."""
    own = value if isinstance(value, dict) else getattr(value, "__dict__", None)
    return cast("dict[str, object]", own) if isinstance(own, dict) else None


def _methods(value: object) -> list[CodeType]:
    """The code of an object of a library, whose methods are not private."""
    members = [member for base in type(value).__mro__ for member in vars(base).values()]
    codes = [member.__code__ for member in members if isinstance(member, FunctionType)]
    return codes if len(codes) <= _MOST_METHODS else []


def _keys(place: str, items: dict[object, object]) -> Iterator[MemoisedValue]:
    """What lies in a dict, each by what its key holds."""
    for key in [*items]:
        value, now = dict.__getitem__(items, key), functools.partial(dict.get, items, key)
        for part in parts_of(key):
            if part is not key or not isinstance(key, str):
                yield MemoisedValue(f"{place}[{key!r}]", part, value, value, now)


class MemoisedReads:
    """What one run has read in places that the code of the run stores into.

    `codes` are the functions that run, `originals` the user's own objects behind proxies, by id.
    """

    def __init__(
        self,
        codes: list[CodeType],
        places: Places,
        user_objects: UserObjects,
        originals: dict[int, tuple[object, object]],
    ) -> None:
        self._codes = codes
        self._places = places
        self._user_objects = user_objects
        self._originals = originals
        self._looked_at = 0
        self._names: set[str] = set()

    def names(self) -> set[str]:
        """Names that the code stores into; `ITEM` if it stores items."""
        shared = self._places.shared
        if len(self._codes) + len(shared) != self._looked_at:
            self._looked_at = len(self._codes) + len(shared)
            spaces = [
                *self._user_objects.namespaces(),
                *(g.real for g in self._places.globals.values()),
            ]
            methods = [code for held, _ in shared for code in _methods(held)]
            self._names = stored_names([*self._codes, *methods], spaces)
        return self._names

    def rewritten(self) -> frozenset[str]:
        """Names that code of the run loads and stores, `ITEM` where it does so with items."""
        return frozenset().union(*[names_in(code).rewritten for code in self._codes])

    def appended(self) -> frozenset[str]:
        """Names of lists that code of the run appends to."""
        return frozenset().union(*[names_in(code).appended for code in self._codes])

    def some(self) -> bool:
        """Whether there may be any such place."""
        names = self.names() | self.appended()
        if not names:
            return False
        places = self._places
        held = (places.items, places.shared, places.arrays, places.lists, places.copies)
        return names != _ITEMS or any(held)

    def __iter__(self) -> Iterator[MemoisedValue]:
        names = self.names()
        for place, name, put, now in (*self._places.read(), *self._user_objects.read()):
            own = self._own(put)
            if name in names or (ITEM in names and isinstance(own, np.ndarray)):
                yield MemoisedValue(place, put, own, own, now)
        yield from self._inside()

    def _own(self, put: object) -> object:
        """The user's own value behind what the run found."""
        if isinstance(put, SymbolicNumber):
            return put.value
        return self._originals.get(id(put), (put,))[0]

    def _inside(self) -> Iterator[MemoisedValue]:
        """What lies in containers and objects that the code stores, or stores items of."""
        proxies = {id(real): proxy for real, proxy in self._originals.values()}
        for place, held, now in self._containers():
            if isinstance(held, dict):
                yield from _keys(place, cast("dict[object, object]", held))
            for part in parts_of(held):
                own = self._own(part)
                again = functools.partial(stored_again, now, own)
                yield MemoisedValue(place, proxies.get(id(own), part), own, own, again)

    def _containers(self) -> Iterator[tuple[str, object, Callable[[], object]]]:
        """Containers in such places: how the user names them, and what gives what is there now."""
        names, places = self.names() | self.appended(), self._places
        for place, name, put, now in (*places.read(), *self._user_objects.read()):
            own = self._own(put)
            if name in names or (ITEM in names and not isinstance(own, _WITHOUT_ITEMS)):
                yield place, own, now
        held = [(x.real, x.where) for x in (*places.lists, *places.copies)] + places.shared
        for value, where in held:
            if ITEM in names:
                yield label(where), value, functools.partial(_as_it_is, value)
            elif (own := _attributes(value)) is not None:
                for key in [*names & own.keys()]:
                    yield f"{label(where)}.{key}", own[key], functools.partial(own.get, key)

    def data(self) -> Iterator[tuple[str, CodeType | None]]:
        """Variables and attributes that the run has read; with the code of functions."""
        read = [
            (identifier(place) if name == ITEM else name, put)
            for place, name, put, _ in (*self._places.read(), *self._user_objects.read())
        ]
        for held, _ in self._places.shared:
            bases = [vars(base) for base in type(held).__mro__[:-1]]
            read += [item for space in (*bases, _attributes(held) or {}) for item in space.items()]
        for name, value in read:
            code = code_of(value)
            if code is not None or is_data(value):
                yield name, code

    def keys(self, fits: Callable[[object], bool]) -> Iterator[MemoisedValue]:
        """Items of dicts without a proxy whose key `fits`, or an item of whose key does."""
        for held, where in self._places.shared:
            if isinstance(held, dict):
                items = cast("dict[object, object]", held)
                for key in [k for k in dict.keys(items) if fits_within(k, fits)]:
                    value = dict.__getitem__(items, key)
                    if isinstance(held, defaultdict) and isinstance(value, list | dict | set):
                        continue  # a container for what belongs to a key, no result
                    now = functools.partial(dict.get, items, key)
                    yield MemoisedValue(label((where, key)), None, value, value, now)


def in_condition(
    places: list[MemoisedValue],
    array: np.ndarray,
    reads: Sequence[MemoisedReads],
    frame: FrameType,
) -> tuple[MemoisedValue | None, bool]:
    """The one of `places` from which the condition under way in `frame` has a constant.

    And where that is none, whether the constant is sure to come from elsewhere.
    """
    read = [each for one in reads for each in one.data()]
    functions = {name: code for name, code in read if code is not None}
    of = with_functions(origins(frame, _ROOT), functions)
    named = [place for place in places if identifier(place.name) in of.names]
    literal = array.size == 1 and array.item() in of.numbers
    if named:
        return (None if literal else named[0]), False
    data = {name for name, _ in read}
    return None, all(name in data or is_of_numpy(name) for name in of.outside)


def is_handle(handle: object, value: object) -> bool:
    """Whether a captured array stands for this value."""
    return value is handle or (isinstance(value, SymbolicNumber) and value.is_entered(handle))


def is_constant(array: np.ndarray, value: object) -> bool:
    """Whether a constant of the tape may be this value."""
    if isinstance(value, np.ndarray):
        return np.array_equal(value, array)
    value = value.value if isinstance(value, SymbolicNumber) else value
    number = isinstance(value, int | float | complex | np.generic)
    return number and array.size == 1 and bool(value == array.item())

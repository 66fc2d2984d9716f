"""Hand-written memoisation: what a run has read in places where `f` may keep computed values.

Such a place outlives the run, and code of the run stores into it.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import CodeType
from typing import cast

import fdiff.intact_numpy as np

from .memoised_values import ITEM, MemoisedValue, fits_within, names_in, stored_names
from .proxy_context import label
from .user_objects import UserObjects
from .writes import Places

_ITEMS = {ITEM}


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
        if len(self._codes) != self._looked_at:
            self._looked_at = len(self._codes)
            spaces = [
                *self._user_objects.namespaces(),
                *(g.real for g in self._places.globals.values()),
            ]
            self._names = stored_names(self._codes, spaces)
        return self._names

    def rewritten(self) -> frozenset[str]:
        """Names that code of the run loads and stores, `ITEM` where it does so with items."""
        return frozenset().union(*[names_in(code).rewritten for code in self._codes])

    def appended(self) -> frozenset[str]:
        """Names of lists that code of the run appends to."""
        return frozenset().union(*[names_in(code).appended for code in self._codes])

    def some(self) -> bool:
        """Whether there may be any such place."""
        names = self.names()
        if not names:
            return False
        places = self._places
        return names != _ITEMS or bool(places.items or places.shared or places.arrays)

    def __iter__(self) -> Iterator[MemoisedValue]:
        names = self.names()
        for place, name, put, now in (*self._places.read(), *self._user_objects.read()):
            own = self._originals.get(id(put), (put,))[0]
            if name in names or (ITEM in names and isinstance(own, np.ndarray)):
                value = own.copy() if isinstance(own, np.ndarray) else own
                yield MemoisedValue(place, put, own, value, now)

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

"""Caches of bounded size: dictionaries with one way to enter what is kept.

They are plain dictionaries, because reading a dictionary of a class of our own takes 50 ns more,
and some are read at every operation. None is an ``OrderedDict``: where threads share one whose keys
Python code compares, CPython 3.11 crashes (`tests/faults/test_shared_caches.py`). Loops go over a
copy, since other threads change them: `[*cache]`, `[*cache.values()]` or `cache.copy().items()`. A
list of `cache.items()` makes tuples, so a collection may begin, and change the cache meanwhile.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Generic, TypeVar
from weakref import ref

from .foreign_errors import Suppressed

K = TypeVar("K")
V = TypeVar("V")


def keep(cache: dict[K, V], key: K, value: V, most: int) -> V:
    """Enter a value, and return it; a cache of `most` entries forgets them all before.

    No account of reads is kept for this. What is in use is soon there again.
    """
    if len(cache) >= most and key not in cache:
        cache.clear()
    cache[key] = value
    return value


def keep_recent(cache: dict[K, V], key: K, value: V, most: int) -> V:
    """Enter a value as the latest, and return it; beyond `most` the oldest are forgotten."""
    cache.pop(key, None)
    cache[key] = value
    while len(cache) > most:
        if drop_oldest(cache) is None:  # after threads, CPython may count an entry that is gone
            cache.clear()
    return value


def drop_oldest(cache: dict[K, V]) -> K | None:
    """Forget the entry that was entered first, and return its key."""
    with Suppressed(StopIteration, RuntimeError):  # another thread may just have changed it
        key = next(iter(cache))
        cache.pop(key, None)
        return key
    return None


# When an object dies, no Python code is called: an exception that arrives in what is called then,
# such as KeyboardInterrupt, is lost. So keys are hashed by C, or where no signal handler runs
# (`Tape.__hash__`), and `pop` is all that takes them out.


class WeakValues(Generic[K, V]):
    """Values by number or address, for as long as something else keeps them alive."""

    def __init__(self) -> None:
        self._references: dict[K, ref[V]] = {}

    def get(self, key: K) -> V | None:
        """The value of a key, if it lives."""
        reference = self._references.get(key)
        return None if reference is None else reference()

    def __setitem__(self, key: K, value: V) -> None:
        self._references[key] = ref(value, partial(self._references.pop, key))

    def values(self) -> list[V]:
        """Those that live."""
        return [value for entry in [*self._references.values()] if (value := entry()) is not None]

    def clear(self) -> None:
        """Forget all."""
        self._references.clear()


class WeakKeys(Generic[K, V]):
    """Values by objects, whatever these are equal to, for as long as they live.

    Beyond `most` objects the oldest are forgotten.
    """

    def __init__(self, most: int = sys.maxsize) -> None:
        self._entries: dict[int, tuple[V, ref[K]]] = {}
        self._most = most

    def get(self, owner: K) -> V | None:
        """The value of an object."""
        entry = self._entries.get(id(owner))
        return None if entry is None else entry[0]

    def __setitem__(self, owner: K, value: V) -> None:
        key = id(owner)
        entry = value, ref(owner, partial(self._entries.pop, key))
        keep_recent(self._entries, key, entry, self._most)

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()

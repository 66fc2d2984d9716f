"""Caches of bounded size: dictionaries with one way to enter what is kept.

They are plain dictionaries, because reading those of a class of our own takes longer, by 50 ns, and
some are read at every operation.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import Generic, TypeVar
from weakref import ref

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


def keep_recent(cache: OrderedDict[K, V], key: K, value: V, most: int) -> V:
    """Enter a value, and return it; beyond `most` entries the oldest are forgotten."""
    cache[key] = value
    while len(cache) > most:
        with suppress(KeyError):  # another thread may just have cleared it
            cache.popitem(last=False)
    return value


class WeakValues(Generic[K, V]):
    """Values by key, for as long as something else keeps them alive.

    Unlike a `WeakValueDictionary` it is not told when a value dies, as an exception that arrives in
    what Python calls then, such as that of Ctrl-C, is lost. It forgets the dead as it grows.
    """

    def __init__(self) -> None:
        self._references: dict[K, ref[V]] = {}
        self._due = 4  # entries, at which the dead are forgotten

    def get(self, key: K) -> V | None:
        """The value of a key, if it lives."""
        reference = self._references.get(key)
        return None if reference is None else reference()

    def __setitem__(self, key: K, value: V) -> None:
        self._references[key] = ref(value)
        if len(self._references) >= self._due:
            for one, reference in [*self._references.items()]:
                if reference() is None:
                    self._references.pop(one, None)
            count = len(self._references)
            self._due = count + max(4, count // 4)

    def values(self) -> list[V]:
        """Those that live."""
        return [value for one in [*self._references.values()] if (value := one()) is not None]

    def clear(self) -> None:
        """Forget all."""
        self._references.clear()

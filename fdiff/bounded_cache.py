"""Caches of bounded size: dictionaries with one way to enter what is kept.

They are plain dictionaries, because reading those of a class of our own takes longer, by 50 ns, and
some are read at every operation.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import TypeVar

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

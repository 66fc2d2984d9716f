"""The addresses of a dict's entries, which let the entry stub compare an entry without a call.

A dict with a table of its own keeps a pointer to its keys (``ma_keys``). The table of indices and
then the entries, in the order of insertion, follow the head of the keys: for dicts of names, key
and value (Objects/dictobject.c, ``PyDictKeysObject``; the same from Python 3.11 to 3.14). An entry
does not move as long as the dict has these keys; growth makes new keys. `entry_of` reads only
memory that the heads describe, and `readable` tries all of it before the first use.
"""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache

import fdiff.intact_numpy as np

from ....foreign_errors import not_foreign
from ....named_tuples import NamedTuple
from .interpreter_abi import HEAD, WORD

KEYS, _VALUES = HEAD + 2, HEAD + 3  # words of a dict: its keys, and its values if they lie apart
KIND, KIND_MASK = 2, 0xFFFFFF  # the half word of the keys that tells their kind and their length
# Of the head of keys, in bytes: logarithm of the length of the indices, kind, entries, length.
_INDICES, _KIND, _COUNT, _LENGTH = 9, 10, 24, 32
_TEXTS = 1  # the kind of keys that are texts


class DictEntry(NamedTuple):
    """The keys of a dict, words for their length and kind, and the address of an entry."""

    keys: int
    kind: int
    address: int


def entry_of(mapping: dict[str, object], key: int, value: int) -> DictEntry | None:
    """The entry of a dict whose key and value are the objects at these addresses; None without."""
    return _entry(mapping, key, value) if readable() else None


@lru_cache(maxsize=1)
def readable() -> bool:
    """Whether entries lie where they are taken to be: tried on dicts that grow, change and end."""
    try:
        if not _grows_as_keys_do():
            return False
        kinds = [_found_again(count) for count in (1, 7, 300)]
        return all(kinds) and len(set(kinds)) == len(kinds)
    except not_foreign(IndexError, TypeError, ValueError):
        return False


def extent_of_keys(mapping: dict[str, object]) -> tuple[int, int]:
    """The address of the keys of a dict with a table of its own, and how many bytes they have."""
    return _keys(mapping), sys.getsizeof(mapping) - sys.getsizeof({})


def _grows_as_keys_do() -> bool:
    """Whether the word taken for the address of keys can be one: nothing is read there.

    Keys move where a dict grows, and only there: with the sixth entry.
    """
    inside = min(KEYS, _VALUES) >= HEAD and WORD * (1 + max(KEYS, _VALUES)) <= dict.__basicsize__
    if not inside or {_INDICES // 4, _KIND // 4} != {KIND}:
        return False
    mapping, words = dict[str, object](), list[int]()
    for k in range(10):
        mapping[f"name {k}"] = None
        words.append(_keys(mapping))
    where = set(words)
    lie_apart = ctypes.c_uint64.from_address(id(mapping) + WORD * _VALUES).value != 0
    moved = len(where) == 2 and words[4] != words[5] and not any(w % WORD for w in where)
    return moved and min(where) > 1 << 16 and max(where) < 1 << 47 and not lie_apart


def _entry(mapping: dict[str, object], key: int, value: int) -> DictEntry | None:
    words = (ctypes.c_uint64 * (_VALUES + 1)).from_address(id(mapping))
    if not mapping or words[_VALUES]:
        return None
    keys = words[KEYS]
    head = (ctypes.c_uint8 * _LENGTH).from_address(keys)
    count = ctypes.c_uint64.from_address(keys + _COUNT).value
    if head[_KIND] != _TEXTS or not len(mapping) <= count <= 1 << head[_INDICES]:
        return None
    first = keys + _LENGTH + (1 << head[_INDICES])
    if first + 2 * WORD * count > keys + extent_of_keys(mapping)[1]:
        return None
    memory = (ctypes.c_uint64 * (2 * count)).from_address(first)
    table = np.ctypeslib.as_array(memory)
    (places,) = np.nonzero((table[::2] == key) & (table[1::2] == value))
    if len(places) != 1:
        return None
    kind = ctypes.c_int32.from_address(keys + 4 * KIND).value & KIND_MASK
    return DictEntry(keys, kind, first + 2 * WORD * int(places[0]))


def _found_again(count: int) -> int:
    """The kind of keys of a dict of `count` names; 0 if entries do not show what becomes of them.

    Some of its entries are looked at. Another number of entries is another kind.
    """
    names, values = [f"name {k}" for k in range(count)], [object() for _ in range(count)]
    mapping: dict[str, object] = dict(zip(names, values, strict=True))
    kind = 0
    for name, value in [*zip(names, values, strict=True)][:: count // 8 or 1]:
        entry = _entry(mapping, id(name), id(value))
        if entry is None or _compared_words(mapping, entry) != (entry.keys, id(name), id(value)):
            return 0
        kind = entry.kind
        mapping[name] = entry
        if _compared_words(mapping, entry) != (entry.keys, id(name), id(entry)):
            return 0
        del mapping[name]
        if _compared_words(mapping, entry)[2] != 0:
            return 0
        mapping[name] = value  # at the end
    before, more = _keys(mapping), [f"more {k}" for k in range(2 * count + 8)]
    mapping |= dict.fromkeys(more)
    return kind if _keys(mapping) != before else 0


def _keys(mapping: dict[str, object]) -> int:
    return ctypes.c_uint64.from_address(id(mapping) + WORD * KEYS).value


def _compared_words(mapping: dict[str, object], entry: DictEntry) -> tuple[int, ...]:
    """Words that the entry stub compares: the keys of the dict, key and value of the entry."""
    return (_keys(mapping), *(ctypes.c_uint64 * 2).from_address(entry.address))

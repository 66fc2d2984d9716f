"""Memory that a rehearsal of the entry stub may touch, of which every word is accounted for."""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort
from typing import Any

import fdiff.intact_numpy as np

from ..stub.dict_entries import extent_of_keys
from ..stub.interpreter_abi import ARRAY, WORD

_UNSET = -0x5A5A5A5A5A5A5A5B  # what memory holds that nobody has written to
_MOST_CHECKS = 1 << 16
_PAD = 8  # words around memory of the stub's that are nobody's


class Unfit(Exception):  # noqa: N818 - no error of a call, but what a rehearsal is there to find
    """The stub did something that is forbidden."""


class Words:
    """Memory from an address on, as signed words of one size."""

    __slots__ = ("address", "kind", "memory", "size")

    def __init__(
        self, memory: KnownMemory, address: int, kind: type[ctypes.c_int64 | ctypes.c_int32]
    ) -> None:
        self.memory, self.address, self.kind = memory, int(address), kind
        self.size = ctypes.sizeof(kind)

    def __int__(self) -> int:
        return self.address

    def _at(self, index: int, *, own: bool = False) -> ctypes.c_int64 | ctypes.c_int32:
        place = self.address + self.size * index
        self.memory.check(place, self.size, own=own)
        return self.kind.from_address(place)

    def __getitem__(self, index: int) -> int:
        value: int = self._at(index).value
        if value == _UNSET:
            raise Unfit("it reads what was never written")
        return value

    def __setitem__(self, index: int, value: int) -> None:
        self._at(index, own=True).value = int(value)


class KnownMemory:
    """Objects of this interpreter and rooms of the stub's own, and nothing else.

    `objects` are those that may be used, by address; `kinds` what those are to be that are being
    made: a list of the addresses of items for a tuple or list, a dict of addresses for a dict.
    """

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: dict[int, int] = {}
        self._writable = set[int]()
        self._buffers: list[object] = []
        self._checks = 0
        self.objects: dict[int, Any] = {}
        self.kinds: dict[int, type] = {}

    def add(self, begin: int, size: int, *, own: bool = False) -> None:
        """Memory that may be read; and written, if it is the stub's `own`."""
        if begin not in self._ends:
            insort(self._begins, begin)
        self._ends[begin] = max(begin + size, self._ends.get(begin, 0))
        if own:
            self._writable.add(begin)

    def check(self, place: int, size: int, *, own: bool = False) -> None:
        """Raise if these bytes are not known, or are not the stub's `own`."""
        self._checks += 1
        begin = self._begins[bisect_right(self._begins, place) - 1]
        within = begin <= place and place + size <= self._ends[begin]
        if not within or (own and begin not in self._writable) or self._checks > _MOST_CHECKS:
            raise Unfit("it reads or writes memory that is not its own")

    def know(self, python_object: object) -> None:
        """Let the stub use an object and its content."""
        if id(python_object) in self.objects:
            return
        self.objects[id(python_object)] = python_object
        self.add(id(python_object), type(python_object).__basicsize__)
        if isinstance(python_object, dict):
            self.add(*extent_of_keys(python_object))
            python_object = (*python_object.keys(), *python_object.values())
        if isinstance(python_object, np.ndarray):
            low, high = np.lib.array_utils.byte_bounds(python_object)
            self.add(low, high - low, own=python_object.flags.writeable)
            self.add(
                Words(self, id(python_object), ctypes.c_int64)[ARRAY["dims"]],
                2 * WORD * python_object.ndim,
            )
            self.know(python_object.dtype)
        elif isinstance(python_object, (tuple, list)):
            for item in python_object:
                self.know(item)
        elif not isinstance(python_object, type):
            self.know(type(python_object))

    def room(self, words: int) -> int:
        """Memory that nothing was written to."""
        if words < 0:
            raise Unfit("it asks for less memory than none")
        buffer = (ctypes.c_int64 * (words + 2 * _PAD))(*[_UNSET] * (words + 2 * _PAD))
        self._buffers.append(buffer)
        place = ctypes.addressof(buffer) + WORD * _PAD
        self.add(place, WORD * words, own=True)
        return place

    def object_at(self, address: int) -> Any:
        """The object at an address; for an object under construction its kind."""
        if address not in self.objects:
            raise Unfit("it takes something for an object that is none")
        python_object, kind = self.objects[address], self.kinds.get(address)
        if kind is dict:
            return {self.object_at(k): self.object_at(v) for k, v in python_object.items()}
        return python_object if kind is None else kind(map(self.object_at, python_object))

    def forget(self, begin: int) -> None:
        """Let the stub not use this memory any more."""
        self._begins.remove(begin)
        del self._ends[begin]

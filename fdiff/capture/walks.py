"""One pass over what was read: where it looked, and what it found there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import is_
from types import CodeType, FunctionType
from typing import NamedTuple, Protocol

import numpy as np

from .kinds import MISSING

Items = tuple[tuple[Mapping[object, object], object, object], ...]  # mapping, key, value
Call = tuple[Callable[..., object], tuple[object, ...], dict[str, object]]
Codes = tuple[tuple[FunctionType, CodeType], ...]


class Places(NamedTuple):
    """Where a walk looked, and what it found there."""

    attributes: tuple[tuple[object, str, object], ...]  # object, name, value
    contents: tuple[tuple[Collection[object], tuple[object, ...]], ...]  # container, its items
    objects: tuple[tuple[object, type, object], ...]  # object, its class, its __dict__
    names: tuple[tuple[Mapping[str, object], tuple[str, ...]], ...]  # namespace, its names
    known: tuple[tuple[np.ndarray, tuple[int, ...], np.dtype], ...]
    calls: tuple[tuple[Call, object], ...]  # a call, its result

    def unchanged(self) -> bool:
        """Whether the same objects are there."""
        for thing, kind, namespace in self.objects:
            if type(thing) is not kind or thing.__dict__ is not namespace:
                return False
        for mapping, names in self.names:
            if tuple(mapping) != names:
                return False
        for thing, name, value in self.attributes:
            if getattr(thing, name, MISSING) is not value:
                return False
        for container, values in self.contents:
            if len(container) != len(values) or not all(map(is_, container, values)):
                return False
        for array, shape, dtype in self.known:
            if array.dtype is not dtype or array.shape != shape:
                return False
        for (function, args, keywords), result in self.calls:
            if function(*args, **keywords) is not result:
                return False
        return True


class Walk:
    """One pass over everything that was read: the arrays it met, by slot, and where it looked."""

    __slots__ = (
        "arrays", "attributes", "calls", "codes", "contents", "items", "known", "names", "nodes",
        "objects", "seen",
    )  # fmt: skip

    def __init__(self, slots: int) -> None:
        self.arrays: list[np.ndarray | None] = [None] * slots
        self.codes: list[tuple[FunctionType, CodeType]] = []
        self.items: list[tuple[Mapping[object, object], object, object]] = []
        self.attributes: list[tuple[object, str, object]] = []
        self.contents: list[tuple[Collection[object], tuple[object, ...]]] = []
        self.objects: list[tuple[object, type, object]] = []
        self.names: list[tuple[Mapping[str, object], tuple[str, ...]]] = []
        self.known: list[tuple[np.ndarray, tuple[int, ...], np.dtype]] = []
        self.calls: list[tuple[Call, object]] = []
        self.seen: set[tuple[int, int]] = set()
        self.nodes: dict[int, object] = {}  # node of an object, object of a node: by id

    def met(self, node: Node, value: object) -> bool:
        """Whether this pair is being compared already: functions and containers may be cyclic."""
        key = (id(node), id(value))
        if key in self.seen:
            return True
        self.seen.add(key)
        return False

    def other(self, node: Node, value: object) -> bool:
        """Whether this object has stood elsewhere, or another here: code may ask for identity."""
        one = self.nodes.setdefault(id(node), value)
        return one is not value or self.nodes.setdefault(id(value), node) is not node

    def places(self) -> Places | None:
        """Where it looked other than in mappings and at code; None if nowhere."""
        found = (
            self.attributes, self.contents, self.objects, self.names, self.known, self.calls,
        )  # fmt: skip
        return Places(*map(tuple, found)) if any(found) else None  # type: ignore[arg-type]


class Node(Protocol):
    """What a value that was read must be."""

    def holds(self, value: object, walk: Walk, /) -> bool: ...

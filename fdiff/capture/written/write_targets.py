"""Nodes of dependencies that a run writes to, and the numbers that it reads there."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from typing import Protocol, cast

import fdiff.intact_numpy as np

from ...named_tuples import NamedTuple
from ..revalidation import Dependency, Revalidation


class WriteTarget:
    """A node of an object that the run may write to, or that is kept elsewhere.

    If the node is `written`, walks note the user's object that it stands for.
    """

    __slots__ = ("written",)
    written: bool

    def stands_for(self, value: object, walk: Revalidation) -> bool:
        """Whether the walk has met no other object for this node."""
        return not self.written or walk.targets.setdefault(id(self), value) is value


class NoEffectError(Exception):
    """A write cannot be repeated without running `f`."""


class WrittenOutput(NamedTuple):
    """A value of the tape that is written: its node, and the kind of object that plain code writes.

    `kind` is ``item`` for a Python number, ``scalar`` for a NumPy scalar, ``copy`` for an array.
    """

    node: int
    dtype: np.dtype
    kind: str


class RecordedTape(Protocol):
    """The interface of the tape that is being recorded, as far as a run needs it."""

    def number(self, handle: object, /, *, weak: bool) -> object: ...
    def output(self, value: object, /) -> WrittenOutput | None: ...
    def unseen(self) -> AbstractContextManager[None]: ...


class WritePlace(NamedTuple):
    """A place outside of the run: how code reaches it from the object that `node` stands for.

    `load`, `store` and `delete` are texts with the fields ``{t}`` for the object, ``{k}`` for the
    `key` and ``{v}`` for the value.
    """

    node: WriteTarget
    key: object
    load: str
    store: str
    delete: str


def item_of(node: WriteTarget, key: object) -> WritePlace:
    """An item of a mapping: a global, an attribute of an object with a ``__dict__``."""
    return WritePlace(node, key, "{t}.get({k}, MISSING)", "{t}[{k}] = {v}", "{t}.pop({k}, None)")


def list_item(node: WriteTarget, index: int) -> WritePlace:
    return WritePlace(node, index, "{t}[{k}]", "{t}[{k}] = {v}", "del {t}[{k}]")


def in_slot(node: WriteTarget, place: object) -> WritePlace:
    """An attribute that lies in a slot, by its descriptor."""
    store, delete = "{k}.__set__({t}, {v})", "{k}.__delete__({t})"
    return WritePlace(node, place, "{k}.__get__({t})", store, delete)


def attribute_of(node: WriteTarget, name: str) -> WritePlace:
    """An attribute of an object whose class has no code for it."""
    load, store = "getattr({t}, {k}, MISSING)", "object.__setattr__({t}, {k}, {v})"
    return WritePlace(node, name, load, store, "object.__delattr__({t}, {k})")


def in_cell(node: WriteTarget) -> WritePlace:
    """A variable of an enclosing function."""
    store, delete = "{t}.cell_contents = {v}", "del {t}.cell_contents"
    return WritePlace(node, None, "{t}.cell_contents", store, delete)


def of_class(node: WriteTarget, name: str) -> WritePlace:
    """An attribute of a class."""
    store, delete = "type.__setattr__({t}, {k}, {v})", "type.__delattr__({t}, {k})"
    return WritePlace(node, name, "vars({t}).get({k}, MISSING)", store, delete)


class NumberRead:
    """A number of this type that the run reads and writes again, whatever its value.

    A float is an input of the tape, and lies in `buffer`.
    """

    __slots__ = ("buffer", "slot", "type")

    def __init__(self, type_: type, slot: int = -1, buffer: np.ndarray | None = None) -> None:
        self.type = type_
        self.slot = slot
        self.buffer = buffer

    def holds(self, value: object, walk: Revalidation) -> bool:
        return type(value) is self.type


def reachable(roots: Iterable[Dependency]) -> set[int]:
    """The ids of the nodes that a walk from the roots can reach."""
    ids: set[int] = set()
    waiting: list[object] = [*roots]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple | list):
            waiting += cast("Collection[object]", node)
        elif isinstance(node, dict):
            waiting += cast("dict[object, object]", node).values()
        elif id(node) not in ids and callable(getattr(node, "holds", None)):
            ids.add(id(node))
            waiting += [getattr(node, name, None) for name in _LEADING]
    return ids


_LEADING = ("parts", "nodes", "reads", "table", "slots", "calls", "wrapped", "whole")

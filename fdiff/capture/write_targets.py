"""Nodes of dependencies that a run writes to, and the numbers that it reads there."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import cast

import numpy as np

from .revalidation import Dependency, Revalidation


class WriteTarget:
    """A node that stands for an object which the run may write to, or which is kept elsewhere.

    Where it is `written`, walks tell which object of the user it stands for.
    """

    __slots__ = ("written",)
    written: bool

    def stands_for(self, value: object, walk: Revalidation) -> bool:
        """Whether this walk has not met it as another object."""
        return not self.written or walk.targets.setdefault(id(self), value) is value


class NumberRead:
    """A number that the run reads and writes again: of this type, whatever its value.

    A float is an input of the tape, where it stands in `buffer`.
    """

    __slots__ = ("buffer", "slot", "type")

    def __init__(self, type_: type, slot: int = -1, buffer: np.ndarray | None = None) -> None:
        self.type = type_
        self.slot = slot
        self.buffer = buffer

    def holds(self, value: object, walk: Revalidation) -> bool:
        return type(value) is self.type


def reachable(roots: Iterable[Dependency]) -> set[int]:
    """The nodes that a walk from these can come to, by id."""
    found: set[int] = set()
    waiting: list[object] = [*roots]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple | list):
            waiting += cast("Collection[object]", node)
        elif isinstance(node, dict):
            waiting += cast("dict[object, object]", node).values()
        elif id(node) not in found and _is_node(node):
            found.add(id(node))
            waiting += [getattr(node, name, None) for name in _LEADING]
    return found


_LEADING = ("parts", "nodes", "reads", "table", "slots", "calls", "wrapped", "whole")


def _is_node(value: object) -> bool:
    return callable(getattr(value, "holds", None))

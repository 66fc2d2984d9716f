"""What a function read from outside itself, kept so that it can be read again and compared.

Each value that was read has a node that says what the value must be for the program to hold. Nodes
form a graph rooted at the function: its globals, cells and defaults, the functions those lead to,
the items of containers. One walk over it does three things: it compares, it collects the captured
arrays as they are now, and it notes every place it looked at. As long as the same objects are found
in those places nothing has changed, and that is all the next call looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from operator import is_
from types import CodeType, FunctionType
from typing import NamedTuple, Protocol, cast

import numpy as np

from .kinds import MISSING, item_key, leaf_key

# ------------------------------------------------------------------------------------------- walks


Items = tuple[tuple[Mapping[object, object], object, object], ...]  # mapping, key, value
Call = tuple[Callable[..., object], tuple[object, ...], dict[str, object]]
Codes = tuple[tuple[FunctionType, CodeType], ...]


class Places(NamedTuple):
    """Where a walk looked, and what it found there."""

    attributes: tuple[tuple[object, str, object], ...]  # object, name, value
    contents: tuple[tuple[Collection[object], tuple[object, ...]], ...]  # container, its items
    known: tuple[tuple[np.ndarray, tuple[int, ...], np.dtype], ...]
    calls: tuple[tuple[Call, object], ...]  # a call, its result

    def unchanged(self) -> bool:
        """Whether the same objects are there."""
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

    __slots__ = ("arrays", "attributes", "calls", "codes", "contents", "items", "known", "seen")

    def __init__(self, slots: int) -> None:
        self.arrays: list[np.ndarray | None] = [None] * slots
        self.codes: list[tuple[FunctionType, CodeType]] = []
        self.items: list[tuple[Mapping[object, object], object, object]] = []
        self.attributes: list[tuple[object, str, object]] = []
        self.contents: list[tuple[Collection[object], tuple[object, ...]]] = []
        self.known: list[tuple[np.ndarray, tuple[int, ...], np.dtype]] = []
        self.calls: list[tuple[Call, object]] = []
        self.seen: set[tuple[int, int]] = set()

    def met(self, node: Node, value: object) -> bool:
        """Whether this pair is being compared already: functions and containers may be cyclic."""
        key = (id(node), id(value))
        if key in self.seen:
            return True
        self.seen.add(key)
        return False

    def places(self) -> Places | None:
        """Where it looked other than in mappings and at code; None if nowhere."""
        found = (self.attributes, self.contents, self.known, self.calls)
        return Places(*map(tuple, found)) if any(found) else None  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------- nodes


class Node(Protocol):
    """What a value that was read must be."""

    def holds(self, value: object, walk: Walk, /) -> bool: ...


class Leaf:
    """An equal value of the same type."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def holds(self, value: object, walk: Walk) -> bool:
        return value is self.value or (
            type(value) is type(self.value)
            and (key := leaf_key(value)) is not None
            and key == leaf_key(self.value)
        )


class Same:
    """The same object."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def holds(self, value: object, walk: Walk) -> bool:
        return value is self.value


ABSENT = Same(MISSING)


class Array:
    """An array of this dtype and shape; the same one wherever this node is met."""

    __slots__ = ("dtype", "shape", "slot")

    def __init__(self, slot: int, array: np.ndarray) -> None:
        self.slot = slot
        self.dtype = array.dtype
        self.shape = array.shape

    def holds(self, value: object, walk: Walk) -> bool:
        known = walk.arrays[self.slot]
        if known is not None:
            return value is known
        if type(value) is not np.ndarray:
            return False
        dtype = value.dtype
        if dtype != self.dtype or value.shape != self.shape:
            return False
        walk.arrays[self.slot] = value
        walk.known.append((value, self.shape, dtype))
        return True


class Sequence:
    """A tuple, named tuple or list of this type and length."""

    __slots__ = ("nodes", "type")

    def __init__(self, type_: type, nodes: list[Node]) -> None:
        self.type = type_
        self.nodes = nodes

    def holds(self, value: object, walk: Walk) -> bool:
        if type(value) is not self.type:
            return False
        items = tuple(cast("Collection[object]", value))
        if len(items) != len(self.nodes):
            return False
        if self.type is list:
            if walk.met(self, value):
                return True
            walk.contents.append((cast("Collection[object]", value), items))
        return all(node.holds(item, walk) for node, item in zip(self.nodes, items, strict=True))


class Table:
    """A mapping with these values under these keys; with `keys`, these keys only, in this order."""

    __slots__ = ("keys", "reads", "type")

    def __init__(self, type_: type = dict) -> None:
        self.type = type_
        self.reads: dict[object, Node] = {}
        self.keys: tuple[Hashable, ...] | None = None

    def holds(self, value: object, walk: Walk) -> bool:
        if type(value) is not self.type:
            return False
        mapping = cast("dict[object, object]", value)
        if walk.met(self, mapping):
            return True
        for key, node in self.reads.items():
            item = mapping.get(key, MISSING)
            if not node.holds(item, walk):
                return False
            walk.items.append((mapping, key, item))
        if self.keys is not None:
            keys = tuple(mapping)
            walk.contents.append((mapping, keys))
            return len(keys) == len(self.keys) and tuple(map(item_key, keys)) == self.keys
        return True


class Bag:
    """A set of these items; `nodes` are what those that are not plain values must be."""

    __slots__ = ("keys", "nodes", "type")

    def __init__(self, values: Collection[object], nodes: list[tuple[object, Node]]) -> None:
        self.type = type(values)
        self.keys = frozenset(map(item_key, values))
        self.nodes = nodes

    def holds(self, value: object, walk: Walk) -> bool:
        if type(value) is not self.type:
            return False
        items = tuple(value)
        walk.contents.append((value, items))
        return frozenset(map(item_key, items)) == self.keys and all(
            node.holds(item, walk) for item, node in self.nodes
        )


READ_ONLY = frozenset(
    ("__globals__", "__closure__", "__self__", "__func__", "__dict__", "func", "args", "keywords")
)


class Parts:
    """An object of this type whose attributes are read: function, cell, method, namespace."""

    __slots__ = ("parts", "type")

    def __init__(self, type_: type) -> None:
        self.type = type_
        self.parts: list[tuple[str, Node]] = []

    def holds(self, value: object, walk: Walk) -> bool:
        if type(value) is not self.type:
            return False
        if walk.met(self, value):
            return True
        for name, node in self.parts:
            part = attribute(value, name)
            if not node.holds(part, walk):
                return False
            if name == "__code__":
                walk.codes.append((cast("FunctionType", value), cast("CodeType", part)))
            elif name not in READ_ONLY:
                walk.attributes.append((value, name, part))
        return True


class Calls:
    """A cached function whose results, for the arguments it was called with, are these."""

    __slots__ = ("calls", "function", "wrapped")

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.calls: list[tuple[tuple[object, ...], dict[str, object], Node]] = []
        self.wrapped: Node | None = None

    def holds(self, value: object, walk: Walk) -> bool:
        if value is not self.function:
            return False
        if self.wrapped is not None:
            wrapped = attribute(value, "__wrapped__")
            walk.attributes.append((value, "__wrapped__", wrapped))
            if not self.wrapped.holds(wrapped, walk):
                return False
        for args, keywords, node in self.calls:
            result = self.function(*args, **keywords)
            walk.calls.append(((self.function, args, keywords), result))
            if not node.holds(result, walk):
                return False
        return True


def attribute(value: object, name: str) -> object:
    try:
        return getattr(value, name)
    except (AttributeError, ValueError):  # an empty cell raises ValueError
        return MISSING


Pins = tuple[object, Codes, Items, Places | None, list[np.ndarray]]


class Reads:
    """What one traced run read from outside.

    `arrays` are the captured arrays in the order of their handles; `opaque` names, in words, what
    cannot be compared; `traced` tells that values of an enclosing trace were among what was read. A
    program that is opaque or traced holds for the run that made it and no other.
    """

    __slots__ = ("_fixed", "_pins", "_root", "arrays", "opaque", "traced")

    def __init__(
        self,
        arrays: tuple[np.ndarray, ...],
        opaque: tuple[str, ...],
        *,
        traced: bool,
        root: tuple[object, Node],
        fixed: list[tuple[object, Node]],
    ) -> None:
        self.arrays = arrays
        self.opaque = opaque
        self.traced = traced
        f, self._root = root
        self._fixed = fixed  # objects that are what they are, whichever function asks
        self._pins: Pins = MISSING, (), (), None, []
        self._walk(f)

    def refresh(self, f: object) -> list[np.ndarray] | None:
        """The captured arrays as `f` finds them now; None where the program no longer holds.

        `f` is the function that was traced, or another with the same code. The list is shared:
        not to be written to.
        """
        root, codes, items, places, arrays = self._pins
        if f is not root:
            return self._walk(f)
        try:
            for fn, code in codes:
                if fn.__code__ is not code:
                    return self._walk(f)
            for mapping, key, value in items:
                if mapping.get(key, MISSING) is not value:
                    return self._walk(f)
            if places is not None and not places.unchanged():
                return self._walk(f)
        except (ValueError, RuntimeError):  # an empty cell; a container that another thread changes
            return self._walk(f)
        return arrays

    def _walk(self, f: object) -> list[np.ndarray] | None:
        """Read everything again and compare; pins are replaced whole, so threads see old or new."""
        if self.opaque or self.traced:
            return None
        walk = Walk(len(self.arrays))
        if not self._root.holds(f, walk):
            return None
        for value, node in self._fixed:
            if not node.holds(value, walk):
                return None
        arrays = cast("list[np.ndarray]", walk.arrays)
        self._pins = f, tuple(walk.codes), tuple(walk.items), walk.places(), arrays
        return arrays

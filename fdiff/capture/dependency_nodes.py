"""The kinds of dependencies: the conditions on values that were read, for the program to hold.

Each class is a node of the graph of `dependencies.py`: ``holds(value, walk)`` compares a value and
the values inside it, and notes the visited places in the walk. See docs/decisions/retained-data.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial
from types import CodeType, FunctionType
from typing import cast

import fdiff.intact_numpy as np

from ..device_arrays import described
from ..foreign_errors import not_foreign
from .revalidation import Dependency, Revalidation
from .value_kinds import MISSING, constant_of, item_key, leaf_key
from .written.write_targets import NumberRead, WriteTarget


class Equal:
    """An equal value of the same type."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def holds(self, value: object, walk: Revalidation) -> bool:
        return value is self.value or (
            type(value) is type(self.value)
            and (key := leaf_key(value)) is not None
            and key == leaf_key(self.value)
        )


class Identical:
    """A read that holds as long as the value is this object."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def holds(self, value: object, walk: Revalidation) -> bool:
        return value is self.value


ABSENT = Identical(MISSING)


class Array(WriteTarget):
    """An array of this dtype and shape; every place with this node has the same array."""

    __slots__ = ("dtype", "shape", "slot")

    def __init__(self, slot: int, array: np.ndarray) -> None:
        self.written = False
        self.slot = slot
        self.dtype = array.dtype
        self.shape = array.shape

    def holds(self, value: object, walk: Revalidation) -> bool:
        array = walk.arrays[self.slot]
        if array is not None:
            return value is array
        if type(value) is not np.ndarray:
            return False
        dtype = value.dtype
        if dtype != self.dtype or value.shape != self.shape:
            return False
        walk.arrays[self.slot] = value
        walk.layouts.append((value, self.shape, dtype))
        return self.stands_for(value, walk)


class ArrayOnDevice:
    """An array of this library on a GPU, of this shape and dtype; as `Array` otherwise."""

    __slots__ = ("described", "slot", "type")

    def __init__(self, slot: int, array: object) -> None:
        self.slot = slot
        self.type = type(array)
        self.described = described(array)

    def holds(self, value: object, walk: Revalidation) -> bool:
        array = walk.arrays[self.slot]
        if array is not None:
            return value is array
        if type(value) is not self.type or not self._same(value):
            return False
        walk.arrays[self.slot] = value  # type: ignore[call-overload] - it stands among the arrays
        walk.data.append(partial(self._same, value))
        return True

    def _same(self, value: object) -> bool:
        return described(value) == self.described


class ConstantArray:
    """An object that converts to an array of this dtype and shape (`constant_of`)."""

    __slots__ = ("dtype", "shape", "slot", "type")

    def __init__(self, slot: int, value: object, array: np.ndarray) -> None:
        self.slot = slot
        self.type = type(value)
        self.dtype = array.dtype
        self.shape = array.shape

    def holds(self, value: object, walk: Revalidation) -> bool:
        if type(value) is not self.type or walk.other(self, value):
            return False
        array = constant_of(value)
        if array is None or array.dtype != self.dtype or array.shape != self.shape:
            return False
        walk.arrays[self.slot] = array
        walk.data.append(partial(self._same, value, array))
        return True

    def _same(self, value: object, array: np.ndarray) -> bool:
        now = constant_of(value)
        return now is not None and now.__array_interface__ == array.__array_interface__


class SequenceItems(WriteTarget):
    """A tuple, named tuple or list of this type and length."""

    __slots__ = ("nodes", "type")

    def __init__(self, type_: type, nodes: list[Dependency]) -> None:
        self.written = False
        self.type = type_
        self.nodes = nodes

    def holds(self, value: object, walk: Revalidation) -> bool:
        if type(value) is not self.type:
            return False
        items = tuple(cast("Collection[object]", value))
        if len(items) != len(self.nodes):
            return False
        if self.type is list:
            if walk.met(self, value):
                return True
            if not self.stands_for(value, walk):
                return False
            walk.contents.append((cast("Collection[object]", value), items))
        return all(node.holds(item, walk) for node, item in zip(self.nodes, items, strict=True))


class MappingItems(WriteTarget):
    """A mapping with these values under these keys; with `keys`, these keys only, in this order."""

    __slots__ = ("keys", "reads", "type")

    def __init__(self, type_: type = dict) -> None:
        self.written = False
        self.type = type_
        self.reads: dict[object, Dependency] = {}
        self.keys: tuple[Hashable, ...] | None = None

    def holds(self, value: object, walk: Revalidation) -> bool:
        if type(value) is not self.type:
            return False
        mapping = cast("dict[object, object]", value)
        if walk.met(self, mapping):
            return True
        if not self.stands_for(mapping, walk):
            return False
        for key, node in self.reads.items():
            item = mapping.get(key, MISSING)
            if not node.holds(item, walk):
                return False
            if type(node) is not NumberRead:
                walk.items.append((mapping, key, item))
        if self.keys is not None:
            keys = tuple(mapping)
            walk.contents.append((mapping, keys))
            return len(keys) == len(self.keys) and tuple(map(item_key, keys)) == self.keys
        return True


class SetItems:
    """A set of these items; `nodes` are the dependencies of the items that are not plain values."""

    __slots__ = ("keys", "nodes", "type")

    def __init__(self, values: Collection[object], nodes: list[tuple[object, Dependency]]) -> None:
        self.type = type(values)
        self.keys = frozenset(map(item_key, values))
        self.nodes = nodes

    def holds(self, value: object, walk: Revalidation) -> bool:
        if type(value) is not self.type:
            return False
        items = tuple(value)
        walk.contents.append((value, items))
        return frozenset(map(item_key, items)) == self.keys and all(
            node.holds(item, walk) for item, node in self.nodes
        )


READ_ONLY = frozenset(
    """__globals__ __closure__ __self__ __func__ __dict__ func args keywords
    fget fset fdel""".split()  # noqa: SIM905 - a list of words
)


class Attributes(WriteTarget):
    """An object of this type whose attributes are read: function, cell, method, namespace."""

    __slots__ = ("parts", "type")

    def __init__(self, type_: type, *parts: tuple[str, Dependency]) -> None:
        self.written = False
        self.type = type_
        self.parts = [*parts]

    def holds(self, value: object, walk: Revalidation) -> bool:
        if type(value) is not self.type:
            return False
        if walk.met(self, value):
            return True
        if not self.stands_for(value, walk):
            return False
        for name, node in self.parts:
            part = attribute(value, name)
            if not node.holds(part, walk):
                return False
            if name == "__code__":
                walk.codes.append((cast("FunctionType", value), cast("CodeType", part)))
            elif name not in READ_ONLY and type(node) is not NumberRead:
                walk.attributes.append((value, name, part))
        return True


class ComposedObject(Attributes):
    """An object of a library, determined by these attributes, each of which may change."""

    __slots__ = ()

    def holds(self, value: object, walk: Revalidation) -> bool:
        if not super().holds(value, walk):
            return False
        walk.attributes += [
            (value, name, attribute(value, name)) for name, _ in self.parts if name in READ_ONLY
        ]
        return True


class Instance(WriteTarget):
    """An object of this class of the user with the attributes that were read; `slots` by name."""

    __slots__ = ("slots", "table", "type")

    def __init__(self, type_: type) -> None:
        self.written = False
        self.type = type_
        self.table = MappingItems()
        self.slots: dict[str, Dependency] = {}

    def holds(self, value: object, walk: Revalidation) -> bool:
        if type(value) is not self.type or walk.other(self, value):
            return False
        if walk.met(self, value):
            return True
        if not self.stands_for(value, walk):
            return False
        namespace = attribute(value, "__dict__")
        if namespace is MISSING:
            walk.attributes.append((value, "__class__", self.type))
        else:
            walk.objects.append((value, self.type, namespace))
            if not self.table.holds(namespace, walk):
                return False
        for name, node in self.slots.items():
            part = attribute(value, name)
            if type(node) is not NumberRead:
                walk.attributes.append((value, name, part))
            if not node.holds(part, walk):
                return False
        return True


class Class(WriteTarget):
    """A class of the user with these bases and names; `reads` are the reads of its members."""

    __slots__ = ("bases", "names", "reads")

    def __init__(self, kind: type) -> None:
        self.written = False
        self.bases = kind.__mro__
        self.names = tuple(vars(kind))
        self.reads: dict[str, Dependency] = {}

    def holds(self, value: object, walk: Revalidation) -> bool:
        kind = cast("type", value)
        namespace, bases = vars(kind), kind.__mro__
        if bases != self.bases or tuple(namespace) != self.names:
            return False
        walk.attributes.append((kind, "__mro__", bases))
        walk.names.append((namespace, self.names))
        self.stands_for(kind, walk)
        for name, node in self.reads.items():
            item = namespace.get(name, MISSING)
            if type(node) is not NumberRead:
                walk.items.append((cast("Mapping[object, object]", namespace), name, item))
            if not node.holds(item, walk):
                return False
        return True


class ClassFamily:
    """A class of the user whose instances are not watched, with its bases defined by the user."""

    __slots__ = ("nodes", "type")

    def __init__(self, kind: type, nodes: list[tuple[type, Class]]) -> None:
        self.type = kind
        self.nodes = nodes

    def holds(self, value: object, walk: Revalidation) -> bool:
        return value is self.type and all(node.holds(base, walk) for base, node in self.nodes)


class CachedCalls:
    """A cached function that returned these results for the arguments of its calls."""

    __slots__ = ("calls", "function", "wrapped")

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.calls: list[tuple[tuple[object, ...], dict[str, object], Dependency]] = []
        self.wrapped: Dependency | None = None

    def holds(self, value: object, walk: Revalidation) -> bool:
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
    except not_foreign(AttributeError, ValueError, again=lambda: getattr(value, name)):
        return MISSING

"""One walk over the dependencies of a program: the visited places, and the objects found there.

The functions below check, for each kind of place, that the same objects are still there. Such a
list is a verifying trace (A. Mokhov, N. Mitchell and S. Peyton Jones, Build systems a la carte,
Proc. ACM Program. Lang. 2, ICFP, 2018, section 4.2.2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import is_
from types import CodeType, FunctionType
from typing import Protocol

import fdiff.intact_numpy as np

from .value_kinds import MISSING

ItemsFound = tuple[tuple[Mapping[object, object], object, object], ...]  # mapping, key, value
Call = tuple[Callable[..., object], tuple[object, ...], dict[str, object]]
Codes = tuple[tuple[FunctionType, CodeType], ...]


# For each kind of place, a function that compares, and the objects found in those places.
Comparisons = tuple[tuple[Callable[..., bool], tuple[object, ...]], ...]


def same_objects(entries: tuple[tuple[object, type, object], ...]) -> bool:
    """Whether objects have the same class and the same namespace as before."""
    for instance, kind, namespace in entries:
        if type(instance) is not kind or instance.__dict__ is not namespace:
            return False
    return True


def same_items(entries: ItemsFound) -> bool:
    """Whether mappings have the same values for these keys."""
    for mapping, key, value in entries:  # noqa: SIM110 - generators cost as much as they check
        if mapping.get(key, MISSING) is not value:
            return False
    return True


def same_names(entries: tuple[tuple[Mapping[str, object], tuple[str, ...]], ...]) -> bool:
    """Whether namespaces have the same names in the same order."""
    for mapping, names in entries:  # noqa: SIM110 - as above
        if tuple(mapping) != names:
            return False
    return True


def same_attributes(entries: tuple[tuple[object, str, object], ...]) -> bool:
    """Whether attributes have the same values."""
    for instance, name, value in entries:  # noqa: SIM110 - as above
        if getattr(instance, name, MISSING) is not value:
            return False
    return True


def same_contents(entries: tuple[tuple[Collection[object], tuple[object, ...]], ...]) -> bool:
    """Whether containers hold the same objects in the same order."""
    for container, values in entries:
        if len(container) != len(values) or not all(map(is_, container, values)):
            return False
    return True


def same_layouts(entries: tuple[tuple[np.ndarray, tuple[int, ...], np.dtype], ...]) -> bool:
    """Whether arrays have the same shape and the same dtype."""
    for array, shape, dtype in entries:
        if array.dtype is not dtype or array.shape != shape:
            return False
    return True


def same_data(comparisons: tuple[Callable[[], bool], ...]) -> bool:
    """Whether values that are compared by their content are as before."""
    return all(same() for same in comparisons)


def same_calls(entries: tuple[tuple[Call, object], ...]) -> bool:
    """Whether calls return the same objects as before."""
    return all(function(*args, **keys) is result for (function, args, keys), result in entries)


BY_IDENTITY = frozenset(
    (same_objects, same_items, same_names, same_attributes, same_contents, same_layouts)
)


class Revalidation:
    """One pass over all reads: the arrays that it met, by slot, and the visited places."""

    __slots__ = (
        "arrays", "attributes", "calls", "codes", "contents", "data", "items", "layouts", "names",
        "nodes", "objects", "seen", "targets",
    )  # fmt: skip

    def __init__(self, slots: int) -> None:
        self.arrays: list[np.ndarray | None] = [None] * slots
        self.codes: list[tuple[FunctionType, CodeType]] = []
        self.items: list[tuple[Mapping[object, object], object, object]] = []
        self.attributes: list[tuple[object, str, object]] = []
        self.contents: list[tuple[Collection[object], tuple[object, ...]]] = []
        self.data: list[Callable[[], bool]] = []
        self.objects: list[tuple[object, type, object]] = []
        self.names: list[tuple[Mapping[str, object], tuple[str, ...]]] = []
        self.layouts: list[tuple[np.ndarray, tuple[int, ...], np.dtype]] = []
        self.calls: list[tuple[Call, object]] = []
        self.seen: set[tuple[int, int]] = set()
        self.targets: dict[int, object] = {}  # objects that the run writes to, by id of the node
        self.nodes: dict[int, object] = {}  # node of an object, object of a node: by id

    def met(self, node: Dependency, value: object) -> bool:
        """Whether this pair is being compared already: functions and containers may be cyclic."""
        key = (id(node), id(value))
        if key in self.seen:
            return True
        self.seen.add(key)
        return False

    def other(self, node: Dependency, value: object) -> bool:
        """Whether this object was met at another node, or another object at this node."""
        partner = self.nodes.setdefault(id(node), value)
        return partner is not value or self.nodes.setdefault(id(value), node) is not node

    def places(self) -> Comparisons:
        """The visited places, except mappings and code."""
        kinds = (
            (same_objects, self.objects), (same_names, self.names),
            (same_attributes, self.attributes), (same_contents, self.contents),
            (same_layouts, self.layouts), (same_calls, self.calls), (same_data, self.data),
        )  # fmt: skip
        return tuple((check, tuple(entries)) for check, entries in kinds if entries)


class Dependency(Protocol):
    """The condition on a value that was read."""

    def holds(self, value: object, walk: Revalidation, /) -> bool: ...

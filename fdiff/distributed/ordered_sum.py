"""Pairwise sums (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2002, chapter 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fdiff.intact_numpy as np

from ..errors import UNNAMED, InputError, failure
from ..tree import Spec, flatten, unflatten

Leaves = list[Any]  # numbers and arrays


class OrderedSum:
    """Terms ``0 .. count - 1`` added along the complete binary tree over their numbers.

    Terms arrive in any order, one by one, and sums are `joined`. `nodes` maps
    ``(level, i)`` to the sum of the terms from ``i << level`` on. A subtree without a right sibling
    is passed up as it is.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.spec: Spec | None = None
        self.nodes: dict[tuple[int, int], Leaves] = {}

    def add(self, number: int, term: object) -> None:
        """Add a term: a number, an array, or a structure of them."""
        leaves, spec = flatten(term)
        self._enter(0, number, spec, [*map(_addend, leaves)])

    @classmethod
    def joined(cls, sums: Sequence[OrderedSum]) -> OrderedSum:
        """The sum of the terms of several."""
        total = cls(sums[0].count)
        for other in sums:
            for (level, i), leaves in other.nodes.items():
                total._enter(level, i, other.spec, leaves)
        return total

    def _enter(self, level: int, i: int, spec: Spec | None, leaves: Leaves) -> None:
        self.spec = self.spec or spec
        if spec != self.spec:
            fact = "the function returns results of different structure for different partitions."
            way = "Return the same nested tuples, lists and dicts for each partition."
            raise failure(InputError, UNNAMED, fact, way)
        while level < (self.count - 1).bit_length():
            if i % 2 == 0 and (i + 1) << level >= self.count:  # nothing on its right
                level, i = level + 1, i // 2
                continue
            other = self.nodes.pop((level, i ^ 1), None)
            if other is None:
                break
            leaves = _added(leaves, other) if i % 2 == 0 else _added(other, leaves)
            level, i = level + 1, i // 2
        self.nodes[level, i] = leaves

    def total(self) -> object:
        """The sum, once all terms are there."""
        (leaves,) = self.nodes.values()
        assert self.spec is not None, "it has terms"
        return unflatten(self.spec, leaves)

    @property
    def nbytes(self) -> int:
        """Bytes of what it holds."""
        return sum(np.asarray(x).nbytes for leaves in self.nodes.values() for x in leaves)

    def __sizeof__(self) -> int:
        return self.nbytes


def _addend(leaf: object) -> object:
    """A leaf of a term; small integers as `numpy.sum` adds them."""
    if isinstance(leaf, (int, float, complex)) and not isinstance(leaf, (bool, np.generic)):
        return leaf
    if not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype.kind not in "iufc":
        dtype = getattr(leaf, "dtype", "")
        what = f"a result of type {type(leaf).__name__}" + f" and dtype {dtype}" * bool(dtype)
        fact = f"{what} cannot be added over partitions."
        way = "Return numbers, arrays of numbers, or tuples, lists and dicts of them."
        raise failure(InputError, UNNAMED, fact, way)
    if leaf.dtype.kind in "iu" and leaf.dtype.itemsize < np.dtype(int).itemsize:
        return leaf.astype(np.int64 if leaf.dtype.kind == "i" else np.uint64)
    return leaf


def _added(a: Leaves, b: Leaves) -> Leaves:
    for x, y in zip(a, b, strict=True):
        if np.shape(x) != np.shape(y):
            shapes = f"{np.shape(x)} and {np.shape(y)}"
            fact = f"results of shapes {shapes}, which depend on the partition, cannot be added."
            way = "Sum over the rows of the partition, or use fdiff.distributed.map_over."
            raise failure(InputError, UNNAMED, fact, way)
    return [x + y for x, y in zip(a, b, strict=True)]

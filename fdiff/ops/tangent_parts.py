"""Parts of batched tangents, and what the rules that keep parts apart may ask of a sweep.

The tangents of a node for all seeds are the sum of its parts, each of which is zero outside of its seeds
and its box of entries (`transforms/sparsity/sparse_tangents.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple, Protocol

import fdiff.intact_numpy as np

from ..arraytype import ArrayType, Shape
from ..primitive import Primitive
from ..tape import Node

Seeds = tuple[int, ...]  # in order
Box = tuple[tuple[int, int], ...]  # of each axis, from and to


class TangentPart(NamedTuple):
    """A node of a trace, with a leading axis of the seeds unless there is only one."""

    node: int
    seeds: Seeds
    box: Box

    @property
    def wide(self) -> bool:
        return len(self.seeds) > 1

    @property
    def lead(self) -> Shape:
        return leading_axis(self.seeds)

    @property
    def volume(self) -> int:
        return len(self.seeds) * volume(self.box)


def leading_axis(seeds: Seeds) -> Shape:
    """The shape of the axis of some seeds, which a single one does not have."""
    return (len(seeds),) if len(seeds) > 1 else ()


def full(shape: Shape) -> Box:
    """The box of all entries."""
    return tuple([(0, n) for n in shape])


def extent(box: Box) -> Shape:
    """The lengths of the sides of a box."""
    return tuple([hi - lo for lo, hi in box])


def volume(box: Box) -> int:
    """The number of entries of a box."""
    return prod(extent(box))


def hull(a: Box, b: Box) -> Box:
    """The smallest box around two."""
    return tuple([(min(p, q), max(s, t)) for (p, s), (q, t) in zip(a, b, strict=True)])


def common(a: Box, b: Box) -> Box | None:
    """The box of the entries of both; None if there are none."""
    both = tuple([(max(p, q), min(s, t)) for (p, s), (q, t) in zip(a, b, strict=True)])
    return both if all(lo < hi for lo, hi in both) else None


def offset(inner: Box, outer: Box) -> Box:
    """Where a box lies within another."""
    return tuple([(p - q, s - q) for (p, s), (q, _) in zip(inner, outer, strict=True)])


def seeds_of(parts: Sequence[TangentPart]) -> Seeds:
    """All seeds of some parts."""
    return tuple(sorted({s for part in parts for s in part.seeds}))


class TangentEmitter(Protocol):
    """Nodes of parts, in the trace of the derivative."""

    def add(self, op: Primitive, args: Sequence[int], **params: object) -> int: ...
    def dtype(self, node: int) -> np.dtype: ...
    def zeros(self, shape: Shape, dtype: np.dtype) -> int: ...
    def broadcast(self, node: int, shape: Shape) -> int: ...
    def reshaped(self, node: int, shape: Shape) -> int: ...
    def cut(self, node: int, spans: Box) -> int: ...
    def place(self, op: Primitive, args: Sequence[int], lead: Shape, inner: Box, box: Box) -> int: ...
    def merged(self, parts: Sequence[TangentPart], seeds: Seeds, box: Box) -> TangentPart: ...
    def seeds_behind(self, parts: Sequence[TangentPart], seeds: Seeds, box: Box, count: int) -> int: ...
    def seeds_in_front(self, node: int, seeds: Seeds, count: int) -> int: ...


class TangentPartSweep(Protocol):
    """The sweep over a tape of tangents that asks the rules."""

    emit: TangentEmitter
    values: list[int]  # of each node that does not move, its node in the trace

    def moves(self, i: int) -> bool: ...
    def is_zero(self, i: int) -> bool: ...
    def type(self, i: int) -> ArrayType: ...
    def parts_of(self, i: int) -> list[TangentPart]: ...
    def coalesced(self, i: int) -> list[TangentPart]: ...
    def apply(self, node: Node, ids: Sequence[int], on: Sequence[bool], size: int) -> int: ...
    def count(self, carried: int, entries: int) -> None: ...

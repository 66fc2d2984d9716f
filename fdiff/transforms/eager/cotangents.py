"""Cotangents of the nodes of an eager trace, added up while they are pulled backwards.

Incremental adjoints; A. Griewank and A. Walther, Evaluating Derivatives, SIAM 2008, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import fdiff.intact_numpy as np

from ...trace.eager.eager_trace import EagerTrace
from ..needless_masks import Fragility
from .eager_rules import Slices

# A cotangent, or its mask: an array; where a gradient is entered in the trace, the node of one.
EagerValue: TypeAlias = Any


class Cotangents:
    """Cotangents of the nodes of a trace while they are pulled backwards, as values.

    `owned` tells which of them are arrays that nobody else holds, nor their masks.
    """

    def __init__(self, trace: EagerTrace, size: int | None) -> None:
        self.trace = trace
        self.builder = trace.builder
        self.size = size
        self.values, self.active = trace.builder.values, trace.builder.active
        self.count = len(trace.builder.nodes)
        self.bars: list[EagerValue] = [None] * self.count
        self.masks: dict[int, EagerValue] = {}
        self.fragile = Fragility(trace.builder.nodes, self.active)
        self.owned = bytearray(self.count)
        self.parts: dict[int, dict[int, tuple[object, object]]] = {}

    def accumulate(self, a: int, bar: object, mask: object, within: Slices | None = None) -> None:
        """Add to the cotangent of a node; the mask of a sum is the union of the masks.

        With `within`, `bar` is the cotangent of these slices of the node alone.
        """
        bars, owned = self.bars, self.owned
        before = bars[a]
        if within is not None:
            self.writable(a)[within] += bar
            return
        if mask is not None and not self.fragile.of_any((a,)):
            mask = None
        if before is None:
            bars[a] = bar
            if mask is not None:
                self.masks[a] = mask
            return
        bars[a] = self._add(before, bar)
        owned[a] = isinstance(bars[a], np.ndarray)
        if (there := self.masks.pop(a, None)) is not None and mask is not None:
            self.masks[a] = self._either(there, mask)

    def writable(self, a: int) -> np.ndarray:
        """The cotangent of a node as a private array that may be added to in place.

        It is masked no longer.
        """
        bars, before = self.bars, self.bars[a]
        if not self.owned[a]:
            type_ = self.builder.nodes[a].type
            bars[a] = np.zeros(self._shape(a), type_.dtype) if before is None else np.array(before)
            self.owned[a] = True
        self.masks.pop(a, None)
        return bars[a]

    def add_entries(self, a: int, spot: tuple[Any, ...], bar: object) -> None:
        """Add to some entries of the cotangent of a node, which its mask then has."""
        mask = None
        if self.fragile.of_any((a,)):
            new = self.bars[a] is None
            mask = np.zeros(self._shape(a), np.bool_) if new else self.masks.get(a)
        shared = not self.owned[a]
        self.writable(a)[spot] += bar
        if mask is not None:
            self.masks[a] = mask = np.array(mask) if shared else mask
            mask[spot] = True

    def mask_of(self, i: int, args: Sequence[int]) -> EagerValue:
        """The mask of the cotangent of a node that selects entries of `args`."""
        mask = self.masks.pop(i, None)
        return self.all_entries(i) if mask is None and self.fragile.of_any(args[:1]) else mask

    def all_entries(self, i: int) -> EagerValue:
        """The mask that keeps all entries of the cotangent of a node."""
        return np.ones(self._shape(i), np.bool_)

    def _shape(self, a: int) -> tuple[int, ...]:
        lead = () if self.size is None else (self.size,)
        return (*lead, *self.builder.nodes[a].type.shape)

    def _add(self, a: EagerValue, b: EagerValue) -> object:
        return a + b

    def _either(self, a: EagerValue, b: EagerValue) -> object:
        return np.logical_or(a, b)

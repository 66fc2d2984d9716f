"""Batched tangents as parts: the seeds that reach a node, and the box of its entries they reach.

The tangents of a node for all seeds are the sum of its parts, each of which is zero outside of its
seeds and its box. Parts are sliced and moved as views, and merged where an op needs them whole.

Dynamic sparsity in forward mode; C. H. Bischof, P. M. Khademi, A. Bouaricha and A. Carle, Efficient
computation of gradients and Jacobians by dynamic exploitation of sparsity in automatic
differentiation, Optim. Methods Softw. 7(1), 1996.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import fdiff.intact_numpy as np

from ...arraytype import Shape
from ...ops.elementwise import add
from ...ops.joining_and_splitting import concatenate
from ...ops.tangent_parts import (
    Box,
    Seeds,
    TangentPart,
    common,
    extent,
    full,
    hull,
    leading_axis,
    offset,
    seeds_of,
    volume,
)
from ...ops.view_ops import reshape, slice_, spread, transpose, unslice, update
from ...primitive import Primitive
from ...trace import Trace

SLACK = 1.5  # how much larger than its parts together what they are put into may be
MOST_JOINED = 1 << 12  # entries up to which parts are put together: beyond, a copy costs more
MOST_PARTS = 8  # of a node whose parts are large


class TangentParts:
    """How parts are cut and put together in a trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def add(self, op: Primitive, args: Sequence[int], **params: object) -> int:
        """Enter a node."""
        return self.trace.add(op, tuple(args), tuple(sorted(params.items())))

    def shape(self, node: int) -> Shape:
        return self.trace.builder.type(node).shape

    def broadcast(self, node: int, shape: Shape) -> int:
        return node if self.shape(node) == shape else self.add(spread, (node,), shape=shape)

    def reshaped(self, node: int, shape: Shape) -> int:
        return node if self.shape(node) == shape else self.add(reshape, (node,), shape=shape)

    def cut(self, node: int, spans: Box) -> int:
        """The entries of a node in a box."""
        if spans == full(self.shape(node)):
            return node
        starts, steps = tuple([lo for lo, _ in spans]), (1,) * len(spans)
        return self.add(slice_, (node,), sizes=extent(spans), starts=starts, steps=steps)

    def within(self, part: TangentPart, box: Box) -> TangentPart:
        """The part in a box inside its own."""
        spans = (*full(part.lead), *offset(box, part.box))
        return TangentPart(self.cut(part.node, spans), part.seeds, box)

    def place(
        self, op: Primitive, args: Sequence[int], lead: Shape, inner: Box, box: Box, **more: object
    ) -> int:
        """Enter an op that puts entries where a box lies within another."""
        starts = (*(0,) * len(lead), *[lo for lo, _ in offset(inner, box)])
        return self.add(op, args, starts=starts, steps=(1,) * len(starts), **more)

    def dtype(self, node: int) -> np.dtype:
        return self.trace.builder.type(node).dtype

    def zeros(self, shape: Shape, dtype: np.dtype) -> int:
        number = self.trace.number(0.0, dtype)
        return self.add(spread, (number,), shape=shape) if shape else number

    def _joined(self, nodes: Sequence[int], axis: int) -> int:
        return nodes[0] if len(nodes) == 1 else self.add(concatenate, nodes, axis=axis)

    def with_seed_axis(self, part: TangentPart) -> int:
        """The node of a part with a leading axis of seeds, even if there is only one seed."""
        return self.reshaped(part.node, (len(part.seeds), *extent(part.box)))

    # --- put together -------------------------------------------------------------------------

    def coalesced(self, parts: Sequence[TangentPart]) -> list[TangentPart]:
        """Parts merged where the result is small, or hardly larger than they are together."""
        if len(parts) == 1:
            return [*parts]
        groups: list[tuple[list[TangentPart], Seeds, Box]] = []
        for part in parts:
            for k, (there, seeds, box) in enumerate(groups):
                union = seeds_of((*there, part))
                around = hull(box, part.box)
                size = len(union) * volume(around)
                apart = size > MOST_JOINED and (seeds, box) != part[1:] and len(parts) <= MOST_PARTS
                if not apart and size <= SLACK * sum(p.volume for p in (*there, part)):
                    groups[k] = ([*there, part], union, around)
                    break
            else:
                groups.append(([part], part.seeds, part.box))
        return [self.merged(*group) for group in groups]

    def merged(self, parts: Sequence[TangentPart], seeds: Seeds, box: Box) -> TangentPart:
        """The sum of parts as one of these seeds and this box."""
        if len(parts) == 1 and parts[0][1:] == (seeds, box):
            return parts[0]
        boxes: dict[Box, list[TangentPart]] = {}
        for part in parts:
            boxes.setdefault(part.box, []).append(part)
        pieces = [(where, self._of_seeds(same, seeds)) for where, same in boxes.items()]
        return TangentPart(self._of_boxes(pieces, leading_axis(seeds), box), seeds, box)

    def seeds_behind(self, parts: Sequence[TangentPart], seeds: Seeds, box: Box, count: int) -> int:
        """The sum of parts, with the seed axis moved to number `count`.

        Parts whose seeds follow each other are transposed before they are concatenated, so that no
        entry is moved twice.
        """
        row = sorted(parts, key=lambda part: part.seeds)
        joins = len(row) > 1 and all(part.box == box for part in row)
        if not joins or tuple([s for part in row for s in part.seeds]) != seeds:
            row = [self.merged(parts, seeds, box)]
        axes = (*range(1, count + 1), 0, *range(count + 1, len(box) + 1))
        nodes = [self.add(transpose, (self.with_seed_axis(part),), axes=axes) for part in row]
        return self._joined(nodes, count)

    def seeds_in_front(self, node: int, seeds: Seeds, count: int) -> int:
        """A node with its seed axis, which is number `count`, moved to the front."""
        shape = self.shape(node)
        if len(seeds) == 1:
            return self.reshaped(node, (*shape[:count], *shape[count + 1 :]))
        axes = (count, *range(count), *range(count + 1, len(shape)))
        return self.add(transpose, (node,), axes=axes)

    def _of_seeds(self, parts: Sequence[TangentPart], seeds: Seeds) -> int:
        """The sum of parts of one box, for all `seeds`."""
        layers: list[list[TangentPart]] = []
        for part in parts:
            for layer in layers:
                if not any({*part.seeds} & {*other.seeds} for other in layer):
                    layer.append(part)
                    break
            else:
                layers.append([part])
        total = self._side_by_side(layers[0], seeds)
        for layer in layers[1:]:
            total = self.add(add, (total, self._side_by_side(layer, seeds)))
        return total

    def _side_by_side(self, parts: Sequence[TangentPart], seeds: Seeds) -> int:
        """Parts of one box that share no seed, one behind the other; zeros for other seeds."""
        if len(parts) == 1 and parts[0].seeds == seeds:
            return parts[0].node
        owner = {s: (p, k) for p, part in enumerate(parts) for k, s in enumerate(part.seeds)}
        runs: list[tuple[int, int, int]] = []  # part (-1: none), from and to
        for s in seeds:
            p, k = owner.get(s, (-1, 0 if not runs else runs[-1][2]))
            if runs and runs[-1][0] == p and runs[-1][2] == k:
                runs[-1] = (p, runs[-1][1], k + 1)
            else:
                runs.append((p, k, k + 1))
        inner, dtype = extent(parts[0].box), self.dtype(parts[0].node)
        pieces = [
            self.zeros((hi - lo, *inner), dtype)
            if p < 0
            else self.cut(self.with_seed_axis(parts[p]), ((lo, hi), *full(inner)))
            for p, lo, hi in runs
        ]
        return self._joined(pieces, 0)

    def _of_boxes(self, pieces: Sequence[tuple[Box, int]], lead: Shape, box: Box) -> int:
        """The sum of boxes, with zeros around them; a concatenation where they lie in a row."""
        axes = {k for where, _ in pieces for k, span in enumerate(where) if span != box[k]}
        if not axes:
            return pieces[0][1]
        if len(axes) == 1 and len(pieces) > 1:
            (axis,) = axes
            row = sorted(pieces, key=lambda piece: piece[0][axis])
            ends = [where[axis] for where, _ in row]
            if all(a[1] <= b[0] for a, b in pairwise(ends)):
                return self._row(row, axis, lead, box)
        shape = (*lead, *extent(box))
        total: int | None = None
        for k, (where, node) in enumerate(pieces):
            if total is not None and all(common(where, w) is None for w, _ in pieces[:k]):
                total = self.place(update, (total, node), lead, where, box)
                continue
            alone = node
            if where != box:
                alone = self.place(unslice, (node,), lead, where, box, shape=shape)
            total = alone if total is None else self.add(add, (total, alone))
        assert total is not None
        return total

    def _row(self, row: Sequence[tuple[Box, int]], axis: int, lead: Shape, box: Box) -> int:
        nodes: list[int] = []
        at, end = box[axis]
        shape = extent(box)
        for where, node in (*row, (None, -1)):
            lo, hi = (end, end) if where is None else where[axis]
            if at < lo:
                gap = (*lead, *shape[:axis], lo - at, *shape[axis + 1 :])
                nodes.append(self.zeros(gap, self.dtype(row[0][1])))
            if where is not None:
                nodes.append(node)
            at = hi
        return self._joined(nodes, len(lead) + axis)

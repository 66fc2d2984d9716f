"""Vectorisation of unrolled loops: equal computations whose results are joined become one batch.

They are joined by a concatenation, by stores side by side into an array until it is full, or by a
sum of terms that are sums themselves.

``np.stack([f(x, a[k]) for k in range(n)])`` is recorded as n computations that differ in nothing
but the slice of `a` that they read. Batched, `f` is entered once: the program is as long for every
n, its loops run over all entries at once, and it is as fast as its author would write it with
arrays. Sums within `f` are of the same terms.

Isomorphic computations are packed as in S. Larsen and S. Amarasinghe, Exploiting superword level
parallelism with multimedia instruction sets, PLDI 2000.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...arraytype import Shape
from ...named_tuples import NamedTuple
from ...ops.along_axes.reductions import sum_
from ...ops.entrywise.elementwise import add
from ...ops.linear_algebra.contraction import contract
from ...ops.shapes.subscripts import sizes_by_label
from ...ops.shapes.view_ops import reshape, slice_, spread, transpose
from ...primitive import Primitive
from ...tape import INPUT, Builder, Node, Tape, rebuild
from ..batch import batch
from ..simplify import Simplifier, spliceable
from .loop_joins import JOINS, LoopJoin, joins_of

Ids = tuple[int, ...]

MOST = 256 * 2**20  # bytes of one value of all together: one at a time, the others need no memory
# Products whose axes all have so many entries are fast one by one, and what they are made of still
# lies in the cache; where all parts multiply one array, a batch has to be put in another order.
LARGE, LARGE_SHARED = 64, 16
SUMS = (sum_, contract)
FEW, MANY = 4, 20  # entries of a sum that are written out; parts from which on that is slower
FAMILIES = ("elementwise", "reduction")
OTHERS = (reshape, transpose, spread, slice_, *SUMS)


def vectorise_loops(tape: Tape) -> Tape:
    """The same program, in which equal computations over slices that are joined are batched."""
    if not any(node.primitive in JOINS for node in tape.nodes):
        return tape
    users = tape.users()
    parts_of: dict[int, _IsomorphicParts] = {}
    for join in joins_of(tape, users):
        if join.node not in parts_of and (parts := _IsomorphicParts(tape, users, join)).applies:
            parts_of[join.node] = parts
    return (
        rebuild(tape, Simplifier(), {i: each.enter for i, each in parts_of.items()})
        if parts_of
        else tape
    )


class Slices(NamedTuple):
    """Equally spaced slices of one array, which can be read as one array with a batch axis."""

    source: int
    starts: Shape
    sizes: Shape
    steps: Shape
    axis: int
    shape: Shape  # of each, as it is used

    def enter(self, b: Builder, source: int, count: int) -> int:
        """Enter the array of all slices, with the batch axis first."""
        at, width = self.axis, self.sizes[self.axis]
        sizes = (*self.sizes[:at], count * width, *self.sizes[at + 1 :])
        x = source
        if sizes != b.type(source).shape:
            x = _add(b, slice_, source, starts=self.starts, sizes=sizes, steps=self.steps)
        x = _add(b, reshape, x, shape=(*self.sizes[:at], count, *self.sizes[at:]))
        axes = (at, *(k for k in range(len(sizes) + 1) if k != at))
        return _add(b, reshape, _add(b, transpose, x, axes=axes), shape=(count, *self.shape))


class _IsomorphicParts:
    """Comparison of the parts of one join: nodes they share, slices they read, equal operations."""

    def __init__(self, tape: Tape, users: list[list[int]], join: LoopJoin) -> None:
        self.nodes, self.lines, self.join = tape.nodes, tape.lines, join
        self.parts, self.count = join.parts, len(join.parts)
        self.common: dict[Ids, int] = {}  # nodes of all the parts, in the order of the parts
        self.slices: dict[Ids, Slices] = {}
        self.steps: dict[Ids, list[Ids]] = {}  # what is computed, and of what
        self.inner: set[int] = set()
        self.applies = (
            self._compare() and bool(self.slices) and self._private(tape, users) and self._pays()
        )

    def _pays(self) -> bool:
        """Whether a batch is faster than parts that are unrolled, which stay in registers.

        Sums of few entries for each of many rows are unrolled too, and terms without sums are best
        added one by one.
        """
        sums = [n for ids in self.steps if (n := self._summed(ids[0])) > 1]
        if not sums:
            return self.join.axis is not None
        single_entry = self.nodes[self.parts[0]].type.size == 1
        return single_entry or max(sums) > FEW or self.count >= MANY

    def _summed(self, i: int) -> int:
        """How many entries node `i` sums, or reduces otherwise, for one of its own."""
        node = self.nodes[i]
        if node.primitive.family != "reduction" and node.primitive not in SUMS:
            return 0
        sizes = _sizes(self.nodes, node) if node.primitive is contract else {}
        entries = math.prod(sizes.values()) if sizes else self.nodes[node.args[0]].type.size
        return entries // max(node.type.size, 1)

    def _compare(self) -> bool:
        """Walk all parts in lockstep from results to inputs; whether they are isomorphic."""
        stack, met = [self.parts], {self.parts}
        while stack:
            ids = stack.pop()
            if len(set(ids)) == 1:
                self.common[ids] = ids[0]
            elif (slices := self._slices(ids)) is not None:
                self.slices[ids] = slices
            elif self._equal(ids):
                self.inner.update(ids)
                args = [*zip(*(self.nodes[i].args for i in ids), strict=True)]
                self.steps[ids] = args
                stack += {a for a in args if a not in met}
                met.update(args)
            else:
                return False
        return True

    def _equal(self, ids: Ids) -> bool:
        """Whether these nodes, one of each part, have the same op, parameters and types."""
        primitive, _, params, types = self.nodes[ids[0]]
        batches = primitive.family in FAMILIES or primitive in OTHERS
        return (
            batches
            and len(types) == 1
            and self.count * types[0].size * types[0].dtype.itemsize <= MOST
            and all(
                node.primitive is primitive and node.params == params and node.types == types
                for node in (self.nodes[i] for i in ids[1:])
            )
            and len(set(ids)) == self.count
            and self.inner.isdisjoint(ids)
            and not (primitive is contract and self._large(ids))
        )

    def _large(self, ids: Ids) -> bool:
        """Whether these are matrix products so large that a batch would be slower."""
        size = _sizes(self.nodes, self.nodes[ids[0]])
        each = [*zip(*(self.nodes[i].args for i in ids), strict=True)]
        shared = any(len(set(args)) == 1 for args in each)
        return len(size) > 2 and min(size.values()) >= (LARGE_SHARED if shared else LARGE)

    def _slices(self, ids: Ids) -> Slices | None:
        """These nodes as equally spaced slices of one array, if they are (perhaps reshaped)."""
        nodes = [self.nodes[i] for i in ids]
        shape = nodes[0].type.shape
        if all(n.primitive is reshape and n.type.shape == shape for n in nodes):
            nodes = [self.nodes[n.args[0]] for n in nodes]
        if any(n.primitive is not slice_ for n in nodes):
            return None
        params = [dict(n.params) for n in nodes]
        starts, sizes, steps = params[0]["starts"], params[0]["sizes"], params[0]["steps"]
        if any(
            n.args != nodes[0].args or t["sizes"] != sizes or t["steps"] != steps
            for n, t in zip(nodes, params, strict=True)
        ):
            return None
        moved = [
            k for k, (a, b) in enumerate(zip(starts, params[1]["starts"], strict=True)) if a != b
        ]
        if len(moved) != 1:
            return None
        (at,) = moved
        stride = params[1]["starts"][at] - starts[at]
        expected = tuple(
            (*starts[:at], starts[at] + k * stride, *starts[at + 1 :]) for k in range(self.count)
        )
        adjacent = sizes[at] == 1 or (stride == sizes[at] and steps[at] == 1)
        if (
            stride < 1
            or not adjacent
            or any(t["starts"] != a for t, a in zip(params, expected, strict=True))
        ):
            return None
        steps = (*steps[:at], stride if sizes[at] == 1 else 1, *steps[at + 1 :])
        return Slices(nodes[0].args[0], starts, sizes, steps, at, shape)

    def _private(self, tape: Tape, users: list[list[int]]) -> bool:
        """Whether only the parts read their intermediate values (others would need them twice)."""
        own = {*self.inner, *self.join.chain}
        return self.inner.isdisjoint(tape.outputs) and all(
            own.issuperset(users[i]) for i in self.inner
        )

    def enter(self, b: Simplifier, places: Mapping[int, int]) -> int:
        """Enter the batched computation and its join; `places` maps old ids to new."""
        template, ids = Builder(), list[int]()
        at: dict[Ids, int] = {}
        for leaf, slices in self.slices.items():
            ids.append(slices.enter(b, places[slices.source], self.count))
            at[leaf] = template.input(self.nodes[leaf[0]].type)
        for leaf, i in self.common.items():
            if self.nodes[i].args or self.nodes[i].primitive is INPUT:
                ids.append(places[i])
                at[leaf] = template.input(self.nodes[i].type)
            else:  # a constant, which rules may want to see
                at[leaf] = template.add(*_leaf_arguments(self.nodes[i]))
        for step in sorted(self.steps):
            primitive, _, params, types = self.nodes[step[0]]
            args = tuple([at[a] for a in self.steps[step]])
            line = self.lines[step[0]][0] if step[0] in self.lines else None
            at[step] = template.add(primitive, args, params, line, types)
        mapped = [k < len(self.slices) for k in range(len(ids))]
        wide = batch(template.finish([at[self.parts]]), mapped, self.count)
        steps, (out,), *_ = spliceable(wide)
        lines = [
            wide.lines.get(i) for i, node in enumerate(wide.nodes) if node.primitive is not INPUT
        ]
        for step, line in zip(steps, lines, strict=True):
            b.splice([step], ids, line[0] if line else None)
        if self.join.axis is not None:
            return self._with_axis_moved(b, ids[out], self.join.axis)
        total = _add(b, sum_, ids[out], axes=(0,))
        if self.join.start is None:
            return total
        return b.add(add, (places[self.join.start], total))

    def _with_axis_moved(self, b: Builder, x: int, axis: int) -> int:
        """Move the batch axis of `x` to where the join has it."""
        node = self.nodes[self.join.node]
        count, *shape = b.type(x).shape
        if shape[axis] == 1:  # stacked: no axis of one entry is to be moved
            x = _add(b, reshape, x, shape=(count, *shape[:axis], *shape[axis + 1 :]))
        axes = (*range(1, axis + 1), 0, *range(axis + 1, len(b.type(x).shape)))
        return _add(b, reshape, _add(b, transpose, x, axes=axes), shape=node.type.shape)


def _sizes(nodes: Sequence[Node], product: Node) -> dict[str, int]:
    """The sizes of the axes of a product, by their labels."""
    a, b = [nodes[a].type for a in product.args]
    return sizes_by_label(product.param("subscripts"), a, b)


def _leaf_arguments(node: Node) -> tuple[Any, ...]:
    """The parameters with which a builder enters a node without arguments."""
    return node.primitive, (), node.params, None, node.types


def _add(b: Builder, op: Primitive, x: int, **params: object) -> int:
    return b.add(op, (x,), tuple(sorted(params.items())))

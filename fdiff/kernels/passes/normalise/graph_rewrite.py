"""The base of passes over kernel graphs: a new graph, and the new place of each old operation.

`store_reloading.py`, which adds slices alone, and reorders, needs only `renumbered`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ....kernel_rule import Kind
from ...ir.index_expressions import Axes, Dims, is_identity
from ...ir.kernel_graph import KernelGraph, Operation


class GraphRewrite:
    """A new graph in the making: its operations, and which of them stands for each old one."""

    def __init__(self, graph: KernelGraph) -> None:
        self.graph, self.old = graph, graph.ops
        self.ops: list[Operation] = []
        self.place: dict[int, int] = {}  # numbers of new operations by numbers of old ones

    def add(self, op: Operation) -> int:
        """The number of a new operation."""
        self.ops.append(op)
        return len(self.ops) - 1

    def keep(self, i: int) -> None:
        """Take over old operation `i`, which reads what stands for its operands."""
        op = self.old[i]
        self.place[i] = self.add(op.reading(tuple([self.place[a] for a in op.args])))

    def reshaped(self, i: int, dims: Dims) -> int:
        """New operation `i` in another shape."""
        return self._of_shape(Kind.RESHAPE, i, dims)

    def broadcast(self, i: int, dims: Dims) -> int:
        """New operation `i`, repeated along axes of size one."""
        return self._of_shape(Kind.BROADCAST, i, dims)

    def _of_shape(self, kind: Kind, i: int, dims: Dims) -> int:
        op = self.ops[i]
        return i if op.dims == dims else self.add(Operation(kind, "", (i,), op.dtypes, (dims,)))

    def transposed(self, i: int, axes: Axes) -> int:
        """New operation `i` with its axes in another order."""
        if is_identity(axes):
            return i
        op = self.ops[i]
        dims = tuple(op.dims[a] for a in axes)
        return self.add(Operation(Kind.TRANSPOSE, "", (i,), op.dtypes, (dims,), (("axes", axes),)))

    def copied(self, i: int) -> int:
        """New operation `i` in memory of its own, in row-major order."""
        op = self.ops[i]
        return self.add(Operation(Kind.COPY, "{0}", (i,), op.dtypes, op.shapes))

    def finished(self) -> KernelGraph:
        """The new graph, in which `place` has every input and output of the old one."""
        return renumbered(self.graph, self.ops, self.place)


def renumbered(
    graph: KernelGraph, ops: Sequence[Operation], place: Mapping[int, int] | Sequence[int]
) -> KernelGraph:
    """The graph with other operations; `place` tells which of them each old one has become."""
    inputs, outputs = (tuple(place[i] for i in ids) for ids in (graph.inputs, graph.outputs))
    return replace(graph, ops=tuple(ops), inputs=inputs, outputs=outputs)


def pruned(graph: KernelGraph) -> KernelGraph:
    """The graph without operations that nothing reads (S. S. Muchnick 1997, section 18.10)."""
    live = {*graph.inputs, *graph.outputs}
    for i in range(len(graph.ops) - 1, -1, -1):
        if i in live:
            live.update(graph.ops[i].args)
    place = {old: new for new, old in enumerate(sorted(live))}
    ops = [graph.ops[i].reading(tuple([place[a] for a in graph.ops[i].args])) for i in place]
    return renumbered(graph, ops, place)

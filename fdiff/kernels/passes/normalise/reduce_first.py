"""Reduction before contraction: a sum over an axis of a product is taken before the product.

``sum(y @ a, axis=0)`` is ``sum(y, axis=0) @ a``, which needs no product of matrices (the
generalised distributive law: Aji and McEliece, IEEE Trans. Inf. Theory 46, 2000, section I). The
sum moves to the product through signs, sums, transposes, and factors constant along the axis.
"""

from __future__ import annotations

from ....kernel_rule import Kind
from ...ir.index_expressions import ONE, Axes, Dims
from ...ir.kernel_graph import KernelGraph, Operation, is_masked, subscripts_data, users_of
from .graph_rewrite import GraphRewrite, pruned


def reduce_first(graph: KernelGraph) -> KernelGraph:
    """The graph with sums taken before products."""
    new = _SumsFirst(graph)
    for i, op in enumerate(graph.ops):
        if op.kind is Kind.SUM and op.dtype[0] == "f" and new.reaches(op.args[0], op.axes):
            new.place[i] = new.total(op.args[0], op.axes, op)
        else:
            new.keep(i)
    return pruned(new.finished()) if new.totals else graph


class _SumsFirst(GraphRewrite):
    """The graph in the making; `totals` has the sums that were made, by operand and axes."""

    def __init__(self, graph: KernelGraph) -> None:
        super().__init__(graph)
        self.users = users_of(graph)
        self.totals: dict[tuple[int, Axes], int] = {}

    def reaches(self, i: int, axes: Axes) -> bool:
        """Whether a sum of old operation `i` can be moved to a product that nothing else reads."""
        op = self.old[i]
        if len(self.users[i]) > 1 or i in self.graph.outputs:
            return False
        if op.kind is Kind.CONTRACT:
            if any(is_masked(self.old, a) for a in op.args):
                return False
            left, right, out = op.subscripts
            return op.dtype[0] == "f" and all((out[a] in left) != (out[a] in right) for a in axes)
        return any(self.reaches(a, own) for a, own in self._operands_to_sum(i, axes))

    def _operands_to_sum(self, i: int, axes: Axes) -> list[tuple[int, Axes]]:
        """The operands of `i` that are summed if the sum moves through `i`, with the axes of each.

        None are if it cannot move through it.
        """
        op = self.old[i]
        if op.kind is Kind.NEGATIVE:
            return [(op.args[0], axes)]
        if op.kind is Kind.TRANSPOSE:
            return [(op.args[0], tuple(sorted(op.axes[a] for a in axes)))]
        if op.kind in (Kind.ADD, Kind.SUBTRACT):
            whole = all(self.old[a].dims == op.dims for a in op.args)
            return [(a, axes) for a in op.args] if whole else []
        if op.kind is Kind.MULTIPLY and (k := self._factor(op, axes)) is not None:
            return [(op.args[1 - k], axes)]
        return []

    def _factor(self, op: Operation, axes: Axes) -> int | None:
        """The number of the factor of a multiplication that is constant along `axes`, if one is."""
        for k, (a, other) in enumerate(zip(op.args, reversed(op.args), strict=True)):
            own = self.old[a].dims
            lead = len(op.dims) - len(own)
            same = all(x < lead or own[x - lead] == ONE != op.dims[x] for x in axes)
            if same and self.old[other].dims == op.dims:
                return k
        return None

    def total(self, i: int, axes: Axes, like: Operation) -> int:
        """The sum of old operation `i` over `axes`; each is made once."""
        if (i, axes) not in self.totals:
            self.totals[i, axes] = self._total(i, axes, like)
        return self.totals[i, axes]

    def _total(self, i: int, axes: Axes, like: Operation) -> int:
        """A new operation for the sum of old operation `i` over `axes`."""
        op = self.old[i]
        dims = _without(op.dims, axes)
        if op.kind is Kind.CONTRACT and self.reaches(i, axes):
            return self._product(op, axes, like)
        inner = self._operands_to_sum(i, axes)
        if not inner or op.dtype != like.dtype:
            data = (("axes", axes),)
            return self.add(like._replace(args=(self.place[i],), shapes=(dims,), data=data))
        args = [self.total(a, own, like) for a, own in inner]
        if op.kind is Kind.TRANSPOSE:
            stays = sorted(x for x in op.axes if x not in inner[0][1])
            order = tuple(stays.index(op.axes[a]) for a in range(len(op.axes)) if a not in axes)
            return self.add(op._replace(args=(args[0],), shapes=(dims,), data=(("axes", order),)))
        if op.kind is Kind.MULTIPLY:
            k = self._factor(op, axes)
            assert k is not None
            args.insert(k, self._narrowed(op.args[k], axes, len(op.dims)))
        return self.add(op._replace(args=tuple(args), shapes=(dims,)))

    def _narrowed(self, i: int, axes: Axes, rank: int) -> int:
        """Old operation `i` without the axes of size one that meet `axes` of a result."""
        op = self.old[i]
        lead = rank - len(op.dims)
        dims = _without(op.dims, tuple(x - lead for x in axes if x >= lead))
        return self.reshaped(self.place[i], dims)

    def _product(self, op: Operation, axes: Axes, like: Operation) -> int:
        """The contraction `op` of operands that are summed over `axes` of its result."""
        left, right, out = op.subscripts
        gone = {out[a] for a in axes}
        sides = []
        for a, side in zip(op.args, (left, right), strict=True):
            own = tuple(k for k, x in enumerate(side) if x in gone)
            sides.append(self.total(a, own, like) if own else self.place[a])
        left, right, out = ("".join(x for x in t if x not in gone) for t in (left, right, out))
        data = subscripts_data(left, right, out)
        dims = _without(op.dims, axes)
        return self.add(op._replace(args=tuple(sides), shapes=(dims,), data=data))


def _without(dims: Dims, axes: Axes) -> Dims:
    return tuple(d for k, d in enumerate(dims) if k not in axes)

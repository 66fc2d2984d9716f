"""Data layout: arrays of many short rows are computed with the axis of the rows innermost.

Of 10,000 points with 25 distances each, a loop over the distances of one point is too short for
vectors, and a sum along it would wait for each addition. With the axis of the points last, all
inner loops run over points (structure of arrays). Which axis has the rows is named by the graph
(`ir/small_sizes.py: many_rows`). Inputs are copied to the new order, except where a matrix product
reads them as they are; outputs are transposed back. If some op has no rule for the new order, the
graph stays as it is.

An idea of S.-T. Leung and J. Zahorjan, Optimizing data locality by array restructuring, University
of Washington 1995; docs/decisions/row-tiling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from ....kernel_rule import Kind
from ...ir.index_expressions import ONE, WHOLE, Axes, Dims, Slices, inverse, nonunit, same_nonunit
from ...ir.kernel_graph import Data, KernelGraph, Operation, subscripts_data
from .graph_rewrite import GraphRewrite, pruned


def rows_innermost(graph: KernelGraph) -> KernelGraph:
    """The graph with the row axis moved to the innermost position."""
    if not graph.rows:
        return graph
    new = _RowsLast(graph)
    for i, op in enumerate(graph.ops):
        if not new.rewrite(i, op):
            return graph
    for o in graph.outputs:
        new.in_own_order(o)
    return pruned(new.finished())


class _RowsLast(GraphRewrite):
    """The graph with its rows last: what stands for old operations in that order is in `moved`.

    `place` has what stands for them with their axes in the order they had.
    """

    def __init__(self, graph: KernelGraph) -> None:
        super().__init__(graph)
        self.axis = graph.rows
        self.moved: dict[int, int] = {}

    def rewrite(self, i: int, op: Operation) -> bool:
        """Add what stands for operation `i`; False if there is no rule that moves its rows."""
        own = self.row_axis(op.dims)
        read = [a for a in op.args if self.row_axis(self.old[a].dims) is not None]
        rule = _RULES.get(op.kind) or (_elementwise if op.text else None)
        if op.kind.is_leaf or len(op.shapes) > 1 or (own is None and not read):
            rule = None
        rewritten = rule(self, op) if rule is not None else None
        if rewritten is not None and own is not None:
            self.moved[i] = self.add(rewritten)
        elif rewritten is not None:
            self.place[i] = self.add(rewritten)
        elif op.kind.is_leaf or self.are_innermost((*op.shapes, *(self.old[a].dims for a in read))):
            self.place[i] = self.add(op.reading(tuple([self.in_own_order(a) for a in op.args])))
        else:
            return False
        return True

    def row_axis(self, dims: Dims) -> int | None:
        """The position of the row axis in a shape; None if the shape has no row axis."""
        return dims.index(self.axis) if dims.count(self.axis) == 1 else None

    def are_innermost(self, shapes: Iterable[Dims]) -> bool:
        """Whether the row axis is the last axis of every shape that has it."""
        return all(self.axis not in d or d.index(self.axis) == len(d) - 1 for d in shapes)

    def in_own_order(self, i: int) -> int:
        """The new operation for old operation `i`, with its axes in their old order."""
        if i not in self.place:
            dims = self.old[i].dims
            at = self.row_axis(dims)
            assert at is not None
            self.place[i] = self.transposed(self.moved[i], inverse(_order(len(dims), at)))
        return self.place[i]

    def last(self, i: int) -> int:
        """The new operation for old operation `i`, with its rows last; inputs are copied."""
        if i not in self.moved:
            dims = self.old[i].dims
            at = self.row_axis(dims)
            if at is None:
                return self.place[i]
            new = self.transposed(self.place[i], _order(len(dims), at))
            self.moved[i] = self.copied(new) if self.ops[new].kind is Kind.TRANSPOSE else new
        return self.moved[i]

    def transposed(self, i: int, axes: Axes) -> int:
        """New operation `i` with its axes in another order."""
        dims = self.ops[i].dims
        wide = [a for a in axes if dims[a] != ONE]
        if wide == sorted(wide):  # only axes of one entry move: a reshape does that
            return self.reshaped(i, tuple(dims[a] for a in axes))
        return super().transposed(i, axes)

    def broadcastable(self, i: int, dims: Dims) -> int | None:
        """The stand-in for operand `i`, rows last, to be broadcast to a result of shape `dims`.

        None if its row axis is not the row axis of the result.
        """
        own = self.old[i].dims
        at, lead = self.row_axis(dims), len(dims) - len(own)
        if at is None:
            return None if self.axis in own else self.place[i]
        if self.axis in own:
            return self.last(i) if self.row_axis(own) == at - lead else None
        if not nonunit(own):
            return self.place[i]
        padded = (*(ONE for _ in range(lead)), *own)
        return self.reshaped(self.place[i], tuple(padded[k] for k in _order(len(dims), at)))


def _order(rank: int, at: int) -> Axes:
    """The permutation of `rank` axes that moves axis `at` to the end."""
    return (*(k for k in range(rank) if k != at), at)


def _with_rows_last(
    new: _RowsLast, op: Operation, args: list[int | None], data: Data | None = None
) -> Operation | None:
    """The operation on these operands with its rows last; None if one of the operands is None."""
    operands = [a for a in args if a is not None]
    if len(operands) < len(args):
        return None
    at, dims = new.row_axis(op.dims), op.dims
    if at is not None:
        dims = tuple(dims[k] for k in _order(len(dims), at))
    return op._replace(args=tuple(operands), shapes=(dims,), data=op.data if data is None else data)


def _elementwise(new: _RowsLast, op: Operation) -> Operation | None:
    """An elementwise operation or a broadcast."""
    return _with_rows_last(new, op, [new.broadcastable(a, op.dims) for a in op.args])


def _reduced(new: _RowsLast, op: Operation) -> Operation | None:
    """A reduction over any axes."""
    (a,) = op.args
    dims = new.old[a].dims
    at = new.row_axis(dims)
    if at is None:
        return None
    order = _order(len(dims), at)
    axes = tuple(sorted(order.index(k) for k in op.axes))
    others = {name: value for name, value in op.parameters.items() if name != "axes"}
    return _with_rows_last(new, op, [new.last(a)], (*others.items(), ("axes", axes)))


def _contracted(new: _RowsLast, op: Operation) -> Operation | None:
    """A contraction; a matrix product reads inputs in either order, without a copy."""
    *sides, out = op.subscripts
    matrices = _is_matrix_product(new, op)
    args: list[int | None] = []
    for k, a in enumerate(op.args):
        at = new.row_axis(new.old[a].dims)
        if at is None or (matrices and new.old[a].kind.is_leaf):
            args.append(new.in_own_order(a))
        else:
            args.append(new.last(a))
            sides[k] = "".join(sides[k][x] for x in _order(len(sides[k]), at))
    at = new.row_axis(op.dims)
    result = out if at is None else "".join(out[x] for x in _order(len(out), at))
    return _with_rows_last(new, op, args, subscripts_data(sides[0], sides[1], result))


def _is_matrix_product(new: _RowsLast, op: Operation) -> bool:
    """Whether each operand has an axis that the other lacks, and both share one that is summed.

    Axes of size one do not count.
    """
    *sides, out = op.subscripts
    wide = [
        {x for x, d in zip(side, new.old[a].dims, strict=True) if d != ONE}
        for side, a in zip(sides, op.args, strict=True)
    ]
    return bool(wide[0] - wide[1] and wide[1] - wide[0] and (wide[0] & wide[1]) - set(out))


def _transposed(new: _RowsLast, op: Operation) -> Operation | None:
    """A transpose that keeps the row axis."""
    (a,) = op.args
    before, after = (new.row_axis(dims) for dims in (new.old[a].dims, op.dims))
    if before is None or after is None:
        return None
    first, then = (_order(len(op.dims), at) for at in (before, after))
    axes = tuple(first.index(op.axes[k]) for k in then)
    return _with_rows_last(new, op, [new.last(a)], (("axes", axes),))


def _reshaped(new: _RowsLast, op: Operation) -> Operation | None:
    """A reshape that keeps the row axis: as the first axis, or between unchanged axes."""
    (a,) = op.args
    dims = new.old[a].dims
    if new.row_axis(dims) is None or new.row_axis(op.dims) is None:
        return None
    first = nonunit(dims)[0] == nonunit(op.dims)[0] == new.axis
    if not (first or same_nonunit(dims, op.dims)):
        return None
    return _with_rows_last(new, op, [new.last(a)])


def _sliced(new: _RowsLast, op: Operation) -> Operation | None:
    """A slice that takes all rows, or the transpose of such a slice."""
    (a,) = op.args
    pairs = _slices_rows_last(new, op.slices, new.old[a].dims, op.dims)
    if pairs is None:
        return None
    return _with_rows_last(new, op, [new.last(a)], op.region._replace(slices=pairs))


def _placed_in_slices(new: _RowsLast, op: Operation) -> Operation | None:
    """Operands placed in slices of the result that take all rows."""
    data = [
        _slices_rows_last(new, cast("Slices", pairs), new.old[a].dims, op.dims)
        for a, pairs in zip(op.args, op.data, strict=True)
    ]
    if None in data:
        return None
    return _with_rows_last(new, op, [new.last(a) for a in op.args], tuple(data))


def _slices_rows_last(new: _RowsLast, pairs: Slices, dims: Dims, other: Dims) -> Slices | None:
    """Starts and steps with the row axis last; None if the slice takes only some of the rows."""
    at = new.row_axis(dims)
    if at is None or new.row_axis(other) != at or pairs[at] != WHOLE:
        return None
    return tuple(pairs[k] for k in _order(len(dims), at))


def _concatenation(new: _RowsLast, op: Operation) -> Operation | None:
    """Concatenation along an axis that is not the row axis."""
    at, axis = new.row_axis(op.dims), op.parameter("axis", int)
    if at is None or axis == at or any(new.row_axis(new.old[a].dims) != at for a in op.args):
        return None
    data = (("axis", axis - (axis > at)),)
    return _with_rows_last(new, op, [new.last(a) for a in op.args], data)


_RULES: dict[str, Callable[[_RowsLast, Operation], Operation | None]] = {
    Kind.BROADCAST: _elementwise,
    **dict.fromkeys((k for k in Kind if k.is_reduction), _reduced),
    Kind.CONTRACT: _contracted,
    Kind.TRANSPOSE: _transposed,
    Kind.RESHAPE: _reshaped,
    Kind.SLICE: _sliced,
    Kind.UNSLICE: _sliced,
    Kind.CONCATENATE: _concatenation,
    Kind.PLACE: _placed_in_slices,
}

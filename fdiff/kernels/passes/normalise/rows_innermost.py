"""Arrays of many short rows are laid out with the rows innermost.

Of 10,000 points with 25 distances each, a loop over the distances of one point is too short for
vectors, and its sum would wait for each addition. With the axis of the points last, every loop is
over points: what was a sum along a row adds up vectors, entry by entry. Which axis has the rows is
a fact of the graph (`ir/small_sizes.py: many_rows`); here the axis goes behind the others in all
that is computed. Inputs are copied in that order, products of matrices read them as they are, and
outputs are put back. Where an op knows no other order of axes, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

from ....kernel_rule import Kind
from ...ir.graph import Data, KernelGraph, Operation
from ...ir.indexing import ONE, Dims, nonunit, same_nonunit
from .component_graph import Slices
from .scalarise import pruned

Axes = tuple[int, ...]


def rows_innermost(graph: KernelGraph) -> KernelGraph:
    """The same graph with the row axis moved to the innermost position."""
    if not graph.rows:
        return graph
    new = _Rewrite(graph)
    for i, op in enumerate(graph.ops):
        if not new.rewrite(i, op):
            return graph
    inputs = tuple(new.plain[i] for i in graph.inputs)
    outputs = tuple(new.whole(o) for o in graph.outputs)
    return pruned(replace(graph, ops=tuple(new.ops), inputs=inputs, outputs=outputs))


class _Rewrite:
    """Old operations in their own order (`plain`), or with the rows last (`moved`)."""

    def __init__(self, graph: KernelGraph) -> None:
        self.old, self.axis = graph.ops, graph.rows
        self.ops: list[Operation] = []
        self.plain: dict[int, int] = {}
        self.moved: dict[int, int] = {}

    def add(self, op: Operation) -> int:
        self.ops.append(op)
        return len(self.ops) - 1

    def rewrite(self, i: int, op: Operation) -> bool:
        """Enter what replaces operation `i`; False if it has no form with the rows last."""
        own = self.place(op.dims)
        read = [a for a in op.args if self.place(self.old[a].dims) is not None]
        rule = _RULES.get(op.kind) or (_elementwise if op.text else None)
        if op.kind.is_leaf or len(op.shapes) > 1 or (own is None and not read):
            rule = None
        made = rule(self, op) if rule is not None else None
        if made is not None and own is not None:
            self.moved[i] = self.add(made)
        elif made is not None:
            self.plain[i] = self.add(made)
        elif op.kind.is_leaf or self.are_innermost((*op.shapes, *(self.old[a].dims for a in read))):
            self.plain[i] = self.add(op.reading(tuple([self.whole(a) for a in op.args])))
        else:
            return False
        return True

    def place(self, dims: Dims) -> int | None:
        """The position of the row axis in a shape; None if the shape has no row axis."""
        return dims.index(self.axis) if dims.count(self.axis) == 1 else None

    def are_innermost(self, shapes: Iterable[Dims]) -> bool:
        """Whether the row axis is the last axis of every shape that has it."""
        return all(self.axis not in d or d.index(self.axis) == len(d) - 1 for d in shapes)

    def whole(self, i: int) -> int:
        """Old operation `i` with its axes in their own order."""
        if i not in self.plain:
            dims = self.old[i].dims
            at, rank = self.place(dims), len(dims)
            assert at is not None
            back = (*range(at), rank - 1, *range(at, rank - 1))
            self.plain[i] = self.turned(self.moved[i], back)
        return self.plain[i]

    def last(self, i: int) -> int:
        """Old operation `i` with its rows last: an input is copied in that order."""
        if i not in self.moved:
            dims = self.old[i].dims
            at = self.place(dims)
            if at is None:
                return self.plain[i]
            turned = self.turned(self.plain[i], _order(len(dims), at))
            op = self.ops[turned]
            if op.kind is Kind.TRANSPOSE:
                turned = self.add(Operation(Kind.COPY, "{0}", (turned,), op.dtypes, op.shapes))
            self.moved[i] = turned
        return self.moved[i]

    def turned(self, i: int, axes: Axes) -> int:
        """New operation `i` with its axes in another order."""
        op = self.ops[i]
        dims = tuple(op.dims[a] for a in axes)
        wide = [a for a in axes if op.dims[a] != ONE]
        if wide == sorted(wide):  # axes of one entry move alone
            return self.shaped(i, dims)
        return self.add(Operation(Kind.TRANSPOSE, "", (i,), op.dtypes, (dims,), (("axes", axes),)))

    def shaped(self, i: int, dims: Dims) -> int:
        """New operation `i` in another shape."""
        op = self.ops[i]
        if op.dims == dims:
            return i
        return self.add(Operation(Kind.RESHAPE, "", (i,), op.dtypes, (dims,)))

    def broadcastable(self, i: int, dims: Dims) -> int | None:
        """Old operation `i`, rows last, shaped to broadcast against a result of shape `dims`."""
        own = self.old[i].dims
        at, lead = self.place(dims), len(dims) - len(own)
        if at is None:
            return None if self.axis in own else self.plain[i]
        if self.axis in own:
            return self.last(i) if self.place(own) == at - lead else None
        if not nonunit(own):
            return self.plain[i]
        spread = (*(ONE for _ in range(lead)), *own)
        return self.shaped(self.plain[i], tuple(spread[k] for k in _order(len(dims), at)))


def _order(rank: int, at: int) -> Axes:
    """The permutation of `rank` axes that moves axis `at` to the end."""
    return (*(k for k in range(rank) if k != at), at)


def _behind(dims: Dims, at: int | None) -> Dims:
    return dims if at is None else tuple(dims[k] for k in _order(len(dims), at))


def _made(
    new: _Rewrite, op: Operation, args: list[int | None], data: Data | None = None
) -> Operation | None:
    """The operation with its rows last; None if one of its operands has no such form."""
    known = [a for a in args if a is not None]
    if len(known) < len(args):
        return None
    dims = _behind(op.dims, new.place(op.dims))
    return op._replace(args=tuple(known), shapes=(dims,), data=op.data if data is None else data)


def _elementwise(new: _Rewrite, op: Operation) -> Operation | None:
    return _made(new, op, [new.broadcastable(a, op.dims) for a in op.args])


def _reduced(new: _Rewrite, op: Operation) -> Operation | None:
    """A reduction, over the row axis or over other axes."""
    (a,) = op.args
    dims = new.old[a].dims
    at = new.place(dims)
    if at is None:
        return None
    order = _order(len(dims), at)
    axes = tuple(sorted(order.index(k) for k in op.axes))
    others = tuple((k, v) for k, v in op.data if k != "axes")  # type: ignore[misc] - pairs
    return _made(new, op, [new.last(a)], (*others, ("axes", axes)))


def _contracted(new: _Rewrite, op: Operation) -> Operation | None:
    """A product; matrix products read inputs in either order of axes, without a copy."""
    subscripts = op.parameter("subscripts", str)
    inputs, out = subscripts.split("->")
    sides = inputs.split(",")
    matrices = _matrices(new, op, sides, out)
    args: list[int | None] = []
    for k, a in enumerate(op.args):
        at = new.place(new.old[a].dims)
        if at is None or (matrices and new.old[a].kind.is_leaf):
            args.append(new.whole(a))
        else:
            args.append(new.last(a))
            sides[k] = "".join(sides[k][x] for x in _order(len(sides[k]), at))
    at = new.place(op.dims)
    result = out if at is None else "".join(out[x] for x in _order(len(out), at))
    return _made(new, op, args, (("subscripts", f"{','.join(sides)}->{result}"),))


def _matrices(new: _Rewrite, op: Operation, sides: list[str], out: str) -> bool:
    """Whether it is a matrix product: both operands have free axes, and they share summed ones."""
    wide = [
        {x for x, d in zip(side, new.old[a].dims, strict=True) if d != ONE}
        for side, a in zip(sides, op.args, strict=True)
    ]
    return bool(wide[0] - wide[1] and wide[1] - wide[0] and (wide[0] & wide[1]) - set(out))


def _transposed(new: _Rewrite, op: Operation) -> Operation | None:
    (a,) = op.args
    before, after = (new.place(dims) for dims in (new.old[a].dims, op.dims))
    if before is None or after is None:
        return None
    first, then = (_order(len(op.dims), at) for at in (before, after))
    axes = tuple(first.index(op.axes[k]) for k in then)
    return _made(new, op, [new.last(a)], (("axes", axes),))


def _reshaped(new: _Rewrite, op: Operation) -> Operation | None:
    """A reshape that keeps the row axis: as the first axis, or between unchanged axes."""
    (a,) = op.args
    dims = new.old[a].dims
    if new.place(dims) is None or new.place(op.dims) is None:
        return None
    first = nonunit(dims)[0] == nonunit(op.dims)[0] == new.axis
    if not (first or same_nonunit(dims, op.dims)):
        return None
    return _made(new, op, [new.last(a)])


def _sliced(new: _Rewrite, op: Operation) -> Operation | None:
    """A slice that keeps all rows, or its adjoint."""
    (a,) = op.args
    pairs = _turned_slices(new, op.slices, new.old[a].dims, op.dims)
    if pairs is None:
        return None
    return _made(new, op, [new.last(a)], (*pairs, *op.data[len(op.dims) :]))


def _placed(new: _Rewrite, op: Operation) -> Operation | None:
    """Arrays joined along an axis that is not the row axis."""
    data = [
        _turned_slices(new, cast("Slices", pairs), new.old[a].dims, op.dims)
        for a, pairs in zip(op.args, op.data, strict=True)
    ]
    if None in data:
        return None
    return _made(new, op, [new.last(a) for a in op.args], tuple(data))


def _turned_slices(new: _Rewrite, pairs: Slices, dims: Dims, other: Dims) -> Slices | None:
    """Starts and steps with the row axis last; None if the slice takes only some of the rows."""
    at = new.place(dims)
    if at is None or new.place(other) != at or pairs[at] != ("0", "1"):
        return None
    return tuple(pairs[k] for k in _order(len(dims), at))


def _joined(new: _Rewrite, op: Operation) -> Operation | None:
    """Concatenation along an axis that is not the row axis."""
    at, axis = new.place(op.dims), op.parameter("axis", int)
    if at is None or axis == at or any(new.place(new.old[a].dims) != at for a in op.args):
        return None
    data = (("axis", axis - (axis > at)),)
    return _made(new, op, [new.last(a) for a in op.args], data)


_RULES: dict[str, Callable[[_Rewrite, Operation], Operation | None]] = {
    Kind.BROADCAST: _elementwise,
    **dict.fromkeys((k for k in Kind if k.is_reduction), _reduced),
    Kind.CONTRACT: _contracted,
    Kind.TRANSPOSE: _transposed,
    Kind.RESHAPE: _reshaped,
    Kind.SLICE: _sliced,
    Kind.UNSLICE: _sliced,
    Kind.CONCATENATE: _joined,
    Kind.PLACE: _placed,
}

"""Rows that are read are the rows that are computed: gathers go before what is done row by row.

``(w @ m + c)[index]`` with fewer indices than rows is ``w[index] @ m + c``. Each entry is computed
as before; rows that nobody reads are not.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ...ops.contraction import contract, parse
from ...ops.gather_scatter import gather
from ...ops.reductions import sum_
from ...ops.view_ops import reshape, slice_, transpose
from ...primitive import Primitive
from ...tape import Builder, Node, Params, Tape

FEWER = 2  # rows that there must be for each index

# Of each operand the axis its rows lie along, None where all of it is read for each row; and the
# parameters of the node for another number of rows.
Apart = tuple[tuple[int | None, ...], Callable[[int], Params]]


def rows_read(tape: Tape) -> Tape:
    """The tape with gathers of few rows put before the nodes that only they read."""
    users: list[list[int]] = [[] for _ in tape.nodes]
    for i, node in enumerate(tape.nodes):
        for a in node.args:
            users[a].append(i)
    for i, node in enumerate(tape.nodes):
        if node.primitive is not gather or len(node.args) != 2:
            continue
        source, index = (tape.nodes[a].type for a in node.args)
        if index.ndim != 1 or source.shape[0] < FEWER * index.size:
            continue
        cone = _cone(tape, users, i)
        if any(not tape.nodes[k].primitive.view for k in cone):
            return rows_read(_moved(tape, i, cone))
    return tape


def _cone(tape: Tape, users: list[list[int]], gather: int) -> dict[int, int]:
    """The nodes that a gather alone reads, through one another; the axis of the rows of each."""
    source = tape.nodes[gather].args[0]
    reached: dict[int, set[int | None]] = {source: {0}}
    cone: dict[int, int] = {}
    for i in range(source, -1, -1):
        (axis, *more) = reached.get(i, (None,))
        if axis is None or more or i in tape.outputs:
            continue
        apart = _apart(tape, i, axis)
        if apart is None or any(u != gather and u not in cone for u in users[i]):
            continue
        cone[i] = axis
        for arg, a in zip(tape.nodes[i].args, apart[0], strict=True):
            reached.setdefault(arg, set()).add(a)
    return cone


def _moved(tape: Tape, gather: int, cone: dict[int, int]) -> Tape:
    """The tape with the rows picked of what the cone reads, and the cone behind that."""
    builder = Builder()
    ids: dict[int, int] = {}
    for i, node in enumerate(tape.nodes):
        if i in cone:
            continue
        if i in tape.inputs:
            ids[i] = builder.input(node.type)
            continue
        if i == gather:
            ids[i] = _picked(tape, builder, ids, gather, cone)
            continue
        primitive, args, params, types = node
        ids[i] = builder.add(primitive, tuple([ids[a] for a in args]), params, types=types)
        if i in tape.lines:
            builder.lines[ids[i]] = tape.lines[i]
    return builder.finish([ids[o] for o in tape.outputs])


def _picked(
    tape: Tape, builder: Builder, ids: dict[int, int], gather: int, cone: dict[int, int]
) -> int:
    """The nodes of the cone with the rows that a gather picks; the last of them."""
    source, index = tape.nodes[gather].args
    made: dict[tuple[int, int], int] = {}

    def rows(i: int, axis: int) -> int:
        if (i, axis) not in made:
            made[i, axis] = _gathered(builder, ids[i], ids[index], axis)
        return made[i, axis]

    for i in sorted(cone):
        node, axis = tape.nodes[i], cone[i]
        apart = _apart(tape, i, axis)
        assert apart is not None
        pairs = zip(node.args, apart[0], strict=True)
        args = tuple([ids[a] if k is None else rows(a, k) for a, k in pairs])
        made[i, axis] = builder.add(node.primitive, args, apart[1](tape.nodes[index].type.size))
        if i in tape.lines:
            builder.lines[made[i, axis]] = tape.lines[i]
    return made[source, 0]


def _gathered(builder: Builder, x: int, index: int, axis: int) -> int:
    """The entries of a node that an index picks along an axis."""
    order = (axis, *[k for k in range(builder.type(x).ndim) if k != axis])
    back = tuple([order.index(k) for k in range(len(order))])
    if axis:
        x = builder.add(transpose, (x,), (("axes", order),))
    x = builder.add(gather, (x, index))
    return builder.add(transpose, (x,), (("axes", back),)) if axis else x


def _apart(tape: Tape, i: int, axis: int) -> Apart | None:
    """How a node is computed row by row along an axis; None if it is not."""
    node = tape.nodes[i]
    rule = _RULES.get(node.primitive)
    if rule is None and node.primitive.family == "elementwise":
        rule = _entrywise
    return None if rule is None or len(node.types) > 1 else rule(tape, node, axis)


# --- by op ----------------------------------------------------------------------------------------


def _entrywise(tape: Tape, node: Node, axis: int) -> Apart | None:
    own: list[int | None] = []
    for a in node.args:
        shape = tape.nodes[a].type.shape
        k = axis - (node.type.ndim - len(shape))
        own.append(k if k >= 0 and shape[k] == node.type.shape[axis] else None)
    return tuple(own), lambda n: node.params


def _contract(tape: Tape, node: Node, axis: int) -> Apart | None:
    *operands, out = parse(str(dict(node.params)["subscripts"]))
    label = out[axis]
    own = tuple([labels.index(label) if label in labels else None for labels in operands])
    return own, lambda n: node.params


def _slice(tape: Tape, node: Node, axis: int) -> Apart | None:
    named: dict[str, Any] = dict(node.params)
    sizes = named["sizes"]
    if tape.nodes[node.args[0]].type.shape[axis] != sizes[axis] or named["steps"][axis] != 1:
        return None
    rest = (("starts", named["starts"]), ("steps", named["steps"]))
    return (axis,), lambda n: (("sizes", (*sizes[:axis], n, *sizes[axis + 1 :])), *rest)


def _transpose(tape: Tape, node: Node, axis: int) -> Apart | None:
    named: dict[str, Any] = dict(node.params)
    return (named["axes"][axis],), lambda n: node.params


def _reshape(tape: Tape, node: Node, axis: int) -> Apart | None:
    source, target = tape.nodes[node.args[0]].type.shape, node.type.shape
    before = prod(target[:axis])
    own = [
        k
        for k, m in enumerate(source)
        if m == target[axis] and prod(source[:k]) == before and m > 1
    ]
    if not own or not prod(target):
        return None
    return (own[0],), lambda n: (("shape", (*target[:axis], n, *target[axis + 1 :])),)


def _sum(tape: Tape, node: Node, axis: int) -> Apart | None:
    named: dict[str, Any] = dict(node.params)
    kept = [k for k in range(tape.nodes[node.args[0]].type.ndim) if k not in named["axes"]]
    return (kept[axis],), lambda n: node.params


_RULES: dict[Primitive, Callable[[Tape, Node, int], Apart | None]] = {
    contract: _contract,
    slice_: _slice,
    transpose: _transpose,
    reshape: _reshape,
    sum_: _sum,
}

"""Selection pushdown: where few rows of a result are read, only these are computed.

``(w @ m + c)[index]`` is ``w[index] @ m + c``, where there are at most half as many indices as
rows. Each entry that is read is computed as before, the others are not. Query optimisers
push selections down, an idea of J. M. Smith and P. Y.-T. Chang, Optimizing the performance of a
relational algebra database interface, CACM 18(10), 1975.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from heapq import heappop, heappush

from ...arraytype import ArrayType
from ...facets import AxisMap
from ...ops.shapes.gather_scatter import gather
from ...ops.shapes.view_ops import transpose
from ...tape import Builder, Node, Replacement, Tape, rebuild

ROWS_PER_INDEX = 2  # that there must be at least for a gather to be moved


def rows_read(tape: Tape) -> Tape:
    """The tape in which a gather of few rows comes before the nodes that it alone reads."""
    while replacements := _picks(tape):
        tape = rebuild(tape, Builder(), replacements)
    return tape


def _picks(tape: Tape) -> dict[int, Replacement]:
    """For each gather to move, the nodes it moves before; no two gathers share any."""
    users, replacements = tape.users(), {}
    due: set[int] = set()  # the nodes that are entered in another way
    for i, node in enumerate(tape.nodes):
        if node.primitive is not gather or len(node.args) != 2:
            continue
        source, index = (tape.nodes[a].type for a in node.args)
        if index.ndim != 1 or source.shape[0] < ROWS_PER_INDEX * index.size:
            continue
        cone = _cone(tape, users, i)
        if due.isdisjoint(cone) and any(not tape.nodes[k].primitive.structure.view for k in cone):
            replacements[i] = partial(_picked, tape, i, cone)
            due |= {i, *cone}
    return replacements


def _cone(tape: Tape, users: list[list[int]], gather: int) -> dict[int, int]:
    """Nodes on which the gather alone depends, with the axis of each that holds the rows."""
    source = tape.nodes[gather].args[0]
    reached: dict[int, set[int | None]] = {source: {0}}
    cone: dict[int, int] = {}
    due = [-source]  # the last node first
    while due:
        i = -heappop(due)
        axis, *more = reached[i]
        if axis is None or more or i in tape.outputs:
            continue
        apart = _rowwise_map(tape, i, axis)
        if apart is None or any(u != gather and u not in cone for u in users[i]):
            continue
        cone[i] = axis
        for arg, a in zip(tape.nodes[i].args, apart.sources, strict=True):
            if arg not in reached:
                heappush(due, -arg)
            reached.setdefault(arg, set()).add(a)
    return cone


def _picked(
    tape: Tape, gather: int, cone: dict[int, int], builder: Builder, ids: dict[int, int]
) -> int:
    """The nodes of the cone with the rows that a gather picks; the last of them."""
    source, index = tape.nodes[gather].args
    picked: dict[tuple[int, int], int] = {}

    def rows(i: int, axis: int) -> int:
        if (i, axis) not in picked:
            picked[i, axis] = _gathered(builder, ids[i], ids[index], axis)
        return picked[i, axis]

    for i in sorted(cone):
        node, axis = tape.nodes[i], cone[i]
        apart = _rowwise_map(tape, i, axis)
        assert apart is not None
        pairs = zip(node.args, apart.sources, strict=True)
        args = tuple([ids[a] if k is None else rows(a, k) for a, k in pairs])
        params = apart.resized(node.params, axis, tape.nodes[index].type.size)
        picked[i, axis] = builder.add(node.primitive, args, params)
        if i in tape.lines:
            builder.lines[picked[i, axis]] = tape.lines[i]
    return picked[source, 0]


def _gathered(builder: Builder, x: int, index: int, axis: int) -> int:
    """The entries of a node that an index picks along an axis."""
    order = (axis, *[k for k in range(builder.type(x).ndim) if k != axis])
    back = tuple([order.index(k) for k in range(len(order))])
    if axis:
        x = builder.add(transpose, (x,), (("axes", order),))
    x = builder.add(gather, (x, index))
    return builder.add(transpose, (x,), (("axes", back),)) if axis else x


def _rowwise_map(tape: Tape, i: int, axis: int) -> AxisMap | None:
    """How a node is computed row by row along an axis; None if it is not."""
    node = tape.nodes[i]
    rows = rows_of(node, [tape.nodes[a].type for a in node.args], axis)
    return None if rows is None or rows.sized is None else rows


def rows_of(node: Node, types: Sequence[ArrayType], axis: int = 0) -> AxisMap | None:
    """The rows of operands that each row of a result reads, along `axis`; None if not declared."""
    rule = node.primitive.structure.axis_map
    if rule is None or node.type.ndim == 0 or len(node.types) > 1:
        return None
    return rule(axis, node.type, *types, **dict(node.params))

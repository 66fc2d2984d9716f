"""Operations that run bodies: which operands their nodes read, and what else is their structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import INT, ArrayType
from ...kernel_rule import Category, Kind
from ...tape import Node, Tape
from .graph_draft import Draft
from .kernel_graph import Data


def bodies_of(node: Node) -> tuple[Tape, ...]:
    """The tapes that a node runs; none but for loops."""
    kind = node.primitive.kind
    if kind is None or kind.category is not Category.CONTROL:
        return ()
    values = [v if isinstance(v, tuple) else (v,) for _, v in node.params]
    return tuple([tape for some in values for tape in some if isinstance(tape, Tape)])


def carries_of(node: Node) -> tuple[int, ...]:
    """How many inputs each body of a node may write over: none but a loop's body any."""
    carries = int(dict(node.params).get("carries", 0))
    return (carries, *[0] * (len(bodies_of(node)) - 1))


def slots_read(tape: Tape, node: Node) -> Sequence[int]:
    """The operands that a kernel reads.

    Of a loop these are neither the number of trips where that is all rows, nor rows that count.
    """
    if node.primitive.kind is not Kind.LOOP:
        return range(len(node.args))
    loop, nodes = dict(node.params), [tape.nodes[a] for a in node.args]
    trips = nodes[0].value
    whole = trips is not None and int(trips) == loop["length"]
    first = len(nodes) - cast("int", loop["rows"])
    return [k for k in range(whole, len(nodes)) if k < first or _count_from(tape, nodes[k]) is None]


def control_parameters(draft: Draft, node: Node) -> Data:
    """The parameters of a loop or a switch besides its bodies."""
    loop, slots = dict(node.params), slots_read(draft.tape, node)
    if node.primitive.kind is Kind.SWITCH:
        return ()
    if node.primitive.kind is Kind.WHILE:
        limit = cast("int", loop["limit"])
        carries = ("carries", loop["carries"])
        return carries, ("limit", draft.integer(limit) if limit else "")
    return (
        ("carries", loop["carries"]),
        (
            "counters",
            tuple(
                [
                    (k - 1, _first_row(draft, k, node))
                    for k in range(1, len(node.args))
                    if k not in slots
                ]
            ),
        ),
        ("length", draft.dim(cast("int", loop["length"]))),
        ("reverse", loop["reverse"]),
        ("rows", loop["rows"]),
        ("whole", 0 not in slots),
    )


def _first_row(draft: Draft, slot: int, node: Node) -> str:
    """The number of the first row of those that count; empty for 0."""
    begin = _count_from(draft.tape, draft.tape.nodes[node.args[slot]])
    assert begin is not None, "rows that do not count"
    return draft.integer(begin) if begin else ""


def _count_from(tape: Tape, rows: Node) -> int | None:
    """The first of rows that are whole numbers, each by one above that before; None for others."""
    value, kind = rows.value, rows.primitive.kind
    if kind is Kind.ADD:
        a, b = (tape.nodes[i] for i in rows.args)
        begin = _count_from(tape, a) if rows.type == a.type else None
        if begin is None or b.value is None or b.value.size != 1 or b.type.dtype != INT:
            return None
        return begin + int(b.value.item())
    if kind is Kind.IOTA:
        return 0 if rows.type == ArrayType((rows.type.size,), INT) else None
    if value is None or value.dtype != np.int64 or value.ndim != 1 or not value.size:
        return None
    counted = bool(np.array_equal(value - value[0], np.arange(len(value))))
    return int(value[0]) if counted else None

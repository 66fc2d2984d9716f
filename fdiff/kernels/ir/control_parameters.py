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

    Of a loop these are neither the number of trips where that is all rows, nor rows that number the
    trips.
    """
    if node.primitive.kind is not Kind.LOOP:
        return range(len(node.args))
    loop, nodes = dict(node.params), [tape.nodes[a] for a in node.args]
    trips = nodes[0].value
    whole = trips is not None and int(trips) == loop["length"]
    first = len(nodes) - cast("int", loop["rows"])
    return [k for k in range(whole, len(nodes)) if k < first or not _counts(tape, nodes[k])]


def control_parameters(draft: Draft, node: Node) -> Data:
    """What is known of a loop or a switch besides its bodies."""
    loop, slots = dict(node.params), slots_read(draft.tape, node)
    if node.primitive.kind is Kind.SWITCH:
        return ()
    if node.primitive.kind is Kind.WHILE:
        limit = cast("int", loop["limit"])
        carries = ("carries", loop["carries"])
        return carries, ("limit", draft.integer(limit) if limit else "")
    return (
        ("carries", loop["carries"]),
        ("counters", tuple(k - 1 for k in range(1, len(node.args)) if k not in slots)),
        ("length", draft.dim(cast("int", loop["length"]))),
        ("reverse", loop["reverse"]),
        ("rows", loop["rows"]),
        ("whole", 0 not in slots),
    )


def _counts(tape: Tape, rows: Node) -> bool:
    """Whether each row is its own number."""
    value, kind = rows.value, rows.primitive.kind
    if kind is Kind.ADD:
        a, b = (tape.nodes[i] for i in rows.args)
        zero = b.value is not None and not b.value.any() and rows.type == a.type
        return zero and _counts(tape, a)
    if kind is Kind.IOTA:
        return rows.type == ArrayType((rows.type.size,), INT)
    return (
        value is not None
        and value.dtype == np.int64
        and value.ndim == 1
        and bool(np.array_equal(value, np.arange(len(value))))
    )

"""Scalarisation: arrays with a small last axis become one array for each component.

``np.sum((x[i] - x[j]) ** 2, axis=1)`` of points in space becomes three gathers and three
subtractions in one loop over the pairs, where there was a loop of three iterations inside of it. An
op without a rule gets its operands in one piece again.

Scalar replacement of aggregates; S. S. Muchnick, Advanced Compiler Design and Implementation,
Morgan Kaufmann 1997, section 12.2.
"""

from __future__ import annotations

from collections.abc import Callable

from ....kernel_rule import Kind
from ...ir.kernel_graph import KernelGraph, Operation
from .component_graph import Components, Ids, Whole, is_small
from .contraction_components import contracted
from .elementwise_components import (
    broadcast,
    elementwise,
    iota,
    reduced,
    reshaped,
    scanned,
    sliced,
    transposed,
    unsliced,
)
from .graph_rewrite import pruned
from .indexing_components import gathered, joined_components, scattered, updated

# What stands for old operation `i`: its components in row-major order, or the whole result. None:
# there is no rule for this case, and the operation gets its operands in one piece.
Rule = Callable[[Components, int, Operation], "Ids | Whole | None"]
RULES: dict[str, Rule] = {
    Kind.BROADCAST: broadcast,
    Kind.IOTA: iota,
    **dict.fromkeys((k for k in Kind if k.is_reduction), reduced),
    **dict.fromkeys((k for k in Kind if k.is_scan), scanned),
    Kind.TRANSPOSE: transposed,
    Kind.RESHAPE: reshaped,
    Kind.SLICE: sliced,
    Kind.UNSLICE: unsliced,
    Kind.CONCATENATE: joined_components,
    Kind.GATHER: gathered,
    Kind.SCATTER_ADD: scattered,
    Kind.UPDATE: updated,
    Kind.CONTRACT: contracted,
}


def scalarise(graph: KernelGraph) -> KernelGraph:
    """The graph with operations on components, if that does not make it much longer."""
    if not any(is_small(d) for op in graph.ops for dims in op.shapes for d in dims):
        return graph
    new = Components(graph)
    most = _most_operations(graph)
    for i, op in enumerate(graph.ops):
        _enter(new, i, op)
        if op.kind.is_store and i not in new.split and any(is_small(d) for d in op.dims):
            return graph  # an array that is stored into row by row stays in one piece
        if len(new.ops) > most:
            return graph
    for i in (*graph.inputs, *graph.outputs):
        new.whole(i)
    return pruned(new.finished())


def _most_operations(graph: KernelGraph) -> int:
    """Limit on operations after scalarisation of n: max(600, min(1000, 100 + 4 n)).

    The 600 let a program that another pass shortens keep its components. In a loop body it is
    10,000, because a call of a routine would be made in each trip.
    """
    return 10_000 if graph.is_body else max(600, min(1000, 100 + 4 * len(graph.ops)))


def _enter(new: Components, i: int, op: Operation) -> None:
    """Add what stands for old operation `i`: its components, or the whole."""
    touched = op.kind is Kind.CONCATENATE or any(
        is_small(d) for k in (i, *op.args) for d in new.dims(k)
    )
    rule = RULES.get(op.kind) or (elementwise if op.text and op.args else None)
    if touched and rule is not None and len(op.shapes) == 1:
        parts = rule(new, i, op)
        if parts is not None:
            if isinstance(parts, Whole):
                new.place[i] = parts.operation
            elif any(is_small(d) for d in op.dims):
                new.split[i] = parts
            else:
                (new.place[i],) = parts
            return
    new.place[i] = new.add(op.reading(tuple([new.whole(a) for a in op.args])))

"""Values that were stored into an array are read back from it, and not computed again.

While a tape is recorded, loads are forwarded from stores (`trace/load_forwarding.py`): a read of
what was stored becomes the stored value, and a read of other entries a read of the array before the
store. In a kernel the value would then be computed once more in each nest that reads it, and the
old array would have to stay in memory beside the new one. This pass undoes both. It is the inverse
of scalar replacement (R. Allen and K. Kennedy, Optimizing Compilers for Modern Architectures,
Morgan Kaufmann 2001, section 8.3).
"""

from __future__ import annotations

from ....kernel_rule import Kind
from ...ir.index_expressions import nonunit
from ...ir.kernel_graph import KernelGraph, Operation, SliceParameters, users_of
from .graph_rewrite import renumbered


def reload_stores(graph: KernelGraph) -> KernelGraph:
    """The graph in which operations after a store read the stored array."""
    if not any(op.kind is Kind.UPDATE for op in graph.ops):
        return graph
    graph = _stores_first(graph)
    users = users_of(graph)
    tops = _tops(graph, users)
    readers: dict[int, list[int]] = {}
    for i, (top, _) in tops.items():
        readers.setdefault(top, []).append(i)
    ops: list[Operation] = []
    place: list[int] = []
    for i, op in enumerate(graph.ops):
        top = tops[i][0] if op.kind is Kind.SLICE and i in tops else i
        args = (top,) if top < i else op.args
        place.append(len(ops))
        ops.append(op.reading(tuple([place[a] for a in args])))
        for k in readers.get(i, ()):
            if k < i < max(users[k], default=0):
                old = graph.ops[k]
                read = Operation(Kind.SLICE, "", (place[i],), old.dtypes, old.shapes, tops[k][1])
                place[k] = len(ops)
                ops.append(read)
    return renumbered(graph, ops, place)


def _tops(graph: KernelGraph, users: list[list[int]]) -> dict[int, tuple[int, SliceParameters]]:
    """For a slice or a stored value: the last array that still has these entries, and where in it.

    Stores of other entries may have come in between: for a slice as many as its operation says
    (`SliceParameters.disjoint`). Of stored values, those are listed that `_is_profitable` picks.
    """
    out: dict[int, tuple[int, SliceParameters]] = {}
    for i, op in enumerate(graph.ops):
        if op.kind is Kind.SLICE and op.region.disjoint:
            source = op.args[0]
            out[i] = _highest(graph, users, source, op.region.disjoint), SliceParameters(op.slices)
        elif op.kind is Kind.UPDATE and _is_profitable(graph, users, i):
            out[op.args[1]] = _highest(graph, users, i), SliceParameters(op.slices)
    return out


def _highest(graph: KernelGraph, users: list[list[int]], node: int, most: int = 1 << 30) -> int:
    """The last of the stores that follow upon `node`, each into the result of the one before.

    At most `most` of them; of a store, as many as leave its entries as they are.
    """
    begins_at_store = graph.ops[node].kind is Kind.UPDATE and most == 1 << 30
    depth = 0
    while depth < most:
        above = [
            v
            for v in users[node]
            if graph.ops[v].kind is Kind.UPDATE and graph.ops[v].args[0] == node
        ]
        if len(above) != 1 or (begins_at_store and graph.ops[above[0]].region.disjoint <= depth):
            break
        node, depth = above[0], depth + 1
    return node


def _stores_first(graph: KernelGraph) -> KernelGraph:
    """The graph with every store as early as its operands allow."""
    ops, users = graph.ops, users_of(graph)
    stores = [i for i, op in enumerate(ops) if op.kind is Kind.UPDATE]
    order: list[int] = []
    done: set[int] = set()
    for top in (*graph.inputs, *stores, *range(len(ops))):
        stack = [top]
        while stack:
            i = stack.pop()
            missing = [] if i in done else [a for a in ops[i].args if a not in done]
            if missing:
                stack += [i, *reversed(missing)]
            elif i not in done:
                done.add(i)
                order.append(i)
                waiting = (u for u in users[i] if ops[u].kind is Kind.UPDATE)
                stack += [u for u in waiting if done.issuperset(ops[u].args)]
    place = {old: new for new, old in enumerate(order)}
    moved = [ops[i].reading(tuple([place[a] for a in ops[i].args])) for i in order]
    return renumbered(graph, moved, place)


def _is_profitable(graph: KernelGraph, users: list[list[int]], u: int) -> bool:
    """Whether what `u` stores is elementwise, as large in rank as the array, and read elsewhere."""
    new = graph.ops[u].args[1]
    stored = graph.ops[new]
    rank = len(nonunit(stored.dims))
    return (
        bool(stored.text)
        and bool(rank)
        and rank == len(nonunit(graph.ops[u].dims))
        and len(users[new]) > 1
        and new not in graph.outputs
    )

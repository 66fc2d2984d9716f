"""Transpose sinking: an elementwise result that is read transposed is computed in that order.

The transpose moves to the operands. There it meets another transpose, which it undoes, or an
operand with fewer axes, which costs nothing; and loops that differed only in their order can fuse
(loop interchange: R. Allen and K. Kennedy, Optimizing Compilers for Modern Architectures, Morgan
Kaufmann 2001, section 5.2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ....kernel_rule import Kind
from ...ir.index_expressions import ONE, Axes, Dims, inverse, is_identity, nonunit, same_nonunit
from ...ir.kernel_graph import KernelGraph, Operation, users_of
from ...ir.operation_costs import formula_facts
from .graph_rewrite import GraphRewrite, pruned
from .routine_selection import reads_without_copy

_PASS = (
    2  # the cost of a transpose that writes and reads an array; to read it in another order is 1
)


def sink_transposes(graph: KernelGraph) -> KernelGraph:
    """The graph with transposes moved to the operands where that saves memory passes."""
    if not any(op.kind is Kind.TRANSPOSE for op in graph.ops):
        return graph
    users = users_of(graph)
    orders = _profitable(graph, users, _orders_of_reading(graph, users))
    if not orders:
        return graph
    new = _Sunk(graph, orders)
    for i, op in enumerate(graph.ops):
        new.rewrite(i, op)
    return pruned(new.finished())


def _orders_of_reading(graph: KernelGraph, users: list[list[int]]) -> dict[int, Axes]:
    """The elementwise operations to compute in another order of axes, and that order.

    It is the order in which all their readers read them. Matrix products take either order: where
    nothing else reads an operation, the order of its operands is used.
    """
    ops = graph.ops
    out: dict[int, Axes] = {}
    for i in range(len(ops) - 1, -1, -1):
        if not _elementwise(ops[i]) or i in graph.outputs:
            continue
        orders = {_order(ops, users, i, u, out) for u in users[i]}
        if orders == {None}:
            order = _order_below(ops, i)
            orders = {order if all(reads_without_copy(ops, u, i, order) for u in users[i]) else ()}
        order = orders.pop() if len(orders) == 1 else ()
        if order and not is_identity(order):
            out[i] = order
    return out


def _elementwise(op: Operation) -> bool:
    """Whether it is an elementwise operation with an operand and one result."""
    operands = formula_facts(op.text).operands if op.kind.is_elementwise else 0
    return operands > 0 and len(op.shapes) == 1


def _order(
    ops: tuple[Operation, ...],
    users: list[list[int]],
    i: int,
    u: int,
    out: Mapping[int, Axes],
) -> Axes | None:
    """The order in which `u` reads operation `i`; None if it is a product that takes either."""
    op = ops[u]
    if op.kind is Kind.CONTRACT:
        return None if reads_without_copy(ops, u, i, tuple(range(len(ops[i].dims)))) else ()
    if op.kind is Kind.TRANSPOSE:
        undone = all(r in out and _undone(op.axes, out[r]) for r in users[u])
        return () if undone and users[u] else op.axes
    return out.get(u, ()) if op.dims == ops[i].dims else ()


def _order_below(ops: tuple[Operation, ...], i: int) -> Axes:
    """The order of axes that undoes a transpose among the operands of elementwise `i`."""
    dims = ops[i].dims
    stack, seen = [i], {i}
    while stack:
        for a in ops[stack.pop()].args:
            if ops[a].kind is Kind.TRANSPOSE and ops[a].dims == dims:
                return inverse(ops[a].axes)
            if a not in seen and _elementwise(ops[a]) and ops[a].dims == dims:
                seen.add(a)
                stack.append(a)
    return ()


def _profitable(
    graph: KernelGraph, users: list[list[int]], orders: dict[int, Axes]
) -> dict[int, Axes]:
    """The orders of axes that save more passes over memory than they cost.

    Operations that read each other change their order together or not at all.
    """
    ops = graph.ops
    leader: dict[int, int] = {}

    def group(i: int) -> int:
        while leader.setdefault(i, i) != i:
            i = leader[i]
        return i

    gains: list[tuple[int, int]] = []
    for i, axes in orders.items():
        gains.append((i, _PASS * any(_copies_memory(graph, users, u) for u in users[i])))
        for a in dict.fromkeys(ops[i].args):
            if a in orders:
                leader[group(a)] = group(i)
            elif not _made_in_any_order(ops, users, a):
                gains.append((i, _gain(ops, a, axes, orders)))
    total: dict[int, int] = {}
    for i, gain in gains:
        total[group(i)] = total.get(group(i), 0) + gain
    return {i: axes for i, axes in orders.items() if total[group(i)] > 0}


def _made_in_any_order(ops: tuple[Operation, ...], users: list[list[int]], i: int) -> bool:
    """Whether `i` is a contraction that is read once, at most reshaped by axes of size one."""
    while ops[i].kind is Kind.RESHAPE and len(users[i]) == 1:
        (a,) = ops[i].args
        if not same_nonunit(ops[i].dims, ops[a].dims):
            return False
        i = a
    return ops[i].kind is Kind.CONTRACT and len(users[i]) == 1


def _copies_memory(graph: KernelGraph, users: list[list[int]], u: int) -> bool:
    """Whether `u` is a transpose that copies memory: no matrix product reads it as it is."""
    op = graph.ops[u]
    if op.kind is not Kind.TRANSPOSE:
        return False
    order = inverse(op.axes)
    copies = (not reads_without_copy(graph.ops, r, u, order) for r in users[u])
    return u in graph.outputs or any(copies)


def _gain(ops: tuple[Operation, ...], i: int, axes: Axes, orders: Collection[int]) -> int:
    """The gain of another order of the result at operand `i`: 1 for a transpose undone.

    -1 for an array that is then read against the order of memory.
    """
    op = ops[i]
    if op.kind is Kind.TRANSPOSE and _undone(op.axes, axes) and op.args[0] not in orders:
        return 1
    lead = len(axes) - len(op.dims)
    wide = [a for a in axes if a >= lead and op.dims[a - lead] != ONE]
    return -int(wide != sorted(wide) and op.kind not in (Kind.BROADCAST, Kind.VALUE))


def _undone(first: Axes, then: Axes) -> bool:
    """Whether the second permutation undoes the first."""
    return len(first) == len(then) and all(first[a] == k for k, a in enumerate(then))


class _Sunk(GraphRewrite):
    """The graph in the making; `orders` has the new order of axes of some operations.

    `made` has new operations in another order than the old ones had, by old operation and order.
    """

    def __init__(self, graph: KernelGraph, orders: dict[int, Axes]) -> None:
        super().__init__(graph)
        self.orders = orders
        self.made: dict[tuple[int, Axes], int] = {}

    def rewrite(self, i: int, op: Operation) -> None:
        axes = self.orders.get(i)
        if axes is not None:
            args = tuple([self.operand(a, axes) for a in op.args])
            dims = tuple(op.dims[a] for a in axes)
            self.made[i, axes] = self.add(op._replace(args=args, shapes=(dims,)))
        elif op.kind is Kind.TRANSPOSE and op.args[0] in self.orders:
            self.place[i] = self.made[op.args[0], op.axes]
        else:
            args = tuple([self._in_order(a) for a in op.args])
            self.place[i] = self.add(op.reading(args))

    def _in_order(self, i: int) -> int:
        """The new operation for old operation `i` in its own order, perhaps a view."""
        if i not in self.place:
            axes = self.orders[i]
            self.place[i] = self.transposed(self.made[i, axes], inverse(axes))
        return self.place[i]

    def operand(self, i: int, axes: Axes) -> int:
        """The new operation for old operation `i` as an operand of a result in the order `axes`."""
        if (i, axes) not in self.made:
            self.made[i, axes] = self._operand(i, axes)
        return self.made[i, axes]

    def _operand(self, i: int, axes: Axes) -> int:
        op = self.old[i]
        if not nonunit(op.dims):
            return self.place[i]
        undone = op.kind is Kind.TRANSPOSE and _undone(op.axes, axes)
        if undone and op.args[0] not in self.orders:
            return self.place[op.args[0]]
        dims = (*(ONE for _ in range(len(axes) - len(op.dims))), *op.dims)
        out = tuple(dims[a] for a in axes)
        wide = [a for a in axes if dims[a] != ONE]
        if wide == sorted(wide):  # axes of one entry move alone
            return self.reshaped(self.place[i], out)
        first = self.reshaped(self.place[i], nonunit(dims))
        transposed = self.transposed(first, tuple(sorted(wide).index(a) for a in wide))
        return self.reshaped(transposed, out)

    def reshaped(self, i: int, dims: Dims) -> int:
        """New operation `i` in another shape; a reshape that is undone is dropped."""
        op = self.ops[i]
        if op.dims != dims and op.kind is Kind.RESHAPE and self.ops[op.args[0]].dims == dims:
            return op.args[0]
        return super().reshaped(i, dims)

"""Analyses of a kernel graph that do not depend on what is stored in memory.

Who reads each node, what computing it costs, which sums can be added up in one buffer, and above
which cost a node had better be stored than computed again by each of its readers. The limits are
measured: docs/decisions/materialisation.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf

from ....kernel_rule import Kind
from ....lazy_attributes import cached_property
from ...ir.effect import Effect
from ...ir.index_expressions import ONE, WHOLE, Dims, nonunit, same_nonunit
from ...ir.kernel_graph import KernelGraph, Operation, users_of
from ...ir.operation_costs import SLOW, flops_of
from .value_numbering import Key, Keys

# The costs of computing a value above which it is stored, by who reads it.
ALWAYS = -1  # what has to be in memory
REPEATED = 2  # read along an axis that it does not have
MOVED = 4  # read by several, one of them in another order
DEEP = 400  # read by several, whoever they are
ENDS = 4  # readers of one entry that compute it again, beside one that reads more of them


@dataclass(frozen=True)
class GraphAnalysis:
    """A kernel graph and its analyses, each done once for all plans that are tried."""

    graph: KernelGraph

    @cached_property
    def ops(self) -> tuple[Operation, ...]:
        return self.graph.ops

    @cached_property
    def dims(self) -> list[Dims]:
        return [op.dims for op in self.ops]

    @cached_property
    def effects(self) -> dict[tuple[int, str, int, str], list[Effect]]:
        """A cache of effects, by all that they depend on: see `fuse/effects.py`."""
        return {}

    @cached_property
    def root_values(self) -> dict[Effect, list[Key]]:
        """A cache of the values that effects compute or read: see `fuse/memory_reads.py`."""
        return {}

    @cached_property
    def keys(self) -> Keys:
        return Keys(self.ops, self.dims)

    @cached_property
    def readers(self) -> list[list[int]]:
        """The users of a node that read its value. A barrier that waits for it does not."""
        if not self._waiting:
            return self.users
        return [
            [u for u in users if not (self._is_barrier_order_only(u, i) or u in self.marks)]
            for i, users in enumerate(self.users)
        ]

    @cached_property
    def _waiting(self) -> bool:
        return any(op.kind is Kind.BARRIER for op in self.ops)

    @cached_property
    def users(self) -> list[list[int]]:
        return users_of(self.graph)

    @cached_property
    def marks(self) -> frozenset[int]:
        """Nodes that only barriers wait for: they order effects, and are not computed."""
        marks: set[int] = set()
        for i in range(len(self.ops) - 1, -1, -1) if self._waiting else ():
            kind, users = self.ops[i].kind, self.users[i]
            waits = all(u in marks or self._is_barrier_order_only(u, i) for u in users)
            if waits and users and i not in self.outputs and (kind.is_view or kind.is_elementwise):
                marks.add(i)
        return frozenset(marks)

    def _is_barrier_order_only(self, i: int, a: int) -> bool:
        """Whether node `i` only waits for node `a`."""
        return self.ops[i].kind is Kind.BARRIER and self.ops[i].args[0] != a

    @cached_property
    def shared(self) -> frozenset[int]:
        """Nodes that are read more than once."""
        return frozenset(i for i, users in enumerate(self.users) if len(users) > 1)

    @cached_property
    def gathers(self) -> dict[int, int]:
        """The array that each gather reads."""
        return {i: op.args[0] for i, op in enumerate(self.ops) if op.kind is Kind.GATHER}

    @cached_property
    def elementwise(self) -> frozenset[int]:
        """Nodes an entry of which is computed by a statement, where views only move an index."""
        return frozenset(
            i for i, op in enumerate(self.ops)
            if op.kind is Kind.GATHER or (op.text and not op.kind.is_leaf)
        )  # fmt: skip

    @cached_property
    def absorbed(self) -> frozenset[int]:
        """Terms of sums without memory of their own: they are added to the memory of the sum."""
        return _SumsInMemory(self.graph, self.users).absorbed()

    @cached_property
    def read_in_memory(self) -> frozenset[int]:
        """Nodes that must lie in memory because a routine or a gather reads them there."""
        calls = (a for op in self.ops if op.kind.is_routine for a in op.args)
        return frozenset(calls) | frozenset(self.gathers.values())

    @cached_property
    def routine_of_result(self) -> dict[int, int]:
        """For each result of a routine that has several, the call of that routine."""
        return {i: op.args[0] for i, op in enumerate(self.ops) if op.kind is Kind.ITEM}

    @cached_property
    def carries(self) -> dict[int, int]:
        """The inputs that the kernel may write over, by operation: arrays that a loop carries."""
        carried = self.graph.inputs[: max(self.graph.carries, 0)]
        return {i: k for k, i in enumerate(carried) if self.ops[i].dims}

    @cached_property
    def inputs(self) -> frozenset[int]:
        """Inputs and captured arrays."""
        return frozenset(i for i, op in enumerate(self.ops) if op.kind in (Kind.INPUT, Kind.ARRAY))

    @cached_property
    def scalars(self) -> frozenset[int]:
        """Nodes of one entry that can be locals, because one statement computes the entry."""
        return frozenset(
            i for i, op in enumerate(self.ops)
            if not (
                op.dims if op.kind is Kind.INPUT
                else nonunit(op.dims) or op.kind.is_piecewise or i in self.read_in_memory
            )
        )  # fmt: skip

    @cached_property
    def sums(self) -> frozenset[int]:
        """Sums whose terms are added to memory one after another."""
        return frozenset(
            i for i, op in enumerate(self.ops)
            if op.kind.is_scatter or (op.kind is Kind.ADD and not self.absorbed.isdisjoint(op.args))
        )  # fmt: skip

    @cached_property
    def updates(self) -> dict[int, list[int]]:
        """The stores into a slice of each array."""
        out: dict[int, list[int]] = {}
        for i, op in enumerate(self.ops):
            if op.kind is Kind.UPDATE:
                out.setdefault(op.args[0], []).append(i)
        return out

    @cached_property
    def flops(self) -> list[int]:
        """The cost of an entry of each node, given its operands, in additions."""
        return [flops_of(op.text) for op in self.ops]

    @cached_property
    def limits(self) -> list[float]:
        """For each node the cost, including its operands', above which it is stored.

        `ALWAYS` for a node that is stored in any case, infinity for one that is never stored for
        its cost.
        """
        stretched = _stretched(self.graph, self.readers)
        repeated = self._functions_outside_inner_loops()
        return [
            ALWAYS if i in repeated else self._limit(i, p, stretched=stretched[i])
            for i, p in enumerate(self.ops)
        ]

    def _functions_outside_inner_loops(self) -> set[int]:
        """Elementary functions of one entry a row that are read all along an inner axis.

        In the nest that reads them, they would be computed one by one between two runs of the inner
        loop. Stored, they are computed in a loop over rows of their own, which vectorises.
        """
        ops = self.ops
        cost = [0] * len(ops)  # of an entry, with all that is computed of entries of its rows
        for i, op in enumerate(ops):
            if i in self.elementwise or op.kind is Kind.RESHAPE:
                like = (a for a in op.args if same_nonunit(ops[a].dims, op.dims))
                cost[i] = self.flops[i] + sum(cost[a] for a in like)
        return {
            i for i, c in enumerate(cost)
            if c >= SLOW and i in self.elementwise and self._read_along(i)
        }  # fmt: skip

    def _read_along(self, i: int) -> bool:
        """Whether a reader of a node has an axis inside of all axes of the node."""
        own = self.ops[i].dims
        for u in self.readers[i]:
            user = self.ops[u]
            if user.kind is Kind.RESHAPE and same_nonunit(own, user.dims):
                if self._read_along(u):
                    return True
            elif user.text and nonunit(own) and own[-1] == ONE != user.dims[-1]:
                return True
        return False

    def _limit(self, i: int, op: Operation, *, stretched: bool) -> float:
        if i in self.absorbed or i in self.marks:
            return inf
        routine = op.kind.is_routine and len(op.shapes) == 1
        if op.kind.in_memory or op.kind is Kind.COPY or routine or i in self.sums:
            return ALWAYS
        if op.kind.is_leaf or op.kind.is_routine or op.kind.is_view:
            return inf
        if i in self.outputs or not nonunit(op.dims):
            return ALWAYS
        if stretched:
            return REPEATED
        users = [u for u in self.readers[i] if not self._picks_one(u)]
        picks = len(self.readers[i]) - len(users)
        if len(users) < 2 and picks <= ENDS * len(users):
            return DEEP if picks else inf
        return MOVED if any(self._moves(u) for u in users) else DEEP

    def _picks_one(self, i: int) -> bool:
        """Whether `i` is one entry of an array, as that at its end."""
        op = self.ops[i]
        return op.kind is Kind.SLICE and not nonunit(op.dims)

    @cached_property
    def outputs(self) -> frozenset[int]:
        return frozenset(self.graph.outputs)

    def _moves(self, i: int) -> bool:
        """Whether `i` is a view that reads entries in another order, or only some of them."""
        return i in self.reordering_reshapes or (
            self.ops[i].kind.is_view and self.ops[i].kind is not Kind.RESHAPE
        )

    @cached_property
    def reordering_reshapes(self) -> frozenset[int]:
        """Reshapes between shapes that differ by more than axes of size one."""
        ops = self.ops
        return frozenset(
            i for i, op in enumerate(ops)
            if op.kind is Kind.RESHAPE and not same_nonunit(op.dims, ops[op.args[0]].dims)
        )  # fmt: skip

    @cached_property
    def flattened(self) -> list[tuple[int, ...] | None]:
        """For each node, the operands that entry `k` of it, in row-major order, reads at `k` too.

        None if `k` alone does not say which entries are read.
        """
        return [self._flattened(op) for op in self.ops]

    def _flattened(self, op: Operation) -> tuple[int, ...] | None:
        dims = self.dims
        if op.kind in (Kind.ARRAY, Kind.VALUE, Kind.IOTA):
            return ()
        if op.kind is Kind.INPUT:
            return () if not nonunit(op.dims) or op.data[1] == "C" else None
        if op.kind is Kind.RESHAPE:
            return op.args
        if op.kind is Kind.BROADCAST:
            return None if nonunit(dims[op.args[0]]) else ()
        if not op.text:
            return None
        arrays = [a for a in op.args if nonunit(dims[a])]
        own = op.dims
        return None if any(dims[a] != own for a in arrays) else tuple(arrays)


def _stretched(graph: KernelGraph, users: list[list[int]]) -> list[bool]:
    """For each node, whether fusion would compute an entry many times.

    So it is if a reader repeats the node along an axis outside of the node's own axes.
    """
    ops = graph.ops
    out = [False] * len(ops)
    for i in range(len(ops) - 1, -1, -1):
        for u in users[i]:
            user = ops[u]
            if (user.kind is Kind.CONTRACT and not _entrywise(user)) or (
                user.kind.is_view and out[u]
            ):
                out[i] = True
            elif user.kind is Kind.BROADCAST or (user.text and not user.kind.is_view):
                out[i] = out[i] or _repeats(ops[i].dims, user.dims)
    return out


def _entrywise(op: Operation) -> bool:
    """Whether each entry of the operands is a factor of one product only, as in ``x @ x``."""
    left, right, _ = op.subscripts
    return left == right


@lru_cache(maxsize=4096)
def _repeats(dims: Dims, result: Dims) -> bool:
    """Whether broadcasting `dims` to `result` repeats entries along an axis outside of others."""
    padded = (ONE,) * (len(result) - len(dims)) + dims
    repeated = False
    for have, want in zip(padded, result, strict=True):
        if have != ONE and repeated:
            return True
        repeated = repeated or have != want
    return False


class _SumsInMemory:
    """Sums whose terms are added to the memory of the sum, and then need none themselves.

    The transpose of ``x[1:] - x[:-1]`` is ``unslice(b) + unslice(c)``: one buffer of zeros, and one
    loop that adds to it for each slice.
    """

    def __init__(self, graph: KernelGraph, users: list[list[int]]) -> None:
        self.ops, self.users, self.outputs = graph.ops, users, frozenset(graph.outputs)
        self.holds: list[bool] = []  # whether a node is such a sum, or a view of one
        self.indexed: list[int] = []  # its leading axes whose positions are known at run time only
        for i, op in enumerate(self.ops):
            self.indexed.append(self._indexed_axes(i, op))
            self.holds.append(self._is_sum(i, op))

    def absorbed(self) -> frozenset[int]:
        """The terms that have no memory of their own."""
        operands: set[int] = set()
        for i in range(len(self.ops) - 1, -1, -1):
            op = self.ops[i]
            adds_up = op.kind is Kind.UNSLICE or (op.kind is Kind.ADD and self.holds[i])
            if (adds_up or i in operands) and op.kind is not Kind.SCATTER_ADD:
                operands.update(a for a in op.args if self._takes_over(i, a))
        return frozenset(operands)

    def _indexed_axes(self, i: int, op: Operation) -> int:
        if op.kind in (Kind.ADD, Kind.UNSLICE):
            return max(self.indexed[a] if self._takes_over(i, a) else 0 for a in op.args)
        return len(op.args) - 1 if op.kind is Kind.SCATTER_ADD else 0

    def _is_sum(self, i: int, op: Operation) -> bool:
        views = (Kind.ADD, Kind.RESHAPE, Kind.TRANSPOSE)
        return op.kind.is_scatter or (
            op.kind in views and any(self._takes_over(i, a) for a in op.args)
        )

    def _takes_over(self, i: int, a: int) -> bool:
        """Whether what is added to operand `a` can be added to node `i`, its only reader."""
        only_reader = len(self.users[a]) == 1 and a not in self.outputs
        real_sum = self.holds[a] and self.ops[a].dtype[0] == "f"
        return only_reader and real_sum and self._keeps_positions(i, a)

    def _keeps_positions(self, i: int, a: int) -> bool:
        """Whether an entry of operand `a` has one place in node `i`, where it can be added."""
        op, source, lead = self.ops[i], self.ops[a], self.indexed[a]
        if lead and op.kind is Kind.UNSLICE:
            whole = all(pair == WHOLE for pair in op.slices[:lead])
            return whole and source.dims[:lead] == op.dims[:lead]
        if lead and op.kind is not Kind.ADD:
            return False
        if op.kind is Kind.RESHAPE:
            return same_nonunit(op.dims, source.dims)
        if op.kind is Kind.ADD:
            return source.dims == op.dims
        return op.kind in (Kind.TRANSPOSE, Kind.UNSLICE)

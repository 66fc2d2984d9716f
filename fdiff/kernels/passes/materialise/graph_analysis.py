"""What follows from a kernel graph alone, whatever is kept: users, costs, sums made in place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf

from ....attributes import cached_property
from ....kernel_rule import Kind
from ...ir.effect import Effect
from ...ir.graph import KernelGraph, Operation, users_of
from ...ir.indexing import ONE, WHOLE, Dims, nonunit, same_nonunit
from ...ir.operation_costs import SLOW, flops_of
from .value_keys import Key, Keys

DEEP = 400  # cost from which on a value with several users is not computed for each of them


@dataclass(frozen=True)
class Structure:
    """A kernel graph with what follows from it, each found once for all plans that are tried."""

    graph: KernelGraph

    @cached_property
    def ops(self) -> tuple[Operation, ...]:
        return self.graph.ops

    @cached_property
    def dims(self) -> list[Dims]:
        return [op.dims for op in self.ops]

    @cached_property
    def effects(self) -> dict[tuple[int, str, int, str], list[Effect]]:
        """Effects that have been made, by what they depend on."""
        return {}

    @cached_property
    def tops(self) -> dict[Effect, list[Key]]:
        """The values that effects are of, once they are known."""
        return {}

    @cached_property
    def keys(self) -> Keys:
        return Keys(self.ops, self.dims)

    @cached_property
    def users(self) -> list[list[int]]:
        return users_of(self.graph)

    @cached_property
    def shared(self) -> frozenset[int]:
        """Nodes that are read more than once."""
        return frozenset(i for i, users in enumerate(self.users) if len(users) > 1)

    @cached_property
    def gathers(self) -> dict[int, int]:
        """What each gather is from."""
        return {i: op.args[0] for i, op in enumerate(self.ops) if op.kind is Kind.GATHER}

    @cached_property
    def elementwise(self) -> frozenset[int]:
        """Nodes of which an entry takes a statement where it is computed."""
        return frozenset(
            i for i, op in enumerate(self.ops)
            if op.kind is Kind.GATHER or (op.text and not op.kind.is_leaf)
        )  # fmt: skip

    @cached_property
    def absorbed(self) -> frozenset[int]:
        """Adds, slices and views that are carried out by writing in place."""
        return _absorbed(self.graph, self.users)

    @cached_property
    def wanted(self) -> frozenset[int]:
        """Nodes that must lie in memory because a routine or a gather reads them there."""
        wanted: set[int] = set()
        for op in self.ops:
            if op.kind.is_routine or op.kind is Kind.GATHER:
                wanted.update(op.args if op.kind.is_routine else op.args[:1])
        return frozenset(wanted)

    @cached_property
    def items(self) -> dict[int, int]:
        """The routine that each of its several results is of."""
        return {i: op.args[0] for i, op in enumerate(self.ops) if op.kind is Kind.ITEM}

    @cached_property
    def given(self) -> frozenset[int]:
        """Inputs and captured arrays."""
        return frozenset(i for i, op in enumerate(self.ops) if op.kind in (Kind.INPUT, Kind.ARRAY))

    @cached_property
    def single(self) -> frozenset[int]:
        """Nodes of one entry that can be locals: they are not written piecewise, unless as sums."""
        return frozenset(
            i for i, op in enumerate(self.ops)
            if not (
                op.dims if op.kind is Kind.INPUT
                else nonunit(op.dims) or op.kind.is_piecewise or i in self.wanted
            )
        )  # fmt: skip

    @cached_property
    def sums(self) -> frozenset[int]:
        """Sums that can be carried out by adding to memory."""
        return frozenset(i for i, op in enumerate(self.ops) if self._sums(op))

    def _sums(self, op: Operation) -> bool:
        of_terms = op.kind is Kind.ADD and not self.absorbed.isdisjoint(op.args)
        return of_terms or op.kind.is_scatter

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
        """The cost of each part itself."""
        return [flops_of(op.text) for op in self.ops]

    @cached_property
    def limits(self) -> list[float]:
        """The cost above which each node is kept: that of computing it where it is used."""
        stretched = _stretched(self.graph, self.users)
        lonely = self._lonely()
        return [
            -1 if i in lonely else self._limit(i, p, stretched=stretched[i])
            for i, p in enumerate(self.ops)
        ]

    def _lonely(self) -> set[int]:
        """Functions of rows of which each entry is read all along an inner axis.

        Computed in that loop over rows they would take turns with an inner loop, one at a time.
        Kept, they are computed in a loop of their own, in vectors.
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
        """Whether what reads a node has an axis inside of all of its own axes."""
        for u in self.users[i]:
            user = self.ops[u]
            if user.kind is Kind.RESHAPE and same_nonunit(self.ops[i].dims, user.dims):
                if self._read_along(u):
                    return True
            elif user.text and _inside(self.ops[i].dims, user.dims):
                return True
        return False

    def _limit(self, i: int, op: Operation, *, stretched: bool) -> float:
        if i in self.absorbed:
            return inf
        routine = op.kind.is_routine and len(op.shapes) == 1
        if op.kind.in_memory or op.kind is Kind.COPY or routine or i in self.sums:
            return -1
        if op.kind.is_leaf or op.kind.is_routine or op.kind.is_view:
            return inf
        if i in self.outputs or not nonunit(op.dims):
            return -1
        if stretched:
            return 2
        users = self.users[i]
        if len(users) < 2:
            return inf
        return 4 if any(self._moves(u) for u in users) else DEEP

    @cached_property
    def outputs(self) -> frozenset[int]:
        return frozenset(self.graph.outputs)

    def _moves(self, i: int) -> bool:
        """Whether `i` is a view in which entries are met in another order, or not all of them."""
        return i in self.recast or (
            self.ops[i].kind.is_view and self.ops[i].kind is not Kind.RESHAPE
        )

    @cached_property
    def recast(self) -> frozenset[int]:
        """Reshapes that do more than add or drop axes of size one."""
        ops = self.ops
        return frozenset(
            i for i, op in enumerate(ops)
            if op.kind is Kind.RESHAPE and not same_nonunit(op.dims, ops[op.args[0]].dims)
        )  # fmt: skip

    @cached_property
    def flattened(self) -> list[tuple[int, ...] | None]:
        """What has to be had from a row-major number for each node to be; None if it cannot be."""
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
    """Whether a user repeats the node along an axis outside its own: fusing recomputes it."""
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
    """Whether each entry of both operands takes part in one product alone, as in ``x @ x``."""
    left, right, _ = op.subscripts
    return left == right


@lru_cache(maxsize=4096)
def _repeats(dims: Dims, result: Dims) -> bool:
    """Whether an axis of `dims` lies inside an axis along which it is repeated."""
    padded = (ONE,) * (len(result) - len(dims)) + dims
    repeated = False
    for have, want in zip(padded, result, strict=True):
        if have != ONE and repeated:
            return True
        repeated = repeated or have != want
    return False


def _inside(dims: Dims, result: Dims) -> bool:
    """Whether a result has an axis inside of all axes of one of its operands."""
    return bool(nonunit(dims)) and dims[-1] == ONE != result[-1]


def _absorbed(graph: KernelGraph, users: list[list[int]]) -> frozenset[int]:
    """Nodes that need not exist: sums of slices put back, which are added up in one array.

    The transpose of ``x[1:] - x[:-1]`` is ``unslice(b) + unslice(c)``: one buffer of zeros, one
    accumulating loop a slice.
    """
    ops = graph.ops
    outputs = set(graph.outputs)
    holds = [False] * len(ops)
    indexed = [0] * len(ops)  # leading axes along which places are known at run time only

    def single(a: int) -> bool:
        return len(users[a]) == 1 and a not in outputs and holds[a] and ops[a].dtype[0] == "f"

    def passes(i: int, a: int) -> bool:
        """Whether what is added to node `a` can be added to node `i` instead."""
        op = ops[i]
        if indexed[a] and op.kind is Kind.UNSLICE:
            lead = indexed[a]
            whole = ops[a].dims[:lead] == op.dims[:lead]
            return whole and all(pair == WHOLE for pair in op.slices[:lead])
        if indexed[a] and op.kind is not Kind.ADD:
            return False
        if op.kind is Kind.RESHAPE:
            return same_nonunit(op.dims, ops[a].dims)
        return op.kind in (Kind.TRANSPOSE, Kind.UNSLICE) or (
            op.kind is Kind.ADD and ops[a].dims == op.dims
        )

    for i, op in enumerate(ops):
        indexed[i] = len(op.args) - 1 if op.kind is Kind.SCATTER_ADD else 0
        if op.kind in (Kind.ADD, Kind.UNSLICE):
            indexed[i] = max(indexed[a] if single(a) and passes(i, a) else 0 for a in op.args)
        holds[i] = op.kind.is_scatter or (
            op.kind in (Kind.ADD, Kind.RESHAPE, Kind.TRANSPOSE)
            and any(single(a) and passes(i, a) for a in op.args)
        )
    absorbed: set[int] = set()
    for i in range(len(ops) - 1, -1, -1):
        op = ops[i]
        gathers = op.kind is Kind.UNSLICE or (op.kind is Kind.ADD and holds[i]) or i in absorbed
        if gathers and op.kind is not Kind.SCATTER_ADD:
            absorbed.update(a for a in op.args if single(a) and passes(i, a))
    return frozenset(absorbed)

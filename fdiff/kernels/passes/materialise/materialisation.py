"""Materialisation: which values are stored, and which are computed again by each of their readers.

A node is *stored* if it has memory (or, with one entry, a local) of its own; every other node is
fused into the loops that read it: the choice between storage and recomputation that Halide leaves
to schedules (J. Ragan-Kelley et al., Halide, PLDI 2013, section 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....kernel_rule import Kind
from ....lazy_attributes import cached_property
from ...ir.accesses import Buffer
from ...ir.effect import Effect, EffectKind, View
from ...ir.index_expressions import Dims, Index, nonunit
from ...ir.kernel_graph import KernelGraph, Operation
from .graph_analysis import DEEP, GraphAnalysis
from .value_numbering import Key, Keys

_MOST_LINES = 6000  # of routines that are written out


@dataclass(frozen=True)
class Plan:
    """Which nodes of a graph are stored, and which of them in the memory of another node.

    `overwrites` has, for a node that is updated in place, the node whose memory it takes over.
    `reads_of_value` and `reads_of_effect` are caches of `fuse/memory_reads.py`.
    """

    analysis: GraphAnalysis
    stored: frozenset[int]
    overwrites: Mapping[int, int] = field(default_factory=dict)
    reads_of_value: dict[Key, tuple[Key, ...]] = field(default_factory=dict)
    reads_of_effect: dict[Effect, tuple[Key, ...]] = field(default_factory=dict)

    @cached_property
    def deep(self) -> set[int]:
        """Nodes stored for their cost alone.

        They stay stored in later plans, in which they might cost less because more is stored.
        """
        return {i for i in self.stored if self.analysis.limits[i] == DEEP}

    @cached_property
    def graph(self) -> KernelGraph:
        return self.analysis.graph

    @cached_property
    def ops(self) -> tuple[Operation, ...]:
        return self.analysis.ops

    @cached_property
    def keys(self) -> Keys:
        return self.analysis.keys

    @cached_property
    def written_out(self) -> frozenset[int]:
        """The calls of routines for so few rows and columns that they are written out.

        Of a long program these are the first ones: LLVM takes 0.2 ms for each line.
        """
        out, left = set[int](), _MOST_LINES
        for i, op in enumerate(self.ops):
            if op.routine is None or not op.routine.inline:
                continue
            rows = self.ops[op.args[0]].dims[-1]
            sizes = (rows, op.dims[-1] if op.routine.columns else rows)
            if all(n.isdigit() and int(n) <= op.routine.inline for n in sizes):
                left -= 2 * int(rows) ** 2 * (int(rows) + int(sizes[1]))
                out.update([i] if left >= 0 else [])
        return frozenset(out)

    @cached_property
    def outputs(self) -> dict[int, int]:
        """The number of the output in whose memory a node is stored."""
        first: dict[int, int] = {}
        for k, o in enumerate(self.graph.outputs):
            i = self.storage_of(o)
            if o in self.stored or (self.is_writable(i) and self.analysis.carries.get(i, k) == k):
                first.setdefault(i, k)
        return first

    def storage_of(self, i: int) -> int:
        """The node in whose memory the entries of `i` lie: what it reshapes, or `i` itself."""
        while self.ops[i].kind is Kind.RESHAPE and i not in self.stored:
            i = self.ops[i].args[0]
        return i

    def producer_of(self, i: int) -> int:
        """The node whose effects write `i`: the call, for one of several results of a routine."""
        return self.analysis.routine_of_result.get(i, i)

    def is_writable(self, i: int) -> bool:
        """Whether the node lies in memory that the kernel may write to."""
        own = i in self.stored and self.ops[i].kind not in (Kind.INPUT, Kind.ARRAY)
        return (own and not self.is_local(i)) or i in self.analysis.carries

    @cached_property
    def _head(self) -> dict[int, int]:
        """For each node updated in place, the first of the nodes that share its memory."""
        heads: dict[int, int] = {}
        for i in sorted(self.overwrites):
            heads[i] = heads.get(self.overwrites[i], self.overwrites[i])
        return heads

    @cached_property
    def _shared_memory(self) -> dict[int, str]:
        """The memory that several nodes have one after another, by the first of these nodes."""
        out: dict[int, str] = {}
        for i in sorted(self.overwrites):
            name, head = f"out{self.outputs[i]}" if i in self.outputs else "", self._head[i]
            carry = self.analysis.carries.get(head, -1)
            out[head] = name or out.get(head, f"x{carry}" if carry >= 0 else f"t{head}")
        return out

    @cached_property
    def names(self) -> dict[int, str]:
        """The name of the local or the memory of every node that has one."""
        some = sorted({*self.analysis.inputs, *self.analysis.read_in_memory, *self.stored})
        return {i: name for i in some if (name := self._name(i))}

    def _name(self, i: int) -> str:
        op = self.ops[i]
        if op.kind is Kind.INPUT:
            stays = f"out{self.outputs[i]}" if i in self.outputs else f"x{op.data[0]}"
            return self._shared_memory.get(i, stays)
        if op.kind is Kind.ARRAY:
            return f"k{op.data[0]}"
        if i not in self.stored:
            source = self.storage_of(i)
            return self._name(source) if i in self.analysis.read_in_memory and source != i else ""
        if self.is_local(i):
            return f"s{i}"
        head = self._head.get(i, i)
        if head in self._shared_memory:
            return self._shared_memory[head]
        return f"out{self.outputs[i]}" if i in self.outputs else f"t{i}"

    def is_local(self, i: int) -> bool:
        """Whether the value, if it is stored, is a local of the kernel and not memory."""
        return i in self.analysis.scalars and i not in self.accumulated

    @cached_property
    def accumulated(self) -> frozenset[int]:
        """Stored sums whose terms are added to memory one after another."""
        return self.stored & self.analysis.sums

    def buffer(self, i: int) -> Buffer:
        """Memory of node `i`; an input of any layout has run-time strides."""
        op = self.ops[i]
        name = self.names[i]
        if op.kind is Kind.INPUT and op.data[1] == "A":
            return Buffer(name, tuple(f"{name}_{k}" for k in range(len(op.dims))))
        return Buffer(name)

    def effect(
        self,
        kind: EffectKind,
        i: int,
        shape: Dims,
        values: tuple[View, ...],
        place: Index,
        **more: Any,
    ) -> Effect:
        """An effect that writes node `i` at `place`, once for each entry of an array of `shape`."""
        dims, buffer = self.ops[i].dims, self.buffer(i)
        return Effect(kind, i, nonunit(shape), values, dims, place, buffer, **more)


def make_plan(
    analysis: GraphAnalysis, also: Iterable[int] = (), before: Plan | None = None
) -> Plan:
    """Decide which nodes are stored: those too costly to compute again, and those in `also`.

    `before` is an earlier plan, whose cached reads are taken over where nothing has changed.
    """
    own, limits = analysis.flops, analysis.limits
    reordered = analysis.reordering_reshapes
    flattened = analysis.flattened if reordered else [()] * len(own)  # nothing else asks
    stored: set[int] = {i for i in also if i not in analysis.absorbed}
    flops: list[int] = []
    flat: list[bool] = []  # whether an entry can be had from its row-major number alone
    for i, op in enumerate(analysis.ops):
        cost = own[i]
        for a in op.args:
            cost += flops[a]
        if cost > limits[i]:
            stored.add(i)
        needed = flattened[i]
        flat.append(i in stored or (needed is not None and all(flat[a] for a in needed)))
        if i in reordered:
            source = op.args[0]
            if not flat[source] and i not in analysis.absorbed:
                stored.add(source)
                flat[source] = flat[i] = True
        needed_there = i in analysis.read_in_memory and not op.kind.is_leaf
        if needed_there and not _aliases_stored_array(analysis.graph, i, stored):
            stored.add(i)
            flat[i] = True
        flops.append(0 if i in stored else cost)
    plan = Plan(analysis, frozenset(stored))
    if before is not None:
        stale = _stale_reads(plan, before)
        plan.reads_of_value.update(
            (k, read) for k, read in before.reads_of_value.items() if k.node not in stale
        )
    return plan


def _stale_reads(plan: Plan, before: Plan) -> set[int]:
    """Nodes that are computed from other memory than in an earlier plan: cached reads are stale."""
    users = plan.analysis.users
    stale: set[int] = set()
    stack = [u for i in plan.names.keys() ^ before.names.keys() for u in users[i]]
    while stack:
        i = stack.pop()
        if i not in stale:
            stale.add(i)
            stack += () if i in plan.names else users[i]
    return stale


def _aliases_stored_array(graph: KernelGraph, i: int, stored: set[int]) -> bool:
    """Whether `i` only reshapes an array in memory: it is read there, and is not copied."""
    ops, source = graph.ops, i
    while ops[source].kind is Kind.RESHAPE and source not in stored:
        source = ops[source].args[0]
    op = ops[source]
    lies = (
        source in stored or op.kind is Kind.ARRAY or (op.kind is Kind.INPUT and op.data[1] == "C")
    )
    return source != i and lies and bool(nonunit(op.dims))

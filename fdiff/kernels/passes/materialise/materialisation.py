"""What is kept in memory and what is computed where it is used.

A node is *kept* if it has memory (or, with one entry, a local) of its own; every other node is
fused into the loops that read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....attributes import cached_property
from ....kernel_rule import Kind
from ...ir.effect import Effect, View
from ...ir.graph import KernelGraph, Operation
from ...ir.indexing import Dims, Index, nonunit
from ...ir.loops import Buffer
from .graph_analysis import DEEP, Structure
from .value_keys import Key, Keys


@dataclass(frozen=True)
class Plan:
    """A structure, what of it is kept, and what is written over."""

    of: Structure
    kept: frozenset[int]
    reused: Mapping[int, int] = field(default_factory=dict)  # nodes that take over another's memory
    reads: dict[Key, tuple[Key, ...]] = field(default_factory=dict)  # for a value, once known
    read: dict[Effect, tuple[Key, ...]] = field(default_factory=dict)  # by an effect, once known

    @cached_property
    def deep(self) -> set[int]:
        """What is kept for nothing but its cost: later plans, with less to compute, keep it too."""
        return {i for i in self.kept if self.of.limits[i] == DEEP}

    @cached_property
    def graph(self) -> KernelGraph:
        return self.of.graph

    @cached_property
    def ops(self) -> tuple[Operation, ...]:
        return self.of.ops

    @cached_property
    def keys(self) -> Keys:
        return self.of.keys

    @cached_property
    def outputs(self) -> dict[int, int]:
        """The output buffer of each kept node that is an output."""
        first: dict[int, int] = {}
        for k, o in enumerate(self.graph.outputs):
            if o in self.kept or self.owned(self.laid(o)):
                first.setdefault(self.laid(o), k)
        return first

    def laid(self, i: int) -> int:
        """The node whose entries, in order, are those of `i`: what it reshapes, or itself."""
        while self.ops[i].kind is Kind.RESHAPE and i not in self.kept:
            i = self.ops[i].args[0]
        return i

    def maker(self, i: int) -> int:
        """The node whose effects put `i` into memory."""
        return self.of.items.get(i, i)

    def owned(self, i: int) -> bool:
        """Whether the node lies in memory that the kernel may write to."""
        return (
            i in self.kept
            and self.ops[i].kind not in (Kind.INPUT, Kind.ARRAY)
            and not self.local(i)
        )

    @cached_property
    def _head(self) -> dict[int, int]:
        """The first of the nodes that share the memory of each that is written over."""
        heads: dict[int, int] = {}
        for i in sorted(self.reused):
            heads[i] = heads.get(self.reused[i], self.reused[i])
        return heads

    @cached_property
    def _shared(self) -> dict[int, str]:
        """Memory that several nodes have one after another, by the first of them."""
        out: dict[int, str] = {}
        for i in sorted(self.reused):
            name = f"out{self.outputs[i]}" if i in self.outputs else ""
            out[self._head[i]] = name or out.get(self._head[i], f"t{self._head[i]}")
        return out

    @cached_property
    def names(self) -> dict[int, str]:
        """Local or memory of every node that has one."""
        some = sorted({*self.of.given, *self.of.wanted, *self.kept})
        return {i: name for i in some if (name := self._name(i))}

    def _name(self, i: int) -> str:
        op = self.ops[i]
        if op.kind is Kind.INPUT:
            return f"x{op.data[0]}"
        if op.kind is Kind.ARRAY:
            return f"k{op.data[0]}"
        if i not in self.kept:
            source = self.laid(i)
            return self._name(source) if i in self.of.wanted and source != i else ""
        if self.local(i):
            return f"s{i}"
        head = self._head.get(i, i)
        if head in self._shared:
            return self._shared[head]
        return f"out{self.outputs[i]}" if i in self.outputs else f"t{i}"

    def local(self, i: int) -> bool:
        """Whether the value is a local of the kernel: one entry, and not written piecewise."""
        return i in self.of.single and i not in self.adds

    @cached_property
    def adds(self) -> frozenset[int]:
        """Sums that are carried out by adding to memory, term by term."""
        return self.kept & self.of.sums

    def buffer(self, i: int) -> Buffer:
        """Memory of node `i`; an input of any layout has run-time strides."""
        op = self.ops[i]
        name = self.names[i]
        if op.kind is Kind.INPUT and op.data[1] == "A":
            return Buffer(name, tuple(f"{name}_{k}" for k in range(len(op.dims))))
        return Buffer(name)

    def effect(
        self, kind: str, i: int, shape: Dims, values: tuple[View, ...], place: Index, **more: Any
    ) -> Effect:
        """An effect that writes node `i` at `place`, once for each entry of an array of `shape`."""
        dims, buffer = self.ops[i].dims, self.buffer(i)
        return Effect(kind, i, nonunit(shape), values, dims, place, buffer, **more)


def make_plan(structure: Structure, also: Iterable[int] = (), before: Plan | None = None) -> Plan:
    """Decide what is kept; `also` names nodes found to be computed too often.

    `before` is an earlier plan: what is read where nothing has changed is taken from there.
    """
    absorbed, wanted, recast = structure.absorbed, structure.wanted, structure.recast
    own, limits = structure.flops, structure.limits
    flattened = structure.flattened if recast else [()] * len(own)  # nothing else asks
    kept: set[int] = {i for i in also if i not in absorbed}
    flops: list[int] = []
    flat: list[bool] = []  # whether an entry can be had from its row-major number alone
    for i, op in enumerate(structure.ops):
        cost = own[i]
        for a in op.args:
            cost += flops[a]
        if cost > limits[i]:
            kept.add(i)
        needed = flattened[i]
        flat.append(i in kept or (needed is not None and all(flat[a] for a in needed)))
        if i in recast:
            source = op.args[0]
            if not flat[source] and i not in absorbed:
                kept.add(source)
                flat[source] = flat[i] = True
        if i in wanted and not op.kind.is_leaf and not _in_place(structure.graph, i, kept):
            kept.add(i)
            flat[i] = True
        flops.append(0 if i in kept else cost)
    plan = Plan(structure, frozenset(kept))
    if before is not None:
        stale = _read_otherwise(plan, before)
        plan.reads.update((k, read) for k, read in before.reads.items() if k.node not in stale)
    return plan


def _read_otherwise(plan: Plan, before: Plan) -> set[int]:
    """Nodes that are computed from what has memory in one of two plans only."""
    users = plan.of.users
    stale: set[int] = set()
    stack = [u for i in plan.names.keys() ^ before.names.keys() for u in users[i]]
    while stack:
        i = stack.pop()
        if i not in stale:
            stale.add(i)
            stack += () if i in plan.names else users[i]
    return stale


def _in_place(graph: KernelGraph, i: int, kept: set[int]) -> bool:
    """Whether `i` reshapes what lies in memory in order: it needs no memory of its own."""
    ops, source = graph.ops, i
    while ops[source].kind is Kind.RESHAPE and source not in kept:
        source = ops[source].args[0]
    op = ops[source]
    lies = source in kept or op.kind is Kind.ARRAY or (op.kind is Kind.INPUT and op.data[1] == "C")
    return source != i and lies and bool(nonunit(op.dims))

"""Dependences between effects, and an order that respects them.

An effect depends on those that write what it reads (flow), on those that read what it writes over
(anti), and on earlier writes to entries it writes (output); Allen and Kennedy, Optimizing Compilers
for Modern Architectures, Morgan Kaufmann 2001, chapter 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from ....kernel_rule import Kind
from ...ir.effect import Effect
from ..materialise.materialisation import Plan
from ..materialise.value_keys import Key
from .memory_reads import reads_of

Dependences = dict[int, bool]  # earlier effects, and whether both may share a nest


def dependences_of(plan: Plan, effects: list[Effect]) -> list[Dependences]:
    """For each effect, the earlier effects it depends on, by number.

    Dependences that follow from others (by transitivity) may be left out.
    """
    writers: dict[int, list[int]] = {}
    readers: dict[int, list[tuple[int, Key]]] = {}
    results = [plan.keys.at(*view) if (view := effect.result) else None for effect in effects]
    dependences: list[Dependences] = []
    for number, effect in enumerate(effects):
        own_dependences = {
            p: _may_share_nest(effect, effects[p])
            for p in _earlier_writes(plan, effects, writers, effect)
        }
        for node in _overwritten_nodes(plan, effect):
            for p, key in readers.get(node, ()):
                close = _same_entry(effect, key) or _may_share_nest(effect, effects[p])
                own_dependences[p] = own_dependences.get(p, True) and close
        for key in reads_of(plan, effect):
            node = key.node if key.node in plan.stored else plan.storage_of(key.node)
            if plan.overwrites:
                readers.setdefault(node, []).append((number, key))
            for p in _writers_of(plan, effects, writers, node):
                if results[p] is not key:
                    own_dependences[p] = False
                elif p not in own_dependences:
                    own_dependences[p] = True
        dependences.append(own_dependences)
        writers.setdefault(effect.node, []).append(number)
    return dependences


def _disjoint_stores_below(plan: Plan, node: int) -> list[int]:
    """Earlier stores into the same memory, of other entries: a store may come before them."""
    out: list[int] = []
    op = plan.ops[node]
    left = op.apart if op.kind is Kind.UPDATE else 0
    while left and plan.overwrites.get(node, -1) == plan.ops[node].args[0]:
        node = plan.overwrites[node]
        out.append(node)
        left -= 1
    return out


def _writers_of(
    plan: Plan, effects: list[Effect], writers: dict[int, list[int]], node: int
) -> Sequence[int]:
    """The effects that put `node` into memory, without those that others of them depend on."""
    own = writers.get(plan.producer_of(node), ())
    own = own if len(own) < 2 else _frontier(effects, own)
    if not plan.overwrites:
        return own
    return [
        *own,
        *(
            p
            for n in _disjoint_stores_below(plan, node)
            for p in _frontier(effects, writers.get(n, ()))
        ),
    ]


def _frontier(effects: list[Effect], writers: Sequence[int]) -> Sequence[int]:
    """The effects of a node, from the last on that depends on all before it.

    A term that is added to a sum depends on what began the sum.
    """
    for k in range(len(writers) - 1, -1, -1):
        effect = effects[writers[k]]
        if effect.kind == "update" and effect.node in effect.after:
            return writers[k:]
    return writers


def _earlier_writes(
    plan: Plan, effects: list[Effect], writers: dict[int, list[int]], effect: Effect
) -> list[int]:
    """Earlier writes that may alias this write (output dependences)."""
    out = [
        p
        for node in effect.after
        for p in _frontier_for_term(effects, writers.get(node, ()), effect)
    ]
    if effect.overwrites >= 0:
        beneath = _disjoint_stores_below(plan, effect.node)
        out += [p for node in beneath for p in writers.get(node, ()) if not effects[p].forwards]
        below = plan.overwrites.get(beneath[-1] if beneath else effect.node, -1)
        nodes = (
            [plan.producer_of(below), *_disjoint_stores_below(plan, below)] if below >= 0 else []
        )
        out += [p for node in nodes for p in writers.get(node, ())]
    return out


def _frontier_for_term(
    effects: list[Effect], writers: Sequence[int], effect: Effect
) -> Sequence[int]:
    """The earlier effects that one more term of a sum depends on.

    An earlier term over the same domain has the same dependences, so it stands for those before it.
    """
    for k in range(len(writers) - 1, -1, -1):
        before = effects[writers[k]]
        equal_spans = before.after == effect.after and before.boundary == effect.boundary
        if (
            before.kind == effect.kind == "update"
            and equal_spans
            and before.domain == effect.domain
        ):
            return writers[k:]
    return writers


def _overwritten_nodes(plan: Plan, effect: Effect) -> list[int]:
    """The nodes that are no longer in memory, as a whole, after an effect has written there."""
    nodes = (
        [effect.node, *_disjoint_stores_below(plan, effect.node)] if effect.overwrites >= 0 else []
    )
    return [plan.overwrites[n] for n in nodes if n in plan.overwrites]


def _may_share_nest(effect: Effect, before: Effect) -> bool:
    """Whether two dependent effects may share a nest, one statement after the other.

    Without loops they may; with loops, if both add terms to one sum.
    """
    if effect.boundary and before.boundary:
        return effect.node == before.node
    if effect.kind == before.kind == "update" and effect.node == before.node:
        return True  # terms of one sum
    return not effect.domain and not before.domain and before.kind != "call"


def _same_entry(store: Effect, key: Key) -> bool:
    """Whether each iteration reads under `key` the entry that `store` writes in that iteration."""
    return not store.positions and (key.dims, key.index) == (store.dims, store.index)


def ordered(plan: Plan, effects: list[Effect]) -> list[Effect]:
    """The effects in an order in which memory is read before it is written over.

    Effects that no dependence separates keep their order.
    """
    if not plan.overwrites:
        return effects
    writers: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    before: list[set[int]] = []
    for number, effect in enumerate(effects):
        read = [plan.storage_of(key.node) for key in reads_of(plan, effect)]
        for node in read:
            readers.setdefault(node, []).append(number)
        made_before = [p for node in read for p in _writers_of(plan, effects, writers, node)]
        before.append({*_earlier_writes(plan, effects, writers, effect), *made_before})
        writers.setdefault(effect.node, []).append(number)
    for number, effect in enumerate(effects):
        for node in _overwritten_nodes(plan, effect):
            before[number].update(
                p for p in readers.get(node, ()) if effects[p].node != effect.node
            )
    return [effects[number] for number in _topological_order(before)]


def _topological_order(before: list[set[int]]) -> Iterator[int]:
    """The numbers of effects in topological order, low ones first (A. B. Kahn, CACM 5(11), 1962).

    `before` has the effects that each depends on.
    """
    waits = [len(b) for b in before]
    users: list[list[int]] = [[] for _ in before]
    for number, own_dependences in enumerate(before):
        for p in own_dependences:
            users[p].append(number)
    ready = [number for number, n in enumerate(waits) if not n]
    heapify(ready)
    left = len(before)
    while ready:
        number = heappop(ready)
        left -= 1
        yield number
        for u in users[number]:
            waits[u] -= 1
            if not waits[u]:
                heappush(ready, u)
    assert not left, "effects depend on each other in a circle"

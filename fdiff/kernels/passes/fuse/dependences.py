"""Dependences between effects, and an order that respects them.

An effect depends on those that write what it reads (flow), on those that read what it writes over
(anti), and on earlier writes to entries it writes (output); Allen and Kennedy, Optimizing Compilers
for Modern Architectures, Morgan Kaufmann 2001, chapter 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from ...ir.effect import Effect, EffectKind
from ..materialise.materialisation import Plan
from ..materialise.value_numbering import Key
from .memory_reads import reads_of

Dependences = dict[int, bool]  # earlier effects, and whether both are fusible: may share a nest


def dependences_of(plan: Plan, effects: list[Effect]) -> list[Dependences]:
    """For each effect, the numbers of earlier effects it depends on, and whether it may join them.

    Dependences that follow from others by transitivity may be left out.
    """
    earlier = _EarlierEffects(plan, effects)
    readers: dict[int, list[tuple[int, Key]]] = {}
    results = [plan.keys.at(*view) if (view := effect.result) else None for effect in effects]
    dependences: list[Dependences] = []
    for number, effect in enumerate(effects):
        own = {p: _may_share_nest(effect, effects[p]) for p in earlier.aliasing_writes(effect)}
        for node in _overwritten_nodes(plan, effect):
            for p, key in readers.get(node, ()):
                fusible = _same_entry(effect, key) or _may_share_nest(effect, effects[p])
                own[p] = own.get(p, True) and fusible
        for key in reads_of(plan, effect):
            node = key.node if key.node in plan.stored else plan.storage_of(key.node)
            if plan.overwrites:
                readers.setdefault(node, []).append((number, key))
            for p in earlier.writers_of(node):
                if results[p] is not key:
                    own[p] = False
                elif p not in own:
                    own[p] = True
        dependences.append(own)
        earlier.add(number)
    return dependences


class _EarlierEffects:
    """The effects before one of them, by the nodes they write."""

    def __init__(self, plan: Plan, effects: list[Effect]) -> None:
        self.plan, self.effects = plan, effects
        self.writers: dict[int, list[int]] = {}

    def add(self, number: int) -> None:
        """Count one more effect as earlier."""
        self.writers.setdefault(self.effects[number].node, []).append(number)

    def writers_of(self, node: int) -> Sequence[int]:
        """The last effects that write `node`; dependences on earlier ones follow."""
        own = self._last_writers(self.plan.producer_of(node))
        if not self.plan.overwrites:
            return own
        below = _disjoint_stores_below(self.plan, node)
        return [*own, *(p for n in below for p in self._last_writers(n))]

    def aliasing_writes(self, effect: Effect) -> list[int]:
        """Earlier writes that may alias this write (output dependences)."""
        plan, writers = self.plan, self.writers
        out = [p for node in effect.after for p in self._last_writers(node, effect)]
        if effect.overwrites >= 0:
            beneath = _disjoint_stores_below(plan, effect.node)
            written = (p for node in beneath for p in writers.get(node, ()))
            out += [p for p in written if not self.effects[p].stores_part]
            below = plan.overwrites.get(beneath[-1] if beneath else effect.node, -1)
            if below >= 0:
                nodes = [plan.producer_of(below), *_disjoint_stores_below(plan, below)]
                out += [p for node in nodes for p in writers.get(node, ())]
        return out

    def _last_writers(self, node: int, term: Effect | None = None) -> Sequence[int]:
        """The last effects that write a node; dependences on earlier ones follow.

        A term of a sum depends on the effect that began the sum. One more `term` depends on the
        last term over the same domain alone, because both have the same dependences.
        """
        writers = self.writers.get(node, ())
        if len(writers) < 2:
            return writers
        for k in range(len(writers) - 1, -1, -1):
            if self._implies_earlier(self.effects[writers[k]], term):
                return writers[k:]
        return writers

    @staticmethod
    def _implies_earlier(effect: Effect, term: Effect | None) -> bool:
        """Whether a dependence on this effect implies one on every earlier writer of its node."""
        if term is None:
            return effect.kind is EffectKind.UPDATE and effect.node in effect.after
        return effect.kind is term.kind is EffectKind.UPDATE and (
            (effect.after, effect.boundary, effect.domain)
            == (term.after, term.boundary, term.domain)
        )


def _disjoint_stores_below(plan: Plan, node: int) -> list[int]:
    """The stores in place before `node` that write other entries of the same memory.

    A store may come before them.
    """
    out: list[int] = []
    op = plan.ops[node]
    left = op.region.disjoint if op.kind.is_store else 0
    while left and plan.overwrites.get(node, -1) == plan.ops[node].args[0]:
        node = plan.overwrites[node]
        out.append(node)
        left -= 1
    return out


def _overwritten_nodes(plan: Plan, effect: Effect) -> list[int]:
    """The nodes parts of which are lost from memory when an effect has written there."""
    if effect.overwrites < 0:
        return []
    nodes = [effect.node, *_disjoint_stores_below(plan, effect.node)]
    return [plan.overwrites[n] for n in nodes if n in plan.overwrites]


def _may_share_nest(effect: Effect, before: Effect) -> bool:
    """Whether two dependent effects may stand in one nest, one after the other.

    Without loops they may; with loops, if both add terms to one sum.
    """
    if effect.boundary and before.boundary:
        return effect.node == before.node
    if effect.kind is before.kind is EffectKind.UPDATE and effect.node == before.node:
        return True  # terms of one sum
    return not effect.domain and not before.domain and before.kind is not EffectKind.CALL


def _same_entry(store: Effect, key: Key) -> bool:
    """Whether each iteration reads by `key` the very entry that `store` writes in it."""
    return not store.positions and (key.dims, key.index) == (store.dims, store.index)


def ordered(plan: Plan, effects: list[Effect]) -> list[Effect]:
    """The effects in an order in which memory is read before it is written over.

    Effects that no dependence separates keep their order.
    """
    if not plan.overwrites:
        return effects
    earlier = _EarlierEffects(plan, effects)
    readers: dict[int, list[int]] = {}
    before: list[set[int]] = []
    for number, effect in enumerate(effects):
        nodes = [plan.storage_of(key.node) for key in reads_of(plan, effect)]
        for node in nodes:
            readers.setdefault(node, []).append(number)
        written = (p for node in nodes for p in earlier.writers_of(node))
        before.append({*earlier.aliasing_writes(effect), *written})
        earlier.add(number)
    for number, effect in enumerate(effects):
        for node in _overwritten_nodes(plan, effect):
            before[number].update(
                p for p in readers.get(node, ()) if effects[p].node != effect.node
            )
    return [effects[number] for number in _topological_order(before)]


def _topological_order(before: list[set[int]]) -> Iterator[int]:
    """The numbers of effects in topological order, low ones first.

    `before` has the effects that each depends on.

    D. E. Knuth, The Art of Computer Programming 1, 3rd ed., 1997, section 2.2.3, algorithm T.
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

"""What each effect needs to have happened, and the order in which memory can be written over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from ....kernel_rule import Kind
from ..materialise.materialisation import Plan
from ..materialise.memory_reads import reads_of
from ..materialise.value_keys import Key
from .effect import Effect

Needs = dict[int, bool]  # earlier effects; whether one nest can hold both, one after the other


def needs_of(plan: Plan, effects: list[Effect]) -> list[Needs]:
    """For each root, the effects that must come before it; some of those wait for others."""
    made: dict[int, list[int]] = {}
    readers: dict[int, list[tuple[int, Key]]] = {}
    results = [plan.keys.at(*view) if (view := effect.result) else None for effect in effects]
    needs: list[Needs] = []
    for r, effect in enumerate(effects):
        mine = {
            p: _in_line(effect, effects[p]) for p in _written_before(plan, effects, made, effect)
        }
        for node in _lost(plan, effect):
            for p, key in readers.get(node, ()):
                close = _same_place(effect, key) or _in_line(effect, effects[p])
                mine[p] = mine.get(p, True) and close
        for key in reads_of(plan, effect):
            node = key.node if key.node in plan.kept else plan.laid(key.node)
            if plan.reused:
                readers.setdefault(node, []).append((r, key))
            for p in _makers(plan, effects, made, node):
                if results[p] is not key:
                    mine[p] = False
                elif p not in mine:
                    mine[p] = True
        needs.append(mine)
        made.setdefault(effect.node, []).append(r)
    return needs


def _beneath(plan: Plan, node: int) -> list[int]:
    """The stores below one in the same memory that it may come before: of other entries."""
    out: list[int] = []
    op = plan.ops[node]
    left = op.apart if op.kind is Kind.UPDATE else 0
    while left and plan.reused.get(node, -1) == plan.ops[node].args[0]:
        node = plan.reused[node]
        out.append(node)
        left -= 1
    return out


def _makers(
    plan: Plan, effects: list[Effect], made: dict[int, list[int]], node: int
) -> Sequence[int]:
    """The effects that put `node` into memory, but for those that all of these wait for."""
    own = made.get(plan.maker(node), ())
    own = own if len(own) < 2 else _last(effects, own)
    if not plan.reused:
        return own
    return [*own, *(p for n in _beneath(plan, node) for p in _last(effects, made.get(n, ())))]


def _last(effects: list[Effect], made: Sequence[int]) -> Sequence[int]:
    """The effects of one node that others do not wait for: terms of a sum wait for each other."""
    for k in range(len(made) - 1, -1, -1):
        effect = effects[made[k]]
        if effect.kind == "update" and effect.node in effect.after:
            return made[k:]
    return made


def _written_before(
    plan: Plan, effects: list[Effect], made: dict[int, list[int]], effect: Effect
) -> list[int]:
    """What is written before `root` writes to the same memory, in the same entries perhaps."""
    out = [p for node in effect.after for p in _last_like(effects, made.get(node, ()), effect)]
    if effect.overwrites >= 0:
        beneath = _beneath(plan, effect.node)
        out += [p for node in beneath for p in made.get(node, ()) if not effects[p].forwards]
        below = plan.reused.get(beneath[-1] if beneath else effect.node, -1)
        nodes = [plan.maker(below), *_beneath(plan, below)] if below >= 0 else []
        out += [p for node in nodes for p in made.get(node, ())]
    return out


def _last_like(effects: list[Effect], made: Sequence[int], effect: Effect) -> Sequence[int]:
    """The same for one more term: those before a term that is alike are waited for by that."""
    for k in range(len(made) - 1, -1, -1):
        before = effects[made[k]]
        alike = before.after == effect.after and before.boundary == effect.boundary
        if before.kind == effect.kind == "update" and alike and before.domain == effect.domain:
            return made[k:]
    return made


def _lost(plan: Plan, effect: Effect) -> list[int]:
    """The nodes that are no longer in memory, as a whole, once `root` has written to it."""
    nodes = [effect.node, *_beneath(plan, effect.node)] if effect.overwrites >= 0 else []
    return [plan.reused[n] for n in nodes if n in plan.reused]


def _in_line(effect: Effect, before: Effect) -> bool:
    """Whether one statement follows the other: neither has a loop, or both are of one entry."""
    if effect.boundary and before.boundary:
        return effect.node == before.node
    if effect.kind == before.kind == "update" and effect.node == before.node:
        return True  # terms of one sum
    return not effect.domain and not before.domain and before.kind != "call"


def _same_place(store: Effect, key: Key) -> bool:
    """Whether what is read under `key` is, in each turn of a loop, what `store` then writes."""
    return not store.positions and (key.dims, key.index) == (store.dims, store.index)


def in_order(plan: Plan, effects: list[Effect]) -> list[Effect]:
    """What reads memory comes before what writes over it; else the order stays as it is."""
    if not plan.reused:
        return effects
    made: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    before: list[set[int]] = []
    for r, effect in enumerate(effects):
        read = [plan.laid(key.node) for key in reads_of(plan, effect)]
        for node in read:
            readers.setdefault(node, []).append(r)
        made_before = [p for node in read for p in _makers(plan, effects, made, node)]
        before.append({*_written_before(plan, effects, made, effect), *made_before})
        made.setdefault(effect.node, []).append(r)
    for r, effect in enumerate(effects):
        for node in _lost(plan, effect):
            before[r].update(p for p in readers.get(node, ()) if effects[p].node != effect.node)
    return [effects[r] for r in _sorted(before)]


def _sorted(before: list[set[int]]) -> Iterator[int]:
    """Numbers in an order in which each comes after those before it, low ones first."""
    waits = [len(b) for b in before]
    users: list[list[int]] = [[] for _ in before]
    for r, mine in enumerate(before):
        for p in mine:
            users[p].append(r)
    ready = [r for r, n in enumerate(waits) if not n]
    heapify(ready)
    left = len(before)
    while ready:
        r = heappop(ready)
        left -= 1
        yield r
        for u in users[r]:
            waits[u] -= 1
            if not waits[u]:
                heappush(ready, u)
    assert not left, "effects wait for each other"

"""Memory that effects read, and nodes that they compute: docs/decisions/materialisation.md."""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import chain

from ...ir.effect import Effect, EffectKind
from ..materialise.materialisation import Plan
from ..materialise.value_numbering import Key


def reads_of(plan: Plan, effect: Effect) -> tuple[Key, ...]:
    """The stored values that an effect reads, in order."""
    if effect not in plan.reads_of_effect:
        plan.reads_of_effect[effect] = _reads_of(plan, effect)
    return plan.reads_of_effect[effect]


def fused_nodes(plan: Plan, nodes: Iterable[int], in_memory: Container[int]) -> set[int]:
    """These nodes and all they are computed from, down to nodes that are read from memory."""
    fused: set[int] = set()
    stack = list(nodes)
    while stack:
        i = stack.pop()
        if i not in fused and i not in in_memory:
            fused.add(i)
            stack.extend(plan.ops[i].args)
    return fused


def _reads_of(plan: Plan, effect: Effect) -> tuple[Key, ...]:
    if effect.kind is EffectKind.CALL:
        return tuple([plan.keys.key(v[0], (), ()) for v in effect.values])
    reads = [
        (key,) if key.node in plan.names and key.node != effect.computes else _below(plan, key)
        for key in _values(plan, effect)
    ]
    return reads[0] if len(reads) == 1 else tuple(dict.fromkeys(chain.from_iterable(reads)))


def _values(plan: Plan, effect: Effect) -> list[Key]:
    """The values that an effect stores, and the values that give their positions."""
    root_values = plan.analysis.root_values
    if effect not in root_values:
        root_values[effect] = [plan.keys.at(*view) for view in (*effect.values, *effect.positions)]
    return root_values[effect]


def _below(plan: Plan, top: Key) -> tuple[Key, ...]:
    """The stored values that are read to compute a value, which `textbook_reads` finds as well.

    What is read for values of several readers is kept, and no call is made for each value.
    """
    reads_by_key = plan.reads_of_value
    waiting = [top]
    while waiting:
        key = waiting[-1]
        if key in reads_by_key:
            waiting.pop()
            continue
        reads, unknown = _reads(plan, key)
        waiting += unknown
        if not unknown:
            reads_by_key[key] = tuple(reads)
    return reads_by_key[top]


def textbook_reads(plan: Plan, top: Key) -> tuple[Key, ...]:
    """The stored values below a value by recursion: the reference of `test_memory_reads.py`."""
    gathers, reads = plan.analysis.gathers, dict[Key, None]()
    below = list(plan.keys.below(top))
    if top.node in gathers:
        below.append(plan.keys.whole(gathers[top.node]))
    for key in below:
        own = (key,) if key.node in plan.names else textbook_reads(plan, key)
        reads.update(dict.fromkeys(own))
    return tuple(reads)


def _reads(plan: Plan, top: Key) -> tuple[dict[Key, None], list[Key]]:
    """The stored values that are read to compute a value, and what has to be known first.

    The latter are values with several readers that it is computed from: their reads are found once
    and kept. As long as there are any, the former are not complete.
    """
    names, reads_by_key = plan.names, plan.reads_of_value
    shared, gathers = plan.analysis.shared, plan.analysis.gathers
    below = plan.keys.below
    reads: dict[Key, None] = {}
    unknown: list[Key] = []
    seen: set[Key] = set()
    stack = [top]
    while stack:
        key = stack.pop()
        if key in seen:
            continue
        seen.add(key)
        if key is not top:
            if key.node in names:
                reads[key] = None
                continue
            if key.node in shared:
                if key in reads_by_key:
                    reads.update(dict.fromkeys(reads_by_key[key]))
                else:
                    unknown.append(key)
                continue
        if key.node in gathers:
            stack.append(plan.keys.whole(gathers[key.node]))
        stack += reversed(key.below or below(key))
    return reads, unknown


def computed_by(plan: Plan, effects: Iterable[Effect], expensive: Container[int]) -> list[int]:
    """The `expensive` nodes that one nest computes, each once for every index it is computed at.

    What is computed from an expensive node has to be expensive, too.
    """
    elementwise, below = plan.analysis.elementwise, plan.keys.below
    out: list[int] = []
    seen: set[Key] = set()
    for effect in effects:
        stack = list(_values(plan, effect))
        own = effect.computes
        while stack:
            key = stack.pop()
            node = key.node
            if (node not in expensive and node != own) or key in seen:
                continue
            seen.add(key)
            if node in elementwise:
                out.append(node)
            stack += key.below or below(key)
    return out

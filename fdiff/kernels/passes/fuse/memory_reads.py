"""What effects read in memory, and what they compute, told without a statement of either."""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import chain

from ...ir.effect import Effect
from ..materialise.materialisation import Plan
from ..materialise.value_keys import Key


def reads_of(plan: Plan, effect: Effect) -> tuple[Key, ...]:
    """The kept values that `root` reads, in order."""
    if effect not in plan.read:
        plan.read[effect] = _reads_of(plan, effect)
    return plan.read[effect]


def _reads_of(plan: Plan, effect: Effect) -> tuple[Key, ...]:
    if effect.kind == "call":
        return tuple([plan.keys.exactly(v[0], (), ()) for v in effect.values])
    found = [
        (key,) if key.node in plan.names and key.node != effect.computes else _below(plan, key)
        for key in _values(plan, effect)
    ]
    return found[0] if len(found) == 1 else tuple(dict.fromkeys(chain.from_iterable(found)))


def _values(plan: Plan, effect: Effect) -> list[Key]:
    known = plan.of.tops
    if effect not in known:
        known[effect] = [plan.keys.at(*view) for view in (*effect.values, *effect.positions)]
    return known[effect]


def _below(plan: Plan, top: Key) -> tuple[Key, ...]:
    """What is read to compute a value. Those with several users are walked through once."""
    known = plan.reads
    waiting = [top]
    while waiting:
        key = waiting[-1]
        if key in known:
            waiting.pop()
            continue
        found, unknown = _walked(plan, key)
        waiting += unknown
        if not unknown:
            known[key] = tuple(found)
    return known[top]


def _walked(plan: Plan, top: Key) -> tuple[dict[Key, None], list[Key]]:
    """What is read to compute a value, and the values below that have to be known first."""
    names, known, shared, gathers = plan.names, plan.reads, plan.of.shared, plan.of.gathers
    below = plan.keys.below
    found: dict[Key, None] = {}
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
                found[key] = None
                continue
            if key.node in shared:
                if key in known:
                    found.update(dict.fromkeys(known[key]))
                else:
                    unknown.append(key)
                continue
        if key.node in gathers:
            stack.append(plan.keys.whole(gathers[key.node]))
        stack += reversed(key.below or below(key))
    return found, unknown


def computed_by(plan: Plan, effects: Iterable[Effect], dear: Container[int]) -> list[int]:
    """The nodes of `dear` that one nest computes, each as often as it is met at another index.

    Whatever is computed from one of them is one of them.
    """
    elementwise, below = plan.of.elementwise, plan.keys.below
    out: list[int] = []
    seen: set[Key] = set()
    for effect in effects:
        stack = list(_values(plan, effect))
        own = effect.computes
        while stack:
            key = stack.pop()
            node = key.node
            if (node not in dear and node != own) or key in seen:
                continue
            seen.add(key)
            if node in elementwise:
                out.append(node)
            stack += key.below or below(key)
    return out

"""Which nodes had better be kept, because several nests compute them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from ...ir.effect import Effect
from ...ir.indexing import nonunit
from ...ir.operation_costs import SLOW, instructions_of
from ..materialise.materialisation import Plan
from .memory_reads import computed_by

LONG = 1000  # operations of a program of which as much as can be is settled in one round


def computed_again(plan: Plan, nests: list[list[Effect]]) -> set[int]:
    """Dear nodes that several nests compute: what later ones begin with, to be kept from now on.

    So is a slope whose function an earlier nest computes: kept, it is computed there.
    """
    dear, long = _dear(plan), len(plan.ops) > LONG
    known: set[int] = set()
    begun: dict[object, int] = {}
    twice: set[int] = set()
    again: set[int] = set()
    for n, members in enumerate(nests if dear else ()):
        if members[0].kind == "call" or members[0].boundary:
            continue
        counts = Counter(computed_by(plan, members, dear))
        nodes = {i for i in counts if i in dear}
        # of a row that is gathered each field is read once
        twice.update(i for i in nodes if counts[i] > 1 and i not in plan.of.gathers)
        both = nodes & known
        again |= _needed(plan, both, counts) if long else _first_of(plan, both)
        known |= nodes
        again |= {i for i in counts if _after_its_like(plan, i, n, begun) and i not in plan.kept}
    again |= _first_of(plan, twice)
    return {_cheap_of(plan, i) for i in again}


def _after_its_like(plan: Plan, i: int, nest: int, begun: dict[object, int]) -> bool:
    """Whether an earlier nest has the instructions of `i`; `begun` tells which has them first."""
    op = plan.ops[i]
    like = instructions_of(op.text)
    return bool(like) and begun.setdefault((like, op.args), nest) != nest


def _dear(plan: Plan) -> set[int]:
    """Nodes of which an entry costs as much as a function, with all that is fused into it."""
    kept, gathers, flops = plan.kept, plan.of.gathers, plan.of.flops
    cost: list[int] = []
    for i, op in enumerate(plan.ops):
        own = 0
        if i not in kept:
            own = SLOW if i in gathers else flops[i]
            for a in op.args:
                own += cost[a]
        cost.append(own)
    return {i for i, c in enumerate(cost) if c >= SLOW}


def _needed(plan: Plan, repeated: set[int], here: Container[int]) -> set[int]:
    """Those that a nest needs for what it does not repeat, if all of them are kept.

    These are more than the first of them, which later rounds would find one after another.
    """
    out: set[int] = set()
    for i in repeated:
        users = [u for u in _users(plan, i) if u in here]
        if not users or any(u not in repeated for u in users):
            out.add(i)
    return out


def _first_of(plan: Plan, repeated: set[int]) -> set[int]:
    """Those that no other of them is made of."""
    return {i for i in repeated if repeated.isdisjoint(_users(plan, i))}


def _users(plan: Plan, i: int) -> set[int]:
    """What reads a node, itself or through views without memory."""
    ops, users = plan.ops, plan.of.users
    found: set[int] = set()
    stack = [i]
    while stack:
        for u in users[stack.pop()]:
            if not ops[u].kind.is_view:
                found.add(u)
            elif u not in plan.kept:
                stack.append(u)
    return found


def _cheap_of(plan: Plan, i: int) -> int:
    """The one array, used elsewhere too, of which an entry of `i` is a single operation; else `i`.

    Kept, it serves both: that operation is repeated rather than its results stored.
    """
    ops = plan.ops
    arrays = {a for a in ops[i].args if nonunit(ops[a].dims)}
    if len(arrays) != 1 or plan.of.flops[i] > 2:
        return i
    (source,) = arrays
    alike = ops[source].text and ops[source].dims == ops[i].dims
    return source if alike and len(_users(plan, source)) > 1 else i

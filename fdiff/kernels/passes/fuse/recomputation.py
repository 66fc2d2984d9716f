"""Rematerialisation or storage: which expensive values several nests compute, and had better store.

A value that is fused into its readers is computed again in the nest of each. The choice is an idea
of P. Briggs, K. D. Cooper and L. Torczon, Rematerialization, PLDI 1992, for values that do not fit
into registers; here it is made for arrays: docs/decisions/materialisation.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from ...ir.effect import Effect, EffectKind
from ...ir.index_expressions import nonunit
from ...ir.operation_costs import SLOW, instructions_of
from ..materialise.materialisation import Plan
from .memory_reads import computed_by

LONG = 1000  # operations of a program of which as much as can be is settled in one round
# The cost from which on a value that two nests need is stored by one for the other. To store and
# load a double takes a GPU as long as a hundred additions of doubles (H100: 16 bytes at 2.9 TB/s,
# 17e12 of these a second); an elementary function takes twenty to thirty of them.
ON_CPU, ON_GPU = SLOW, 4 * SLOW


def nodes_to_store(plan: Plan, nests: list[list[Effect]], least_cost: int = ON_CPU) -> set[int]:
    """The nodes to be stored because several nests compute them, at `least_cost` or more.

    Of chains of expensive nodes that a nest computes again, the last ones. Also derivatives of
    functions (as of `tanh`) that have most of their instructions in common with a function in an
    earlier nest: once stored, they are computed in that nest. What one nest computes several times
    for each entry is stored if it costs as much as an elementary function.
    """
    long = len(plan.ops) > LONG
    if long:  # recomputation would make many small kernels more
        least_cost = ON_CPU
    expensive = _expensive(plan, least_cost)
    enough = {i for i, cost in expensive.items() if cost >= least_cost}
    covered: set[int] = set()
    begun: dict[object, int] = {}
    twice: set[int] = set()
    again: set[int] = set()
    for n, members in enumerate(nests if expensive else ()):
        if members[0].kind is EffectKind.CALL or members[0].boundary:
            continue
        counts = Counter(computed_by(plan, members, expensive))
        nodes = {i for i in counts if i in expensive}
        # of a row that is gathered each field is read once
        twice.update(i for i in nodes if counts[i] > 1 and i not in plan.analysis.gathers)
        both = nodes & covered & enough
        again |= _read_by_unrepeated(plan, both, counts) if long else _last_in_chain(plan, both)
        covered |= nodes
        again |= {
            i
            for i in counts
            if (i in enough or least_cost == ON_CPU)
            and _resembles_earlier(plan, i, n, begun)
            and i not in plan.stored
        }
    again |= _last_in_chain(plan, twice)
    return {_cheapest_to_store(plan, i) for i in again}


def _resembles_earlier(plan: Plan, i: int, nest: int, begun: dict[object, int]) -> bool:
    """Whether an earlier nest computes a function of the operands of `i` that is much like it.

    `begun` has the first nest that computes a function of this family, by family and operands.
    """
    op = plan.ops[i]
    like = instructions_of(op.text)
    return bool(like) and begun.setdefault((like, op.args), nest) != nest


def _expensive(plan: Plan, least_cost: int) -> dict[int, int]:
    """Nodes an entry of which costs as much as an elementary function, and what it costs.

    That is with fused operands; a gather counts as `least_cost`.
    """
    stored, gathers, flops = plan.stored, plan.analysis.gathers, plan.analysis.flops
    cost: list[int] = []
    for i, op in enumerate(plan.ops):
        own = 0
        if i not in stored:
            own = least_cost if i in gathers else flops[i]
            for a in op.args:
                own += cost[a]
        cost.append(own)
    return {i: c for i, c in enumerate(cost) if c >= SLOW}


def _read_by_unrepeated(plan: Plan, repeated: set[int], here: Container[int]) -> set[int]:
    """The repeated nodes that a node of the nest reads which is not repeated, or none reads.

    In a long program all of these are stored at once; rounds that store the last of each chain only
    (`_last_in_chain`) would find the others one after another.
    """
    out: set[int] = set()
    for i in repeated:
        users = [u for u in _users(plan, i) if u in here]
        if not users or any(u not in repeated for u in users):
            out.add(i)
    return out


def _last_in_chain(plan: Plan, repeated: set[int]) -> set[int]:
    """The repeated nodes whose result no repeated node reads."""
    return {i for i in repeated if repeated.isdisjoint(_users(plan, i))}


def _users(plan: Plan, i: int) -> set[int]:
    """The readers of a node; for a view that is not stored, the readers of the view."""
    ops, users = plan.ops, plan.analysis.readers
    nodes_using: set[int] = set()
    stack = [i]
    while stack:
        for u in users[stack.pop()]:
            if not ops[u].kind.is_view:
                nodes_using.add(u)
            elif u not in plan.stored:
                stack.append(u)
    return nodes_using


def _cheapest_to_store(plan: Plan, i: int) -> int:
    """The node to store so that node `i` is cheap: its operand, if `i` is one operation on it.

    The operand has to have other readers, too, which then read the same memory; else `i` itself.
    """
    ops = plan.ops
    arrays = {a for a in ops[i].args if nonunit(ops[a].dims)}
    if len(arrays) != 1 or plan.analysis.flops[i] > 2:
        return i
    (source,) = arrays
    same_shape = ops[source].text and ops[source].dims == ops[i].dims
    return source if same_shape and len(_users(plan, source)) > 1 else i

"""Loop fusion: which effects share a loop nest.

A greedy partition of the dependence graph into nests of one domain each; R. Allen and K. Kennedy,
Optimizing Compilers for Modern Architectures, Morgan Kaufmann 2001, section 6.2.5.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from operator import attrgetter

from ...ir.effect import Effect, EffectKind
from ...ir.index_expressions import Dims
from ...ir.loops import Ranges
from ..materialise.materialisation import Plan
from .dependences import Dependences, dependences_of

_NUMBER = attrgetter("number")
_MANY = 400  # groups from which on the second merge costs more than it gains
# What effects of one nest agree on: domain (None for a call), excluded box, ranges, whether it is
# a boundary.
Span = tuple[Dims | None, Ranges, Ranges, bool]


@dataclass
class Group:
    """Effects, by number, that share a nest; the call of a routine stands alone."""

    span: Span
    members: list[int]
    number: int  # among all groups


def fuse_effects(plan: Plan, effects: list[Effect]) -> list[Group]:
    """Put each effect into the first nest over its domain that no dependence forbids."""
    dependences = dependences_of(plan, effects)
    groups: list[Group] = []
    equal_spans: dict[Span, list[Group]] = {}
    nests: list[Group] = []  # of each effect
    for r, effect in enumerate(effects):
        bounds = [nests[p].number + (not fusible) for p, fusible in dependences[r].items()]
        earliest = max(bounds, default=0)
        call = effect.kind is EffectKind.CALL
        span = (None if call else effect.domain, effect.excluded, effect.ranges, effect.boundary)
        same_span = equal_spans.setdefault(span, [])
        position = len(same_span) if call else bisect_left(same_span, earliest, key=_NUMBER)
        if position < len(same_span):
            group = same_span[position]
        else:
            # zeros first, so that what adds to them can join others
            fill = effect.kind is EffectKind.STORE and not effect.values
            first = fill and earliest < len(groups)
            group = Group(span, [], earliest if first else len(groups))
            for later in groups[group.number :]:
                later.number += 1
            groups.insert(group.number, group)
            insort(same_span, group, key=_NUMBER)
        group.members.append(r)
        nests.append(group)
    return _merge_into_later_nests(groups, dependences) if len(groups) < _MANY else groups


def _merge_into_later_nests(groups: list[Group], dependences: list[Dependences]) -> list[Group]:
    """Merge a nest into the next one over its domain if no nest in between depends on it."""
    for g in range(len(groups) - 2, -1, -1):
        here = set(groups[g].members)
        for later in groups[g + 1 :]:
            uses = [dependences[r][p] for r in later.members for p in dependences[r] if p in here]
            if later.span == groups[g].span and later.span[0] is not None:
                if all(uses):
                    later.members = sorted(groups[g].members + later.members)
                    groups[g].members = []
                break
            if uses:
                break
    return [g for g in groups if g.members]

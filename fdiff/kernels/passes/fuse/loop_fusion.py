"""Which effects share a loop nest."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from operator import attrgetter

from ...ir.indexing import Dims
from ...ir.loops import Ranges
from ..materialise.materialisation import Plan
from .dependences import Needs, needs_of
from .effect import Effect

_NUMBER = attrgetter("number")
_MANY = 400  # beyond this many groups, sinking would cost more than it gains


Span = tuple[Dims | None, Ranges, Ranges, bool]  # the entries that are run over


@dataclass
class Group:
    """Roots, by number, that run over one domain together; a call stands alone."""

    span: Span
    members: list[int]
    number: int  # among all groups

    @property
    def domain(self) -> Dims | None:
        return self.span[0]

    @property
    def excluded(self) -> Ranges:
        return self.span[1]

    @property
    def ranges(self) -> Ranges:
        return self.span[2]


def group_effects(plan: Plan, effects: list[Effect]) -> list[Group]:
    """Put each effect into the first nest of its domain that comes late enough."""
    needs = needs_of(plan, effects)
    groups: list[Group] = []
    alike: dict[Span, list[Group]] = {}
    place: list[Group] = []
    for r, effect in enumerate(effects):
        low = max([place[p].number + (not close) for p, close in needs[r].items()], default=0)
        call = effect.kind == "call"
        span = (None if call else effect.domain, effect.excluded, effect.ranges, effect.boundary)
        there = alike.setdefault(span, [])
        at = len(there) if call else bisect_left(there, low, key=_NUMBER)
        if at < len(there):
            mine = there[at]
        else:
            # zeros first, so that what adds to them can join others
            first = not call and not effect.values and effect.kind == "store" and low < len(groups)
            mine = Group(span, [], low if first else len(groups))
            for later in groups[mine.number :]:
                later.number += 1
            groups.insert(mine.number, mine)
            insort(there, mine, key=_NUMBER)
        mine.members.append(r)
        place.append(mine)
    return _sink(groups, needs) if len(groups) < _MANY else groups


def _sink(groups: list[Group], needs: list[Needs]) -> list[Group]:
    """Move a nest down to the next one of its domain if nothing in between waits for it."""
    for g in range(len(groups) - 2, -1, -1):
        here = set(groups[g].members)
        for later in groups[g + 1 :]:
            uses = [needs[r][p] for r in later.members for p in needs[r] if p in here]
            if groups[g].domain is not None and later.span == groups[g].span:
                if all(uses):
                    later.members = sorted(groups[g].members + later.members)
                    groups[g].members = []
                break
            if uses:
                break
    return [g for g in groups if g.members]

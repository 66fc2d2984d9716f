"""Which effects share a loop nest."""

from __future__ import annotations

from dataclasses import dataclass

from ..loops import Dims, Hole
from .order import Need, needs_of
from .plan import Plan
from .root import Root

_MANY = 400  # beyond this many groups, sinking would cost more than it gains


@dataclass
class Group:
    """Roots, by number, that run over one domain together; a call stands alone."""

    domain: Dims | None
    members: list[int]
    hole: Hole = ()
    window: Hole = ()
    edge: bool = False

    @property
    def span(self) -> tuple[Dims | None, Hole, Hole, bool]:
        """The entries that are run over."""
        return self.domain, self.hole, self.window, self.edge


def group(plan: Plan, roots: list[Root]) -> list[Group]:
    """Put each effect into the first nest of its domain that comes late enough."""
    needs = needs_of(plan, roots)
    groups: list[Group] = []
    place: list[int] = []
    for r, root in enumerate(roots):
        low = max((place[n.root] + (not n.close) for n in needs[r]), default=0)
        domain = None if root.kind == "call" else root.domain
        span = (domain, root.hole, root.window, root.edge)
        near = (g for g in range(low, len(groups)) if groups[g].span == span)
        at = -1 if domain is None else next(near, -1)
        if at < 0 and not root.values and root.kind == "store" and low < len(groups):
            # zeros first, so that what adds to them can join others
            groups.insert(low, Group(*span[:1], [], *span[1:]))
            place = [p + (p >= low) for p in place]
            at = low
        elif at < 0:
            groups.append(Group(*span[:1], [], *span[1:]))
            at = len(groups) - 1
        groups[at].members.append(r)
        place.append(at)
    return _sink(groups, needs, place) if len(groups) < _MANY else groups


def _sink(groups: list[Group], needs: list[list[Need]], place: list[int]) -> list[Group]:
    """Move a nest down to the next one of its domain if nothing in between waits for it."""
    for g in range(len(groups) - 2, -1, -1):
        here = set(groups[g].members)
        for later in range(g + 1, len(groups)):
            uses = [n for r in groups[later].members for n in needs[r] if n.root in here]
            if groups[g].domain is not None and groups[later].span == groups[g].span:
                if all(n.close for n in uses):
                    groups[later].members = sorted(groups[g].members + groups[later].members)
                    groups[g].members = []
                break
            if uses:
                break
    return [g for g in groups if g.members]

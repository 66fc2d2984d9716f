"""Which effects share a loop nest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from ..loops import Dims
from .body import Body, Key
from .effects import enter
from .plan import ROUTINES, Plan
from .roots import Root

_MANY = 400  # beyond this many groups, sinking would cost more than it gains


@dataclass
class Group:
    """Roots, by number, that run over one domain together; a call stands alone."""

    domain: Dims | None
    members: list[int]


@dataclass(frozen=True)
class Need:
    """An earlier effect; `close` if its value can be handed over inside one nest."""

    root: int
    close: bool


def group(plan: Plan, roots: list[Root]) -> list[Group]:
    """Put each effect into the first nest of its domain that comes late enough."""
    needs = _needs(plan, roots)
    groups: list[Group] = []
    place: list[int] = []
    for r, root in enumerate(roots):
        low = max((place[n.root] + (not n.close) for n in needs[r]), default=0)
        domain = None if root.kind == "call" else root.domain
        at = next(
            (
                g
                for g in range(low, len(groups))
                if domain is not None and groups[g].domain == domain
            ),
            -1,
        )
        if at < 0 and not root.values and root.kind == "store" and low < len(groups):
            groups.insert(
                low, Group(domain, [])
            )  # zeros first, so that what adds to them can join others
            place = [p + (p >= low) for p in place]
            at = low
        elif at < 0:
            groups.append(Group(domain, []))
            at = len(groups) - 1
        groups[at].members.append(r)
        place.append(at)
    return _sink(groups, needs, place) if len(groups) < _MANY else groups


def _needs(plan: Plan, roots: list[Root]) -> list[list[Need]]:
    """For each root, the effects that must come before it."""
    made: dict[int, list[int]] = {}
    needs: list[list[Need]] = []
    for r, root in enumerate(roots):
        mine: list[Need] = [Need(p, close=False) for node in root.after for p in made.get(node, ())]
        for key, node in _reads(plan, root):
            mine.extend(Need(p, close=_close(plan, roots[p], key)) for p in made.get(node, ()))
        needs.append(mine)
        made.setdefault(root.node, []).append(r)
    return needs


def _reads(plan: Plan, root: Root) -> Iterator[tuple[Key, int]]:
    """Kept values that `root` reads, and the node whose effect makes each."""
    if root.kind == "call":
        keys = [Key(v[0], (), ()) for v in root.values]
    else:
        body = Body(plan, count())
        enter(body, root)
        keys = list(body.reads)
    for key in keys:
        part = plan.parts[key.node]
        source = part.args[0] if part.op == "item" else key.node
        yield key, source
        assert part.op != "item" or plan.parts[source].op in ROUTINES


def _close(plan: Plan, maker: Root, key: Key) -> bool:
    result = maker.result
    return result is not None and Body(plan, count()).key(*result) == key


def _sink(groups: list[Group], needs: list[list[Need]], place: list[int]) -> list[Group]:
    """Move a nest down to the next one of its domain if nothing in between waits for it."""
    for g in range(len(groups) - 2, -1, -1):
        here = set(groups[g].members)
        for later in range(g + 1, len(groups)):
            uses = [n for r in groups[later].members for n in needs[r] if n.root in here]
            if groups[later].domain == groups[g].domain and groups[g].domain is not None:
                if all(n.close for n in uses):
                    groups[later].members = sorted(groups[g].members + groups[later].members)
                    groups[g].members = []
                break
            if uses:
                break
    return [g for g in groups if g.members]

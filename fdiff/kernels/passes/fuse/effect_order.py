"""The partial order of effects, while stores in place add constraints.

A topological order is kept up to date as edges are added (D. J. Pearce and P. H. J. Kelly, A
dynamic topological sort algorithm for directed acyclic graphs, 2006, algorithm PK): a path from one
effect to another is looked for among those that lie between them in the order. A transitive closure
would answer at once, but has as many bits as there are pairs of effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_VISITED = 2000  # effects after which a search gives up: chains of loops are as long as a program


class EffectOrder:
    """An order of effects, known by their numbers; `needs` has the earlier ones each depends on."""

    def __init__(self, needs: Sequence[Iterable[int]]) -> None:
        self._rank = list(range(len(needs)))
        self._before = [list(own) for own in needs]
        self._after: list[list[int]] = [[] for _ in needs]
        for number, own in enumerate(needs):
            for earlier in own:
                self._after[earlier].append(number)

    def may_need(self, later: int, earlier: int) -> bool:
        """Whether `later` must come after `earlier`, or might: there may be too many between."""
        rank = self._rank
        if rank[later] <= rank[earlier]:
            return False
        after = self._path(earlier, later, self._after, _VISITED)
        if after is None or later in after:
            return True
        return self._path(later, earlier, self._before, _VISITED) is None

    def behind(self, effects: Iterable[int], ends: Iterable[int]) -> set[int] | None:
        """Some effects, and what comes after them, as far as `ends`; None if that is too much."""
        reached, rank = set(effects), self._rank
        last, stack = max([rank[k] for k in ends]), [*reached]
        while stack and len(reached) <= _VISITED:
            more = [k for k in self._after[stack.pop()] if k not in reached and rank[k] <= last]
            reached.update(more)
            stack += more
        return None if stack else reached

    def put_before(self, first: int, second: int) -> None:
        """Note that `first`, which does not need `second`, must come before it."""
        rank, end = self._rank, len(self._rank)
        if rank[first] > rank[second]:
            head = self._path(first, second, self._before, end)
            tail = self._path(second, first, self._after, end)
            assert head is not None
            assert tail is not None
            moved = [*sorted(head, key=rank.__getitem__), *sorted(tail, key=rank.__getitem__)]
            for number, place in zip(moved, sorted([rank[k] for k in moved]), strict=True):
                rank[number] = place
        self._before[second].append(first)
        self._after[first].append(second)

    def _path(self, start: int, end: int, steps: list[list[int]], most: int) -> set[int] | None:
        """Effects from `start` to `end` in the order that `steps` reach; the search ends at `end`.

        None if that is more than `most`.
        """
        rank = self._rank
        low, high = sorted((rank[start], rank[end]))
        reached, stack = {start}, [start]
        while stack:
            for k in steps[stack.pop()]:
                if low <= rank[k] <= high and k not in reached:
                    reached.add(k)
                    if k == end:
                        return reached
                    stack.append(k)
            if len(reached) > most:
                return None
        return reached

"""The cheapest edges of a graph that part a source from a sink.

Dinic's algorithm (Soviet Mathematics Doklady 11, 1970): R. E. Tarjan, Data Structures and Network
Algorithms, SIAM 1983, section 8.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

SOURCE, SINK = 0, 1
UNBOUNDED = 1 << 62  # a capacity above the capacity of any cut


class FlowGraph:
    """A graph of numbered nodes, with a capacity for each edge; `SOURCE` and `SINK` are two."""

    def __init__(self, nodes: int) -> None:
        self.edges: list[list[int]] = [[] for _ in range(nodes)]  # from a node, by number
        self.ends: list[int] = []
        self.left: list[int] = []  # what may still flow; an edge is followed by its reverse

    def connect(self, begin: int, end: int, capacity: int) -> None:
        """Enter an edge."""
        for a, b, most in ((begin, end, capacity), (end, begin, 0)):
            self.edges[a].append(len(self.ends))
            self.ends.append(b)
            self.left.append(most)

    def source_side(self) -> Sequence[int]:
        """For each node its distance from the source, -1 on the sink's side of a minimum cut.

        Of several minimum cuts, it is the one that is nearest to the source.
        """
        while (levels := self._levels())[SINK] >= 0:
            begins = [0] * len(self.edges)
            while self._flows(levels, begins):
                pass
        return levels

    def _levels(self) -> list[int]:
        levels = [-1] * len(self.edges)
        levels[SOURCE], queue = 0, deque([SOURCE])
        while queue:
            a = queue.popleft()
            for e in self.edges[a]:
                if self.left[e] and levels[self.ends[e]] < 0:
                    levels[self.ends[e]] = levels[a] + 1
                    queue.append(self.ends[e])
        return levels

    def _flows(self, levels: Sequence[int], begins: list[int]) -> bool:
        """Whether one more path to the sink was found, which is then used up."""
        path: list[int] = []
        node = SOURCE
        while node != SINK:
            edges = self.edges[node]
            while begins[node] < len(edges):
                e = edges[begins[node]]
                if self.left[e] and levels[self.ends[e]] == levels[node] + 1:
                    break
                begins[node] += 1
            else:  # a dead end
                if not path:
                    return False
                node = self.ends[path.pop() ^ 1]
                begins[node] += 1
                continue
            path.append(e)
            node = self.ends[e]
        most = min(self.left[e] for e in path)
        for e in path:
            self.left[e] -= most
            self.left[e ^ 1] += most
        return True

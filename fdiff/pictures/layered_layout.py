"""Graphs in layers: where boxes are put so that edges lead downwards and few of them cross.

The four steps of K. Sugiyama, S. Tagawa and M. Toda, "Methods for visual understanding of
hierarchical system structures", IEEE Trans. SMC 11(2), pages 109-125, 1981: layers, bends, order by
barycentres, places. Layers hold a bounded number of boxes, an idea of E. Coffman and R. Graham,
"Optimal scheduling for two-processor systems", Acta Informatica 1, 1972.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from ..named_tuples import NamedTuple

Size = tuple[float, float]
Point = tuple[float, float]
Edge = tuple[int, int]

_WIDEST = 6  # boxes of a layer
_SWEEPS = 6  # over all layers, to order and to place
_BESIDE, _BEND = 16.0, 10.0  # between boxes of a layer; the width of an edge that passes it


class LayeredLayout(NamedTuple):
    """The upper left corners of boxes, the points that each edge passes, and the whole size."""

    corners: list[Point]
    routes: dict[Edge, list[Point]]
    width: float
    height: float


def layered(sizes: Sequence[Size], edges: Iterable[Edge], below: float = 26.0) -> LayeredLayout:
    """The layout of boxes of these sizes; `below` is the height between layers.

    Edges that would close a circle are left out.
    """
    count = len(sizes)
    order, edges = _acyclic(count, edges)
    layer = _layers(order, edges, count)
    sizes = list(sizes)  # of bends, too, which are added to it and to `layer`
    chains = {edge: _bends(edge, layer, sizes) for edge in edges}
    links = [pair for chain in chains.values() for pair in pairwise(chain)]
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for box in (*order, *range(count, len(sizes))):
        rows[layer[box]].append(box)
    centres = _centres(rows, links, [width for width, _ in sizes])
    tops, top = [0.0] * len(rows), 0.0
    for k in range(len(rows) - 1, -1, -1):  # the last layer is the uppermost
        tops[k] = top
        top += max(sizes[box][1] for box in rows[k]) + below
    left = min((c - w / 2 for c, (w, _) in zip(centres, sizes, strict=True)), default=0.0)
    corners = [
        (c - w / 2 - left, tops[k]) for c, (w, _), k in zip(centres, sizes, layer, strict=True)
    ]
    routes = {edge: _points(chain, corners, sizes) for edge, chain in chains.items()}
    width = max((x + w for (x, _), (w, _) in zip(corners, sizes, strict=True)), default=0.0)
    return LayeredLayout(corners[:count], routes, width, max(top - below, 0.0))


def _acyclic(count: int, edges: Iterable[Edge]) -> tuple[list[int], list[Edge]]:
    """The boxes in an order in which edges lead forwards, and those edges."""
    targets: list[dict[int, None]] = [{} for _ in range(count)]
    waits = [0] * count
    for a, b in dict.fromkeys(edges):
        if a != b:
            targets[a][b] = None
            waits[b] += 1
    order: list[int] = []
    left = dict.fromkeys(range(count))
    while left:
        box = next((k for k in left if not waits[k]), next(iter(left)))
        del left[box]
        order.append(box)
        for b in targets[box]:
            waits[b] -= 1
    rank = {box: k for k, box in enumerate(order)}
    return order, [(a, b) for a in order for b in targets[a] if rank[a] < rank[b]]


def _layers(order: Sequence[int], edges: Sequence[Edge], count: int) -> list[int]:
    """The layer of each box, counted from below: just above those that it leads to."""
    layer, filled = [0] * count, list[int]()
    lowest = [0] * count
    sources: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        sources[b].append(a)
    for box in reversed(order):
        k = lowest[box]
        while k < len(filled) and filled[k] >= _WIDEST:
            k += 1
        filled += [0] * (k + 1 - len(filled))
        filled[k] += 1
        layer[box] = k
        for a in sources[box]:
            lowest[a] = max(lowest[a], k + 1)
    return layer


def _bends(edge: Edge, layer: list[int], sizes: list[Size]) -> list[int]:
    """The boxes of an edge and a new one, without height, for each layer that it passes."""
    a, b = edge
    chain = [a]
    for k in range(layer[a] - 1, layer[b], -1):
        chain.append(len(layer))
        layer.append(k)
        sizes.append((_BEND, 0.0))
    return [*chain, b]


def _centres(rows: list[list[int]], links: Sequence[Edge], widths: Sequence[float]) -> list[float]:
    """Orders each layer by the places of its neighbours, and returns the places."""
    up: list[list[int]] = [[] for _ in widths]
    down: list[list[int]] = [[] for _ in widths]
    for a, b in links:
        down[a].append(b)
        up[b].append(a)
    centres = [0.0] * len(widths)
    for row in rows:
        _spread(row, [0.0] * len(row), widths, centres)
    for sweep in range(2 * _SWEEPS):
        neighbours = (down, up)[sweep % 2]
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [
                sum(centres[n] for n in near) / len(near)
                if (near := neighbours[box])
                else centres[box]
                for box in row
            ]
            if sweep < _SWEEPS:
                ranked = sorted(zip(wanted, range(len(row)), strict=True))
                row[:] = [row[k] for _, k in ranked]
                wanted = [w for w, _ in ranked]
            _spread(row, wanted, widths, centres)
    return centres


def _spread(
    row: Sequence[int], wanted: Sequence[float], widths: Sequence[float], centres: list[float]
) -> None:
    """The places nearest to those wanted at which boxes do not overlap.

    By least squares: neighbours that would overlap become a group, which moves as one (pool
    adjacent violators; R. Barlow, Statistical Inference under Order Restrictions, 1972, chapter 1).
    """
    groups: list[tuple[float, int]] = []  # the sum of the places wanted of the first, and boxes
    offsets, offset = [], 0.0
    for k, box in enumerate(row):
        if k:
            offset += (widths[row[k - 1]] + widths[box]) / 2 + _BESIDE
        offsets.append(offset)
        group = (wanted[k] - offset, 1)
        while groups and groups[-1][0] / groups[-1][1] >= group[0] / group[1]:
            before = groups.pop()
            group = (before[0] + group[0], before[1] + group[1])
        groups.append(group)
    places = [total / count for total, count in groups for _ in range(count)]
    for box, place, offset in zip(row, places, offsets, strict=True):
        centres[box] = place + offset


def _points(chain: Sequence[int], corners: Sequence[Point], sizes: Sequence[Size]) -> list[Point]:
    """From the lower side of the first box to the upper side of the last."""
    middles = [(corners[k][0] + sizes[k][0] / 2, corners[k][1]) for k in chain]
    (x, y), height = middles[0], sizes[chain[0]][1]
    return [(x, y + height), *middles[1:]]

"""The structure of a graph, by which two graphs share one program.

The method is our own: docs/decisions/recorded-arrays.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...arraytype import ArrayType
from ...dispatch.tiers.tiered_execution import Runner
from ...named_tuples import NamedTuple
from ...process.memory_reserve import budget
from ..arrays.recorded_array import Recordable
from .nodes import AccumulateGrad, Edge, GraphNode

LONGEST = 10_000  # nodes up to which a graph is put on one tape


class Root(NamedTuple):
    """The start of a backward pass: an output of a node, and its cotangent (None: ones)."""

    node: GraphNode
    output_nr: int
    seed: Recordable
    type: ArrayType


class GraphStructure(NamedTuple):
    """A graph in terms of positions: its nodes, the saved values, and the key of both."""

    key: tuple[object, ...]
    nodes: list[GraphNode]
    places: dict[GraphNode, int]
    values: list[Recordable]
    slots: dict[int, int]  # of each value, by its id


@dataclass(eq=False, slots=True)
class BackwardProgram:
    """One tape for a graph: the nodes that it pulls back, its results, and the leaves."""

    runner: Runner
    ran: tuple[int, ...]
    outputs: tuple[int, ...]  # of each thing asked for its result, -1 where there is none
    leaves: tuple[int, ...]
    uses: int = 0


def structure(roots: Sequence[Root], wanted: Sequence[Edge] | None) -> GraphStructure | None:
    """The structure of the graph behind `roots`; None where it has to be run node by node."""
    places: dict[GraphNode, int] = {}
    nodes: list[GraphNode] = []
    key: list[object] = []
    values: list[Recordable] = []
    slots: dict[int, int] = {}
    for node, nr, seed, _ in roots:
        k = places.get(node)
        if k is None:
            k = places[node] = len(nodes)
            nodes.append(node)
        key += (k, nr, seed is None)
    for node in nodes:  # which grows by the nodes that edges lead to
        saved = _enter_recipe(node, key)
        if saved is None or len(nodes) > LONGEST:
            return None
        for value in saved:
            slot = slots.get(id(value))
            if slot is None:
                slot = slots[id(value)] = len(values)
                values.append(value)
            key.append(slot)
        for edge in node.edges:
            if edge is not None:
                target, nr = edge
                k = places.get(target)
                if k is None:
                    k = places[target] = len(nodes)
                    nodes.append(target)
                key.append((k, nr) if nr else k)
    if (memory := budget.get()) is not None:
        key.append(("budget", memory))
    if wanted is not None:
        key.append(tuple([(places.get(node, -1), nr) for node, nr in wanted]))
    return GraphStructure(tuple(key), nodes, places, values, slots)


class FragileNodes:
    """The nodes of a graph whose cotangents meet slopes that may be infinite or NaN.

    They are determined at the first request (`transforms/needless_masks.py`).
    """

    def __init__(self, nodes: Collection[GraphNode]) -> None:
        self.nodes = nodes
        self._fragile: set[GraphNode] | None = None

    def behind(self, node: GraphNode) -> bool:
        """Whether a node leaves entries of such a cotangent out, which a mask has to tell."""
        if node.__class__ is not GraphNode or not node.recipe.selects:
            return False
        if self._fragile is None:
            self._fragile = fragile = set[GraphNode]()
            for other in sorted(self.nodes, key=lambda n: n.number):
                own = other.__class__ is GraphNode and other.recipe.fragile
                if own or any(e is not None and e[0] in fragile for e in other.edges):
                    fragile.add(other)
        return any(e is not None and e[0] in self._fragile for e in node.edges)


def _enter_recipe(node: GraphNode, key: list[object]) -> Sequence[object] | None:
    """Enter the computation of a node in the key; gives its saved values.

    None if the graph has to be run node by node because of it.
    """
    if type(node) is AccumulateGrad:
        key.append(node.kind)
        return ()
    if node.__class__ is not GraphNode or node.hooks is not None:
        return None  # a rule or a hook of the user's, which Python has to call
    recipe, saved = node.recipe, node.saved
    if not recipe.lasting:
        return None  # its recipe is of this call alone, so that no other graph has the same key
    if saved is None:
        return None  # freed by an earlier pass: the sweep raises an error if it needs this node
    if saved:
        for version, count in node.counts:
            if version.count != count:
                return None  # modified since: the sweep raises an error if it needs this node
    key.append(recipe)
    return saved

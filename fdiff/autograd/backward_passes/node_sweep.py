"""Backward passes node by node: for hooks, custom rules and `create_graph`.

Nodes are processed in topological order, later ones first, each when all its cotangents are ready
(D. E. Knuth, The Art of Computer Programming 1, 3rd ed., 1997, section 2.2.3, algorithm T). Leaves
are served as soon as they are ready, as in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...process import anomaly_watch
from ..calls.profiled_operations import observed_node
from .graph_structure import FragileNodes, Root
from .node_rules import NodeRules, Part, wrong_count
from .nodes import AccumulateGrad, CustomNode, Edge, GraphNode, call_hook
from .recorded_anomalies import watched_pull

if TYPE_CHECKING:
    from .node_rules import Cotangent

Deliver = Callable[[AccumulateGrad, object], None]
Bars = dict[int, Part]  # of the outputs of a node that have one


def reachable(roots: Sequence[Root]) -> dict[GraphNode, int]:
    """The nodes behind `roots`, with the number of edges that lead to each."""
    counts: dict[GraphNode, int] = dict.fromkeys([r.node for r in roots], 0)
    waiting = list(counts)
    while waiting:
        for edge in waiting.pop().edges:
            if edge is not None:
                target = edge[0]
                if target not in counts:
                    counts[target] = 0
                    waiting.append(target)
                counts[target] += 1
    return counts


def leading_to(nodes: Mapping[GraphNode, int], targets: Sequence[Edge]) -> set[GraphNode]:
    """The nodes from which one of the targets can be reached."""
    leading = {node for node, _ in targets}
    for node in sorted(nodes, key=lambda n: n.number):
        if any(e is not None and e[0] in leading for e in node.edges):
            leading.add(node)
    return leading


class NodeSweep:
    """One backward pass. Cotangents are values, or recorded arrays where a graph is created.

    `deliver` is called with the gradient of each leaf, or of each requested leaf; `captured` holds
    the gradients of the requested edges.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        wanted: Sequence[Edge] | None,
        rules: NodeRules,
        deliver: Deliver | None,
    ) -> None:
        self.rules = rules
        self.deliver = deliver
        self.counts = reachable(roots)
        self.fragile = FragileNodes(self.counts.keys())
        self.needed = None if wanted is None else leading_to(self.counts, wanted)
        rules.needed = self.needed
        self.wanted = set(wanted or ())
        self.captured: dict[Edge, Cotangent] = {}
        self.bars: dict[GraphNode, Bars] = {}
        self.ran: list[GraphNode] = []
        for node, nr, seed, type_ in roots:
            if seed is None:
                bar = rules.lift(np.ones(type_.shape, type_.dtype))
            else:
                bar = rules.seed(seed)
            self._add(node, nr, bar, None)

    def run(self) -> None:
        """Process all nodes."""
        ready: list[tuple[int, int, GraphNode]] = []
        for node, count in self.counts.items():
            if not count:
                heappush(ready, (-node.number, id(node), node))
        while ready:
            node = heappop(ready)[2]
            if self.needed is None or node in self.needed or node.hooks is not None:
                self._process(node)  # hooks of an array that is differentiated always run
            for edge in node.edges:
                if edge is not None:
                    target = edge[0]
                    self.counts[target] -= 1
                    if not self.counts[target]:
                        first = target.__class__ is AccumulateGrad
                        at = _FIRST if first else -target.number
                        heappush(ready, (at, id(target), target))

    def _add(self, node: GraphNode, nr: int, bar: object, mask: np.ndarray | None) -> None:
        """Add to the cotangent of an output; the mask of a sum is the union of the masks."""
        node_bars = self.bars.setdefault(node, {})
        if nr not in node_bars:
            node_bars[nr] = bar, mask
            return
        before, there = node_bars[nr]
        mask = None if mask is None or there is None else np.logical_or(mask, there)
        node_bars[nr] = self.rules.add(before, bar), mask

    def _process(self, node: GraphNode) -> None:
        """Pull through one node, with its hooks."""
        bars = self.bars.pop(node, {})
        hooks = node.hooks
        arrived = bars
        if hooks is not None:
            bars = self._array_hooks(node, bars)
        further = self.needed is None or any(
            e is not None and e[0] in self.needed for e in node.edges
        )
        # As in torch, what arrives is taken before hooks where more is asked for behind the node.
        for nr, (bar, _) in (arrived if further else bars).items():
            if (node, nr) in self.wanted:
                self.captured[node, nr] = bar
        if type(node) is AccumulateGrad:
            if bars and self.deliver is not None and (self.needed is None or node in self.needed):
                self.deliver(node, bars[0][0])
            return
        if not further and self.deliver is None:
            return  # it is an end itself, which `backward` runs, and `grad` does not
        if not bars and not isinstance(node, CustomNode):  # rules of users take None, or zeros
            return
        self.ran.append(node)
        if hooks is not None and hooks.before:
            bars = self._prehook(node, bars)
        if self.fragile.behind(node):
            whole = {
                k: np.ones(bar.shape, np.bool_) for k, (bar, mask) in bars.items() if mask is None
            }
            bars = {k: (bar, whole.get(k, mask)) for k, (bar, mask) in bars.items()}
        with observed_node(node):
            watched = anomaly_watch.in_force() is not None
            parts = watched_pull(self.rules, node, bars) if watched else self.rules.pull(node, bars)
        if hooks is not None and hooks.after:
            parts = self._posthook(node, parts, bars)
        for edge, part in zip(node.edges, parts, strict=True):
            if part is not None and edge is not None:
                target, nr = edge
                if self.needed is None or target in self.needed:
                    self._add(target, nr, *part)

    def _array_hooks(self, node: GraphNode, bars: Bars) -> Bars:
        """Cotangents of the outputs after the hooks of the arrays that these are."""
        hooks = node.hooks
        assert hooks is not None
        out = dict(bars)
        for nr, (bar, _) in bars.items():
            new = bar
            for hook in list(hooks.outputs.get(nr, {}).values()):
                new = self.rules.replaced(call_hook(hook, self.rules.shown(new)), new)
            for retain in list(hooks.retained.get(nr, {}).values()):
                retain(self.rules.shown(new))
            if new is not bar:
                out[nr] = new, None
        return out

    def _prehook(self, node: GraphNode, bars: Bars) -> Bars:
        hooks = node.hooks
        assert hooks is not None
        for hook in list(hooks.before.values()):
            count = self.rules.outputs(node)
            shown = tuple([self.rules.shown(bars.get(k, (None,))[0]) for k in range(count)])
            bars = self._replaced(call_hook(hook, shown, form="hook(grads)"), bars, count)
        return bars

    def _posthook(self, node: GraphNode, parts: list[Part | None], bars: Bars) -> list[Part | None]:
        hooks = node.hooks
        assert hooks is not None
        count = self.rules.outputs(node)
        shown = tuple([self.rules.shown(bars.get(k, (None,))[0]) for k in range(count)])
        for hook in list(hooks.after.values()):
            by_place = {k: part for k, part in enumerate(parts) if part is not None}
            gradients = tuple([None if p is None else self.rules.shown(p[0]) for p in parts])
            new = call_hook(hook, gradients, shown, form="hook(grad_inputs, grad_outputs)")
            by_place = self._replaced(new, by_place, len(parts))
            parts = [by_place.get(k) for k in range(len(parts))]
        return parts

    def _replaced(self, result: object, bars: Bars, count: int) -> Bars:
        """The cotangents that a hook of a node returned in place of several others."""
        if result is None:
            return bars
        replacements = result if isinstance(result, tuple) else (result,)
        if len(replacements) != count:
            raise wrong_count(len(replacements), count)
        out: Bars = {}
        for k, new in enumerate(replacements):
            if new is not None:
                bar, mask = bars.get(k, (None, None))
                new = self.rules.replaced(new, bar)  # noqa: PLW2901 - the same, checked
                out[k] = (bar, mask) if new is bar else (new, None)
        return out


_FIRST = -(1 << 62)

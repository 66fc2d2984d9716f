"""Backward passes written out: one Python function for a graph that repeats often.

To look a graph up (`graph_structure.py`), the whole graph becomes a key. Once a program has been
used a few times, its graph is predicted instead: a generated function walks along the edges,
compares each node with the expected one, and calls the kernel with the saved values that it passes.
The functions of all programs that begin at one recipe are kept in that recipe.
"""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np

from ...generated_text import defined
from ...process import observed_spans
from ..arrays.array_kinds import ArrayKind, array_kind_of
from ..arrays.recorded_array import RecordedArray, new_array, new_version
from .accumulation import C_ORDER, accumulate
from .graph_structure import BackwardProgram, GraphStructure
from .nodes import AccumulateGrad, GraphNode
from .recorded_anomalies import watching

# ``(root, retain) -> done``: False if the graph is another one, or is not as it was saved.
WrittenPass = Callable[[GraphNode, bool], bool]
LONGEST = 2000  # nodes up to which a pass is written out
KEPT = 4  # passes that begin at one recipe, the one written last first


def try_generated(array: RecordedArray, *, retain: bool) -> bool:
    """Add gradients to the leaves behind a scalar, if a pass that is written out serves its graph.

    False if there is none, and nothing has been done.
    """
    if array.viewing is not None:
        array.viewing.refresh(array)
    node, nr = array.edge or (None, 0)
    passes = getattr(node and node.recipe, "passes", ())  # leaves and custom nodes have no recipe
    if node is None or not passes:
        return False
    if observed_spans.observer is not None or watching():
        return False
    return any(nr == output and run_pass(node, retain) for output, run_pass in passes)


def write_out(graph: GraphStructure, program: BackwardProgram, output_nr: int) -> None:
    """Write out the pass of a program from one root, which has an implicit seed, to all leaves."""
    root = graph.nodes[0]
    if root.__class__ is AccumulateGrad or len(graph.nodes) > LONGEST:
        return
    writer = _PassWriter(graph, program)
    passes = root.recipe.passes
    passes.insert(0, (output_nr, writer.function()))
    del passes[KEPT:]


class _PassWriter:
    """The text of a pass, and the names in it: nodes are ``n0``, ``n1``; saved values are ``a0``,
    ...
    """

    def __init__(self, graph: GraphStructure, program: BackwardProgram) -> None:
        self.found = graph
        self.program = program
        self.names: dict[str, object] = dict(_NAMES, runner=program.runner)
        self.lines: list[str] = []
        self.met = {graph.nodes[0]}
        self.read: set[int] = set()

    def function(self) -> WrittenPass:
        """The pass as a function."""
        self.lines = ["def run(n0, retain):", " if n0.hooks is not None: return False"]
        for k, node in enumerate(self.found.nodes):
            if node.__class__ is GraphNode:
                self._saved(k, node)
                self._edges(k, node)
        self._call()
        self._deliver()
        return defined("run", self.lines, self.names)

    def _saved(self, k: int, node: GraphNode) -> None:
        """Read the saved values of a node, which must not have changed."""
        values = node.saved
        if not values:
            if node.recipe.through_view:  # freed all the same
                self.lines.append(f" if n{k}.saved is None: return False")
            return
        slots = self.found.slots
        value_slots = [slots[id(value)] for value in values]
        targets = []
        repeated = []
        for place, slot in enumerate(value_slots):
            first = slot not in self.read
            self.read.add(slot)
            targets.append(f"a{slot}" if first else f"b{place}")
            if not first:
                repeated.append(f"b{place} is not a{slot}")
        pairs = [f"(v{p}, c{p})" for p in range(len(value_slots))]
        changed = [f"v{p}.count != c{p}" for p in range(len(value_slots))]
        self.lines += [
            f" if n{k}.saved is None: return False",
            f" {', '.join(targets)}, = n{k}.saved",
            f" {', '.join(pairs)}, = n{k}.counts",
            f" if {' or '.join([*repeated, *changed])}: return False",
        ]

    def _edges(self, k: int, node: GraphNode) -> None:
        """Go along the edges of a node, and compare the nodes there."""
        targets, checks = [], []
        for place, edge in enumerate(node.edges):
            if edge is None:
                targets.append("_")
                continue
            at = self.found.places[edge[0]]
            if edge[0] in self.met:
                targets.append(f"(m{place}, o{place})")
                checks.append(f"m{place} is not n{at}")
            else:
                self.met.add(edge[0])
                targets.append(f"(n{at}, o{place})")
                checks += self._expected(at, edge[0])
            checks.append(f"o{place} != {edge[1]}" if edge[1] else f"o{place}")
        self.lines.append(f" {', '.join(targets)}, = n{k}.edges")
        if checks:
            self.lines.append(f" if {' or '.join(checks)}: return False")

    def _expected(self, at: int, node: GraphNode) -> list[str]:
        """The conditions under which another node stands in place of this one."""
        if type(node) is AccumulateGrad:
            self.names[f"k{at}"] = node.kind
            other = f"n{at}.__class__ is not AccumulateGrad or n{at}.kind is not k{at}"
            return [other, f"n{at}.hooks is not None", f"n{at}.post_hooks"]
        self.names[f"r{at}"] = node.recipe
        return [f"n{at}.recipe is not r{at}", f"n{at}.hooks is not None"]

    def _call(self) -> None:
        """Call the kernel, by the shortest way that there is by now."""
        for slot, value in enumerate(self.found.values):
            if not np.ndim(value):
                self.lines.append(f" if a{slot}.__class__ is not ndarray: a{slot} = array(a{slot})")
        arguments = ", ".join(f"a{slot}" for slot in range(len(self.found.values)))
        self.lines += [
            " quick = runner.quick()",
            f" found = None if quick is None else quick({arguments})",
            f" if found is None: found = runner([{arguments}])",
        ]

    def _deliver(self) -> None:
        """Free the saved values, and add to the gradients of the leaves."""
        nodes = self.found.nodes
        ran = [(k, nodes[k]) for k in self.program.ran]
        freed = [f"n{k}" for k, n in ran if n.saved or n.recipe.through_view]  # as by `free`
        if freed:
            saved = " = ".join(f"{n}.saved" for n in freed)
            counts = " = ".join(f"{n}.counts" for n in freed)
            self.lines.append(f" if not retain:\n  {saved} = None\n  {counts} = ()")
        for k, place in zip(self.program.leaves, self.program.outputs, strict=True):
            if place >= 0:
                type_ = self.program.runner.tape.output_types[self.program.runner.slots()[place]]
                self.names[f"g{k}"] = array_kind_of(np.empty(type_.shape, type_.dtype))
                self.lines.append(f" deliver(n{k}._leaf(), found[{place}], g{k})")
        self.lines.append(" return True")


def _deliver(leaf: RecordedArray | None, bar: np.ndarray, kind: ArrayKind) -> None:
    """Add a new array to the gradient of a leaf, if that is still there."""
    if leaf is None:
        return
    if leaf._grad is None and leaf.kind.requires_grad and leaf.value.flags.num & C_ORDER:
        leaf._grad = new_array(bar, kind, None, new_version())
    else:
        accumulate(leaf, bar, create=False, owned=True)


_NAMES: dict[str, object] = {
    "AccumulateGrad": AccumulateGrad,
    "array": np.asarray,
    "deliver": _deliver,
    "ndarray": np.ndarray,
}

"""Forward sweeps of tangents through the recorded graph, for `forward_ad.py`.

A node keeps the values that its reverse rule reads: the rule is a tape, linear in the cotangents.
That tape pulled back once more is the forward rule, of the same saved values: the transpose of the
transpose, an idea of A. Radul et al., You only linearize once, POPL 2023. A second table of rules
is not needed.
"""

from __future__ import annotations

from collections.abc import Iterable

import fdiff.intact_numpy as np

from ...errors import UnsupportedError, failure
from ...tree import flatten
from ...user_lines import show_line, user_line
from ..arrays.array_kinds import array_kind_of
from ..arrays.recorded_array import RecordedArray, plain
from ..calls.call_pullbacks import Pull, pull_of
from ..thread_state import not_recording, recording
from .node_rules import NodeRules, RecordedRules
from .nodes import AccumulateGrad, CustomNode, Edge, GraphNode
from .saved_values import saved_values


class TangentSweep:
    """Tangents of outputs of nodes, computed on request.

    `tangents` holds the tangents computed so far, first the tangents of the duals; None for an
    output that does not move.
    """

    def __init__(self) -> None:
        self.tangents: dict[Edge, RecordedArray | None] = {}
        self._stores: dict[Edge, int] = {}  # into them, when they became known
        self._reverse: dict[GraphNode, bool] = {}  # whether the graph leads on to a leaf

    def enter(
        self, value: np.ndarray | np.generic, tangent: RecordedArray | None, behind: Edge | None
    ) -> Edge:
        """The edge of a dual of this value and tangent; its gradients go `behind`."""
        node = CustomNode("MakeDualBackward", (behind,), lambda bar: (bar,), user_line(2))
        node.output_kinds = (array_kind_of(value),)
        self._know((node, 0), tangent)
        self._reverse[node] = behind is not None
        return node, 0

    def of(self, edge: Edge | None) -> RecordedArray | None:
        """The tangent of an output; None where it does not depend on a dual.

        Nodes stand for what was recorded, so their tangents are, whatever the mode is now.
        """
        if edge is None:
            return None
        if edge[0] not in self._reverse:
            with recording():
                for node in self._unknown(edge):
                    self._push(node, records=True)
        return self.tangents.get(edge)

    def moves(self, operands: Iterable[object]) -> bool:
        """Whether one of these, arrays or edges, has a tangent."""
        edges = [x.edge_now() if isinstance(x, RecordedArray) else x for x in operands]
        return any(isinstance(e, tuple) and self.of(e) is not None for e in edges)

    def without_graph(self, result: object) -> object:
        """The result of a call as duals that are cut from the graph."""
        for leaf in flatten(result)[0]:
            if isinstance(leaf, RecordedArray) and leaf.kind.requires_grad:
                self.cut(leaf, None)
        return result

    def cut(self, array: RecordedArray, behind: Edge | None) -> None:
        """Make a dual of an array that a node has just given: its gradients go `behind`."""
        edge = array.edge_now()
        assert edge is not None, "it requires a gradient"
        node = edge[0]
        if node not in self._reverse:
            for operand in node.edges:
                self.of(operand)
            with not_recording():
                self._push(node, records=False)
        array.edge = self.enter(array.value, self.tangents.get(edge), behind)

    def leads_to_leaf(self, edge: Edge) -> bool:
        """Whether gradients may flow from an output to a leaf, after `of` was asked."""
        return self._reverse[edge[0]]

    def _unknown(self, edge: Edge) -> list[GraphNode]:
        """Nodes that the output depends on and that were not met, the earliest first."""
        nodes: set[GraphNode] = set()
        waiting = [edge[0]]
        while waiting:
            node = waiting.pop()
            if node not in nodes and node not in self._reverse:
                nodes.add(node)
                waiting += [e[0] for e in node.edges if e is not None]
        return sorted(nodes, key=lambda node: node.number)

    def _push(self, node: GraphNode, *, records: bool) -> None:
        """Enter the tangents of the outputs of a node whose operands are known."""
        below = [e for e in node.edges if e is not None]
        leads = node.__class__ is AccumulateGrad or any(self._reverse[e[0]] for e in below)
        if records:
            self._check_unchanged(node, below)
        dots = [None if e is None else self.tangents.get(e) for e in node.edges]
        if any(dot is not None for dot in dots):
            for k, dot in enumerate(self._outputs(node, dots, leads=leads, records=records)):
                self._know((node, k), dot, dots)
        self._reverse[node] = leads

    def _know(
        self, edge: Edge, dot: RecordedArray | None, sources: Iterable[RecordedArray | None] = ()
    ) -> None:
        """Enter a tangent; stores into memory of `sources` that it looks at count for both."""
        self.tangents[edge] = dot
        if dot is None:
            return
        for source in sources:
            if source is not None and np.may_share_memory(dot.value, source.value):
                dot.version = source.version
        self._stores[edge] = dot.version.stores()

    def _check_unchanged(self, node: GraphNode, edges: Iterable[Edge]) -> None:
        """Refuse tangents that were stored into: before or after `node` was recorded, who knows."""
        for edge in edges:
            dot = self.tangents.get(edge)
            if dot is not None and dot.version.stores() != self._stores[edge]:
                raise RuntimeError(
                    f"the tangent of an operand of {node.name()} has been modified by an inplace"
                    f" operation.{show_line(dot.version.line)}\nTangents are computed when"
                    " unpack_dual asks for them: ask before, or store into a copy."
                )

    def _outputs(
        self, node: GraphNode, dots: list[RecordedArray | None], *, leads: bool, records: bool
    ) -> list[RecordedArray | None]:
        """The tangents of the outputs of a node, which is before leaves if it `leads` there."""
        if isinstance(node, CustomNode) and node.jvp is not None:  # it may store into copies
            return _by_rule(node, node.jvp(*[d if d is None else d.clone() for d in dots]))
        if isinstance(node, CustomNode):
            fact = f"{node.name()} has a rule for reverse mode alone."
            way = "Compute it with functions of NumPy, or differentiate it by backward."
            raise failure(UnsupportedError, "fdiff.autograd.forward_ad", fact, way)
        moving = any(dot is not None and dot.requires_grad for dot in dots)
        records = records and (leads or moving)
        return _pushed(node, dots, RecordedRules() if records else NodeRules())

    def clear(self) -> None:
        """Forget all tangents."""
        self.tangents.clear()
        self._stores.clear()
        self._reverse.clear()


def different_size(expected: tuple[int, ...], size: tuple[int, ...]) -> RuntimeError:
    """The error for a tangent whose shape is not its array's."""
    return RuntimeError(
        "Trying to set a forward gradient that has a different size than that of the original"
        f" Tensor, this is not supported. Tensor is of size {list(expected)} while the given"
        f" forward gradient is of size {list(size)}."
    )


def _by_rule(node: CustomNode, result: object) -> list[RecordedArray | None]:
    """The tangents that a user's rule gave, one of the right shape for each output, or None."""
    tangents = result if isinstance(result, tuple) else (result,)
    if len(tangents) != len(node.output_kinds):
        raise RuntimeError(
            "Function's jvp returned an invalid number of forward gradients (expected"
            f" {len(node.output_kinds)} but got {len(tangents)})"
        )
    dots: list[RecordedArray | None] = []
    for k, (dot, kind) in enumerate(zip(tangents, node.output_kinds, strict=True)):
        tangent = plain(np.asarray(dot)) if isinstance(dot, np.ndarray | np.generic) else dot
        if tangent is not None and not isinstance(tangent, RecordedArray):
            raise RuntimeError(
                f"expected an array or None (got {type(dot).__name__}) for grad output {k}."
            )
        if tangent is not None and tangent.shape != kind.type.shape:
            raise different_size(kind.type.shape, tangent.shape)
        dots.append(tangent)
    return dots


def _pushed(
    node: GraphNode, dots: list[RecordedArray | None], rules: NodeRules
) -> list[RecordedArray | None]:
    """Tangents of the outputs of a node, from tangents of its operands."""
    recipe = node.recipe
    pull = recipe.pull(tuple([False if floating else None for floating in recipe.outputs]))
    push, operands = _push_rule(pull, tuple([dot is not None for dot in dots]))
    saved = dict(zip(recipe.saved, zip(saved_values(node), node.counts, strict=True), strict=True))
    if recipe.ruled and any(k >= len(pull.saved) for k in push.saved):
        fact = f"the rule of {node.name()} is not linear in the cotangents."
        way = "Forward mode is its transpose: give the function a rule by custom_jvp."
        raise failure(UnsupportedError, "fdiff.autograd.forward_ad", fact, way)
    read = [(pull.saved[k], *saved[pull.saved[k]]) for k in push.saved if k < len(pull.saved)]
    tape_types = [*pull.tape.input_types, *pull.tape.output_types]
    at_zero = [np.zeros(tape_types[k].shape, tape_types[k].dtype) for k in push.saved[len(read) :]]
    tangents = [dots[k] for k in operands]
    if not isinstance(rules, RecordedRules):
        tangents = [dot.value for dot in tangents if dot is not None]
    results = rules.run(node, push, read, [*at_zero, *tangents])
    parts = iter(results[place] for _, place, _ in push.targets)
    return [_as_recorded(next(parts)) if floating else None for floating in recipe.outputs]


def _as_recorded(value: object) -> RecordedArray:
    return value if type(value) is RecordedArray else plain(np.asarray(value))


def _push_rule(pull: Pull, moving: tuple[bool, ...]) -> tuple[Pull, list[int]]:
    """The forward rule that a reverse rule implies, and the operands whose tangents it takes.

    The reverse rule is linear in the cotangents, so where its own reverse rule reads one, or a
    result, any point will do: `_pushed` gives zeros, where the results are zero too.
    """
    rule = pull.pushes.get(moving)
    if rule is None:
        at = {place: operand for operand, place, _ in pull.targets if moving[operand]}
        seeds = tuple([False if k in at else None for k in range(len(pull.tape.outputs))])
        needed = [k >= len(pull.saved) for k in range(len(pull.tape.inputs))]
        push = pull_of(pull.tape, needed, seeds)
        rule = pull.pushes[moving] = push, [at[place] for place in sorted(at)]
    return rule

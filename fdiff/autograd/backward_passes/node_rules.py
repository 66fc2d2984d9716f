"""The rule of one node, run on values or itself recorded.

Both run the same rule (`call_pullbacks.py`): on NumPy arrays, or, where a graph of the gradient is
created, as a recorded call on the saved values, which is then differentiated like any other call.
Reverse sweeps: A. Griewank and A. Walther, Evaluating Derivatives, 2nd ed., SIAM 2008, section 3.2.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, TypeAlias

import fdiff.intact_numpy as np

from ...transforms.rule_templates import Seeds
from ...tree import Spec
from ..arrays.array_kinds import ArrayKind, array_kind_of
from ..arrays.recorded_array import RecordedArray, Version, new_array, plain
from ..calls.call_pullbacks import Pull
from ..calls.call_tapes import CallTape
from ..calls.recipes import Recipe
from ..calls.recording import apply_ufunc, recorded
from ..thread_state import state
from .nodes import AccumulateGrad, CustomNode, GraphNode, call_hook
from .saved_values import saved_values

Cotangent: TypeAlias = Any  # an array; in a pass that is recorded, a recorded one
Part = tuple[Cotangent, Cotangent]  # a cotangent and its mask
Saved = tuple[int, object, tuple[Version, int]]  # place, value, and the version that was saved


class NodeRules:
    """Rules run on values; `needed` are the nodes that the sweep needs, None for all."""

    needed: Container[GraphNode] | None = None

    def lift(self, value: np.ndarray) -> object:
        """A cotangent with this value."""
        return value

    def seed(self, array: RecordedArray) -> object:
        """The cotangent that the user gave."""
        return array.value

    def add(self, a: Cotangent, b: Cotangent) -> object:
        """The sum of two cotangents."""
        return a + b

    def shown(self, bar: Cotangent) -> RecordedArray | None:
        """A cotangent as hooks see it."""
        return None if bar is None else plain(bar)

    def replaced(self, result: object, bar: Cotangent) -> object:
        """The cotangent after a hook gave `result`."""
        if result is None:
            return bar
        value = result.value if type(result) is RecordedArray else np.asarray(result)
        if bar is not None:
            _check_replacement(value, bar)
        return value

    def outputs(self, node: GraphNode) -> int:
        """How many outputs a node has."""
        if isinstance(node, CustomNode):
            return len(node.output_kinds)
        return len(node.recipe.outputs)

    def pull(self, node: GraphNode, bars: dict[int, Part]) -> list[Part | None]:
        """Cotangents of the operands of a node."""
        if isinstance(node, CustomNode):
            return self._pull_custom(node, bars)
        recipe = node.recipe
        saved = dict(
            zip(recipe.saved, zip(saved_values(node), node.counts, strict=True), strict=True)
        )
        seeds = tuple(
            [bars[k][1] is not None if k in bars else None for k in range(len(recipe.outputs))]
        )
        pull = self.rule(node, seeds)
        cotangents = [bars[k][0] for k, s in enumerate(seeds) if s is not None]
        cotangents += [bars[k][1] for k, s in enumerate(seeds) if s]
        results = self.run(node, pull, [(place, *saved[place]) for place in pull.saved], cotangents)
        out: list[Part | None] = [None] * len(node.edges)
        for operand, place, masked in pull.targets:
            out[operand] = results[place], None if masked is None else _plain_mask(results[masked])
        return out

    def rule(self, node: GraphNode, seeds: Seeds) -> Pull:
        """The rule of a node for these cotangents."""
        return node.recipe.pull(seeds)

    def run(
        self, node: GraphNode, pull: Pull, saved: list[Saved], cotangents: list[Cotangent]
    ) -> Sequence[Cotangent]:
        """Run a rule of the node on saved values and cotangents."""
        return pull.run(*[value for _, value, _ in saved], *cotangents)

    def _pull_custom(self, node: CustomNode, bars: dict[int, Part]) -> list[Part | None]:
        cotangents: list[object] = []
        for k, kind in enumerate(node.output_kinds):
            bar = bars[k][0] if k in bars else None
            if bar is None and node.materialize:
                bar = self.lift(np.zeros(kind.type.shape, kind.type.dtype))
            cotangents.append(self.shown(bar))
        results = node.backward(*cotangents)
        results = results if isinstance(results, tuple) else (results,)
        return [None if r is None else (self.replaced(r, None), None) for r in results]


class RecordedRules(NodeRules):
    """Recorded rules: cotangents are recorded arrays.

    A rule is recorded as one call. Cotangents that nobody requested are left out of the call: their
    operands would count as operands of the other cotangents.
    """

    def rule(self, node: GraphNode, seeds: Seeds) -> Pull:
        if self.needed is None or (node.hooks is not None and node.hooks.after):
            return node.recipe.pull(seeds)
        pairs = zip(node.recipe.needed, node.edges, strict=True)
        needed = [n and e is not None and e[0] in self.needed for n, e in pairs]
        return node.recipe.pull(seeds, tuple(needed))

    def lift(self, value: np.ndarray) -> object:
        return plain(value)

    def seed(self, array: RecordedArray) -> object:
        return array

    def add(self, a: object, b: object) -> object:
        return apply_ufunc(np.add, a, b)

    def shown(self, bar: Cotangent) -> RecordedArray | None:
        return bar

    def replaced(self, result: object, bar: Cotangent) -> object:
        if result is None:
            return bar
        new = result if type(result) is RecordedArray else plain(np.asarray(result))
        if bar is not None:
            _check_replacement(new.value, bar.value)
        return new

    def run(
        self, node: GraphNode, pull: Pull, saved: list[Saved], cotangents: list[Cotangent]
    ) -> Sequence[Cotangent]:
        operands = [_with_edge(node, *entry) for entry in saved]
        operands += [x if type(x) is RecordedArray else plain(x) for x in cotangents]
        kinds = tuple([x.kind for x in operands])
        values = [x.value for x in operands]
        if not any(k.requires_grad for k in kinds):
            return [plain(np.asarray(v)) for v in pull.run(*values)]
        recipe = pull.recipes.get(kinds)
        if recipe is None:
            recipe = pull.recipes[kinds] = _recipe_of(pull, node.name(), kinds)
        with np.errstate(all="ignore"):
            results = pull.run(*values)
        return recorded(recipe, operands, list(results), node.line)


def call_node(self: GraphNode, *grad_outputs: object) -> object:
    """The gradients of the operands from gradients of the outputs, by this node's rule alone."""
    rules = RecordedRules() if state.grad_enabled else NodeRules()
    count = rules.outputs(self)
    if len(grad_outputs) != count:
        raise TypeError(f"expected {count} arguments, got {len(grad_outputs)} instead")
    bars: dict[int, Part] = {
        k: (rules.replaced(g, None), None) for k, g in enumerate(grad_outputs) if g is not None
    }
    gradients = [None if p is None else rules.shown(p[0]) for p in rules.pull(self, bars)]
    return gradients[0] if len(gradients) == 1 else tuple(gradients)


setattr(GraphNode, "__call__", call_node)  # noqa: B010 - of a class made below


def _recipe_of(pull: Pull, name: str, kinds: tuple[ArrayKind, ...]) -> Recipe:
    """The recipe of a rule as a call."""
    count = len(pull.tape.outputs)
    leaves = Spec(tuple, (), (Spec(None),) * count)
    call = CallTape(pull.tape, leaves, tuple(range(count)), (), frozenset())
    return Recipe(name, kinds, call)


def _with_edge(
    node: GraphNode, place: int, value: object, saved: tuple[Version, int]
) -> RecordedArray:
    """A saved value as a recorded array with the edge of its operand."""
    recipe = node.recipe
    edge = node.edges[place] if place < recipe.count else (node, place - recipe.count)
    array = np.asarray(value) if not isinstance(value, (np.ndarray, np.generic)) else value
    moves = edge is not None and array.dtype.kind in "fc"
    return new_array(array, array_kind_of(array, moves), edge if moves else None, saved[0])


def _plain_mask(mask: object) -> object:
    return mask.value if type(mask) is RecordedArray else mask


def _check_replacement(new: np.ndarray, bar: np.ndarray) -> None:
    if new.shape != bar.shape:
        raise RuntimeError(
            f"hook has changed the size of value: expected {list(bar.shape)}, got {list(new.shape)}"
        )
    if new.dtype != bar.dtype:
        raise RuntimeError(f"hook has changed the type of value (was {bar.dtype} got {new.dtype})")


def hooked_leaf(node: GraphNode, bar: object) -> Cotangent:
    """A gradient that arrives at a leaf, after the hooks of that."""
    if node.hooks is None or node.__class__ is not AccumulateGrad:
        return bar
    rules = NodeRules()
    for hook in list(node.hooks.outputs.get(0, {}).values()):
        bar = rules.replaced(call_hook(hook, rules.shown(bar)), bar)
    return bar


def before_leaf(node: AccumulateGrad, bar: object, rules: NodeRules) -> object:
    """The gradient that is added to a leaf, after the pre-hooks of its node."""
    hooks = () if node.hooks is None else list(node.hooks.before.values())
    for hook in hooks:
        new = call_hook(hook, (rules.shown(bar),), form="hook(grads)")
        replaced = new if isinstance(new, tuple) else (new,)
        if len(replaced) != 1:
            raise wrong_count(len(replaced), 1)
        bar = rules.replaced(replaced[0], bar)
    return bar


def after_leaf(node: AccumulateGrad, bar: object, rules: NodeRules) -> None:
    """Call the hooks of a leaf's node that run after `bar` was added: it has no operands."""
    hooks = () if node.hooks is None else list(node.hooks.after.values())
    for hook in hooks:
        call_hook(hook, (), (rules.shown(bar),), form="hook(grad_inputs, grad_outputs)")


def wrong_count(count: int, expected: int) -> RuntimeError:
    """The error for a hook of a node that gave too many gradients, or too few."""
    return RuntimeError(
        f"hook has returned an incorrect number of values (got {count}, expected {expected})"
    )

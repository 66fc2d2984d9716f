"""Templates for other sizes: rules of most ops use sizes only as entries of shapes.

What such a rule enters for arrays of other sizes differs in the shapes, as long as the same sizes
are equal to each other, to one, or to zero. So a template is made once for all lengths: our own,
docs/decisions/rule-templates.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import cast

import fdiff.intact_numpy as np

from ..arraytype import ArrayType, Shape
from ..primitive import Primitive
from ..tape import CONSTANT, INPUT, Constant, Node, Params, Tape
from .simplify import Step

# parameters that are sizes, of ops that say they are sizeless
_SIZED = frozenset(("shape", "sizes"))


class Sizes:
    """The sizes above one that were met, each with its number."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}

    def shape(self, shape: Shape) -> Shape:
        """The shape with numbers in place of sizes, below zero."""
        number = self.numbers.setdefault
        return tuple([n if n < 2 else -number(n, len(self.numbers) + 1) for n in shape])

    def params(self, params: Params) -> Params:
        """The parameters with numbers in place of sizes."""
        return params and tuple([(k, self.shape(v) if k in _SIZED else v) for k, v in params])

    def types(self, types: Sequence[ArrayType]) -> tuple[object, ...]:
        """The types with numbers in place of sizes."""
        return tuple([(self.shape(t.shape), t.dtype) for t in types])


def resizable(primitive: Primitive, steps: Sequence[Step], sizes: Sequence[int]) -> bool:
    """Whether the nodes of a template for these sizes hold for other sizes, when renumbered."""
    numbers = {0, 1, *sizes}
    return primitive.structure.sizeless and all(_resizable(step, numbers) for step in steps)


def _resizable(step: Step | Node, numbers: set[int]) -> bool:
    if step.primitive is CONSTANT:
        return not step.types[0].shape
    shapes = [t.shape for t in step.types]
    shapes += [cast("Shape", v) for k, v in step.params if k in _SIZED]
    return step.primitive.structure.sizeless and all(numbers.issuperset(shape) for shape in shapes)


def resizable_tape(tape: Tape, sizes: Collection[int]) -> bool:
    """Whether a tape holds for other sizes: its ops know sizes as entries of shapes alone."""
    numbers = {0, 1, *sizes}
    return all(node.primitive is INPUT or _resizable(node, numbers) for node in tape.nodes)


@lru_cache(maxsize=4096)
def knows_no_sizes(tape: Tape) -> bool:
    """Whether the computation of a tape's nodes is the same for arrays of all sizes."""
    return all(
        node.primitive is INPUT
        or not (
            node.primitive.lowering.eager.specialise or any(k in _SIZED for k, _ in node.params)
        )
        for node in tape.nodes
    )


def resized_tape(tape: Tape, sizes: Mapping[int, int]) -> Tape:
    """The tape with other sizes in place of those that `sizes` names."""
    to = {0: 0, 1: 1, **sizes}.__getitem__
    nodes: list[Node] = []
    for primitive, args, params, types in tape.nodes:
        new = tuple([ArrayType((*map(to, t.shape),), t.dtype) for t in types])
        if primitive is INPUT:
            params = (params[0], ("type_", new[0]))  # noqa: PLW2901 - as below
        elif primitive is not CONSTANT and params:
            params = tuple([(k, (*map(to, v),) if k in _SIZED else v) for k, v in params])  # noqa: PLW2901 - the same, of other sizes
        nodes.append(Node(primitive, args, params, new))
    return Tape(tuple(nodes), tape.inputs, tape.outputs, tape.lines)


def with_numbers(tape: Tape, values: Mapping[float, float]) -> Tape:
    """The tape with other numbers in place of constants that `values` names."""
    nodes = list(tape.nodes)
    for i, node in enumerate(nodes):
        value = node.value
        if value is not None and not value.shape and (new := values.get(value.item())) is not None:
            constant = Constant(np.array(new, value.dtype))
            nodes[i] = node._replace(params=(("value", constant),))
    return Tape(tuple(nodes), tape.inputs, tape.outputs, tape.lines)


def resized(steps: Sequence[Step], old: Sequence[int], new: Sequence[int]) -> list[Step]:
    """The steps with the sizes `new` in place of `old`."""
    to = dict(zip((0, 1, *old), (0, 1, *new), strict=True)).__getitem__
    steps_of: list[Step] = []
    types_of: dict[tuple[ArrayType, ...], tuple[ArrayType, ...]] = {}
    for primitive, places, take, params, types, mode, shorter, noted in steps:
        if types not in types_of:
            types_of[types] = tuple([ArrayType((*map(to, t.shape),), t.dtype) for t in types])
        moved = params and tuple([(k, (*map(to, v),) if k in _SIZED else v) for k, v in params])
        steps_of.append(Step(primitive, places, take, moved, types_of[types], mode, shorter, noted))
    return steps_of

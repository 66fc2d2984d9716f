"""Masks of cotangents that can be left out: no infinite slope is met, or no entry is left out.

`cotangent_masks.py` makes the masks. Most programs need none: an array of which entries are left
out is an input, or several selections read all of it; loops, where masks cost memory in each trip,
have no operation with poles. Our own: docs/decisions/where-protects-branches.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import fdiff.intact_numpy as np

from ..arraytype import BOOL
from ..foreign_errors import not_foreign
from ..named_tuples import NamedTuple
from ..ops.along_axes.reductions import any_
from ..ops.entrywise.elementwise import (
    convert,
    divide,
    logical_and,
    logical_or,
    multiply,
    not_equal,
    where,
)
from ..ops.linear_algebra.contraction import contract
from ..primitive import Primitive
from ..tape import CONSTANT, INPUT, ITEM, Builder, Node, Params, Tape
from .activity import needed_nodes

_POINTS = (-2.0, -1.0, 0.0, 0.5, 3.0)
_MOST_ARGUMENTS = 4
LARGEST = 1 << 16  # entries of a mask that becomes a constant of the program
DEEP = 32  # nodes between a mask and others that were computed, beyond which it is not looked at


class Fragility:
    """Which nodes of a program have cotangents that meet slopes that may be infinite or NaN.

    Those are the slopes between a node and the inputs that are `wanted`. They are looked at as far
    as that is asked.
    """

    def __init__(self, nodes: Sequence[Node], wanted: Sequence[int]) -> None:
        self.nodes = nodes
        self.wanted = wanted
        self.beyond = False  # whether the cotangents of inputs may meet such slopes
        self._fragile: list[bool] = []

    def of_any(self, ids: Sequence[int]) -> bool:
        """Whether one of these nodes has such a cotangent."""
        fragile, last = self._fragile, max(ids, default=-1)
        if last >= len(fragile):
            if not self.beyond and not any(self.wanted[i] and self.nodes[i].args for i in ids):
                return False  # inputs and constants
            for i in range(len(fragile), last + 1):
                fragile.append(self._is_fragile(i, self.nodes[i]))
        return any(fragile[i] for i in ids)

    def _is_fragile(self, i: int, node: Node) -> bool:
        moving = [a for a in node[1] if self.wanted[a]] if self.wanted[i] else []
        if not moving:
            return self.beyond and bool(self.wanted[i])
        if any(self._fragile[a] for a in moving):
            return True
        return not _has_finite_slopes(self.nodes, node, moving)


def _has_finite_slopes(nodes: Sequence[Node], node: Node, moving: Sequence[int]) -> bool:
    """Whether the slopes of a node are finite at all arguments, infinite ones too."""
    primitive, args, _, _ = node
    if primitive.spreads_no_nan or primitive is ITEM:
        return True
    if primitive in (multiply, divide) and len(moving) == 1:
        k = args.index(moving[0])
        factor = _constant_below(nodes, args[1 - k])
        if factor is not None and (primitive is multiply or k == 0):
            return bool(np.isfinite(factor).all() and (primitive is multiply or factor.all()))
    return False


def _constant_below(nodes: Sequence[Node], i: int) -> np.ndarray | None:
    """The constant whose entries a node moves; None for other nodes."""
    while nodes[i].primitive.structure.moves and len(nodes[i].args) == 1:
        (i,) = nodes[i].args
    return nodes[i].value if nodes[i].primitive is CONSTANT else None


class CertainEntries:
    """Entries of masks that are true whatever the values are: a bound from below.

    Masks are made of others by operations that keep an order: where an operand has more entries
    that are true, so has the result. Those that depend on values count as false everywhere.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.bounds: dict[int, Bound | None] = {}

    def is_full(self, mask: int) -> bool:
        """Whether a mask is certain to keep all entries."""
        bound = self._bound(mask, DEEP)
        return bound is not None and bool(bound.value.all())

    def settled(self, mask: int) -> int:
        """A mask that does not depend on values as a constant, which no kernel computes anew."""
        bound = self._bound(mask, DEEP)
        if bound is None or not bound.exact or bound.value.size > LARGEST:
            return mask
        constant = self.builder.constant(np.array(bound.value))
        self.bounds[constant] = bound
        return constant

    def _bound(self, i: int, deep: int) -> Bound | None:
        if i in self.bounds:
            return self.bounds[i]
        node = self.builder.nodes[i]
        if node.value is not None:
            return Bound(node.value, exact=True)
        bound = None
        out_type, *further = node.types
        if further:  # a loop: no array
            return None
        if node.args and deep:
            bound = self._of_operands(node, [self._bound(a, deep - 1) for a in node.args])
        truth = out_type.dtype == BOOL
        if bound is None and truth:
            bound = Bound(np.broadcast_to(np.False_, out_type.shape), exact=False)
        if bound is None or truth:
            self.bounds[i] = bound
        return bound

    def _of_operands(self, node: Node, bounds: Sequence[Bound | None]) -> Bound | None:
        operands = [bound for bound in bounds if bound is not None]
        if len(operands) < len(bounds):
            return None
        values = [bound.value for bound in operands]
        exact, op = all(bound.exact for bound in operands), node.primitive
        keeps_order = op.structure.structural or op in (logical_or, logical_and, any_, convert)
        if exact or keeps_order:
            return Bound(np.asarray(op.rules.evaluate(*values, **dict(node.params))), exact)
        if node.primitive is where:
            chosen, a, b = values
            return Bound(np.where(chosen, a, np.minimum(a, b)), exact=False)
        if node.primitive is not_equal and operands[1].exact and not values[1].any():
            return Bound(values[0] > values[1], exact=False)
        return None


class Bound(NamedTuple):
    """A bound of a node from below, and whether it is the node's value."""

    value: np.ndarray
    exact: bool


def has_poles(tape: Tape, outputs: Sequence[int]) -> bool:
    """Whether outputs are computed with an operation that may give an infinity of finite values."""
    nodes = [tape.nodes[i] for i in needed_nodes(tape, (), outputs)]
    return any(map(_has_pole, nodes))


def behind_poles(tape: Tape, moves: Sequence[int], *, beyond: bool) -> set[int]:
    """The moving nodes computed from values with poles; with `beyond`, inputs have poles."""
    nodes = {i for i in tape.inputs if beyond and moves[i]}
    for i, node in enumerate(tape.nodes):
        if moves[i] and (not nodes.isdisjoint(node.args) or _has_pole(node)):
            nodes.add(i)
    return nodes


def _has_pole(node: Node) -> bool:
    primitive = node.primitive
    if primitive in (INPUT, CONSTANT, ITEM, contract) or not node.types[0].floating:
        return False
    bodies = [
        v for _, value in node.params for v in (value if isinstance(value, tuple) else (value,))
    ]
    tapes = [tape for tape in bodies if isinstance(tape, Tape)]
    if tapes:
        return any(has_poles(tape, tape.outputs) for tape in tapes)
    if (
        primitive.structure.structural
        or primitive.structure.moves
        or primitive.family in ("leaf", "reduction")
    ):
        return False
    if primitive.family != "elementwise" or len(node.args) > _MOST_ARGUMENTS:
        return True
    return _is_infinite_somewhere(primitive, node.params, len(node.args))


@lru_cache(maxsize=512)
def _is_infinite_somewhere(primitive: Primitive, params: Params, count: int) -> bool:
    """Whether an elementwise operation gives an infinity or NaN at finite numbers."""
    points = [x.reshape(-1) for x in np.meshgrid(*[_POINTS] * count)]
    with np.errstate(all="ignore"):
        try:
            values = np.asarray(primitive.rules.evaluate(*points, **dict(params)))
        except not_foreign(TypeError, ValueError):  # an operation of truth values or integers
            return False
    return values.dtype.kind in "fc" and not np.isfinite(values).all()

"""Which operations give infinities or NaN of finite numbers: those with poles, and roots.

A cotangent that is zero because something was left out is carried with its mask only where it can
meet such a value (`cotangent_masks.py`): masks of loops cost memory in each trip. What masks
protect: docs/decisions/where-protects-branches.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import fdiff.intact_numpy as np

from ..foreign_errors import not_foreign
from ..ops.linear_algebra.contraction import contract
from ..primitive import Primitive
from ..tape import CONSTANT, INPUT, ITEM, Node, Params, Tape
from .loops.bodies import needed_nodes

POINTS = (-2.0, -1.0, 0.0, 0.5, 3.0)
MOST_ARGUMENTS = 4


def has_poles(tape: Tape, outputs: Sequence[int]) -> bool:
    """Whether outputs are computed with an operation that may give an infinity of finite values."""
    nodes = [tape.nodes[i] for i in needed_nodes(tape, (), outputs)]
    return any(map(_has_pole, nodes))


def behind_poles(tape: Tape, moves: Sequence[int], *, beyond: bool) -> set[int]:
    """The nodes that move and are computed from such values; `beyond` the inputs there are some."""
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
    if primitive.family != "elementwise" or len(node.args) > MOST_ARGUMENTS:
        return True
    return _is_infinite_somewhere(primitive, node.params, len(node.args))


@lru_cache(maxsize=512)
def _is_infinite_somewhere(primitive: Primitive, params: Params, count: int) -> bool:
    """Whether an elementwise operation gives an infinity or NaN at finite numbers."""
    points = [x.reshape(-1) for x in np.meshgrid(*[POINTS] * count)]
    with np.errstate(all="ignore"):
        try:
            values = np.asarray(primitive.rules.evaluate(*points, **dict(params)))
        except not_foreign(TypeError, ValueError):  # an operation of truth values or integers
            return False
    return values.dtype.kind in "fc" and not np.isfinite(values).all()

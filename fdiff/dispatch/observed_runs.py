"""A tape that NumPy runs: with a span for each operation while a profile is in force."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import fdiff.intact_numpy as np

from .. import kernels
from ..interpret import Interpreter
from ..process import observation
from ..process.observation import BACKWARD, DERIVATIVE, DISPATCH, FORWARD, Observer, Span
from ..tape import Tape
from .forward_nodes import around, forward_nodes
from .observed_kernels import shapes_of


def interpreted(tape: Tape, plan: Interpreter, arrays: Sequence[np.ndarray]) -> list[object]:
    """The outputs of a tape that NumPy runs; in a profile, with a span for each node."""
    seen = observation.observer
    if seen is None:
        return plan(*arrays)
    of = around()
    own = forward_nodes(tape, of.function)
    added = BACKWARD if of.backward else DERIVATIVE
    categories = [FORWARD if i in own and not of.backward else added for i in range(len(tape))]
    with seen.begin("interpret", DISPATCH, tier="interpret", operations=len(plan.steps)):
        return plan.observed(arrays, partial(_begin_node, seen, tape, categories))


def _begin_node(
    seen: Observer, tape: Tape, categories: list[str], i: int, operands: Sequence[object]
) -> Span:
    node = tape.nodes[i]
    shapes = shapes_of(operands) if seen.shapes else None
    span = seen.begin(node.primitive.name, categories[i], shapes)
    span.lines, span.flops = tape.lines.get(i, ()), flops_of(tape, i) if seen.flops else 0
    return span


@lru_cache(maxsize=4096)
def flops_of(tape: Tape, i: int) -> int:
    """The floating-point operations of a node; 0 where nothing is known of them."""
    node = tape.nodes[i]
    return kernels.flops_of_node(node, [tape.nodes[a] for a in node.args]) or 0

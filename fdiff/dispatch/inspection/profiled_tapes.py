"""A tape that NumPy runs: with a span for each operation while a profile is in force."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import fdiff.intact_numpy as np

from ... import kernels
from ...interpret import Interpreter
from ...process import observed_spans
from ...process.observed_spans import BACKWARD, DERIVATIVE, DISPATCH, FORWARD
from ...tape import Tape
from ..primal_nodes import around, forward_nodes
from ..tiers.profiled_kernels import owned_bytes, shapes_of
from .inspector import Inspector, NodeRun


def interpreted(tape: Tape, plan: Interpreter, arrays: Sequence[np.ndarray]) -> list[object]:
    """The outputs of a tape that NumPy runs; in a profile, with a span for each node."""
    seen = observed_spans.observer
    if seen is None:
        return plan(*arrays)
    of = around()
    own = forward_nodes(tape, of.function)
    added = BACKWARD if of.backward else DERIVATIVE

    def in_span(run: NodeRun) -> object:
        """The value of a node, computed in a span."""
        function, i, args, dead = run.step
        operands = run.operands
        category = FORWARD if i in own and not of.backward else added
        shapes = shapes_of(operands) if seen.shapes else None
        with seen.begin(run.node.primitive.name, category, shapes) as span:
            span.lines, span.flops = tape.lines.get(i, ()), flops_of(tape, i) if seen.flops else 0
            value = function(*operands)
            span.memory = owned_bytes(value) - sum(
                owned_bytes(operands[args.index(d)]) for d in dead
            )
        return value

    with seen.begin("interpret", DISPATCH, tier="interpret", operations=len(plan.steps)):
        return Inspector(tape, plan).outputs(arrays, in_span)


@lru_cache(maxsize=4096)
def flops_of(tape: Tape, i: int) -> int:
    """The floating-point operations of a node; 0 where nothing is known of them."""
    node = tape.nodes[i]
    return kernels.flops_of_node(node, [tape.nodes[a] for a in node.args]) or 0

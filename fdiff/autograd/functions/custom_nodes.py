"""Nodes whose rule is a Python function; `Function` and similar classes use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...user_lines import user_line
from ..arrays.array_kinds import array_kind_of
from ..arrays.recorded_array import RecordedArray, Version, new_array, plain
from ..backward_passes.nodes import CustomNode
from ..thread_state import state


def custom_node(
    name: str,
    inputs: Sequence[object],
    outputs: Sequence[np.ndarray],
    backward: Callable[..., object],
    *,
    materialize: bool = True,
    jvp: Callable[..., object] | None = None,
) -> tuple[RecordedArray, ...]:
    """`outputs` as results of a node, whose rule is ``backward(*grad_outputs)``.

    `inputs` are the operands, recorded arrays among them; `backward` gives one gradient for each of
    `inputs` (or None), and is given recorded arrays, which require gradients where a graph of the
    gradient is created. Without `materialize`, it is given None for outputs without a gradient.
    ``jvp(*tangents)`` gives the tangents of the outputs, where there is a rule for forward mode.
    """
    edges = tuple(
        [x.edge_now() if type(x) is RecordedArray and x.requires_grad else None for x in inputs]
    )
    records = state.grad_enabled or state.pushes(inputs)
    if not records or not any(e is not None for e in edges):
        return tuple([plain(value) for value in outputs])
    node = CustomNode(name, edges, backward, user_line(2))
    node.materialize, node.jvp = materialize, jvp
    node.output_kinds = tuple([array_kind_of(value) for value in outputs])
    return tuple(
        [
            new_array(value, array_kind_of(value, True), (node, k), Version())
            if value.dtype.kind in "fc"
            else plain(value)
            for k, value in enumerate(outputs)
        ]
    )

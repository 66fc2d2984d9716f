"""Nodes of calls: the origins of their operands, and the values that they save."""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...process import anomaly_watch
from ...user_lines import Line
from ..arrays.recorded_array import Recordable, RecordedArray, Version
from ..backward_passes.nodes import Edge, GraphNode, next_number
from ..backward_passes.saved_values import FIXED, pack
from ..thread_state import state
from .forward_anomalies import note
from .recipes import Recipe

new_object = object.__new__


def enter(
    node: GraphNode,
    recipe: Recipe,
    operands: Sequence[Recordable],
    outputs: Sequence[Recordable],
    line: Line | None,
) -> None:
    """Fill in the node of a call: its edges, and its saved values."""
    node.recipe = recipe
    edges: list[Edge | None] = []
    for x, needed in zip(operands, recipe.needed, strict=True):
        edges.append((x.edge or x.edge_now()) if needed else None)
    node.edges = tuple(edges)
    count = recipe.count
    saved: list[object] = []
    counts: list[tuple[Version, int]] = []
    for place in recipe.saved:
        x = operands[place] if place < count else outputs[place - count]
        if x.__class__ is RecordedArray:
            version = x.version
            counts.append((version, version.count))
            saved.append(x.value)
            continue
        counts.append(FIXED)
        if x.__class__ is np.ndarray:
            saved.append(np.array(x))  # the user may store into it
        else:
            saved.append(x if isinstance(x, np.generic) else np.float64(x))
    node.saved = tuple(saved)
    node.counts = tuple(counts)
    node.number = next_number()
    node.line = line
    if anomaly_watch.watching():
        note(node, operands, outputs)
    if state.saved_watched and saved:
        if state.saved_hooks and state.grad_enabled:  # else no backward pass comes here
            pack(node)
        if state.copies is not None:
            state.copies.note(node)

"""The origin of a NaN or an infinity in the outputs of a tape: a walk back through its values.

The walk begins at the entries of outputs that are not finite, and goes to those entries of operands
that they were computed from and that are not finite either. Where there are none, the operation
itself made them. What a `where` discards, and what no output reads, is never visited.

A backward dynamic slice, cut where values are finite (B. Korel and J. Laski, Dynamic program
slicing, Information Processing Letters 29(3), pages 155-163, 1988; the whole note).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fdiff.intact_numpy as np

from ...arraytype import BOOL, ArrayType
from ...errors import FdiffError
from ...foreign_errors import not_signalled
from ...interpret import evaluate
from ...named_tuples import NamedTuple
from ...ops.entrywise.elementwise import where
from ...tape import CONSTANT, INPUT, ITEM, Node, Tape
from ...trace import Trace, TracedArray
from ...transforms.cotangent_masks import entries_read, masks_of_arguments
from .body_runs import IsBad
from .inspector import Inspector

Values = list[Any]
Mask = np.ndarray


class Anomaly(NamedTuple):
    """A node whose value is not finite in the entries `mask`, though its operands are.

    `path` are the nodes from there to an output, itself the first; `values` the values of all
    nodes. `trips` are the trips of the loops in whose bodies it is, the outermost first.
    """

    tape: Tape
    values: Values
    mask: Mask
    path: tuple[int, ...]
    trips: tuple[int, ...] = ()

    @property
    def node(self) -> Node:
        return self.tape.nodes[self.path[0]]

    @property
    def value(self) -> np.ndarray:
        return np.asarray(self.values[self.path[0]])


def not_finite(value: object) -> Mask:
    """Which entries of an array are NaN or infinite; none of an array that is not of floats."""
    array = np.asarray(value)
    if array.dtype.kind not in "fc":
        return np.zeros(array.shape, np.bool_)
    return ~np.isfinite(array)


def first_anomaly(inspector: Inspector, values: Values) -> Anomaly | None:
    """The earliest origin of a NaN or infinity in an output; None if outputs are finite.

    `values` are the values of all nodes of the inspector's tape.
    """
    tape = inspector.tape
    bad: dict[int, Mask] = {}
    for o in tape.outputs:
        if (mask := not_finite(values[o])).any():
            bad[o] = mask
    reader: dict[int, int] = {}  # of a node in `bad`, the first node that reads it there
    origins: list[int] = []
    for i in range(max(bad, default=-1), -1, -1):
        if i not in bad:
            continue
        sources = _sources(tape.nodes[i], bad[i], values, i)
        if not sources:
            origins.append(i)
        for a, mask in sources.items():
            bad[a] = mask | bad[a] if a in bad else mask
            reader[a] = i
    if not origins:
        return None
    spoilt = lambda run, trips: any(not_finite(x).any() for x in run(trips) or ())  # noqa: E731 - a condition of one line
    within = _anomaly_in_bodies(inspector, values, origins[-1], _first_of_outputs, spoilt)
    return within or Anomaly(tape, values, bad[origins[-1]], _path(origins[-1], reader))


def _first_of_outputs(inspector: Inspector, values: Values) -> Anomaly | None:
    """The origin of a NaN or infinity in a body's output; None where its inputs hold one."""
    finite = not any(not_finite(values[i]).any() for i in inspector.tape.inputs)
    return first_anomaly(inspector, values) if finite else None


def first_made(
    inspector: Inspector, values: Values, skip: Callable[[int], bool] = lambda _: False
) -> Anomaly | None:
    """The first node that makes a NaN or infinity of finite operands, even if no node reads it."""
    for i, node in enumerate(inspector.tape.nodes):
        if node.primitive in (INPUT, CONSTANT) or skip(i):
            continue
        if (within := _anomaly_in_bodies(inspector, values, i, first_made, None)) is not None:
            return within
        if len(node.types) > 1:
            continue
        mask = not_finite(values[i])
        if mask.any() and not _sources(node, mask, values, i):
            return Anomaly(inspector.tape, values, mask, (i,))
    return None


def _anomaly_in_bodies(
    inspector: Inspector,
    values: Values,
    i: int,
    search: Callable[[Inspector, Values], Anomaly | None],
    is_bad: IsBad | None,
) -> Anomaly | None:
    """The first anomaly in the runs of a node's bodies."""
    for run in inspector.bodies(i, [values[a] for a in inspector.tape.nodes[i].args], is_bad):
        if (anomaly := search(run.inspector, run.inspector.values(run.arguments))) is not None:
            return anomaly._replace(trips=run.trips(anomaly.trips))
    return None


def _path(first: int, reader: dict[int, int]) -> tuple[int, ...]:
    path = [first]
    while path[-1] in reader:
        path.append(reader[path[-1]])
    return tuple(path)


def _sources(node: Node, mask: Mask, values: Values, i: int) -> dict[int, Mask]:
    """The operands with entries that are not finite and that the entries `mask` were made of."""
    if node.primitive is ITEM:
        whole = values[node.args[0]]
        return {node.args[0]: np.array(not_finite(whole[node.k]).any())}
    masks: dict[int, Mask] = {}
    operands = [not_finite(values[a]) for a in node.args]
    if not any(m.any() for m in operands):
        return masks
    read = _entries_read(node, mask, values, i)
    for a, bad, used in zip(node.args, operands, read, strict=True):
        part = bad & used
        if part.any():
            masks[a] = part | masks[a] if a in masks else part
    return masks


def _entries_read(node: Node, mask: Mask, values: Values, i: int) -> list[Mask]:
    """For each operand the entries that the entries `mask` of the result are computed from."""
    args = [np.asarray(values[a]) for a in node.args]
    if node.primitive is where or node.primitive.family == "elementwise":
        return [np.asarray(read) for read in entries_read(node, mask, args, ())]
    everything = [np.ones(a.shape, np.bool_) for a in args]
    if node.primitive.structure.chooses or len(node.types) > 1:
        return everything
    try:
        return _entries_by_rule(node, mask, args, values[i])
    except not_signalled(FdiffError, NotImplementedError):  # an operation that has no such rule
        return everything


def _entries_by_rule(
    node: Node, mask: Mask, args: Sequence[np.ndarray], value: object
) -> list[Mask]:
    """These entries, as the rule on the record of the operation tells them."""
    operands = [*args, np.asarray(value), mask]
    with Trace("entries", lines=False) as trace:
        traced = [trace.input(ArrayType(x.shape, x.dtype)) for x in operands[:-1]]
        flags = trace.input(ArrayType(mask.shape, BOOL))
        parts = masks_of_arguments(node, flags, traced[:-1], traced[-1:])
        ids = [trace.lift(x) for x in parts if isinstance(x, TracedArray)]
        tape = trace.builder.finish(ids)
    entries = iter(evaluate(tape, *operands))
    return [
        np.broadcast_to(np.asarray(next(entries)), a.shape)
        if isinstance(part, TracedArray)
        else np.ones(a.shape, np.bool_)
        for part, a in zip(parts, args, strict=True)
    ]

"""Batching: a tape that maps the program over a new leading axis, without a loop.

The flattening of a map, after the idea of G. E. Blelloch and G. W. Sabot, Compiling
collection-oriented languages onto massively parallel computers, J. Parallel Distrib. Comput. 8,
1990.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ..arraytype import ArrayType
from ..process.progress import Stage
from ..tape import ITEM, Node, Tape
from ..trace import TracedArray
from ..user_lines import Line
from .rule_templates import batches
from .simplify import SimplifyingTrace


def batch(
    tape: Tape, mapped: Sequence[bool], size: int, *, spread: Sequence[bool] | None = None
) -> Tape:
    """Tape of the same program, where input `k` carries a leading axis of `size` if ``mapped[k]``.

    Nodes that depend on no mapped input are computed once. Each output carries the leading axis,
    broadcast if need be, unless ``spread`` says otherwise for it. The tape is simplified.
    """
    with SimplifyingTrace("vmap") as trace, Stage(nodes=trace.builder.nodes):
        types = [
            ArrayType((size, *t.shape), t.dtype) if on else t
            for t, on in zip(tape.input_types, mapped, strict=True)
        ]
        inputs = [trace.builder.input(t) for t in types]
        return trace.builder.finish(batched(tape, trace, inputs, mapped, size, spread=spread))


def batched(
    tape: Tape,
    trace: SimplifyingTrace,
    inputs: Sequence[int],
    mapped: Sequence[bool],
    size: int,
    *,
    spread: Sequence[bool] | None = None,
) -> list[int]:
    """The outputs of a program mapped over a new leading axis, in the trace of its inputs."""
    sweep = _BatchSweep(tape, trace, inputs, mapped, size)
    sweep.run()
    wide = spread or [True] * len(tape.outputs)
    return [sweep.result(o, wide=w) for o, w in zip(tape.outputs, wide, strict=True)]


def widened(
    trace: SimplifyingTrace,
    node: Node,
    args: Sequence[int],
    on: tuple[int, ...],
    size: int,
    line: Line | None,
) -> list[int]:
    """Outputs of one node of which the arguments `on` carry the leading axis."""
    nodes, ids = trace.builder.nodes, [*args]
    types = tuple([nodes[i].types[0] for i in ids])
    template = batches.find(trace.builder, node, (on, size), types, ids, 0)
    if template is None:
        template = batches.ask(trace, node, (on, size), ids, 0, line)
    trace.builder.splice(template.steps, ids, line)
    return [ids[k] for k in template.outputs]


class _BatchSweep:
    """The nodes of a tape as ids of nodes in a trace, and which of them carry the new axis."""

    def __init__(
        self,
        tape: Tape,
        trace: SimplifyingTrace,
        inputs: Sequence[int],
        mapped: Sequence[bool],
        size: int,
    ) -> None:
        self.tape, self.trace, self.size = tape, trace, size
        self.builder = trace.builder
        self.values = [-1] * len(tape.nodes)
        self.carries = bytearray(len(tape.nodes))
        self.parts: dict[int, list[int]] = {}
        for i, value, on in zip(tape.inputs, inputs, mapped, strict=True):
            self.values[i], self.carries[i] = value, on

    def run(self) -> None:
        """Enter each node, or the nodes of its batching rule."""
        values, carries, builder = self.values, self.carries, self.builder
        for i, node, line in self.tape.operations():
            primitive, args, params, types = node
            ids = tuple([values[a] for a in args])
            on = tuple([carries[a] for a in args])
            if 1 not in on:
                values[i] = builder.add(primitive, ids, params, line, types)
                continue
            carries[i] = 1
            if primitive is ITEM:
                values[i] = self.parts[args[0]][node.k]
                continue
            outs = widened(self.trace, node, ids, on, self.size, line)
            values[i] = outs[0]
            if len(types) > 1:
                self.parts[i] = outs
            else:  # a rule may tell that the result is the same for all
                carries[i] = builder.type(outs[0]).ndim > node.type.ndim

    def result(self, o: int, *, wide: bool) -> int:
        """An output; with the leading axis if `wide`."""
        node = self.values[o]
        if self.carries[o] or not wide:
            return node
        value = TracedArray(self.trace, node, self.tape.nodes[o].type)
        return self.trace.lift(np.broadcast_to(value, (self.size, *value.shape)))

"""Batching: a tape that maps the program over a new leading axis, without a loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arraytype import ArrayType
from ..errors import message
from ..tape import INPUT, ITEM, Tape
from ..trace import Trace, TracedArray
from .forward import replay


def batch(
    tape: Tape, mapped: Sequence[bool], size: int, *, spread: Sequence[bool] | None = None
) -> Tape:
    """Tape of the same program, where input `k` carries a leading axis of `size` if ``mapped[k]``.

    Nodes that depend on no mapped input are computed once. Each output carries the leading axis,
    broadcast if need be, unless ``spread`` says otherwise for it.
    """
    with Trace("vmap", lines=False) as trace:
        values: dict[int, TracedArray] = {}
        carries: dict[int, bool] = {}
        outputs: dict[int, Sequence[TracedArray]] = {}
        for i, on in zip(tape.inputs, mapped, strict=True):
            type_ = tape.nodes[i].type
            values[i] = trace.input(ArrayType((size, *type_.shape), type_.dtype) if on else type_)
            carries[i] = on
        for i, node in enumerate(tape.nodes):
            if node.primitive is INPUT:
                continue
            trace.line = tape.lines.get(i, (None,))[0]
            if node.primitive is ITEM:
                values[i] = outputs[node.args[0]][node.k]
                carries[i] = carries[node.args[0]]
                continue
            on = [carries[a] for a in node.args]
            carries[i] = any(on)
            if not carries[i]:
                outputs[i] = replay(trace, node, values)
            elif node.primitive.batch is None:
                raise NotImplementedError(
                    message("vmap", f"{node.primitive.name} has no batching rule.")
                )
            else:
                args = [values[a] for a in node.args]
                outputs[i] = node.primitive.batch(args, on, size, **dict(node.params))  # type: ignore[assignment]
            values[i] = outputs[i][0]
        wide = spread or [True] * len(tape.outputs)
        results = [
            _full(values[o], size, carries[o] or not w)
            for o, w in zip(tape.outputs, wide, strict=True)
        ]
        return trace.builder.finish([trace.lift(x) for x in results])


def _full(value: TracedArray, size: int, done: bool) -> object:  # noqa: FBT001 - private
    return value if done else np.broadcast_to(value, (size, *value.shape))  # type: ignore[call-overload]

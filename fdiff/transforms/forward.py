"""Forward mode: a tape that carries tangents beside its values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import message
from ..primitive import ZERO
from ..tape import INPUT, ITEM, Node, Tape
from ..trace import Trace, TracedArray


def jvp(tape: Tape, wrt: Sequence[int]) -> Tape:
    """Tape of ``(*inputs, *dots) -> (*outputs, *output_dots)``.

    `wrt` are the positions of the inputs that move; there is one tangent for each, and one for
    each output, zeros where an output does not depend on them. The cost is a small multiple of
    the tape's (Griewank and Walther, Evaluating Derivatives, 2nd ed., SIAM 2008, section 3.1).
    """
    with Trace("jvp", lines=False) as trace:
        values = {i: trace.input(tape.nodes[i].type) for i in tape.inputs}
        moving = [tape.inputs[k] for k in wrt]
        dots: dict[int, object] = {i: trace.input(tape.nodes[i].type) for i in moving}
        outputs: dict[int, tuple[TracedArray, ...]] = {}
        multi_dots: dict[int, Sequence[object]] = {}
        for i, node in enumerate(tape.nodes):
            if node.primitive is INPUT:
                continue
            trace.line = tape.lines.get(i, (None,))[0]
            if node.primitive is ITEM:
                values[i] = outputs[node.args[0]][node.k]
                dots[i] = multi_dots[node.args[0]][node.k] if node.args[0] in multi_dots else ZERO
                continue
            outs = outputs[i] = replay(trace, node, values)
            values[i] = outs[0]
            arg_dots = [dots.get(a, ZERO) for a in node.args]
            if any(d is not ZERO for d in arg_dots):
                out_dots = push(node, arg_dots, [values[a] for a in node.args], outs)
                multi_dots[i] = out_dots
                dots[i] = out_dots[0]
        results = [values[o] for o in tape.outputs]
        tangents = [materialise(dots.get(o, ZERO), values[o]) for o in tape.outputs]
        return trace.builder.finish([trace.lift(x) for x in (*results, *tangents)])


def replay(trace: Trace, node: Node, values: dict[int, TracedArray]) -> tuple[TracedArray, ...]:
    """Enter `node` in `trace` once more; its outputs there."""
    node_id = trace.builder.add(
        node.primitive, tuple(values[a].id for a in node.args), node.params, trace.line, node.types
    )
    if len(node.types) == 1:
        return (TracedArray(trace, node_id, node.types[0]),)
    items = (
        trace.builder.add(ITEM, (node_id,), (("k", k),), trace.line) for k in range(len(node.types))
    )
    return tuple(TracedArray(trace, i, t) for i, t in zip(items, node.types, strict=True))


def push(
    node: Node, dots: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray]
) -> Sequence[object]:
    if not any(t.floating for t in node.types):
        return [ZERO] * len(outs)
    if node.primitive.jvp is None:
        raise NotImplementedError(message("jvp", f"{node.primitive.name} has no forward rule."))
    return node.primitive.jvp(dots, args, outs, **dict(node.params))


def materialise(dot: object, like: TracedArray) -> object:
    """`dot` as an array shaped like the value it belongs to; zeros for `ZERO`."""
    if dot is not ZERO:
        return dot
    dtype = like.dtype if like.type.floating else np.dtype(np.float64)
    return np.zeros(like.shape, dtype)


def depends(tape: Tape, wrt: Sequence[int]) -> list[list[bool]]:
    """``depends[o][k]``: whether output `o` depends on input ``wrt[k]`` with a derivative.

    Dependence is that of the graph, not of values: ``x * 0`` depends on `x`, ``floor(x)`` does not.
    """
    sets: list[int] = []
    bit = {tape.inputs[k]: 1 << n for n, k in enumerate(wrt)}
    for i, node in enumerate(tape.nodes):
        mask = bit.get(i, 0)
        if any(t.floating for t in node.types) and not node.primitive.flat:
            for a in node.args:
                mask |= sets[a]
        sets.append(mask)
    return [[bool(sets[o] >> n & 1) for n in range(len(wrt))] for o in tape.outputs]

"""Which entries of an output can depend on which entries of an input: the pattern of a Jacobian.

Sets of input entries are carried through the tape as rows of bits, one for each entry of a node
(Griewank and Walther, Evaluating Derivatives, 2nd ed., SIAM 2008, section 7.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.view_ops import slices
from ...tape import Node, Tape

MOST_BYTES = 1 << 24  # of the bits of one node
Bits = np.ndarray | None  # None: no entry depends on the input
MOVES = frozenset(("reshape", "transpose", "broadcast_to", "slice"))


def pattern(tape: Tape, k: int) -> np.ndarray | None:
    """Truth values of shape (size of output 0, size of input `k`); None where it is not told.

    Ops that mix entries in a way the table below does not know leave the pattern untold, and so
    does one too large to be worth it.
    """
    source = tape.input_types[k]
    width = -(-source.size // 8)
    if any(t.size * width > MOST_BYTES for node in tape.nodes for t in node.types):
        return None
    own = np.packbits(np.eye(source.size, dtype=bool), axis=1)
    known: dict[int, Bits] = {tape.inputs[k]: own.reshape((*source.shape, width))}
    for i, node in enumerate(tape.nodes):
        args = [known.get(a) for a in node.args]
        if i in known or all(a is None for a in args) or not any(t.floating for t in node.types):
            continue
        rule = _RULES.get(node.primitive.name)
        if rule is None and node.primitive.family == "elementwise":
            rule = _elementwise
        if node.primitive.flat:
            continue
        if rule is None or len(node.types) > 1:
            return None
        shapes = [tape.nodes[a].type.shape for a in node.args]
        known[i] = rule(node, args, shapes)
    bits = known.get(tape.outputs[0])
    rows = tape.output_types[0].size
    if bits is None:
        return np.zeros((rows, source.size), bool)
    return np.unpackbits(bits.reshape((rows, width)), axis=1, count=source.size).astype(bool)


Rule = Callable[[Node, Sequence[Bits], Sequence[tuple[int, ...]]], Bits]


def _elementwise(node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]]) -> Bits:
    found = [a for a in args if a is not None]
    width = found[0].shape[-1]
    out = np.zeros((*node.type.shape, width), np.uint8)
    for bits in found:
        out |= bits.reshape((*(1,) * (out.ndim - bits.ndim), *bits.shape))
    return out


def _moved(node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]]) -> Bits:
    (bits,), (shape,) = args, shapes
    assert bits is not None
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    where: Any = node.primitive.evaluate(numbers, **dict(node.params))
    return bits.reshape((-1, bits.shape[-1]))[where]


def _put_back(node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]]) -> Bits:
    (bits,) = args
    assert bits is not None
    out = np.zeros((*node.type.shape, bits.shape[-1]), np.uint8)
    named: dict[str, Any] = dict(node.params)
    out[slices(named["starts"], shapes[0], named["steps"])] = bits
    return out


def _stored(node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]]) -> Bits:
    base, part = args
    width = next(a.shape[-1] for a in args if a is not None)
    out = np.zeros((*node.type.shape, width), np.uint8) if base is None else base.copy()
    named: dict[str, Any] = dict(node.params)
    out[slices(named["starts"], shapes[1], named["steps"])] = 0 if part is None else part
    return out


def _joined(node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]]) -> Bits:
    width = next(a.shape[-1] for a in args if a is not None)
    whole = [
        np.zeros((*shape, width), np.uint8) if bits is None else bits
        for bits, shape in zip(args, shapes, strict=True)
    ]
    named: dict[str, Any] = dict(node.params)
    return np.concatenate(whole, axis=named["axis"])


def _summed(node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]]) -> Bits:
    (bits,) = args
    assert bits is not None
    axes: Any = dict(node.params)["axes"]
    return np.bitwise_or.reduce(bits, axis=tuple(axes)) if axes else bits


_RULES: dict[str, Rule] = {
    **dict.fromkeys(MOVES, _moved),
    "unslice": _put_back,
    "update": _stored,
    "concatenate": _joined,
    "sum": _summed,
}

"""Which entries of an output can depend on which entries of an input: the pattern of a Jacobian.

Sets of input entries are carried through the tape as rows of bits, one for each entry of a node
(Griewank and Walther, Evaluating Derivatives, 2nd ed., SIAM 2008, section 7.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.reductions import sum_
from ...primitive import Primitive
from ...tape import Node, Tape

MOST_BYTES = 1 << 24  # of the bits of one node
Bits = np.ndarray | None  # None: no entry depends on the input


def pattern(tape: Tape, k: int, *, smoothly: bool = True) -> np.ndarray | None:
    """Truth values of shape (size of output 0, size of input `k`); None where it is not told.

    Other ops than those that act entry by entry, move entries or add them up leave the pattern
    untold, and so does one too large to be worth it. Unless `smoothly`, dependence without a
    derivative counts, too: through comparisons, rounding and integers.
    """
    source = tape.input_types[k]
    width = -(-source.size // 8)
    if any(t.size * width > MOST_BYTES for node in tape.nodes for t in node.types):
        return None
    own = np.packbits(np.eye(source.size, dtype=bool), axis=1)
    known: dict[int, Bits] = {tape.inputs[k]: own.reshape((*source.shape, width))}
    for i, node in enumerate(tape.nodes):
        args = [known.get(a) for a in node.args]
        if i in known or all(a is None for a in args):
            continue
        if smoothly and (node.primitive.flat or not any(t.floating for t in node.types)):
            continue
        rule = _rule(node.primitive)
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


def _rule(op: Primitive) -> Rule | None:
    if op.family == "elementwise":
        return _elementwise
    return _moved if op.moves else _summed if op is sum_ else None


def _elementwise(node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]]) -> Bits:
    found = [a for a in args if a is not None]
    width = found[0].shape[-1]
    out = np.zeros((*node.type.shape, width), np.uint8)
    for bits in found:
        out |= bits.reshape((*(1,) * (out.ndim - bits.ndim), *bits.shape))
    return out


def _moved(node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]]) -> Bits:
    """Where each entry of the result comes from the op itself tells, given numbers for entries."""
    width = next(a.shape[-1] for a in args if a is not None)
    numbers, rows, count = [], [np.zeros((1, width), np.uint8)], 1
    for bits, shape in zip(args, shapes, strict=True):
        if bits is None:
            numbers.append(np.zeros(shape, np.int64))
            continue
        rows.append(bits.reshape((-1, width)))
        numbers.append(np.arange(count, count + len(rows[-1])).reshape(shape))
        count += len(rows[-1])
    where: Any = node.primitive.evaluate(*numbers, **dict(node.params))
    return np.concatenate(rows)[where]


def _summed(node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]]) -> Bits:
    (bits,) = args
    assert bits is not None
    axes: Any = dict(node.params)["axes"]
    return np.bitwise_or.reduce(bits, axis=tuple(axes)) if axes else bits

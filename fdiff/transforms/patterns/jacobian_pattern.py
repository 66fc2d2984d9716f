"""Patterns of Jacobians: entries of an output that can depend on entries of an input in any way.

With a derivative is another question, which terms answer (`terms/entry_places.py`).

Sets of input entries are carried through the tape as rows of bits, one for each entry of a node
(A. Griewank and A. Walther, Evaluating Derivatives, 2nd ed., SIAM 2008, chapter 7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...ops.along_axes.reductions import sum_
from ...primitive import Primitive
from ...tape import ITEM, Node, Tape
from ..custom_calls import CALL

MOST_BYTES = 1 << 24  # of the bits of one node
Bits = np.ndarray | None  # None: no entry depends on the input


def pattern(tape: Tape, k: int) -> np.ndarray | None:
    """Truth values of shape (size of output 0, size of input `k`); None where they are not known.

    Patterns are known of ops that act entry by entry, move entries or add them up, and of calls of
    functions with rules. A pattern that would take too much memory is not computed. Dependence
    without a derivative counts, too: through comparisons, rounding and integers.
    """
    source, rows = tape.input_types[k], tape.output_types[0].size
    if not source.size:
        return np.zeros((rows, 0), bool)
    width = -(-source.size // 8)
    if source.size * width > MOST_BYTES:
        return None
    own = np.packbits(np.eye(source.size, dtype=bool), axis=1)
    start = {tape.inputs[k]: own.reshape((*source.shape, width))}
    outs = _carried(tape, start, width)
    if outs is None:
        return None
    bits = outs[0]
    if bits is None:
        return np.zeros((rows, source.size), bool)
    return np.unpackbits(bits.reshape((rows, width)), axis=1, count=source.size).astype(bool)


def _carried(tape: Tape, start: Mapping[int, np.ndarray], width: int) -> list[Bits] | None:
    """The rows of bits of the outputs, from rows of some nodes; None where an op has no rule."""
    bits_of: dict[int, Bits] = {**start}
    parts: dict[int, list[Bits]] = {}  # of calls with several results
    for i, node in enumerate(tape.nodes):
        if node.primitive is ITEM and node.args[0] in parts:
            bits_of[i] = parts[node.args[0]][node.k]
            continue
        args = [bits_of.get(a) for a in node.args]
        if i in bits_of or all(a is None for a in args):
            continue
        if any(t.size * width > MOST_BYTES for t in node.types):
            return None
        shapes = [tape.nodes[a].type.shape for a in node.args]
        results = _output_bits(node, args, shapes, width)
        if results is None:
            return None
        bits_of[i], parts[i] = results[0], results
    return [bits_of.get(o) for o in tape.outputs]


def _output_bits(
    node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]], width: int
) -> list[Bits] | None:
    """The bits of each output of a node; None where its op has no rule."""
    if node.primitive is CALL:
        value = node.param("rule").value
        bits_of = {i: bits for i, bits in zip(value.inputs, args, strict=True) if bits is not None}
        return _carried(value, bits_of, width)
    rule = _rule(node.primitive)
    return None if rule is None or len(node.types) > 1 else [rule(node, args, shapes)]


Rule = Callable[[Node, Sequence[Bits], Sequence[tuple[int, ...]]], Bits]


def _rule(op: Primitive) -> Rule | None:
    if op.structure.sparsity is not None:
        return _declared
    if op.family == "elementwise":
        return _elementwise
    return _moved_entries if op.structure.moves else _summed if op is sum_ else None


def _elementwise(node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]]) -> Bits:
    present = [a for a in args if a is not None]
    width = present[0].shape[-1]
    out = np.zeros((*node.type.shape, width), np.uint8)
    for bits in present:
        out |= bits.reshape((*(1,) * (out.ndim - bits.ndim), *bits.shape))
    return out


def _declared(node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]]) -> Bits:
    """Bits from the pattern that the op declares for each argument."""
    types = [ArrayType(s, node.type.dtype) for s in shapes]
    assert node.primitive.structure.sparsity is not None
    width = next(a.shape[-1] for a in args if a is not None)
    out = np.zeros((node.type.size, width), np.uint8)
    for bits, there in zip(args, node.primitive.structure.sparsity(node.type, *types), strict=True):
        if bits is None:
            continue
        rows = bits.reshape((-1, width))
        if there is None:
            out |= np.bitwise_or.reduce(rows, axis=0)
            continue
        for i, row in enumerate(there):
            out[i] |= np.bitwise_or.reduce(rows[row], axis=0)
    return out.reshape((*node.type.shape, width))


def _moved_entries(node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]]) -> Bits:
    """Bits of an op that moves entries: it is evaluated on the numbers of the entries."""
    width = next(a.shape[-1] for a in args if a is not None)
    numbers, rows, count = [], [np.zeros((1, width), np.uint8)], 1
    for bits, shape in zip(args, shapes, strict=True):
        if bits is None:
            numbers.append(np.zeros(shape, np.int64))
            continue
        rows.append(bits.reshape((-1, width)))
        numbers.append(np.arange(count, count + len(rows[-1])).reshape(shape))
        count += len(rows[-1])
    where: Any = node.primitive.rules.evaluate(*numbers, **dict(node.params))
    return np.concatenate(rows)[where]


def _summed(node: Node, args: Sequence[Bits], shapes: Sequence[tuple[int, ...]]) -> Bits:
    (bits,) = args
    assert bits is not None
    axes = dict(node.params)["axes"]
    return np.bitwise_or.reduce(bits, axis=tuple(axes)) if axes else bits

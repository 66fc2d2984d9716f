"""Loops on complex numbers as loops on real and imaginary parts, for which there are kernels.

Each complex value of a body becomes two real ones. What acts entry by entry follows the formulas
that bytecode has (`ops/entrywise/complex_formulas.py`), what moves or adds entries is done to both
parts, and a product is four. A body that does anything else with complex numbers stays as it is.
See docs/decisions/complex-numbers.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import F8, ArrayType, Shape
from ...kernel_rule import COMPLEX, ComplexFormula
from ...ops.control.loop import LOOP
from ...ops.entrywise.elementwise import imag_part, pair, real_part
from ...ops.entrywise.traced_formulas import traced_parts
from ...ops.linear_algebra.contraction import contract
from ...ops.shapes.view_ops import spread
from ...tape import CONSTANT, INPUT, ITEM, Builder, Node, Replacement, Tape, rebuild
from ...trace import TracedArray
from ..simplify import Simplifier, SimplifyingTrace

Parts = tuple[int, ...]  # the nodes of a value: one, or the real and the imaginary part


class _NotSplitError(Exception):
    """An operation has no formula for parts."""


def split_complex_loops(tape: Tape) -> Tape:
    """The tape in which loops on complex numbers compute with real and imaginary parts.

    What is around them does as well, where all of it can.
    """
    loops = [i for i, n in enumerate(tape.nodes) if n.primitive is LOOP and _has_complex(n)]
    if loops and all(t.dtype.kind != "c" for t in (*tape.input_types, *tape.output_types)):
        with suppress(_NotSplitError):
            return _split(tape)
    parts: dict[int, Parts] = {}  # of the results of split loops, by their nodes
    replacements: dict[int, Replacement] = {}
    for i in loops:
        with suppress(_NotSplitError):
            replacements |= _entering(tape, i, _split(tape.nodes[i].param("body")), parts)
    return rebuild(tape, Simplifier(), replacements) if replacements else tape


def _has_complex(loop: Node) -> bool:
    """Whether the body of a loop has complex numbers."""
    body: Tape = loop.param("body")
    return any(t.dtype.kind == "c" for node in body.nodes for t in node.types)


def _types(type_: ArrayType) -> tuple[ArrayType, ...]:
    """The types of the parts of a value."""
    if type_.dtype.kind != "c":
        return (type_,)
    if type_.dtype.str[1:] != COMPLEX:
        raise _NotSplitError
    return (ArrayType(type_.shape, F8),) * 2


def _split(body: Tape) -> Tape:
    """The body on real and imaginary parts: two inputs or outputs for each complex one."""
    with SimplifyingTrace("loop") as trace:
        b, values, results = trace.builder, dict[int, Parts](), dict[int, list[Parts]]()
        for i in body.inputs:
            values[i] = tuple([b.input(t) for t in _types(body.nodes[i].type)])
        for i, node in enumerate(body.nodes):
            if node.primitive is INPUT:
                continue
            first = len(b.nodes)
            if node.primitive is ITEM and node.args[0] in results:
                values[i] = results[node.args[0]][node.k]
                continue
            args = [values[a] for a in node.args]
            if node.primitive is LOOP and _has_complex(node):
                results[i] = _entered(b, node, args, _split(node.param("body")))
                values[i] = results[i][0]
            else:
                values[i] = _computed(trace, node, args, body)
            for new in range(first, len(b.nodes)):
                if i in body.lines:
                    b.lines.setdefault(new, body.lines[i])
        return b.finish([k for o in body.outputs for k in values[o]])


def _computed(trace: SimplifyingTrace, node: Node, args: Sequence[Parts], body: Tape) -> Parts:
    """The parts of the result of a node, entered in the trace."""
    primitive, operands, params, types = node
    b = trace.builder
    lowering = primitive.lowering
    if all(t.dtype.kind != "c" for t in (*types, *[body.nodes[a].type for a in operands])):
        if lowering.kernel is None and lowering.spelled is None:
            raise _NotSplitError
        return (b.add(primitive, tuple([k for (k,) in args]), params, None, types),)
    if len(types) > 1 or any(len(body.nodes[a].types) > 1 for a in operands):
        raise _NotSplitError
    count = len(_types(node.type))
    if primitive is CONSTANT and node.value is not None:
        parts = np.real(node.value), np.imag(node.value)
        return tuple([b.constant(np.array(part)) for part in parts])
    reads = tuple([body.nodes[a].type.dtype.str[1:] for a in operands])
    for formula in lowering.complex_formulas:
        if formula.reads == reads and len(formula.parts) == count:
            return _by_formula(trace, formula, args, node.type.shape)
    if primitive is contract and all(len(a) == 2 for a in args):
        return _products(trace, node, args)
    structure = primitive.structure
    if not (structure.structural or structure.moves or structure.view) or not operands:
        raise _NotSplitError
    each = [b.add(primitive, tuple([a[k % len(a)] for a in args]), params) for k in range(2)]
    if any(b.type(i) != ArrayType(node.type.shape, F8) for i in each):
        raise _NotSplitError
    return tuple(each)


def _products(trace: SimplifyingTrace, node: Node, args: Sequence[Parts]) -> Parts:
    """The parts of a product of two complex arrays."""

    def product(k: int, j: int) -> TracedArray:
        i = trace.builder.add(contract, (args[0][k], args[1][j]), node.params)
        return TracedArray(trace, i, trace.builder.type(i))

    return (product(0, 0) - product(1, 1)).id, (product(0, 1) + product(1, 0)).id


# --- formulas as operations -----------------------------------------------------------------------


def _by_formula(
    trace: SimplifyingTrace, formula: ComplexFormula, args: Sequence[Parts], shape: Shape
) -> Parts:
    """The parts of the result of an operation that acts entry by entry."""
    operands: dict[str, object] = {}
    for k, (dtype, ids) in enumerate(zip(formula.reads, args, strict=True)):
        letters = "uv" if dtype == COMPLEX else {"f8": "f", "i8": "n", "b1": "t"}[dtype]
        for letter, i in zip(letters, ids, strict=True):
            operands[f"{letter}{k}"] = TracedArray(trace, i, trace.builder.type(i))
    return tuple([_filled(trace, x, shape) for x in traced_parts(formula, operands)])


def _filled(trace: SimplifyingTrace, value: object, shape: Shape) -> int:
    """An array of this shape, whose entries may be one number."""
    b = trace.builder
    i = value.id if isinstance(value, TracedArray) else trace.number(cast("float", value), F8)
    return i if b.type(i).shape == shape else b.add(spread, (i,), (("shape", shape),))


# --- the loop -------------------------------------------------------------------------------------


def _entered(b: Builder, node: Node, args: Sequence[Parts], body: Tape) -> list[Parts]:
    """The results of a loop that is entered with the `body` on parts."""
    old: Tape = node.param("body")
    carries, rows = node.param("carries"), node.param("rows")
    counts = [len(_types(t)) for t in old.input_types]
    params = dict(node.params) | {
        "body": body,
        "carries": sum(counts[:carries]),
        "rows": sum(counts[len(counts) - rows :]),
    }
    loop = b.add(LOOP, tuple([k for ids in args for k in ids]), tuple(sorted(params.items())))
    new = iter(b.results(loop))
    return [tuple([next(new) for _ in _types(t)]) for t in old.output_types]


def _entering(tape: Tape, i: int, body: Tape, parts: dict[int, Parts]) -> dict[int, Replacement]:
    """A function that enters a loop on parts in place of loop `i`, with `parts` of its results."""
    node = tape.nodes[i]
    results: list[int] = []

    def enter(b: Simplifier, ids: dict[int, int]) -> int:
        args: list[Parts] = []
        for x in [ids[a] for a in node.args]:
            own = (x,) if b.type(x).dtype.kind != "c" else parts.get(x)
            args.append(own or (b.add(real_part, (x,)), b.add(imag_part, (x,))))
        for each in _entered(b, node, args, body):
            results.append(b.add(pair, each) if len(each) == 2 else each[0])
            parts[results[-1]] = each
        return results[0]

    replacements: dict[int, Replacement] = {i: enter}
    for j, item in enumerate(tape.nodes):
        if item.primitive is ITEM and item.args[0] == i:
            replacements[j] = lambda _builder, _ids, k=item.k: results[k]
    return replacements

"""Results of eager steps: derivatives taken in a trace that already holds the value of every node.

A function that takes another branch at each call is traced eagerly, for one call. Each function
below computes the result of an operator's plan step by sweeps through the nodes of that trace
instead of a derivative tape. `given` are the inputs of the step: the inputs of the function's tape,
then the vectors of a product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import fdiff.intact_numpy as np

from ...arraytype import F8, ArrayType
from ...dispatch.plans import Arrays
from ...dispatch.variant import Variant
from ...trace.eager.eager_trace import EagerTrace
from ...transforms.eager.eager_derivatives import enter_gradient, pull_values, push_values
from .block_results import DenseBlocks

Seeded = Callable[[np.ndarray], list[Any]]  # seeds with a leading axis to derivatives with one


def output_values(variant: Variant, arrays: Arrays, count: int | None = None) -> list[np.ndarray]:
    """The first `count` outputs of the function (None: all of them)."""
    values = _trace(variant).builder.values
    return [np.array(values[o]) for o in variant.tape.outputs[:count]]


def gradient_values(variant: Variant, arrays: Arrays, *, count: int) -> list[np.ndarray]:
    """The first `count` outputs, then the gradient of the first one: one reverse sweep."""
    type_ = variant.tape.output_types[0]
    one = np.ones(type_.shape, type_.dtype)[()]
    slopes = pull_values(_trace(variant), {variant.tape.outputs[0]: one}, _inputs(variant))
    return [*output_values(variant, arrays, count), *_settled(slopes, _input_types(variant))]


def vjp_values(variant: Variant, arrays: Arrays) -> list[np.ndarray]:
    """The outputs, then the vectors pulled back to the inputs: one reverse sweep."""
    tape, bars = variant.tape, dict[int, Any]()
    floating = [o for o in tape.outputs if tape.nodes[o].type.floating]
    for o, bar in zip(floating, arrays[len(tape.inputs) :], strict=True):
        bars[o] = bars[o] + bar if o in bars else bar
    cotangents = pull_values(_trace(variant), bars, _inputs(variant))
    return [*output_values(variant, arrays), *_settled(cotangents, _input_types(variant))]


def jvp_values(variant: Variant, arrays: Arrays) -> list[np.ndarray]:
    """The outputs, then the vectors pushed forward to the outputs: one forward sweep."""
    tape = variant.tape
    tangents = push_values(_trace(variant), _tangents(variant, arrays), tape.outputs)
    types = [t if t.floating else ArrayType(t.shape, F8) for t in tape.output_types]
    return [*output_values(variant, arrays), *_settled(tangents, types)]


def hvp_values(variant: Variant, arrays: Arrays, *, count: int) -> list[np.ndarray]:
    """The first `count` outputs, then the Hessian times a vector: forward over reverse."""
    trace = _trace(variant)
    slopes = enter_gradient(trace, variant.tape.outputs[0], _inputs(variant))
    products = push_values(trace, _tangents(variant, arrays), slopes)
    return [*output_values(variant, arrays, count), *_settled(products, _input_types(variant))]


def jacobian_values(variant: Variant, asked: DenseBlocks, arrays: Arrays) -> list[np.ndarray]:
    """Every block of a Jacobian, from batched sweeps."""
    if asked.mode == "forward":
        return _columns(variant, asked, list(variant.tape.outputs))
    return _rows(variant, asked)


def hessian_values(variant: Variant, asked: DenseBlocks, arrays: Arrays) -> list[np.ndarray]:
    """Every block of a Hessian: the Jacobian of the gradient, whose nodes are entered first."""
    slopes = enter_gradient(_trace(variant), variant.tape.outputs[0], _inputs(variant))
    return _columns(variant, asked, slopes)


def _trace(variant: Variant) -> EagerTrace:
    return cast("EagerTrace", variant.eager)


def _inputs(variant: Variant) -> list[int]:
    """Nodes of the differentiated inputs."""
    return [variant.tape.inputs[k] for k in variant.wrt]


def _input_types(variant: Variant) -> list[ArrayType]:
    return [variant.tape.input_types[k] for k in variant.wrt]


def _tangents(variant: Variant, arrays: Arrays) -> dict[int, Any]:
    """The vectors of a product: for the node of each differentiated input, its tangent."""
    vectors = arrays[len(variant.tape.inputs) :]
    return dict(zip(_inputs(variant), vectors, strict=True))


def _settled(values: Sequence[object], types: Sequence[ArrayType]) -> list[np.ndarray]:
    """Derivatives as arrays of these types that nobody else holds; zeros where there is none."""
    return [
        np.zeros(t.shape, t.dtype) if x is None else np.array(np.broadcast_to(x, t.shape), t.dtype)  # type: ignore[call-overload,arg-type] - derivatives are arrays or numbers
        for x, t in zip(values, types, strict=True)
    ]


def _columns(variant: Variant, asked: DenseBlocks, outs: Sequence[int | None]) -> list[np.ndarray]:
    """The Jacobian of the nodes `outs`, column by column."""
    columns_of: list[list[np.ndarray]] = []
    for node, inn in zip(_inputs(variant), asked.ins, strict=True):

        def push(dots: np.ndarray, node: int = node) -> list[Any]:
            return push_values(_trace(variant), {node: dots}, outs, len(dots))

        columns = zip(_seeded(variant, asked, inn, push, asked.outs), asked.outs, strict=True)
        columns_of.append([np.moveaxis(c, 0, -1).reshape(t.shape + inn.shape) for c, t in columns])
    blocks = [columns_of[i][o] for o in range(len(asked.outs)) for i in range(len(asked.ins))]
    return [np.ascontiguousarray(b, t.dtype) for b, t in zip(blocks, asked.types, strict=True)]


def _rows(variant: Variant, asked: DenseBlocks) -> list[np.ndarray]:
    """The Jacobian of the outputs, row by row; zero for outputs that are integers."""
    blocks: list[np.ndarray] = []
    width = len(asked.ins)
    for o, out in enumerate(asked.outs):
        types = asked.types[o * width : (o + 1) * width]
        if not out.floating:
            blocks += [np.zeros(t.shape, t.dtype) for t in types]
            continue

        def pull(bars: np.ndarray, node: int = variant.tape.outputs[o]) -> list[Any]:
            return pull_values(_trace(variant), {node: bars}, _inputs(variant), len(bars))

        rows = _seeded(variant, asked, out, pull, asked.ins)
        blocks += [
            np.asarray(row, t.dtype).reshape(t.shape) for row, t in zip(rows, types, strict=True)
        ]
    return blocks


def _seeded(
    variant: Variant,
    asked: DenseBlocks,
    seed: ArrayType,
    derive: Seeded,
    types: Sequence[ArrayType],
) -> list[np.ndarray]:
    """Derivatives along every unit vector of the type `seed`, in chunks."""
    most = asked.chunk_size or max(1, asked.budget // _bytes_per_seed(variant))
    whole = [np.zeros((seed.size, *t.shape), t.dtype) for t in types]
    for lo in range(0, seed.size, most):
        size = min(most, seed.size - lo)
        units = np.eye(size, seed.size, lo, dtype=seed.dtype).reshape((size, *seed.shape))
        kinds = [ArrayType((size, *t.shape), t.dtype) for t in types]
        for place, part in zip(whole, _settled(derive(units), kinds), strict=True):
            place[lo : lo + size] = part
    return whole


def _bytes_per_seed(variant: Variant) -> int:
    """Bytes of all nodes that depend on the differentiated inputs: what one more seed costs."""
    builder = _trace(variant).builder
    active = zip(builder.nodes, builder.active, strict=True)
    return max(sum(sum(t.nbytes for t in node.types) for node, on in active if on), 1)

"""Results of eager steps: derivatives taken in a trace that already holds the value of every node.

A function that takes another branch at each call is traced eagerly, for one call. Each function
below computes the result of an operator's plan step by sweeps through the nodes of that trace
instead of a derivative tape. `arrays` are all inputs of the step: the inputs of the function's
tape, then the vectors of a product. Source: A. Griewank and A. Walther, Evaluating Derivatives, 2nd
ed., SIAM 2008, sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import fdiff.intact_numpy as np

from ...arraytype import F8, ArrayType
from ...dispatch.plans import Arrays
from ...dispatch.variant import Traced
from ...trace.eager.eager_trace import EagerTrace
from ...transforms.eager.eager_derivatives import enter_gradient, pull_values, push_values
from .block_results import DenseBlocks, mirrored

Derivatives = Sequence[np.ndarray | None]  # None: no dependence
Seeded = Callable[[np.ndarray], Derivatives]  # along seeds with a leading axis, with one


def output_values(traced: Traced, arrays: Arrays, count: int | None = None) -> list[np.ndarray]:
    """The first `count` outputs of the function (None: all of them)."""
    values = _trace(traced).builder.values
    return [np.array(values[o]) for o in traced.tape.outputs[:count]]


def gradient_values(traced: Traced, arrays: Arrays, *, count: int) -> list[np.ndarray]:
    """The first `count` outputs, then the gradient of the first one: one reverse sweep."""
    type_ = traced.tape.output_types[0]
    seed = np.ones(type_.shape, type_.dtype)[()]
    slopes = pull_values(_trace(traced), {traced.tape.outputs[0]: seed}, _inputs(traced))
    return [*output_values(traced, arrays, count), *_own_arrays(slopes, traced.wrt_types)]


def vjp_values(traced: Traced, arrays: Arrays) -> list[np.ndarray]:
    """The outputs, then the vectors pulled back to the inputs: one reverse sweep."""
    tape, bars = traced.tape, dict[int, Any]()
    floating = [o for o in tape.outputs if tape.nodes[o].type.floating]
    for o, bar in zip(floating, arrays[len(tape.inputs) :], strict=True):
        bars[o] = bars[o] + bar if o in bars else bar
    cotangents = pull_values(_trace(traced), bars, _inputs(traced))
    return [*output_values(traced, arrays), *_own_arrays(cotangents, traced.wrt_types)]


def jvp_values(traced: Traced, arrays: Arrays) -> list[np.ndarray]:
    """The outputs, then the vectors pushed forward to the outputs: one forward sweep."""
    tape = traced.tape
    tangents = push_values(_trace(traced), _tangents(traced, arrays), tape.outputs)
    types = [t if t.floating else ArrayType(t.shape, F8) for t in tape.output_types]
    return [*output_values(traced, arrays), *_own_arrays(tangents, types)]


def hvp_values(traced: Traced, arrays: Arrays, *, count: int) -> list[np.ndarray]:
    """The first `count` outputs, then the Hessian times a vector: forward over reverse."""
    trace = _trace(traced)
    slopes = enter_gradient(trace, traced.tape.outputs[0], _inputs(traced))
    products = push_values(trace, _tangents(traced, arrays), slopes)
    return [*output_values(traced, arrays, count), *_own_arrays(products, traced.wrt_types)]


def jacobian_values(traced: Traced, asked: DenseBlocks, arrays: Arrays) -> list[np.ndarray]:
    """Every block of a Jacobian, from batched sweeps."""
    if asked.mode == "forward":
        return _columns(traced, asked, list(traced.tape.outputs))
    return _rows(traced, asked)


def hessian_values(traced: Traced, asked: DenseBlocks, arrays: Arrays) -> list[np.ndarray]:
    """Every block of a Hessian: the Jacobian of the gradient, whose nodes are entered first."""
    slopes = enter_gradient(_trace(traced), traced.tape.outputs[0], _inputs(traced))
    return mirrored(_columns(traced, asked, slopes), [t.size for t in asked.ins])


def _trace(traced: Traced) -> EagerTrace:
    return cast("EagerTrace", traced.eager)


def _inputs(traced: Traced) -> list[int]:
    """Nodes of the differentiated inputs."""
    return [traced.tape.inputs[k] for k in traced.wrt]


def _tangents(traced: Traced, arrays: Arrays) -> dict[int, object]:
    """The vectors of a product: for the node of each differentiated input, its tangent."""
    vectors = arrays[len(traced.tape.inputs) :]
    return dict(zip(_inputs(traced), vectors, strict=True))


def _own_arrays(values: Derivatives, types: Sequence[ArrayType]) -> list[np.ndarray]:
    """Derivatives as new arrays of these types; zeros for absent derivatives."""
    return [
        np.zeros(t.shape, t.dtype) if x is None else np.array(np.broadcast_to(x, t.shape), t.dtype)
        for x, t in zip(values, types, strict=True)
    ]


def _columns(traced: Traced, asked: DenseBlocks, outs: Sequence[int | None]) -> list[np.ndarray]:
    """The Jacobian of the nodes `outs`, column by column."""
    columns_of: list[list[np.ndarray]] = []
    for node, inn in zip(_inputs(traced), asked.ins, strict=True):

        def push(dots: np.ndarray, node: int = node) -> Derivatives:
            return push_values(_trace(traced), {node: dots}, outs, len(dots))

        columns = zip(_seeded(traced, asked, inn, push, asked.outs), asked.outs, strict=True)
        columns_of.append([np.moveaxis(c, 0, -1).reshape(t.shape + inn.shape) for c, t in columns])
    blocks = [columns_of[i][o] for o in range(len(asked.outs)) for i in range(len(asked.ins))]
    return [np.ascontiguousarray(b, t.dtype) for b, t in zip(blocks, asked.types, strict=True)]


def _rows(traced: Traced, asked: DenseBlocks) -> list[np.ndarray]:
    """The Jacobian of the outputs, row by row; zero for outputs that are integers."""
    blocks: list[np.ndarray] = []
    width = len(asked.ins)
    for o, out in enumerate(asked.outs):
        types = asked.types[o * width : (o + 1) * width]
        if not out.floating:
            blocks += [np.zeros(t.shape, t.dtype) for t in types]
            continue

        def pull(bars: np.ndarray, node: int = traced.tape.outputs[o]) -> Derivatives:
            return pull_values(_trace(traced), {node: bars}, _inputs(traced), len(bars))

        rows = _seeded(traced, asked, out, pull, asked.ins)
        blocks += [
            np.asarray(row, t.dtype).reshape(t.shape) for row, t in zip(rows, types, strict=True)
        ]
    return blocks


def _seeded(
    traced: Traced,
    asked: DenseBlocks,
    seed: ArrayType,
    derive: Seeded,
    types: Sequence[ArrayType],
) -> list[np.ndarray]:
    """Derivatives along every unit vector of the type `seed`, in chunks."""
    most = asked.chunk_size or max(1, asked.budget // _bytes_per_seed(traced))
    whole = [np.zeros((seed.size, *t.shape), t.dtype) for t in types]
    for lo in range(0, seed.size, most):
        size = min(most, seed.size - lo)
        units = np.eye(size, seed.size, lo, dtype=seed.dtype).reshape((size, *seed.shape))
        kinds = [ArrayType((size, *t.shape), t.dtype) for t in types]
        for place, part in zip(whole, _own_arrays(derive(units), kinds), strict=True):
            place[lo : lo + size] = part
    return whole


def _bytes_per_seed(traced: Traced) -> int:
    """Bytes of all nodes that depend on the differentiated inputs: the cost of one more seed."""
    builder = _trace(traced).builder
    active = zip(builder.nodes, builder.active, strict=True)
    return max(sum(sum(t.nbytes for t in node.types) for node, on in active if on), 1)

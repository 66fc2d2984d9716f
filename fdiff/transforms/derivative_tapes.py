"""Small rearrangements of tapes: fix inputs, choose outputs, put batched derivatives together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import cast

import fdiff.intact_numpy as np

from ..arraytype import INT, ArrayType, Shape, real_dtype
from ..ops.entrywise.elementwise import pair
from ..ops.shapes.gather_scatter import iota
from ..process.progress import Stage
from ..tape import Tape, prune
from ..trace import Trace, TracedArray, apply, splice
from .batch import batched
from .reverse import vjp
from .simplify import SimplifyingTrace, simplify


def choose(tape: Tape, outputs: Sequence[int]) -> Tape:
    """The tape with only these of its outputs, in this order."""
    return prune(tape, [tape.outputs[k] for k in outputs])


def bind(tape: Tape, values: Mapping[int, np.ndarray]) -> Tape:
    """The tape with some inputs (by position) fixed to constants."""
    with Trace("bind", lines=False) as trace:
        inputs = [
            TracedArray(trace, trace.lift(values[k]), t) if k in values else trace.input(t)
            for k, t in enumerate(tape.input_types)
        ]
        return trace.builder.finish([out.id for out in splice(tape, inputs, trace)])


def pullback(tape: Tape, wrt: Sequence[int], of: Sequence[int] | None = None) -> Tape:
    """`vjp` in the public convention: cotangents of complex values come and go conjugated.

    Inside, they pair with tangents as ``Re(bar * dot)``. The gradient of a real function is then
    the conjugate of ``df/dRe + i df/dIm``, which is what torch gives, and is the way of steepest
    ascent (K. Kreutz-Delgado, "The Complex Gradient Operator and the CR-Calculus",
    arXiv:0906.4835, 2009, section "Multivariate CR-Calculus").
    """
    pulled = vjp(tape, wrt, of)
    count = len(tape.outputs)
    if not any(map(_complex, (*tape.output_types, *(tape.input_types[k] for k in wrt)))):
        return pulled
    with Trace("vjp", lines=False) as trace:
        inputs = [trace.input(t) for t in pulled.input_types]
        bars = [cast("TracedArray", np.conjugate(b)) for b in inputs[len(tape.inputs) :]]
        outs = splice(pulled, [*inputs[: len(tape.inputs)], *bars], trace)
        grads = [np.conjugate(out) for out in outs[count:]]
        return trace.builder.finish([trace.lift(x) for x in (*outs[:count], *grads)])


def gradient(tape: Tape, wrt: Sequence[int]) -> Tape:
    """Tape of ``inputs -> (*outputs, *gradients of output 0)``; output 0 has one element.

    Of a complex output it is the complex derivative, which exists where the function is
    holomorphic.
    """
    out = tape.output_types[0]
    unit_seed = np.ones(out.shape, out.dtype)
    if _complex(out) or not any(_complex(tape.input_types[k]) for k in wrt):
        return vjp(tape, wrt, of=(0,), seeds=[unit_seed])
    return simplify(bind(pullback(tape, wrt, of=(0,)), {len(tape.inputs): unit_seed}))


def unit_seeds(type_: ArrayType, first: TracedArray | int, size: int) -> object:
    """Rows `first` to ``first + size`` of the identity, each shaped like `type_`.

    Made of counters and comparisons, so that a kernel never stores them.
    """
    rows = apply(iota, size=size) + first
    columns = apply(iota, size=prod(type_.shape))
    hit = np.reshape(rows, (-1, 1)) == columns
    return np.where(hit, 1.0, 0.0).astype(type_.dtype).reshape((size, *type_.shape))


def _complex(type_: ArrayType) -> bool:
    return type_.dtype.kind == "c"


def real_tangents(pushed: Tape, tape: Tape, k: int) -> Tape:
    """Tape of ``(*inputs, seed) -> columns`` with a real seed, of the tangents for input `k`.

    For a complex input, a real output gives ``df/dRe + i df/dIm``, a complex one its complex
    derivative. It is as simple as the tape of tangents.
    """
    if not _complex(tape.input_types[k]):
        return pushed
    with SimplifyingTrace("jacobian") as trace:
        inputs, seed, zero = _seeded(tape, tape.input_types[k], trace)
        along = splice(pushed, [*inputs, apply(pair, seed, zero)], trace)
        across = splice(pushed, [*inputs, apply(pair, zero, seed)], trace)
        return trace.builder.finish([trace.lift(x) for x in _paired(along, across)])


def real_cotangents(pulled: Tape, tape: Tape, wrt: Sequence[int], o: int) -> Tape:
    """Tape of ``(*inputs, seed) -> rows`` with a real seed, of the cotangents for output `o`.

    The cotangents 1 and -i of a complex output read the real and the imaginary part of its
    derivative with respect to a real input.
    """
    source = tape.output_types[o]
    if not any(map(_complex, (source, *(tape.input_types[k] for k in wrt)))):
        return pulled
    with SimplifyingTrace("jacobian") as trace:
        inputs, seed, zero = _seeded(tape, source, trace)
        if not _complex(source):
            rows = [np.conjugate(row) for row in splice(pulled, [*inputs, seed], trace)]
        else:
            along = splice(pulled, [*inputs, apply(pair, seed, zero)], trace)
            across = splice(pulled, [*inputs, apply(pair, zero, -seed)], trace)
            rows = _paired(along, across)
        return trace.builder.finish([trace.lift(x) for x in rows])


def _paired(along: Sequence[TracedArray], across: Sequence[TracedArray]) -> list[object]:
    """Derivatives along the real and the imaginary axis as complex numbers, where they are real."""
    pairs = zip(along, across, strict=True)
    return [apply(pair, re, im) if re.dtype.kind == "f" else re for re, im in pairs]


def _seeded(
    tape: Tape, source: ArrayType, trace: Trace
) -> tuple[list[TracedArray], TracedArray, np.ndarray]:
    """The inputs of `tape`, a real seed shaped like `source`, and zeros of this shape."""
    inputs = [trace.input(t) for t in tape.input_types]
    seed = trace.input(ArrayType(source.shape, real_dtype(source.dtype)))
    return inputs, seed, np.zeros(seed.shape, seed.dtype)


def seeds_behind(x: TracedArray, shape: Shape) -> object:
    """Move the leading axis, of the seeds, to the end; reshape to `shape`."""
    return np.reshape(np.moveaxis(cast("np.ndarray", x), 0, -1), shape)


def seeds_last(linear: Tape, tape: Tape, k: int, size: int, *, chunked: bool) -> Tape:
    """Columns of the Jacobian with respect to input `k`: a tape of tangents, over unit seeds.

    There is one output for each output of `linear`. A block has the shape of the output, then of
    the input; chunked, it has `size` columns that begin at a further int64 input.
    """
    source = tape.input_types[k]
    last = (size,) if chunked else source.shape
    block = lambda x: seeds_behind(x, (*x.shape[1:], *last))  # noqa: E731 - one line
    return _over_unit_seeds(linear, tape, source, size, block, chunked=chunked)


def seeds_first(linear: Tape, tape: Tape, o: int, size: int, *, chunked: bool) -> Tape:
    """Rows of the Jacobian of output `o`: cotangents over unit seeds. See `seeds_last`."""
    source = tape.output_types[o]
    first = (size,) if chunked else source.shape
    block = lambda x: np.reshape(x, (*first, *x.shape[1:]))  # noqa: E731 - one line
    return _over_unit_seeds(linear, tape, source, size, block, chunked=chunked)


def _over_unit_seeds(
    linear: Tape,
    tape: Tape,
    source: ArrayType,
    size: int,
    block: Callable[[TracedArray], object],
    *,
    chunked: bool,
) -> Tape:
    """A tape batched over unit seeds shaped like `source`, its outputs made blocks; simplified."""
    with SimplifyingTrace("jacobian") as trace, Stage(nodes=trace.builder.nodes):
        inputs = [trace.input(t).node for t in tape.input_types]
        first: TracedArray | int = trace.input(ArrayType((), INT)) if chunked else 0
        seeds = unit_seeds(ArrayType(source.shape, real_dtype(source.dtype)), first, size)
        inputs.append(trace.lift(seeds))
        on = [*(False for _ in tape.inputs), True]
        outs = batched(linear, trace, inputs, on, size)
        blocks = [block(TracedArray(trace, x, trace.builder.type(x))) for x in outs]
        return trace.builder.finish([trace.lift(x) for x in blocks])


def assembled(
    tape: Tape, blocks: Sequence[Tape], places: Sequence[int], types: Sequence[ArrayType]
) -> Tape:
    """One tape of all blocks of a Jacobian, with the inputs of `tape` and outputs of these types.

    Output `k` of the `blocks`, counted through, belongs to ``places[k]``; the others are zero. It
    is as simple as its blocks.
    """
    if len(blocks) == 1 and [*places] == [*range(len(types))]:
        return blocks[0]
    with SimplifyingTrace("jacobian") as trace:
        inputs = [trace.input(t).node for t in tape.input_types]
        replay = trace.builder.replay
        outs = [
            ids[o] for block in blocks for ids in [replay(block, inputs)] for o in block.outputs
        ]
        by_place = dict(zip(places, outs, strict=True))
        outputs = [
            by_place[k] if k in by_place else trace.lift(np.zeros(t.shape, t.dtype))
            for k, t in enumerate(types)
        ]
        return trace.builder.finish(outputs)


def with_check(tape: Tape, check: Tape) -> Tape:
    """Append the output of `check`, a tape of the first inputs, to the outputs of the tape."""
    with Trace("check", lines=False) as trace:
        inputs = [trace.input(t) for t in tape.input_types]
        outs = [*splice(tape, inputs, trace), *splice(check, inputs[: len(check.inputs)], trace)]
        return trace.builder.finish([out.id for out in outs])


def converted(tape: Tape, types: Sequence[ArrayType]) -> Tape:
    """The tape with its outputs converted to the dtypes of `types`."""
    if all(a.dtype == b.dtype for a, b in zip(tape.output_types, types, strict=True)):
        return tape
    with Trace("types", lines=False) as trace:
        outs = splice(tape, [trace.input(t) for t in tape.input_types], trace)
        return trace.builder.finish(
            [trace.lift(out, t.dtype) for out, t in zip(outs, types, strict=True)]
        )


def all_finite(types: Sequence[ArrayType]) -> Tape:
    """The tape that tells whether all entries of arrays of these types are finite."""
    with Trace("jacobian", lines=False) as trace:
        parts = [np.all(np.isfinite(trace.input(t))) for t in types]
        return trace.builder.finish([trace.lift(np.all(np.stack(parts)))])


def symmetric(tape: Tape, types: Sequence[ArrayType]) -> Tape:
    """Hessian blocks, row by row, of one output after the other, made exactly symmetric.

    A block on the diagonal becomes the mean of itself and its transpose; below the diagonal stand
    the transposes of the blocks above.
    """
    n = len(types)
    with SimplifyingTrace("hessian") as trace:
        trace.builder.adopt(tape)
        outs = [TracedArray(trace, o, tape.nodes[o].type) for o in tape.outputs]
        hessians = [outs[k : k + n * n] for k in range(0, len(outs), max(n * n, 1))]
        final = [
            _symmetric_block(blocks, types, i, j)
            for blocks in hessians
            for i in range(n)
            for j in range(n)
        ]
        return trace.builder.finish([trace.lift(x) for x in final])


def _symmetric_block(
    outs: Sequence[TracedArray], types: Sequence[ArrayType], i: int, j: int
) -> object:
    if i < j:
        return outs[i * len(types) + j]
    upper = outs[j * len(types) + i]
    first = upper.ndim - types[i].ndim - types[j].ndim  # before it come the axes of the output
    second = first + types[j].ndim
    axes = (*range(first), *range(second, upper.ndim), *range(first, second))
    flipped = np.transpose(upper, axes)
    return 0.5 * (upper + flipped) if i == j else flipped

"""Dense Jacobians of partially separable functions: a block for each row, put in its place.

Each row depends on the few entries of the input that were gathered for it. As many sweeps as one
row has such entries give the blocks of all rows, however long the input is.

Partial separability; A. Griewank and Ph. L. Toint, On the unconstrained optimization of partially
separable functions, Academic Press 1982.
"""

from __future__ import annotations

from math import prod

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, Shape
from ...ops.gather_scatter import iota, scatter_add
from ...ops.shaping import traced
from ...tape import Tape
from ...trace import Trace, TracedArray, apply, splice
from ..dependence import depends
from ..derivative_tapes import seeds_behind
from .compressed_jacobians import SPARSE, Sweeper, large
from .partial_separability import Separated, Term, separate


def separable(tape: Tape, k: int, type_: ArrayType, most: int, sweep: Sweeper) -> Tape | None:
    """A tape of the Jacobian of this type; None where that is not possible, or would not pay.

    `most` is how many bytes all blocks of rows may have.
    """
    if not large(tape, k):
        return None
    source, found = tape.input_types[k], separate(tape, k)
    if found is None or not _pays(found, source, most):
        return None
    return _placed(found, type_, sweep)


def separable_sweeps(tape: Tape, k: int, most: int) -> int:
    """How many sweeps `separable` takes; 0 where it does not apply."""
    found = separate(tape, k) if large(tape, k) else None
    if found is None or not _pays(found, tape.input_types[k], most):
        return 0
    return sum(prod(p.shape[1:]) for p in found.parts)


def _pays(found: Separated, source: ArrayType, most: int) -> bool:
    nodes = found.tape.nodes
    widths = [prod(p.shape[1:]) for p in found.parts]
    entries = sum(nodes[t.node].type.nbytes for t in found.terms) * sum(widths)
    return sum(widths) * SPARSE <= source.size and entries <= most


def _placed(found: Separated, type_: ArrayType, sweep: Sweeper) -> Tape:
    """The Jacobian: blocks of all terms by all parts, scattered to their rows and columns."""
    count, parts, terms = len(found.tape.inputs), found.parts, found.terms
    between = found.between
    reached = depends(between, range(count, count + len(parts)))
    with Trace("jacobian", lines=False) as trace:
        inputs = [trace.input(t) for t in found.tape.input_types]
        outs = splice(found.before, inputs, trace)
        wheres = _wheres(found, outs[len(parts) :])
        totals: dict[tuple[Shape, Shape], object] = {}
        for s, part in enumerate(parts):
            swept = splice(_swept(between, count + s, sweep), [*inputs, *outs[: len(parts)]], trace)
            for t, term in enumerate(terms):
                if reached[t][s]:
                    places = wheres[len(parts) + t], wheres[s]
                    new = _blocks(swept[t], places, term, part.shape)
                    before = totals.get((term.shape, part.shape))
                    totals[term.shape, part.shape] = new if before is None else before + new  # type: ignore[operator] - arrays, traced ones too
        matrix: object = np.zeros(type_.shape, type_.dtype)
        for n, total in enumerate(totals.values()):
            one = np.reshape(np.transpose(total, (0, 2, 1, 3)), type_.shape)  # type: ignore[call-overload] - a traced array
            matrix = one if n == 0 else matrix + one
        return trace.builder.finish([trace.lift(matrix, type_.dtype)])


def _wheres(found: Separated, vectors: list[TracedArray]) -> list[TracedArray]:
    """The row numbers of each part in the input, then of each term in the output."""
    given = iter(vectors)
    return [
        apply(iota, size=one.shape[0]) if one.where is None else next(given)
        for one in (*found.parts, *found.terms)
    ]


def _swept(between: Tape, k: int, sweep: Sweeper) -> Tape:
    """The tape of the tangents of all terms: of each row, along each entry of its own row `k`."""
    type_ = between.input_types[k]
    width = prod(type_.shape[1:])
    mapped = sweep(between, k, None, width)
    with Trace("jacobian", lines=False) as trace:
        inputs = [trace.input(t) for t in between.input_types]
        unit = np.eye(width, dtype=type_.dtype).reshape((width, 1, *type_.shape[1:]))
        seeds = np.broadcast_to(traced(unit), (width, *type_.shape))
        outs = splice(mapped, [*inputs, seeds], trace)  # type: ignore[list-item] - constants are lifted there
        return trace.builder.finish([out.id for out in outs])


def _blocks(
    tangents: TracedArray, places: tuple[TracedArray, TracedArray], term: Term, shape: Shape
) -> object:
    """All blocks of a term added up, of shape (rows, columns, entries of a row, of a column)."""
    size = tangents.shape[1]
    high, wide = prod(term.shape[1:]), prod(shape[1:])
    last = seeds_behind(tangents, (size, high, wide))
    signed = -last if term.minus else last  # type: ignore[operator] - a traced array
    return apply(scatter_add, signed, *places, shape=(term.shape[0], shape[0], high, wide))

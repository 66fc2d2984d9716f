"""The diagonal of a square Jacobian from few sweeps: entries that do not meet share one.

Where ``J[j, k]`` is zero for every other `k` of the colour of `j`, entry `j` of ``J s`` is
``J[j, j]``, for the sum `s` of the unit vectors of that colour: colours of neighbours differ, a
greedy distance-1 colouring (A. H. Gebremedhin, F. Manne, A. Pothen, "What color is your Jacobian?",
SIAM Review 47(4), 2005, section 3). A diagonal matrix has one colour, a dense one as many as
entries.
"""

from __future__ import annotations

from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import INT, ArrayType, distinct, real_dtype
from ...ops.shapes.gather_scatter import iota
from ...tape import Tape
from ...trace import Trace, TracedArray, apply, splice
from ..terms.entry_places import entry_places


def diagonal_colours(tape: Tape, k: int) -> np.ndarray:
    """A colour for each entry of input `k`, whose type the one output has."""
    size = tape.input_types[k].size
    colour = np.zeros(size, np.int64)
    (places,) = entry_places(tape, k)
    if places is None:
        return np.arange(size)
    off = places.rows != places.cols
    pairs = np.stack([places.rows[off], places.cols[off]])
    low, high = np.sort(pairs, axis=0).astype(np.int64)
    lower, upper = np.divmod(distinct(low * size + high), size)
    if 2 * len(lower) == size * (size - 1):
        return np.arange(size)
    order = np.argsort(upper, kind="stable")
    bounds = np.searchsorted(upper[order], np.arange(size + 1))
    for j in distinct(upper):
        before = colour[lower[order[bounds[j] : bounds[j + 1]]]]
        free = np.ones(len(before) + 1, bool)
        free[before[before < len(free)]] = False
        colour[j] = free.argmax()  # the first that no neighbour has
    return colour


def diagonal_swept(
    mapped: Tape, tape: Tape, k: int, colours: np.ndarray, size: int, *, chunked: bool
) -> Tape:
    """The diagonal from tangents `mapped` over `size` colours; 0 at entries of other colours.

    Chunked, the colours begin at a further int64 input, and what comes out is added to another.
    """
    source = tape.input_types[k]
    with Trace("hessian_diagonal", lines=False) as trace:
        inputs = [trace.input(t) for t in tape.input_types]
        total: object = trace.input(source) if chunked else None
        first: TracedArray | int = trace.input(ArrayType((), INT)) if chunked else 0
        rows = np.reshape(apply(iota, size=size) + first, (size, *(1,) * len(source.shape)))
        hit = rows == colours.reshape(source.shape)
        seeds = cast("TracedArray", np.where(hit, 1.0, 0.0).astype(real_dtype(source.dtype)))
        (swept,) = splice(mapped, [*inputs, seeds], trace)
        entries = np.sum(np.where(hit, swept, 0.0), axis=0)
        out = entries if total is None else total + entries
        return trace.builder.finish([trace.lift(out, source.dtype)])

"""The diagonal of a square Jacobian from few sweeps: entries that do not meet share one.

Where ``J[j, k]`` is zero for every other `k` of the colour of `j`, entry `j` of ``J s`` is
``J[j, j]``, for the sum `s` of the unit vectors of that colour: colours of neighbours differ, a
greedy distance-1 colouring (A. H. Gebremedhin, F. Manne, A. Pothen, "What color is your Jacobian?",
SIAM Review 47(4), 2005, section 3). A diagonal matrix has one colour, a dense one as many as
entries.
"""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...arraytype import INT, ArrayType, real_dtype
from ...ops.gather_scatter import iota
from ...tape import Tape
from ...trace import Trace, TracedArray, apply, splice
from .jacobian_pattern import pattern


def diagonal_colours(tape: Tape, k: int) -> np.ndarray:
    """A colour for each entry of input `k`, whose type the one output has."""
    size = tape.input_types[k].size
    if size == 0 or _entrywise(tape, k):
        return np.zeros(size, np.int64)
    there = pattern(tape, k)
    if there is None or there.all():
        return np.arange(size)
    colour = np.zeros(size, np.int64)
    for j, row in enumerate(there | there.T):
        before = colour[:j][row[:j]]
        free = np.ones(len(before) + 1, bool)
        free[before[before < len(free)]] = False
        colour[j] = free.argmax()  # the first that no neighbour has
    return colour


def _entrywise(tape: Tape, k: int) -> bool:
    """Whether all that depends on input `k` has its shape, and is computed entry by entry."""
    shape, moving = tape.input_types[k].shape, {tape.inputs[k]}
    for i, node in enumerate(tape.nodes):
        if node.primitive.flat or not any(t.floating for t in node.types):
            continue
        read = [a for a in node.args if a in moving]
        if not read:
            continue
        if node.primitive.family != "elementwise" or len(node.types) > 1:
            return False
        if any(tape.nodes[a].type.shape != shape for a in read) or node.type.shape != shape:
            return False
        moving.add(i)
    return True


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
        rows = np.reshape(apply(iota, size=size) + first, (size, *(1,) * len(source.shape)))  # type: ignore[operator] - `fdiff.ops` enters the operators
        hit = rows == colours.reshape(source.shape)
        seeds = np.where(hit, 1.0, 0.0).astype(real_dtype(source.dtype))
        (swept,) = splice(mapped, [*inputs, seeds], trace)  # type: ignore[list-item] - seeds are a traced array, an object to the stubs
        entries = np.sum(np.where(hit, swept, 0.0), axis=0)
        out = entries if total is None else total + entries
        return trace.builder.finish([trace.lift(out, source.dtype)])

"""Columns of a Jacobian with respect to parameters that a function reads one by one.

``b[0] * np.exp(-b[1] * x)`` reads two entries of `b`. Each entry becomes an input of its own, whose
tangent is the number 1 and not a unit vector, and a column has only the nodes that its entry
reaches: the tape is what a person would write. (A. Griewank and A. Walther, Evaluating Derivatives,
2nd ed., SIAM 2008, section 3.1: tangents of independents.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...ops.shaping import traced
from ...ops.view_ops import slice_
from ...tape import Builder, Tape, rebuild
from ...trace import Trace, splice

MOST_ENTRIES = 32
MOST_NODES = 2048  # of all columns together, before what they share is shared


def entry_columns(
    tape: Tape, k: int, keep: Sequence[int], push: Callable[[Tape, int], Tape]
) -> Tape | None:
    """Blocks for input `k`, of the shape of the output, then of the input, one for each output.

    ``push(tape, k)`` gives the outputs and their tangents. None where the input is not a vector
    that is read entry by entry, or the tape would be long.
    """
    type_ = tape.input_types[k]
    short = type_.ndim == 1 and 1 < type_.size <= MOST_ENTRIES
    if not short or type_.dtype.kind != "f" or len(tape) * type_.size > MOST_NODES:
        return None
    apart = _apart(tape, k)
    if apart is None:
        return None
    count = len(tape.outputs)
    with Trace("jacobian", lines=False) as trace:
        inputs = [trace.input(t) for t in tape.input_types]
        entries = [inputs[k][j : j + 1] for j in range(type_.size)]
        one = traced(np.ones(1, type_.dtype))
        given = [*inputs[:k], *inputs[k + 1 :], *entries]
        columns = []
        for j in range(type_.size):
            pushed = push(apart, len(tape.inputs) - 1 + j)
            columns.append(splice(pushed, [*given, one], trace)[count:])
        blocks = [np.stack([column[o] for column in columns], axis=-1) for o in keep]
        return trace.builder.finish([trace.lift(block) for block in blocks])


def _apart(tape: Tape, k: int) -> Tape | None:
    """The tape with an input for each entry of input `k`; None if more than entries are read."""
    source, type_ = tape.inputs[k], tape.input_types[k]
    readers = {i: node for i, node in enumerate(tape.nodes) if source in node.args}
    slices = all(n.primitive is slice_ and n.type.shape == (1,) for n in readers.values())
    if not slices or source in tape.outputs:
        return None
    builder = Builder()
    others = (*tape.inputs[:k], *tape.inputs[k + 1 :])
    ids = {i: builder.input(tape.nodes[i].type) for i in others}
    entries = [builder.input(type_._replace(shape=(1,))) for _ in range(type_.size)]
    ids |= {i: entries[node.param("starts")[0]] for i, node in readers.items()}
    return rebuild(tape, builder, {}, {**ids, source: -1})

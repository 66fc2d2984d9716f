"""Nodes that Python's questions and the guards of a trace add to it.

Python asks an array of one entry for its truth or for an integer; the node of the answer is what a
guard compares. `check_tape` turns all guards of a finished trace into one tape. Guards: A. Gal et
al., Trace-based just-in-time type specialization for dynamic languages, PLDI 2009, section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterator

import fdiff.intact_numpy as np

from ...arraytype import BOOL, INT
from ...primitive import PRIMITIVES
from ...tape import Tape
from ...user_lines import Line
from ..recorder import Recorder


def truth(trace: Recorder, node_id: int) -> int:
    """Node of the truth value of a node."""
    if trace.builder.type(node_id).dtype == BOOL:
        return node_id
    zero = trace.builder.constant(np.zeros((), trace.builder.type(node_id).dtype))
    return trace.add(PRIMITIVES["not_equal"], (node_id, zero))


def integer(trace: Recorder, node_id: int) -> int:
    """Node of the integer Python makes of a node."""
    if trace.builder.type(node_id).dtype.kind in "biu":
        return node_id
    seen = np.asarray(trace.guards.value(node_id, "turned a traced array into a Python int"))
    if not np.all(np.abs(seen) < 2.0**63):  # too large for the tape, or no number: Python decides
        return node_id
    return trace.add(PRIMITIVES["convert"], (node_id,), (("dtype", INT),))


def check_tape(trace: Recorder) -> Tape | None:
    """Tape with the inputs of the trace that tells whether every guard holds; None without any.

    Its nodes have the lines of the compared nodes: the function has returned by now.
    """
    holds = -1
    for node_id, value in trace.guards.expected.items():
        line = next(iter(trace.builder.lines.get(node_id, ())), None)
        equal = _equal(trace, node_id, value, line)
        holds = (
            equal if holds < 0 else trace.add(PRIMITIVES["logical_and"], (holds, equal), (), line)
        )
    return None if holds < 0 else trace.builder.finish([holds])


def _equal(trace: Recorder, node_id: int, value: np.ndarray, line: Line | None) -> int:
    """Node that tells whether a node has this value, where NaN is equal to NaN, and -0 is not 0."""
    type_ = trace.builder.type(node_id)
    if type_.dtype == BOOL and not type_.shape:
        return node_id if value else trace.add(PRIMITIVES["logical_not"], (node_id,), (), line)
    constant = trace.builder.constant(np.array(value, type_.dtype, order="C"))
    same = trace.add(PRIMITIVES["equal"], (node_id, constant), (), line)
    if type_.floating and np.isnan(value).any():
        unknown = trace.builder.constant(np.isnan(value))
        here = trace.add(PRIMITIVES["isnan"], (node_id,), (), line)
        both = trace.add(PRIMITIVES["logical_and"], (here, unknown), (), line)
        same = trace.add(PRIMITIVES["logical_or"], (same, both), (), line)
    if type_.floating:
        for signs in _signs_of_zeros(trace, node_id, value, line):
            same = trace.add(PRIMITIVES["logical_and"], (same, signs), (), line)
    if type_.shape:
        axes = (("axes", tuple(range(type_.ndim))),)
        same = trace.add(PRIMITIVES["all"], (same,), axes, line)
    return same


def _signs_of_zeros(
    trace: Recorder, node_id: int, value: np.ndarray, line: Line | None
) -> Iterator[int]:
    """Nodes that tell where zeros have the signs that they had, which text and bytes show."""
    for name in ("real", "imag") if value.dtype.kind == "c" else (None,):
        seen = getattr(value, name) if name else value
        if not seen.all():
            part = trace.add(PRIMITIVES[name], (node_id,), (), line) if name else node_id
            sign = trace.add(PRIMITIVES["signbit"], (part,), (), line)
            wanted, other = map(trace.builder.constant, (np.signbit(seen), seen != 0))
            same = trace.add(PRIMITIVES["equal"], (sign, wanted), (), line)
            yield trace.add(PRIMITIVES["logical_or"], (same, other), (), line)

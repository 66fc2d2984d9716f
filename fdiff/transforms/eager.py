"""Reverse mode where the forward pass has computed every value: for one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..primitive import ZERO
from ..tape import Tape
from ..trace import TracedArray
from ..trace.eager import EagerTrace
from .forward import materialise
from .reverse import Bar, pull_all, reached


def eager_gradient(trace: EagerTrace, tape: Tape, wrt: Sequence[int]) -> list[object]:
    """Values of the gradients of output 0, taken where the trace has computed its nodes."""
    trace.mutable = False
    with trace:
        values, outputs = _Handles(trace), _Outputs(trace)
        inputs = [tape.inputs[k] for k in wrt]
        out, bars = tape.outputs[0], {}
        wanted = reached(tape, inputs)
        if out in wanted:
            one = trace.builder.constant(np.ones((), tape.nodes[out].type.dtype))
            bars[out] = Bar(TracedArray(trace, one, tape.nodes[out].type))
        pull_all(tape, trace, values, outputs, wanted, bars)
        grads = [bars[i].value if i in bars else materialise(ZERO, values[i]) for i in inputs]
        return [trace.builder.values[trace.lift(g)] for g in grads]


class _Handles(dict[int, TracedArray]):
    """Traced arrays of the nodes of a trace, made when they are asked for."""

    def __init__(self, trace: EagerTrace) -> None:
        super().__init__()
        self.trace = trace

    def __missing__(self, i: int) -> TracedArray:
        made = self[i] = TracedArray(self.trace, i, self.trace.builder.nodes[i].types[0])
        return made


class _Outputs(dict[int, tuple[TracedArray, ...]]):
    """The outputs of the nodes of a trace, likewise."""

    def __init__(self, trace: EagerTrace) -> None:
        super().__init__()
        self.trace = trace

    def __missing__(self, i: int) -> tuple[TracedArray, ...]:
        made = self[i] = self.trace.items(i)
        return made

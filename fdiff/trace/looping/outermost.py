"""A context in which a trace is the innermost one."""

from __future__ import annotations

from ..recorder import Recorder
from ..trace_stack import stack


class Outermost:
    """A context in which a trace is the innermost one, whatever runs inside of it."""

    def __init__(self, trace: Recorder) -> None:
        self.trace = trace

    def __enter__(self) -> None:
        self.traces = stack.traces
        builder = self.trace.builder  # where gradients are off, another object has it
        place = [trace.builder is builder for trace in self.traces].index(True)
        stack.traces = [*self.traces[:place], self.trace]

    def __exit__(self, *_: object) -> None:
        stack.traces = self.traces

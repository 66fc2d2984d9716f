"""The traces under way in each thread, innermost last."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from ..device_arrays import CPU
from ..errors import LeakError, UnsupportedError, failure, message
from ..foreign_errors import whole_exit
from ..process import observed_spans
from ..process.forking import at_fork
from ..user_lines import Line
from .recorder import KEEP_NO_TRACED, Handle, Recorder, leaked


class Stack(threading.local):
    """The traces under way in this thread, innermost last."""

    def __init__(self) -> None:
        self.traces: list[Recorder] = []
        self.free = False  # whether gradients were ever off in a trace of this thread
        self.examples = False  # whether arguments are zeros that stand for types
        self.branches: Counter[Line | None] | None = None  # by line, for `slow_code`
        self.device: str | None = CPU  # what traced functions run on; None if they do not run


stack = Stack()
ASKS = "asks"
_Asking = TypeVar("_Asking", bound=Callable[..., object])


def asks(function: _Asking) -> _Asking:
    """Decorator: a function of the user's calls asks itself whether the trace listens to them."""
    vars(function)[ASKS] = True
    return function


# Why the fast path of calls from machine code is closed: the traces under way in any thread, and
# names of policies that were ever asked for. Machine code reads the length of this dict.
occupied: dict[object, None] = {}
PROFILED = "profiler"  # a key of it while somebody watches
ANOMALIES = "anomalies"  # a key of it while a mode is in force: machine code does not look


def _forget_other_threads() -> None:
    """In a forked child: other threads are gone, and their traces."""
    own = [trace.builder for trace in stack.traces]
    for reason in [r for r in occupied if isinstance(r, Recorder) and r.builder not in own]:
        del occupied[reason]


at_fork(after_in_child=_forget_other_threads)


def current(*values: object) -> Recorder:
    """The innermost trace of this thread, where `values` are used."""
    if not stack.traces:
        for value in values:
            if isinstance(value, Handle):
                raise leaked(value, elsewhere=value.home in occupied)
        fact = "a traced array was used after its trace had ended."
        raise failure(LeakError, "fdiff", fact, KEEP_NO_TRACED)
    return stack.traces[-1]


def root_trace() -> Recorder:
    """The outermost trace of this thread."""
    current()
    return stack.traces[0]


def tracing() -> bool:
    """Whether a trace is under way in this thread."""
    while stack.traces and not stack.traces[-1].is_running():
        stack.traces[-1].close()  # an exception came where `__exit__` began
    return bool(stack.traces)


def forget_abandoned() -> None:
    """Open the fast paths that only traces close which other threads have left open.

    Or a profile: exceptions have ended those where `__exit__` should have.
    """
    if observed_spans.observer is None:
        occupied.pop(PROFILED, None)
    for trace in [reason for reason in [*occupied] if isinstance(reason, Recorder)]:
        if not trace.is_running():
            trace.give_up()


def in_a_batch() -> bool:
    """Whether the code under way is traced for one element of a batch."""
    return any(trace.guards.batch_of for trace in stack.traces)


class suspended:  # noqa: N801 - it is written like a function
    """Code that runs in this context does not see the traces under way."""

    def __enter__(self) -> None:
        self._traces, stack.traces = stack.traces, []

    @whole_exit
    def __exit__(self, *_: object) -> None:
        stack.traces = self._traces


def unsupported(name: str, way: str = "") -> UnsupportedError:
    """The error for a function without a rule; `way` is what to write, where that is known.

    The trace is void even if the user's code catches the error: plain code would not have met it.
    """
    trace = current()
    fact = f"{name} has no derivative rule in fdiff yet."
    way = way or (
        "Write it with supported NumPy functions,"
        " or compute it outside the differentiated function."
    )
    error = UnsupportedError(message(trace.call, fact, way, trace.where()))
    trace.refused = trace.refused or error
    return error

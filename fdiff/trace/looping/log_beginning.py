"""The beginning of a log of calls, in a loop: docs/decisions/plain-loops-are-scouted.md."""

from __future__ import annotations

from functools import cache

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ..ordinary_trace import Trace
from ..recorder import NEVER, Recorder
from ..traced_array import TracedArray
from .call_gates import gated_method
from .call_log import CallLog
from .logged_calls import LoggedCall, content, references
from .trip_counts import Prospects

OWNERS = 3  # of a handle that a call has just made: its result, the log, who counts them


def start_log(
    trace: Recorder, fewest: int, *, prospects: Prospects | None = None, awake: bool = False
) -> None:
    """Give a trace its log, if loops can be rolled here; one that is `awake` logs calls at once.

    Loops of fewer calls than `fewest` stay unrolled; `prospects` saw the loops so far.
    """
    fresh = references_to_new()
    if fresh:
        log = trace.calls = CallLog(trace, fewest, fresh)
        log.prospects = prospects or log.prospects
        if awake:
            log.wake()
    else:
        trace.milestone = NEVER


class _Counts(CallLog):
    """Counts the references to what calls have made, and logs no call."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace, 0, 0)
        self.wake()
        self.counts: list[int] = []

    def is_fresh(self, call: LoggedCall) -> bool:
        self.counts += references(call)
        return False


@cache
def references_to_new() -> int:
    """How many references there are to a handle that a call has just made, while it is logged.

    It depends on the interpreter, so it is measured, by calls through a gate. 0, with which no loop
    is rolled, where a handle that is held elsewhere has not one reference more; or where there are
    too many, since a debugger looks at the frames.
    """
    kept: list[TracedArray] = []

    def held(x: TracedArray) -> TracedArray:
        kept.append(content(x))
        return kept[-1]

    with Trace("loop", lines=False) as trace:
        trace.calls = log = _Counts(trace)
        x = trace.input(ArrayType((), np.dtype(float)))
        gated_method(content)(x)
        gated_method(held)(x)
        trace.calls = trace.listener = None  # the log and the trace hold each other
    fresh, more = log.counts
    return fresh if 0 < fresh <= OWNERS and more == fresh + 1 else 0

"""The collection of spans while a profile is in force, and what they become afterwards: events."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from opcode import opmap
from types import FrameType

from ..named_tuples import NamedTuple
from ..process import observed_spans
from ..process.forking import at_fork
from ..process.interrupt_safe_locks import TurnLock
from ..process.observed_spans import BACKWARD, DERIVATIVE, LABEL, Span, Watcher
from ..trace.trace_stack import PROFILED, occupied
from ..user_lines import Line, file_label, numbered
from .events import (
    BACKWARD_FUNCTION,
    FUNCTION,
    USER_SCOPE,
    DeviceKernel,
    FunctionEvent,
    Interval,
)

_SCOPES = {LABEL: USER_SCOPE, BACKWARD: BACKWARD_FUNCTION, DERIVATIVE: BACKWARD_FUNCTION}
_WITH = opmap.get("BEFORE_WITH")
_lock = TurnLock()


def begin_watching(watcher: Watcher, frame: FrameType | None = None) -> None:
    """Tell a watcher of all spans, and close the fast paths, on which there are none.

    `frame` is what entered it: if that is a ``with`` statement, it ends with it in any case.
    """
    if frame is not None and frame.f_code.co_code[frame.f_lasti] != _WITH:
        frame = None  # as from an ExitStack
    with _lock:
        observed_spans.watch(watcher, frame, partial(end_watching, watcher))
        occupied[PROFILED] = None


def end_watching(watcher: Watcher) -> None:
    """Tell a watcher of no more spans; the fast paths open again with the last one."""
    with _lock:
        observed_spans.unwatch(watcher)
        if observed_spans.observer is None:
            occupied.pop(PROFILED, None)


def _forget() -> None:
    """In a forked child nobody watches (`observed_spans`), and the fast paths are open."""
    occupied.pop(PROFILED, None)


at_fork(after_in_child=_forget)


class ProfileOptions(NamedTuple):
    """Settings of a profile: its records besides times."""

    shapes: bool
    flops: bool
    memory: bool
    stack: bool
    device: bool


class Collector:
    """Gathers the spans of all threads; those that end after `open` is False are left out."""

    def __init__(self, options: ProfileOptions) -> None:
        self.shapes, self.memory, self.stack = options.shapes, options.memory, options.stack
        self.flops, self.device = options.flops, options.device
        self.spans: list[Span] = []
        self.threads: dict[int, str] = {}
        self.open = True

    def opened(self, span: Span) -> None:
        """Nothing yet: spans are taken when they are over."""

    def closed(self, span: Span) -> None:
        self.noted(span)

    def noted(self, span: Span) -> None:
        if self.open:
            self.spans.append(span)
            if span.thread not in self.threads:
                self.threads[span.thread] = _thread_name(span.thread)


def _thread_name(ident: int) -> str:
    """The name of a thread; `threading.current_thread` would drop an alarm's KeyError."""
    names = (thread.name for thread in threading.enumerate() if thread.ident == ident)
    return next(names, f"Thread {ident}")


def events_of(spans: Sequence[Span], begin: int, options: ProfileOptions) -> list[FunctionEvent]:
    """The events that spans stand for, in the order in which they began.

    The event around one belongs to the span around it, or to the next one outwards that was
    recorded.
    """
    ordered = sorted(spans, key=lambda span: (span.begin, -span.end))
    events: dict[int, FunctionEvent] = {}
    for number, span in enumerate(ordered):
        events[id(span)] = _event(number, span, begin, options)
    for span in ordered:
        event, around = events[id(span)], span.parent
        while around is not None and id(around) not in events:
            around = around.parent
        if around is not None:
            event.cpu_parent = events[id(around)]
            event.cpu_parent.cpu_children.append(event)
    return [events[id(span)] for span in ordered]


def _event(number: int, span: Span, begin: int, options: ProfileOptions) -> FunctionEvent:
    interval = Interval((span.begin - begin) / 1e3, (span.end - begin) / 1e3)
    event = FunctionEvent(
        number,
        span.name,
        span.thread,
        interval,
        span.category,
        _SCOPES.get(span.category, FUNCTION),
        span.shapes or () if options.shapes else (),
        _stack(span) if options.stack else [],
        span.args,
        span.memory if options.memory else 0,
        span.flops if options.flops else 0,
    )
    if options.device and span.args.get("waited"):
        event.kernels.append(DeviceKernel(span.name, 0, interval.elapsed_us()))
    return event


def _stack(span: Span) -> list[str]:
    """The user's lines of a span, then the lines of the call around it."""
    own = [line_text(line) for line in span.lines]
    around = span.parent
    while around is not None and around.category != observed_spans.CALL:
        around = around.parent
    rest = [line_text(line) for line in around.lines] if around is not None else []
    return own + [line for line in rest if line not in own]


def line_text(line: Line) -> str:
    """``file.py(12): loss``, as torch writes a line of a stack."""
    where = line[0]
    name, number = numbered(line)
    function = "" if isinstance(where, str) else f": {where.co_name}"
    return f"{file_label(name)}({number}){function}"

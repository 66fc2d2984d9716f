"""Spans of work, which are reported to all watchers of the process.

`observer` is None unless somebody watches. Where work begins that may be worth seeing, the code
asks for it, and opens a span::

    if (seen := observation.observer) is not None:
        with seen.begin("compiling", COMPILE): ...

`span` is the same in one line, for places where a context manager more does not matter. Every
thread has its own stack of open spans, so that each span knows the one around it. Watchers are
told of a span when it opens and when it closes. A forked child has none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter_ns
from types import FrameType
from typing import TYPE_CHECKING, Protocol, Self

from .forking import Turn, at_fork
from .interrupt_safe_locks import TurnLock

if TYPE_CHECKING:
    from ..user_lines import Line

# Categories of spans.
CALL, LABEL = "call", "label"  # a public call; what `record_function` labels
TRACE, TRANSFORM, COMPILE = "trace", "transform", "compile"
CACHE, DISPATCH = "cache", "dispatch"
FORWARD, DERIVATIVE, BACKWARD = "forward", "derivative", "backward"  # operations
KERNEL = "kernel"  # compiled code, and the loop nests in it
PROFILER = "profiler"  # what the profiler itself takes


Shapes = Sequence[Sequence[int]]


class Watcher(Protocol):
    """Who is told of spans; `shapes`, `stack`, ... say what has to be found out for it."""

    shapes: bool
    stack: bool
    memory: bool
    flops: bool
    device: bool  # whether kernels on a device are waited for, and timed

    def opened(self, span: Span) -> None: ...
    def closed(self, span: Span) -> None: ...
    def noted(self, span: Span) -> None:
        """A span that was over when it became known."""


class Span:
    """Some work of one thread, from `begin` to `end` in nanoseconds of `time.perf_counter_ns`.

    `parent` is the span around it. `lines` are the user's lines it belongs to, innermost first,
    `shapes` the shapes of the arrays it takes, `memory` the bytes of arrays that were allocated in
    it, less those that were freed. A call has the `tape` of its function. Everything else
    that is known of the span is in `args`.
    """

    __slots__ = (
        "_watchers", "args", "begin", "category", "end", "flops", "lines", "memory", "name",
        "parent", "shapes", "tape", "thread",
    )  # fmt: skip

    def __init__(
        self, name: str, category: str, watchers: Sequence[Watcher], args: dict[str, object]
    ) -> None:
        self.name, self.category, self.args = name, category, args
        self._watchers = watchers
        self.parent: Span | None = None
        self.lines: tuple[Line, ...] = ()
        self.shapes: Shapes | None = None
        self.memory = self.flops = 0
        self.tape: object = None
        self.thread = _open.thread
        self.begin = self.end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the span, and with it those inside that an exception left open."""
        self.end = perf_counter_ns()
        spans = _open.spans
        if self in spans:
            del spans[spans.index(self) :]
        for watcher in self._watchers:
            watcher.closed(self)

    def note(self) -> None:
        """Tell the watchers of a span that was measured by other means."""
        for watcher in self._watchers:
            watcher.noted(self)

    def inside(self, name: str, category: str, begin: int, end: int, **args: object) -> Span:
        """A span inside this one that was measured by other means; `note` tells of it."""
        inner = Span(name, category, self._watchers, args)
        inner.parent, inner.begin, inner.end = self, begin, end
        return inner


class _Open(threading.local):
    """The spans that are open in this thread, innermost last."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.thread = threading.get_native_id()


_open = _Open()


class Observer:
    """All who watch the process at the moment."""

    def __init__(self, watchers: tuple[Watcher, ...]) -> None:
        self.watchers = watchers
        self.shapes = any(w.shapes for w in watchers)
        self.stack = any(w.stack for w in watchers)
        self.memory = any(w.memory for w in watchers)
        self.flops = any(w.flops for w in watchers)
        self.device = any(w.device for w in watchers)

    def begin(self, name: str, category: str, shapes: Shapes | None = None, **args: object) -> Span:
        """Open a span in this thread; the caller closes it."""
        span, spans = Span(name, category, self.watchers, args), _open.spans
        span.shapes = shapes
        span.parent = spans[-1] if spans else None
        spans.append(span)
        for watcher in self.watchers:
            watcher.opened(span)
        span.begin = perf_counter_ns()
        return span

    def mark(self, name: str, category: str, **args: object) -> None:
        """Something that takes no time, such as that a cache had what was asked for."""
        span = Span(name, category, self.watchers, args)
        span.parent = _open.spans[-1] if _open.spans else None
        span.begin = span.end = perf_counter_ns()
        span.note()


observer: Observer | None = None
_lock = TurnLock()
_NOTHING = nullcontext()


def span(
    name: str, category: str, shapes: Shapes | None = None, **args: object
) -> AbstractContextManager[Span | None]:
    """A span around a ``with`` statement; nothing while nobody watches."""
    seen = observer
    return _NOTHING if seen is None else seen.begin(name, category, shapes, **args)


def mark(name: str, category: str, **args: object) -> None:
    """Note that something happened, if somebody watches."""
    if (seen := observer) is not None:
        seen.mark(name, category, **args)


def innermost() -> Span | None:
    """The span that is open in this thread."""
    return _open.spans[-1] if _open.spans else None


def watch(
    watcher: Watcher, frame: FrameType | None = None, end: Callable[[], object] | None = None
) -> None:
    """Tell `watcher` of all spans that begin from now on, in any thread.

    With `frame`, the frame of a ``with`` statement, `end_abandoned` calls `end` once the frame does
    not run.
    """
    global observer  # noqa: PLW0603 - the one slot that everybody asks
    if frame is not None and end is not None:
        _turns[id(watcher)] = Turn(threading.get_ident(), [frame]), end
    with _lock:
        observer = Observer((*(observer.watchers if observer else ()), watcher))


def unwatch(watcher: Watcher) -> None:
    """Tell `watcher` of no more spans."""
    global observer  # noqa: PLW0603 - as above
    with _lock:
        left = tuple(w for w in (observer.watchers if observer else ()) if w is not watcher)
        observer = Observer(left) if left else None
    _turns.pop(id(watcher), None)  # not before: an exception may come in between


def end_abandoned() -> None:
    """End what an exception has left watching, where it came as `__exit__` began."""
    for turn, end in [*_turns.values()]:
        if turn.is_over():
            end()


_turns: dict[int, tuple[Turn, Callable[[], object]]] = {}


def _forget() -> None:
    """In a forked child nobody watches: what it does would be told to copies."""
    global observer, _open
    observer, _open = None, _Open()
    _turns.clear()


at_fork(after_in_child=_forget)

"""What the functions run by a trace read from outside, and who watches them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FunctionType
from typing import cast
from weakref import ref

import numpy as np

from .arguments import Function, traceable
from .capture import Capture, Reads
from .capture.classes import getattr_static
from .capture.kinds import MISSING
from .capture.standins import Items
from .errors import (
    FdiffError,
    LeakError,
    TraceError,
    line_in,
    message,
    user_line,
)
from .ops.creation import answer
from .ops.foreign import fixed
from .trace import Trace, TracedArray, answers, root_trace
from .trace.local import plain, resolve
from .trace.traced import KEEP_NO_TRACED, stack, suspended
from .tree import map_leaves

answers(inspect.getattr_static)(getattr_static)


class Watch:
    """What the functions of one outermost trace read: a `Capture` each; who met which array."""

    def __init__(self, trace: Trace) -> None:
        self._trace = ref(trace)  # which knows this watch: no reference goes round
        self.parts: list[tuple[Callable[..., object], Capture]] = []
        self.order: list[tuple[int, int]] = []

    def capture(self, array: np.ndarray) -> TracedArray:
        """What stands for an array that was read."""
        trace = self._trace()
        if trace is None:
            fact = "a function was called that belongs to a trace that has ended."
            raise LeakError(message("fdiff", fact, KEEP_NO_TRACED, user_line()))
        return trace.capture(array)

    def private(self, f: Callable[..., object]) -> Callable[..., object]:
        """What to run in place of `f`; its reads are watched from now on."""
        part, count = len(self.parts), 0

        def handle(array: np.ndarray) -> TracedArray:
            nonlocal count
            self.order.append((part, count))
            count += 1
            return self.capture(array)

        capture = Capture(handle, answer, settled, self.plainly)
        self.parts.append((f, capture))
        return capture.private(f)

    def plainly(self, call: object) -> object:
        """The result of `call` outside of any trace; MISSING if the run has written something."""
        if any(capture.written() for _, capture in self.parts):
            return MISSING
        with suspended():
            return cast("Function", call)()

    def original(self, value: object) -> object:
        """The user's own object, where `value` stands in for one."""
        for _, capture in self.parts:
            if (found := capture.original(value)) is not value:
                return found
        return value

    def finish(self) -> tuple[tuple[Callable[..., object], Reads], ...]:
        """What was read; what was written goes to the user's own variables."""
        return tuple((f, capture.finish()) for f, capture in self.parts)


def settled(value: object, moving: bool = False) -> object:  # noqa: FBT001, FBT002 - `capture` calls it by position
    """The value of a traced array that is made of captured data alone; others stay traced.

    With `moving` others give their value at this call, or a LookupError where they have none.
    """
    given = resolve(value)
    if not isinstance(given, TracedArray):
        return value
    if not (given.home.alive and (fixed(given) or (moving and _at_hand(given)))):
        if moving:
            raise LookupError
        return value
    array = np.array(given.home.looks.value(given.id, "kept a value beyond the run"))
    return array.item() if given.weak else array[()] if given.scalar else array


def _at_hand(traced: TracedArray) -> bool:
    """Whether the value at this call is known, and one."""
    looks = traced.home.looks
    if stack.examples or looks.apart(traced.id):
        return False
    try:
        looks.value(traced.id, "kept a value beyond the run")
    except TraceError:
        return False
    return True


@contextmanager
def watched(trace: Trace, inner: list[tuple[Function, Reads]]) -> Generator[Watch]:
    """What the function reads is watched by the outermost trace, and put into its `inner`."""
    root = root_trace()
    if root is trace:
        root.watch = Watch(trace)
    watch: Watch = root.watch  # type: ignore[assignment] - set where the outermost trace began
    try:
        yield watch
    except (TypeError, ValueError) as error:
        words = _refused(error)
        if words is None:
            raise
        where = line_in(error.__traceback__)
        raise TraceError(message(trace.call, *words, where)).with_traceback(
            error.__traceback__
        ) from None
    finally:
        if root is trace:
            inner.extend(watch.finish())


def _refused(error: Exception) -> tuple[str, str] | None:
    """Fact and way out, where C code could not take a traced array and said so in its own words."""
    if isinstance(error.__cause__, TraceError):  # NumPy's words for a refused __float__
        return (
            "a traced value was stored into an array of numbers, which would drop its derivative.",
            "Store into a copy made in the function: `a = np.array(a)`.",
        )
    if "TracedArray" in str(error) and not isinstance(error, FdiffError):
        return (
            f"a traced array met code that takes numbers or memory alone ({error}).",
            "Use numpy functions, or fdiff.stop_gradient.",
        )
    return None


def own_result(tree: object, watch: Watch) -> object:
    """What the function returned, with the user's own objects in place of stand-ins."""

    def own(leaf: object) -> object:
        if isinstance(leaf, Items):
            return map_leaves(own, leaf.copy())
        leaf = plain(leaf)
        return leaf if traceable(leaf) else watch.original(leaf)

    return map_leaves(own, tree)


def call_private(f: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Run a private copy of `f`."""
    return private(f)(*args, **kwargs)


def private(f: Callable[..., object]) -> Callable[..., object]:
    """`f` as it is run inside the trace under way: a private copy whose reads are watched."""
    if isinstance(f, FunctionType) and type(f.__globals__) is not dict:
        return f  # a private copy already: made by the trace around this one
    watch = root_trace().watch
    return watch.private(f) if isinstance(watch, Watch) else f

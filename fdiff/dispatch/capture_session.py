"""Capture sessions: functions run as private copies, and all their reads are recorded.

The outermost trace of a thread has one session. `session_of` opens the session around a run of the
user's function. At its end the variant gets the reads of each function (`Capture`), and the user's
own variables get the values that the private copies wrote.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from contextlib import suppress
from types import FrameType
from typing import cast
from weakref import ref

import fdiff.intact_numpy as np

from .. import kernels
from ..capture import Capture, Dependencies
from ..capture.proxies.class_proxies import getattr_static
from ..capture.symbolic_numbers import SymbolicNumber
from ..capture.value_kinds import MISSING
from ..capture.written.traced_value_release import NoValueError
from ..device_arrays import CPU, DeviceArray
from ..errors import LeakError, TraceError, failure, message
from ..foreign_errors import contextmanager, is_of_signal_handler, is_sent_by_thread
from ..ops.replacements import replacement_of
from ..trace import Trace, TracedArray, private, record, replaces, root_trace
from ..trace.exception_context import inside_try, runs_when_left
from ..trace.local_arrays import plain
from ..trace.looping import looks_for_loops
from ..trace.recorder import KEEP_NO_TRACED
from ..trace.trace_stack import stack, suspended
from ..tree import map_leaves
from ..user_lines import Line, line_in
from .arguments import Function, ResultNumber, refuse_device_array, traceable
from .run_errors import ManyQuestionsError, NoSessionError, RunAgainError, words_of_refusal
from .written_values import WrittenValues, depends, settled, stacked

replaces(inspect.getattr_static)(getattr_static)

MOST_DENIALS = 1000  # in one run: a loop may end where values are equal


class CaptureSession:
    """The reads of the functions of one outermost trace: a `Capture` for each function.

    `captured` holds for each captured array, in the order in which they were met, the number of its
    function, its number there, and the traced array that stands for it.
    If the trace is to be kept (`repeats`), later calls repeat the writes of a single function.

    The `denied` conditions, which hold at this point alone, are decided as they are around the
    point; such a run leaves nothing behind. `met` says by line which of them were strong.
    """

    def __init__(
        self, trace: Trace, *, repeats: bool, denied: Container[Line | None] | None = None
    ) -> None:
        self.repeats = repeats
        self._denied = denied
        self._trace = ref(trace)  # weak, because the trace refers to this session
        self.parts: list[tuple[Callable[..., object], Capture]] = []
        self.captured: list[tuple[int, int, TracedArray]] = []
        self.running: list[Capture] = []  # of the functions that run, innermost last
        self.over: list[Capture] = []  # of those that have run, in the order in which they ended
        self.met: dict[Line | None, bool] = {}  # conditions that hold at this point alone
        self.denials = 0
        self.results: dict[str, list[list[object]]] = {}  # of the traces that met such conditions
        self.stored: set[str] = set()  # the places that the functions stored something in

    @property
    def trace(self) -> Trace:
        """The outermost trace, unless it is over."""
        trace = self._trace()
        if trace is None:
            fact = "a function was called that belongs to a trace that has ended."
            raise failure(LeakError, "fdiff", fact, KEEP_NO_TRACED)
        return trace

    def private(self, f: Callable[..., object]) -> Callable[..., object]:
        """A private copy of `f`, whose reads are watched."""
        part = len(self.parts)

        def handle(array: object) -> TracedArray:
            there = array if isinstance(array, np.ndarray) else self._viewed(array)
            traced = self.trace.capture(there)
            self.captured.append((part, len(capture.arrays) - 1, traced))
            return traced

        tape = WrittenValues(self._trace) if self.repeats and not self.parts else None
        capture = Capture(
            handle, replacement_of, settled, self.plainly, depends, tape, self.trace.call,
            self._misses, tentative=self._denied is not None,
        )  # fmt: skip
        for _, part_before in self.parts:
            part_before.stop_repeating()
        self.parts.append((f, capture))
        for outer in self.running:
            outer.flush()
        run = capture.private(f)

        def watched_run(*args: object, **keywords: object) -> object:
            self.running.append(capture)
            try:
                return run(*args, **keywords)
            finally:
                self.running.pop()
                self.over.append(capture)
                if self.running:
                    capture.flush()
                for outer in self.running:
                    outer.see(capture)

        return watched_run

    def _viewed(self, array: object) -> DeviceArray:
        """A captured array of another library, as an array on the device of the trace."""
        if stack.device == CPU:
            refuse_device_array(array, self.trace.call)
        return kernels.cuda_device(self.trace.call).view(array)

    def note(self, reason: str) -> None:
        """Note a reason why no later call may use the trace."""
        self.parts[0][1].note(reason)

    def formatted(self, value: object, spec: str, text: str, frame: FrameType) -> str | None:
        """The text for a value in an f-string; None if the f-string may not show the value."""
        return (
            self.running[-1].repeats.formatted(value, spec, text, frame) if self.running else None
        )

    def stores(self) -> list[object]:
        """The values stored so far outside of the functions, to be compared by identity."""
        places = [stores for _, c in self.parts for stores in (c.stores, c.objects.stores)]
        return [value for stores in places for value in stores()]

    def unknowns(self) -> dict[str, Line | None]:
        """Reads of the run that cannot be compared, with their lines."""
        return {words: line for _, c in self.parts for words, line in c.impurities.noted.items()}

    def plainly(self, call: object) -> object:
        """The result of `call` outside of any trace; MISSING if the run has written something."""
        if any(capture.written() for _, capture in self.parts):
            return MISSING
        with suspended():
            return cast("Function", call)()

    def original(self, value: object) -> object:
        """The user's own object behind a proxy; any other value as it is."""
        for _, capture in self.parts:
            if (value_before := capture.original(value)) is not value:
                return value_before
        return value

    def finish(self) -> tuple[tuple[Callable[..., object], Dependencies], ...]:
        """End a run: returns its dependencies, and writes to the user's variables and arrays."""
        filled = [*self._filled()]
        if self.met:
            self._note_stored(filled)
        left = isinstance(self.trace.refused, ManyQuestionsError)
        if (left or self._denied is not None) and len(self.parts) == 1:
            self.parts[0][1].forget()
        else:
            for part, number, handle in filled:
                self._store(self.parts[part][1], number, handle)
            for capture in dict.fromkeys(self.over):
                capture.carry_over()
        reads = tuple((f, capture.finish()) for f, capture in self.parts)
        if len(reads) == 1 and (effects := reads[0][1].effects) is not None:
            self.trace.written = [stacked(self.trace, nodes) for nodes in effects.outputs]
        return reads

    def release_errors(self, error: BaseException | None) -> None:
        """Give plain values to the exception that ends the run, its causes and its contexts."""
        release, met = self.parts[0][1].objects.release, set[int]()
        while error is not None and id(error) not in met:
            met.add(id(error))
            with suppress(NoValueError):
                error.args = cast("tuple[object, ...]", release(error.args))
                release.attributes(error)
            error = error.__cause__ or error.__context__

    def _note_stored(self, filled: Sequence[tuple[int, int, TracedArray]]) -> None:
        """Note where the functions have stored something; `filled` are captured arrays."""
        self.stored = set().union(*[capture.written_places() for _, capture in self.parts])
        self.stored |= {self.parts[part][1].array(number)[1] for part, number, _ in filled}

    def asks_around(self) -> bool:
        """Whether a condition may guard a memo: it is strong, or `f` stores something."""
        return any(self.met.values()) or any(c.repeats.names().stored for _, c in self.parts)

    def discard(self) -> bool:
        """Drop the writes of a run that found inputs in place of numbers: the run is repeated."""
        if len(self.parts) != 1 or not self.parts[0][1].discard():
            return False
        self.captured, self.over = [], []
        return True

    def restart(self) -> None:
        """Leave a run that has written nothing: it is repeated with loops that choose branches.

        No code of the user may run as it is left.
        """
        trace = self.trace
        if len(self.parts) != 1 or not looks_for_loops(trace) or any(self._filled()):
            return
        capture = self.parts[0][1]
        if inside_try(record.__code__) or any(map(runs_when_left, capture.impurities.codes)):
            return
        if not (capture.written() or capture.repeats.speculates or capture.impurities.finish()):
            trace.refused = ManyQuestionsError()
            raise trace.refused

    def _filled(self) -> Iterator[tuple[int, int, TracedArray]]:
        """The captured arrays into which the run has stored something."""
        return (x for x in self.captured if x[2].id != x[2].made)

    def _store(self, capture: Capture, number: int, handle: TracedArray) -> None:
        """Write the entries stored by the run to a captured array; the tape reads the old ones."""
        array, place = capture.array(number)
        if not isinstance(array, np.ndarray):
            fact = f"`f` writes to the array `{place}`, which lies on a GPU."
            raise self.trace.fail(fact, "Return what it writes.")
        capture.filled(number, handle)
        try:
            entries = settled(handle)
        except NoValueError:
            capture.refused.append((place, handle))
            return
        trace, guards = self.trace, self.trace.guards
        values = [a for node, a in guards.given.items() if node != handle.made]
        others = [a for a in values if isinstance(a, np.ndarray)]
        if any(map(functools.partial(_overlap, array), others)):
            capture.overlapping.append(place)
            return
        before = array.copy()
        guards.given[handle.made] = before
        trace.extra[:] = [before if a is array else a for a in trace.extra]
        array[...] = entries

    # ------------------------------------------------------------- what `f` keeps between calls

    def order(self) -> tuple[tuple[int, int], ...]:
        """For each captured array, the function that read it and its number in that function."""
        return tuple((part, number) for part, number, _ in self.captured)

    def only_here(self, *, strong: bool) -> bool:
        """Note a condition that holds at this point alone; whether to decide it as around it.

        The condition is `strong` if a differentiated value itself equals another value.
        """
        trace = stack.traces[-1]
        trace.only_here, where = True, trace.where()
        self.met[where] = self.met.get(where, False) or strong
        if self._denied is None or where not in self._denied:
            return False
        self.denials += 1
        if self.denials > MOST_DENIALS:
            way = "Compare with a tolerance, or end the loop after a number of trips."
            raise trace.fail("`f` goes on as long as its argument equals no other value.", way)
        return True

    def _misses(self) -> bool:
        """Whether a dict should miss a key that it has, if a differentiated value made the key."""
        return self.only_here(strong=True)

    def ended(self, call: str, results: list[object]) -> None:
        """Note the results of a trace that met conditions that hold at this point alone."""
        self.results.setdefault(call, []).append(results)

    def check(self) -> None:
        """Raise if the run kept a traced value that has no number.

        Raise also if an array has a number and no input, because `f` caught an exception meanwhile.
        """
        if sum(len(capture.arrays) for _, capture in self.parts) != len(self.captured):
            fact = "`f` caught an exception that arose while fdiff read an array for it."
            raise self.trace.fail(fact, "Catch exceptions of signal handlers outside of `f`.")
        for _, capture in self.parts:
            for place, value in capture.refused:
                raise _no_value(self.trace, place, cast("TracedArray", value))
            for place in capture.overlapping:
                fact = (
                    f"`f` writes to the array `{place}`, which shares memory with another array"
                    " that it reads or is given."
                )
                raise self.trace.fail(fact, "Write to a copy: `a = a.copy()`.")


def _overlap(array: np.ndarray, other: np.ndarray) -> bool:
    """Whether arrays may have an entry in common."""
    try:
        return np.shares_memory(array, other, max_work=1000)  # type: ignore[arg-type] - the stubs know 0 and -1
    except np.exceptions.TooHardError:
        return True


def _no_value(trace: Trace, place: str, value: TracedArray) -> TraceError:
    """The error for a traced value that cannot be kept; it shows where the value was made."""
    line = value.home.builder.lines.get(value.node, (None,))[0]
    if stack.examples:
        fact = f"`f` keeps a value in `{place}`; of argument types alone it has none."
        way = "Give example arrays in place of types."
    else:
        fact = f"`f` keeps a value in `{place}` that belongs to one element of a batch."
        way = "Return it as well, and keep what the mapped function returns."
    return TraceError(message(trace.call, fact, way, line))


@contextmanager
def session_of(
    trace: Trace,
    inner: list[tuple[Function, Dependencies]],
    *,
    repeats: bool,
    denied: Container[Line | None] | None = None,
) -> Generator[CaptureSession]:
    """The session of the outermost trace, opened if `trace` is the outermost trace.

    At the end of the session, `inner` gets each function that ran, with its reads.
    """
    root = root_trace()
    if root is trace:
        root.session = CaptureSession(trace, repeats=repeats, denied=denied)
    session = root.session
    if not isinstance(session, CaptureSession):
        raise NoSessionError
    try:
        yield session
    except Exception as error:
        from_outside = is_of_signal_handler(error) or is_sent_by_thread(error)
        if isinstance(trace.refused, ManyQuestionsError) and not from_outside:
            raise trace.refused from error  # code in C has dropped it
        if root is trace and not from_outside and session.discard():
            raise RunAgainError from error
        if root is trace and session.parts:  # a ufunc has no private copy
            session.release_errors(error)
        words = words_of_refusal(error) if isinstance(error, TypeError | ValueError) else None
        if words is None:
            raise
        where = line_in(error.__traceback__)
        raise TraceError(message(trace.call, *words, where)).with_traceback(
            error.__traceback__
        ) from None
    finally:
        if root is trace:
            inner.extend(session.finish())
    if root is trace:
        session.check()


def own_result(tree: object, session: CaptureSession) -> object:
    """The function's result, with the user's own objects in place of proxies."""

    def own(leaf: object) -> object:
        if (plain_copy := getattr(type(leaf), "_fdiff_copy", None)) is not None:
            return map_leaves(own, plain_copy(leaf))
        leaf = plain(leaf)
        if type(leaf) is SymbolicNumber:
            result = leaf.result()
            traced = isinstance(result, TracedArray)
            return ResultNumber(result, type(leaf.value)) if traced else result
        return leaf if traceable(leaf) else session.original(leaf)

    return map_leaves(own, tree)


def call_private(f: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Run a private copy of `f`."""
    return private(f)(*args, **kwargs)

"""The log of the user's calls, which finds and checks periods: docs/decisions/plain-loops.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from ...hooks import Args, Function, Named
from ...user_lines import Line
from ..local_arrays import LocalArray
from ..masked_parts import Innermost
from ..recorder import Loops, NumberClass, Recorder
from ..traced_array import TracedArray
from .branch_starts import Branches
from .branching import PATHS
from .call_gates import entries
from .checked_trips import MISMATCH, Frame
from .code_loops import all_loops
from .implicit_calls import ask, converted
from .inner_frames import chain, switch_frame
from .logged_calls import (
    IncomparableError,
    LoggedCall,
    calls_back,
    note_result,
    references,
    taken_apart,
    written,
)
from .logged_loops import frame_after_logged_trips, log_again
from .loop_template import LoopTemplate, UnrolledError
from .periods import PERIODS, is_nested, loop_of, period_of, periods_before, user_place
from .questions import Question
from .replay import replayed
from .rolling_decision import LEARNING, LoopDetector
from .tails import Tails
from .trip_counts import INNER, trip_of

WINDOW = 4096  # calls that are remembered
MOST = 40  # earlier calls of one key that a call is compared with
TRIES = 24  # of a place whose periods turn out to be none
REFUSALS = 3  # of a place, after which it is left alone


class CallLog(LoopDetector):
    """Logs the calls of the user's code in a trace.

    `depth` counts the calls under way: what they call is not logged. `frame` checks calls, while a
    loop is being run. A loop of fewer calls than `fewest` is unrolled. There are `fresh` references
    to a handle that a call has just made, where they are counted.
    """

    def __init__(self, trace: Recorder, fewest: int, fresh: int) -> None:
        super().__init__(trace, fewest)
        self.fresh = fresh
        self.frame: Frame | None = None
        self.calls: dict[int, LoggedCall] = {}
        self.depth = self.count = 0
        self.seen, self.runs = dict[object, list[int]](), dict[int, int]()
        # By id of a handle: which call made it, which of its outs it is, and itself, kept alive.
        self.made: dict[int, tuple[int, int, TracedArray]] = {}
        self.templates: dict[object, LoopTemplate] = {}
        self.frames: set[Frame] = set()
        self.refused, self.tries = dict[object, int](), dict[object, int]()
        self.failures: dict[object, int] = {}  # of trips, by the key of the template
        self.varying: set[tuple[object, int, int]] = set()
        self.writes: list[TracedArray] = []
        self.before: dict[int, int] = {}  # by id of what is stored into: its node until then
        self.spoiled = self.pending = False  # `pending`: a call is to be logged after the last one
        self.reasons: dict[Line | None, str] = {}  # why loops were not rolled, by where they begin
        self.branches, self.tails = Branches(), Tails()
        self.inner: list[tuple[Line, int, int, int, str]] = []  # loops of traces inside
        self.refusals: dict[Line, str] = {}  # why loops do not choose their branches

    def close(self) -> None:
        """Let go of all handles: the handles of loops lead back here, in cycles."""
        self.frame = self.tails.last = None
        for frame in self.frames:
            frame.slots, frame.inits, frame.history, frame.rows = [], [], [], []
            if frame.values is not None:
                del frame.values.movement
            frame.parent = frame.call = frame.values = None
            del frame.trip
        for held in (self.frames, self.calls, self.made, self.templates, self.seen, self.writes):
            held.clear()

    def starting(self, call: LoggedCall) -> Frame | None:
        """The frame of a loop that begins anew with a call, or of one that has several paths."""
        template = self.templates.get(call.key)
        frame = self.branches.starting(self, call) if template is None else self.framed(template)
        if frame is not None:
            frame.first = trip_of(loop_of(call))
        return frame

    def framed(self, template: LoopTemplate) -> Frame:
        """A new frame of a template."""
        self.frames.add(frame := Frame(self, template))
        return frame

    # -------------------------------------------------------------------------------- calls

    def call(self, fn: Function, args: Args, named: Named) -> object:
        """``fn(*args, **named)``, logged or compared with the call of a template."""
        if self.tails.last is not None and fn in entries:
            args = self.tails.joined(args)
        frame = self.frame
        if frame is None:
            return self.learn(fn, args, named)
        try:
            out = frame.take(fn, args, named)
            if out is not MISMATCH:
                return out
            if fn is entries[0]:
                out = self.tails.compared(self, args)
        except BaseException as error:
            self.break_off(error)
            raise
        if out is MISMATCH:
            out = self.take_elsewhere(lambda frame: frame.take(fn, args, named))
        return self.learn(fn, args, named) if out is MISMATCH else out

    def take_elsewhere(self, take: Callable[[Frame], object], *, asked: bool = False) -> object:
        """The result of a call that is not the next item of a frame: a loop begins or ends."""
        frame: Frame | None = self.frame
        while frame is not None:
            try:
                out = switch_frame(self, take, MISMATCH)
                if out is not MISMATCH:
                    return out
                for now in chain(self.frame)[:1]:
                    if asked:
                        self.branches.ended(self, frame)
                    self.leave(now, logged=True)
                frame = self.frame
                if frame is not None and (out := take(frame)) is not MISMATCH:
                    return out
            except BaseException as error:
                self.break_off(error)
                raise
        return MISMATCH

    def learn(self, fn: Function, args: Args, named: Named) -> object:
        """Make a call, and log it."""
        if fn is entries[0] and self.awake and (tail := self.tails.logged(self, args)) is not None:
            return tail
        call = LoggedCall()
        call.handles, call.values = [], []
        try:
            call.shape = taken_apart(args, named, call.handles, call.values)
        except IncomparableError:
            self.forget()
            if calls_back(args, named):
                self.passing = not isinstance(fn, FunctionType)  # NumPy comes back to the gate
                return fn(*args, **named)
            return self.run(fn, args, named)
        self.tails.note_use(call.handles)
        call.fn = fn
        call.stand_at(user_place())
        call.key = fn, call.shape, call.place
        self.frame = self.starting(call)
        if self.frame is not None:
            try:
                out = self.frame.take(fn, args, named)
            except BaseException as error:
                self.break_off(error)
                raise
            if out is not MISMATCH:
                return out
            self.frame = None
        if not self.awake:
            self.note_false_head(call.place)
            return self.run(fn, args, named)
        guards = self.trace.guards
        before = len(guards.expected), len(guards.pinned)  # values that Python has asked for
        out = self.run(fn, args, named)
        try:
            note_result(call, out, args, named)
        except IncomparableError:
            self.spoiled = True
        call.writes, call.before = written(self.writes, call.handles), self.before
        if (
            self.spoiled
            or before != (len(guards.expected), len(guards.pinned))
            or not self.is_fresh(call)
        ):
            self.forget()
        else:
            self.append(call)
            self.search()
        return out

    def is_fresh(self, call: LoggedCall) -> bool:
        """Whether nobody has the handles yet that are not among the arguments."""
        counts = references(call)
        return all(
            origin >= 0 or (count <= self.fresh and h.home is self.trace)
            for h, origin, count in zip(call.outs, call.origins, counts, strict=True)
        )

    def run(self, fn: Function, args: Args, named: Mapping[str, object]) -> Any:
        """Make a call whose own calls are not logged."""
        self.writes, self.before, self.spoiled = [], {}, False
        self.depth += 1
        try:
            return fn(*args, **named)
        finally:
            self.depth -= 1

    def append(self, call: LoggedCall) -> None:
        """Log a call that was made."""
        call.number = at = self.count
        self.count = at + 1
        self.calls[at] = call
        for k, (h, origin) in enumerate(zip(call.outs, call.origins, strict=True)):
            if origin < 0 and h is not None:  # pyright: ignore[reportUnnecessaryComparison] - of a loop
                self.made[id(h)] = at, k, h
        if (old := self.calls.pop(at - WINDOW, None)) is not None:
            for h in old.held():
                self.made.pop(id(h), None)
        earlier = self.seen.setdefault(call.key, [])
        self.runs = {at - e: self.runs.get(at - e, 0) + 1 for e in earlier}
        earlier.append(at)
        del earlier[:-MOST]
        self.learned += 1

    def search(self) -> None:
        """Start checking where the last call ends a period."""
        if self.learned > self.patience * (PATHS // 2 if self.branches.asked else 1):
            self.pause_logging()
            return
        for p in sorted([p for p, run in self.runs.items() if run >= PERIODS * p]):
            if self._is_due(p, self.runs[p] // p) and self.start(p):
                return

    def register(self, call: LoggedCall, out: int, handle: TracedArray) -> None:
        """Note that a handle is an out of a loop that was logged."""
        at = call.number
        if self.calls.get(at) is call and id(handle) not in self.made:
            call.registered.append(handle)  # type: ignore[attr-defined] - a loop
            self.made[id(handle)] = at, out, handle

    def _is_due(self, p: int, trips: int) -> bool:
        """Whether to look at a period now: after three trips and, if that fails, more seldom.

        The last call must end an iteration of the user's loop.
        """
        if trips >= 7 and trips & (trips - 1) and trips != INNER:
            return False
        calls, last = self.calls, self.count - 1
        first = calls[self.count - p]
        if self.refused.get(first.key, 0) >= REFUSALS or first.key in self.branches.blocked:
            return False
        if self.tries.get(first.key, 0) >= TRIES:
            return False
        if any(calls[last - k].order < first.order for k in range(p)):  # soon found, if at all
            return False
        period = [calls[k] for k in range(self.count - p, self.count)]
        if trips < INNER and 2 * sum([call.size for call in period]) < self.period:
            return False
        branches = any(c.key in self.templates or isinstance(c.fn, Question) for c in period)
        if trips == PERIODS and branches:  # or the next trip has a loop as one item
            return False
        return trips >= INNER or not is_nested(period)

    def start(self, p: int) -> bool:
        """Begin to check calls, if the last ones are a period that can be replayed."""
        first = self.count - p
        calls = [self.calls[first + k] for k in range(p)]
        key, equal = calls[0].key, self.runs[p] // p
        before, *earlier = periods_before(self.calls, p, first, equal)
        try:
            period = period_of(calls, before, first, self.made, self.varying, earlier)
            if period is None:
                self.tries[key] = self.tries.get(key, 0) + 1
                if self.tries[key] == TRIES:
                    self.reasons[loop_of(calls[0])] = "its iterations differ"
                return False
            self.refuse_short(template := LoopTemplate(calls, period))
            replayed(template, self.trace)
            frame = frame_after_logged_trips(self, template, first, equal + 1)
        except UnrolledError as refusal:
            self.refused[key] = self.refused.get(key, 0) + 1
            self.reasons[loop_of(calls[0])] = str(refusal)
            return False
        except BaseException as error:
            self.break_off(error)
            raise
        if template.reentrant:
            self.templates[key] = template
        self.frame = frame
        return True

    def forget(self) -> None:
        """Begin anew: what comes between two calls cannot be compared."""
        self.runs = {}
        self.seen.clear()
        self.calls.clear()
        self.made.clear()
        self.writes, self.before = [], {}
        self.branches.asked = False

    # ------------------------------------------------------------------- what handles are asked

    def leave(self, frame: Frame, *, whole: bool = False, logged: bool = False) -> None:
        """End what is checked, if it is: the handles of the trip that was cut short get nodes.

        Its items before the one that is due, and, if it is run `whole`, that one too. So it is with
        the loops around. What was run may be `logged`, unless a value is asked for.
        """
        active = chain(self.frame)
        if not active or chain(frame)[-1] is not active[-1]:
            return
        try:
            self.frame = None
            for each in active:
                each.release()
            with self.innermost():
                for each in reversed(active):
                    each.parent = None
                    each.finish(each.at + (whole and each is active[0]))
        except BaseException as error:
            self.break_off(error)
            raise
        self._judge(active[-1])
        if logged:
            log_again(self, active)
        else:
            self.forget()

    def _judge(self, frame: Frame) -> None:
        """Leave a place alone where trips fail again and again."""
        key = frame.template.key
        if frame.trips - frame.logged > 1:
            self.failures.pop(key, None)
            return
        # A template that was learned in vain has cost a replay.
        self.failures[key] = self.failures.get(key, 0) + (1 if frame.again else REFUSALS)
        if self.failures[key] >= 2 * REFUSALS:
            self.templates.pop(key, None)
            del self.failures[key]
            self.refused[key] = self.refused.get(key, 0) + 1
            line = loop_of(frame.items[0].call)
            self.reasons[line] = "a value is looked at, or its iterations differ"

    def wake(self) -> None:
        super().wake()
        self.learned, self.patience = 0, self.logged() if self.fewest else LEARNING

    def pause_logging(self) -> None:
        super().pause_logging()
        self.forget()

    def break_off(self, error: BaseException) -> None:
        """Let the trace fail: a signal came while slots and rows were filled, and may be caught."""
        fact = f"{type(error).__name__} came while the iterations of a loop were compared."
        way = "Let it leave the function, or unroll loops: FDIFF_LOOPS=unroll."
        self.trace.refused = self.trace.refused or self.trace.fail(fact, way)

    def loops(self) -> Loops:
        """End the loop under way; the loops that became nodes, and why others did not."""
        if self.frame is not None:  # its conditions are guards, even if no result depends on it
            self.leave(self.frame)
        return all_loops(self.reasons, self.rolled, self.inner, self.refusals)

    def note(self, loops: Loops) -> None:
        """Add the loops of a trace inside."""
        self.inner += [loop for loop in loops if loop not in self.inner]

    def innermost(self) -> Innermost:
        """A context in which the trace is the innermost one, whatever runs inside of it."""
        return Innermost(self.trace)

    def question(self, kind: NumberClass, handle: TracedArray) -> object:
        """Python's question to a handle, which is a call of its own."""
        return ask(self, kind, handle)

    def is_checked(self, handle: TracedArray) -> bool:
        """Whether a handle has no node, since it was made in a trip that is checked."""
        return self.frame is not None and self.frame in chain(getattr(handle.link, "frame", None))

    def is_asked(self) -> bool:
        """Whether a question is the call that is due."""
        due = [item for frame in chain(self.frame) for item in frame.items[frame.at :][:2]]
        return any(isinstance(item.fn, Question) for item in due)

    def stored(self, handle: TracedArray) -> None:
        """Note that a handle that is no view now refers to another node, after a store."""
        if self.frame is not None:
            self.leave(self.frame)
        elif not self.depth:
            self.forget()
        self.writes.append(handle)
        self.before.setdefault(id(handle), -1 if handle.link is not None else handle.node)

    def converted(
        self, array: LocalArray, convert: Callable[[LocalArray], TracedArray]
    ) -> TracedArray:
        """A local array that becomes a traced one; a call of its own."""
        return converted(self, array, convert)

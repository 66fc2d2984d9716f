"""Which loops of Python are rolled: when calls are logged, of which `call_log` makes a node.

To log a call costs as much as to trace it, or more. So calls are logged only where a place in a
loop has come back after equal numbers of calls, and the loop is long enough by its iterator or, if
that does not tell, by what it has run so far: docs/decisions/plain-loops-are-scouted.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, cast

from ...user_lines import Line, is_internal
from ..recorder import NEVER, Recorder
from ..trace_stack import stack
from .call_gates import gate_codes, gated
from .code_loops import NAP, Loop, loops_around
from .logged_calls import LoggedCall
from .loop_template import LoopTemplate, UnrolledError
from .periods import INDEPENDENT, PERIODS, loop_of
from .trip_counts import (
    INNER,
    LONG,
    MOST_FAILURES,
    NESTED,
    SHARE,
    UNROLLED,
    Prospects,
    trips_of,
)

if TYPE_CHECKING:
    from .call_log import CallLog
    from .checked_trips import Frame

FIRST_WATCH = 384  # calls for which a place is watched; doubled after each failure
MOST_DOUBLINGS = 4
LONGEST = 1000  # calls of an iteration; where a loop is known to be long, three are waited for
MOST_UNEQUAL_IN_ROW = 16  # hits at unequal distances, one after the other, that end the watch
MOST_UNEQUAL = 6  # of these in all, for each of which an equal distance more is wanted
MOST_RUNS = 16  # of equal distances that an iteration may consist of
PART = 50  # of a loop of known length, 1 / PART of the calls is logged at least, ...
MOST_LOGGED = 4096  # but no more calls than these
LEARNING = 1200  # calls that are logged after a loop was found, before the log sleeps
BRANCHING = 8  # times that a place comes back after other numbers of calls, where code branches
MOST_FALSE_HEADS = 50  # times that a known head may turn out to begin no loop
_GATES = gated.__code__.co_filename  # the file of all gates


@dataclass(slots=True)
class _Watch:
    """The place that is watched, and what was seen since the watch began.

    The place is hit where its instruction makes a call again; a distance is a number of calls.
    """

    offset: int = -1  # of the instruction
    length: int = 0  # calls for which the place is watched
    calls_left: int = 0  # of these
    left_at_last_hit: int = 0  # `calls_left` then
    chain: list[Loop] = field(default_factory=list)  # instructions, out to the frame of the loop
    levels: list[tuple[Loop, int | None]] = field(default_factory=list)  # loops around, their trips
    hits: int = 0
    distance: int = 0  # between the last two hits
    equal: int = 0  # how often the last distance came, one after the other
    runs_before: list[tuple[int, int]] = field(default_factory=list)  # such pairs before
    needed: int = NEVER  # equal distances that make a loop worth logging
    unequal: int = 0  # distances unlike the one before
    unequal_in_row: int = 0  # those since an equal one
    guards: int = 0  # of the trace when the watch began
    # At first, calls that would be logged are told apart from calls inside of them.
    exact: bool = True
    by_user: int = 0
    share: float = 1.0

    def mean_distance(self) -> int:
        """The calls from one hit to the next, on average."""
        return (self.length - self.left_at_last_hit) // self.hits


class LoopDetector:
    """Watches one place in a loop until calls are worth logging.

    A loop of fewer calls than `fewest` is left alone. `known_heads` are the instructions that begin
    the iterations of loops met before, at which a call is logged in any case.
    """

    frame: Frame | None

    def __init__(self, trace: Recorder, fewest: int) -> None:
        self.fewest = fewest
        self.trace, self.awake, self.passing = trace, False, False
        self.sleep = self.rests = 0
        self.trips: int | None = None  # of the loop that is logged
        self.period = 0  # calls of an iteration of the loop that is logged, if it is known
        self.at_once: set[Loop] = set()  # loops that were logged before their calls were counted
        self.loop: Loop | None = None
        self.nested = False  # whether that stands in another one
        self.loop_failures: dict[Loop, int] = {}
        self.rolled: list[tuple[Line | None, int, int, int]] = []  # see `all_loops`
        self.learned, self.patience = 0, LEARNING
        self.known_heads: dict[int, int] = {}  # how often each began no loop
        self.prospects = Prospects(fewest)
        self.watch = _Watch()

    def is_idle(self) -> bool:
        """Whether a call is to be made as if there were no log."""
        if self.sleep and self.frame is None:
            self.sleep -= 1
            if not self.known_heads:
                return True
        traces = stack.traces  # there is none in another thread
        if not traces or traces[-1] is not self.trace or self.passing:
            self.passing = False
            return True
        if self.frame is not None or self.awake:
            return False
        if self.known_heads and sys._getframe(2).f_lasti in self.known_heads:
            return False
        if self.sleep:
            return True
        self.watch.calls_left -= 1
        frame = sys._getframe(2)
        if frame.f_lasti == self.watch.offset or self.watch.exact or self.watch.calls_left <= 0:
            self._look(frame)
        return True

    def listens(self) -> bool:
        """Whether what Python asks of values is logged, or compared."""
        traces = stack.traces
        return bool(traces) and traces[-1] is self.trace and (self.awake or self.frame is not None)

    def _look(self, frame: FrameType) -> None:
        """Look at a call, and decide whether the next ones are logged, watched or neither."""
        watch = self.watch
        if not watch.chain:
            if is_internal(frame.f_code.co_filename):
                return
            if not self._choose(frame):
                self._sleep(NAP)
            elif not self.fewest or self._is_sure():
                self.wake()
            return
        if watch.exact and is_outermost(frame):
            watch.by_user += 1
        if frame.f_lasti == watch.offset and self._stands(frame):
            if watch.exact:
                watch.share = watch.by_user / (watch.length - watch.calls_left)
            if self._came_back():
                self.wake()
                return
            watch.exact = watch.equal + watch.unequal < 3
        if watch.calls_left <= 0 or watch.unequal_in_row >= MOST_UNEQUAL_IN_ROW:
            self._rest(2 * (watch.length - watch.calls_left))

    def wake(self) -> None:
        """Log calls from the next one on."""
        self.watch = _Watch()
        self.awake, self.sleep = True, 0
        self._listen()

    def _listen(self) -> None:
        self.trace.listener = cast("CallLog", self)  # which every detector is

    def _rest(self, calls: int) -> None:
        self.watch = _Watch()
        self._sleep(calls << min(self.rests, MOST_DOUBLINGS))
        self.rests += 1

    def _sleep(self, calls: int) -> None:
        """Look at none of the next `calls`; they do not even ask if no loop has been met before."""
        if self.known_heads:
            self.sleep = calls
        else:
            self.trace.listener = None
            self.trace.milestone = len(self.trace.builder.nodes) + calls

    def look(self) -> None:
        """Listen to calls if the user's code stands in a loop that may be worth logging."""
        trace = self.trace
        count, traces = len(trace.builder.nodes), stack.traces
        rest = NAP
        if traces and traces[-1] is trace:
            rest = self.prospects.rest(count, self.loop_failures)
        if not rest:
            self._listen()
        trace.milestone = count + rest if rest else NEVER

    def pause_logging(self) -> None:
        """Log no calls for a while, since that was in vain."""
        self.awake = False
        if self.loop is not None and not self.period:
            self.watch = _Watch()
            self._sleep(NAP)  # and watch it
            return
        if self.loop is not None:
            self.loop_failures[self.loop] = self.loop_failures.get(self.loop, 0) + 1
        self._rest(8 * self.logged() if self.fewest else 20 * LEARNING)

    def entered(self, call: LoggedCall, trips: int, calls: int, paths: int) -> None:
        """Note that a loop became a node, and by which call its iterations begin."""
        self.rolled.append((loop_of(call), trips, calls, paths))
        if call.place and self.fewest:
            self.known_heads[call.place[0][1]] = 0
        self.learned, self.patience = 0, LEARNING
        self.period, self.loop, self.trips, self.rests = 0, None, None, 0

    def note_false_head(self, place: tuple[Loop, ...]) -> None:
        """Note that a call at an instruction of `known_heads` began no loop."""
        at = place[0][1] if place else -1
        self.known_heads[at] = self.known_heads.get(at, 0) + 1
        if self.known_heads[at] > MOST_FALSE_HEADS:
            del self.known_heads[at]

    def logged(self) -> int:
        """How many calls to log for the loop that was found: of a long one, a small part at least.

        Its iterations may differ at first.
        """
        if self.loop is not None and not self.period:
            return LEARNING
        part = (self.trips or 0) * self.period // PART
        least = (3 * INNER if self.nested else PERIODS + 3) * self.period + 2 * NAP
        return max(least, min(part, MOST_LOGGED))

    def _choose(self, frame: FrameType) -> bool:
        """Begin to watch the place of a call; whether it stands in a loop of the user's."""
        here: FrameType | None = frame
        watch, users, chain = self.watch, False, []
        while here is not None:
            code = here.f_code
            if not is_internal(code.co_filename):
                users = True
                starts = sorted(loops_around(code, here.f_lasti), reverse=True)
                watch.levels += [((code, s), trips_of(here, s)) for s in starts]
            elif users:
                break
            chain.append((code, here.f_lasti))
            if watch.levels and not watch.chain:
                watch.chain = chain[:]
            here = here.f_back
        if all(self.loop_failures.get(loop, 0) >= MOST_FAILURES for loop, _ in watch.levels):
            self.watch = _Watch()
            return False
        watch.offset = frame.f_lasti
        watch.length = FIRST_WATCH << min(self.rests, MOST_DOUBLINGS)
        if any(trips is not None and trips >= LONG for _, trips in watch.levels):
            watch.length = max(watch.length, 3 * LONGEST)
        watch.calls_left = watch.left_at_last_hit = watch.length
        watch.guards = len(self.trace.guards.expected)
        return True

    def _stands(self, frame: FrameType) -> bool:
        here: FrameType | None = frame
        for code, at in self.watch.chain:
            if here is None or here.f_lasti != at or here.f_code is not code:
                return False
            here = here.f_back
        return True

    def _came_back(self) -> bool:
        """The place has come back: whether that makes a loop worth logging."""
        watch = self.watch
        distance = watch.left_at_last_hit - watch.calls_left
        if (
            distance == 1 < watch.distance
        ):  # an instruction may call twice: `x -= y` asks for `x - y`
            return False
        watch.left_at_last_hit = watch.calls_left
        watch.hits += 1
        if distance == watch.distance:
            watch.equal += 1
            watch.unequal_in_row = 0
            return watch.equal >= watch.needed and self._is_found(0, distance)
        watch.unequal_in_row += 1
        watch.unequal += 1
        if watch.unequal_in_row >= BRANCHING and self._branches():
            return self._is_found(0, watch.mean_distance())
        runs = watch.runs_before
        runs.append((watch.distance, watch.equal))
        del runs[: -2 * MOST_RUNS]
        watch.distance, watch.equal = distance, 1
        watch.needed = self._needed(0, distance)
        n = next((n for n in range(2, len(runs) // 2 + 1) if runs[-n:] == runs[-2 * n : -n]), 0)
        if not n:
            return False
        watch.unequal_in_row = 0
        period = sum([d * k for d, k in runs[-n:]])
        return any(  # of the loops around, which one repeats is told by their lengths alone
            self._needed(level, period, again=True) <= 2 and self._is_found(level, period)
            for level in range(1, len(watch.levels)) or (0,)
        )

    def _needed(self, level: int, distance: int, *, again: bool = False) -> int:
        """How many equal iterations make a loop worth logging."""
        loop, trips = self.watch.levels[level]
        period = self._by_user(distance)
        if period > LONGEST or self.loop_failures.get(loop, 0) >= MOST_FAILURES:
            return NEVER
        if trips is None:
            needed = self.fewest // (SHARE * period)
        elif (trips - UNROLLED) * period >= self.fewest or self._comes_again(level, period):
            needed = 0
        else:  # all loops around it may be one, whose calls come one after the other
            needed = max(trips, self.fewest // period)
        return needed if again else max(needed, 2 + min(self.watch.unequal - 1, MOST_UNEQUAL))

    def _comes_again(self, level: int, period: int) -> bool:
        """Whether a loop is an item of one around it that is long enough."""
        levels = (*self.watch.levels, (None, 0))[level : level + 2]
        trips, around = [trips or 0 for _, trips in levels]
        return trips >= INNER and (around - UNROLLED) * trips * period >= NESTED * self.fewest

    def _branches(self) -> bool:
        """Whether the iterations may differ by what Python sees, in a loop worth logging."""
        loop, trips = self.watch.levels[0]
        period = self._by_user(self.watch.mean_distance())
        if len(self.trace.guards.expected) < self.watch.guards + BRANCHING:
            return False
        if period > LONGEST or self.loop_failures.get(loop, 0) >= MOST_FAILURES:
            return False
        if trips is None:
            return self.watch.hits >= self.fewest // (SHARE * period)
        return (trips - self.watch.hits) * period >= self.fewest

    def refuse_short(self, template: LoopTemplate) -> None:
        """Refuse a loop that other transforms make one computation of, once it is unrolled."""
        enough = INDEPENDENT * self.fewest
        if template.independent and (self.trips or enough) * template.length < enough:
            raise UnrolledError("it is short, and its iterations do not wait for each other")

    def _by_user(self, calls: int) -> int:
        return max(1, round(calls * self.watch.share))

    def _is_sure(self) -> bool:
        """Note the loop around the place, if it is sure to be worth logging."""
        loop = self.watch.levels[0][0]
        if loop in self.at_once or loop != self.prospects.sure:
            return False
        self.at_once.add(loop)
        self.period, self.loop, self.trips = 0, *self.watch.levels[0]
        self.nested = len(self.watch.levels) > 1
        return True

    def _is_found(self, level: int, period: int) -> bool:
        """Note a loop that is worth logging."""
        self.period, (self.loop, self.trips) = self._by_user(period), self.watch.levels[level]
        self.nested = level + 1 < len(self.watch.levels)
        return True


def is_outermost(frame: FrameType) -> bool:
    """Whether the caller of a gate was not called through another one, which would be logged."""
    here: FrameType | None = frame
    while here is not None and is_internal(name := here.f_code.co_filename):
        if name == _GATES or here.f_code in gate_codes:
            return False
        here = here.f_back
    return True

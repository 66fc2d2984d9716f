"""Which loops of Python are rolled: when calls are logged, of which `call_log` makes a node.

To log a call costs as much as to trace it, or more. So calls are logged only where a place in a
loop has come back after equal numbers of calls, and the loop is long enough by its iterator or, if
that does not tell, by what it has run so far: docs/decisions/plain-loops-are-scouted.md.
"""

from __future__ import annotations

import sys
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
    NESTED,
    SHARE,
    UNROLLED,
    VAIN,
    Prospects,
    trips_of,
)

if TYPE_CHECKING:
    from .call_log import CallLog
    from .checked_trips import Frame

PATIENCE = 384  # calls for which the first place is watched; each time twice as many, ...
DOUBLED = 4  # ... so often
LONGEST = 1000  # calls of an iteration; where a loop is known to be long, three are waited for
ODD = 16  # times one after the other that a place may come back after another number of calls
MOST_BROKEN = 6  # times in all, for each of which an equal distance more is wanted
MOST_RUNS = 16  # of equal distances that an iteration may consist of
PART = 50  # a loop whose length is known is logged for this part of it at least, ...
MOST_LOGGED = 4096  # or for so many calls
LEARNING = 1200  # calls that are logged after a loop was found, before the log sleeps
BRANCHING = 8  # times that a place comes back after other numbers of calls, where code branches
IN_VAIN = 50  # times that an instruction may turn out not to begin a loop met before
_GATES = gated.__code__.co_filename  # the file of all gates


class Scout:
    """Watches one place in a loop until calls are worth logging.

    A loop of fewer calls than `fewest` is left alone. `doors` are the instructions that begin the
    iterations of loops met before, at which a call is logged in any case.
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
        self.vain: dict[Loop, int] = {}
        self.rolled: list[tuple[Line | None, int, int, int]] = []  # see `all_loops`
        self.learned, self.patience = 0, LEARNING
        self.doors: dict[int, int] = {}  # how often each was in vain
        self.prospects = Prospects(fewest)
        self._end()

    def _end(self) -> None:
        self.at = -1  # the instruction that is watched
        self.left = 0  # calls to be watched
        self.chain: list[Loop] = []  # where it stands, out to the frame of the loop
        self.levels: list[tuple[Loop, int | None]] = []  # loops around it, and their trips
        self.begun = self.met = 0  # `left` as it was at first, and when the place came back last
        self.last, self.equal = 0, 0  # the last distance between two such calls, how often it was
        self.runs_before: list[tuple[int, int]] = []  # such pairs before
        self.needed = NEVER  # equal distances that make a loop worth logging
        self.back, self.guards = 0, 0  # how often it came back; the guards at first
        self.odd = self.broken = 0  # distances unlike the one before, since an equal one and in all
        # At first, calls that would be logged are told apart from those in calls.
        self.exact, self.by_user, self.share = True, 0, 1.0

    def is_idle(self) -> bool:
        """Whether a call is to be made as if there were no log."""
        if self.sleep and self.frame is None:
            self.sleep -= 1
            if not self.doors:
                return True
        traces = stack.traces  # there is none in another thread
        if not traces or traces[-1] is not self.trace or self.passing:
            self.passing = False
            return True
        if self.frame is not None or self.awake:
            return False
        if self.doors and sys._getframe(2).f_lasti in self.doors:
            return False
        if self.sleep:
            return True
        self.left -= 1
        frame = sys._getframe(2)
        if frame.f_lasti == self.at or self.exact or self.left <= 0:
            self._look(frame)
        return True

    def listens(self) -> bool:
        """Whether what Python asks of values is logged, or compared."""
        traces = stack.traces
        return bool(traces) and traces[-1] is self.trace and (self.awake or self.frame is not None)

    def _look(self, frame: FrameType) -> None:
        """Look at a call, and decide whether the next ones are logged, watched or neither."""
        if not self.chain:
            if is_internal(frame.f_code.co_filename):
                return
            if not self._choose(frame):
                self._sleep(NAP)
            elif not self.fewest or self._is_sure():
                self.wake()
            return
        if self.exact and is_outermost(frame):
            self.by_user += 1
        if frame.f_lasti == self.at and self._stands(frame):
            if self.exact:
                self.share = self.by_user / (self.begun - self.left)
            if self._came_back():
                self.wake()
                return
            self.exact = self.equal + self.broken < 3
        if self.left <= 0 or self.odd >= ODD:
            self._rest(2 * (self.begun - self.left))

    def wake(self) -> None:
        """Log calls from the next one on."""
        self._end()
        self.awake, self.sleep = True, 0
        self._listen()

    def _listen(self) -> None:
        self.trace.listener = cast("CallLog", self)  # which every scout is

    def _rest(self, calls: int) -> None:
        self._end()
        self._sleep(calls << min(self.rests, DOUBLED))
        self.rests += 1

    def _sleep(self, calls: int) -> None:
        """Look at none of the next `calls`; they do not even ask if no loop has been met before."""
        if self.doors:
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
            rest = self.prospects.rest(count, self.vain)
        if not rest:
            self._listen()
        trace.milestone = count + rest if rest else NEVER

    def doze(self) -> None:
        """Log no calls for a while, since that was in vain."""
        self.awake = False
        if self.loop is not None and not self.period:
            self._end()
            self._sleep(NAP)  # and watch it
            return
        if self.loop is not None:
            self.vain[self.loop] = self.vain.get(self.loop, 0) + 1
        self._rest(8 * self.logged() if self.fewest else 20 * LEARNING)

    def entered(self, call: LoggedCall, trips: int, calls: int, paths: int) -> None:
        """Note that a loop became a node, and by which call its iterations begin."""
        self.rolled.append((loop_of(call), trips, calls, paths))
        if call.place and self.fewest:
            self.doors[call.place[0][1]] = 0
        self.learned, self.patience = 0, LEARNING
        self.period, self.loop, self.trips, self.rests = 0, None, None, 0

    def was_no_door(self, place: tuple[Loop, ...]) -> None:
        """Note that a call at an instruction of `doors` began no loop."""
        at = place[0][1] if place else -1
        self.doors[at] = self.doors.get(at, 0) + 1
        if self.doors[at] > IN_VAIN:
            del self.doors[at]

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
        users, chain = False, []
        while here is not None:
            code = here.f_code
            if not is_internal(code.co_filename):
                users = True
                starts = sorted(loops_around(code, here.f_lasti), reverse=True)
                self.levels += [((code, s), trips_of(here, s)) for s in starts]
            elif users:
                break
            chain.append((code, here.f_lasti))
            if self.levels and not self.chain:
                self.chain = chain[:]
            here = here.f_back
        if all(self.vain.get(loop, 0) >= VAIN for loop, _ in self.levels):
            self._end()
            return False
        self.at, self.begun = frame.f_lasti, PATIENCE << min(self.rests, DOUBLED)
        if any(trips is not None and trips >= LONG for _, trips in self.levels):
            self.begun = max(self.begun, 3 * LONGEST)
        self.left = self.met = self.begun
        self.guards = len(self.trace.guards.expected)
        return True

    def _stands(self, frame: FrameType) -> bool:
        here: FrameType | None = frame
        for code, at in self.chain:
            if here is None or here.f_lasti != at or here.f_code is not code:
                return False
            here = here.f_back
        return True

    def _came_back(self) -> bool:
        """The place has come back: whether that makes a loop worth logging."""
        distance = self.met - self.left
        if distance == 1 < self.last:  # one instruction may call twice: `x -= y` asks for `x - y`
            return False
        self.met = self.left
        self.back += 1
        if distance == self.last:
            self.equal += 1
            self.odd = 0
            return self.equal >= self.needed and self._is_found(0, distance)
        self.odd += 1
        self.broken += 1
        if self.odd >= BRANCHING and self._branches():
            return self._is_found(0, (self.begun - self.met) // self.back)
        runs = self.runs_before
        runs.append((self.last, self.equal))
        del runs[: -2 * MOST_RUNS]
        self.last, self.equal = distance, 1
        self.needed = self._needed(0, distance)
        n = next((n for n in range(2, len(runs) // 2 + 1) if runs[-n:] == runs[-2 * n : -n]), 0)
        if not n:
            return False
        self.odd = 0
        period = sum([d * k for d, k in runs[-n:]])
        return any(  # of the loops around, which one repeats is told by their lengths alone
            self._needed(level, period, again=True) <= 2 and self._is_found(level, period)
            for level in range(1, len(self.levels)) or (0,)
        )

    def _needed(self, level: int, distance: int, *, again: bool = False) -> int:
        """How many equal iterations make a loop worth logging."""
        loop, trips = self.levels[level]
        period = self._by_user(distance)
        if period > LONGEST or self.vain.get(loop, 0) >= VAIN:
            return NEVER
        if trips is None:
            needed = self.fewest // (SHARE * period)
        elif (trips - UNROLLED) * period >= self.fewest or self._comes_again(level, period):
            needed = 0
        else:  # all loops around it may be one, whose calls come one after the other
            needed = max(trips, self.fewest // period)
        return needed if again else max(needed, 2 + min(self.broken - 1, MOST_BROKEN))

    def _comes_again(self, level: int, period: int) -> bool:
        """Whether a loop is an item of one around it that is long enough."""
        trips, around = [trips or 0 for _, trips in (*self.levels, (None, 0))[level : level + 2]]
        return trips >= INNER and (around - UNROLLED) * trips * period >= NESTED * self.fewest

    def _branches(self) -> bool:
        """Whether the iterations may differ by what Python sees, in a loop worth logging."""
        loop, trips = self.levels[0]
        period = self._by_user((self.begun - self.met) // self.back)
        if len(self.trace.guards.expected) < self.guards + BRANCHING:
            return False
        if period > LONGEST or self.vain.get(loop, 0) >= VAIN:
            return False
        if trips is None:
            return self.back >= self.fewest // (SHARE * period)
        return (trips - self.back) * period >= self.fewest

    def refuse_short(self, template: LoopTemplate) -> None:
        """Refuse a loop that other transforms make one computation of, once it is unrolled."""
        enough = INDEPENDENT * self.fewest
        if template.independent and (self.trips or enough) * template.length < enough:
            raise UnrolledError("it is short, and its iterations do not wait for each other")

    def _by_user(self, calls: int) -> int:
        return max(1, round(calls * self.share))

    def _is_sure(self) -> bool:
        """Note the loop around the place, if it is sure to be worth logging."""
        loop = self.levels[0][0]
        if loop in self.at_once or loop != self.prospects.sure:
            return False
        self.at_once.add(loop)
        self.period, self.loop, self.trips = 0, *self.levels[0]
        self.nested = len(self.levels) > 1
        return True

    def _is_found(self, level: int, period: int) -> bool:
        """Note a loop that is worth logging."""
        self.period, (self.loop, self.trips) = self._by_user(period), self.levels[level]
        self.nested = level + 1 < len(self.levels)
        return True


def is_outermost(frame: FrameType) -> bool:
    """Whether the caller of a gate was not called through another one, which would be logged."""
    here: FrameType | None = frame
    while here is not None and is_internal(name := here.f_code.co_filename):
        if name == _GATES or here.f_code in gate_codes:
            return False
        here = here.f_back
    return True

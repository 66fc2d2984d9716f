"""How many trips a ``for`` of the user's has, where the head of the loop tells.

And whether loops under way may be long enough to be worth logging, by the nodes that they make. It
decides when calls are logged, and nothing else: docs/decisions/plain-loops-are-scouted.md.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType
from typing import TypeVar

from ...bounded_cache import keep
from ...process.loop_progress import CodePlace, trip_of_head, trips_done_by_head, trips_of_head
from ...source_lines import source_line
from ...syntax_trees import READS_VARIABLES
from ...user_lines import Line, numbered
from .code_loops import FARTHEST, WATCHED, Loop, loops_under_way

SOON = 32  # nodes to the next look where a loop promises something
INNER = 12  # trips from which a loop inside another is rolled by itself
UNROLLED = 7  # iterations at the beginning of a loop that are traced as they are
SHARE = 4  # part of the calls of a loop worth a node that are seen where its length is not known
LONG = 20  # trips of a loop that is known to be long
NESTED = 5  # times as many calls has a loop around loops that are worth logging for it
SURE = 5  # times as many calls has a loop that is logged at once
MOST_FAILURES = 2  # times that a loop may be logged without becoming a node
_MOST_LOOPS = 1 << 10  # whose heads are remembered
_LINES = 8  # of a head
T = TypeVar("T")
_heads: dict[tuple[int, int], tuple[CodeType, ast.For | None]] = {}


def trips_of(frame: FrameType, start: int) -> int | None:
    """The number of trips of the loop of a frame that begins at an instruction, if it is known."""
    return _asked(frame, start, trips_of_head)


def trips_done(frame: FrameType, start: int) -> tuple[int | None, int | None]:
    """The number of trips of such a loop, and how many of them are done; as far as is known."""
    return _asked(frame, start, trips_done_by_head) or (None, None)


def trip_of(loop: Line | None) -> int | None:
    """The number of the trip under way of a loop, by where it begins, if that is known."""
    code, start = loop or ("", 0)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return None if frame is None else _asked(frame, start, trip_of_head)


def _asked(frame: FrameType, start: int, tells: Callable[[ast.For, CodePlace], T]) -> T | None:
    code = frame.f_code
    entry = _heads.get((id(code), start))
    if entry is None or entry[0] is not code:
        entry = keep(_heads, (id(code), start), (code, _head(code, start)), _MOST_LOOPS)
    if entry[1] is None or sys.gettrace() is not None:
        return None
    variables = frame.f_locals
    local = {**variables}
    if sys.version_info < (3, 13) and code.co_flags & 1:
        variables.clear()  # which the frame of a function would keep, and so all arrays in it
    return tells(entry[1], CodePlace("", 0, local, frame.f_globals))


def _head(code: CodeType, start: int) -> ast.For | None:
    """The head of a loop by its source, if that is there."""
    if not READS_VARIABLES.isdisjoint(code.co_names):  # looking at them enters them anew
        return None
    name, number = numbered((code, start))
    text = source_line(name, number).lstrip()
    if not text.startswith("for "):
        return None
    for more in range(1, _LINES):
        at = text.find(":")
        while at >= 0:
            with suppress(SyntaxError):
                loop = ast.parse(text[: at + 1] + " pass").body[0]
                return loop if isinstance(loop, ast.For) else None
            at = text.find(":", at + 1)
        text += source_line(name, number + more)
    return None


class Prospects:
    """Numbers of nodes and trips that the last look saw, by the loop under way.

    The trace looks now and then, so that one in which no loop is rolled pays for nothing else.
    """

    def __init__(self, fewest: int) -> None:
        self.fewest = fewest
        self.seen: dict[Loop, tuple[int, int]] = {}
        self.sure: Loop | None = None

    def rest(self, nodes: int, failures: dict[Loop, int]) -> int:
        """Number of nodes for which no loop is worth logging; 0 if one may be.

        If the innermost loop is `sure` to be, that is noted.
        """
        self.sure = None
        rest = self._rest(nodes, failures)
        if self.sure is None and nodes < WATCHED:
            self.seen = {}
            return WATCHED - nodes
        return rest

    def _rest(self, nodes: int, failures: dict[Loop, int]) -> int:
        before, self.seen = self.seen, {}
        soon, times = False, 1  # how often the loop inside comes again, at least
        loops = loops_under_way(sys._getframe(3))
        for frame, loop in loops:
            if not self.fewest:
                return 0
            if failures.get(loop, 0) >= MOST_FAILURES:
                continue
            trips, done = trips_done(frame, loop[1])
            first = self.seen[loop] = before.get(loop, (nodes, done or 0))
            if done is None or trips is None:
                if (trips or 0) >= LONG or nodes - first[0] >= self.fewest // (2 * SHARE):
                    return 0
                continue
            if done < first[1]:
                self.seen[loop] = nodes, done
            left = trips - max(done, UNROLLED)
            if left >= self.fewest and loop == loops[-1][1]:
                self.sure = loop
            if left * max(1, 0 if done else nodes - first[0]) >= self.fewest:  # at least so many
                return 0
            if not done:
                soon, times = soon or trips >= LONG, trips
                continue
            again = first[1] < done
            period = (nodes - first[0]) / (done - first[1]) if again else nodes / done
            if (trips - done) * period * times < self.fewest:
                break  # nor has a loop inside as many
            enough = left * period >= self.fewest
            nested = trips >= INNER and trips * period * (times - UNROLLED) >= NESTED * self.fewest
            if (enough or nested) and (again or nodes < 2 * FARTHEST):
                if len(loops) == 1 and left * period >= SURE * self.fewest:
                    self.sure = loop
                return 0
            soon, times = soon or enough, 1
        return SOON if soon else min(3 * nodes, FARTHEST)

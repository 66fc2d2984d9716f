"""When a loop is looked at as one of several paths: docs/decisions/plain-loops-that-branch.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .branching import BranchingTemplate, Paths, asks, last_trips
from .checked_trips import Frame
from .logged_calls import LoggedCall
from .loop_template import UnrolledError
from .periods import loop_of
from .replay import replayed

if TYPE_CHECKING:
    from .call_log import CallLog

AT = frozenset((5, 7, 10, 14, 20, 28, 39))  # so many earlier calls of the head in the log
FEW = 20  # trips of a template that ends at a question, and ought to be one of several paths
TWICE = 2
Trips = Sequence[Sequence[LoggedCall]]


class Branches:
    """Facts about loops of a trace whose trips differ by the answers that Python got."""

    def __init__(self) -> None:
        self.ends: dict[object, int] = {}  # by the key of a template: how often it ended early
        self.blocked: set[object] = set()  # keys of calls whose periods are not looked for
        self.failures: dict[object, int] = {}
        self.asked = False  # whether there is a question in the log

    def ended(self, log: CallLog, frame: Frame) -> None:
        """A frame ends at a question: after some, its loop is one of several paths."""
        template = frame.template
        if frame.trips >= FEW or len(template.paths) > 1:
            return
        count = self.ends[template.key] = self.ends.get(template.key, 0) + 1
        if count == TWICE:
            self.blocked |= {item.call.key for item in template.items}
            for key in self.blocked:
                log.templates.pop(key, None)

    def starting(self, log: CallLog, call: LoggedCall) -> Frame | None:
        """The frame of a loop with several paths, whose next trip begins with this call."""
        earlier = log.seen.get(call.key, ())
        if not self.asked or len(earlier) not in AT or self.failures.get(call.key, 0) >= TWICE:
            return None
        trips = last_trips(log.calls, earlier, log.count)
        if len(trips) < min(AT) or not asks(trips) or call.order != trips[0][0].order:
            return None
        try:
            template = BranchingTemplate(Paths(trips))
            replayed(template, log.trace)
        except UnrolledError as refusal:
            return self._refuse(log, call, trips, str(refusal))
        frame = log.framed(template)
        if frame.begin({v: template.observed.now(v) for v in template.carries}):
            return frame
        return self._refuse(log, call, trips, "its iterations hand on other arrays")

    def _refuse(self, log: CallLog, call: LoggedCall, trips: Trips, reason: str) -> None:
        """Note why a loop is not one of several paths; in the end, its periods are looked for."""
        log.reasons[loop_of(call)] = reason
        if len(log.seen[call.key]) == max(AT):
            self.failures[call.key] = self.failures.get(call.key, 0) + 1
            if self.failures[call.key] >= TWICE:
                self.blocked -= {c.key for trip in trips for c in trip}

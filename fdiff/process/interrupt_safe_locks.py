"""Locks that no exception leaves locked, wherever it arrives (see `forking.Turn`)."""

from __future__ import annotations

import sys
import time
from threading import get_ident
from types import FrameType

from .forking import Turn

LONGEST = 5e-3  # seconds between two looks at a lock that another thread has


class TurnLock:
    """A re-entrant lock for ``with`` statements, free as soon as no frame runs that has entered it.

    It needs no care in a forked child: the frames of other threads do not run there.
    """

    def __init__(self) -> None:
        self._turn = Turn(0, [])

    def __enter__(self) -> None:
        self.acquire(sys._getframe(1))

    def __exit__(self, *_: object) -> None:
        self.release(sys._getframe(1))

    def acquire(self, frame: FrameType) -> None:
        """Wait for a turn of this thread, for as long as `frame` runs or until `release`."""
        mine, pause = Turn(get_ident(), [frame]), 1e-5
        while (turn := self._current(mine) or mine) is not mine:
            if turn.thread == mine.thread:
                turn.frames.append(frame)
                return
            time.sleep(pause)
            pause = min(2 * pause, LONGEST)

    def release(self, frame: FrameType) -> None:
        """Leave what `frame` has entered last."""
        turn = self._current()
        if turn is not None and turn.thread == get_ident():
            turn.leave(frame)

    def taken_elsewhere(self) -> bool:
        """Whether another thread is inside."""
        turn = self._current()
        return turn is not None and turn.thread != get_ident()

    def _current(self, mine: Turn | None = None) -> Turn | None:
        """The turn under way; where there is none, `mine` begins."""
        turn = self._turn
        while turn is not mine and turn.is_over():
            after = turn._next.get(0) if mine is None else turn.followed_by(mine)
            if after is None:
                return None
            self._turn = turn = after
        return turn

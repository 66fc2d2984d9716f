"""Long calls of C libraries that Ctrl-C need not wait for.

Python runs signal handlers in the main thread, between its own instructions, so a call of C that
takes seconds delays them. Such a call is made by another thread, while the main thread waits, which
an exception can end. The call goes on then: forks wait for it, and so does whoever comes next.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable
from threading import get_ident
from traceback import clear_frames
from typing import Any, TypeVar

from .forking import no_fork
from .room import has_room_for_thread

T = TypeVar("T")
PATIENCE = 1.0  # seconds until a thread that has not begun is given up


class _Call:
    """A call in a thread of its own, for a thread that is inside of `no_fork`."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self._caller = work, get_ident()
        self._begun: dict[int, bool] = {}  # under 0, once somebody knows whether it is to begin
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_given_up = self._is_over = False
        self._over = threading.Lock()
        self._over.acquire()  # until it is, or for good where an exception ends the wait just then

    def run(self) -> None:
        """What the thread does."""
        try:
            frame = sys._getframe()
            no_fork.enter(frame, beside=self._caller)
            try:
                if self._begun.setdefault(0, True):  # atomic
                    self.result = self._work()
            finally:
                no_fork.leave(frame)
        except BaseException as error:  # noqa: BLE001 - for the thread that waits
            clear_frames(error.__traceback__)  # what they hold ends here
            self.error = error
        finally:
            self._is_over = True
            self._over.release()

    def wait(self) -> bool:
        """Wait until it is over. False where it never begins: there was no memory for its frame."""
        while not self._is_over:
            if self._over.acquire(timeout=PATIENCE):
                self._over.release()
            elif not self._begun.setdefault(0, False):
                return False
        return True

    def is_left(self) -> bool:
        """Whether it goes on; one that has not begun, as its caller was interrupted, never will."""
        return self._begun.setdefault(0, False) and not self._is_over


_latest: list[_Call] = []  # the call under way, which may have been left


def interruptibly(work: Callable[[], T]) -> T:
    """What `work` gives; in the main thread, exceptions of signal handlers end the wait for it.

    The caller is inside of `no_fork`, and calls `wait_for_left` before anything that `work` may
    not meet.
    """
    if get_ident() != threading.main_thread().ident or not has_room_for_thread():
        return work()
    call = _Call(work)
    _latest[:] = [call]
    try:
        start_new_thread(call.run, ())  # an interrupted `Thread.start` breaks the thread
    except RuntimeError:  # no more threads for this process, or it ends
        _latest.clear()
        return work()
    try:
        begun = call.wait()
    except BaseException:
        call.is_given_up = True
        raise
    _latest.clear()
    if not begun:
        return work()
    if call.error is not None:
        raise call.error
    return call.result


class _LeftError(Exception):
    """Ends a call that nobody waits for."""


def end_if_left() -> None:
    """End the call under way if nobody waits for it any more: for between two of its steps."""
    if any(call.is_given_up for call in [*_latest]):
        raise _LeftError


def is_left() -> bool:
    """Whether a call goes on that nobody waits for any more."""
    return any(call.is_left() for call in [*_latest])


def wait_for_left() -> None:
    """Wait for a call that goes on though its caller was interrupted."""
    for call in [*_latest]:
        if call.is_left():
            call.wait()


atexit.register(wait_for_left)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_latest.clear)

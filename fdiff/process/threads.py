"""Threads that an interrupt cannot break while they start.

`threading.Thread.start` takes an exception of a signal handler for one of the system: the thread is
half there then, a KeyError comes out, and a RuntimeError means that there are no more threads.
"""

from __future__ import annotations

import math
from _thread import start_new_thread
from collections.abc import Callable
from threading import Lock, get_ident
from time import monotonic

from ..foreign_errors import Suppressed

PATIENCE = 1.0  # seconds until a thread that has not begun is given up


class Thread:
    """A thread that the end of the process does not wait for."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self.ident = 0  # once it has begun
        self._begun: dict[int, bool] = {}  # under 0, once somebody knows whether it is to begin
        self.is_over = False
        self._over = Lock()
        self._over.acquire()  # until it is, or for good where an exception ends the wait just then

    def start(self) -> bool:
        """Whether there may be one more thread; exceptions of signal handlers come out."""
        try:
            start_new_thread(self._run, ())
        except RuntimeError as error:  # no more threads for this process, or it ends
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # by Python code: a handler's
            return False
        return True

    def _run(self) -> None:
        try:
            if self.begins():
                self.ident = get_ident()
                self._work()
        finally:
            self.end()

    def begins(self, *, here: bool = True) -> bool:
        """Whether the thread begins. The first caller decides: the thread, or one that gave up."""
        return self._begun.setdefault(0, here)  # atomic

    def end(self) -> None:
        """Mark the thread as finished, and wake waiting threads."""
        self.is_over = True
        self._over.release()

    def join(self, seconds: float = math.inf) -> bool:
        """Wait until it is over. False where it never begins: there was no memory for its frame."""
        end = monotonic() + seconds
        while not self.is_over and (left := end - monotonic()) > 0:
            if self._over.acquire(timeout=min(left, PATIENCE)):
                self._over.release()
            elif left > PATIENCE and not self.begins(here=False):
                return False
        return True


class Flag:
    """As `threading.Event`, whose lock stays locked where an exception ends `set`."""

    def __init__(self) -> None:
        self._unset = Lock()
        self._unset.acquire()  # until it is set

    def set(self) -> None:
        """Set it: by one call of C."""
        if self._unset.locked():
            with Suppressed(RuntimeError):  # another thread has
                self._unset.release()

    def is_set(self) -> bool:
        """Whether it is set."""
        return not self._unset.locked()

    def wait(self, seconds: float) -> bool:
        """Wait until it is set; whether it is."""
        if self._unset.acquire(timeout=seconds):
            self.set()
        return self.is_set()

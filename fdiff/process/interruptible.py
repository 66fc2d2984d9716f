"""Long calls of C libraries that Ctrl-C need not wait for.

Python runs signal handlers in the main thread, between its own instructions, so a call of C that
takes seconds delays them. Such a call is made by another thread, while the main thread waits, which
an exception can end. The call goes on then: where it is LLVM's, forks wait for it, and so does the
next call; where it is a kernel's, nobody does, as nobody else has what the kernel writes.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from threading import get_ident
from typing import Any, TypeVar

from ..foreign_errors import Suppressed
from .float_flags import note, taken
from .forking import at_fork, no_fork
from .memory_reserve import has_room_for_thread
from .threads import Thread

T = TypeVar("T")
LONG = 0.1  # seconds from which on exceptions of signal handlers end the wait for a call


class _Call(Thread):
    """A call in a thread of its own, for a thread that may be `inside` of `no_fork`."""

    def __init__(self, work: Callable[[], object], *, inside: bool = True) -> None:
        super().__init__(work)
        self._caller, self._inside = get_ident(), inside
        self.result: object = None
        self.error: BaseException | None = None
        self.is_given_up = False

    def _run(self) -> None:
        try:
            frame = sys._getframe()
            if self._inside:
                no_fork.enter(frame, beside=self._caller)
            try:
                if self.begins():
                    self.ident = get_ident()
                    self.result = self._work()
            finally:
                no_fork.leave(frame)
                del frame  # which is this one, and would keep itself alive
        except BaseException as error:  # noqa: BLE001 - for the thread that waits
            self.error, traceback = error, error.__traceback__
            while traceback is not None:
                with Suppressed(RuntimeError):  # it runs still
                    traceback.tb_frame.clear()  # what it holds ends here
                traceback = traceback.tb_next
        finally:
            self.end()

    def wait_for_result(self) -> Any:
        """Wait for the result; it is computed in this thread where there can be no other."""
        try:
            begun = self.start() and self.join()
        except BaseException:
            self.is_given_up = True
            raise
        if not begun:
            return self._work()
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # its traceback leads to this frame, which holds `self`
        return self.result

    def is_abandoned(self) -> bool:
        """Whether it goes on; one that has not begun, as its caller was interrupted, never will."""
        return self.begins(here=False) and not self.is_over


_latest: list[_Call] = []  # the call under way, which may have been left


def interruptibly(work: Callable[[], T]) -> T:
    """Run `work`; in the main thread, exceptions of signal handlers end the wait for it.

    The caller is inside of `no_fork`, and calls `wait_for_left` before anything that `work` may
    not meet.
    """
    if not _needs_own_thread():
        return work()
    call = _Call(work)
    _latest[:] = [call]
    try:
        return call.wait_for_result()
    finally:
        if not call.is_abandoned():
            _latest.clear()


def interruptibly_without_lock(work: Callable[[], T]) -> T:
    """Like `interruptibly`, but without its lock: for calls that share no memory.

    Floating-point flags are noted in the thread that calls, whose context `work` has.
    """
    if not _needs_own_thread():
        return work()
    context = copy_context()
    result, hint = _Call(lambda: (context.run(work), taken()), inside=False).wait_for_result()
    if hint:
        note()
    return result


def _needs_own_thread() -> bool:
    """Whether signal handlers run in this thread, and there may be another one."""
    return get_ident() == threading.main_thread().ident and has_room_for_thread()


class _LeftError(Exception):
    """Ends a call that nobody waits for."""


def end_if_left() -> None:
    """End the call of this thread if nobody waits for it any more: for between two of its steps."""
    for call in [*_latest]:
        if call.is_given_up and call.ident == get_ident() and not call.is_over:
            raise _LeftError


def has_abandoned_call() -> bool:
    """Whether a call goes on that nobody waits for any more."""
    return any(call.is_abandoned() for call in [*_latest])


def wait_for_left() -> None:
    """Wait for a call that goes on though its caller was interrupted."""
    for call in [*_latest]:
        if call.is_abandoned():
            call.join()


atexit.register(wait_for_left)
at_fork(after_in_child=_latest.clear)

"""Forks wait until no thread imports a module of fdiff or calls LLVM.

A forked child has a copy of every lock, but of all threads only the one that forked. A lock that
another thread held at that moment, one of the import system's or LLVM's, is never released in the
child, which waits for it for ever. So whatever takes such locks is done inside `no_fork`::

    with no_fork:
        from .making import plain
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

# After so many seconds a fork goes ahead, and the child can compile nothing: of waiting for a
# thread that compiles, and for threads that import, while none of them gets anywhere.
PATIENCE = 60.0
STANDSTILL = 10.0
POLL = 0.0005
_IMPORTLIB = "<frozen importlib._bootstrap>"
_NEEDED = frozenset(["fdiff", "llvmlite", "numpy", "scipy"])
_Handler = Callable[[], object]


class NoFork:
    """A context in which any number of threads may be, also more than once, but no fork happens.

    A fork waits until the other threads have left, and nobody enters until it is over. Handlers
    given to `at_fork` run while nobody is inside.
    """

    def __init__(self) -> None:
        # of a re-entrant lock, because the garbage collector may run finalisers at any moment
        self._changed = threading.Condition()
        self._inside: dict[int, int] = {}  # how often each thread has entered
        self._forker = 0  # the thread that forks
        self._torn = False  # the fork goes ahead with threads inside
        self._broken = False  # this process comes from such a fork
        self._handlers: list[tuple[_Handler, _Handler, _Handler]] = []
        self._prepared: list[_Handler] = []  # what undoes the handlers that ran before a fork

    def __enter__(self) -> None:
        if self._broken:
            from ..errors import ForkError, message  # noqa: PLC0415 - this module is to be there first

            raise ForkError(
                message(
                    "os.fork",
                    "another thread of the parent process was importing or compiling when this"
                    " process was forked, for longer than a fork waits, so nothing can be compiled"
                    " here.",
                    "Import and compile before you fork, or start processes by multiprocessing's"
                    " `spawn` or `forkserver`.",
                )
            )
        me = threading.get_ident()
        with self._changed:
            while self._forker not in (0, me) and me not in self._inside:
                self._changed.wait()
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with self._changed:
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]
                self._changed.notify_all()

    def at_fork(
        self, before: _Handler, after_in_parent: _Handler, after_in_child: _Handler
    ) -> None:
        """As `os.register_at_fork`, whose handlers would run while threads are still inside."""
        self._handlers.append((before, after_in_parent, after_in_child))

    def before(self) -> None:
        """Wait until the other threads have left and import nothing, and let nobody enter."""
        while True:
            finished = _finish_imports()  # while others may enter, as what they import may have to
            self._close()
            self._torn = self._torn or not finished
            if self._torn or not _importers():
                return
            self.after_in_parent()  # another thread began an import meanwhile

    def _close(self) -> None:
        """Wait until the other threads have left, let nobody enter, and run the handlers."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: not self._forker)
            self._forker = me
            left = self._changed.wait_for(lambda: not self._inside.keys() - {me}, PATIENCE)
            self._torn = not left
        for before, after, _ in self._handlers:
            before()
            self._prepared.append(after)

    def after_in_parent(self) -> None:
        """Let threads enter again, whatever a handler does."""
        try:
            while self._prepared:
                self._prepared.pop()()
        finally:
            with self._changed:
                self._forker = 0
                self._changed.notify_all()

    def after_in_child(self) -> None:
        """Forget the other threads, and what they waited for."""
        me = threading.get_ident()
        self._changed = threading.Condition()
        self._inside = {me: self._inside[me]} if me in self._inside else {}
        self._forker, self._broken = 0, self._broken or self._torn
        self._prepared.clear()
        for _, _, after in self._handlers:
            after()


def _importers() -> dict[int, tuple[int, int]]:
    """The other threads that import fdiff itself, or what it needs, and where each of them is."""
    found: dict[int, tuple[int, int]] = {}
    for thread, top in sys._current_frames().items():
        frame: FrameType | None = None if thread == threading.get_ident() else top
        while frame is not None:
            code = frame.f_code
            if code.co_name == "_find_and_load" and code.co_filename == _IMPORTLIB:
                name = frame.f_locals.get("name", "")
                if name.partition(".")[0] in _NEEDED:
                    found[thread] = id(top), top.f_lasti
                    break
            frame = frame.f_back
    return found


def _finish_imports() -> bool:
    """Wait for other threads that import such modules; False if none of them gets anywhere.

    They may be at it for users' own code. Other modules are not waited for: to import them may run
    a program.
    """
    seen, since = {}, time.monotonic()
    with _logging_free():
        while found := _importers():
            if found != seen:
                seen, since = found, time.monotonic()
            elif time.monotonic() - since > STANDSTILL:
                return False
            time.sleep(POLL)
    return True


@contextmanager
def _logging_free() -> Generator[None]:
    """Without the lock of `logging`, if this thread has it because it is about to fork.

    The handler by which `logging` takes its lock runs before ours if `logging` was imported later,
    and many a module that is imported asks `logging` for something.
    """
    lock = getattr(sys.modules.get("logging"), "_lock", None)
    if lock is None or not lock._is_owned():  # nothing public says so
        yield
        return
    lock.release()
    try:
        yield
    finally:
        lock.acquire()


no_fork = NoFork()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=no_fork.before,
        after_in_parent=no_fork.after_in_parent,
        after_in_child=no_fork.after_in_child,
    )

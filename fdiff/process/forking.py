"""Forks wait until no thread imports a module of fdiff or calls LLVM.

A forked child has a copy of every lock, but of all threads only the one that forked. A lock that
another thread held at that moment, one of the import system's or LLVM's, is never released in the
child, which waits for it for ever. So whatever takes such locks is done inside `no_fork`::

    with no_fork:
        from .hessians import hessian
"""

from __future__ import annotations

import importlib._bootstrap
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

# After so many seconds a fork goes ahead, and the child can compile nothing: of waiting for a
# thread that compiles, and for threads that import, while none of them gets anywhere.
PATIENCE = 60.0
STANDSTILL = 10.0
POLL = 0.0005
_NEEDED = frozenset(["fdiff", "llvmlite", "numpy", "scipy"])
# The thread of each fork that led to this process: of that process, no other thread is left here.
_forked_by: list[int] = []
_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_Handler = Callable[[], object]


def is_running(frame: FrameType, thread: int) -> bool:
    """Whether this frame is on the stack of a thread, of this one or of another.

    That of a generator or coroutine counts as long as it has not left, as it may run again. The
    stack of another thread is not read: Python 3.11 crashes where it makes the frame of a caller,
    and a collection of garbage that begins there calls Python code, as JAX asks for.
    """
    if frame.f_code.co_flags & _SUSPENDED:
        return True
    if thread == threading.get_ident():
        return _is_on_stack(frame, sys._getframe(1))
    try:
        frame.clear()  # which Python refuses for a frame that runs
    except not_foreign(RuntimeError):
        return True
    return False


def _is_on_stack(frame: FrameType, top: FrameType | None) -> bool:
    """Whether it is `top` or one of its callers."""
    while top is not frame and top is not None:
        top = top.f_back
    return top is not None


class Turn:
    """One thread's time inside, from the first ``with`` statement to the last: their frames.

    An exception may arrive where ``__exit__`` begins: from a signal handler, from a debugger, or
    from another thread. Then ``__exit__`` does nothing, and what it should have undone
    stays, as Python promises nothing there (python/cpython#29988). So what is entered counts only
    as long as the frame of its ``with`` statement runs.
    """

    __slots__ = ("_forks", "_next", "frames", "thread")

    def __init__(self, thread: int, frames: list[FrameType]) -> None:
        self.thread, self.frames = thread, frames
        self._forks = len(_forked_by)
        self._next: dict[int, Turn] = {}

    def is_over(self) -> bool:
        """Whether none of the frames runs any more, as those that a fork has left in the parent."""
        if any(thread != self.thread for thread in _forked_by[self._forks :]):
            return True
        return not any(is_running(frame, self.thread) for frame in [*self.frames])

    def leave(self, frame: FrameType) -> None:
        """Take out the latest entry of this frame, with those above, which have ended with it."""
        entered = [k for k, entered_frame in enumerate(self.frames) if entered_frame is frame]
        if entered:
            del self.frames[entered[-1] :]

    def followed_by(self, turn: Turn) -> Turn:
        """The turn after this one, which is over; `turn` if there is none yet."""
        return self._next.setdefault(0, turn)  # atomic: of several threads, one comes next


def _means_full_memory(words: str) -> bool:
    """Whether an import failed for memory, by the words of the loader and of Python."""
    phrases = ("failed to map segment", "Cannot allocate memory", "failed without raising")
    return any(phrase in words for phrase in phrases) and "not permitted" not in words


class NoFork:
    """A context in which any number of threads may be, also more than once, but no fork happens.

    An import for which there is no memory is a MemoryError there, whatever the loader calls it. A
    fork waits until the other threads have left, and nobody enters until it is over. Handlers
    given to `at_fork` run while nobody is inside. A thread is inside as long as the frame of its
    ``with`` statement runs (see `Turn`).
    """

    def __init__(self) -> None:
        self._inside: dict[int, Turn] = {}  # by thread
        self._forkers: dict[int, int] = {}  # the thread that forks, if there is one, under 0
        self._torn = False  # the fork goes ahead with threads inside
        self._broken = False  # this process comes from such a fork
        self._handlers: list[tuple[_Handler, _Handler, _Handler]] = []
        self._prepared: list[_Handler] = []  # what undoes the handlers that ran before a fork

    def __enter__(self) -> None:
        self.enter(sys._getframe(1))

    def __exit__(
        self, _kind: object = None, error: object = None, _traceback: object = None
    ) -> None:
        self.leave(sys._getframe(1))
        if isinstance(error, ImportError | SystemError) and _means_full_memory(str(error)):
            raise MemoryError(f"fdiff: {error}") from error

    def enter(self, frame: FrameType, *, beside: int = 0) -> None:
        """Be inside, for as long as `frame` runs or until it leaves.

        While the thread `beside` is inside, which waits for this one, forks are not waited for.
        """
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
        turn = self._inside.get(me)
        if turn is not None and not turn.is_over():
            turn.frames.append(frame)
            return
        turn = Turn(me, [frame])
        while True:  # first in, then a look at forks, which look the other way round
            self._inside[me] = turn
            if self._forkers.get(0, me) == me or self._has(beside):
                return
            del self._inside[me]
            time.sleep(POLL)

    def leave(self, frame: FrameType) -> None:
        """Leave what `frame` has entered last."""
        me = threading.get_ident()
        turn = self._inside.get(me)
        if turn is not None:
            turn.leave(frame)
            if not turn.frames:
                self._inside.pop(me, None)

    def at_fork(
        self, before: _Handler, after_in_parent: _Handler, after_in_child: _Handler
    ) -> None:
        """As `os.register_at_fork`, whose handlers would run while threads are still inside."""
        self._handlers.append((before, after_in_parent, after_in_child))

    def before(self) -> None:
        """Wait until the other threads have left and import nothing, and let nobody enter."""
        self._torn = True  # as Python forks all the same where an exception ends this
        while True:
            finished = _finish_imports()  # while others may enter, as what they import may have to
            self._torn = not self._close() or not finished
            if self._torn or not _importers():
                return
            self.after_in_parent()  # another thread began an import meanwhile

    def _close(self) -> bool:
        """Let nobody enter, wait until the other threads have left, and run the handlers.

        Whether they have left.
        """
        me = threading.get_ident()
        while self._forkers.setdefault(0, me) != me:  # atomic
            time.sleep(POLL)
        end = time.monotonic() + PATIENCE
        while (others := self._others()) and time.monotonic() < end:
            time.sleep(POLL)
        self._prepared.clear()
        for before, after, _ in self._handlers:
            before()
            self._prepared.append(after)
        return not others

    def _has(self, thread: int) -> bool:
        """Whether a thread is inside."""
        turn = self._inside.get(thread)
        return turn is not None and not turn.is_over()

    def _others(self) -> bool:
        """Whether other threads are inside."""
        me = threading.get_ident()
        return any(thread != me and self._has(thread) for thread in [*self._inside])

    def after_in_parent(self) -> None:
        """Let threads enter again, whatever a handler does."""
        try:
            self.undo()
        finally:
            self.reopen()

    def undo(self) -> None:
        """Undo the handlers that ran before the fork; a second call undoes the rest."""
        while self._prepared:
            self._prepared[-1]()
            self._prepared.pop()

    def reopen(self) -> None:
        """Let threads enter again, if it is this one that has forked."""
        if self._forkers.get(0) == threading.get_ident():
            self._forkers.clear()

    def after_in_child(self) -> None:
        """Forget the other threads, and what they waited for."""
        me = threading.get_ident()
        _forked_by.append(me)
        self._inside = {me: self._inside[me]} if me in self._inside else {}
        self._forkers = {}
        self._broken = self._broken or self._torn
        self._prepared.clear()
        for _, _, after in self._handlers:
            after()


class _Late:
    """Exceptions that arrived in handlers of forks: the frame that forked raises them after it.

    Python asks whether this is true, by a pending call, where it would run a signal handler.
    """

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self._frames: list[FrameType] = []  # the one that forks

    def keep(self, error: BaseException, frame: FrameType) -> None:
        """Have `frame` raise an exception once it goes on."""
        self.errors.append(error)
        self._frames[:] = [frame]
        is_main = threading.get_ident() == threading.main_thread().ident  # only there Python asks
        if not is_main or not self._is_asked():
            self.errors.remove(error)
            raise error

    def __bool__(self) -> bool:
        if not self.errors:  # a child, or another call has raised it
            self._frames[:] = ()
            return False
        here = sys._getframe(1)
        if here is not self._frames[0] and _is_on_stack(self._frames[0], here):
            self._is_asked()  # a handler runs
            return False
        try:
            if len(self.errors) > 1:
                self._is_asked()
            raise self.errors[0]
        finally:
            del self.errors[:1], here
            if not self.errors:
                self._frames[:] = ()

    def _is_asked(self) -> bool:
        """Have Python ask soon; whether it will."""
        if (python := getattr(ctypes, "pythonapi", None)) is None:  # as PyPy has none
            return False
        ask = ctypes.cast(python.PyObject_IsTrue, ctypes.c_void_p)
        return python.Py_AddPendingCall(ask, ctypes.py_object(self)) == 0


_late = _Late()


def _safely(handler: _Handler) -> Callable[[], None]:
    """A handler of forks, in which Python would print an exception, and drop it.

    It runs again from its beginning then. One that fails twice is at fault itself.
    """

    def handle() -> None:
        try:
            handler()
        except BaseException as error:  # noqa: BLE001 - it is raised after the fork
            handler()
            _late.keep(error, sys._getframe(1))

    return handle


def at_fork(
    *,
    before: _Handler | None = None,
    after_in_parent: _Handler | None = None,
    after_in_child: _Handler | None = None,
) -> None:
    """As `os.register_at_fork`: exceptions that arrive in the handlers are raised after the fork.

    Called a second time, a handler does what an exception kept it from doing.
    """
    kinds = {"before": before, "after_in_parent": after_in_parent, "after_in_child": after_in_child}
    handlers = {kind: uninterrupted_entry(_safely(h)) for kind, h in kinds.items() if h is not None}
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**handlers)


def _importers() -> set[tuple[str, int]]:
    """Which modules other threads import: of fdiff itself, or of what it needs.

    A thread has the lock of each module that it imports.
    """
    locks = importlib._bootstrap._module_locks.copy()  # type: ignore[attr-defined] - it has no stub
    needed = {name: lock for name, lock in locks.items() if name.partition(".")[0] in _NEEDED}
    owners = {(name, getattr(lock(), "owner", None)) for name, lock in needed.items()}
    return {(name, k) for name, k in owners if k is not None and k != threading.get_ident()}


def _finish_imports() -> bool:
    """Wait for other threads that import such modules; False if none of them gets to another.

    They may be at it for users' own code. Other modules are not waited for: to import them may run
    a program.
    """
    seen, since = set[tuple[str, int]](), time.monotonic()
    if not _importers():
        return True
    with _logging_free():
        while importers := _importers():
            if importers != seen:
                seen, since = importers, time.monotonic()
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
    try:
        lock.release()
        yield
    finally:
        if not lock._is_owned():
            lock.acquire()


no_fork = NoFork()


def imported(name: str, package: str | None = None) -> ModuleType:
    """Import a module while no fork is under way."""
    with no_fork:
        return importlib.import_module(name, package)


def late(module: str, package: str | None, name: str) -> Callable[..., Any]:
    """The function `name` of a module that is imported when the function is first called."""
    loaded: list[ModuleType] = []

    def call(*args: object, **options: object) -> object:
        if not loaded:
            loaded.append(imported(f".{module}", package))
        return getattr(loaded[0], name)(*args, **options)

    return call


_own = [*map(_safely, (no_fork.before, no_fork.undo, no_fork.reopen, no_fork.after_in_child))]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_late.errors.clear)  # they are the parent's
    os.register_at_fork(before=_own[0], after_in_parent=_own[1], after_in_child=_own[3])
    os.register_at_fork(after_in_parent=_own[2])

import ctypes  # noqa: E402 - forks wait for these imports, too

from ..foreign_errors import not_foreign, uninterrupted_entry  # noqa: E402 - see above

for _handle in _own:
    uninterrupted_entry(_handle)

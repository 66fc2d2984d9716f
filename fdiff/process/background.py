"""The background thread, which compiles kernels while the interpreter answers.

A process has one if it may use two cores or more; with one core it has one for what a call would
have to wait for too long. ``FDIFF_BACKGROUND=0`` switches it off. Workers of `multiprocessing` (and
of libraries built on it, such as joblib) have none, because the other workers use the other cores;
forked children have none either. The thread exists while there is something to do. It stops before
a fork and at the end of the process. Both wait for the step under way, which is at most one of
LLVM's.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable
from threading import get_ident

from ..named_tuples import NamedTuple
from .environment import cores, is_worker, switch
from .forking import at_fork
from .interrupt_safe_locks import TurnLock
from .threads import Thread

VARIABLE = "FDIFF_BACKGROUND"
PATIENCE = 60.0  # seconds that a fork waits for the thread to stop
SLICE = 2e-3  # seconds of work, after which other threads have the interpreter for as long


class InterruptedJob(BaseException):
    """Raised in the background thread to stop it; the job starts over if the process goes on."""


class Job(NamedTuple):
    """Something to do, and how urgent it is at the moment."""

    run: Callable[[], object]
    urgency: Callable[[], float]


class Task:
    """The background work of one object, one job at a time.

    `error` is what it has raised.
    """

    __slots__ = ("_job", "error")

    def __init__(self) -> None:
        self.error: Exception | None = None
        self._job: Job | None = None

    @property
    def under_way(self) -> bool:
        """Whether something waits or runs there."""
        return self._job is not None and worker.has(self._job)

    def start(self, make: Callable[[], object], urgency: Callable[[], float]) -> None:
        """Have `make` called in the background, unless something is under way."""

        def run() -> None:
            try:
                make()
            except Exception as error:  # noqa: BLE001 - for whoever waits for it
                self.error = error

        if self._job is None or not self.under_way:
            self._job = Job(run, urgency)
        worker.submit(self._job)


class Worker:
    """The thread, and what it has to do: the most urgent job first."""

    def __init__(self) -> None:
        self._lock = TurnLock()
        self._jobs: list[Job] = []
        self._thread: Thread | None = None
        self._paused = 0  # how many have asked it to pause
        self._now: Job | None = None  # what is being done
        self._since = 0.0
        self.off = False

    def submit(self, job: Job) -> None:
        """Add a job unless it waits or runs already, and start the thread if there is none."""
        with self._lock:
            if not self.has(job):
                self._jobs.append(job)
            self._start()

    def has(self, job: Job) -> bool:
        """Whether a job waits or runs."""
        return job is self._now or any(job is queued for queued in [*self._jobs])

    def wait(self) -> None:
        """Wait until there is nothing left to do."""
        while True:
            with self._lock:  # so that it has been started
                thread = self._thread
            if thread is None:
                return
            if not thread.join():  # it never begins
                self._thread = None

    def checkpoint(self) -> None:
        """To be called between two steps of a job: pauses it if asked to, lets other threads run.

        In any other thread it does nothing.
        """
        if not self.runs_here():
            return
        if self._paused:
            raise InterruptedJob
        if time.thread_time() - self._since > SLICE:
            time.sleep(SLICE)
            self._since = time.thread_time()

    def runs_here(self) -> bool:
        """Whether the thread that asks is this one."""
        thread = self._thread
        return thread is not None and thread.ident == get_ident()

    def _start(self) -> None:
        """Start the thread if there is none, and something to do."""
        if self._thread is not None or self._paused or not self._jobs:
            return
        self._thread = Thread(self._work)
        try:
            started = self._thread.start()
        except BaseException:  # an interrupt: if there is such a thread, it ends at once
            self._thread = None
            raise
        if not started:
            self._thread = None
            self._jobs.clear()
            self.off = True

    def _work(self) -> None:
        try:
            while (job := self._next()) is not None:
                self._since = time.thread_time()
                try:
                    job.run()
                except InterruptedJob:
                    with self._lock:
                        self._jobs.append(job)
        finally:  # a job that raises anything else ends the thread, and Python shows what it was
            with self._lock:
                if self.runs_here():
                    self._thread = self._now = None

    def _next(self) -> Job | None:
        """The most urgent job; None if the thread is to end."""
        with self._lock:
            if not self.runs_here():
                return None
            if self._paused or not self._jobs:
                self._thread = self._now = None
                return None
            job = self._now = max(self._jobs, key=lambda job: job.urgency())
            self._jobs.remove(job)
            return job

    def pause(self) -> None:
        """Stop the thread and wait for it."""
        with self._lock:
            thread, self._paused = self._thread, self._paused + 1
        if thread is not None and thread.ident != get_ident():
            thread.join(PATIENCE)

    def resume(self) -> None:
        """Go on after a pause."""
        with self._lock:
            self._paused = 0
            self._start()

    def forget(self) -> None:
        """In a forked child there is no such thread."""
        self.__init__()  # locks and all anew
        self.off = True


worker = Worker()
checkpoint = worker.checkpoint
atexit.register(worker.pause)
at_fork(before=worker.pause, after_in_parent=worker.resume, after_in_child=worker.forget)


def possible() -> bool:
    """Whether there may be a background thread, even if it takes time from the only core."""
    return not worker.off and switch(VARIABLE) is not False and not is_worker()


def allowed() -> bool:
    """Whether kernels may be made in the background because nobody waits for them there."""
    return possible() and cores() > 1

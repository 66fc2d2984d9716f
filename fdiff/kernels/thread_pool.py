"""The thread pool that runs parallel loops: how many threads, when they start and stop.

``FDIFF_NUM_THREADS`` says how many there are, the calling thread included; else
``OMP_NUM_THREADS``, both as they were when fdiff was imported; else there is one for each core
that this process may use. They start when the first parallel kernel is made. Workers of
`multiprocessing` have no threads, as their siblings use the other cores, and neither have forked
children: threads stop before a fork and restart in the parent. A call that finds the pool busy runs
on its own thread, and gives the same numbers.

What the threads do is machine code: `runtime.worker_code`.

The calling thread and its workers run a parallel kernel as a team (fork and join; OpenMP
Application Programming Interface, version 5.0, 2018, section 1.3, "Execution Model").
"""

from __future__ import annotations

import atexit
import ctypes
from collections import defaultdict
from collections.abc import Generator
from contextlib import AbstractContextManager
from functools import lru_cache, partial

import fdiff.intact_numpy as np

from ..errors import InputError, failure
from ..foreign_errors import contextmanager
from ..named_tuples import NamedTuple
from ..process import environment
from ..process.environment import bound_cores, is_worker
from ..process.forking import no_fork
from ..process.threads import Thread
from .runtime.worker_code import CONSTANTS, POOL, WORKER

MOST = 64  # threads
_LINE = CONSTANTS["LINE"]
_SLOTS = POOL["WORKERS"] + _LINE * MOST


class WorkerCode(NamedTuple):
    """Addresses of the functions of `runtime.worker_code`."""

    next_part: int
    barrier: int
    take: int
    serve: int
    run: int


class Pool:
    """The memory that the threads share, which stays at one address, and the threads."""

    def __init__(self) -> None:
        memory = np.zeros(_SLOTS + _LINE, np.int64)
        first = -(memory.ctypes.data // 8) % _LINE
        self._words = memory[first : first + _SLOTS]
        self._words[POOL["SIZE"]] = 1
        self._words[POOL["ENTERED"]] = CONSTANTS["CLOSED"]
        self.address = int(self._words.ctypes.data)
        self._code: WorkerCode | None = None
        self._threads: dict[int, Thread] = {}  # by the number of their words
        self._restart = False  # whether threads were stopped for a fork
        self.off = False

    def ready(self, code: WorkerCode) -> None:
        """Start as many threads as `threads` says, unless they run already.

        A thread that compiles calls it, one thread at a time, while no process is forked.
        """
        if self._code is None:
            self._initialise(code)
        self._start(threads())

    def _worker(self, k: int) -> np.ndarray:
        """The words of one thread."""
        begin = POOL["WORKERS"] + _LINE * k
        return self._words[begin : begin + _LINE]

    def _initialise(self, code: WorkerCode) -> None:
        """Write the addresses that machine code reads."""
        self._words[POOL["ACQUIRE"]] = _address("PyThread_acquire_lock")
        self._words[POOL["RELEASE"]] = _address("PyThread_release_lock")
        for k in range(MOST):
            self._worker(k)[:] = 0
            self._worker(k)[WORKER["NUMBER"]] = k
            self._worker(k)[WORKER["HOME"]] = self.address
            self._worker(k)[WORKER["NEXT_PART"]] = code.next_part
            self._worker(k)[WORKER["BARRIER"]] = code.barrier
        self._code = code

    def _start(self, count: int) -> None:
        """Start threads up to `count`, the calling one included; fewer if the system refuses."""
        assert self._code is not None
        serve = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(self._code.serve)
        self._words[POOL["STOP"]] = 0
        for k in range(count):
            for lock in (WORKER["SLEEP_LOCK"], WORKER["START_LOCK"]):
                self._worker(k)[lock] = self._worker(k)[lock] or _acquired_lock()
        for k in range(1, count):
            thread = self._threads.get(k)
            if thread is not None and not thread.is_over and thread.begins(here=False):
                continue  # it runs; one that an interrupt has left before it began never will
            self._threads[k] = Thread(partial(serve, self.address, k))
            if not self._threads[k].start():
                del self._threads[k]
                break
        self._words[POOL["SIZE"]] = 1 + len(self._threads)

    def stop(self) -> bool:
        """Stop the threads; whether there were any. A pool in use by a call is left as it is."""
        if self._code is None or not self._threads:
            return False
        taken = self._taking()
        try:
            if not taken[0]:
                return False
            self._words[POOL["SIZE"]] = 1
            self._words[POOL["STOP"]] = 1
            for k in self._threads:
                lock = int(self._worker(k)[WORKER["START_LOCK"]])
                ctypes.pythonapi.PyThread_release_lock(ctypes.c_void_p(lock))
            for thread in self._threads.values():
                thread.join()
            self._threads.clear()
            return True
        finally:
            if taken[0]:
                self._words[POOL["BUSY"]] = 0

    def _taking(self) -> dict[int, int]:
        """What takes the pool when item 0 is first read, and is 0 then where the pool is busy.

        No signal handler runs in between, so that an exception finds the pool noted as taken.
        """
        if self._code is None:  # no kernel of several threads was made yet; one may be, meanwhile
            return {0: 1}
        take = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(self._code.take)
        return defaultdict(partial(take, self.address))

    @contextmanager
    def kept(self) -> Generator[None]:
        """Meanwhile each kernel runs on the thread that calls it, as where the pool is busy."""
        taken = self._taking()
        try:
            if taken[0]:
                self._words[POOL["BUSY"]] = 1
            yield
        finally:
            if taken[0]:
                self._words[POOL["BUSY"]] = 0

    def before_fork(self) -> None:
        """Stop the threads, so that the child gets no memory that they are changing."""
        self._restart = self._restart or bool(self._threads)
        self.stop()

    def after_fork(self) -> None:
        """Restart the threads in the parent."""
        if self._restart:
            self._start(threads())
            self._restart = False

    def forget(self) -> None:
        """A forked child has no threads, whatever the threads of the parent were doing."""
        self._threads.clear()
        self._words[POOL["SIZE"]] = 1
        self._words[POOL["BUSY"]] = 0
        self._restart, self.off = False, True


pool = Pool()
atexit.register(pool.stop)
no_fork.at_fork(pool.before_fork, pool.after_fork, pool.forget)


def one_thread() -> AbstractContextManager[None]:
    """A context in which each kernel runs on the thread that calls it."""
    return pool.kept()


def threads() -> int:
    """How many threads there may be, the calling one included."""
    return 1 if pool.off or is_worker() else _thread_count(*environment.threads_asked)


@lru_cache(maxsize=8)
def _thread_count(own: str | None, shared: str | None) -> int:
    """The number in the environment, or the number of the processor's cores."""
    if own:
        if not own.isdecimal() or not int(own):
            fact = f"{own!r} is not a number of threads."
            way = "Set it to 1 or more, or leave it unset."
            raise failure(InputError, environment.THREADS[0], fact, way)
        return min(int(own), MOST)
    first = (shared or "").split(",")[0].strip()  # OpenMP takes one number for each level
    if first.isdecimal() and int(first):
        return min(int(first), MOST)
    return min(bound_cores(), MOST)


def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def _acquired_lock() -> int:
    """A lock of Python's C interface, which the next thread that acquires it has to wait for."""
    make, take = ctypes.pythonapi.PyThread_allocate_lock, ctypes.pythonapi.PyThread_acquire_lock
    make.restype, take.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]
    lock = int(make() or 0)
    if not lock:
        raise MemoryError
    take(lock, 1)
    return lock

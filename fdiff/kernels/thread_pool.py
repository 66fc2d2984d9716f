"""The threads that share the loops of large kernels: how many, when they start, when they go.

``FDIFF_NUM_THREADS`` says how many, with the thread that calls; else ``OMP_NUM_THREADS``; else
there is one for each core that this process may use. They start when the first large kernel is
made. Workers of `multiprocessing` have none, as their siblings use the other cores, and nor have
forked children: the threads go before a fork and come back in the parent. A call that finds them
at work for another thread runs alone, and gives the same numbers.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..errors import InputError, message, user_line
from ..process.forking import no_fork
from .runtime.worker_code import MEMBER, NUMBERS, POOL

VARIABLE = "FDIFF_NUM_THREADS"
MOST = 64  # threads of one crew
_WORDS = POOL["MEMBERS"] + NUMBERS["LINE"] * MOST


class Code(NamedTuple):
    """Addresses of the functions in `runtime.crew`."""

    part: int
    wait: int
    grab: int
    serve: int
    run: int


class Pool:
    """The memory that the threads share, which stays where it is, and the threads."""

    def __init__(self) -> None:
        room = np.zeros(_WORDS + NUMBERS["LINE"], np.int64)
        first = -(room.ctypes.data // 8) % NUMBERS["LINE"]
        self._words = room[first : first + _WORDS]
        self._words[POOL["SIZE"]] = 1
        self._words[POOL["INSIDE"]] = NUMBERS["CLOSED"]
        self.address = int(self._words.ctypes.data)
        self._code: Code | None = None
        self._threads: list[threading.Thread] = []
        self._lock = threading.RLock()  # for whoever starts and stops
        self._resting = False  # the threads are to come back after a fork
        self.off = False

    def ready(self, code: Code) -> None:
        """Have the threads that `threads` tells of."""
        with self._lock:
            if self._code is None:
                self._furnish(code)
            self._start(threads())

    def _member(self, k: int) -> np.ndarray:
        """The words of one thread."""
        begin = POOL["MEMBERS"] + NUMBERS["LINE"] * k
        return self._words[begin : begin + NUMBERS["LINE"]]

    def _furnish(self, code: Code) -> None:
        """What machine code has to find."""
        self._words[POOL["ACQUIRE"]] = _address("PyThread_acquire_lock")
        self._words[POOL["RELEASE"]] = _address("PyThread_release_lock")
        for k in range(MOST):
            self._member(k)[:] = 0
            self._member(k)[MEMBER["ME"]] = k
            self._member(k)[MEMBER["HOME"]] = self.address
            self._member(k)[MEMBER["PART"]] = code.part
            self._member(k)[MEMBER["WAIT"]] = code.wait
        self._code = code

    def _start(self, count: int) -> None:
        """Have so many, with the one that calls; fewer if the system refuses."""
        assert self._code is not None
        there = 1 + len(self._threads)
        serve = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(self._code.serve)
        self._words[POOL["STOP"]] = 0
        for k in range(there if there > 1 else 0, count):
            for lock in (MEMBER["BED"], MEMBER["DOOR"]):
                self._member(k)[lock] = self._member(k)[lock] or _closed_lock()
        for k in range(there, count):
            made = threading.Thread(
                target=serve, args=(self.address, k), name=f"fdiff-{k}", daemon=True
            )
            try:
                made.start()
            except RuntimeError:  # no more threads for this process
                break
            self._threads.append(made)
        self._words[POOL["SIZE"]] = 1 + len(self._threads)

    def stop(self) -> bool:
        """Send the threads home; whether there were any, and none of them was at work."""
        if self._code is None or not self._threads:
            return False
        if not ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(self._code.grab)(self.address):
            return False
        self._words[POOL["SIZE"]] = 1
        self._words[POOL["STOP"]] = 1
        for k in range(1, 1 + len(self._threads)):
            ctypes.pythonapi.PyThread_release_lock(ctypes.c_void_p(int(self._member(k)[_DOOR])))
        for one in self._threads:
            one.join()
        self._threads.clear()
        self._words[POOL["TAKEN"]] = 0
        return True

    def before_fork(self) -> None:
        """Nothing of the threads is copied."""
        self._lock.acquire()
        self._resting = self.stop()

    def after_fork(self) -> None:
        """In the parent they come back."""
        if self._resting:
            self._start(threads())
        self._lock.release()

    def forget(self) -> None:
        """In a child there are none, whatever they were doing."""
        self._lock = threading.RLock()
        self._threads.clear()
        self._words[POOL["SIZE"]] = 1
        self._words[POOL["TAKEN"]] = 0
        self.off = True


_DOOR = MEMBER["DOOR"]
pool = Pool()
atexit.register(pool.stop)
no_fork.at_fork(pool.before_fork, pool.after_fork, pool.forget)


def threads() -> int:
    """How many threads there may be, with the one that calls."""
    processes = sys.modules.get("multiprocessing.process")
    worker = processes is not None and processes.parent_process() is not None
    return 1 if pool.off or worker else _wanted(*map(os.environ.get, (VARIABLE, _SHARED)))


_SHARED = "OMP_NUM_THREADS"


@lru_cache(maxsize=8)
def _wanted(own: str | None, shared: str | None) -> int:
    """What the environment says, or the processor."""
    if own:
        if not own.isdecimal() or not int(own):
            fact = f"{own!r} is no number of threads."
            way = "Set it to 1 or more, or leave it unset."
            raise InputError(message(VARIABLE, fact, way, user_line()))
        return min(int(own), MOST)
    first = (shared or "").split(",")[0].strip()  # OpenMP takes one number for each level
    if first.isdecimal() and int(first):
        return min(int(first), MOST)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(cores or 1, MOST)


def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def _closed_lock() -> int:
    """A lock of Python's C interface that whoever comes next has to wait for."""
    make, take = ctypes.pythonapi.PyThread_allocate_lock, ctypes.pythonapi.PyThread_acquire_lock
    make.restype, take.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]
    lock = int(make() or 0)
    if not lock:
        raise MemoryError
    take(lock, 1)
    return lock

"""The code of worker threads that run a kernel together, as texts for our compiler.

Each worker runs the whole kernel. Its parallel loops are split into parts, which are numbered
through the kernel. Workers take parts from a shared counter (self-scheduling: Tang and Yew,
Processor self-scheduling for multiple-nested parallel loops, ICPP 1986), and after each loop they
wait at a barrier until all parts up to there are done (a centralized barrier: Mellor-Crummey and
Scott, ACM TOCS 9(1), 1991, section 3.1; it counts finished parts, not threads, so that a worker
that the system starts late holds up nobody). A worker that comes after the last part finds the job
closed and does not enter.

A waiting worker spins for a while, then blocks (idea of Karlin et al., Empirical studies of
competitive spinning, SOSP 1991) on a lock of Python's C interface, which works without the GIL.
Before it blocks it sets its flag ``ASLEEP`` and tests the condition once more; the thread that
clears the flag has to release the lock. Idle workers wait for a job at such locks, too.

Macros (`macros`) are the words of a pool and of its workers (`POOL`, `WORKER`), and constants
(`CONSTANTS`); each function says what it does in the comment before it.
"""

from __future__ import annotations

from .macros import expand
from .status_errors import ABANDONED

_LINE = 16  # words: two cache lines, which processors fetch together
POOL = {
    "SIZE": 0,  # how many threads there are, with the one that calls
    "ACQUIRE": 1,  # addresses of PyThread_acquire_lock and PyThread_release_lock
    "RELEASE": 2,
    "STOP": 3,  # whether the workers are to end
    "DATA": 4,  # the job: a kernel's tables and code, and how many workers may run it
    "STRIDES": 5,
    "INTS": 6,
    "FLOATS": 7,
    "CODE": 8,
    "COUNT": 9,
    "BUSY": _LINE,  # whether a call is using the pool
    "ENTERED": 2 * _LINE,  # how many workers run the job; from CLOSED on, no more may enter
    "NEXT": 3 * _LINE,  # the next part
    "DONE": 4 * _LINE,  # how many parts are done
    "STATUS": 4 * _LINE + 1,  # the status with which a worker left the kernel early
    "FLAGS": 4 * _LINE + 2,  # whether a worker saw a floating-point flag
    "WORKERS": 5 * _LINE,  # from here on, the words of each worker
}
WORKER = {
    "NUMBER": 0,  # 0 is the thread that calls
    "HOME": 1,  # address of the pool
    "NEXT_PART": 2,  # addresses of two functions below, for kernels
    "BARRIER": 3,
    "SLEEP_LOCK": 4,  # where it waits at a barrier, and for a job
    "START_LOCK": 5,
    "ASLEEP": 6,
    "STARTED": 7,  # whether its start lock has been released for a job
}
CONSTANTS = {
    "LINE": _LINE,
    "SPINS": 2000,  # reads of a word before a waiting worker blocks: about 30 us
    "CLOSED": 1 << 32,
    "ABANDONED": ABANDONED,
}
# Entries before the integer table of a parallel kernel: its pool, its code, the most threads.
HEADER = {"JOB_POOL": -1, "JOB_CODE": -2, "JOB_THREADS": -3}

# Wake a worker that sleeps at a barrier; wake all.
_WAKE = """
def wake(pool: "i8*", worker: "i8*") -> "i8":
    if rt.atomic_load(worker, ASLEEP) != 0 and rt.atomic_exchange(worker, ASLEEP, 0) != 0:
        rt.call1(pool[RELEASE], worker[SLEEP_LOCK])
    return 0

def wake_all(pool: "i8*") -> "i8":
    for k in range(pool[COUNT]):
        wake(pool, rt.offset(pool, WORKERS + LINE * k))
    return 0
"""
# The next part before `end`; `done` is how many parts this worker has just finished.
_NEXT_PART = """
def next_part(worker: "i8*", end: "i8", done: "i8") -> "i8":
    pool = rt.int64(worker[HOME])
    if done > 0 and rt.atomic_add(pool, DONE, done) + done == end:
        wake_all(pool)
    while 1 == 1:
        number = rt.atomic_load(pool, NEXT)
        if number >= end or rt.compare_exchange(pool, NEXT, number, number + 1):
            return number
    return end
"""
# Wait until all parts before `end` are done, or a worker has left early; its status.
_BARRIER = """
def barrier(worker: "i8*", end: "i8") -> "i8":
    pool = rt.int64(worker[HOME])
    spins = 0
    while rt.atomic_load(pool, DONE) < end and rt.atomic_load(pool, STATUS) == 0:
        spins = spins + 1
        rt.pause()
        if spins > SPINS:
            rt.atomic_exchange(worker, ASLEEP, 1)
            wait = rt.atomic_load(pool, DONE) < end and rt.atomic_load(pool, STATUS) == 0
            if wait or rt.atomic_exchange(worker, ASLEEP, 0) == 0:
                rt.call2(pool[ACQUIRE], worker[SLEEP_LOCK], 1)
    return rt.atomic_load(pool, STATUS)
"""
# Run the kernel of the job as one of its workers.
_WORK = """
def work(worker: "i8*") -> "i8":
    pool = rt.int64(worker[HOME])
    status = rt.call5(pool[CODE], pool[DATA], pool[STRIDES], pool[INTS], pool[FLOATS], worker)
    if rt.flags() != 0:
        rt.clear_flags()
        rt.atomic_exchange(pool, FLAGS, 1)
    if status != 0 and status != ABANDONED:
        rt.atomic_exchange(pool, STATUS, status)
        wake_all(pool)
    return status
"""
# The life of a worker thread: wait for a job, enter it unless it is closed, leave it.
_SERVE = """
def serve(home: "i8", number: "i8") -> "i8":
    pool = rt.int64(home)
    worker = rt.offset(pool, WORKERS + LINE * number)
    while 1 == 1:
        rt.call2(pool[ACQUIRE], worker[START_LOCK], 1)
        rt.atomic_exchange(worker, STARTED, 0)
        if rt.atomic_load(pool, STOP) != 0:
            return 0
        inside = rt.atomic_load(pool, ENTERED)
        entered = False
        while inside < CLOSED and not entered:
            entered = rt.compare_exchange(pool, ENTERED, inside, inside + 1)
            inside = rt.atomic_load(pool, ENTERED)
        if entered:
            if number < pool[COUNT]:  # it may have been started for an earlier job
                work(worker)
            if rt.atomic_add(pool, ENTERED, -1) == CLOSED + 1:
                wake(pool, rt.offset(pool, WORKERS))
    return 0
"""
# Run a kernel on this thread alone, with a pool of its own on the stack.
_ALONE = """
def alone(
    data: "i8*", strides: "i8*", ints: "i8*", floats: "f8*", home: "i8*"
) -> "i8":
    own = rt.int64(rt.stack(STATUS + 1))
    own[COUNT] = 0
    own[NEXT] = 0
    own[DONE] = 0
    own[STATUS] = 0
    worker = rt.int64(rt.stack(LINE))
    first = rt.offset(home, WORKERS)
    worker[NUMBER] = 0
    worker[HOME] = rt.address(own)
    worker[NEXT_PART] = first[NEXT_PART]
    worker[BARRIER] = first[BARRIER]
    return rt.call5(ints[JOB_CODE], data, strides, ints, floats, worker)
"""
# Run a kernel: give the job to the workers, work too, close the job, wait for those inside.
_RUN = """
def run(data: "i8*", strides: "i8*", ints: "i8*", floats: "f8*") -> "i8":
    pool = rt.int64(ints[JOB_POOL])
    if rt.atomic_load(pool, SIZE) == 1 or rt.atomic_exchange(pool, BUSY, 1) != 0:
        return alone(data, strides, ints, floats, pool)
    count = min(rt.atomic_load(pool, SIZE), ints[JOB_THREADS])
    pool[DATA] = rt.address(data)
    pool[STRIDES] = rt.address(strides)
    pool[INTS] = rt.address(ints)
    pool[FLOATS] = rt.address(floats)
    pool[CODE] = ints[JOB_CODE]
    pool[COUNT] = count
    rt.atomic_exchange(pool, NEXT, 0)
    rt.atomic_exchange(pool, DONE, 0)
    rt.atomic_exchange(pool, STATUS, 0)
    rt.atomic_exchange(pool, FLAGS, 0)
    rt.atomic_exchange(pool, ENTERED, 0)
    for k in range(1, count):
        other = rt.offset(pool, WORKERS + LINE * k)
        if rt.atomic_exchange(other, STARTED, 1) == 0:
            rt.call1(pool[RELEASE], other[START_LOCK])
    worker = rt.offset(pool, WORKERS)
    work(worker)
    rt.atomic_add(pool, ENTERED, CLOSED)
    spins = 0
    while rt.atomic_load(pool, ENTERED) != CLOSED:
        spins = spins + 1
        rt.pause()
        if spins > SPINS:
            rt.atomic_exchange(worker, ASLEEP, 1)
            wait = rt.atomic_load(pool, ENTERED) != CLOSED
            if wait or rt.atomic_exchange(worker, ASLEEP, 0) == 0:
                rt.call2(pool[ACQUIRE], worker[SLEEP_LOCK], 1)
    status = rt.atomic_load(pool, STATUS)
    if rt.atomic_load(pool, FLAGS) != 0:
        rt.raise_flag()
    rt.atomic_exchange(pool, BUSY, 0)
    return status
"""
# Take the pool, so that its workers can be stopped; whether it was free.
_TAKE = """
def take(home: "i8") -> "i8":
    return 1 if rt.atomic_exchange(rt.int64(home), BUSY, 1) == 0 else 0
"""
_MACROS = {**POOL, **WORKER, **CONSTANTS, **HEADER}

# What is compiled, by the name of its last function.
TEXTS = {
    "next_part": expand(_WAKE + _NEXT_PART, _MACROS),
    "barrier": expand(_BARRIER, _MACROS),
    "take": expand(_TAKE, _MACROS),
    "serve": expand(_WAKE + _WORK + _SERVE, _MACROS),
    "run": expand(_WAKE + _WORK + _ALONE + _RUN, _MACROS),
}

"""What several threads at one kernel do, as texts for `kernels.llvm`.

Each thread of a *crew* runs the kernel from its beginning to its end. Parts of its loops are
numbered one after another through the whole kernel; a thread takes the next as long as it belongs
to the loop where the thread is, then waits until all parts up to there are done. Nobody waits for a
thread as such: one that the system lets run late finds nothing left to do, and one that comes when
all is done finds the door closed.

Who has waited for a while sleeps, on a lock of Python's C interface, which needs no GIL: it says
so first (`ASLEEP`) and looks again, and whoever takes that word back has to wake it. The workers'
doors are such locks, too.

Words in capitals are places in the memory of a pool and of its members (`POOL`, `MEMBER`), or
numbers (`NUMBERS`).
"""

from __future__ import annotations

from .macros import expand

_LINE = 16  # words: two cache lines, which processors fetch together
POOL = {
    "SIZE": 0,  # how many threads there are, with the one that calls
    "ACQUIRE": 1,  # addresses: of Python's locks
    "RELEASE": 2,
    "STOP": 3,  # whether the workers are to go home
    "DATA": 4,  # what the job is: a kernel's tables, where its code is, how many may come
    "STRIDES": 5,
    "INTS": 6,
    "FLOATS": 7,
    "CODE": 8,
    "COUNT": 9,
    "TAKEN": _LINE,  # whether a thread is at work with them
    "INSIDE": 2 * _LINE,  # how many workers are; from CLOSED on, nobody may enter
    "NEXT": 3 * _LINE,  # the next part
    "DONE": 4 * _LINE,  # how many parts are done
    "STATUS": 4 * _LINE + 1,  # why a thread has left its kernel
    "FLAGS": 4 * _LINE + 2,  # whether a floating-point flag was set in a thread
    "MEMBERS": 5 * _LINE,  # from here on, the words of each thread
}
MEMBER = {
    "ME": 0,
    "HOME": 1,  # addresses: of the pool, and of functions below
    "PART": 2,
    "WAIT": 3,
    "BED": 4,  # locks
    "DOOR": 5,
    "ASLEEP": 6,
    "CALLED": 7,  # whether the door has been opened, and nobody has come out
}
NUMBERS = {
    "LINE": _LINE,
    "TURNS": 2000,  # looks at a word before who waits goes to sleep: some 30 us
    "CLOSED": 1 << 32,
    "GONE": -3,  # status of a kernel that was left because another thread had left it
}
# before the integer table of a kernel that a crew runs: its pool, its code, the most threads
HEADER = {"ITS_POOL": -1, "ITS_CODE": -2, "ITS_MOST": -3}

_WAKE = """
def wake(pool: "i8*", member: "i8*") -> "i8":
    if rt.fresh(member, ASLEEP) != 0 and rt.swap(member, ASLEEP, 0) != 0:
        rt.call(pool[RELEASE], member[BED])
    return 0

def wake_all(pool: "i8*") -> "i8":
    for k in range(pool[COUNT]):
        wake(pool, rt.at(pool, MEMBERS + LINE * k))
    return 0
"""
# The next part before `end`; `done` tells how many this thread has just done.
_PART = """
def part(crew: "i8*", end: "i8", done: "i8") -> "i8":
    pool = rt.words(crew[HOME])
    if done > 0 and rt.take(pool, DONE, done) + done == end:
        wake_all(pool)
    while 1 == 1:
        number = rt.fresh(pool, NEXT)
        if number >= end or rt.change(pool, NEXT, number, number + 1):
            return number
    return end
"""
_WAIT = """
def wait(crew: "i8*", end: "i8") -> "i8":
    pool = rt.words(crew[HOME])
    turns = 0
    while rt.fresh(pool, DONE) < end and rt.fresh(pool, STATUS) == 0:
        turns = turns + 1
        rt.pause()
        if turns > TURNS:
            rt.swap(crew, ASLEEP, 1)
            stay = rt.fresh(pool, DONE) < end and rt.fresh(pool, STATUS) == 0
            if stay or rt.swap(crew, ASLEEP, 0) == 0:
                rt.call(pool[ACQUIRE], crew[BED], 1)
    return rt.fresh(pool, STATUS)
"""
_WORK = """
def work(crew: "i8*") -> "i8":
    pool = rt.words(crew[HOME])
    status = rt.call(pool[CODE], pool[DATA], pool[STRIDES], pool[INTS], pool[FLOATS], crew)
    if rt.flags() != 0:
        rt.clear_flags()
        rt.swap(pool, FLAGS, 1)
    if status != 0 and status != GONE:
        rt.swap(pool, STATUS, status)
        wake_all(pool)
    return status
"""
_SERVE = """
def serve(home: "i8", me: "i8") -> "i8":
    pool = rt.words(home)
    crew = rt.at(pool, MEMBERS + LINE * me)
    while 1 == 1:
        rt.call(pool[ACQUIRE], crew[DOOR], 1)
        rt.swap(crew, CALLED, 0)
        if rt.fresh(pool, STOP) != 0:
            return 0
        inside = rt.fresh(pool, INSIDE)
        entered = False
        while inside < CLOSED and not entered:
            entered = rt.change(pool, INSIDE, inside, inside + 1)
            inside = rt.fresh(pool, INSIDE)
        if entered:
            if me < pool[COUNT]:  # it may have been called for an earlier job
                work(crew)
            if rt.take(pool, INSIDE, -1) == CLOSED + 1:
                wake(pool, rt.at(pool, MEMBERS))
    return 0
"""
_ALONE = """
def alone(
    data: "i8*", strides: "i8*", ints: "i8*", floats: "f8*", home: "i8*"
) -> "i8":
    own = rt.words(rt.room(STATUS + 1))
    own[COUNT] = 0
    own[NEXT] = 0
    own[DONE] = 0
    own[STATUS] = 0
    crew = rt.words(rt.room(LINE))
    first = rt.at(home, MEMBERS)
    crew[ME] = 0
    crew[HOME] = rt.where(own)
    crew[PART] = first[PART]
    crew[WAIT] = first[WAIT]
    return rt.call(ints[ITS_CODE], data, strides, ints, floats, crew)
"""
_RUN = """
def run(data: "i8*", strides: "i8*", ints: "i8*", floats: "f8*") -> "i8":
    pool = rt.words(ints[ITS_POOL])
    if rt.fresh(pool, SIZE) == 1 or rt.swap(pool, TAKEN, 1) != 0:
        return alone(data, strides, ints, floats, pool)
    count = min(rt.fresh(pool, SIZE), ints[ITS_MOST])
    pool[DATA] = rt.where(data)
    pool[STRIDES] = rt.where(strides)
    pool[INTS] = rt.where(ints)
    pool[FLOATS] = rt.where(floats)
    pool[CODE] = ints[ITS_CODE]
    pool[COUNT] = count
    rt.swap(pool, NEXT, 0)
    rt.swap(pool, DONE, 0)
    rt.swap(pool, STATUS, 0)
    rt.swap(pool, FLAGS, 0)
    rt.swap(pool, INSIDE, 0)
    for k in range(1, count):
        member = rt.at(pool, MEMBERS + LINE * k)
        if rt.swap(member, CALLED, 1) == 0:
            rt.call(pool[RELEASE], member[DOOR])
    crew = rt.at(pool, MEMBERS)
    work(crew)
    rt.take(pool, INSIDE, CLOSED)
    turns = 0
    while rt.fresh(pool, INSIDE) != CLOSED:
        turns = turns + 1
        rt.pause()
        if turns > TURNS:
            rt.swap(crew, ASLEEP, 1)
            if rt.fresh(pool, INSIDE) != CLOSED or rt.swap(crew, ASLEEP, 0) == 0:
                rt.call(pool[ACQUIRE], crew[BED], 1)
    status = rt.fresh(pool, STATUS)
    if rt.fresh(pool, FLAGS) != 0:
        rt.raise_flag()
    rt.swap(pool, TAKEN, 0)
    return status
"""
# Whether the pool was free, and is taken now.
_GRAB = """
def grab(home: "i8") -> "i8":
    return 1 if rt.swap(rt.words(home), TAKEN, 1) == 0 else 0
"""
_PLACES = {**POOL, **MEMBER, **NUMBERS, **HEADER}

PART, WAIT, GRAB = (expand(t, _PLACES) for t in (_WAKE + _PART, _WAIT, _GRAB))
SERVE, RUN = (expand(_WAKE + _WORK + text, _PLACES) for text in (_SERVE, _ALONE + _RUN))

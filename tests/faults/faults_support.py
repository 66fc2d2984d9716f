"""What tests of faults share: the long part (`make test-faults`), memory, the collector."""

import ctypes
import gc
import os
import sys
import threading
import time
from contextlib import contextmanager

from fdiff.trace import looping

# `make test-faults` runs a part of the long tests, another one each day; FDIFF_FAULT_SHARD=2/4 says
# which of how many. FDIFF_FAULT_TESTS=all runs all. Each round of days has places of its own.
PARTS = 4
DAYS = int(time.time() / 86400)
ROUND = DAYS // PARTS
TESTS = os.environ.get("FDIFF_FAULT_TESTS", "")
LONG = TESTS in ("1", "all")


def _shard():
    if TESTS != "1":
        return 0, 1
    today = f"{DAYS % PARTS}/{PARTS}"
    number, count = map(int, os.environ.get("FDIFF_FAULT_SHARD", today).split("/"))
    return number % count, count


SHARD, SHARDS = _shard()


def in_shard(rows):
    """Those of some rows that are run now: one at least."""
    rows = [*rows]
    return rows[SHARD % len(rows) :: SHARDS]


def of_shard(count):
    """How many of so many are run now."""
    return -(-count // SHARDS)


class _MallInfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


def memory_of():
    """Bytes taken from C's allocator; where it does not tell, the largest size so far."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        import resource

        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return size if sys.platform == "darwin" else size * 1024
    ask.restype = _MallInfo
    told = ask()
    return told.uordblks + told.hblkhd


@contextmanager
def collections_call_nothing():
    """Without the callbacks of other packages, in which Python loses exceptions."""
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    try:
        yield
    finally:
        gc.callbacks[:] = callbacks


def run_in_threads(work, count):
    """Run ``work(k)`` in so many threads at once, which take turns after each instruction."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


@contextmanager
def loops_of_any_length():
    """Plain loops are traced once however short they are, from their first call on."""
    before = os.environ.get("FDIFF_LOOPS", ""), looping.SLEEP
    os.environ["FDIFF_LOOPS"], looping.SLEEP = "check", 0
    try:
        yield
    finally:
        os.environ["FDIFF_LOOPS"], looping.SLEEP = before

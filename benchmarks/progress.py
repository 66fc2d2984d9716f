"""What saying how far it is costs work that is quick: `python -m benchmarks.progress`.

Nanoseconds of a stage by itself, of one inside of another, and of the thread's start where progress
may be shown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import nullcontext

from fdiff.process.progress import AGAIN, Stage, _watcher
from fdiff.process.progress_display import VARIABLE

TIMES, REPEATS = 5_000, 60


def alone() -> None:
    with Stage("tracing", "grad(f)"):
        pass


def nanoseconds(call: Callable[[], None], times: int = TIMES) -> float:
    """The least of many repeats, without the loop."""
    best = float("inf")
    for _ in range(REPEATS):
        begin = time.process_time_ns()
        for _ in range(times):
            call()
        best = min(best, (time.process_time_ns() - begin) / times)
    return best


def nothing() -> None:
    """What the rest is compared with."""
    with nullcontext():
        pass


def started() -> None:
    alone()
    _watcher.stop()


def main() -> None:
    """Print the figures."""
    print(f"contextlib.nullcontext             {nanoseconds(nothing):7.0f} ns")
    os.environ[VARIABLE] = "0"
    print(f"a stage, FDIFF_PROGRESS=0          {nanoseconds(alone):7.0f} ns")
    time.sleep(AGAIN)
    del os.environ[VARIABLE]
    print(f"a stage, as the terminal says      {nanoseconds(alone):7.0f} ns")
    _watcher.stop()
    os.environ[VARIABLE] = "0"
    with Stage("preparing", "grad(f)"):
        print(f"a stage inside of a stage          {nanoseconds(alone):7.0f} ns")
    time.sleep(AGAIN)
    os.environ[VARIABLE] = "1"
    alone()
    print(f"a stage, the thread runs           {nanoseconds(alone):7.0f} ns")
    print(f"a stage, the thread starts and ends{nanoseconds(started, 20):7.0f} ns")


if __name__ == "__main__":
    main()

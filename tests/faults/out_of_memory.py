"""Processes whose memory runs out at one place each.

    python out_of_memory.py WHAT MARGIN...

`WHAT` is what is compiled then: `cold`, before LLVM is loaded; `kernel`; `routine`, which calls
matrix routines; `long`; `loop`, on the tape; `loaded`, whose machine code is on disk. For each
`MARGIN` a process is forked whose address space is limited to as many KB more than there are at
that moment. Prints a line for each: its margin, its status, a word for each call under the limit,
and one for the call afterwards, without it.
"""

import os
import resource
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np

import fdiff

X = np.linspace(0.1, 0.9, 6)


def plain(x):
    for k in range(3):
        x = np.sin(x) * np.exp(-x * x) + 0.1 * k
    return np.sum(x * x)


def with_routine(x):
    return np.sum(np.linalg.solve(np.eye(6) + np.outer(x, x), x))


def long(x):
    for k in range(60):
        x = np.sin(x) * np.exp(-x * x) + 0.1 * k
    return np.sum(x * x)


def loop(x):
    return fdiff.scan(lambda c, row: (np.sin(c) + row * row, None), 0.0, x)[0]


def before(x):
    return np.sum(np.cos(x) * x)


FUNCTIONS = {
    "cold": plain,
    "kernel": plain,
    "routine": with_routine,
    "long": long,
    "loop": loop,
    "loaded": plain,
}


def size():
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def outcome(call, wanted):
    try:
        found = call(X)
    except MemoryError:
        return "MemoryError"
    except BaseException as error:  # noqa: BLE001 - any other is a failure
        return f"{type(error).__name__}:{error}"[:200].replace("\n", " ").replace(" ", "_")
    return "right" if np.allclose(found, wanted, rtol=1e-10) else "wrong"


def limited(prepared, wanted, margin):
    """What three calls give with so much memory, and one with all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size() + margin * 1024, hard))
    words = [outcome(prepared, wanted) for _ in range(3)]
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    words.append(outcome(prepared, wanted))
    if "compiled" not in repr(prepared):
        words.append("not_compiled_afterwards")
    return words


def forked(prepared, wanted, margin):
    """Show what `limited` gives in a process of its own."""
    print(margin, end=" ", flush=True)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            print(*limited(prepared, wanted, margin), end=" ", flush=True)
            status = 0
        except BaseException:  # noqa: BLE001 - for whoever reads the output
            traceback.print_exc()
        finally:
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def main(what, margins):
    warnings.simplefilter("ignore")
    function = FUNCTIONS[what]
    wanted = fdiff.grad(function)(X)
    if what != "cold":
        compiled = fdiff.jit(fdiff.grad(before))
        for _ in range(4):
            compiled(X)
    if what == "loaded":
        fdiff.jit(fdiff.grad(function))(X)
        fdiff.cache_clear()
    prepared = fdiff.jit(fdiff.grad(function))
    for margin in margins:
        forked(prepared, wanted, margin)


if __name__ == "__main__":
    main(sys.argv[1], [*map(int, sys.argv[2:])])

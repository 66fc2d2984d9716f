"""Threads with little stack: what the entry stub takes of it has a bound, whatever it is given."""

import subprocess
import sys

import pytest
from faults_support import LONG

# Strided columns of a table, which the stub packs, given as a list, as arguments, or as a dict.
CALLS = """
import sys, threading, time
import numpy as np
import fdiff

count, size, kind, stack = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
table = np.arange(float(count * size)).reshape(size, count) / count / size
columns = [table[:, k] for k in range(count)]
given = {"list": ([*columns],), "arguments": (*columns,), "dict": (dict(enumerate(columns)),),
         "numbers": ([float(k) for k in range(count)],)}[kind]

def total(*arguments):
    one = arguments[0]
    parts = one.values() if isinstance(one, dict) else one if isinstance(one, list) else arguments
    return sum([np.sum(part) for part in parts])

call = fdiff.jit(total)
call.compile(*given)
for _ in range(2000):
    call(*given)
    if type(call.implementation).__name__ == "builtin_function_or_method":
        break
    time.sleep(1e-2)
else:
    raise SystemExit("no fast path")

found = []
threading.stack_size(stack << 10)
thread = threading.Thread(target=lambda: found.append(call(*given)))
thread.start()
thread.join()
want = float(np.sum(range(count) if kind == "numbers" else table))
assert abs(found[0] - want) < 1e-9 * max(1, abs(want)), (found, want)
"""
SHORT = [(120, 512, "list", 128)]
MORE = [
    (count, size, kind, stack)
    for kind in ("list", "arguments", "dict", "numbers")
    for count, size, stack in ((300, 400, 256), (500, 64, 256), (40, 512, 96), (1200, 30, 1024))
]


@pytest.mark.slow
@pytest.mark.parametrize("case", [*SHORT, *(MORE if LONG else ())], ids=str)
def test_strided_inputs_do_not_fill_the_stack(case):
    command = [sys.executable, "-c", CALLS, *map(str, case)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)

"""Two threads that call derivatives of functions with plain loops, and trace them anew at times."""

import os
import random
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from faults_support import LONG, SHARD, of_shard
from random_loops import point

import fdiff
from fdiff.trace import looping

CALLS = of_shard(50_000) if LONG else 300  # of each thread
AGAIN = CALLS // 6  # calls after which a thread forgets all traces


def in_place(x):
    u = np.zeros(60)
    u[0] = x[0]
    for k in range(1, 59):
        u[k] = 0.5 * u[k - 1] + x[1] * u[k + 1] * np.sin(0.1 * k)
    return np.sum(u * u) + x[2]


def boundary_first(x):
    u = np.sin(np.outer(x, x))
    for _ in range(40):
        u[0] = 0.5 * x
        u = 0.99 * u + 0.01 * np.sin(u)
    return np.sum(u * u)


def branches(x):
    s, kept = x[0], []
    for k in range(40):
        s = 0.9 * np.sin(s) + 0.1 * x[1] if s * x[2] > 0.1234 else s + 0.05 * k * x[2]
        kept.append(s)
    return np.sum(np.stack(kept) ** 2)


@pytest.mark.slow
def test_two_threads(monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "check")
    monkeypatch.setattr(looping, "SLEEP", 0)
    operators = [fdiff.value_and_grad(f) for f in (in_place, boundary_first, branches)]
    points = [point(random.Random(seed)) for seed in range(3)]
    expected = [[operator(x) for x in points] for operator in operators]
    wrong: list[object] = []

    def run(seed):
        choices = random.Random(seed)
        try:
            for count in range(1, CALLS + 1):
                k, p = choices.randrange(len(operators)), choices.randrange(len(points))
                for result, right in zip(operators[k](points[p]), expected[k][p], strict=True):
                    np.testing.assert_allclose(result, right, rtol=1e-12, atol=1e-13)
                if count % AGAIN == 0:
                    fdiff.cache_clear()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            wrong.append(error)

    with warnings.catch_warnings(action="ignore", category=fdiff.errors.RetraceWarning):
        seeds = 2 * SHARD + 1, 2 * SHARD + 2
        threads = [threading.Thread(target=run, args=(seed,)) for seed in seeds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[0]


FIRST_TRACES = """
import sys, threading
import numpy as np
import fdiff
from fdiff.primitive import REPLACEMENTS
from fdiff.trace.looping import call_gates

def f(x):
    for _ in range(3):
        x = np.sin(x) * x
    return np.sum(x)

def gates():
    return [s for _, s in REPLACEMENTS.values() if getattr(s, "__code__", None) is code]

code = call_gates.gated(f).__code__
interrupted = [False]

def line(frame, event, _):  # an exception ends the first installation half-way
    if len(gates()) > 20 and not interrupted[0]:
        interrupted[0] = True
        sys.settrace(None)
        raise KeyboardInterrupt
    return line

sys.settrace(lambda frame, *_: line if frame.f_code is call_gates._install.__code__ else None)
try:
    fdiff.grad(f)(np.ones(3))
except KeyboardInterrupt:
    pass
sys.settrace(None)
assert interrupted[0] and not call_gates._installed
sys.setswitchinterval(1e-6)
results = []
run = lambda: results.append(fdiff.grad(f)(np.ones(3)))
threads = [threading.Thread(target=run) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(results) == 8 and all((r == results[0]).all() for r in results)
functions = [s for _, s in REPLACEMENTS.values() if s.__class__.__name__ == "function"]
assert len(gates()) == len(functions)
assert not [s for s in gates() if getattr(s.__wrapped__, "__code__", None) is code]
"""


def test_first_traces_of_threads_find_every_entry_gated_once():
    """Also where an exception has ended an earlier one: a second hook was an AttributeError."""
    environment = {**os.environ, "PYTHONPATH": str(Path(fdiff.__file__).parent.parent)}
    subprocess.run([sys.executable, "-c", FIRST_TRACES], check=True, env=environment, timeout=300)

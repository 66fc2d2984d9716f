"""Two threads that call derivatives of functions with plain loops, and trace them anew at times."""

import random
import threading
import warnings

import numpy as np
from faults_support import LONG, SHARD, of_shard
from random_loops import point

import fdiff
from fdiff.trace.looping import scouting

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


def test_two_threads(monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "check")
    monkeypatch.setattr(scouting, "SLEEP", 0)
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

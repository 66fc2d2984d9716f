"""Many calls of derivatives with loops: nothing grows, and threads get their own results."""

import gc

import numpy as np
import pytest
from faults_support import LONG, memory_of, of_shard, run_in_threads

import fdiff


def scanned(x):
    step = lambda y, z: (np.tanh(y * z + x[0]), y)
    last, ys = fdiff.scan(step, x, np.stack([x, 0.5 * x, x * x]))
    return np.sum(last) + np.sum(ys * ys)


def searched(x):
    """Of a number of trips that depends on the values, in reverse too."""
    far = lambda y: np.sum(y * y) > 0.05 * x[0]
    return np.sum(fdiff.while_loop(far, lambda y: 0.7 * np.sin(y), x))


def branched(x):
    body = lambda k, y: fdiff.cond(y[k] > 0.4, np.sin, lambda y: y * x, y)
    return np.sum(fdiff.fori_loop(0, 3, body, x))


def unrolled(x):
    y, trace = x, []
    for k in range(24):
        y = 0.9 * np.sin(y) + 0.01 * k
        trace.append(y[k % 3])
    return np.sum(y) + trace[5] * trace[-1]


PROGRAMS = {f.__name__: f for f in (scanned, searched, branched, unrolled)}
X = np.array([0.7, 0.5, 0.3])


@pytest.fixture(params=["interpret", "compile"])
def tier(request, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", request.param)


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("operator", [fdiff.value_and_grad, fdiff.hessian])
@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_leave_nothing(name, operator):
    call = operator(PROGRAMS[name])
    many = of_shard(20_000) if LONG else 200
    points = [X + 0.01 * k for k in range(7)]  # of several numbers of trips, and branches
    for k in range(many // 4):
        call(points[k % 7])
    gc.collect()
    for again in (True, False):  # a module that is imported meanwhile is left once
        memory, objects = memory_of(), len(gc.get_objects())
        for k in range(many):
            call(points[k % 7])
        gc.collect()
        kept = len(gc.get_objects()) - objects, memory_of() - memory
        if kept[0] <= 50 and kept[1] <= 64 * 1024:
            break
        assert again, f"{many} calls leave (objects, bytes): {kept}"


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_threads(name):
    call = fdiff.jit(fdiff.value_and_grad(PROGRAMS[name]))
    points = [[X + 0.01 * k + 0.1 * thread for k in range(5)] for thread in range(2)]
    expected = [[call(x) for x in mine] for mine in points]
    wrong, done = [], [0, 0]

    def work(thread):
        for n in range(of_shard(50_000) if LONG else 300):
            value, slope = call(points[thread][n % 5])
            right = expected[thread][n % 5]
            if value != right[0] or not np.array_equal(slope, right[1]):
                wrong.append((thread, n, value, right[0]))
            done[thread] += 1

    run_in_threads(work, 2)
    assert wrong == []
    assert done[0] == done[1]

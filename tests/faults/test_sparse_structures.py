"""Structures of sparse derivatives: how many are kept, memory, and Ctrl-C while one is made."""

import gc
import signal
import sys
import time
import weakref

import numpy as np
import pytest
from faults_support import LONG, collections_call_nothing, memory_of

import fdiff
from fdiff import node
from fdiff.functional.operators import structured_steps

N = 20_000
SOON = 0.2  # seconds of processor time, which alarms count as well
MANY, FIRST = (100, 20) if LONG else (20, 10)


def gathered(x, i):
    return np.sin(x[i]) * x[i[::-1]] ** 2


def scattered(x, i):
    y = np.zeros(N)
    np.add.at(y, i, x[i[::-1]] ** 2)
    return np.sum(y[i] * x)


KINDS = {
    "jacobian": lambda: fdiff.jacobian(gathered, sparse=True),
    "columns": lambda: fdiff.jacobian(gathered, sparse="csc", mode="reverse"),
    "hessian": lambda: fdiff.hessian(scattered, sparse=True),
    "lower": lambda: fdiff.hessian(scattered, sparse="coo", lower=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["interpret", "evaluate"])
@pytest.mark.parametrize("kind", KINDS)
def test_meshes_that_come_and_go(kind, tier, monkeypatch):
    """At most eight structures are alive, and neither memory nor the number of objects grows."""
    monkeypatch.setenv("FDIFF_TIER", tier)
    alive, real = [], structured_steps.sparse_tape

    def watched(*args):
        found = real(*args)
        alive.append(weakref.ref(found.blocks[0].indices))
        return found

    monkeypatch.setattr(structured_steps, "sparse_tape", watched)
    derivative, rng = KINDS[kind](), np.random.default_rng(0)
    x = np.linspace(1.0, 2.0, N)
    sizes = []
    for k in range(FIRST + MANY):
        mesh = rng.integers(0, N, N)
        array = derivative(x, mesh)
        np.testing.assert_array_equal(derivative.data(x, mesh), array.data)
        if k in (FIRST, FIRST + MANY - 1):
            node._inferred.clear()  # which holds types of nodes, up to a number
            gc.collect()
            sizes.append((memory_of(), len(gc.get_objects())))
    assert len(alive) >= FIRST + MANY
    assert sum(indices() is not None for indices in alive) <= 8
    (memory, objects), (after, more) = sizes
    assert after - memory < 2 << 20
    assert more - objects < 1000 + 40 * MANY  # lengths that are new, as in `test_leaks`
    del derivative, array
    fdiff.cache_clear()
    gc.collect()
    assert sum(indices() is not None for indices in alive) == 0


class StopError(Exception):
    """What the handler of the alarm raises, as that of Ctrl-C raises KeyboardInterrupt."""


@pytest.fixture
def alarm():
    def stop(*_):
        raise StopError

    before = signal.signal(signal.SIGPROF, stop)
    with collections_call_nothing():
        yield lambda seconds: signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


def chain(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2) + np.sum((x[2:] - x[:-2]) ** 4)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
@pytest.mark.parametrize("part", ["pattern", "coordinates", "data"])
def test_an_interrupted_search_stops_soon_and_leaves_nothing(part, alarm):
    """Wherever it is stopped: the next call begins anew, and its result is right.

    Each search is for another length, so that no other structure serves.
    """
    size = 1_000_000 if LONG else 200_000
    derivative, waits = fdiff.hessian(chain, sparse=True), []
    wanted = getattr(derivative, part)
    for k, after in enumerate(np.linspace(0.002, 0.7, 30) if LONG else (0.003, 0.01, 0.03, 0.1)):
        x = np.ones(size + 10 * k + len(part))
        begin = time.process_time()
        try:
            alarm(after)
            wanted(x)
            alarm(0)
        except StopError:
            waits.append(time.process_time() - begin - after)
            for plan in wanted.program.plans.values():
                for (block,) in [found.blocks for found in plan.structured.structures.kept]:
                    assert len(block.indices) == 5 * block.shape[0] - 6
    assert waits
    assert max(waits) < SOON
    assert derivative.pattern(x).nnz == 5 * len(x) - 6
    assert len(derivative.coordinates(x)[0]) == 5 * len(x) - 6
    whole = derivative(x)
    np.testing.assert_array_equal(derivative.data(x), whole.data)
    assert (whole != whole.T).nnz == 0

"""Exceptions of signal handlers that arrive while a thread starts: it is whole, or not there."""

import random
import signal
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from thread_counts import ask_for_threads

import fdiff
from fdiff.kernels.runtime.worker_code import POOL
from fdiff.kernels.thread_pool import one_thread, pool
from fdiff.process import background, interruptible, progress, threads

X = np.linspace(0.1, 0.9, 200_000)
ERRORS = [RuntimeError, KeyError, KeyboardInterrupt, MemoryError]


def waves(x):
    return np.sum(np.sin(x) * np.exp(-x * x) + np.tanh(x))


def handler(error):
    raise error("of a handler")


@pytest.fixture(params=["before", "after"])
def interrupted(request, monkeypatch):
    """Have an exception arrive before or after the system starts the next thread."""
    start, count = threads.start_new_thread, [0]

    def arrange(error, nth=1):
        def started(*arguments):
            count[0] += 1
            if count[0] != nth:
                return start(*arguments)
            if request.param == "after":
                start(*arguments)
                time.sleep(0.05)  # so that it may be over already
            return handler(error)

        monkeypatch.setattr(threads, "start_new_thread", started)

    return arrange


@pytest.mark.parametrize("error", ERRORS)
def test_of_the_background(error, interrupted):
    """A KeyError of `threading` came instead, and after a RuntimeError there was none for good."""
    fdiff.process.background.worker.wait()
    interrupted(error)
    done = []
    job = background.Job(lambda: done.append(threading.get_ident()), lambda: 0.0)
    with pytest.raises(error, match="of a handler"):
        background.worker.submit(job)
    assert not background.worker.off
    background.worker.submit(background.Job(lambda: None, lambda: 1.0))
    background.worker.wait()
    assert len(done) == 1
    assert done[0] != threading.get_ident()


@pytest.mark.parametrize("error", ERRORS)
def test_of_what_shows_progress(error, interrupted, monkeypatch):
    monkeypatch.setattr(progress, "find_display", lambda **_: object())
    interrupted(error)
    watcher = progress._Watcher()
    with pytest.raises(error, match="of a handler"):
        watcher.start()
    assert watcher._thread is None
    assert watcher.next_try == 0.0
    watcher.start()
    assert watcher._thread is not None
    watcher.stop()


@pytest.mark.parametrize(
    "way", [interruptible.interruptibly_without_lock, interruptible.interruptibly]
)
@pytest.mark.parametrize("error", ERRORS)
def test_of_a_long_call(error, way, interrupted):
    """A RuntimeError was lost: the work was done by the thread that calls."""
    interrupted(error)
    done = []
    with fdiff.process.forking.no_fork, pytest.raises(error, match="of a handler"):
        way(lambda: done.append(1))
    interruptible.wait_for_left()
    assert not interruptible.has_abandoned_call()
    with fdiff.process.forking.no_fork:
        assert way(lambda: 3) == 3


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("error", ERRORS)
def test_of_the_pool(error, nth, interrupted, monkeypatch):
    """A thread that nobody knew of served beside the next one of its number."""
    ask_for_threads(monkeypatch, 1)
    monkeypatch.setenv("FDIFF_TIER", "compile")
    want = fdiff.grad(waves)(X)
    fdiff.cache_clear()
    ask_for_threads(monkeypatch, 4)
    fdiff.grad(waves)(X)  # so that there is a pool
    pool.stop()
    interrupted(error, nth)
    with pytest.raises(error, match="of a handler"):
        pool.ready(pool._code)
    pool.ready(pool._code)
    assert [*pool._threads] == [1, 2, 3]
    for _ in range(3):
        np.testing.assert_array_equal(fdiff.grad(waves)(X), want)
    assert pool.stop()
    assert not pool._threads


def test_where_there_are_no_more_threads(monkeypatch):
    """Work is done by the thread that calls."""
    monkeypatch.setattr(threads.Thread, "start", lambda _: False)
    with fdiff.process.forking.no_fork:
        assert interruptible.interruptibly(threading.get_ident) == threading.get_ident()
    pool.stop()
    ask_for_threads(monkeypatch, 4)
    np.testing.assert_allclose(fdiff.jit(lambda x: np.sum(x * x * x))(X), np.sum(X**3), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
def test_an_alarm_while_the_pool_is_taken_gives_it_back(monkeypatch):
    """It came between the call that takes the pool and its note: no kernel used threads again."""
    ask_for_threads(monkeypatch, 4)
    monkeypatch.setenv("FDIFF_TIER", "compile")
    fdiff.grad(waves)(X)  # so that there is code of the pool
    pool.ready(pool._code)
    raised, waiting, rng = [], [], random.Random(1)

    def ring(*_):
        if waiting:  # an alarm may be late where other threads run
            raised.append(1)
            raise TimeoutError

    def work():
        with one_thread():
            pass
        pool.before_fork()
        pool.after_fork()

    before = signal.signal(signal.SIGALRM, ring)
    try:
        for _ in range(300):
            with suppress(TimeoutError):
                try:
                    waiting.append(1)
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 4e-4))
                    work()
                finally:
                    waiting.clear()
                    signal.setitimer(signal.ITIMER_REAL, 0)
            waiting.clear()
            assert pool._words[POOL["BUSY"]] == 0
    finally:
        signal.signal(signal.SIGALRM, before)
    assert raised
    pool.before_fork()
    pool.after_fork()
    assert [*pool._threads] == [1, 2, 3]
    assert pool.stop()

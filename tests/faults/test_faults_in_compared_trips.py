"""Threads, forks and signals while the iterations of plain loops are compared."""

import inspect
import itertools
import os
import random
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
from faults_support import LONG, SHARD, SHARDS, in_shard, of_shard, run_in_threads

import fdiff
from fdiff.trace import looping
from fdiff.trace.looping import call_log
from fdiff.trace.looping.checked_trips import Frame
from fdiff.trace.trace_stack import tracing

X = np.array([0.7131, 0.3217, 0.5079])
NUMBERS = itertools.count()
FOLDER = str(Path(call_log.__file__).parent)


def rolled(x):
    u, s = np.zeros((30, 3)), x[0]
    u[0] = x
    for k in range(1, 30):
        u[k] = np.sin(u[k - 1]) + 0.01 * k
        s = 0.9 * s + u[k, k % 3]
    return s * u[7, 1]


def cut_short(x):
    s, kept = x, []
    for k in range(40):
        s = np.sin(s) * 0.9 if k % 13 != 11 else np.cos(s)
        kept.append(s)
    return np.sum(np.stack(kept) ** 2) + kept[17][1]


def asking(x):
    s, n = x[0], 0
    for k in range(30):
        s = np.sin(s) + 0.1 * x[1] if s > 0.4 else s + x[2]
        n += s > 0.9
        s = s * (1.0 + 0.001 * k)
    return s * n


def nested(x):
    s = x
    for k in range(4):
        for _ in range(13 + k):
            s = 0.9 * np.sin(s) + 0.01 * k
    return np.sum(s * x)


PROGRAMS = {f.__name__: f for f in (rolled, cut_short, asking, nested)}


@pytest.fixture(autouse=True)
def compared(monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "check")
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    monkeypatch.setattr(looping, "SLEEP", 0)


def fresh(f):
    """The same function, which fdiff has not met before."""
    code = f.__code__.replace(co_name=f"{f.__name__}_{next(NUMBERS)}")
    return types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, f.__closure__)


def slope_of(f, x):
    """The gradient, by a trace of its own."""
    return fdiff.grad(fresh(f))(x.copy())


def expected_of(monkeypatch, points):
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")
    slopes = {
        (name, k): slope_of(f, x) for name, f in PROGRAMS.items() for k, x in enumerate(points)
    }
    monkeypatch.setenv("FDIFF_LOOPS", "check")
    return slopes


@pytest.mark.slow
def test_threads_that_trace_at_once(monkeypatch):
    """Each call is traced anew; caches are dropped meanwhile."""
    points = [X + 0.037 * k for k in range(4)]
    expected, wrong, done = expected_of(monkeypatch, points), [], [0, 0]

    def work(thread):
        choices = random.Random(thread + 2 * SHARD)
        for n in range(of_shard(3000) if LONG else 20):
            name, k = choices.choice([*PROGRAMS]), choices.randrange(4)
            slope = slope_of(PROGRAMS[name], points[k])
            if not np.allclose(slope, expected[name, k], rtol=1e-12, atol=1e-13):
                wrong.append((thread, n, name, k, slope))
            if choices.randrange(8) == 0:
                fdiff.cache_clear()
            done[thread] += 1

    run_in_threads(work, 2)
    assert wrong == []
    assert done[0] == done[1]


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("late", [False, True])
def test_a_thread_that_uses_handles_of_the_trace(late):
    """It is told so, and so is a trace of its own; the loop goes on, and is right."""
    told = []

    def f(x):
        s, first = x, x
        for k in range(30):
            s = np.sin(s) * 0.9
            first = s if k == 20 else first
            if k == 25:
                kept = first if late else x

                def work():
                    for use in (
                        lambda: kept * 2.0,
                        lambda: fdiff.grad(lambda y: np.sum(y * kept))(X),
                    ):
                        try:
                            use()
                        except fdiff.errors.FdiffError as error:
                            told.append(error)

                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
        return np.sum(s * first)

    def plain(x):
        s = first = x
        for k in range(30):
            s = np.sin(s) * 0.9
            first = s if k == 20 else first
        return np.sum(s * first)

    slope = fdiff.grad(f)(X)
    assert told
    assert len(told) % 2 == 0
    np.testing.assert_allclose(slope, slope_of(plain, X), rtol=1e-13)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("name", PROGRAMS)
def test_forks_while_trips_are_compared(name, monkeypatch):
    """Parent and child go on with the trace that was under way, and with others."""
    f, advance, ends = PROGRAMS[name], Frame.advance, []
    expected = expected_of(monkeypatch, [X])[name, 0]
    right = lambda: np.allclose(slope_of(f, X), expected, rtol=1e-12, atol=1e-13)

    def forking(frame):
        out = advance(frame)
        calls.append(frame)
        if len(calls) == number and os.getpid() == parent:
            child = os.fork()
            if child:
                ends.append(os.waitpid(child, 0)[1])
        return out

    parent = os.getpid()
    for moment in in_shard(range(1, 60)) if LONG else range(1, 60, 19):
        calls, number, good = [], moment, False
        try:
            with monkeypatch.context() as patched:
                patched.setattr(Frame, "advance", forking)
                good = right()
            if os.getpid() != parent:
                fdiff.cache_clear()
                good = good and not tracing() and right()
        finally:
            if os.getpid() != parent:
                os._exit(0 if good else 1)
        assert good
    assert len(ends) >= 2
    assert not any(ends)


class Interrupter:
    """Raises KeyboardInterrupt at one of the lines that the package runs."""

    def __init__(self, number):
        self.number, self.count, self.place = number, 0, None

    def __call__(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        return self.at(frame, event, _)

    def at(self, frame, event, _):
        generator = (
            frame.f_code.co_flags & inspect.CO_GENERATOR
        )  # Python ignores what its end raises
        if event in ("line", "call") and not generator:
            self.count += 1
            if self.count == self.number:
                self.place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self.at

    def run(self, work):
        """What work gives, and whether it was interrupted."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            return work(), False
        except KeyboardInterrupt:
            return None, True
        finally:
            sys.settrace(before)


@pytest.mark.parametrize("name", PROGRAMS)
def test_interrupts_at_each_line(name, monkeypatch):
    """None is lost; afterwards no trace is open, and the same function is right."""
    f = PROGRAMS[name]
    expected = expected_of(monkeypatch, [X])[name, 0]
    slope_of(f, X)
    counter = Interrupter(0)
    counter.run(lambda: slope_of(f, X))
    choices = random.Random(name)
    places = range(1, counter.count)
    numbers = places[7 * SHARD :: 7 * SHARDS] if LONG else choices.sample(places, 12)
    assert counter.count > 2000
    for number in numbers:
        interrupter = Interrupter(number)
        call = fdiff.grad(fresh(f))
        _, stopped = interrupter.run(lambda: call(X.copy()))
        assert stopped or interrupter.place is None, interrupter.place  # runs differ a little
        assert not tracing(), interrupter.place
        np.testing.assert_allclose(call(X.copy()), expected, rtol=1e-12, err_msg=interrupter.place)

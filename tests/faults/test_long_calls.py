"""Ctrl-C while LLVM compiles, which takes seconds of C: it is answered soon, nothing breaks."""

import math
import os
import signal
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from faults_support import LONG, collections_call_nothing
from thread_counts import ask_for_threads

import fdiff
from fdiff import kernels
from fdiff.dispatch.tiers.bytecode_tier import BytecodeTier
from fdiff.kernels import BytecodeExecutable, machine_code
from fdiff.process import interruptible, threads
from fdiff.process.forking import no_fork

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
SOON = 0.5  # seconds, in which an exception of a signal handler is raised


class StopError(Exception):
    """What a signal handler raises."""


@pytest.fixture(autouse=True)
def handler():
    def stop(*_):
        raise StopError

    before = signal.signal(signal.SIGALRM, stop)
    with collections_call_nothing():
        yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def stopped(work, after=0.05, *, at_once=True):
    """Seconds that `work` went on after an alarm; None if it had ended before."""
    begin = time.monotonic()
    try:
        if at_once:
            signal.setitimer(signal.ITIMER_REAL, after)
        work()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except StopError:
        return time.monotonic() - begin - after
    return None


def test_the_wait_ends_and_the_call_does_not():
    done = threading.Event()

    def call():
        with machine_code.compiling():
            interruptible.interruptibly(wait)

    def wait():
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        done.wait(60)
        time.sleep(0.2)

    assert stopped(call, at_once=False) < SOON + 0.5  # as threads may begin late
    assert interruptible.has_abandoned_call()
    assert machine_code.is_busy()
    assert no_fork._others()  # so that a fork waits
    done.set()
    with machine_code.compiling():  # waits as well
        assert not interruptible.has_abandoned_call()
    assert not no_fork._others()


def test_what_was_left_ends_no_call_of_another_thread():
    """Its successors failed, in the background too, and their kernels were taken for defects."""
    done, errors = threading.Event(), []

    def call():
        with machine_code.compiling():
            interruptible.interruptibly(lambda: (begun.set(), done.wait(60)))

    def other():
        try:
            interruptible.end_if_left()
        except Exception as error:  # noqa: BLE001 - any is a failure
            errors.append(error)

    def both():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        other()

    begun = threading.Event()
    assert stopped(call, 0.2) is not None
    assert begun.wait(60)
    both()
    done.set()
    interruptible.wait_for_left()
    both()
    assert errors == []


def test_results_and_errors_pass():
    with no_fork:
        assert interruptible.interruptibly(lambda: 3) == 3
        with pytest.raises(ZeroDivisionError):
            interruptible.interruptibly(lambda: 1 / 0)
    assert not interruptible.has_abandoned_call()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks on this system")
def test_a_thread_that_never_begins_is_not_waited_for(monkeypatch):
    """Without memory for its first frame a thread ends before any line of Python."""
    start = threads.start_new_thread
    monkeypatch.setattr(threads, "PATIENCE", 0.01)
    monkeypatch.setattr(threads, "start_new_thread", lambda *_: start(lambda: None, ()))
    with no_fork:
        assert interruptible.interruptibly(lambda: 42) == 42
    assert not interruptible.has_abandoned_call()


def test_a_fork_waits_for_a_call_that_was_left():
    def call():
        with machine_code.compiling():
            interruptible.interruptibly(wait)

    def wait():
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        time.sleep(0.5)

    begin = time.monotonic()
    assert stopped(call, at_once=False) is not None
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        found = fdiff.jit(fdiff.grad(lambda x: np.sum(x**3)))(np.ones(3))
        os._exit(0 if np.allclose(found, 3) else 1)
    assert time.monotonic() - begin > 0.45
    assert os.waitpid(child, 0)[1] == 0


def rounded(x):
    for k in range(40):
        x = np.sin(x) * (1.0 + k * 1e-3) + np.exp(-x * x)
    return np.sum(x)


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2"] if LONG else ["2"])
def test_a_kernel_that_runs_is_left_soon(threads, monkeypatch):
    """From its first call on, until calls show that it is short."""
    ask_for_threads(monkeypatch, threads)
    fdiff.cache_clear()
    x = np.linspace(0.1, 0.9, 4_000_000 if LONG else 1_000_000)
    prepared = fdiff.jit(fdiff.grad(rounded))
    prepared.compile(x)
    monkeypatch.setattr(interruptible, "LONG", 0.0)
    begin = time.monotonic()
    want = prepared(x)
    whole = time.monotonic() - begin
    delays = [stopped(lambda: prepared(x), share * whole) for share in (0.1, 0.4, 0.7)]
    assert max(delay or 0.0 for delay in delays) < max(0.3 * whole, 0.1), (delays, whole)
    assert [delay is None for delay in delays].count(True) < 3
    np.testing.assert_array_equal(prepared(x), want)


@pytest.mark.slow
def test_a_kernel_that_was_left_writes_to_nothing_of_the_callers(monkeypatch):
    """Arguments may be changed and results made while it goes on; what it computes is dropped."""
    monkeypatch.setattr(interruptible, "LONG", 0.0)
    x = np.linspace(0.1, 0.9, 500_000)
    prepared = fdiff.jit(fdiff.grad(rounded))
    prepared.compile(x)
    want = prepared(x)
    out, copy = np.zeros_like(x), x.copy()
    for after in (0.01, 0.05):
        stopped(lambda: prepared(x, out=out), after)
        x[:] = 0.0
        assert not out.any() or np.array_equal(out, want)
        before = out.copy()
        np.testing.assert_array_equal(prepared(copy), want)
        np.testing.assert_array_equal(out, before)
        x[:] = copy


@pytest.mark.slow
def test_bytecode_that_runs_is_left_soon(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "evaluate")
    monkeypatch.setattr(interruptible, "LONG", 0.0)
    x = np.linspace(0.1, 0.9, 100_000)
    prepared = fdiff.grad(rounded)
    for _ in range(3):
        want = prepared(x)
    begin = time.monotonic()
    prepared(x)
    whole = time.monotonic() - begin
    delays = [stopped(lambda: prepared(x), share * whole) for share in (0.2, 0.5)]
    assert max(delay or 0.0 for delay in delays) < max(0.3 * whole, 0.1), (delays, whole)
    np.testing.assert_array_equal(prepared(x), want)


@pytest.mark.filterwarnings("ignore:os.fork")  # JAX, which other tests import, warns of it
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_is_forked_while_loops_are_to_end_runs_them(monkeypatch):
    """What tells them to end is memory of the kernel, and who would set it back is not there."""
    monkeypatch.setattr(interruptible, "LONG", 0.0)

    def f(x):
        return fdiff.fori_loop(0, 1_000_000, lambda i, c: np.sin(c) * 1.0001 + x, x)

    prepared = fdiff.jit(f)
    prepared.compile(1.5)
    want = prepared(1.5)
    for after in (0.02, 0.04, 0.06):
        with suppress(StopError):
            signal.setitimer(signal.ITIMER_REAL, after)
            prepared(1.5)
        signal.setitimer(signal.ITIMER_REAL, 0)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            os._exit(0 if prepared(1.5) == want else 1)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(("by_numpy", "waits"), [(math.inf, 2), (0.2, 2), (0.01, 0)])
def test_first_calls_by_bytecode_are_left_soon_unless_numpy_was_quick(by_numpy, waits, monkeypatch):
    """Those that may be left are made by another thread."""
    threads, call = [], BytecodeExecutable.__call__

    def noted(executable, arrays):
        threads.append(threading.get_ident())
        return call(executable, arrays)

    monkeypatch.setattr(BytecodeExecutable, "__call__", noted)
    monkeypatch.setenv("FDIFF_TIER", "evaluate")
    made = BytecodeTier.__init__

    def begun(tier, tape):
        made(tier, tape)
        tier.interpreted = by_numpy

    monkeypatch.setattr(BytecodeTier, "__init__", begun)
    account = BytecodeTier.account  # calls of no time at all: the machine may be busy
    monkeypatch.setattr(BytecodeTier, "account", lambda tier, _: account(tier, 0.0))
    fdiff.cache_clear()
    prepared = fdiff.grad(lambda x: np.sum(np.sin(x) * x))
    for _ in range(3):
        prepared(np.ones(3))
    assert [t != threading.get_ident() for t in threads] == [k < waits for k in range(3)]


def test_short_kernels_are_called_by_machine_code():
    x = np.linspace(0.1, 0.9, 10_000)
    prepared = fdiff.jit(fdiff.grad(lambda x: np.sum(np.sin(x) * x)))
    for _ in range(4):
        prepared(x)
    machine_code.worker.wait()
    for _ in range(4):
        prepared(x)
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name))
    prepared(x)
    sys.setprofile(None)
    assert "_careful" not in calls


def test_hints_of_a_long_kernel_are_those_of_the_call(monkeypatch):
    """Flags of the processor belong to the thread that computes."""
    monkeypatch.setattr(interruptible, "LONG", 0.0)
    x = np.ones(5000)
    prepared = fdiff.jit(lambda x: 1.0 / x)
    prepared.compile(x)
    prepared(x)
    x[7] = 0.0
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            prepared(x)


@pytest.mark.slow
@pytest.mark.parametrize(("disk", "rounds"), [(True, 300), (False, 300)] if LONG else [(True, 20)])
def test_long_kernels_are_left_soon(disk, rounds, tmp_path, monkeypatch):
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FDIFF_BACKGROUND", "0")
    x = np.linspace(0.1, 0.9, 7)

    def model(x):
        for k in range(rounds):
            x = np.sin(x) * (1.0 + k * 1e-3) + np.exp(-x * x)
        return np.sum(x)

    tape = fdiff.make_tape(fdiff.grad(model), x)

    def compiled():
        kernels.cache_clear(disk=disk)
        return kernels.compile(tape, ("C",) * len(tape.inputs))

    begin = time.monotonic()
    want = compiled()(x)[0]
    whole = time.monotonic() - begin
    moments = np.linspace(0.05, 0.95, 12 if LONG else 3) * whole
    delays = [stopped(compiled, float(moment)) for moment in moments]
    assert max(delay or 0.0 for delay in delays) < SOON, delays
    np.testing.assert_array_equal(compiled()(x)[0], want)

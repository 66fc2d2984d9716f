"""Exceptions that arrive at any line or call of fdiff's, and what is looked at afterwards.

    python interrupted_programs.py PROGRAMS FIRST STEP [CLASS]

An exception, which derives from a `CLASS` that alarms have, is raised at every `STEP`-th event of
Python's tracing in fdiff's code, from event `FIRST` on, while each program runs; with step 0 at 12
of them. Prints how many; ends with status 1 where anything is wrong.
"""

import builtins
import faulthandler
import gc
import itertools
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from functools import cache
from opcode import opmap
from pathlib import Path
from types import GeneratorType
from unittest.mock import patch

import numpy as np
from interrupted_transforms import TRANSFORMS

import fdiff
from fdiff import autograd, foreign_errors, profiler
from fdiff.hooks import hooks
from fdiff.kernels import machine_code
from fdiff.process import anomaly_watch, forking, observed_spans
from fdiff.process.background import worker
from fdiff.process.forking import no_fork
from fdiff.trace.recorder import Recorder
from fdiff.trace.trace_stack import occupied, stack

FOLDER = str(Path(fdiff.__file__).parent)
X = np.linspace(0.1, 0.9, 5)


BASE = getattr(builtins, sys.argv[4]) if __name__ == "__main__" and sys.argv[4:] else Exception


class StopError(BASE):
    """What is injected."""


# --- programs: each returns what it computes and what that must be --------------------------------


def fresh(k):
    """A function that no call has met before."""
    return eval(f"lambda x: np.sum(np.sin(x) * x) * {k}.0", {"np": np})


def slope(k):
    return k * (np.cos(X) * X + np.sin(X))


def first(k):
    return fdiff.grad(fresh(k))(X), slope(k)


NUMBERS = itertools.count(100)


def alone(_):
    """As in a process without `fdiff.autograd`, which looks for open traces before each call.

    Its functions have new numbers: the derivative of none is kept from another one.
    """
    with patch.dict(vars(hooks), recorded_operator=None):
        return first(next(NUMBERS))


def nested(k):
    f = fresh(k)
    return fdiff.grad(lambda x: np.sum(fdiff.grad(f)(x)))(X), k * (2 * np.cos(X) - X * np.sin(X))


def eager(k):
    def g(x):
        return x[0] * x[1] if x[0] > 0 else x[2]

    recorded = autograd.tensor(X, requires_grad=True)
    g(recorded).backward()
    want = np.zeros(5)
    want[:2] = X[1], X[0]
    return np.asarray(recorded.grad), want


def jit(k):
    fdiff.cache_clear()
    return fdiff.jit(fdiff.grad(fresh(1 + k % 3)))(X), slope(1 + k % 3)


HOT = fdiff.jit(fdiff.value_and_grad(fresh(2)))


def hot(_):
    for _ in range(3):
        value, found = HOT(X)
    return np.append(found, value), np.append(slope(2), 2 * np.sum(np.sin(X) * X))


def warm(_):
    made = fdiff.grad(fresh(2))
    for _ in range(5):
        found = made(X)
    return found, slope(2)


def backward(k):
    x = autograd.tensor(X, requires_grad=True)
    y = (np.sin(x) * x).sum() * float(k)
    y.backward()
    return np.asarray(x.grad), slope(k)


def modes(k):
    with autograd.no_grad():
        with autograd.enable_grad():
            x = autograd.tensor(X, requires_grad=True)
        y = (x * x).sum()
    with autograd.inference_mode(), autograd.no_grad():
        (x * x).sum()
    assert not y.requires_grad
    return backward(k)


def anomalies(k):
    with autograd.detect_anomaly():
        return backward(k)


def profile(k):
    with profiler.profile():
        found = first(k)
        HOT(X)
    return found


def forks(k):
    parent, child = os.getpid(), 0
    try:
        child = os.fork()
    finally:
        if os.getpid() != parent:  # also where an exception comes out of `fork` there
            os._exit(0)
    os.waitpid(child, 0)
    return first(k)


PROGRAMS = {
    one.__name__: one
    for one in (
        first, alone, nested, eager, jit, hot, warm, backward, modes, anomalies, profile, forks,
    )
}  # fmt: skip
PROGRAMS |= TRANSFORMS


# --- faults -----------------------------------------------------------------------------------


class LostError(AssertionError):
    """The exception that was injected has not come out of the program."""


GETTERS = [f(id).__code__ for f in (foreign_errors.hiding, foreign_errors.noting)]
TELLING = foreign_errors.telling(id).__code__
HANDLER = foreign_errors.uninterrupted_entry(forking._safely(int)).__code__


@cache
def is_uninterrupted(code):
    """Whether no handler runs at the entry of a function: it goes on, as after ``yield from``."""
    at = code.co_code[::2].index(opmap["RESUME"])
    dropped = issubclass(BASE, KeyError | AttributeError) or code == HANDLER
    return dropped and code.co_code[2 * at + 1] == 2


def is_answer(frame):
    """Whether it tells NumPy, in which no handler runs, that a protocol is not there."""
    asked = frame.f_code == TELLING and frame.f_locals["name"] in foreign_errors.ASKED_BY_NUMPY
    return asked and issubclass(BASE, AttributeError)


def is_getter(frame):
    """Whether none of its lines begins where a handler may run.

    Handlers run at the entry of a function and at the end of a call. The entry of a getter is
    quiet, each of its calls ends inside of a ``try``, and in what it calls exceptions are raised.
    """
    return frame.f_code in GETTERS and issubclass(BASE, KeyError | AttributeError)


def run(program, k, at):
    """Run a program with an exception at event `at`; how many events there were.

    It is lost where Python ignores it in a generator that is closed: tracing alone calls anything
    then.
    """
    count, me, seen, ignored, place = 0, threading.get_ident(), False, [], []
    sys.unraisablehook = lambda one: ignored.append(one.object)

    def come_by(frame):
        nonlocal count
        count += 1
        if count == at:
            sys.settrace(None)
            place.extend(traceback.format_stack(frame, 4))
            raise StopError

    def local(frame, event, _):
        if event == "line":
            come_by(frame)
        return local

    def within(frame, event, _):  # after the first line, which is part of the entry
        return local if event == "line" else within

    def start(frame, event, _):
        if not frame.f_code.co_filename.startswith(FOLDER) or threading.get_ident() != me:
            return None
        if is_answer(frame) or is_getter(frame):
            return None
        entry_is_quiet = is_uninterrupted(frame.f_code)
        if not entry_is_quiet:
            come_by(frame)
        return within if entry_is_quiet else local

    sys.settrace(start)
    try:
        program(k)
    except StopError:
        seen = True
    finally:
        sys.settrace(None)
        sys.unraisablehook = sys.__unraisablehook__
    excused = any(isinstance(one, GeneratorType) for one in ignored)
    if 0 < at <= count and not seen and not (ignored and excused):
        raise LostError(f"it is swallowed, or ignored in {ignored}, at\n{''.join(place)}")
    return count


def check(program, k):
    """What must hold after an exception."""
    got, want = program(k)  # before anything that looks for open traces
    np.testing.assert_allclose(got, want, rtol=1e-12)
    got, want = first(2)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    got, want = backward(3)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    worker.wait()
    assert not stack.traces, "a trace is open"
    assert not [one for one in occupied if isinstance(one, Recorder)], "a fast path is closed"
    assert not occupied, occupied
    assert observed_spans.observer is None, "a profiler is on"
    assert autograd.is_grad_enabled(), "gradients are off"
    assert not autograd.is_inference_mode_enabled(), "inference mode is on"
    assert anomaly_watch.in_force() is None, "anomaly mode is on"
    assert gc.isenabled(), "the collector is off"
    assert np.geterr()["divide"] == "warn", "NumPy is silent"
    assert not machine_code.is_busy()
    assert not no_fork._others(), "a fork would wait"


def check_fork():
    """A forked child compiles."""
    begin = time.perf_counter()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        got, want = jit(2)
        os._exit(0 if np.allclose(got, want, rtol=1e-12) else 1)
    assert os.waitpid(child, 0)[1] == 0, "a forked child fails"
    assert time.perf_counter() - begin < 15, "a fork waits"


def sweep(name, begin, step):
    """Exceptions at every `step`-th event of a program; how many went wrong."""
    program, failed = PROGRAMS[name], 0
    for _ in range(40):
        hot(0)
        program(1)
        worker.wait()
    total = run(program, 1, -1)
    step = step or max(1, total // 12)
    places = range(1 + begin % step, total, step)
    for n, at in enumerate(places):
        k = 2 + n % 5
        try:
            run(program, k, at)
            check(program, k)
            if n % 25 == 10:
                check_fork()
        except Exception:  # noqa: BLE001 - to be shown with its place
            failed += 1
            print(f"{name}: after an exception at event {at} of {total}:", file=sys.stderr)
            traceback.print_exc()
            if failed > 8:
                break
    print(name, len(places), failed)
    return failed


def main(names, begin, step):
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    failed = sum(sweep(name, begin, step) for name in names.split(","))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(900, exit=True)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

"""Exceptions that arrive while a fast path is under way: none is lost, the next call is right."""

import ctypes
import itertools
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from faults_support import LONG

import fdiff
from fdiff.capture.proxies.list_proxies import ListProxy
from fdiff.errors import TraceError
from fdiff.hooks import hooks
from fdiff.kernels import Lookup, Preconditions, machine_code, stub_fault
from fdiff.kernels.llvm.stub import stub_binding
from fdiff.kernels.llvm.stub.call_descriptor import (
    BoundKernel,
    CallSignature,
    KernelOutput,
    ResultStep,
)
from fdiff.kernels.llvm.stub.interpreter_abi import python_api
from fdiff.process import memory_reserve

X = np.linspace(0.1, 0.9, 5)


class StopError(Exception):
    """What an alarm raises."""


def stub():
    """The address of the whole entry stub, compiled now."""
    machine_code.worker.wait()
    while not (address := machine_code.entry_stub(full=True)):
        machine_code.worker.wait()
    assert stub_fault(address, full=True) == ""
    return address


def idle():
    """A kernel that does nothing: a function of Python's C API that returns zero."""
    zero = np.zeros(1, np.int64)
    settings = {"keep": False, "release": False, "owner": None}
    return BoundKernel(python_api("PyErr_Occurred"), zero, np.zeros(1), (), 0, zero, **settings)


@pytest.mark.parametrize(
    "error", [StopError, KeyboardInterrupt, AttributeError, MemoryError, KeyError]
)
def test_an_exception_of_a_predicate_is_raised(error):
    fdiff.jit(np.sum)(X)

    def raising(_):
        raise error("by an alarm")

    checks = Preconditions(predicates=((raising, ()),), fallback=lambda: "another way")
    result, outputs = [ResultStep("OUTPUT", 0)], [KernelOutput((2, 1), np.dtype("f8"))]
    call = stub_binding.bind_entry_stub(
        stub(), idle(), CallSignature(0), [], outputs, result, checks, full=True
    )
    with pytest.raises(error, match="by an alarm"):
        call()


def test_what_is_missing_is_no_error():
    fdiff.jit(np.sum)(X)
    missing = Lookup("PyObject_GetAttr", X, id("no_such_attribute"), 0)
    checks = Preconditions((missing, Lookup("PyObject_Type", X, 0, 1)), fallback=lambda: "plain")
    result, outputs = [ResultStep("OUTPUT", 0)], [KernelOutput((2, 1), np.dtype("f8"))]
    call = stub_binding.bind_entry_stub(
        stub(), idle(), CallSignature(0), [], outputs, result, checks, full=True
    )
    assert call() == "plain"


def test_of_a_stub_all_threads_are_told_the_same(monkeypatch):
    """Others change counts of references meanwhile, so that each of several tries may fail."""
    at_once, numbers = threading.Barrier(4), itertools.count()

    def tried(*_, **__):
        at_once.wait()
        return "it loses references" * (next(numbers) % 2)

    monkeypatch.setattr(stub_binding, "_fault", tried)
    told = []
    threads = [
        threading.Thread(target=lambda: told.append(stub_binding.stub_fault(1, full=True)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stub_binding._faults.pop((1, True)) == told[0]
    assert len(set(told)) == 1


def test_where_the_stub_cannot_run_a_fast_path_is_the_general_way(monkeypatch):
    """It builds the result, and compares what was read: what calls a kernel alone does not."""
    monkeypatch.setattr(stub_binding, "stub_fault", lambda *_, **__: "it loses references")
    checks = Preconditions(fallback=lambda: "the general way")
    result, outputs = [ResultStep("OUTPUT", 0)], [KernelOutput((2, 1), np.dtype("f8"))]
    call = stub_binding.bind_entry_stub(
        1, idle(), CallSignature(0), [], outputs, result, checks, full=True
    )
    assert call() == "the general way"


@pytest.mark.slow
def test_an_exception_while_cells_are_copied_comes_out_and_writes_to_none():
    """A cell that was half filled was taken for one that the function had written to."""
    end, count = 0, 0

    def local(_frame, event, _):
        nonlocal count
        count += event == "line"
        if count == end:
            sys.settrace(None)
            raise StopError
        return local

    def start(frame, *_):
        return local if frame.f_code.co_filename.endswith("function_copies.py") else None

    def closure(k, table):
        inner = lambda x: np.sum(x) * k * table["a"]
        return lambda x: inner(x) * k

    while count >= end:
        end, count = end + 1, 0
        f = closure(float(end), {"a": 2.0})
        before = [cell.cell_contents for cell in f.__closure__]
        sys.settrace(start)
        try:
            fdiff.grad(f)(X)
        except StopError:
            assert count == end
        finally:
            sys.settrace(None)
        assert [cell.cell_contents for cell in f.__closure__] == before
        np.testing.assert_allclose(fdiff.grad(f)(X), np.full(5, 2.0 * end**2))
    assert end > 40


STEP = 1 if LONG else 3
READING = ("capture_run.py", "capture_session.py", "ordinary_trace.py")


@pytest.mark.slow
@pytest.mark.parametrize("beside", ["alone", "recorded arrays"])
def test_an_exception_that_the_function_catches_mixes_no_arrays(beside, monkeypatch):
    """It read one array for another from then on, where the exception came between two steps.

    `fdiff.autograd`, which other tests import, looks for open traces before each call: without it,
    one that an exception left open as it began was found by no later call.
    """
    if beside == "alone":
        monkeypatch.setitem(vars(hooks), "recorded_operator", None)
    first, second, end, count = np.full(5, 2.0), np.full(5, 3.0), 0, 0

    def local(_frame, event, _):
        nonlocal count
        count += event == "line"
        if count == end:
            sys.settrace(None)
            raise StopError
        return local

    def start(frame, *_):
        return local if Path(frame.f_code.co_filename).name in READING else None

    caught = 0
    while count >= end:
        end, count, data = end + STEP, 0, {"first": first, "second": second}

        def f(x):
            try:
                return np.sum(x * data["first"])
            except StopError:
                return np.sum(x * data["second"])

        sys.settrace(start)
        try:
            slopes = [fdiff.grad(f)(X)]
        except (StopError, TraceError):
            slopes = []
        finally:
            sys.settrace(None)
        slopes += [fdiff.grad(f)(X), fdiff.grad(f)(X)]
        fdiff.cache_clear()
        assert all(s.tolist() in (first.tolist(), second.tolist()) for s in slopes)
        caught += len(slopes) == 3
    assert caught * STEP > 20


class Slotted:
    """A class whose methods, slots and attributes a function reads."""

    __slots__ = ("__dict__", "scale")

    def __init__(self, scale):
        self.scale, self.shift = scale, X.copy()

    @property
    def twice(self):
        return 2 * self.scale

    def loss(self, x):
        return np.sum(x * self.shift) * self.twice


@pytest.mark.slow
def test_an_exception_while_proxies_are_filled_changes_no_class_and_no_object():
    """A method that was noted as loaded, and was not there yet, was deleted in the user's class."""
    model, end, count = Slotted(2.0), 0, 0
    namespace, attributes = dict(vars(Slotted)), dict(vars(model))

    def local(_frame, event, _):
        nonlocal count
        count += event == "line"
        if count == end:
            sys.settrace(None)
            raise StopError
        return local

    def start(frame, *_):
        name = Path(frame.f_code.co_filename).name
        return local if name in ("class_proxies.py", "object_proxy.py") else None

    while count >= end:
        end, count = end + STEP, 0
        sys.settrace(start)
        try:
            fdiff.grad(model.loss)(X)
        except StopError:
            assert count == end
        finally:
            sys.settrace(None)
        assert dict(vars(Slotted)) == namespace
        assert all(vars(model)[name] is value for name, value in attributes.items())
        assert vars(model).keys() == attributes.keys()
        assert model.scale == 2.0
        fdiff.cache_clear()
    np.testing.assert_array_equal(fdiff.grad(model.loss)(X), 4 * X)
    assert end > 100


@pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
@pytest.mark.parametrize("base", [Exception, KeyError, IndexError, TypeError])
def test_an_alarm_in_a_run_that_may_run_again_comes_out(base, monkeypatch):
    """A run that finds inputs in place of numbers, and fails, runs again: the alarm was lost."""

    class AlarmError(base):
        pass

    def ring(*_):
        if next(rings) == 0:
            raise AlarmError

    def interrupted(proxy, value):
        signal.raise_signal(signal.SIGALRM)
        append(proxy, value)

    rings, append, history = itertools.count(), ListProxy.append, [1.0]
    monkeypatch.setattr(ListProxy, "append", interrupted)

    def f(x):
        history.append(history[-1] + 1.0)
        return np.sum(x * history[-1])

    fdiff.cache_clear()
    before, slope = signal.signal(signal.SIGALRM, ring), fdiff.grad(f)
    try:
        with pytest.raises(AlarmError):
            slope(X)
        for _ in range(3):
            assert slope(X).tolist() == [history[-1]] * 5
    finally:
        signal.signal(signal.SIGALRM, before)
    assert next(rings) > 1


class SentError(Exception):
    """What another thread sends."""

    def __init__(self):
        super().__init__("sent")


@pytest.mark.parametrize("kind", [SentError, TypeError, ValueError])
def test_what_a_thread_sends_to_a_run_that_may_run_again_comes_out(kind, monkeypatch):
    """The function ran again, and the exception was lost."""

    def interrupted(proxy, value):
        if not sent:
            sent.append(kind)
            send(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(kind))
        append(proxy, value)

    send, sent = ctypes.pythonapi.PyThreadState_SetAsyncExc, []
    append, history = ListProxy.append, [1.0]
    monkeypatch.setattr(ListProxy, "append", interrupted)

    def f(x):
        history.append(history[-1] + 1.0)
        return np.sum(x * history[-1])

    fdiff.cache_clear()
    slope = fdiff.grad(f)
    with pytest.raises(kind):
        slope(X)
    for _ in range(3):
        assert slope(X).tolist() == [history[-1]] * 5


@pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
def test_a_memory_error_of_an_alarm_is_no_lack_of_room(monkeypatch):
    """Another MemoryError came out, which said that LLVM had no room."""

    class AlarmError(MemoryError):
        pass

    def ring(*_):
        raise AlarmError

    def mapped(*_, **__):
        signal.raise_signal(signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, ring)
    monkeypatch.setattr(memory_reserve.mmap, "mmap", mapped)
    try:
        with pytest.raises(AlarmError):
            memory_reserve.check_room()
    finally:
        signal.signal(signal.SIGALRM, before)

"""What runs when an object dies is not Python code: an exception that arrives there is lost."""

import ast
import gc
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from weakref import ref

import numpy as np
import pytest
from faults_support import LONG, SHARD, of_shard

import fdiff
from fdiff.process import interruptible, threads
from fdiff.process.forking import no_fork

HERE, PACKAGE = Path(__file__).parent, Path(fdiff.__file__).parent
X = np.linspace(0.1, 0.9, 5)
PROGRAMS = (
    "first", "dropped", "jit", "cold", "profile", "backward", "lookups", "attributes", "containers",
    "primitive", "loops", "forks",
)  # fmt: skip
KINDS = {
    "Exception": 1500, "TimeoutError": 1500, "AttributeError": 400, "KeyError": 400,
    "IndexError": 400, "MemoryError": 400,
}  # fmt: skip
CALLING = {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "WeakMethod", "finalize"}
# Finalisers that there are: of a context whose end an exception has cut short; of a file that holds
# a saved array, which is to be removed at once; and of a recorded graph of CUDA.
LEFT = {
    ("autograd/thread_state.py", "__del__"),
    ("autograd/saved_tensors_hooks.py", "finalize"),
    ("kernels/cuda/devices/gpu.py", "__del__"),
}


def names_in(path):
    """Names in a module by which Python code is called when objects die."""
    text = path.read_text(encoding="utf-8")
    if not any(word in text for word in (*CALLING, "__del__")):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == "__del__":
            yield node.name
        if isinstance(node, ast.Name) and node.id in CALLING:
            yield node.id
        if isinstance(node, ast.Attribute) and node.attr in CALLING:
            yield from [node.attr] * (ast.unparse(node) == f"weakref.{node.attr}")


def test_no_module_has_finalisers_in_python():
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        for name in names_in(path)
    }
    assert found == LEFT


QUIET = {"Tape.__hash__"}  # at whose entry, and in which, no signal handler runs


def python_in_hash(callback):
    """The code that runs while the key is hashed that a callback takes out of a dictionary."""
    keys = callback.args[:1] if isinstance(callback, partial) else ()
    if getattr(getattr(callback, "func", None), "__self__", None).__class__ is not dict:
        return set()
    codes = set()
    sys.setprofile(lambda frame, event, _: event == "call" and codes.add(frame.f_code))
    try:
        hash(keys)
    finally:
        sys.setprofile(None)
    return codes


def python_of(callback):
    """The Python function that a callback is, if it is one."""
    while isinstance(callback, partial):
        callback = callback.func
    return callback if isinstance(callback, FunctionType | MethodType) else None


@pytest.mark.slow
def test_callbacks_of_weak_references_are_not_python(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    import counted_signals

    with fdiff.autograd.detect_anomaly(check_nan=False):
        for program in counted_signals.PROGRAMS.values():
            program(1)
    prepared = fdiff.jit(fdiff.grad(counted_signals.Model().loss))
    recorded = fdiff.autograd.tensor(X, requires_grad=True) * 2.0
    found = [one for one in gc.get_objects() if isinstance(one, ref) and one.__callback__]
    of_python = [(one(), f) for one in found if (f := python_of(one.__callback__)) is not None]
    for one in found:
        assert {code.co_qualname for code in python_in_hash(one.__callback__)} <= QUIET
    ours = [
        (owner, f)
        for owner, f in of_python
        if f.__module__.startswith("fdiff.")
        or type(owner).__module__.partition(".")[0] in {"fdiff", "llvmlite"}
    ]
    assert not ours
    assert len(found) > 3
    assert prepared(X) is not None
    assert recorded.requires_grad


@pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
def test_no_signal_handler_runs_while_a_tape_is_hashed():
    """As a key of a weak cache, when what it names dies."""
    tapes, places = {fdiff.make_tape(np.sin, X): 1}, []
    (tape,) = tapes
    before = signal.signal(signal.SIGALRM, lambda _, frame: places.append(frame.f_code.co_name))
    try:
        for number in range(1, 200):
            signal.setitimer(signal.ITIMER_REAL, 1e-4)
            while len(places) < number:
                tapes[tape]
    finally:
        signal.signal(signal.SIGALRM, before)
    assert "__hash__" not in places


COUNTING = """
import threading
from llvmlite.binding import ffi
from fdiff.kernels.llvm import shared_library
main, threads = threading.get_ident(), set()
for kind in (ffi.ObjectRef, ffi.OutputString):
    for name in ("__init__", "__del__"):
        def counted(self, *args, real=getattr(kind, name), **named):
            threads.add(threading.get_ident())
            real(self, *args, **named)
        setattr(kind, name, counted)
import numpy as np
import fdiff
x = np.linspace(0.1, 0.9, 40)
def loss(x):
    return np.sum(np.linalg.solve(np.eye(40) + np.outer(x, x), np.sin(x)))
for f in (loss, lambda x: np.sum(np.sin(x) * x)):
    fdiff.jit(fdiff.grad(f))(x)
    fdiff.cache_clear()
fdiff.cfunc(fdiff.grad(lambda t: np.sin(t) * t), 0.5)
fdiff.cache_clear()
assert threads and main not in threads, (main, threads)
"""


def test_what_llvmlite_makes_lives_in_another_thread(tmp_path):
    """Its finalisers are Python; an exception in its lock leaves that locked for good."""
    environment = {"FDIFF_CACHE_DIR": str(tmp_path), "FDIFF_BACKGROUND": "0"}
    ends_well("-c", COUNTING, **environment)


def ends_well(*arguments, **environment):
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=1000,
        check=False,
        env=os.environ | environment,
    )
    print(done.stdout)  # how many signals, for `pytest -rP`
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", PROGRAMS if LONG else [",".join(PROGRAMS)])
def test_as_many_signals_are_seen_as_were_raised(program, kind):
    ends_well(
        HERE / "counted_signals.py", program, of_shard(KINDS[kind]) if LONG else 10, kind, SHARD
    )


class StopError(Exception):
    """What a signal handler raises."""


class InterruptedLock:
    """A lock; an exception comes as soon as it is acquired, once."""

    def __init__(self, lock, is_awaited):
        self.lock, self.release, self.raised = lock, lock.release, False
        self.is_awaited = is_awaited

    def acquire(self, **options):
        if options:
            self.is_awaited.set()
        acquired = self.lock.acquire(**options)
        if acquired and options and not self.raised:  # by who waits
            self.raised = True
            raise StopError
        return acquired


def test_a_wait_that_ends_between_two_lines_leaves_nobody_waiting(monkeypatch):
    """The lock stayed locked: the next compilation, forks and the end of the process hung."""
    real, is_awaited = threading.Lock, threading.Event()
    lock = partial(InterruptedLock, is_awaited=is_awaited)
    monkeypatch.setattr(threads, "Lock", lambda: lock(real()))
    with no_fork, pytest.raises(StopError):
        interruptible.interruptibly(lambda: is_awaited.wait(10))
    interruptible.wait_for_left()
    assert not interruptible.has_abandoned_call()

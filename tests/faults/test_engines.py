"""Machine code is freed once, by who may free it, and compiling leaves no memory behind."""

import gc
import random
import sys
import threading
import time
import traceback
import weakref
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
from faults_support import LONG, memory_of, of_shard, run_in_threads

import fdiff
from fdiff import kernels
from fdiff.kernels import machine_code
from fdiff.kernels.llvm import machine
from fdiff.kernels.llvm.stub import stub_binding
from fdiff.kernels.llvm.text_to_module import function_of

X = np.linspace(0.1, 0.9, 6)
TEXT = 'def f(x: "f8") -> "f8":\n    return rt.sin(x) * x\n'
WORDS = ["np.sin(y)", "np.exp(-y)", "np.cos(x)", "y * y", "np.tanh(y)", "np.arctan(y)"]


def program(number, rounds=4):
    """A function of a structure of its own for each number."""
    lines = [f"    y = y * x + {WORDS[number // 6**k % 6]}\n" for k in range(rounds)]
    scope = {"np": np}
    exec(f"def f(x):\n    y = x\n{''.join(lines)}    return np.sum(y)\n", scope)
    return scope["f"]


def executable(number=0):
    tape = fdiff.make_tape(fdiff.grad(program(number)), X)
    return kernels.compile(tape, ("C",))


@contextmanager
def without_collector():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture
def closed(monkeypatch):
    """How often each engine was disposed of, by its address."""
    counts = Counter()
    kind = machine.llvm.ExecutionEngine
    dispose = kind._dispose

    def counting(self):
        counts[machine.llvm.ffi.ctypes.addressof(self._ptr.contents)] += 1
        dispose(self)

    monkeypatch.setattr(kind, "_dispose", counting)
    return counts


@pytest.mark.parametrize("calls", range(5))
def test_an_executable_is_freed_without_the_collector(calls):
    """There is no cycle through it, before the entry stub is bound and afterwards."""
    run = executable()
    for _ in range(calls):
        run(X)
    if calls == 3:
        run.parts()
        run.bare()
    if calls == 4:
        run(X[::-1])
    gone = weakref.ref(run), weakref.ref(run._kernel.code)
    with without_collector():
        del run
        kernels.cache_clear()
        assert [one() for one in gone] == [None, None]


def test_engines_in_cycles_are_closed_once(closed):
    """The collector finalises whole cycles: it says that functions are dropped, no more."""
    machine_code.release()
    code = machine.object_code(function_of(TEXT))
    closed.clear()
    many = of_shard(600) if LONG else 60
    stop = threading.Event()

    def collect():
        while not stop.is_set():
            gc.collect(0)

    thread = threading.Thread(target=collect)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(many):
            with machine_code.compiling():
                cycle = [machine.Loaded(code, "f")]
            cycle.append(cycle)
            del cycle
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    gc.collect()
    dropped = len(machine._dropped)
    before = sum(closed.values())
    machine_code.release()
    assert sum(closed.values()) - before == dropped
    assert sum(closed.values()) == many
    assert not machine._dropped


def test_a_function_that_an_exception_leaves_before_its_reference_is_hashed(monkeypatch):
    """The reference is the key of the engine; the dead one has no hash, and there is no engine."""

    def interrupted(_reference):
        raise KeyboardInterrupt

    code = machine.glue_code(function_of(TEXT))
    lasting = machine.Loaded(code, "f")  # a dictionary without entries asks no key for its hash
    machine_code.release()
    monkeypatch.setattr(machine, "hash", interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt) as caught:
        machine.Loaded(code, "f")
    del caught
    gc.collect()
    assert len(machine._dropped) == 1
    monkeypatch.undo()
    machine_code.release()
    assert not machine._dropped
    assert lasting.address


def test_a_finaliser_closes_nothing(closed):
    """It may run while LLVM is busy with another thread, or in a thread that forks."""
    machine_code.release()
    closed.clear()
    run = executable(1)
    cycle = [run]
    cycle.append(cycle)
    del run, cycle
    kernels.cache_clear()
    gc.collect()
    assert not closed
    machine_code.release()
    assert sum(closed.values()) == 1


@pytest.mark.slow
def test_threads_that_compile_and_drop_kernels():
    """Caches are dropped and collections run at any moment: each number is right."""
    seconds, threads = (of_shard(120), 8) if LONG else (2.5, 4)
    failures, calls = [], [0]
    wanted = {number: fdiff.grad(program(number))(X) for number in range(0, 6**4, 97)}
    end = time.monotonic() + seconds

    def work(seed):
        rng = random.Random(seed)
        while time.monotonic() < end and not failures:
            number = rng.choice([*wanted])
            try:
                prepared = fdiff.jit(fdiff.grad(program(number)))
                for _ in range(3):
                    np.testing.assert_allclose(prepared(X), wanted[number], rtol=1e-12)
                    calls[0] += 1
                if rng.random() < 0.2:
                    fdiff.cache_clear()
                if rng.random() < 0.3:
                    gc.collect()
            except Exception as error:  # noqa: BLE001 - any is a failure
                failures.append(f"{number}: {''.join(traceback.format_exception(error))}")

    run_in_threads(work, threads)
    assert not failures
    assert calls[0] > threads


def test_builtins_outlive_the_module_that_made_them():
    """Python clears modules at exit, then the collector reads the definitions of builtins."""
    addresses = range(1, 400)
    builtins = [stub_binding._bound(address, (address,)) for address in addresses]
    for address in addresses:
        del stub_binding._methods[address]
    others = [stub_binding._MethodDef(b"other", 0, 0, None) for _ in range(4000)]
    assert {builtin.__name__ for builtin in builtins} == {"kernel"}
    assert len(others) == 4000  # where the memory of definitions would be, had it been freed


WAYS = {
    "object": lambda: machine.object_code(function_of(TEXT)),
    "glue": lambda: machine.glue_code(function_of(TEXT)),
    "routine": lambda: machine.routine_code(function_of(TEXT), "f"),
    "loaded": lambda: machine.Loaded(machine.glue_code(function_of(TEXT)), "f"),
}


@pytest.mark.parametrize("way", WAYS)
def test_compiling_leaves_no_memory_behind(way):
    """Pass managers took 78 KB each time."""
    many = of_shard(1000) if LONG else 60
    with machine_code.compiling():
        for _ in range(10):
            WAYS[way]()
        gc.collect()
        before = memory_of()
        for _ in range(many):
            WAYS[way]()
        gc.collect()  # llvmlite's objects have cycles
        machine.release()
        grown = memory_of() - before
    assert grown < 8 * 1024 * many + (1 << 19)


def test_c_functions_leave_little_behind():
    """Each took 1.9 KB: the builder of the pipeline that optimised its stub."""
    prepared = fdiff.grad(lambda t: np.sin(t) * t)
    many = of_shard(1000) if LONG else 60
    for _ in range(10):
        fdiff.cfunc(prepared, 0.5)
    gc.collect()
    before = memory_of()
    for _ in range(many):
        assert fdiff.cfunc(prepared, 0.5).ctypes(0.0) == 0.0
    gc.collect()
    machine_code.release()
    assert memory_of() - before < 1100 * many + (1 << 15)

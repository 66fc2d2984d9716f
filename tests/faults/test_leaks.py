"""Nothing grows: functions, shapes and structures that come and go, and references of hot calls."""

import ctypes
import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from faults_support import LONG, memory_of, of_shard
from test_engines import executable, program
from undisturbed import undisturbed

import fdiff
from fdiff import node
from fdiff.dispatch import program as programs
from fdiff.dispatch.tiers import tiered_execution
from fdiff.kernels import kernel_lookup, machine_code, source_cache
from fdiff.kernels.llvm import machine
from fdiff.process import memory_reserve

X = np.linspace(0.1, 0.9, 6)
MB = 1 << 20


def size():
    """Bytes of this process in memory, without pages of files, such as those of LLVM."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return (int(resident) - int(shared)) * 4096


def made_anew(number):
    """Code of its own for each number, and one structure."""
    scope = {"np": np}
    exec(f"def f(x):\n    return np.sum(np.sin(x) * x)  # {number}\n", scope)
    return scope["f"]


PREPARED = fdiff.grad(lambda x: np.sum(np.sin(x) * x))


def settle():
    """A state that does not depend on when a cache was full, which forgets all entries then."""
    node._inferred.clear()
    gc.collect()


def looped(x, scale):
    trip = lambda carry, row: (carry + np.sin(row) * scale, row)
    return fdiff.scan(trip, 0.0, x)[0] + fdiff.fori_loop(0, 3, lambda i, c: c * x[i], 1.0)


COME_AND_GO = {
    "lambda": lambda number: fdiff.grad(lambda x: np.sum(np.cos(x) * x))(X),
    "code": lambda number: fdiff.grad(made_anew(number))(X),
    "shape": lambda number: fdiff.grad(np.sum)(np.ones(1 + number % 5000)),
    "data": lambda number: fdiff.grad(lambda x, a=X + number: np.sum(a * x))(X),
    "C function": lambda number: fdiff.cfunc(PREPARED, X),
    "loop": lambda number: fdiff.grad(lambda x: looped(x, 1.0 + number))(X),
    "at once": lambda number: fdiff.jacobian(lambda x, a=X + number: a * x, X),
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", COME_AND_GO)
def test_what_comes_and_goes_is_freed(kind, monkeypatch):
    """Beyond what caches hold, which are full after some thousand shapes."""
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    many, first = (of_shard(20_000), 2000) if LONG else (150, 300)
    if kind == "C function":  # which takes longer
        many, first = many // 5, first // 5
    if kind == "shape" and LONG:
        first = 10_000
    # Caches are full after some thousand shapes, or 400 of all else, and then forget as much as
    # they are given.
    objects = many // 20 if LONG else 80 * many
    call = COME_AND_GO[kind]
    for number in range(first):
        call(number)
    settle()
    before = memory_of(), len(gc.get_objects())
    for number in range(first, first + many):
        call(number)
    settle()
    assert memory_of() - before[0] < 2 * MB + 100 * many
    assert len(gc.get_objects()) - before[1] < 2000 + objects


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_structures_that_are_compiled_and_dropped(monkeypatch):
    """Caches of programs, tapes and kernels are bounded, and cleared when the user asks."""
    if LONG:  # LLVM's own memory is there before the first measurement
        monkeypatch.setenv("FDIFF_CACHE_DIR", "off")
    sources = source_cache._serial.cache_parameters()["maxsize"]
    assert max(programs.MOST_PROGRAMS, tiered_execution.KEPT, kernel_lookup._MOST, sources) <= 256
    many = of_shard(5000) if LONG else 12
    kept_elsewhere = engines_outside_of_the_cache()
    for number in range(20):
        fdiff.jit(program(number, 5))(X)
    settle()
    before = size() if LONG else 0
    for number in range(20, 20 + many):
        prepared = fdiff.jit(program(number, 5))
        prepared(X)
        prepared(X)
    if LONG:
        gc.collect()
        machine_code.release()  # as the next kernel does
        assert size() - before < 60 * MB
    del prepared
    assert engines_outside_of_the_cache() <= kept_elsewhere + 1
    assert fdiff.cache_info().entries == 0


def engines_outside_of_the_cache():
    """Those that prepared functions of other tests hold, once nothing else does."""
    gc.collect()
    fdiff.cache_clear()
    gc.collect()
    machine_code.release()
    return len(machine._open) - len(machine_code._functions)


HOT = {
    "numbers": lambda: (fdiff.grad(lambda x, y: np.sin(x) * y), (0.5, 2.0)),
    "array": lambda: (fdiff.value_and_grad(lambda x: np.sum(np.sin(x) * x)), (X,)),
    "strided": lambda: (fdiff.grad(lambda x: np.sum(np.sin(x) * x)), (np.ones(12)[::2],)),
    "dict": lambda: (fdiff.grad(lambda d: np.sum(d["a"] * X) * d["b"]), ({"a": X, "b": 0.5},)),
    "captured": lambda: (fdiff.grad(lambda x: np.sum(CAPTURED["a"] * x)), (X,)),
    "loop": lambda: (fdiff.grad(lambda x: looped(x, 2.0)), (X,)),
    "misses": lambda: (fdiff.grad(lambda x: np.sum(x * x)), (X.astype(np.float32),)),
}
CAPTURED = {"a": np.arange(6.0)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOT)
def test_references_of_hot_calls(kind):
    """In a process of its own: threads that other tests leave hold None and tuples."""
    code = f"import test_leaks; test_leaks.count_references({kind!r})"
    kept = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def count_references(kind):
    """The stub counts references by itself: of its own table, too."""
    calls = of_shard(170_000) if LONG else 3000
    prepared, arguments = HOT[kind]()
    prepared = fdiff.jit(prepared)
    other = (np.ones(3),) * len(arguments)
    for _ in range(200):
        prepared(*arguments)
    leaves = [
        None,
        tuple,
        prepared,
        prepared.implementation,
        np.dtype("f8"),
        CAPTURED["a"],
        X,
        *arguments,
    ]

    def measure():
        before = [sys.getrefcount(leaf) for leaf in leaves]
        for number in range(calls):
            prepared(*arguments)
            if kind == "misses" and number % 50 == 0:
                prepared(*other)
        prepared(*arguments)
        after = [sys.getrefcount(leaf) for leaf in leaves]
        if kind != "misses":  # for those a fast path takes the place of another
            assert after == before

    undisturbed(measure)


def test_memory_that_is_free_is_given_back():
    """Of what lies between other things in C's memory, where its allocator can do that."""
    if memory_reserve._trim() is None:
        return
    blocks = [ctypes.create_string_buffer(100_000) for _ in range(600)]
    for block in blocks:
        ctypes.memset(block, 1, len(block))
    full = size()
    kept = blocks[::20]
    del blocks, block
    machine_code.release()
    assert size() < full - 40 * MB
    assert len(kept) == 30


@pytest.mark.slow
def test_memory_is_given_back_after_many_engines(monkeypatch):
    given = []
    monkeypatch.setattr(machine, "give_back", lambda: given.append(1))
    monkeypatch.setattr(machine, "_GIVEN_BACK", 4)
    for number in range(12):
        executable(number)
    fdiff.cache_clear()
    machine_code.release()
    assert given

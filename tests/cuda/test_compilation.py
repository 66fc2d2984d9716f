"""Kernels compiled for GPUs, without one: registers alone, no stack, and coalesced accesses."""

import re
import zlib
from functools import lru_cache

import numpy as np
import pytest
from compiling import CAPABILITIES, ptx_of, usage_of
from op_tapes import each_op, each_precision, tapes_with_arguments
from programs import PROGRAMS, mixture
from strides import ROWS, strides_of

import fdiff
from benchmarks.cases import CASES
from benchmarks.peers import fdiff_peer
from benchmarks.worker import prepared
from fdiff.kernels.cuda.code_generation import cuda_program
from fdiff.kernels.cuda.cuda_program import CudaKernel, Parameter
from fdiff.kernels.cuda.devices import adapter
from fdiff.kernels.cuda.devices.device_words import _FORMULAS
from fdiff.kernels.cuda.devices.launch_sizes import GPU
from fdiff.kernels.cuda.nests.shared_rows import SharedRows
from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.ir.word_table import OF_GPUS, WORDS

FIRST, LAST = CAPABILITIES[0], CAPABILITIES[-1]
# Programs of unrolled loops have 20 long kernels each, which Numba takes seconds for.
LONG = ("value+grad LSTM l=2 c=64", "Jacobian HAND c=192")
LONGER = ("LSTM", "HAND")  # at other sizes the same structures come more often
MOST_REGISTERS = 255  # of a thread; with more a GPU uses memory
# With so few on one GPU, others keep to registers too: of 63 kernels, with 6 to 88 registers, none
# took over 34 more of a GPU than of another.
FEW_REGISTERS = 80
NAME = re.compile(r"_ZN\w+|_cudapy_smem_\d+")  # numbered by Numba, one after another
_done = set()


def kernels_of(tape, tuning=GPU):
    graph, values = kernel_graph(tape, ("C",) * len(tape.inputs))
    return cuda_program(graph, values, tuning=tuning).kernels


def check(kernel, folder, capabilities=()):
    """PTX for the first and the last GPU, and machine code for these: else for one, by its text.

    A kernel that takes many registers of one GPU has machine code for all of them.
    """
    key = kernel.text, kernel.parameters
    if key in _done:
        return
    _done.add(key)
    turn = zlib.crc32(kernel.text.encode()) % len(CAPABILITIES)
    chosen = capabilities or CAPABILITIES[turn : turn + 1]
    for ptx in (ptx_of(kernel, FIRST), ptx_of(kernel, LAST)):
        assert ".local" not in ptx, kernel.text
    most = max(registers(kernel, capability, folder) for capability in chosen)
    if most > FEW_REGISTERS:
        for capability in set(CAPABILITIES) - set(chosen):
            registers(kernel, capability, folder)


def registers(kernel, capability, folder):
    """Those of a thread, which takes nothing else. PTX for the first serves all but the last."""
    ptx = ptx_of(kernel, LAST if capability == LAST else FIRST)
    usage = usage_of(ptx, capability, folder)
    assert usage.stack == 0, kernel.text
    assert usage.spills == 0, kernel.text
    assert usage.registers <= MOST_REGISTERS
    return usage.registers


@pytest.mark.parametrize("name", ["rosenbrock", "mixture", "scatter", "running sums"])
def test_numba_makes_the_same_for_all_gpus(name):
    """What `ptx_of` builds on: a kernel that is compiled for one GPU alone has the same PTX."""
    f, args = PROGRAMS[name]
    for kernel in kernels_of(fdiff.make_tape(f, *args)):
        alone = adapter.compile_ptx(kernel, LAST)
        assert NAME.sub("", alone) == NAME.sub("", ptx_of(kernel, LAST))


@each_op
@each_precision
def test_kernels_of_ops_use_registers_alone(op, sample, precision, rng, tmp_path):
    for tape, _ in tapes_with_arguments(op, sample, precision, rng):
        for kernel in kernels_of(tape):
            check(kernel, tmp_path)


@pytest.mark.parametrize(("shape", "dtype"), [((50_000,), "f8"), ((200, 5000), "f4")])
def test_scans_use_registers_alone(shape, dtype, tmp_path):
    x = np.ones(shape, dtype)
    for f in (lambda x: np.cumsum(x, axis=-1), lambda x: np.minimum.accumulate(x, axis=-1)):
        kernels = kernels_of(fdiff.make_tape(f, x))
        assert any("scan_" in kernel.text for kernel in kernels)
        for kernel in kernels:
            check(kernel, tmp_path)


@pytest.mark.parametrize("name", ["scatter", "cluster"])
def test_deterministic_kernels_use_registers_alone(name, tmp_path):
    """Those that sort, and add up what was sorted."""
    f, args = PROGRAMS[name]
    graph, values = kernel_graph(fdiff.make_tape(f, *args), ("C",) * len(args))
    for kernel in cuda_program(graph, values, deterministic=True).kernels:
        check(kernel, tmp_path)


@pytest.mark.parametrize("name", ["steps", "steps of many"])
def test_loops_use_registers_alone(name, tmp_path):
    f, args = PROGRAMS[name]
    kernels = kernels_of(fdiff.make_tape(f, *args))
    assert any("for trip" in kernel.text for kernel in kernels)
    for kernel in kernels:
        check(kernel, tmp_path)


def _benchmarks():
    """The smallest and the largest case of each problem of the benchmarks."""
    found = {}
    for case in CASES.values():
        if case.call != "fresh_jacobian":
            found.setdefault(case.problem, []).append(case)
    for cases in found.values():
        ends = (min(cases, key=lambda c: c.size), max(cases, key=lambda c: c.size))
        for case in dict.fromkeys(c.name for c in ends):
            if not any(word in case for word in LONGER):
                yield case


def benchmark(name):
    """The tape of a case of the benchmarks."""
    case = CASES[name]
    arguments, _ = case.arguments()
    return fdiff.make_tape(prepared(case, "fdiff", fdiff_peer), *arguments)


@pytest.mark.parametrize("name", list(_benchmarks()))
def test_kernels_of_benchmarks_use_registers_alone(name, tmp_path):
    for kernel in kernels_of(benchmark(name)):
        check(kernel, tmp_path)


@lru_cache(maxsize=len(LONG))
def long_kernels(name):
    """The kernels of a long program, which several tests share."""
    return kernels_of(benchmark(name))


@pytest.mark.parametrize("turn", range(len(CAPABILITIES)))
@pytest.mark.parametrize("name", LONG)
def test_long_kernels_use_registers_alone(name, turn, tmp_path):
    """Each for one GPU, by turns, and every fifth for all."""
    for k, kernel in enumerate(long_kernels(name)):
        if k % len(CAPABILITIES) == turn:
            check(kernel, tmp_path, CAPABILITIES if k % 5 == 0 else CAPABILITIES[turn : turn + 1])


def test_kernels_that_differ_in_names_alone_are_compiled_once():
    """Steps of an LSTM are launches of a few kernels, on other memory each."""
    graph, values = kernel_graph(tape := benchmark(LONG[0]), ("C",) * len(tape.inputs))
    program = cuda_program(graph, values)
    assert len(program.kernels) <= 20
    assert len(program.steps) >= 40


# --- coalesced accesses -------------------------------------------------------------------------


def large(name):
    """A program with arguments of which each nest has a kernel for the whole grid."""
    ones, rows = np.ones(1 << 20), 1 << 15
    if name == "sum":
        return lambda x: np.sum(np.sin(x) * x), (ones,)
    f = PROGRAMS[name][0]
    arguments = {
        "bratu": (np.ones((1024, 1024)),),
        "logistic": (np.ones(20), np.ones((rows, 20)), np.ones(rows)),
        "mixture": mixture(10, 25, rows),
    }
    return f, arguments.get(name, (ones,))


def grid_kernels(name):
    """PTX of the kernels of whole grids."""
    f, args = large(name)
    graph, values = kernel_graph(fdiff.make_tape(f, *args), ("C",) * len(args))
    grids = [s.kernel for s in cuda_program(graph, values).steps if s.blocks != "1"]
    assert grids
    return {kernel: ptx_of(kernel, (8, 0)) for kernel in grids}


@pytest.mark.parametrize("name", ["elementwise", "sum", "rosenbrock", "bratu", "logistic"])
def test_neighbouring_threads_access_neighbouring_entries(name):
    """In kernels of whole grids, addresses grow by the bytes of an entry, or not at all.

    Tiles of rows and reductions included: rows of a matrix are copied to shared memory.
    """
    for kernel, ptx in grid_kernels(name).items():
        found = strides_of(ptx)
        assert set(found) <= {8, 0}, kernel.text
        assert found.count(8) > found.count(0) or name in ("sum", "logistic")


def test_neighbouring_threads_of_a_mixture():
    """All but those of its product over the rows of a tile, and few: what they read lies in L1."""
    ((_, ptx),) = grid_kernels("mixture").items()
    found = strides_of(ptx)
    assert set(found) == {8, 0, ROWS}
    assert 8 * found.count(ROWS) < found.count(8)


def test_rows_that_are_not_copied_are_seen(monkeypatch):
    """The test above fails for tiles whose threads read a row of global memory each."""
    monkeypatch.setattr(SharedRows, "kept", lambda *_: ([], {}))
    ((_, ptx),) = grid_kernels("logistic").items()
    assert ROWS in strides_of(ptx)


def test_accesses_that_are_apart_are_seen():
    """Each thread reads every second entry, or an entry that it looks up."""
    x, n = Parameter("x", "f8", address=True), Parameter("n", "i8", address=False)
    at = Parameter("at", "i8", address=True)
    head = "def kernel0(x, at, n):\n    i = np.int64(cuda.grid(1))\n"
    for place, wanted in (("2 * i", 16), ("n * i", ROWS), ("at[i]", None), ("n + i", 8)):
        kernel = CudaKernel("kernel0", f"{head}    x[{place}] = 0.0\n", (x, at, n))
        assert strides_of(ptx_of(kernel, (8, 0)))[-1] == wanted


def test_words_of_gpus_have_formulas_and_rows():
    assert OF_GPUS.keys() <= _FORMULAS.keys() <= OF_GPUS.keys() | WORDS.keys()

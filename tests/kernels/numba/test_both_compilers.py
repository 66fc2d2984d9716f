"""Each kernel by both compilers: LLVM alone, and Numba, which parses, types and lowers by itself.

Results are equal to the last bit. Where a kernel adds or multiplies by words that LLVM may reorder,
each compiler may form other vectors of the terms, and 1e-15 of the largest number is allowed.
"""

import itertools

import numpy as np
import pytest
from tapes import floating, like, load_every_table, tape_of, tape_of_op
from test_kernel_text import KERNELS
from thread_counts import ask_for_threads

import fdiff
from benchmarks.cases import CASES
from benchmarks.compilers import smallest
from benchmarks.peers import fdiff_peer
from benchmarks.worker import flat, prepared
from fdiff import kernels
from fdiff.primitive import PRIMITIVES
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

load_every_table()
ORDER = {np.dtype(np.float64): 1e-15, np.dtype(np.float32): 1e-15 * 2.0**29}
REORDERED = ("rt.add(", "rt.multiply(", "rt.call")
EACH = 6  # of so many ops, one is in the ordinary suite
LONG = {
    "LSTM",
    "HAND",
    "GMM",
    "bundle",
    "MLP",
    "Gaussian process",
    "Hessian Lennard-Jones",
}  # to compile


# Factorisations and solves are equal to the last bit; the sums of the gradient are not. Numba
# optimises a kernel once more within its caller, which changes the order of operands, by which
# LLVM's code generator (MachineCombiner) joins the partial sums of a loop: (a + b) + c + d here,
# (a + b) + (c + d) there. The terms of such a sum come to 5,640 in magnitude and cancel to 2.47:
# one rounding may be 2.5e-14 of the largest result, 24.86. Measured: 5.7e-16 (Ice Lake) and
# 1.15e-15; without AVX-512 (``FDIFF_CPU=x86-64-v3``, and as much for Numba), the same bits.
CANCELLING = {"Gaussian process": 4.0}


def check(by_llvm, by_numba, text, cancelling=1.0):
    """Equal to the last bit, but for the order of sums, and for the signs of NaN."""
    assert by_llvm.dtype == by_numba.dtype
    assert by_llvm.shape == by_numba.shape
    if by_llvm.tobytes() == by_numba.tobytes():
        return
    differ = ~((by_llvm == by_numba) & (np.signbit(by_llvm) == np.signbit(by_numba)))
    differ &= ~(np.isnan(by_llvm) & np.isnan(by_numba))
    if not differ.any():
        return
    assert any(word in text for word in REORDERED)
    scale = np.max(np.abs(by_llvm), initial=0.0, where=np.isfinite(by_llvm))
    atol = cancelling * ORDER[by_llvm.dtype] * scale
    np.testing.assert_allclose(by_numba, by_llvm, rtol=0.0, atol=atol)


def check_tape(tape, arrays):
    """The kernel of a tape for one thread, by both."""
    layouts = ("C",) * len(tape.inputs)
    found = [kernels.compile(tape, layouts, name) for name in ("llvm", "numba")]
    assert [kernel.compiler for kernel in found] == ["llvm", "numba"]
    assert found[0].source == found[1].source
    for a, b in zip(*(kernel(*arrays) for kernel in found), strict=True):
        check(a, b, found[0].source)


# --- golden files and ops -------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_golden_kernels(name, rng, monkeypatch):
    ask_for_threads(monkeypatch, 1)
    function, x, pull = KERNELS[name]
    tape = tape_of(function, x)
    tape = simplify(vjp(tape, [0])) if pull else tape
    check_tape(tape, [x + 0.1 * rng.normal(size=x.shape), *like(rng, tape.input_types[1:])])


def _ops():
    """The ops that have kernels, each with the first of its samples; most are slow tests."""
    rng, found = np.random.default_rng(0), itertools.count()
    for op in PRIMITIVES.values():
        if not op.samples:
            continue
        sample = op.samples[0]
        if kernels.supported(tape_of_op(op, sample.make(rng), sample.params)):
            marks = [pytest.mark.slow] if next(found) % EACH else []
            yield pytest.param(op, sample, id=op.name, marks=marks)


@pytest.mark.parametrize(("op", "sample"), list(_ops()))
def test_values_and_derivatives_of_ops(op, sample, rng, monkeypatch):
    ask_for_threads(monkeypatch, 1)
    arrays = sample.make(rng)
    tape = tape_of_op(op, arrays, sample.params)
    if floating(tape):
        pulled = simplify(vjp(tape, floating(tape)))
        tape = pulled if kernels.supported(pulled) else tape
    check_tape(tape, [*arrays, *like(rng, tape.input_types[len(arrays) :])])


# --- the benchmark set ----------------------------------------------------------------------------


def _smallest():
    """The smallest case of each problem of the benchmarks."""
    for case in smallest(list(CASES)):
        slow = any(name in case.problem for name in LONG)
        yield pytest.param(case, id=case.name, marks=[pytest.mark.slow] if slow else [])


# The user's loaders leave the closing of their files to the collector.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("case", list(_smallest()))
def test_the_benchmark_set(case, monkeypatch):
    ask_for_threads(monkeypatch, 1)
    monkeypatch.setenv("FDIFF_TIER", "compile")
    xs, _ = case.arguments()
    found = []
    for compiler in ("llvm", "numba"):
        monkeypatch.setenv("FDIFF_COMPILER", compiler)
        fdiff.cache_clear()
        derivative = prepared(case, "fdiff", fdiff_peer)
        found.append(flat(derivative(*xs)))
        assert ("compiled by Numba" in repr(derivative)) == (compiler == "numba")
    cancelling = next((v for name, v in CANCELLING.items() if name in case.problem), 1.0)
    check(*found, "rt.add(", cancelling)


# --- threads --------------------------------------------------------------------------------------


def rows(x, a):
    """Blocks of rows, a product of matrices in each, and a sum of all parts, none below zero."""
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum(np.log(np.sum(e, axis=1)) * np.tanh(x @ a)[:, 0] ** 2)


@pytest.mark.slow
def test_kernels_of_several_threads(rng, monkeypatch):
    ask_for_threads(monkeypatch, 2)
    x, a = rng.normal(size=(20_000, 30)), 0.1 * rng.normal(size=(30, 30))
    by = {name: fdiff.jit(fdiff.value_and_grad(rows), compiler=name) for name in ("llvm", "numba")}
    assert "worker" in fdiff.source(fdiff.value_and_grad(rows), x, a)
    for first, second in zip(by["llvm"](x, a), by["numba"](x, a), strict=True):
        check(np.asarray(first), np.asarray(second), "rt.add(")

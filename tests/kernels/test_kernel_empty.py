"""Kernels of arrays without entries, whose other axes may be of any length."""

import itertools

import numpy as np
import pytest
from tapes import tape_of

import fdiff
from fdiff import kernels
from fdiff.kernels.compiler_choice import COMPILERS
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

HUGE = 1 << 40  # entries: no machine has room for a row of them
# Each pair of axes of arrays of two to four axes: one is empty, the other is huge.
SHAPES = {
    tuple({empty: 0, huge: HUGE}.get(k, 3 + k) for k in range(rank)): huge
    for rank in (2, 3, 4)
    for empty, huge in itertools.permutations(range(rank), 2)
}
each_shape = pytest.mark.parametrize(("shape", "axis"), SHAPES.items(), ids=map(str, SHAPES))


def softmax(x, axis):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return np.sin(e / np.sum(e, axis=axis, keepdims=True)) * x


def long(x, axis):
    """More statements than a loop has: it is cut, and values are kept for a tile of rows."""
    y = x
    for k in range(700):
        y = np.sin(y) * (0.5 + k) + x
    return np.sum(y * y, axis=axis)


def workspace(tape):
    return kernels.workspace(tape, ("C",) * len(tape.inputs))


def runs(tape, *arrays):
    """Kernels by each compiler, within little memory: nothing is computed."""
    assert workspace(tape) == 0
    for compiler in COMPILERS:
        outputs = kernels.compile(tape, ("C",) * len(arrays), compiler)(*arrays)
        assert [(a.shape, a.dtype) for a in outputs] == [
            (t.shape, t.dtype) for t in tape.output_types
        ]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(0, HUGE), (HUGE, 0), (3, HUGE, 0)], ids=str)
def test_tiles_of_no_rows_take_no_memory(shape):
    """A kernel's workspace had a tile of 64 rows of whatever length, though there are no rows."""
    x, axis = np.empty(shape), SHAPES[shape]
    forward = tape_of(lambda x: softmax(x, axis), x)
    runs(forward, x)
    runs(simplify(vjp(forward, (0,))), x, x)


@each_shape
def test_tiles_of_no_rows_take_no_memory_along_any_axis(shape, axis):
    x = np.empty(shape)
    forward = tape_of(lambda x: softmax(x, axis), x)
    assert workspace(forward) == workspace(simplify(vjp(forward, (0,)))) == 0


@pytest.mark.parametrize("shape", [(0, HUGE), (HUGE, 0)], ids=str)
def test_pieces_of_a_long_loop_take_no_memory(shape):
    assert workspace(tape_of(lambda x: long(x, SHAPES[shape]), np.empty(shape))) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "solve"])
def test_routines_for_no_matrices_take_no_memory(name):
    """Scratch matrices were there for a stack of none."""
    routine = getattr(np.linalg, name)
    a = np.empty((0, 1 << 20, 1 << 20))
    runs(tape_of((lambda a: routine(a, a)) if name == "solve" else routine, a), a)


@pytest.mark.parametrize("tier", ["", "interpret", "compile"])
@pytest.mark.parametrize("shape", [(0, HUGE), (HUGE, 0), (3, 0, HUGE)], ids=str)
def test_derivatives_of_no_entries(shape, tier, monkeypatch):
    """Value, gradient, products and the dense Jacobian are as empty as they should be."""
    monkeypatch.setenv("FDIFF_TIER", tier)
    x, axis = np.empty(shape), SHAPES[shape]

    def total(x):
        return np.sum(softmax(x, axis))

    def reduced(x):
        return np.sum(np.sin(x) * np.exp(x), axis=axis)

    assert fdiff.jit(total)(x) == 0.0
    assert fdiff.grad(total)(x).shape == fdiff.hvp(total)(x, x).shape == shape
    for jacobian in (fdiff.jacfwd, fdiff.jacrev):
        rows = tuple(n for k, n in enumerate(shape) if k != axis)
        assert jacobian(reduced)(x).shape == (*rows, *shape)


@pytest.mark.parametrize("shape", [(0, HUGE), (HUGE, 0), (1 << 33,)], ids=str)
def test_long_axes_are_refused_by_bytecode(shape):
    """Its places and lengths have 32 bits: that was a defect, even where there are no entries."""
    x = np.broadcast_to(1.0, shape)
    tape = fdiff.make_tape(lambda x: np.max(np.sin(x), axis=SHAPES.get(shape, 0)), x)
    with pytest.raises(kernels.RefusedError, match="more than 32 bits"):
        kernels.encode(tape)

"""Kernels of unrolled programs: loops that are cut, and functions that are outlined."""

import ctypes
import re

import numpy as np
import pytest
from tapes import tape_of

from fdiff import kernels
from fdiff.interpret import evaluate
from fdiff.kernels.codegen import kernel, outlining
from fdiff.kernels.codegen.lines import deeper, leave, let, loop_head, store, texts_of
from fdiff.kernels.llvm import machine
from fdiff.kernels.llvm.machine import Loaded, object_code, optimised
from fdiff.kernels.llvm.text_to_module import module_of
from fdiff.kernels.passes.tile import loop_fission
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify


@pytest.fixture(autouse=True)
def unrolled(monkeypatch):
    """Plain loops stay unrolled: their tapes are the long ones."""
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")


@pytest.fixture(params=[1, 2])
def short(monkeypatch, request):
    """Every loop of more than a few statements is cut, every kernel is outlined."""
    n = request.param
    for module, limits in (
        (kernel, {"LONG": 0}),
        (outlining, {"STRAIGHT": 1}),
        (
            loop_fission,
            {
                "LONGEST_BODY": 3 * n,
                "SHORTEST_PIECE": n,
                "USUAL_PIECE": n,
                "LONGEST_PIECE": 2 * n - 1,
                "ROWS": "3",
            },
        ),
    ):
        for name, limit in limits.items():
            monkeypatch.setattr(module, name, limit)
    kernels.cache_clear()
    yield
    kernels.cache_clear()


def agree(tape, arrays, tolerance=1e-11):
    run = kernels.compile(tape, ("C",) * len(arrays))
    for got, want in zip(run(*arrays), evaluate(tape, *arrays), strict=True):
        assert np.asarray(got).dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return run.source


def with_gradient(f, *arrays):
    tape = tape_of(f, *arrays)
    pulled = simplify(vjp(tape, list(range(len(arrays)))))
    return tape, pulled, (*arrays, *(np.ones(t.shape, t.dtype) for t in tape.output_types))


def swing(steps):
    """A pendulum of arrays: an elementwise loop as long as there are steps."""

    def f(x, v):
        for _ in range(steps):
            x, v = x + 0.1 * v, v - 0.1 * x * x * x
        return np.sum(x * v)

    return f


def orbit(steps):
    """The same of two numbers: no loop at all."""

    def f(p):
        x, v = p[0], p[1]
        for _ in range(steps):
            x, v = x + 0.1 * v, v - 0.1 * np.sin(x)
        return x * v

    return f


def cells(steps):
    """Recurrent cells with a loss at each step: sums that later loops read."""

    def f(w, u, x):
        h, total = np.zeros_like(w), 0.0
        for t in range(steps):
            gate = 1.0 / (1.0 + np.exp(-(w * x[t] + u * h)))
            h = gate * np.tanh(h + x[t]) + (1.0 - gate) * h
            total = total + np.log(np.sum(np.exp(h))) - np.sum(h * x[t])
        return total

    return f


def relay(steps):
    """Each step reads a number that the one before it has made: a loop of its own."""

    def f(w, u, x):
        s, total = 0.0, 0.0
        for t in range(steps):
            y = np.tanh(w * x[t] + u * s)
            s = np.sum(y * y) / y.size
            total = total + np.sum(x[t] * u) * s
        return total

    return f


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


LONG = {
    "rows of arrays": lambda n: (swing(n), np.linspace(0.1, 0.9, 150), np.linspace(-0.5, 0.5, 150)),
    "few entries": lambda n: (swing(n), np.array([0.2, 0.4]), np.array([0.1, -0.3])),
    "matrices": lambda n: (swing(n), normal(5, 30) / 9, normal(5, 30) / 9),
    "single precision": lambda n: (
        swing(n), np.linspace(0.1, 0.9, 70, dtype="f4"), np.linspace(-0.5, 0.5, 70, dtype="f4"),
    ),
    "numbers": lambda n: (orbit(n), np.array([0.3, 0.2])),
    "recurrent cells": lambda n: (cells(n), normal(14), normal(14), normal(n, 14)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", LONG)
def test_a_long_program_is_compiled_as_it_is_interpreted(case):
    f, *arrays = LONG[case](130)
    _, pulled, given = with_gradient(f, *arrays)
    assert len(pulled) > 800
    source = agree(pulled, given, 1e-4 if case == "single precision" else 1e-11)
    assert source.startswith("def outlined0(")


@pytest.mark.parametrize(
    "case",
    ["rows of arrays", "numbers", pytest.param("recurrent cells", marks=pytest.mark.slow)],
)
def test_what_repeats_is_compiled_once(case):
    """Twice as many steps of a program: more calls of as many functions, or nearly so."""

    def counted(steps):
        f, *arrays = LONG[case](steps)
        _, pulled, given = with_gradient(f, *arrays)
        source = kernels.source(pulled, ("C",) * len(given))
        functions, calls = (
            re.findall(r"^def outlined", source, re.MULTILINE),
            re.findall(r"outlined\d+\(", source),
        )
        return len(functions), len(calls) - len(functions)

    (functions, calls), (more, twice) = counted(250), counted(500)
    assert twice > 1.6 * calls
    assert more - functions <= 0.3 * (twice - calls)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3,), (14,), (700,), (300, 2), (5, 300)])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_terms_of_all_steps_stand_side_by_side(shape, dtype):
    """The gradient with respect to weights is a sum of terms, one of each step."""
    f = relay(60)
    arrays = [normal(*n).astype(dtype) / 3 for n in (shape, shape, (60, *shape))]
    _, pulled, given = with_gradient(f, *arrays)
    agree(pulled, given, 1e-11 if dtype == "f8" else 1e-4)


@pytest.mark.slow
def test_the_same_functions_serve_all_layers_of_a_short_kernel_too(short):
    """Every entry, sum, scan, gather and scatter survives being cut into pieces of four lines."""

    def f(x, i):
        y = np.cumsum(np.sin(x) * x + np.exp(-x) * x[::-1])
        z = y[i] * np.cos(y[i]) + np.maximum.accumulate(y * x)[i] / (1.0 + y[i] ** 2)
        best = np.argmax(y * x - x)
        w = np.where(z > 0.2, z * z, -z) * np.sqrt(1.0 + z * z) + y[best]
        return np.sum(w * w + w), np.concatenate([w * 2.0, y - 1.0]), np.max(w, axis=0)

    arrays = (np.linspace(-1.5, 1.2, 11), np.array([3, -1, 3, 0, 7]))
    tape = tape_of(f, *arrays)
    assert "outlined1(" in agree(tape, arrays)
    bars = [np.cos(np.arange(t.size)).reshape(t.shape)[()] for t in tape.output_types]
    agree(simplify(vjp(tape, [0])), (*arrays, *bars))


def test_matrices_and_their_rows_are_cut_alike(short):
    def f(a, b):
        c = np.tanh(a * b + a) * a - b
        d = c * np.sum(c * c, axis=1, keepdims=True) + np.exp(-c) * b
        return np.sum(d * d / (1.0 + c * c), axis=0), d.T * 2.0

    arrays = (normal(7, 4), normal(7, 4))
    tape = tape_of(f, *arrays)
    agree(tape, arrays)
    bars = [np.cos(np.arange(t.size)).reshape(t.shape) for t in tape.output_types]
    agree(simplify(vjp(tape, [0, 1])), (*arrays, *bars))


def test_an_index_out_of_bounds_is_an_error_in_a_long_kernel():
    f = swing(130)

    def g(x, v, i):
        return f(x[i], v)

    x, v = np.linspace(0.1, 0.9, 20), np.zeros(20)
    tape = tape_of(g, x, v, np.arange(20))
    run = kernels.compile(tape, ("C",) * 3)
    assert "outlined0(" in run.source
    np.testing.assert_allclose(run(x, v, np.arange(20))[0], f(x, v))
    with pytest.raises(IndexError):
        run(x, v, np.arange(20) + 1)


@pytest.mark.slow
def test_huge_angles_in_a_long_kernel_are_exact():
    """The angle is beyond what the fast sine serves in one step of many."""
    _, pulled, _ = with_gradient(orbit(130), np.array([0.3, 0.2]))
    given = (np.array([3e10, 0.2]), np.array(1.0))
    source = agree(pulled, given)
    assert re.search(r"out_of_range(, .*)? = outlined|, out_of_range.* = outlined", source)


def test_an_accumulator_and_what_reads_it_stay_together(short):
    """A sum that has run up to an entry is read there: nothing between may be cut."""

    def f(x):
        y = np.sin(x) + x * x
        return np.cumsum(y) * np.exp(-x) + y, np.cumprod(1.0 + 0.1 * y), np.sum(y)

    agree(tape_of(f, np.linspace(-1.0, 2.0, 17)), (np.linspace(-1.0, 2.0, 17),))


def test_a_scan_along_an_inner_axis_stays_in_one_loop(short):
    """Each entry reads the one before it, which the same loop has stored."""

    def f(x):
        y = np.cumsum(np.sin(x) * x + x, axis=1)
        return np.exp(-y) * y + x, np.cumsum(y * y - x, axis=1) * x

    x = normal(4, 5, 3)
    tape = tape_of(f, x)
    source = agree(tape, (x,))
    assert "outlined0(" in source
    agree(simplify(vjp(tape, [0])), (x, np.cos(x), np.sin(x)))


def loop_region(count, line):
    return outlining.Region((loop_head("i0", count), *deeper([line])))


def test_an_outlined_function_returns_what_is_read_later():
    """Loops of one text are two functions where a local of only one of them is read again."""
    regions = [loop_region(f"n{k}", let(f"s{k}", f"x{k}[i0] * 2.0")) for k in range(3)]
    tail = [store("out0[0]", "s0 + s2"), leave(0)]
    functions, body = outlining.outline(regions, tail, {"x1": "r4"})
    calls = ["s0 = outlined0(n0, x0)", "outlined1(n1, r4)", "s2 = outlined0(n2, x2)"]
    assert texts_of(body) == calls
    assert [line for line in texts_of(functions) if line.startswith("def ")] == [
        "def outlined0(n0, x0):", "def outlined1(n1, x1):",
    ]  # fmt: skip


def test_no_outlined_function_is_given_one_buffer_by_two_names():
    region = loop_region("n0", store("t1[i0]", "t2[i0]"))
    functions, body = outlining.outline([region], [leave(0)], {"t1": "r0", "t2": "r0"})
    assert not functions
    assert body == list(region.lines)


def summed(lines):
    """The module of an outlined function with a loop of so many lines."""
    middle = "".join(f"        v{k + 1} = rt.tanh(v{k}) + x[i0]\n" for k in range(lines))
    return module_of(SUMMED.format(middle=middle, last=f"v{lines}"), "summed")


@pytest.mark.parametrize("lines", [0, 40])  # between them the number of registers decides
def test_only_short_outlined_loops_are_interleaved(lines):
    """Several vectors of turns side by side make sums faster where there is little else to do."""
    made = machine.llvm.parse_assembly(optimised(summed(lines), packed=False))
    (function,) = (
        f for f in made.functions if f.name.startswith("local_outlined0") and "_of_" not in f.name
    )
    (body,) = (block for block in function.blocks if block.name == "vector.body")
    sums = sum(1 for i in body.instructions if i.opcode == "phi") - 1
    assert (sums > 1) == (lines == 0)


@pytest.mark.parametrize("lines", [4, 40])
def test_the_last_turns_of_a_loop_touch_nothing_behind_it(lines):
    """They are a vector of which some entries are left out."""
    code = Loaded(object_code(summed(lines), packed=False), "summed")
    call = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)(code.address)
    x = np.linspace(-1.0, 2.0, 40)
    y = x
    for _ in range(lines):
        y = np.tanh(y) + x
    for n in range(36):
        out, given, ints = np.zeros(1), np.full(40, -5.0), np.array([n])
        data = np.array([a.ctypes.data for a in (x, given, out)])
        assert call(*(a.ctypes.data for a in (data, ints, ints, out))) == 0
        np.testing.assert_allclose(given, [*y[:n], *[-5.0] * (40 - n)], rtol=1e-14)
        np.testing.assert_allclose(out[0], y[:n].sum(), rtol=1e-13, atol=1e-13)


SUMMED = """
def outlined0(n, x, y):
    s = np.float64(0)
    for i0 in range(n):
        v0 = x[i0]
{middle}        y[i0] = {last}
        s = rt.add(s, {last})
    return s


def kernel(
    x0: "f8* data[0]", out0: "f8* data[1]", out1: "f8* data[2]", strides: "i8* strides",
    ints: "i8* ints", floats: "f8* floats",
):
    n0 = ints[0]
    s = outlined0(n0, x0, out0)
    out1[0] = s
    return 0
"""
DIRECT = """
def outlined0(t):
    for i0 in range(3):
        t[i0] = t[i0] + 1.0
    return


def kernel(
    out0: "f8* data[0]", strides: "i8* strides", ints: "i8* ints", floats: "f8* floats",
    r0: "f8* work[0]",
):
    t1 = r0
    t1[0] = 1.0
    t1[1] = 2.0
    t1[2] = 3.0
    outlined0(r0)
    out0[0] = t1[0] + t1[1] * t1[2]
    return 0
"""


def test_memory_that_is_used_beside_a_step_is_what_the_step_made_of_it():
    code = Loaded(object_code(module_of(DIRECT, "direct")), "direct")
    out, room, ints = np.zeros(1), np.zeros(3), np.zeros(1, np.int64)
    data = np.array([out.ctypes.data, room.ctypes.data])
    tables = [a.ctypes.data for a in (data, ints, ints, np.zeros(1))]
    call = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)(code.address)
    assert call(*tables) == 0
    assert out[0] == 2.0 + 3.0 * 4.0

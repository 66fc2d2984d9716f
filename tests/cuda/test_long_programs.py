"""Nests of hundreds of arrays, and kernels launched for several pieces of memory: values."""

from itertools import pairwise

import numpy as np
import pytest
from programs import PROGRAMS, flat
from running import TUNING, program_of, run_on_device

import fdiff
from benchmarks import problems
from fdiff.kernels.cuda.cuda_program import evaluate, numbers_of
from fdiff.kernels.cuda.nests import shared_rows
from fdiff.kernels.cuda.nests.nest_mapping import map_nest
from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.ir.loops import StatementKind
from fdiff.kernels.passes.pipeline import lower_for_cuda, lower_graph, run
from fdiff.kernels.passes.tile import loop_distribution
from fdiff.transforms.simplify import simplify

SLOW = {"mixture of components", "network"}  # half a minute each on the simulator


def weighted(*arrays):
    """Products of neighbours, and a running sum that goes through all arrays."""
    total = np.zeros(arrays[0].shape)
    for k, (x, y) in enumerate(pairwise(arrays)):
        total = total * 0.5 + (k + 1.0) * x * y
    return total, np.sum(arrays[0] * arrays[-1]), np.max(arrays[3])


def large_nests(program):
    return [item for item in program.items if loop_distribution._large(item)]


def test_nests_of_hundreds_of_arrays_are_distributed(rng):
    arrays = [rng.normal(size=5) for _ in range(150)]
    tape = fdiff.make_tape(weighted, *arrays)
    graph, _ = kernel_graph(tape, ("C",) * len(arrays))
    assert large_nests(run(graph, "tile_rows"))
    assert not large_nests(lower_for_cuda(graph))
    for got, want in zip(run_on_device(tape, *arrays), weighted(*arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - SLOW))
def test_distribution_keeps_values(name, monkeypatch):
    """Every nest is cut wherever it may be."""
    for limit in ("MOST_HELD", "PIECE_HELD", "LEAST_HELD"):
        monkeypatch.setattr(loop_distribution, limit, 1)
    f, args = PROGRAMS[name]
    expected = flat(f(*args))
    tape = simplify(fdiff.make_tape(f, *args))
    for got, want in zip(run_on_device(tape, *args), expected, strict=True):
        tolerance = 2e-5 if want.dtype == np.float32 else 1e-11
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_distribution_cuts_something(monkeypatch):
    """What the test above takes for granted."""
    monkeypatch.setattr(loop_distribution, "MOST_HELD", 1)
    monkeypatch.setattr(loop_distribution, "PIECE_HELD", 1)
    cut = 0
    for f, args in PROGRAMS.values():
        graph, _ = kernel_graph(simplify(fdiff.make_tape(f, *args)), ("C",) * len(args))
        cut += len(lower_for_cuda(graph).items) > len(run(graph, "tile_rows").items)
    assert cut >= 10


def test_equal_kernels_are_launched_with_other_memory(rng):
    """Rounds of a loop between which something else has to be done: a sum of all entries."""

    def rounds(x):
        for _ in range(6):
            x = np.exp(-x * x) + x / np.sum(x * x)
        return x

    x = rng.normal(size=60)  # more than one block's work on the simulator
    tape = fdiff.make_tape(rounds, x)
    program, _, _ = program_of(tape)
    assert len(program.kernels) < len(program.steps)
    arguments = {step.arguments for step in program.steps}
    assert len(arguments) == len(program.steps)
    (got,) = run_on_device(tape, x)
    np.testing.assert_allclose(got, rounds(x), rtol=1e-12)
    assert f"# {program.kernels[1].name}(" in program.text


def test_kernels_of_other_dtypes_are_not_shared(rng):
    x = rng.normal(size=60)

    def both(x, y):
        return np.exp(x), np.exp(y)

    tape = fdiff.make_tape(both, x, x.astype(np.float32))
    program, _, _ = program_of(tape)
    dtypes = [tuple(p.dtype for p in k.parameters) for k in program.kernels]
    assert len(set(dtypes)) == len(dtypes)
    for got, want in zip(
        run_on_device(tape, x, x.astype(np.float32)), both(x, x.astype(np.float32)), strict=True
    ):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("points", [24, 25, 31])
def test_rows_of_tiles_are_copied_to_shared_memory(dtype, points, rng):
    """Blocks take several tiles, the last of which has fewer rows."""
    f, _ = PROGRAMS["logistic"]
    shapes = (4, (points, 4), points)
    args = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    tape = simplify(fdiff.make_tape(f, *args))
    program, _, _ = program_of(tape)
    assert "x1_rows = cuda.shared.array(" in program.text
    x, a, y = (np.asarray(arg, np.float64) for arg in args)
    margin = y * (a @ x)
    slope = 0.01 * x - (y / (1 + np.exp(margin))) @ a / points
    loss = np.mean(np.log1p(np.exp(-margin))) + 0.005 * np.sum(x * x)
    value, got = run_on_device(tape, *args)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(value, loss, rtol=tolerance)
    np.testing.assert_allclose(got, slope, rtol=tolerance, atol=tolerance)


def test_rows_of_entries_are_found_without_division():
    """Of as many entries as shared memory has room for, in rows of any length."""
    entries = np.arange(shared_rows.MOST_BYTES // 4)
    for n in range(1, len(entries)):
        found = entries * shared_rows._reciprocal(n) >> shared_rows._BITS
        assert np.array_equal(found, entries // n), n
    for n in range(1, shared_rows._LONGEST, 101):  # single bytes
        entries = np.arange(shared_rows.MOST_BYTES // n * n)
        found = entries * shared_rows._reciprocal(n) >> shared_rows._BITS
        assert np.array_equal(found, entries // n), n


def test_values_are_stored_for_later_nests_only_where_that_is_cheaper():
    """A GPU computes again an exponential that a CPU stores, but not one of five points."""
    tape = fdiff.make_tape(fdiff.value_and_grad(problems.bratu), np.zeros((40, 40)))
    graph, _ = kernel_graph(tape, ("C",))
    on_cpu, on_gpu = lower_graph(graph), lower_for_cuda(graph)
    assert len(on_cpu.temporaries) == 2
    assert len(on_gpu.temporaries) == 1


@pytest.mark.parametrize("shapes", [((90, 30), (30, 20), (20, 10)), ((40, 2), (2, 3), (3, 1))])
def test_rows_of_products_alone(shapes, rng):
    """Tiles without a nest: products of large matrices are kernels of their own, or a library's."""
    arrays = [rng.normal(size=shape) for shape in shapes]
    tape = fdiff.make_tape(lambda x, a, b: x @ a @ b, *arrays)
    (got,) = run_on_device(tape, *arrays)
    np.testing.assert_allclose(got, arrays[0] @ arrays[1] @ arrays[2], rtol=1e-12, atol=1e-12)


def test_what_a_product_writes_is_not_read_before(rng):
    """Rows that a product of the same tile writes are no rows to copy when the tile begins."""
    shapes = ((64, 34), (34, 36), (36, 35))
    arrays = [rng.normal(size=shape) for shape in shapes]
    tape = fdiff.make_tape(lambda x, w, u: (x @ w, np.tanh(x @ w) @ u), *arrays)
    x, w, u = arrays
    program, _, _ = program_of(tape, tuning=TUNING._replace(tiles=8))
    assert "out0_rows" not in program.text
    first, second = run_on_device(tape, *arrays)
    np.testing.assert_allclose(first, x @ w, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(second, np.tanh(x @ w) @ u, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reduce", [np.max, np.min, np.prod, np.sum])
@pytest.mark.parametrize("shape", [(64, 2, 3), (80, 5, 7), (9, 40, 2)])
@pytest.mark.parametrize("deterministic", [False, True])
def test_reductions_over_outer_and_inner_axes(reduce, shape, deterministic, rng):
    """What inner sums update is updated by one thread, or atomically."""
    x = rng.uniform(0.9, 1.1, size=shape)
    tape = fdiff.make_tape(lambda x: reduce(x, axis=(0, 2)), x)
    (got,) = run_on_device(tape, x, deterministic=deterministic)
    np.testing.assert_allclose(got, reduce(x, axis=(0, 2)), rtol=1e-12)
    graph, _ = kernel_graph(tape, ("C",))
    loops = lower_for_cuda(graph)
    for nest in loops.items:
        mapped = map_nest(nest, loops.memory, atomics=not deterministic)
        inner = [a for a in mapped.nest.accumulators if a.depth > mapped.parallel]
        updates = any(s.kind is StatementKind.UPDATE for a in inner for s in a.final)
        assert not (updates and mapped.reduced) or mapped.atomic


def test_boundaries_are_boxes():
    """No loop of a GPU runs over an interior that it leaves out; boxes are all that is around."""
    tape = fdiff.make_tape(fdiff.value_and_grad(problems.bratu), np.zeros((7, 9)))
    graph, values = kernel_graph(tape, ("C",))
    (around,) = [n for n in run(graph, "distribute_loops").items if n.excluded]
    numbers = numbers_of(graph, values)
    seen = np.zeros((7, 9), int)
    for nest in lower_for_cuda(graph).items:
        assert not nest.excluded
        if nest.comment == around.comment:
            ranges = [r or ("0", d) for r, d in zip(nest.ranges, nest.domain, strict=True)]
            seen[tuple(slice(*(evaluate(e, numbers) for e in r)) for r in ranges)] += 1
    inside = [[evaluate(e, numbers) for e in r] for r in around.excluded]
    assert inside == [[2, 5], [2, 7]]
    seen[2:-2, 2:-2] += 1
    assert (seen == 1).all()

"""Dense Jacobians and Hessians in chunks: the same numbers, within a byte budget."""

import tracemalloc

import numpy as np
import pytest

import fdiff
from fdiff.dispatch.plans import execute
from fdiff.functional.operators import dense_modes, dense_plans

MIB = 2**20


@pytest.fixture(autouse=True)
def interpreter(monkeypatch):
    """Kernels hold less than the interpreter does: it is the one to measure."""
    monkeypatch.setenv("FDIFF_TIER", "interpret")


@pytest.fixture
def budget(monkeypatch):
    """Set the bytes a pass may hold; programs made before know nothing of it."""

    def allow(size):
        fdiff.cache_clear()
        monkeypatch.setattr(dense_modes, "BUDGET", size)

    yield allow
    fdiff.cache_clear()


def peak(call):
    """The result, and how many bytes beyond it were held at the worst moment."""
    tracemalloc.start()
    try:
        result = call()
        return result, tracemalloc.get_traced_memory()[1] - result.nbytes
    finally:
        tracemalloc.stop()


def distances(x):
    """All distances between points: every pair twice."""
    d = x[:, None, :] - x[None, :, :]
    return np.sqrt(np.sum(d * d, axis=2) + 1e-3)


def energy(x):
    """The example of jax issue 787, at 2483 points: 551 GB were asked for a Hessian of 221 MB."""
    return np.sum(distances(x))


POINTS = np.random.default_rng(7).normal(size=(60, 3))


def several(a, b):
    return np.sin(a) * np.sum(b), np.outer(a, b * b), np.sum(a) * 2


A, B = np.array([0.5, 1.5]), np.array([1.0, 2.0, 3.0])


def flat(tree):
    return [x for part in tree for x in flat(part)] if isinstance(tree, tuple) else [tree]


# --- the same numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("chunk_size", [1, 2, 4, 100, "auto", None])
def test_a_jacobian_by_chunks_is_the_jacobian(mode, chunk_size):
    whole = fdiff.jacobian(several, (A, B), mode="reverse")
    found = fdiff.jacobian(several, (A, B), mode=mode, chunk_size=chunk_size)
    for f, w in zip(flat(found), flat(whole), strict=True):
        assert f.shape == w.shape
        np.testing.assert_allclose(f, w, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("chunk_size", [1, 2, 100])
def test_a_hessian_by_chunks_is_the_hessian_and_symmetric(chunk_size):
    def f(a, b):
        return np.sum(np.sin(np.outer(a, b)) * a[:, None])

    whole = fdiff.hessian(f, (A, B))
    found = fdiff.hessian(f, (A, B), chunk_size=chunk_size)
    for f_, w in zip(flat(found), flat(whole), strict=True):
        np.testing.assert_allclose(f_, w, rtol=1e-13, atol=1e-14)
    for hessian in (whole, found):
        for i in range(2):
            for j in range(2):
                np.testing.assert_array_equal(hessian[i][j], hessian[j][i].T)


@pytest.mark.parametrize("tier", ["interpret", "compile"])
@pytest.mark.parametrize("name", ["jacrev", "jacfwd", "jacobian"])
def test_chunks_on_both_tiers(name, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    f = lambda x: np.cumsum(np.exp(x) * x[0])
    x = np.linspace(0.1, 0.7, 7)
    whole = getattr(fdiff, name)(f)(x)
    for chunk_size in (1, 3, 7):
        found = getattr(fdiff, name)(f, chunk_size=chunk_size)(x)
        np.testing.assert_allclose(found, whole, rtol=1e-13)


def test_chunks_of_mixed_outputs():
    f = lambda x: (np.floor(x).astype(int), x * x, np.ones(2), 3.0)
    for mode in ("forward", "reverse"):
        found = fdiff.jacobian(f, A, mode=mode, chunk_size=1)
        np.testing.assert_array_equal(found[1], np.diag(2 * A))
        assert all(not np.any(found[k]) for k in (0, 2, 3))
    assert fdiff.jacobian(np.square, np.zeros(0), chunk_size=1).shape == (0, 0)
    assert fdiff.jacobian(lambda x: x[:0], A, chunk_size=1).shape == (0, 2)
    single = A.astype(np.float32)
    assert fdiff.jacobian(lambda x: x * B[:2], single, chunk_size=1).dtype == np.float32


def test_chunks_inside_a_trace_are_one_tape():
    f = lambda x: np.sum(fdiff.jacobian(lambda y: y**3, chunk_size=1)(x))
    np.testing.assert_allclose(fdiff.grad(f)(B), 6 * B)


# --- the way through the matrix -------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns", "wanted"), [(2, 5, "reverse"), (5, 2, "forward")])
def test_the_fewer_passes_are_taken(rows, columns, wanted):
    matrix = np.arange(10.0).reshape(rows, columns)
    tape = fdiff.make_tape(lambda x: matrix @ np.sin(x), np.ones(columns))
    assert dense_modes.pick_mode("auto", tape, (0,)) == wanted
    assert dense_modes.pick_mode("forward", tape, (0,)) == "forward"
    x = np.ones(columns)
    for mode in ("auto", "forward", "reverse"):
        found = fdiff.jacobian(lambda x: matrix @ np.sin(x), x, mode=mode)
        np.testing.assert_allclose(found, matrix * np.cos(x), rtol=1e-15)


# --- the budget -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 4, 16])
def test_the_budget_bounds_what_a_jacobian_holds(budget, size):
    budget(size * MIB)
    found, held = peak(lambda: fdiff.jacobian(distances, POINTS))
    assert found.shape == (60, 60, 60, 3)
    assert held < size * MIB + 2 * MIB  # and what one evaluation holds, 0.5 MiB an array
    whole = fdiff.jacobian(distances, POINTS, chunk_size=POINTS.size)
    np.testing.assert_allclose(found, whole, rtol=1e-13, atol=1e-15)


def test_without_a_budget_more_is_held(budget):
    """The measure can tell: in one piece, the intermediate values take many times as much."""
    budget(1 * MIB)
    _, held = peak(lambda: fdiff.jacobian(distances, POINTS))
    _, whole = peak(lambda: fdiff.jacobian(distances, POINTS, chunk_size=POINTS.size))
    assert whole > 8 * held


@pytest.mark.parametrize("size", [1, 8])
def test_the_budget_bounds_what_a_hessian_holds(budget, size):
    budget(size * MIB)
    found, held = peak(lambda: fdiff.hessian(energy, POINTS))
    assert found.shape == (60, 3, 60, 3)
    assert held < size * MIB + 2 * MIB
    assert np.array_equal(found, np.transpose(found, (2, 3, 0, 1)))


def test_chunk_size_one_holds_one_column(budget):
    budget(2**40)
    _, held = peak(lambda: fdiff.hessian(energy, POINTS, chunk_size=1))
    assert held < 2 * MIB


@pytest.mark.slow
def test_the_hessian_of_jax_issue_787_takes_less_than_a_gigabyte_beyond_its_result():
    """Two of its 7449 columns are computed: all are alike, and each begins with nothing held."""
    points = np.random.default_rng(7).normal(size=(2483, 3))

    def derive(traced):
        return dense_plans.hessian_plan(traced, "auto", None)

    tracemalloc.start()
    try:
        program = fdiff.dispatch.program.Program("hessian", 0, derive)
        variant, arrays = program.find(energy, (points,), {})
        block = variant.plan.derivative.blocks[0]
        for lo in range(2):
            execute(block.step(1), [*arrays, np.int64(lo)])
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert variant.plan.sweeps.chunks == [1]  # a column alone takes more than the budget
    assert held < 1024 * MIB


def test_many_points_in_one_jacobian():
    """2483 points of three coordinates: a Jacobian of 148 MB, in less than 0.5 GB beyond it."""
    points = np.random.default_rng(7).normal(size=(2483, 3))
    centre = np.zeros(3)

    def radii(x):
        return np.sqrt(np.sum((x - centre) ** 2, axis=1))

    found, held = peak(lambda: fdiff.jacobian(radii, points, mode="reverse"))
    assert found.shape == (2483, 2483, 3)
    assert held < 512 * MIB
    rows = np.arange(2483)
    unit = points / radii(points)[:, None]
    np.testing.assert_allclose(found[rows, rows], unit, rtol=1e-13)
    assert np.count_nonzero(found) == points.size

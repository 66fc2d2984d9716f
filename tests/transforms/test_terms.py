"""Sparse derivatives by terms and cuts: each op, random programs, entries that do not exist."""

import os

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tapes import load_every_table, tape_of_op, values

from fdiff.dispatch.program import Program
from fdiff.functional.call.device_calls import tracing_for
from fdiff.functional.operators.block_results import block_type
from fdiff.functional.operators.jit_programs import ValuePlan
from fdiff.ops.terms import common
from fdiff.primitive import PRIMITIVES
from fdiff.transforms.pipeline import COLUMNS, GRADIENT, derive
from fdiff.transforms.terms import sparse_tapes, term_sweep
from fdiff.transforms.terms.sparse_tapes import StructureRequest, sparse_tape

load_every_table()
LONG = "FDIFF_LONG_TESTS" in os.environ
SLOW = pytest.mark.slow
MODES = ("forward", "reverse")
CASES = [
    pytest.param(op, sample, id=f"{op.name}-{k}")
    for op in PRIMITIVES.values()
    if op.rules.jvp is not None and not op.rules.refuses
    for k, sample in enumerate(op.samples)
]


def traced(f, x):
    """The tape of `f` as operators have it, and its inputs: `x`, then what `f` captures."""
    with tracing_for(None):
        variant, inputs = Program("make_tape", None, ValuePlan).trace(f, (x,), {})
    return variant.traced.tape, [np.asarray(a) for a in inputs]


def blocks(tape, arrays, k, **asked):
    """Every block of the sparse derivative with respect to input `k`, and what it is made of."""
    types = tuple(block_type(o, tape.input_types[k], "forward") for o in tape.output_types)
    known = [None if j == k else (lambda a=a: np.asarray(a)) for j, a in enumerate(arrays)]
    result = sparse_tape(tape, StructureRequest((k,), types=types, **asked), known)
    kind = sp.csc_array if asked.get("by_columns") else sp.csr_array
    data = values(result.tape, *arrays)
    arrays = [
        kind((d, b.indices, b.starts), shape=b.shape)
        for d, b in zip(data, result.blocks, strict=True)
    ]
    assert all(a.has_canonical_format for a in arrays)
    return arrays, result


def dense(tape, arrays, k, o):
    """The same block by a dense sweep, which knows nothing of terms."""
    size = tape.input_types[k].size
    block = values(derive(COLUMNS, tape, wrt=(k,), of=(o,), size=size), *arrays)[0]
    return block.reshape((tape.output_types[o].size, size))


def close(found, expected, tolerance=1e-9):
    scale = max(1.0, np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_every_op_in_both_modes(op, sample, rng):
    arrays = [np.asarray(a) for a in sample.make(rng)]
    tape = tape_of_op(op, arrays, sample.params)
    wide = [o for o, t in enumerate(tape.output_types) if t.floating]
    for k, type_ in enumerate(tape.input_types):
        if not (wide and type_.floating and type_.size):
            continue
        for mode in MODES:
            result, _ = blocks(tape, arrays, k, mode=mode)
            for o in wide:
                expected = dense(tape, arrays, k, o)
                if o not in sample.constant:
                    close(result[o].toarray(), expected, 1e-6 if type_.dtype == "f4" else 1e-9)
                assert not np.any(expected[~places(result[o])]) or o in sample.constant


def places(array):
    """Where an array has entries, zeros included."""
    full = np.zeros(array.shape, bool)
    coo = array.tocoo()
    full[coo.coords] = True
    return full


# --- random programs --------------------------------------------------------------------------


def step(kind, a, pool, r):
    """One step of a random program: an array made of `a`."""
    flat, shape = a.reshape(-1), a.shape
    many, last = bool(shape and shape[-1] > 1), bool(shape)
    match kind:
        case 0:
            return np.sin(a) * a
        case 1:
            return a[..., 1:] * a[..., :-1] if many else a * 2
        case 2:
            return flat[r.integers(-a.size, a.size, (int(r.integers(1, 4)), 3))]
        case 3:
            b = np.zeros(7)
            np.add.at(b, r.integers(0, 7, a.size), flat)
            return b
        case 4:
            return np.sum(a * a, axis=int(r.integers(a.ndim))) if last else a * a
        case 5:
            b = np.zeros(a.size + 3)
            b[1 : 1 + a.size] = flat
            b[2] = flat[0] * 3
            b[::2] = b[::2] ** 2
            b[-1::-3] = b[::3] * 2 if len(b[-1::-3]) == len(b[::3]) else 1.0
            return b
        case 6:
            return np.concatenate([flat, [np.sum(a)], flat[::-1] ** 2])
        case 7:
            return np.roll(a, int(r.integers(-3, 4)), axis=-1) * a if last else a
        case 8:
            return np.where(r.normal(size=shape) > 0, a, np.cos(a))
        case 9:
            return np.diff(a, axis=-1) if many else a
        case 10:
            return np.cumsum(a, axis=-1) if last else a
        case 11:
            return np.einsum("...i,ji->...j", a, r.normal(size=(3, shape[-1]))) if last else a
        case 12:
            return a.T * 2.0
        case 13:
            return np.stack([a, a * a, np.exp(-a)], axis=int(r.integers(a.ndim + 1)))
        case 14:
            return a[..., None] * flat[:3]
        case 15:
            cuts = sorted({0, *r.integers(0, a.size, 2).tolist()})
            return np.add.reduceat(flat, cuts)
        case 16:
            b = flat.copy()
            b[r.integers(0, a.size, 3)] = flat[:1] * r.normal(size=3)
            return b
        case 17:
            return flat[r.permutation(a.size)][::-2]
        case 18:
            return np.linalg.solve(
                np.eye(2) * 3 + 0.1 * r.normal(size=(2, 2)), np.resize(flat, (3, 2, 1))
            )
        case 19:
            return np.real(np.fft.ifft(np.fft.fft(flat) * (1 + 1j))) * flat
        case 20:
            return grid_of_stores(flat, r)
        case 21:
            b = np.zeros((3, a.size, 2))
            b[np.array([0, 2, 0]), :, 1] = flat[::-1]
            return b.transpose(1, 0, 2)[:, ::-1, ::-1] + flat[:, None, None] * b[:1].transpose(
                1, 0, 2
            )
        case 22:
            weights = r.normal(size=(len(flat[:3]), len(flat[-3:])))
            return np.einsum("i,j,ij->j", flat[:3], flat[-3:], weights)
        case 23:
            return scipy_product(flat, r) * flat
        case 24:
            return small_matrices(flat, r)
        case _:
            return np.tanh(a) + pool[int(r.integers(len(pool)))].reshape(-1)[0]


def grid_of_stores(flat, r):
    """Boxes and every other entry of a matrix, stored over each other, by steps of both signs."""
    b = np.ones((5, 6)) * flat[0]
    for _ in range(4):
        rows, cols = (slice(*sorted(r.integers(0, 7, 2)), int(r.integers(1, 4))) for _ in range(2))
        if r.random() < 0.4:
            rows = slice(None, None, -int(r.integers(1, 3)))
        part = b[rows, cols]
        b[rows, cols] = np.resize(flat, part.shape) * part[:1, :1] if part.size else 0.0
    return b[:: int(r.choice([1, 2, -1, -3]))]


def small_matrices(flat, r):
    """Sums of products of a small matrix, its transpose and parts of both, as filters have."""
    n = int(r.integers(2, 5))
    p = np.resize(flat, (n, n))
    for _ in range(3):
        g = r.normal(size=(n, n))
        match int(r.integers(5)):
            case 0:
                p = g @ p @ g.T + p
            case 1:
                p = p.T - g @ p + np.diag(p[0])
            case 2:
                p = p - np.outer(p[:, 0], g[0]) @ p.T * 0.1
            case 3:
                p = p.copy()
                p[:2, :2] = g[:2, :2] @ p[:2, :2] + p[:2, :2].T
                p[2:, :2] = p[:2, 2:].T
            case _:
                p = 0.1 * p @ p + np.trace(p) * g
    return p


def scipy_product(flat, r):
    matrix = sp.random_array((flat.size, flat.size), density=0.3, rng=r, format="csr")
    return matrix @ flat


def program(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 13))

    def f(x):
        r = np.random.default_rng(seed + 1)
        pool = [x, x.reshape((2, -1)) if n % 2 == 0 else x]
        for _ in range(int(r.integers(2, 9 if LONG or seed % 8 == 0 else 5))):
            a = pool[int(r.integers(len(pool)))]
            if 0 < a.size <= 200:
                b = step(int(r.integers(26)), a, pool, r)
                pool += [b] if b.size else []
        return np.concatenate([p.reshape(-1) for p in pool[-2:]])

    return f, rng.normal(size=n)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize(
    "begin", [*range(0, 201, 67), *[pytest.param(k, marks=SLOW) for k in range(201, 1005, 67)]]
)
def test_random_programs(begin):
    """Forward, reverse, by columns, Hessian and lower triangle are the dense ones."""
    for seed in range(begin, begin + 67):
        f, x = program(seed)
        agree_in_both_modes(f, x)
        agree_in_second_order(f, x, lower=LONG or seed % 4 == 0)


def agree_in_both_modes(f, x):
    """An infinite entry of the input changes no row that does not depend on it."""
    tape, arrays = traced(f, x)
    expected = dense(tape, arrays, 0, 0)
    for mode in MODES:
        (result,), made = blocks(tape, arrays, 0, mode=mode, by_columns=mode == "reverse")
        close(result.toarray(), expected)
        assert not expected[~places(result)].any()
        others = ~places(result)[:, 0]  # rows that do not depend on the entry that is infinite
        known = others[result.indices if mode == "reverse" else result.tocoo().row]
        (beside,) = values(made.tape, np.append(np.inf, x[1:]), *arrays[1:])
        close(beside[known], result.data[known])


def agree_in_second_order(f, x, *, lower):
    count = len(np.ravel(f(x)))
    weights = np.arange(1, 1 + count) / count
    tape, arrays = traced(lambda x: np.sum(np.sin(f(x)) * weights), x)
    slopes = derive(GRADIENT, tape, wrt=(0,), keep=(1,))
    (full,), _ = blocks(slopes, arrays, 0, hessian=True)
    close(full.toarray(), dense(slopes, arrays, 0, 0))
    np.testing.assert_array_equal(full.toarray(), full.toarray().T)
    np.testing.assert_array_equal(places(full), places(full).T)
    if lower:
        (half,), _ = blocks(slopes, arrays, 0, hessian=True, lower=True)
        np.testing.assert_array_equal(half.toarray(), np.tril(full.toarray()))


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("seed", range(200) if LONG else [25, *range(6)])
def test_products_of_small_matrices(seed, rng):
    """Terms that share axes in several ways are put together once each."""
    x = rng.normal(size=3 + seed % 7)

    def f(x):
        r = np.random.default_rng(seed)
        return small_matrices(small_matrices(x, r).reshape(-1), r).reshape(-1)

    tape, arrays = traced(f, x)
    expected = dense(tape, arrays, 0, 0)
    for mode in MODES:
        close(blocks(tape, arrays, 0, mode=mode)[0][0].toarray(), expected)


# --- runs -------------------------------------------------------------------------------------


@given(
    *[st.integers(0, 9)] * 2,
    *[st.integers(0, 9), st.integers(1, 9)] * 1,
    st.integers(-4, 4),
    st.integers(1, 4),
)
def test_common_entries_of_runs(start, begin, size, count, step, stride):
    first, second = (start, size, step or 1), (begin, count, stride)
    numbers = [start + k * first[2] for k in range(size)]
    own = [begin + j * stride for j in range(count)]
    expected = [(k, own.index(n)) for k, n in enumerate(numbers) if n in own]
    met = common(first, second)
    result = (
        []
        if met is None
        else list(zip(*[[a + d * t for t in range(n)] for a, n, d in met], strict=True))
    )
    assert result == expected


# --- what has no entry, and what has no structure ------------------------------------------------

INF = np.inf
NO_ENTRY = {
    "square": (lambda x: x * x, [INF, 2.0, 3.0]),
    "difference": (lambda x: np.diff(1 / x), [0.0, 2.0, 3.0]),
    "padded": (
        lambda x: np.concatenate([x[1:], [1.0]]) * np.array([INF, 1.0, 2.0]),
        [1.0, 2.0, 3.0],
    ),
    "stored": (lambda x: stored(x) + 1, [INF, np.nan, 3.0]),
    "stencil": (lambda x: np.log(x[:2]) + x[1:], [0.0, 1.0, 2.0]),
    "tied": (lambda x: np.exp(x) + x @ np.arange(1.0, 10.0).reshape(3, 3), [1e3, 1.0, np.nan]),
    "gathered": (lambda x: np.exp(x)[np.array([2, 0, 0])], [INF, np.nan, 1.0]),
}


def stored(x):
    y = np.zeros(3)
    y[1:] = x[1:] ** 2
    return y


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NO_ENTRY)
def test_entries_that_do_not_exist_are_zero(name, mode):
    """Structure is that at an ordinary point, and infinities stay in their entries."""
    f, x = NO_ENTRY[name]
    x = np.array(x)
    tape, (_, *others) = traced(f, x)
    ordinary = [np.array([1.1, 1.2, 1.3]), *others]
    (result,), _ = blocks(tape, [x, *others], 0, mode=mode)
    (usual,), _ = blocks(tape, ordinary, 0, mode=mode)
    np.testing.assert_array_equal(places(usual), places(result))
    there = np.nan_to_num(dense(tape, ordinary, 0, 0), nan=0.0) != 0
    np.testing.assert_array_equal(places(result), there)
    assert not result.toarray()[~there].any()
    if name == "tied":
        off = ~np.eye(3, dtype=bool)
        np.testing.assert_array_equal(result.toarray()[off], usual.toarray()[off])


def test_a_hessian_at_an_infinity():
    tape, _ = traced(lambda x: np.sum(x**3) + x[0] * x[1], np.ones(3))
    slopes = derive(GRADIENT, tape, wrt=(0,), keep=(1,))
    (result,), _ = blocks(slopes, [np.array([INF, 1.0, 2.0])], 0, hessian=True)
    np.testing.assert_array_equal(result.toarray(), [[INF, 1, 0], [1, 6, 0], [0, 0, 12]])
    np.testing.assert_array_equal(result.data, [INF, 1, 1, 6, 12])


def test_what_has_no_structure_is_dense_up_to_a_size(monkeypatch):
    tape, _ = traced(lambda x: np.sort(x) * x[np.argsort(x)], np.zeros(5))
    x = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    (result,), _ = blocks(tape, [x], 0, mode="forward")
    assert result.nnz == 25
    close(result.toarray(), dense(tape, [x], 0, 0))
    monkeypatch.setattr(sparse_tapes, "DENSE", 24)
    with pytest.raises(
        sparse_tapes.StructureError, match=r"`gather` has no known structure.*5 x 5 entries"
    ) as error:
        blocks(tape, [x], 0, mode="forward")
    assert "test_terms.py" in str(error.value)
    assert "fdiff.hvp" in str(error.value)


def test_other_outputs_keep_their_structure():
    tape, _ = traced(lambda x: (x[np.argsort(x)], x**2), np.zeros(5))
    (first, second), _ = blocks(tape, [np.arange(5.0)], 0, mode="forward")
    assert (first.nnz, second.nnz) == (25, 5)


def test_too_many_entries_name_the_line(monkeypatch):
    tape, _ = traced(lambda x: np.sum(np.sin(x)) * x, np.zeros(50))
    monkeypatch.setattr(term_sweep.LinearSweep, "most", 1000)
    with pytest.raises(sparse_tapes.StructureError, match="2,500 entries: here") as error:
        blocks(tape, [np.zeros(50)], 0)
    assert "np.sum(np.sin(x)) * x" in str(error.value)


# --- modes and cuts ------------------------------------------------------------------------------


def test_the_cheaper_mode_is_taken():
    weights = np.ones((64, 32))
    tape, arrays = traced(lambda x: np.tanh(x @ weights) @ weights.T[:, :2], np.ones(64))
    assert blocks(tape, arrays, 0, mode="auto")[1].facts.mode == "reverse"
    tape, arrays = traced(lambda x: np.sin(x[0]) * np.ones(64) + x[1], np.ones(2))
    assert blocks(tape, arrays, 0, mode="auto")[1].facts.mode == "forward"


def test_many_stores_are_merged_and_cut():
    """Thousands of stores, one after the other, neither grow with their square nor recurse."""

    def f(x):
        y = np.zeros(300)
        for k in range(300):
            y[(7 * k) % 300] = x[k] * y[(7 * k + 1) % 300] + x[k]
        return y

    x = np.linspace(0.5, 1.0, 300)
    tape, arrays = traced(f, x)
    (result,), _ = blocks(tape, arrays, 0, mode="forward")
    close(result.toarray(), dense(tape, arrays, 0, 0))


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_equal_bytes_at_one_point():
    f, x = program(77)
    tape, arrays = traced(f, x)
    first, second = (blocks(tape, arrays, 0)[0][0].data.tobytes() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("mode", MODES)
def test_float32_stays(mode):
    tape, _ = traced(lambda x: np.diff(x**2) / 3, np.zeros(6, np.float32))
    (result,), _ = blocks(tape, [np.arange(6, dtype=np.float32)], 0, mode=mode)
    assert result.dtype == np.float32
    assert result.indices.dtype == np.int32

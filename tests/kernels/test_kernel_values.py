"""Kernels against the interpreter: every op of the registry, its cotangents, and awkward inputs."""

import itertools

import numpy as np
import pytest
from tapes import floating, like, load_every_table, tape_of, tape_of_op, values

from fdiff import kernels
from fdiff.interpret import evaluate
from fdiff.ops.scipy_ops.matrix_functions import triangular
from fdiff.primitive import PRIMITIVES
from fdiff.trace import apply
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

load_every_table()
CASES = [
    pytest.param(op, sample, id=f"{op.name}-{k}")
    for op in PRIMITIVES.values()
    for k, sample in enumerate(op.samples)
    if op.lowering.kernel is not None
]


@pytest.fixture(autouse=True, scope="module")
def cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FDIFF_CACHE_DIR", str(tmp_path_factory.mktemp("kernels") / "cache"))
        yield


def run(tape, *arrays, layouts=None):
    """Outputs of the kernel of `tape`."""
    return kernels.compile(tape, layouts or ("C",) * len(arrays))(
        *[a if np.ndim(a) else np.asarray(a)[()] for a in arrays]
    )


def check(tape, *arrays, layouts=None, rtol=1e-12, atol=1e-13):
    assert kernels.supported(tape)
    for got, want in zip(run(tape, *arrays, layouts=layouts), values(tape, *arrays), strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def strided(array):
    """The same values with gaps between the entries."""
    return np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_kernel_is_the_reference(op, sample, rng):
    arrays = [np.asarray(a) for a in sample.make(rng)]
    tape = tape_of_op(op, arrays, sample.params)
    check(tape, *map(strided, arrays), layouts=("A",) * len(arrays))


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_kernel_of_the_cotangents(op, sample, rng):
    arrays = [np.asarray(a) for a in sample.make(rng)]
    tape = tape_of_op(op, arrays, sample.params)
    if not floating(tape) or not any(t.floating for t in tape.output_types):
        return
    pulled = simplify(vjp(tape, floating(tape)))
    assert kernels.supported(pulled) is sample.cotangent_kernels
    if not sample.cotangent_kernels:
        return
    check(
        pulled,
        *arrays,
        *like(rng, [t for t in tape.output_types if t.floating]),
        rtol=1e-11,
        atol=1e-12,
    )


FUNCTIONS = {
    "softmax": lambda x: (
        np.exp(x - np.max(x, axis=1, keepdims=True)) / np.sum(np.exp(x), axis=1, keepdims=True)
    ),
    "layers": lambda x: np.tanh(x @ x.T + x[:, 0]) @ x,
    "stencil": lambda x: x[2:, 1:-1] + x[:-2, 1:-1] - 2.0 * x[1:-1, 1:-1] + x[1:-1, ::-1][:, :-2],
    "reversed": lambda x: x[::-1, ::-2] * 2.0,
    "reshaped": lambda x: (np.exp(x) * x).reshape(-1)[3:] + x.T.reshape(-1)[3:],
    "variance": lambda x: np.var(x, axis=0) + np.mean(x * x, axis=0),
    "scans": lambda x: (
        np.cumsum(x, axis=0),
        np.cumprod(x, axis=1),
        np.cumsum(np.cumsum(x, axis=0), axis=1),
    ),
    "gathered": lambda x: (
        x[np.array([0, 2, -1]), np.array([1, 1, 0])] * x[np.array([[0, 1], [2, 2]])].sum()
    ),
    "joined": lambda x: np.concatenate([x, 2.0 * x[:1], np.sin(x)], axis=0),
    "stacked": lambda x: np.stack([x[0, 0], x[1, 1] * x[0, 1], np.sum(x)]),
    "same twice": lambda x: (x * 2.0, x * 2.0, x, x.T, x[0]),
    "largest": lambda x: (np.argmax(x, axis=0), np.argmin(x, axis=1), np.max(x), np.min(x, axis=0)),
    "single": lambda x: x[0, 0] * np.sin(x[1, 1]) + np.sum(x[:1, :1]),
    "broadcast": lambda x: (
        np.sum(np.exp(x[0])[:, None] * np.sin(x[1])[None, :], axis=0) + x[:, 0].sum()
    ),
    "slices of slices": lambda x: (
        np.sin(x[:, 1:] * x[:, :-1])[1:] ** 2 * np.cos(x[:-1, 1:3] + x[1:, 1:3]).sum()
    ),
    "constants": lambda x: x * np.arange(12.0).reshape(3, 4) + np.full((3, 4), 7.0),
    "tensor": lambda x: np.einsum("ij,kj->ki", x, x) + np.einsum("ij,kl->ik", x, x),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernel_of_a_function_and_its_gradient(name, dtype, rng):
    x = rng.normal(size=(3, 4)).astype(dtype)
    tape = tape_of(FUNCTIONS[name], x)
    tight = {"rtol": 1e-12, "atol": 1e-13} if dtype is np.float64 else {"rtol": 2e-5, "atol": 1e-5}
    check(tape, x, **tight)
    check(tape, np.asfortranarray(x), layouts=("A",), **tight)
    pulled = simplify(vjp(tape, [0]))
    check(pulled, x, *like(rng, [t for t in tape.output_types if t.floating]), **tight)


EMPTY = {
    "sum": lambda x: np.sum(x * 2.0),
    "columns": lambda x: np.sum(x, axis=0),
    "rows": lambda x: np.prod(x, axis=1),
    "product": lambda x: x @ x.T,
    "scan": lambda x: np.cumsum(x, axis=0),
    "joined": lambda x: np.concatenate([x, x + 1.0], axis=1),
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)])
def test_empty_arrays(name, shape):
    x = np.empty(shape)
    check(tape_of(EMPTY[name], x), x)


def test_nan_and_signed_zero_are_numpys(rng):
    x = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0, -2.5])
    y = np.array([1.0, 0.0, np.nan, -np.inf, 2.0, 0.0, -0.7])

    def f(x, y):
        return (
            np.maximum(x, y),
            np.minimum(x, y),
            np.fmax(x, y),
            np.sign(x),
            np.remainder(x, y),
            np.floor_divide(x, y),
            np.fmod(x, y),
            np.max(x[1:]),
            np.max(x),
            np.min(y),
            np.logaddexp(x, y),
            np.heaviside(x, y),
            np.isfinite(x),
            np.signbit(x),
            np.where(x > 0, x, y),
            np.argmax(x, axis=0),
            np.argmin(y, axis=0),
        )

    check(tape_of(f, x, y), x, y)


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u1", "u8"])
def test_whole_numbers_wrap_and_divide_as_in_numpy(dtype):
    x = np.array([7, 100, 0, 120, 3]).astype(dtype)
    y = np.array([3, 0, 5, 120, 2]).astype(dtype)
    tape = tape_of(
        lambda x, y: (
            x + y,
            x * y,
            x - y,
            x // y,
            x % y,
            np.maximum(x, y),
            x & y,
            np.gcd(x, y),
            np.sum(x),
        ),
        x,
        y,
    )
    check(tape, x, y)


def test_bools_are_numpys():
    x, y = np.array([True, False, True]), np.array([True, True, False])
    check(
        tape_of(
            lambda x, y: (
                x & y,
                x | y,
                x ^ y,
                x + y,
                x * y,
                ~x,
                np.sum(x),
                np.any(x),
                np.all(y),
                x == y,
            ),
            x,
            y,
        ),
        x,
        y,
    )


def test_fields_of_records_are_copied():
    table = np.zeros(5, dtype=[("a", "i1"), ("x", "f8")])
    table["x"] = np.arange(5.0)
    check(tape_of(np.sin, table["x"].copy()), table["x"], layouts=("A",))


def test_keys_of_numbers_and_arrays_are_numpys():
    """Numbers beside index arrays are taken first, where the result has its axes in that order."""
    x = np.arange(4 * 3 * 5.0).reshape(4, 3, 5)
    i, j = np.array([0, 2, 1, -1, 2, 0]), np.array([[0, 2], [1, -1], [2, 2]])
    parts = [0, -1, np.int64(1), slice(None), slice(1, None), None, Ellipsis, i, j[:, :1], i[:1]]
    for key in itertools.product(parts, repeat=3):
        arrays = any(isinstance(k, np.ndarray) for k in key)
        if arrays and sum(k is Ellipsis for k in key) < 2:
            (got,) = evaluate(tape_of(lambda x: 1.0 * x[key], x), x)
            np.testing.assert_array_equal(got, x[key])
            assert np.shape(got) == np.shape(x[key])


def test_an_index_out_of_range_raises():
    x, i = np.arange(3.0), np.array([0, 3])
    tape = tape_of(lambda x, i: x[i], x, i % 3)
    with pytest.raises(IndexError, match="out of bounds"):
        run(tape, x, i)
    np.testing.assert_array_equal(run(tape, x, np.array([-1, 0]))[0], [2.0, 0.0])


def test_a_singular_matrix_raises_as_numpy_does():
    a = np.ones((3, 3))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        run(tape_of(np.linalg.inv, a), a)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        run(tape_of(np.linalg.cholesky, a), -a)


def test_constants_are_found_beside_arguments_that_are_laid_out_oddly():
    """Such a call goes another way, on which the results are handed over."""

    def f(x, k):
        weights, places = np.arange(5.0), np.array([4, 0, 2])
        return x * weights + k, x[places]

    x, k = np.linspace(1.0, 2.0, 5), np.array(2)
    kernel = kernels.compile(tape_of(f, x, k), ("C", "C"))
    for given in ((x, k), (np.repeat(x, 2)[::2], k), (x, np.int64(2))):
        for got, want in zip(kernel(*given), f(x, 2), strict=True):
            np.testing.assert_array_equal(got, want)


def test_results_are_the_callers_own():
    x = np.arange(4.0)
    kernel = kernels.compile(tape_of(lambda x: (x, x * 2.0), x), ("C",))
    first, second = kernel(x), kernel(x)
    first[0][:] = first[1][:] = -1.0
    np.testing.assert_array_equal(second[1], 2.0 * x)
    np.testing.assert_array_equal(x, np.arange(4.0))


def test_large_products_go_through_blas(rng):
    a, b = rng.normal(size=(2, 40, 30)), rng.normal(size=(2, 50, 30))
    tape = tape_of(
        lambda a, b: (np.einsum("bij,bkj->bik", a, b), np.einsum("bji,bjk->bki", a, b[:, :40])),
        a,
        b,
    )
    check(tape, a, b, rtol=1e-11, atol=1e-11)


ORDERS = [
    "kij,nkj->nki", "kij,nki->nkj", "nki,nkj->kij", "bij,bjk->bik", "ibj,bjk->kbi",
    "ijb,jkb->ikb", "abij,jk->abik", "ijk,kjl->li", "ij,ij->j", "ij,j->i", "ij,i->j",
    "bij,bj->bi", "ij,kj->ki", "ji,jk->ki",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sizes", [(2, 3, 4, 3, 2, 2), (7, 9, 8, 11, 6, 5)], ids=["loops", "blas"])
@pytest.mark.parametrize("subscripts", ORDERS)
def test_products_take_their_operands_in_any_order(subscripts, sizes, dtype, rng):
    length = dict(zip("abijkln", (*sizes, 3), strict=True))
    left, right = (
        rng.normal(size=[length[x] for x in labels]).astype(dtype)
        for labels in subscripts.split("->")[0].split(",")
    )
    tape = tape_of(lambda a, b: np.einsum(subscripts, a, b), left, right)
    tight = 1e-12 if dtype is np.float64 else 1e-4
    check(tape, left, right, rtol=tight, atol=tight)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "ji,kj->ik"])
@pytest.mark.parametrize(
    "sizes",
    [(2, 3, 8), (3, 5, 17), (5, 2, 33), (17, 20, 40), (33, 600, 31), (9, 1100, 19), (70, 70, 70)],
)
def test_products_of_every_size(sizes, subscripts, dtype, rng):
    m, k, n = sizes
    length = {"i": m, "j": k, "k": n}
    left, right = (
        rng.normal(size=[length[x] for x in labels]).astype(dtype)
        for labels in subscripts.split("->")[0].split(",")
    )
    tape = tape_of(lambda a, b: np.einsum(subscripts, a, b), left, right)
    tight = 1e-12 if dtype is np.float64 else 1e-3
    check(tape, left, right, rtol=tight, atol=tight)


def test_a_product_without_terms_is_zero():
    tape = tape_of(lambda a, b: a @ b, np.ones((3, 0)), np.ones((0, 20)))
    check(tape, np.ones((3, 0)), np.ones((0, 20)))


LARGE = {
    "solve one": lambda a, s: np.linalg.solve(a, a[..., 0]),
    "solve many": lambda a, s: np.linalg.solve(a, s[..., :5]),
    "inv": lambda a, s: np.linalg.inv(a),
    "det": lambda a, s: np.linalg.det(a),
    "slogdet": lambda a, s: tuple(np.linalg.slogdet(a)),
    "cholesky": lambda a, s: np.linalg.cholesky(s),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", LARGE)
def test_large_matrices_go_through_lapack(name, dtype, rng):
    a = (rng.normal(size=(31, 31)) / 6.0 + np.eye(31)).astype(dtype)
    spd = (a @ a.T + np.eye(31, dtype=dtype)).astype(dtype)
    tight = 1e-10 if dtype is np.float64 else 2e-3
    check(tape_of(LARGE[name], a, spd), a, spd, rtol=tight, atol=tight)


def test_large_matrices_may_be_stacked_strided_and_singular(rng):
    a = rng.normal(size=(3, 24, 24)) + 5.0 * np.eye(24)
    tape = tape_of(lambda a: (np.linalg.inv(a), np.linalg.det(a / 5.0)), a)
    check(tape, np.asfortranarray(a), layouts=("A",), rtol=1e-11)
    a[1, 3] = a[1, 4] = 0.0
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        run(tape, a)
    assert run(tape_of(np.linalg.det, a), a)[0][1] == 0.0
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        run(tape_of(np.linalg.cholesky, a), -a)


FACTORED = {
    "one": lambda low, b: np.linalg.solve(low, b[..., :1]),
    "many": np.linalg.solve,
    "turned, one": lambda low, b: np.linalg.solve(np.swapaxes(low, -1, -2), b[..., :1]),
    "turned, many": lambda low, b: np.linalg.solve(np.swapaxes(low, -1, -2), b),
    "stack of sides": lambda low, b: np.linalg.solve(low, np.stack([b, -b])),
}


def factor_of(a):
    return np.linalg.cholesky(a @ np.swapaxes(a, -1, -2) + np.eye(a.shape[-1], dtype=a.dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 7, 33])
@pytest.mark.parametrize("name", FACTORED)
def test_systems_with_a_cholesky_factor_are_substituted(name, n, dtype, rng):
    a = (rng.normal(size=(2, n, n)) / n).astype(dtype)
    b = rng.normal(size=(2, n, 5)).astype(dtype)
    tape = tape_of(lambda a, b: FACTORED[name](factor_of(a), b), a, b)
    text = kernels.source(tape, ("C", "C"))
    assert "= triangular" in text
    assert "= solve" not in text
    tight = 1e-12 if dtype is np.float64 else 1e-5
    check(tape, a, b, rtol=tight, atol=tight)


def test_other_systems_are_not(rng):
    a = rng.normal(size=(2, 3, 3)) + 3.0 * np.eye(3)
    turned = tape_of(
        lambda a: np.linalg.solve(factor_of(a).transpose(2, 1, 0), np.ones((3, 2))),
        a[:1].repeat(3, 0),
    )
    plain = tape_of(lambda a: np.linalg.solve(a, factor_of(a)), a)
    for tape in (turned, plain):
        assert "= solve" in kernels.source(tape, ("C",))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(0, 2), (1, 1), (7, 1), (70, 1), (5, 0), (19, 3), (33, 20)])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_triangular_systems(lower, trans, unit, shape, dtype, rng):
    """Of what they do not read there is NaN; no matrix is copied that lies as the routine wants."""
    n = shape[0]
    whole = (rng.normal(size=(n, n)) / (2 * n + 1) + (not unit) * np.eye(n)).astype(dtype)
    unread = np.triu(np.ones((n, n)), not unit)
    a = np.where(unread if lower else unread.T, np.nan, whole).astype(dtype)
    b = rng.normal(size=shape).astype(dtype)
    way = {"lower": lower, "trans": trans, "unit": unit}
    tape = tape_of(lambda a, b: apply(triangular, a, b, **way), a, b)
    tight = 1e-12 if dtype is np.float64 else 1e-5
    check(tape, a, b, rtol=tight, atol=tight)
    turned = tape_of(lambda a, b: apply(triangular, a.T, b, **way), a, b)
    check(turned, np.ascontiguousarray(a.T), b, rtol=tight, atol=tight)
    assert ("transpose" in kernels.source(turned, ("C", "C"))) == lower


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 2, 20, 32, 33, 71])
def test_cotangents_of_a_cholesky_factor_come_in_blocks(n, dtype, rng):
    a = (rng.normal(size=(2, n, n)) / n).astype(dtype)
    bar = rng.normal(size=(2, n, n)).astype(dtype)
    tape = simplify(vjp(tape_of(factor_of, a), [0]))
    assert "= cholesky_bar" in kernels.source(tape, ("C", "C"))
    tight = 1e-12 if dtype is np.float64 else 1e-4
    check(tape, a, bar, rtol=tight, atol=tight)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_cofactors_of_large_matrices_whatever_their_rank(lost, rng):
    u, s, vt = np.linalg.svd(rng.normal(size=(24, 24)))
    s[24 - lost :] = 0.0
    a = (u * s) @ vt / 2.0
    check(simplify(vjp(tape_of(np.linalg.det, a), [0])), a, 1.0, rtol=1e-7, atol=1e-7)


@pytest.mark.slow
def test_entries_put_back_by_number_are_moved_before_they_are_added(rng):
    """One array for a sum of slices put back: entries placed by number may not skip a transpose."""
    at, w = np.array([2, 0, 0, 3, 1]), rng.normal(size=(5, 4))

    def several(x):
        turned = np.sin(x.T)[at] * w[:, :3] + x.T[at] ** 2
        inner = x[1:, :].T[at] * w[:, :2] + np.cos(x)[:2].reshape(1, 2, 4)[0].T[at]
        return np.sum(turned) + np.sum(inner * x[:, 1:3][1:].reshape(-1)[:2]) + np.sum(x * x)

    x = rng.normal(size=(3, 4))
    pulled = vjp(tape_of(several, x), [0])
    check(simplify(pulled), x, 1.0)
    check(simplify(vjp(pulled, [0])), x, 1.0, 0.5, rng.normal(size=(3, 4)))

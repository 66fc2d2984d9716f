"""Many short rows: the axis of the rows behind the others, and blocks over the innermost loop."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from thread_counts import ask_for_threads

import fdiff
from benchmarks import styles
from fdiff import kernels
from fdiff.interpret import evaluate
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

SIZES = [1, 65, 700]  # too few rows, a block and one more, several blocks
K, D = 7, 5


def drawn(*shape, dtype=float):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def parameters(k=K, d=D, dtype=float):
    full = drawn(k), drawn(k, d), 0.2 * drawn(k, d), 0.3 * drawn(k, d, d)
    return tuple(a.astype(dtype) for a in full)


def nearest(c, x):
    return np.sum(np.min(np.sum((x[:, None] - c) ** 2, axis=2), axis=1))


def joined(c, x):
    """Columns side by side, slices of whole rows, a transpose, and an output in rows."""
    d = np.tanh(x[:, None] - c)
    both = np.concatenate([d, d[..., 1:] * d[..., :-1]], axis=2)
    s = np.sum(both * both, axis=2)
    p = np.prod(1.5 + np.transpose(d, (2, 0, 1)), axis=0)
    return np.max(s + p, axis=1), np.sum(s[:, ::-1] * p, axis=0), np.any(d > 0.9, axis=(0, 2)) * 1.0


def outer(a, x):
    """Products that sum nothing, in another order of axes, beside one that does."""
    y = np.einsum("ni,kj->kinj", np.sin(x), a)
    return np.einsum("kinj,kinj->nk", y, np.cos(y)), np.einsum("ni,ki->nik", x, a)


def agree(f, *xs, tolerance=1e-10):
    """The kernels of a function and of its derivatives against the interpreter."""
    tape = fdiff.make_tape(f, *xs)
    bars = [drawn(*t.shape, dtype=t.dtype) for t in tape.output_types]
    pulled = simplify(vjp(tape, range(len(xs))))
    pushed = simplify(jvp(tape, range(len(xs))))
    seeds = tuple(np.sin(x) for x in xs)
    for one, given in (
        (tape, xs),
        (pulled, (*xs, *bars[: len(pulled.inputs) - len(xs)])),
        (pushed, (*xs, *seeds)),
    ):
        found = kernels.compile(one, ("C",) * len(given))(*given)
        for got, want in zip(found, evaluate(one, *given), strict=True):
            assert np.asarray(got).dtype == np.asarray(want).dtype
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("f", styles.FULL, ids=lambda f: f.__name__)
def test_mixtures(f, n):
    agree(f, *parameters(), drawn(n, D))


@pytest.mark.slow
@pytest.mark.parametrize("n", [65, 700])
@pytest.mark.parametrize("f", styles.DIAG, ids=lambda f: f.__name__)
def test_diagonal_mixtures(f, n):
    agree(f, *parameters()[:3], drawn(n, D))


@pytest.mark.parametrize("n", [0, *SIZES])
@pytest.mark.parametrize("f", [joined, outer])
def test_ops_on_rows(f, n):
    if n == 0:
        f = {joined: lambda c, x: np.sum((x[:, None] - c) ** 2, axis=2)}.get(f, f)
    agree(f, drawn(K, D), drawn(n, D))


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes", [(700, 7, 2), (700, 3, 10), (64, 64, 5), (70, 5, 70), (200, 1, 9)]
)
def test_sizes_that_are_few_or_equal(sizes):
    n, k, d = sizes
    for f in (styles.big_product, styles.einsum, styles.precision):
        agree(f, *parameters(k, d), drawn(n, d))
    agree(nearest, drawn(k, d), drawn(n, d))


@pytest.mark.slow
@pytest.mark.parametrize("f", [styles.big_product, styles.batched, nearest])
def test_single_precision(f):
    given = (drawn(K, D, dtype="f4"),) if f is nearest else parameters(dtype="f4")
    agree(f, *given, drawn(300, D, dtype="f4"), tolerance=3e-3)


@pytest.mark.parametrize("f", [styles.big_product, styles.einsum, nearest])
def test_strided_inputs_and_batches(f):
    given = (drawn(K, D),) if f is nearest else parameters()
    data = drawn(D, 600).T[::2]
    strided = fdiff.jit(fdiff.grad(f, argnums=0))(*given, data)
    whole = fdiff.grad(f, argnums=0)(*given, np.ascontiguousarray(data))
    np.testing.assert_allclose(strided, whole, rtol=1e-10, atol=1e-10)
    stack = np.stack([data, 2.0 * data, data[::-1]])
    each = fdiff.vmap(fdiff.grad(lambda x: f(*given, x)))
    one = fdiff.grad(lambda x: f(*given, x))
    np.testing.assert_allclose(
        fdiff.jit(each)(stack), [one(x) for x in stack], rtol=1e-9, atol=1e-9
    )


@pytest.mark.slow
def test_threads(monkeypatch):
    ask_for_threads(monkeypatch, 2)
    for f in (styles.big_product, styles.einsum, styles.precision):
        agree(f, *parameters(), drawn(5000, D))


@pytest.mark.slow
def test_all_spellings_agree():
    given = *parameters(), drawn(500, D)
    found = [fdiff.jit(fdiff.value_and_grad(f, argnums=(0, 1, 2, 3)))(*given) for f in styles.FULL]
    for value, slopes in found[1:]:
        np.testing.assert_allclose(value, found[0][0], rtol=1e-12)
        for got, want in zip(slopes, found[0][1], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_the_rows_are_the_innermost_loop(monkeypatch):
    ask_for_threads(monkeypatch, 1)
    for f in (styles.big_product, styles.einsum, styles.precision):
        text = fdiff.source(
            fdiff.value_and_grad(f, argnums=(0, 1, 2, 3)), *parameters(), drawn(900, D)
        )
        inside = text[text.index("for blocks in") :]
        rows = [line for line in inside.splitlines() if "range(begin_row, end_row)" in line]
        after = [inside.splitlines()[inside.splitlines().index(line) + 1] for line in rows]
        assert len(rows) > 5
        assert not any(line.lstrip().startswith("for ") for line in after)
        assert re.search(r"rt\.call\d+\(.*(block|begin_row)", inside)


def test_few_computations_on_rows_leave_them_as_they_are():
    """Copying inputs in the other order would take longer than the rest."""
    x = drawn(900, 20)
    text = fdiff.source(lambda x: np.log(np.sum(np.exp(x), axis=1)), x)
    assert "copy" not in text


@pytest.mark.parametrize(
    "shape", [(3, 4, 32, 4), (2, 5, 33, 9), (1, 10, 96, 10), (4, 31, 70, 17), (1, 3, 64, 8)]
)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_products_of_long_rows(shape, dtype):
    s, m, k, n = shape
    a, b = drawn(s, m, k, dtype=dtype), drawn(s, n, k, dtype=dtype)
    found = fdiff.jit(lambda a, b: np.einsum("smk,snk->smn", a, b))(a, b)
    assert found.dtype == dtype
    wanted = a.astype(float) @ b.astype(float).transpose(0, 2, 1)
    np.testing.assert_allclose(
        found, wanted, rtol=1e-12 if dtype == "f8" else 1e-4, atol=1e-4 * (dtype == "f4") + 1e-12
    )


# --- the logarithm of a sum of exponentials ------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp_like_jax(axis, keepdims):
    x, seed = 20.0 * drawn(6, 5), drawn(6, 5)
    f = lambda x: np.sum(np.sin(logsumexp(x, axis=axis, keepdims=keepdims)))
    g = lambda x: jnp.sum(jnp.sin(jax.scipy.special.logsumexp(x, axis=axis, keepdims=keepdims)))
    with jax.enable_x64(True):
        slope, curve = jax.grad(g)(x), jax.jvp(jax.grad(g), (x,), (seed,))[1]
        np.testing.assert_allclose(fdiff.grad(f)(x), slope, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(fdiff.hvp(f)(x, seed), curve, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(fdiff.jit(fdiff.grad(f))(x), slope, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("x", "slope"),
    [
        ([np.inf, 0.0, -np.inf], [1.0, 0.0, 0.0]),
        ([np.inf, np.inf, 0.0], [0.5, 0.5, 0.0]),
        ([-np.inf, -np.inf, -np.inf], [0.0, 0.0, 0.0]),
        ([-np.inf, 3.0, -1e308], [0.0, 1.0, 0.0]),
        ([1e308, -1e308, 0.0], [1.0, 0.0, 0.0]),
    ],
)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_logsumexp_of_infinite_terms(x, slope, dtype):
    with np.errstate(all="ignore"):  # NumPy warns of what it is asked to do
        x = np.array(x).astype(dtype)
        wanted = logsumexp(x)
    for f in (fdiff.value_and_grad(logsumexp), fdiff.jit(fdiff.value_and_grad(logsumexp))):
        with np.errstate(all="ignore"):
            value, found = f(x)
        assert value == wanted
        np.testing.assert_array_equal(found, slope)
    with np.errstate(all="ignore"):
        assert not np.isnan(fdiff.hessian(logsumexp, x)).any()


def test_logsumexp_keeps_small_terms_and_signs():
    x = np.array([0.0, -45.0])
    for f in (fdiff.value_and_grad(logsumexp), fdiff.jit(fdiff.value_and_grad(logsumexp))):
        assert f(x)[0] == logsumexp(x) > 0.0
    f = lambda x: logsumexp(x, return_sign=True)[1]
    assert fdiff.jvp(f, x, x)[0] == 1.0
    assert fdiff.jvp(f, np.array([-np.inf, -np.inf]), x)[0] == 0.0
    assert np.isnan(fdiff.grad(logsumexp)(np.array([np.nan, 1.0]))).all()

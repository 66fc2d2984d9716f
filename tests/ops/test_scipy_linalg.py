"""scipy.linalg: values are SciPy's, derivatives are held against differences and JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate as si
import scipy.linalg as sl
from calculus import check_calculus

import fdiff
from fdiff.errors import UnsupportedError

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 4)) + 4 * np.eye(4)
S = A @ A.T
B = RNG.normal(size=(4, 2))
b = RNG.normal(size=4)
AB = RNG.normal(size=(4, 6)) + 6 * (np.arange(4) == 2)[:, None]
HB = RNG.normal(size=(3, 6)) + 8 * (np.arange(3) == 2)[:, None]
W = RNG.normal(size=(6, 3))
b6 = RNG.normal(size=6)
STACK = RNG.normal(size=(2, 3, 3)) + 3 * np.eye(3)


CASES = {
    "solve": (sl.solve, A, b),
    "solve_pos": (lambda a, b: sl.solve(a, b, assume_a="pos"), S, B),
    "solve_sym_low": (lambda a, b: sl.solve(a, b, lower=True, assume_a="sym"), S, b),
    "solve_T": (lambda a, b: sl.solve(a, b, transposed=True), A, b),
    "solve_up": (lambda a, b: sl.solve(a, b, assume_a="upper triangular"), np.triu(A), b),
    "inv": (sl.inv, A),
    "det": (sl.det, A),
    "chol": (sl.cholesky, S),
    "cholL": (lambda a: sl.cholesky(a, lower=True), S),
    "cho_factor": (lambda a: sl.cho_factor(a)[0], S),
    "cho_solve": (lambda a, b: sl.cho_solve(sl.cho_factor(a), b), S, b),
    "cho_solveL": (lambda a, b: sl.cho_solve(sl.cho_factor(a, lower=True), b), S, B),
    "st": (sl.solve_triangular, A, b),
    "stL": (lambda a, b: sl.solve_triangular(a, b, lower=True, trans=1, unit_diagonal=True), A, B),
    "lu": (lambda a, b: sl.lu_solve(sl.lu_factor(a), b), A[[2, 1, 0, 3]], b),
    "luT": (lambda a, b: sl.lu_solve(sl.lu_factor(a), b, trans=1), A[[1, 2, 0, 3]], B),
    "lu_factor": (lambda a: sl.lu_factor(a)[0], A[[2, 1, 0, 3]]),
    "lu3": (lambda a: sl.lu(a)[0] @ sl.lu(a)[1] * 2 + sl.lu(a)[2], A[[2, 0, 1, 3]]),
    "lupl": (lambda a: sl.lu(a, permute_l=True)[0], A[[2, 0, 1, 3]]),
    "expm": (sl.expm, A / 4),
    "sqrtm": (sl.sqrtm, S),
    "logm": (sl.logm, S),
    "sylvester": (sl.solve_sylvester, A, S[:2, :2], B),
    "lyapunov": (sl.solve_continuous_lyapunov, A, S),
    "discrete lyapunov": (sl.solve_discrete_lyapunov, A / 8, S),
    "discrete lyapunov, bilinear": (
        lambda a, q: sl.solve_discrete_lyapunov(a, q, method="bilinear"),
        A / 8,
        S,
    ),
    "block_diag": (lambda a, b: sl.block_diag(a, b, [1.0, 2.0]), A, b),
    "toeplitz": (sl.toeplitz, b, b6),
    "toep1": (sl.toeplitz, b),
    "circulant": (sl.circulant, b),
    "hankel": (sl.hankel, b, b6),
    "hankel1": (sl.hankel, b),
    "banded": (lambda a, b: sl.solve_banded((1, 2), a, b), AB, b6),
    "hbanded": (sl.solveh_banded, HB, b6),
    "hbandedL": (lambda a, b: sl.solveh_banded(a, b, lower=True), HB[::-1], W),
    "solve_toeplitz": (
        lambda a, b: sl.solve_toeplitz((a, a * a), b),
        np.array([5.0, 1, 0.5, 0.2, 0.1, 0.3]),
        b6,
    ),
    "eigh": (lambda a: sl.eigh(a)[0], S),
    "eighv": (lambda a: sl.eigh(a)[1] ** 2, S),
    "eighb": (lambda a, b: sl.eigh(a, b)[1] ** 2, S, np.eye(4) * 3 + 0.1 * S),
    "eighbU": (lambda a, b: sl.eigh(a, b, lower=False)[0], S, np.eye(4) * 3 + 0.1 * S),
    "eigvalsh": (lambda a: sl.eigvalsh(a, lower=False), S),
    "svd": (lambda a: sl.svd(a)[1], W),
    "svdU": (lambda a: sl.svd(a, full_matrices=False)[0], W),
    "svdvals": (sl.svdvals, W),
    "qr": (lambda a: sl.qr(a)[1], W),
    "qre": (lambda a: sl.qr(a, mode="economic")[0], W),
    "qrr": (lambda a: sl.qr(a, mode="r")[0], W),
    "pinv": (sl.pinv, W),
    "norm": (sl.norm, W),
    "lstsq": (lambda a, b: sl.lstsq(a, b)[0], W, b6),
    "lstsqr": (lambda a, b: sl.lstsq(a, b)[1], W, b6),
    "inv_low": (lambda a: sl.inv(a, assume_a="pos"), S),
    "expm of a stack": (sl.expm, STACK / 4),
    "sqrtm of a stack": (sl.sqrtm, STACK @ np.swapaxes(STACK, 1, 2)),
    "triangular stack": (lambda a: sl.solve_triangular(a, np.ones((2, 3, 1)), lower=True), STACK),
    "eigh, values alone": (lambda a: sl.eigh(a, eigvals_only=True), S),
    "solve, diagonal": (lambda a, b: sl.solve(a, b, assume_a="diagonal"), A, b),
    "solve, tridiagonal": (
        lambda a, b: sl.solve(a, b, assume_a="tridiagonal"),
        np.tril(np.triu(A, -1), 1),
        b,
    ),
    "lu with indices": (
        lambda a: sl.lu(a, p_indices=True)[1] @ sl.lu(a, p_indices=True)[2],
        A[[2, 0, 1, 3]],
    ),
    "trapezoid": (si.trapezoid, W, b6[:3] + 5 * np.arange(3)),
    "cumulative_trapezoid": (lambda y: si.cumulative_trapezoid(y, dx=0.3, axis=0, initial=0), W),
    "simpson, odd": (lambda y, x: si.simpson(y, x=x), W, b6[:3] + 5 * np.arange(3)),
    "simpson, even": (lambda y, x: si.simpson(y, x=x), W.T, b6 + 5 * np.arange(6)),
    "simpson, even steps": (lambda y: si.simpson(y, dx=0.4, axis=0), W),
    "simpson, two": (lambda y, x: si.simpson(y, x=x), W[:, :2], np.array([0.1, 0.7])),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives_to_second_order(name):
    f, *xs = CASES[name]
    check_calculus(f, *xs)


def upper(a):
    """The symmetric matrix of which SciPy reads the upper triangle."""
    return jnp.triu(a) + jnp.triu(a, 1).T


PAIRS = {
    "expm": (sl.expm, jax.scipy.linalg.expm, A / 4),
    "cholesky": (sl.cholesky, lambda a: jax.scipy.linalg.cholesky(upper(a)), S),
    "cho_solve": (
        lambda a: sl.cho_solve(sl.cho_factor(a), b),
        lambda a: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(upper(a)), b),
        S,
    ),
    "lu_solve": (
        lambda a: sl.lu_solve(sl.lu_factor(a), b),
        lambda a: jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(a), b),
        A,
    ),
    "solve": (
        lambda a: sl.solve(a, b, assume_a="pos"),
        lambda a: jnp.linalg.solve(upper(a), b),
        S,
    ),
    "sqrtm": (lambda a: sl.sqrtm(a) @ sl.sqrtm(a), lambda a: a, S),
    "logm": (lambda a: sl.expm(sl.logm(a)), lambda a: a, S),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_gradients_are_those_of_jax(name):
    ours, theirs, x = PAIRS[name]
    weights = np.cos(np.arange(np.size(ours(x)))).reshape(np.shape(ours(x)))
    got = fdiff.grad(lambda a: np.sum(ours(a) * weights))(x)
    np.testing.assert_allclose(
        got, jax.grad(lambda a: jnp.sum(theirs(a) * weights))(x), rtol=1e-10, atol=1e-11
    )


def test_the_exponential_against_its_frechet_derivative():
    for size in (1e-3, 1.0, 30.0):  # one and several squarings
        a, e = A * size / 10, RNG.normal(size=(4, 4))
        ours = fdiff.jvp(sl.expm, a, e)[1]
        expected = sl.expm_frechet(a, e, compute_expm=False)
        np.testing.assert_allclose(
            ours, expected, rtol=1e-11, atol=1e-13 * np.max(np.abs(expected))
        )


def test_a_triangle_that_is_not_read_has_no_derivative():
    upper = fdiff.grad(lambda a: np.sum(sl.cholesky(a)))(S)
    lower = fdiff.grad(lambda a: np.sum(sl.solve(a, b, lower=True, assume_a="sym")))(S)
    assert not np.any(np.tril(upper, -1))
    assert not np.any(np.triu(lower, 1))


def test_pivots_and_ranks_are_as_in_scipy():
    def f(a):
        lu, pivots = sl.lu_factor(a)
        assert pivots.dtype == sl.lu_factor(A)[1].dtype
        return np.sum(lu) + 0.0 * np.sum(pivots)

    assert np.all(np.isfinite(fdiff.grad(f)(A)))
    rank = fdiff.jvp(lambda w: sl.lstsq(w, b6)[2] * np.sum(w), W, W)[0]
    np.testing.assert_allclose(rank, 3 * np.sum(W))


def test_single_precision_stays_single():
    for f in (sl.expm, sl.sqrtm, sl.logm, sl.inv, sl.cholesky, lambda a: sl.lu_factor(a)[0]):
        assert fdiff.jacobian(f, S.astype(np.float32)).dtype == np.float32


def test_errors_name_the_function():
    for f, words in (
        (sl.cosm, "scipy.linalg.cosm"),
        (lambda a: sl.qr(a, pivoting=True)[1], "scipy.linalg.qr with pivoting"),
        (lambda a: sl.lu(a[:2])[1], "scipy.linalg.lu of a matrix of shape"),
        (lambda a: sl.eigh(a, subset_by_index=[0, 1])[0], "scipy.linalg.eigh with"),
        (lambda a: sl.svd(a, lapack_driver="gesvd")[1], "gesvd"),
    ):
        with pytest.raises(UnsupportedError, match=words):
            fdiff.grad(lambda a, f=f: np.sum(f(a)))(A)
    with pytest.raises(UnsupportedError, match=r"came out complex(.|\n)*astype"):
        fdiff.grad(lambda a: np.sum(sl.sqrtm(a)))(np.diag([-1.0, 2.0]))
    with pytest.raises(ValueError, match="square"):
        fdiff.grad(lambda a: np.sum(sl.expm(a)))(W)
    with pytest.raises(ValueError, match="incompatible dimensions"):
        fdiff.grad(lambda a: np.sum(sl.solve(a, b6)))(A)


def test_other_functions_of_scipy_run_on_what_is_captured():
    data = np.arange(3.0)

    def f(x):
        return np.sum(x * sl.hilbert(3)[0] * sl.cosm(np.diag(data)).diagonal())

    expected = sl.hilbert(3)[0] * np.cos(data)
    np.testing.assert_allclose(fdiff.grad(f)(np.ones(3)), expected, rtol=1e-14)
    data[:] = 2.0
    np.testing.assert_allclose(
        fdiff.grad(f)(np.ones(3)), sl.hilbert(3)[0] * np.cos(2.0), rtol=1e-14
    )


def test_arrays_made_by_scipy_take_traced_entries():
    def f(x):
        m = sl.hilbert(3)
        m[0] = x
        return np.sum(m**2)

    np.testing.assert_allclose(fdiff.grad(f)(np.arange(3.0)), [0.0, 2.0, 4.0])


# --- compiled ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", ["interpret", "compile"])
@pytest.mark.parametrize("way", [{}, {"lower": True}, {"trans": 1}, {"lower": True, "trans": "T"}])
def test_a_zero_on_a_diagonal_is_told_as_scipy_tells_it(tier, way, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    wrong = np.diag([1.0, 0.0, 0.0])
    f = lambda a, b: sl.solve_triangular(a, b, **way)
    with pytest.raises(np.linalg.LinAlgError) as told:
        f(wrong, np.ones(3))
    with pytest.raises(np.linalg.LinAlgError) as ours:
        fdiff.jit(f)(wrong, np.ones(3))
    assert str(ours.value) == str(told.value)
    np.testing.assert_array_equal(fdiff.jit(f)(2.0 * np.eye(3), np.ones(3)), 0.5)
    unit = fdiff.jit(lambda a, b: sl.solve_triangular(a, b, unit_diagonal=True, **way))
    np.testing.assert_array_equal(unit(wrong, np.ones(3)), 1.0)


@pytest.mark.parametrize("tier", ["interpret", "compile"])
def test_of_no_right_hand_sides_a_singular_matrix_is_no_fault(tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    nothing = fdiff.jit(sl.solve_triangular)(np.zeros((3, 3)), np.ones((3, 0)))
    assert nothing.shape == (3, 0)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("n", [5, 40])
def test_a_marginal_likelihood_factored_by_scipy_is_compiled(n, lower, monkeypatch):
    def marginal(noise, x, y):
        k = np.exp(-((x[:, None] - x) ** 2)) + noise * np.eye(len(x))
        factor = sl.cho_factor(k, lower=lower)
        return 0.5 * y @ sl.cho_solve(factor, y) + np.sum(np.log(np.diag(factor[0])))

    x = np.linspace(0.0, 3.0, n)
    point = 0.3, x, np.cos(3.0 * x)
    found = []
    for tier in ("interpret", "compile"):
        monkeypatch.setenv("FDIFF_TIER", tier)
        derivative = fdiff.value_and_grad(marginal, argnums=(0, 1, 2))
        value, bars = derivative(*point)
        assert tier in repr(derivative)
        np.testing.assert_allclose(value, marginal(*point), rtol=1e-12)
        found.append(bars)
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)

"""Sparse systems inside of functions: finite elements, factorisations, Krylov methods."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from calculus import check_calculus

import fdiff
from fdiff.errors import ConvergenceError, UnsupportedError
from fdiff.ops.scipy_ops.sparse import sparse_solves

RNG = np.random.default_rng(0)

# --- a finite-element program ------------------------------------------------------------


def square_mesh(n):
    """Points and triangles of a square, and the nodes inside of it."""
    number = np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
    a, b, c, d = number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]
    triangles = np.concatenate([np.stack(t, -1).reshape(-1, 3) for t in ((a, b, c), (a, c, d))])
    points = np.stack(np.divmod(number.ravel(), n + 1), 1) / n
    return points, triangles, number[1:-1, 1:-1].ravel()


POINTS, TRIANGLES, FREE = square_mesh(4)
FREE = RNG.permutation(FREE)  # rows of the matrix are not in order, then
SIZE = len(POINTS)
ROWS, COLS = np.repeat(TRIANGLES, 3, axis=1).ravel(), np.tile(TRIANGLES, (1, 3)).ravel()
MATERIAL = np.array([1.0, 0.3, 0.2])


def elements(points):
    """Gradients of the three shape functions of each triangle, and its area."""
    p = points[TRIANGLES]
    d1, d2 = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]
    det = d1[:, 0] * d2[:, 1] - d1[:, 1] * d2[:, 0]
    g1 = np.stack([d2[:, 1], -d2[:, 0]], 1) / det[:, None]
    g2 = np.stack([-d1[:, 1], d1[:, 0]], 1) / det[:, None]
    return np.stack([-g1 - g2, g1, g2], 1), det / 2


def from_coo(entries):
    return sp.coo_matrix((entries, (ROWS, COLS)), shape=(SIZE, SIZE)).tocsr()


def from_coo_array(entries):
    return sp.coo_array((entries, (ROWS, COLS))).tocsc()


def from_slots(entries):
    """Entries that are added up at their places in a structure that stands."""
    pattern = sp.csr_array((np.ones(len(ROWS)), (ROWS, COLS)))
    keys, slots = np.unique(ROWS * SIZE + COLS, return_inverse=True)
    data = np.zeros(len(keys), entries.dtype)
    np.add.at(data, slots, entries)
    return sp.csr_matrix((data, pattern.indices, pattern.indptr), shape=(SIZE, SIZE))


def from_dense(entries):
    dense = np.zeros((SIZE, SIZE), entries.dtype)
    np.add.at(dense, (ROWS, COLS), entries)
    return sp.csr_matrix(dense)


def by_lu(K, f):
    return spl.splu(K.tocsc()).solve(f)


def by_cg(K, f):
    x, info = spl.cg(K, f, rtol=1e-14, M=sp.diags(1 / K.diagonal()))
    assert info == 0
    return x


def flow(assemble, solve, m, points):
    """The solution of -div (k(u, |grad u|) grad u) = 1, by Picard's iteration."""
    g, area = elements(points)
    f = np.zeros(SIZE, area.dtype)
    np.add.at(f, TRIANGLES.ravel(), np.repeat(area / 3, 3))
    u = np.zeros(SIZE, m.dtype)
    for _ in range(3):
        slope = np.einsum("tij,ti->tj", g, u[TRIANGLES])
        k = m[0] + m[1] * np.sum(slope**2, 1) + m[2] * np.mean(u[TRIANGLES], 1) ** 2
        local = np.einsum("tid,tjd->tij", g, g) * (k * area)[:, None, None]
        K = assemble(local.ravel())
        u = np.zeros(SIZE, m.dtype)
        u[FREE] = solve(K[FREE][:, FREE], f[FREE])
    return u


def dense_matrix(entries):
    dense = np.zeros((SIZE, SIZE), entries.dtype)
    np.add.at(dense, (ROWS, COLS), entries)
    return dense


WAYS = {
    "coo_matrix, spsolve": (from_coo, spl.spsolve),
    "coo_array, splu": (from_coo_array, by_lu),
    "slots, factorized": (from_slots, lambda K, f: spl.factorized(K.tocsc())(f)),
    "dense, spsolve": (from_dense, spl.spsolve),
    "coo_matrix, cg": (from_coo, by_cg),
}


@pytest.mark.parametrize("way", WAYS)
def test_finite_elements(way):
    """All derivatives, by material and mesh, are those of the dense program."""
    u = lambda m, points: flow(*WAYS[way], m, points)
    dense = lambda m, points: flow(dense_matrix, np.linalg.solve, m, points)
    close = {"rtol": 1e-10, "atol": 1e-12}
    total = lambda f: lambda m, points: np.sum(f(m, points) ** 2)
    both = {"argnums": (0, 1)}
    np.testing.assert_allclose(u(MATERIAL, POINTS), fdiff.jit(u)(MATERIAL, POINTS), rtol=1e-12)
    here = MATERIAL, POINTS
    slopes = [fdiff.grad(total(f), **both)(*here) for f in (u, dense)]
    for a, b in zip(*slopes, strict=True):
        np.testing.assert_allclose(a, b, **close)
    v = RNG.normal(size=3), 0.1 * RNG.normal(size=POINTS.shape)
    tangent = fdiff.jvp(u, here, v)[1]
    np.testing.assert_allclose(tangent, fdiff.jvp(dense, here, v)[1], **close)
    step = dense(MATERIAL + 1e-30j * v[0], POINTS + 1e-30j * v[1]).imag * 1e30
    np.testing.assert_allclose(tangent, step, **close)
    np.testing.assert_allclose(fdiff.jacobian(u)(*here), fdiff.jacobian(dense)(*here), **close)
    bent = [fdiff.hessian(total(f))(*here) for f in (u, dense)]
    np.testing.assert_allclose(*bent, **close)


# --- one factorisation -------------------------------------------------------------------

PLACES = np.array([0, 1, 2, 2, 3, 4, 0, 0, 4, 2]), np.array([0, 1, 2, 0, 3, 4, 4, 4, 2, 1])
D = np.array([5.0, 6, 7, 0.5, 8, 9, 0.3, 0.4, 0.6, 1.1])
B = np.arange(1.0, 6.0)


def system(d):
    return sp.csr_array((d, PLACES), shape=(5, 5))


def definite(d):
    return system(d) + system(d).T


@pytest.fixture
def factorisations(monkeypatch):
    """How many matrices are factorised."""
    count, real = [], sparse_solves.factorised
    monkeypatch.setattr(sparse_solves, "_kept", {})
    monkeypatch.setattr(sparse_solves, "factorised", lambda *a: count.append(1) or real(*a))
    return count


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
@pytest.mark.parametrize("solve", [spl.spsolve, by_lu])
def test_value_and_derivatives_share_a_factorisation(factorisations, solve, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    f = lambda d: np.sum(solve(system(d), B) ** 2)
    slope, second = fdiff.value_and_grad(f), fdiff.hessian(f)
    for k, operator in enumerate([slope, second, fdiff.grad(f)] * 2, 1):
        operator(k * D)
        assert len(factorisations) == 1
        factorisations.clear()
    assert len(sparse_solves._kept) == (3 if tier == "evaluate" else 0)  # one for each workspace
    fdiff.hvp(f, 7 * D, D)
    fdiff.jvp(f, 8 * D, D)
    fdiff.jacobian(lambda d: solve(system(d), B))(9 * D)
    assert len(factorisations) == 3


def test_a_constant_matrix_is_factorised_once_for_all_calls(factorisations):
    matrix = system(D)
    slope = fdiff.grad(lambda b: np.sum(spl.spsolve(matrix, b) ** 2))
    for b in (B, 2 * B, -B):
        x = np.linalg.solve(matrix.toarray(), b)
        np.testing.assert_allclose(slope(b), 2 * np.linalg.solve(matrix.toarray().T, x), rtol=1e-13)
    assert len(factorisations) == 1
    matrix.data[0] = 3.0
    x = np.linalg.solve(matrix.toarray(), B)
    np.testing.assert_allclose(slope(B), 2 * np.linalg.solve(matrix.toarray().T, x), rtol=1e-13)


def test_factorisations_beyond_the_limit_are_made_again(monkeypatch, factorisations):
    monkeypatch.setattr(sparse_solves, "MOST", 0)

    def f(d):
        return np.sum(spl.spsolve(system(d), spl.spsolve(system(d**2), B)))

    slope = fdiff.grad(f)(D)
    assert len(factorisations) == 3
    monkeypatch.undo()
    np.testing.assert_array_equal(slope, fdiff.grad(f)(D))


# --- Krylov methods ----------------------------------------------------------------------


METHODS = ["bicg", "bicgstab", "cg", "cgs", "gcrotmk", "gmres", "lgmres", "minres", "tfqmr"]


@pytest.mark.parametrize("method", METHODS)
def test_iterations_have_the_derivatives_of_the_solution(method):
    """The value is SciPy's, derivatives those of the exact solution, at loose tolerances too."""
    run = getattr(spl, method)
    f = lambda d, b: run(definite(d), b)[0]
    exact = lambda d, b: np.linalg.solve(definite(d).toarray(), b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value, tangent = fdiff.jvp(f, (D, B), (D[::-1], B[::-1]))
        plain = f(D, B)
    np.testing.assert_allclose(value, plain, rtol=1e-13)
    np.testing.assert_allclose(tangent, fdiff.jvp(exact, (D, B), (D[::-1], B[::-1]))[1], rtol=1e-12)
    for k in (0, 1):
        mine, dense = (fdiff.jacobian(g, argnums=k)(D, B) for g in (f, exact))
        np.testing.assert_allclose(mine, dense, rtol=1e-11, atol=1e-14)
    bent, expected = (fdiff.hessian(lambda d, g=g: np.sum(g(d, B) ** 2))(D) for g in (f, exact))
    np.testing.assert_allclose(bent, expected, rtol=1e-4, atol=1e-6)  # at a loose value


def jacobi(d):
    return sp.diags_array(1 / definite(d).diagonal())


KRYLOV = {
    "preconditioner of the entries": lambda d: spl.cg(definite(d), B, rtol=1e-14, M=jacobi(d))[0],
    "constant preconditioner": lambda d: spl.gmres(system(d), B, rtol=1e-14, M=sp.eye(5))[0],
    "operator as preconditioner": lambda d: spl.gmres(system(d), B, rtol=1e-14, M=ILU)[0],
    "start": lambda d: spl.cg(definite(d), B, d[:5], rtol=1e-14)[0],
    "dense matrix": lambda d: spl.gmres(np.outer(d[:5], d[:5]) + SHIFT, d[5:], rtol=1e-14)[0],
    "constant matrix": lambda d: spl.gmres(MATRIX, d[:5, None], rtol=1e-14, restart=3)[0],
    "csc": lambda d: spl.bicgstab(system(d).tocsc(), B, rtol=1e-14)[0],
}
MATRIX, SHIFT = system(D), 10 * np.eye(5)
ILU = spl.LinearOperator((5, 5), spl.spilu(MATRIX.tocsc()).solve)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("name", KRYLOV)
def test_options_of_iterations(name):
    check_calculus(KRYLOV[name], D)


def test_iterations_that_do_not_converge_have_values_alone():
    f = lambda d: spl.cg(definite(d), B, maxiter=1)[0]
    np.testing.assert_allclose(fdiff.jit(f)(D), f(D), rtol=1e-14)
    with pytest.raises(ConvergenceError, match=r"\.cg did not converge(.|\n)*test_sparse_solves"):
        fdiff.jacobian(f)(D)
    told = lambda d: spl.cg(definite(d), B, maxiter=1)[1] * np.sum(d)
    assert fdiff.jit(told)(D) == told(D)
    with pytest.raises(ConvergenceError, match="the matrix is singular"):
        fdiff.jacobian(lambda d: spl.gmres(system(d), 0 * B)[0])(0 * D)


def operator(d, **options):
    return spl.LinearOperator((5, 5), lambda v: v * d[:5], **options)


REFUSED = {
    "callback": lambda d: spl.cg(definite(d), B, callback=print),
    "LinearOperator": lambda d: spl.gmres(spl.LinearOperator((5, 5), lambda v: 2 * v), d[:5]),
    "__init__ has no derivative rule": lambda d: spl.cg(definite(d), B, M=operator(d)),
    "LinearOperator.matvec has no derivative rule": lambda d: spl.cg(
        definite(d), B, M=operator(d, dtype=float)
    ),
    "x0='Mb'": lambda d: spl.gmres(definite(d), B, "Mb"),
    r"linalg\.minres with shift=": lambda d: spl.minres(definite(d), B, shift=1.0),
    r"linalg\.qmr": lambda d: spl.qmr(definite(d), B),
    "sparse right-hand side": lambda d: spl.spsolve(definite(d), sp.csc_matrix(system(d))),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refusals(words):
    with pytest.raises(UnsupportedError) as caught:
        fdiff.jacobian(lambda d: REFUSED[words](d)[0])(D)
    assert re.search(words, str(caught.value).partition("\n")[0])  # the line of code has the words


# --- kinds of numbers, batches, singular matrices ----------------------------------------


@pytest.mark.parametrize("trans", ["N", "T", "H"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_complex_systems(form, trans):
    d, b = D * (1 + 0.3j * np.cos(D)), B - 1j * B[::-1]
    made = lambda d: getattr(sp, f"{form}_array")((d, PLACES), shape=(5, 5)).tocsc()
    f = lambda d, b: spl.splu(made(d)).solve(b, trans)
    turned = {"N": lambda A: A, "T": np.transpose, "H": lambda A: np.conj(A.T)}[trans]
    dense = lambda d, b: np.linalg.solve(turned(made(d).toarray()), b)
    np.testing.assert_allclose(fdiff.jit(f)(d, b), f(d, b), rtol=1e-13)
    w = np.array([1.0, 2j, -1.0, 0.5, 1 - 1j])
    mine, reference = (fdiff.vjp(g, (d, b), w)[1] for g in (f, dense))
    for a, r in zip(mine, reference, strict=True):
        np.testing.assert_allclose(a, r, rtol=1e-12, atol=1e-14)
    moves = d[::-1] * 1j, b[::-1]
    tangents = [fdiff.jvp(g, (d, b), moves)[1] for g in (f, dense)]
    np.testing.assert_allclose(*tangents, rtol=1e-12)
    fixed = spl.splu(made(d))
    for right in (b, B):
        x = fdiff.jit(lambda b: fixed.solve(b, trans))(right.astype(complex))
        np.testing.assert_allclose(x, dense(d, right), rtol=1e-12)
    way = fdiff.vjp(lambda b: fixed.solve(b, trans), b, w)[1]
    np.testing.assert_allclose(way, reference[1], rtol=1e-12)


def test_single_precision():
    d, b = D.astype(np.float32), B.astype(np.float32)
    for f in (lambda d: spl.spsolve(system(d), b), lambda d: spl.cg(definite(d), b)[0]):
        assert fdiff.jit(f)(d).dtype == f(d).dtype == np.float32
        slopes = fdiff.jacobian(f)(d)
        assert slopes.dtype == np.float32
        np.testing.assert_allclose(slopes, fdiff.jacobian(f)(D), rtol=2e-4, atol=1e-5)
    assert fdiff.jit(lambda d: spl.spsolve(system(d), B))(d).dtype == np.float64


def test_batches_recorded_arrays_and_sparse_derivatives():
    f = lambda d: spl.spsolve(system(d), B)
    g = lambda d: spl.cg(definite(d), B, rtol=1e-13)[0]
    batch = np.stack([D, 2 * D, D + 1])
    for h in (f, g):
        np.testing.assert_allclose(fdiff.vmap(h)(batch), [h(d) for d in batch], rtol=1e-13)
        slopes = fdiff.vmap(fdiff.jacobian(h))(batch)
        close = {"rtol": 1e-12, "atol": 1e-15}
        np.testing.assert_allclose(slopes, [fdiff.jacobian(h)(d) for d in batch], **close)
        structured = fdiff.jacobian(h, sparse=True)(D)
        np.testing.assert_allclose(structured.toarray(), slopes[0], **close)
        x = fdiff.autograd.tensor(D, requires_grad=True)
        (h(x) ** 2).sum().backward()
        slope = fdiff.grad(lambda d, h=h: np.sum(h(d) ** 2))(D)
        np.testing.assert_allclose(np.asarray(x.grad), slope, rtol=1e-13)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_singular_matrices_are_as_in_scipy():
    for b in (B, np.stack([B, B], 1)):
        f = lambda d, b=b: spl.spsolve(system(d), b)
        with pytest.warns(spl.MatrixRankWarning, match="exactly singular"):
            expected = f(0 * D)
        with pytest.warns(spl.MatrixRankWarning, match="exactly singular"):
            np.testing.assert_array_equal(fdiff.jit(f)(0 * D), expected)
    batch = np.stack([D, 0 * D, 2 * D])
    with pytest.warns(spl.MatrixRankWarning, match="exactly singular"):
        x = fdiff.vmap(lambda d: spl.spsolve(system(d), B))(batch)
    np.testing.assert_allclose(x[::2], [spl.spsolve(system(d), B) for d in batch[::2]], rtol=1e-14)
    assert np.isnan(x[1]).all()
    for solve in (by_lu, lambda A, b: spl.factorized(A.tocsc())(b)):
        f = lambda d, solve=solve: solve(system(d), B)
        with pytest.raises(RuntimeError, match="exactly singular"):
            f(0 * D)
        with pytest.raises(RuntimeError, match="exactly singular"):
            fdiff.jacobian(f)(0 * D)


def test_empty_right_hand_sides():
    f = lambda d: spl.splu(system(d).tocsc()).solve(np.zeros((5, 0)))
    assert fdiff.jacobian(f)(D).shape == (5, 0, 10)

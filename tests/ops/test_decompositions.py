"""Eigenvalues, singular values, QR and what is made of them, against references that share no code.

Signs and phases of vectors are LAPACK's own: what follows compares functions that do not depend on
them, with JAX, mpmath, closed forms and differences. The cases of single functions, compared with
differences of NumPy's own results, are those of `cases/linalg.txt`.
"""

import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from tapes import check_derivatives, floating, like, values

import fdiff
from fdiff.arraytype import type_of
from fdiff.errors import KinkError, UnsupportedError
from fdiff.tape import verify
from fdiff.trace import ArgumentSpec, record
from fdiff.transforms.batch import batch
from fdiff.transforms.reverse import vjp

jax.config.update("jax_enable_x64", True)


def traced(f, *arrays):
    """Tape of `f` at `arrays`, whose values Python may look at; a tuple is several outputs."""

    def run(trace, arguments):
        out = f(*arguments)
        return list(out) if isinstance(out, tuple) else [out]

    inputs = [ArgumentSpec(type_of(x), value=x, active=x.dtype.kind in "fc") for x in arrays]
    return verify(record(run, inputs, "test").tape)


def check(f, *arrays, rng):
    """Both modes of first and second order."""
    tape = traced(f, *arrays)
    check_derivatives(tape, arrays, rng)
    pulled = verify(vjp(tape, floating(tape)))
    seeds = like(rng, pulled.input_types[len(arrays) :])
    check_derivatives(pulled, [*arrays, *seeds], rng)


def symmetric(rng, n, values_=None):
    q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    w = np.arange(1.0, n + 1) if values_ is None else np.asarray(values_, float)
    return (q * w) @ q.T


# --- against JAX and closed forms ---------------------------------------------------------------


def projector(xp, a):
    v = xp.linalg.eigh(a @ a.T)[1][:, :2]
    return v @ v.T


def square_root(xp, a):
    w, v = xp.linalg.eigh(a @ a.T)
    return (v * xp.sqrt(w)) @ v.T


def polar(xp, a):
    u, _, vh = xp.linalg.svd(a, full_matrices=False)
    return u @ vh


def low_rank(xp, a):
    u, s, vh = xp.linalg.svd(a, full_matrices=False)
    return (u[:, :2] * s[:2]) @ vh[:2]


def span(xp, a):
    q = xp.linalg.qr(a)[0]
    return q @ q.T


INVARIANT = {
    "spectral projector": projector,
    "square root": square_root,
    "log determinant": lambda xp, a: xp.sum(xp.log(xp.linalg.eigvalsh(a @ a.T))),
    "largest eigenvalue": lambda xp, a: xp.max(xp.linalg.eigvalsh(a @ a.T)),
    "polar factor": polar,
    "low rank": low_rank,
    "span": span,
    "r": lambda xp, a: xp.abs(xp.linalg.qr(a)[1]),
    "least squares": lambda xp, a: xp.linalg.lstsq(a, a[:, 0] ** 2)[0],
    "pseudo-inverse": lambda xp, a: xp.linalg.pinv(a),
    "nuclear norm": lambda xp, a: xp.linalg.norm(a, "nuc"),
    "condition": lambda xp, a: xp.linalg.cond(a),
}


SQUARE = {"square root", "log determinant"}  # of a @ a.T, which is singular for a tall matrix
WIDE = ["polar factor", "r", "least squares", "pseudo-inverse"]


@pytest.mark.parametrize(
    ("name", "shape"),
    [(n, (3, 3) if n in SQUARE else (4, 3)) for n in INVARIANT] + [(n, (3, 4)) for n in WIDE],
)
def test_gradients_and_curvature_are_those_of_jax(name, shape, rng):
    f, a, v = INVARIANT[name], rng.normal(size=shape), rng.normal(size=shape)
    weight = rng.normal(size=np.shape(f(np, a)))
    theirs = jax.jit(
        lambda a, v: jax.jvp(jax.grad(lambda a: jnp.sum(weight * f(jnp, a))), (a,), (v,))
    )(a, v)
    slope = fdiff.grad(lambda a: np.sum(weight * f(np, a)))
    for ours, h in zip((slope(a), fdiff.jvp(slope, a, v)[1]), theirs, strict=True):
        size = np.max(np.abs(h), initial=1.0)
        np.testing.assert_allclose(ours, h, rtol=1e-9, atol=1e-9 * size)
    forward = fdiff.jvp(lambda a: np.sum(weight * f(np, a)), a, v)[1]
    np.testing.assert_allclose(forward, np.sum(slope(a) * v), rtol=1e-10)


OTHER_COLUMNS = {
    "qr": lambda a: np.linalg.qr(a, "complete")[0][:, 3:],
    "svd, left": lambda a: np.linalg.svd(a)[0][:, 3:],
    "svd, right": lambda a: np.linalg.svd(a.T)[2][3:].T,
}


@pytest.mark.parametrize("name", OTHER_COLUMNS)
def test_all_columns_of_complete_factorisations(name, rng):
    """Beside the span of the first columns lies that of the others: projectors add up to one."""
    a = rng.normal(size=(5, 3))

    def beside(a):
        q = OTHER_COLUMNS[name](a)
        return q @ q.T

    first = fdiff.jacobian(lambda a: span(np, a))(a)
    np.testing.assert_allclose(first + fdiff.jacobian(beside)(a), 0.0, atol=1e-13)
    check(beside, a, rng=rng)


@pytest.mark.parametrize("shape", [(5, 2), (6, 3), (2, 5, 3), (4, 1)])
def test_complete_qr_moves_as_the_reflections_of_lapack_do(shape, rng):
    a = rng.normal(size=shape)
    q, r = values(traced(lambda a: tuple(np.linalg.qr(a, "complete")), a), a)
    np.testing.assert_allclose(q, np.linalg.qr(a, "complete")[0], atol=1e-14)
    np.testing.assert_allclose(r, np.linalg.qr(a, "complete")[1], atol=1e-14)
    check(lambda a: tuple(np.linalg.qr(a, "complete")), a, rng=rng)


def test_complete_qr_where_lapack_reflects_nothing(rng):
    """A column that is 0 below its diagonal is left alone; all columns are still found."""
    a = np.triu(rng.normal(size=(5, 3)))
    a[3, 2] = 0.4
    q = values(traced(lambda a: np.linalg.qr(a, "complete")[0], a), a)[0]
    np.testing.assert_allclose(q, np.linalg.qr(a, "complete")[0], atol=1e-14)


# --- eigenvalues of matrices that are not symmetric ---------------------------------------------


def rotation(rng, n=3):
    """A real matrix with one real and a pair of complex eigenvalues."""
    a = np.diag(np.arange(1.0, n + 1)) + 0.2 * rng.normal(size=(n, n))
    a[:2, :2] = [[1.0, 2.0], [-1.5, 1.2]]
    return a


def test_real_and_complex_eigenvalues_have_the_dtypes_of_numpy(rng):
    for a in (symmetric(rng, 3), rotation(rng)):
        for single in (np.float32, np.float64):
            x = a.astype(single)
            expected = np.linalg.eig(x)
            out = values(traced(lambda a: (*np.linalg.eig(a), np.linalg.eigvals(a)), x), x)
            assert [o.dtype for o in out[:2]] == [e.dtype for e in expected]
            assert out[2].dtype == np.linalg.eigvals(x).dtype
            np.testing.assert_array_equal(out[1], expected[1])


@pytest.mark.parametrize("make", [lambda rng: symmetric(rng, 3) + 0.1, rotation])
def test_eigenvectors_keep_the_normalisation_of_lapack(make, rng):
    a = make(rng) + 0.05 * rng.normal(size=(3, 3))
    check(lambda a: tuple(np.linalg.eig(a)), a, rng=rng)
    check(np.linalg.eigvals, a, rng=rng)
    stack = np.stack([a, a.T + 0.3])
    check(lambda a: tuple(np.linalg.eig(a)), stack, rng=rng)


def test_symmetric_functions_of_eigenvalues_are_traces(rng):
    def cubes(a):
        return np.sum(np.linalg.eigvals(a) ** 3).real

    a = rotation(rng, 4)
    slope, curvature = fdiff.grad(cubes)(a), fdiff.hessian(cubes)(a)
    np.testing.assert_allclose(slope, 3 * np.linalg.matrix_power(a, 2).T, rtol=1e-12, atol=1e-12)
    exact = fdiff.hessian(lambda a: np.trace(a @ a @ a))(a)
    np.testing.assert_allclose(curvature, exact, atol=1e-11)


def test_the_spectral_radius_moves_along_its_eigenvectors(rng):
    a = symmetric(rng, 3)
    v = np.linalg.eigh(a)[1][:, -1]
    radius = fdiff.grad(lambda a: np.max(np.abs(np.linalg.eigvals(a))))
    np.testing.assert_allclose(radius(a), np.outer(v, v), atol=1e-12)


def test_a_matrix_from_its_eigenvectors(rng):
    def again(a):
        w, v = np.linalg.eig(a)
        return np.real((v * w) @ np.linalg.inv(v))

    for a in (rotation(rng), rng.normal(size=(4, 4))):
        jacobian = fdiff.jacobian(again)(a).reshape(a.size, a.size)
        np.testing.assert_allclose(jacobian, np.eye(a.size), atol=1e-10)


def test_the_kind_of_the_eigenvalues_is_guarded(rng):
    """The same function, at points where its eigenvalues are real and where they are not."""
    gradient = fdiff.grad(lambda a: np.sum(np.abs(np.linalg.eigvals(a)) ** 2))
    for a in (symmetric(rng, 3), rotation(rng), symmetric(rng, 3) + 1.0, rotation(rng)):
        tape = traced(lambda a: np.sum(np.abs(np.linalg.eigvals(a)) ** 2), a)
        measured = [
            (values(tape, a + 1e-6 * e)[0] - values(tape, a - 1e-6 * e)[0]) / 2e-6
            for e in np.eye(9).reshape(9, 3, 3)
        ]
        np.testing.assert_allclose(gradient(a).ravel(), measured, rtol=1e-6, atol=1e-6)


# --- equal values -------------------------------------------------------------------------------


SUMS = {
    "eigvalsh": lambda a: np.sum(np.linalg.eigvalsh(a)),
    "eigh": lambda a: np.sum(np.linalg.eigh(a)[0]),
    "eigvals": lambda a: np.sum(np.real(np.linalg.eigvals(a))),
    "svdvals": lambda a: np.sum(np.linalg.svdvals(a)),
    "svd": lambda a: np.sum(np.linalg.svd(a)[1]),
    "nuc": lambda a: np.linalg.norm(a, "nuc"),
    "2": lambda a: 3 * np.linalg.norm(a, 2),
    "-2": lambda a: 3 * np.linalg.norm(a, -2),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_equal_values_have_slope_one(name):
    np.testing.assert_array_equal(fdiff.grad(SUMS[name])(np.eye(3)), np.eye(3))


def test_singular_values_of_zero_have_slope_zero():
    assert not np.any(fdiff.grad(SUMS["svdvals"])(np.zeros((3, 2))))
    assert not np.any(fdiff.grad(SUMS["svd"])(np.zeros((3, 2))))


def square_root(a):
    w, v = np.linalg.eigh(a)
    return (v * np.sqrt(w)) @ v.T


def square_root_times(a, b):
    w, v = np.linalg.eigh(a)
    return v @ (np.sqrt(w) * (v.T @ b))


AMBIGUOUS = {
    "vectors": lambda a: np.linalg.eigh(a)[1],
    "square root times a vector": lambda a: square_root_times(a, np.array([1.0, 2.0])),
    "polar factor": lambda a: polar(np, a),
    "curvature": fdiff.grad(lambda a: np.sum(np.linalg.eigvalsh(a) ** 2)),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_vectors_of_equal_values_cannot_tell_is_nan_and_no_wrong_number(name):
    """Of the root of the identity the slope is half the tangent: no local rule can know that.

    Where the root itself is formed, it is known (`tests/transforms/test_matrix_functions.py`).
    """
    assert np.isnan(fdiff.jacobian(AMBIGUOUS[name])(np.eye(2))).any()
    assert np.isfinite(fdiff.jacobian(AMBIGUOUS[name])(np.diag([1.0, 1.5]))).all()


def test_points_without_derivative_can_be_refused():
    vectors, values_ = lambda a: np.linalg.eigh(a)[1], np.linalg.eigvalsh
    with fdiff.kinks("raise"):
        fdiff.jacobian(vectors)(np.diag([1.0, 2.0]))
        fdiff.grad(lambda a: np.sum(values_(a)))(np.eye(2))
        for f, point in (
            (vectors, "equal eigenvalues"),
            (lambda a: np.linalg.svd(a)[0], "equal singular values"),
            (lambda a: np.linalg.svdvals(a - 1.0), "a singular value of 0"),
        ):
            with pytest.raises(KinkError, match=point):
                fdiff.jacobian(f)(np.ones((2, 2)) if "of 0" in point else np.eye(2))


@pytest.mark.parametrize("order", [1, 2])
def test_pseudo_inverses_do_not_feel_equal_singular_values(order, rng):
    """At the identity the pseudo-inverse is the inverse, whose derivatives need no differences."""
    direction = rng.normal(size=(3, 3))

    def along(inverse):
        f = lambda t: np.sum(direction * inverse(np.eye(3) + t * direction))
        return fdiff.grad(f) if order == 1 else fdiff.grad(fdiff.grad(f))

    expected = along(np.linalg.inv)(0.0)
    for bound in (1e-15, 0.5):
        found = along(lambda a, bound=bound: np.linalg.pinv(a, bound))(0.0)
        np.testing.assert_allclose(found, expected, rtol=1e-13)


# --- least squares, rank, condition -------------------------------------------------------------


def test_least_squares_of_tall_matrices_give_residuals_as_numpy_does(rng):
    a, b = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    flat = np.outer(a[:, 0], b[0, [0, 1, 0]])
    problems = [(a, b, None), (a, b[:, 0], -1), (a, b, 0.6), (flat, b, 1e-9), (a.T, b[:3], None)]
    for x, y, bound in problems:
        tape = traced(lambda x, y, bound=bound: np.linalg.lstsq(x, y, bound), x, y)
        for ours, theirs in zip(values(tape, x, y), np.linalg.lstsq(x, y, bound), strict=True):
            assert ours.dtype == np.asarray(theirs).dtype
            assert ours.shape == np.shape(theirs)
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)

    smooth = lambda x, y: tuple(np.linalg.lstsq(x, y)[k] for k in (0, 1, 3))
    check(smooth, a, b, rng=rng)
    check(smooth, a, b[:, 0], rng=rng)
    check(lambda x, y: np.linalg.lstsq(x, y, 0.6)[0], a, b, rng=rng)


def test_a_truncated_pseudo_inverse_counts_what_it_cuts_off(rng):
    """Where `rcond` cuts off singular values that are not small, they still turn the others."""
    a = np.diag([3.0, 2.0, 1.0]) + 0.1 * rng.normal(size=(3, 3))
    for shape in ((3, 3), (3, 2), (2, 3)):
        check(lambda a: np.linalg.pinv(a, 0.75), a[: shape[0], : shape[1]], rng=rng)


@pytest.mark.parametrize("gap", [0.1, 1e-3, 1e-6])
def test_a_small_gap_at_the_bound_is_seen(gap, rng):
    """d(pinv) at diag(1, s) with s cut off: 1 / (1 - s**2) in the entries that mix both."""
    s = 1.0 - gap
    ours = fdiff.jacobian(lambda a: np.linalg.pinv(a, 1.0 - gap / 2))(np.diag([1.0, s]))
    expected = np.zeros((2, 2, 2, 2))
    expected[0, 0, 0, 0] = -1.0
    for i, j in ((0, 1), (1, 0)):
        expected[i, j, j, i] = 1.0 / (1.0 - s * s)
        expected[i, j, i, j] = s / (1.0 - s * s)
    np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-12)


def test_condition_numbers_of_singular_matrices_are_infinite(rng):
    a = np.zeros((2, 3, 3))
    a[0] = np.diag([1.0, 2.0, 4.0])
    a[1] = np.diag([1.0, 0.0, 2.0])
    for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro"):
        out = values(traced(lambda a: np.linalg.cond(a, p), a), a)[0]
        np.testing.assert_allclose(out, np.linalg.cond(a, p))
        gradient = fdiff.grad(lambda a: np.linalg.cond(a, p)[0])(a)
        assert np.all(np.isfinite(gradient[0]))


def test_rank_is_a_number_that_never_moves(rng):
    a = rng.normal(size=(4, 3))
    tape = traced(lambda a: np.linalg.matrix_rank(a) * np.sum(a), a)
    check_derivatives(tape, [a], rng)


def test_raw_qr_is_refused():
    with pytest.raises(UnsupportedError, match=r"numpy\.linalg\.qr with mode='raw'"):
        traced(lambda a: np.linalg.qr(a, "raw"), np.eye(3))
    with pytest.warns(DeprecationWarning, match="'full' option is deprecated"):
        traced(lambda a: np.linalg.qr(a, "full")[0], np.eye(3))


# --- determinants of singular matrices ----------------------------------------------------------


def exact_determinant_derivative(a, places):
    """Mixed derivative of the determinant by the entries at `places`.

    It is the minor without their rows and columns, with the sign of the permutation that brings
    them to the front.
    """
    rows, cols = [i for i, _ in places], [j for _, j in places]
    if len(set(rows)) < len(rows) or len(set(cols)) < len(cols):
        return 0.0
    n = len(a)
    other = [[k for k in range(n) if k not in gone] for gone in (rows, cols)]
    signs = [
        np.linalg.det(np.eye(n)[[*rows, *other[0]]]),
        np.linalg.det(np.eye(n)[[*cols, *other[1]]]),
    ]
    rest = [[mpmath.mpf(float(a[i, j])) for j in other[1]] for i in other[0]]
    return float(np.round(signs[0] * signs[1])) * float(leibniz(rest))


def leibniz(m):
    if not m:
        return mpmath.mpf(1)
    return sum(
        (-1) ** j * m[0][j] * leibniz([row[:j] + row[j + 1 :] for row in m[1:]])
        for j in range(len(m))
    )


RANKS = [(1, 0), (2, 0), (2, 1), (3, 3), (3, 2), (3, 1), (4, 4), (4, 3), (4, 2), (4, 1), (5, 3)]


@pytest.mark.parametrize(("n", "rank"), RANKS)
def test_second_derivatives_of_determinants_are_exact_at_any_rank(n, rank, rng):
    a = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n))
    h = fdiff.hessian(np.linalg.det)(a)
    expected = np.zeros_like(h)
    for place in itertools.product(range(n), repeat=4):
        expected[place] = exact_determinant_derivative(a, [place[:2], place[2:]])
    size = np.max(np.abs(expected), initial=1.0)
    np.testing.assert_allclose(h, expected, rtol=1e-12, atol=1e-12 * size)


@pytest.mark.slow
def test_determinants_have_all_their_derivatives(rng):
    """The third and fourth at a matrix of rank 1, and at the zero matrix."""
    for a in (np.outer([1.0, 2.0, -1.0, 0.5], [0.3, 1.0, 2.0, -1.0]), np.zeros((4, 4))):
        dots = rng.normal(size=(4, 4, 4))

        def f(t, a=a, dots=dots):
            return np.linalg.det(a + np.tensordot(t, dots, 1))

        third = fdiff.jacobian(fdiff.hessian(f))(np.zeros(4))
        fourth = fdiff.hessian(lambda t, f=f: fdiff.hessian(f)(t)[0, 1])(np.zeros(4))
        for order, found in ((3, third[0, 1, 2]), (4, fourth[2, 3])):
            expected = sum(
                exact_determinant_derivative(a, list(zip(places[::2], places[1::2], strict=True)))
                * np.prod([dots[k][places[2 * k], places[2 * k + 1]] for k in range(order)])
                for places in itertools.product(range(4), repeat=2 * order)
            )
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


# --- stacks, single precision, complex numbers --------------------------------------------------


STACKED = {
    "eigh": lambda a: tuple(np.linalg.eigh(a, "U")),
    "eig": lambda a: tuple(np.linalg.eig(a)),
    "svd": lambda a: tuple(np.linalg.svd(a[..., :2])),
    "qr": lambda a: tuple(np.linalg.qr(a[..., :2, :])),
    "complete qr": lambda a: tuple(np.linalg.qr(a[..., :2], "complete")),
    "pinv": lambda a: np.linalg.pinv(a, 0.5),
    "lstsq": lambda a: tuple(np.linalg.lstsq(a[:, :2], a[:, 2])),
    "cond": lambda a: np.linalg.cond(a, 1),
    "norm": lambda a: np.linalg.norm(a, "nuc"),
    "rank": lambda a: np.linalg.matrix_rank(a, rtol=0.5),
    "tensorinv": lambda a: np.linalg.tensorinv(a, 1),
}


@pytest.mark.parametrize("name", STACKED)
def test_batches_are_loops(name, rng):
    f = STACKED[name]
    stack = np.diag([1.0, 2.0, 3.5]) + 0.2 * rng.normal(size=(4, 3, 3))
    wide = values(verify(batch(traced(f, stack[0]), [True], 4)), stack)
    rows = [values(traced(f, one), one) for one in stack]
    for k, out in enumerate(wide):
        np.testing.assert_allclose(out, np.stack([row[k] for row in rows]), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", [n for n in STACKED if n != "rank"])
def test_gradients_of_single_precision_stay_single(name, rng):
    a = (np.diag([1.0, 2.0, 3.5]) + 0.2 * rng.normal(size=(3, 3))).astype(np.float32)

    def f(a):
        out = STACKED[name](a)
        return sum(
            np.sum(np.square(np.real(o))) for o in (out if isinstance(out, tuple) else (out,))
        )

    for derivative in (fdiff.grad(f), fdiff.hessian(f)):
        assert derivative(a).dtype == np.float32
        wide = derivative(a.astype(np.float64))
        np.testing.assert_allclose(derivative(a), wide, atol=1e-3 * np.max(np.abs(wide)))


@pytest.mark.slow
def test_hermitian_matrices_against_jax(rng):
    a = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))

    def f(xp, re, im):
        m = re + 1j * im
        w, v = xp.linalg.eigh(m @ xp.conj(m.T))
        root = (v * xp.sqrt(w)) @ xp.conj(v.T)
        u, _, vh = xp.linalg.svd(m)
        return xp.real(xp.sum(root @ root @ root)) + xp.imag(xp.sum((u @ vh) ** 2))

    ours = fdiff.grad(lambda re, im: f(np, re, im), argnums=(0, 1))(a.real, a.imag)
    theirs = jax.grad(lambda re, im: f(jnp, re, im), argnums=(0, 1))(a.real, a.imag)
    for g, h in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(g, h, rtol=1e-10, atol=1e-10)


def test_null_spaces_of_complex_matrices(rng):
    re, im = rng.normal(size=(2, 4, 3))

    def others(re, im):
        u = np.linalg.svd(re + 1j * im)[0][:, 3:]
        return np.real(u @ np.conj(u.T)), np.imag(u @ np.conj(u.T))

    check(others, re, im, rng=rng)

"""Functions of symmetric matrices, ``V f(w) V'``, where eigenvalues are equal or close.

References are mpmath's square roots, exponentials and logarithms of matrices, by differences with
90 digits, and SciPy's Fréchet derivatives.
"""

import mpmath as mp
import numpy as np
import pytest
import scipy.linalg

import fdiff
from fdiff.ops.linear_algebra.spectral_sums import known_function

N = 3
RNG = np.random.default_rng(7)
E, H, G = (x + x.T for x in RNG.normal(size=(3, N, N)))
WEIGHTS = RNG.normal(size=(N, N))
Q = np.linalg.qr(RNG.normal(size=(N, N)))[0]

SPECTRA = {
    "all equal": [2.0, 2.0, 2.0],
    "two equal": [1.0, 1.0, 2.5],
    "a unit apart": [1.0, 1.0 + 2e-16, 2.5],
    "rounding apart": [1.0, 1.0 + 1e-14, 2.5],
    "1e-9 apart": [1.0, 1.0 + 1e-9, 2.5],
    "1e-5 apart": [1.0, 1.0 + 1e-5, 1.0 + 3e-5],
    "1e-2 apart": [1.0, 1.01, 1.03],
    "apart": [0.4, 1.0, 2.5],
    "of all sizes": [1e-6, 1.0, 1.0 + 1e-8],
}
FUNCTIONS = {
    "sqrt": (np.sqrt, mp.sqrtm),
    "exp": (np.exp, mp.expm),
    "log": (np.log, mp.logm),
    "inverse root": (lambda w: 1 / np.sqrt(w), lambda a: mp.sqrtm(a) ** -1),
    "cube": (lambda w: w**3, lambda a: a * a * a),
    "gaussian": (lambda w: np.exp(-0.5 * w**2), lambda a: mp.expm(-a * a / 2)),
    "shifted": (lambda w: np.log(np.maximum(w, 1e-9) + 0.5), lambda a: mp.logm(a + mp.eye(N) / 2)),
}


def columns(w, v, f):
    return (v * f(w)) @ v.T


def rows(w, v, f):
    return v @ (f(w)[:, None] * v.T)


def by_diag(w, v, f):
    return v @ np.diag(f(w)) @ v.T


def by_einsum(w, v, f):
    return np.einsum("ij,j,kj->ik", v, f(w), v)


def by_multi_dot(w, v, f):
    return np.linalg.multi_dot([v, np.diag(f(w)), v.T])


def by_dot(w, v, f):
    return np.dot(v * f(w[None, :]), v.T)


def by_stack(w, v, f):
    return np.matmul(v * f(w)[..., None, :], np.swapaxes(v, -1, -2))


def by_tensordot(w, v, f):
    return np.tensordot(v * f(w), v, axes=(1, 1))


def by_halves(w, v, f):
    half = v * np.sqrt(f(w))
    return half @ half.T


SPELLINGS = [
    columns,
    rows,
    by_diag,
    by_einsum,
    by_multi_dot,
    by_dot,
    by_stack,
    by_tensordot,
    by_halves,
]


def program(f, spelling=columns, uplo="L"):
    def of_matrix(a):
        w, v = np.linalg.eigh(a, uplo)
        return spelling(w, v, f)

    return of_matrix


def is_recognised(of_matrix):
    tape = fdiff.make_tape(of_matrix, np.eye(N))
    return any(node.primitive is known_function for node in tape.nodes)


def derivative(of_matrix, a, directions):
    """Mixed derivative of a function of mpmath's matrices, by differences along the directions."""
    with mp.workdps(90):
        h = mp.mpf(10) ** -14
        total = mp.zeros(N)
        for signs in np.ndindex(*[2] * len(directions)):
            x = mp.matrix(a.tolist())
            for s, d in zip(signs, directions, strict=True):
                x += (h if s else -h) * mp.matrix(d.tolist())
            total += (-1) ** (len(signs) - sum(signs)) * of_matrix(x)
        total /= (2 * h) ** len(directions)
        return np.array(total.tolist(), dtype=complex).real


def close(found, wanted, accuracy):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=accuracy * np.abs(wanted).max())


def matrix(spectrum):
    return np.diag(SPECTRA[spectrum])


every = pytest.mark.parametrize("spectrum", SPECTRA)


@every
@pytest.mark.parametrize("function", FUNCTIONS)
def test_first_order(function, spectrum):
    f, exact = FUNCTIONS[function]
    a, g = matrix(spectrum), program(f)
    wanted = derivative(exact, a, [E])
    close(fdiff.jvp(g, a, E)[1], wanted, 1e-12)
    slope = fdiff.grad(lambda x: np.sum(WEIGHTS * g(x)))(a)
    backwards = np.sum(slope * E)
    assert abs(backwards - np.sum(WEIGHTS * wanted)) < 1e-12 * np.abs(wanted).max() * N**2


@every
@pytest.mark.parametrize("function", ["sqrt", "exp", "log", "cube"])
def test_second_and_third_order(function, spectrum):
    f, exact = FUNCTIONS[function]
    a, g = matrix(spectrum), program(f)
    wanted = derivative(exact, a, [E, H])
    push = lambda of, d: lambda x: fdiff.jvp(of, x, d)[1]
    close(push(push(g, E), H)(a), wanted, 1e-9)
    total = lambda x: np.sum(WEIGHTS * g(x))
    bilinear = np.sum(WEIGHTS * wanted)
    scale = np.abs(WEIGHTS * wanted).max()
    for found in (
        np.sum(fdiff.hvp(total, a, H)[1] * E),
        np.sum(fdiff.grad(lambda x: np.sum(fdiff.grad(total)(x) * E))(a) * H),
        E.ravel() @ fdiff.hessian(total)(a).reshape(N * N, N * N) @ H.ravel(),
    ):
        assert abs(found - bilinear) < 1e-9 * scale
    third = derivative(exact, a, [E, H, G])
    close(push(push(push(g, E), H), G)(a), third, 1e-6)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings(spelling):
    """They are recognised, give the same numbers as before, and the same derivatives."""
    g, a = program(np.sqrt, spelling), Q @ np.diag([1.0, 1.0, 2.0]) @ Q.T
    assert is_recognised(g)
    close(fdiff.jit(g)(a), g(a), 1e-15)
    root = scipy.linalg.sqrtm(a)
    close(fdiff.jvp(g, a, E)[1], scipy.linalg.solve_sylvester(root, root, E), 1e-13)
    close(fdiff.jvp(program(np.exp, spelling), a, E)[1], scipy.linalg.expm_frechet(a, E)[1], 1e-13)


def test_eigenvalues_in_both_triangles_and_dtypes():
    for uplo, dtype in (("U", np.float64), ("L", np.float32)):
        a = np.eye(N, dtype=dtype) * 4
        found = fdiff.jvp(program(np.sqrt, uplo=uplo), a, E.astype(dtype))[1]
        assert found.dtype == dtype
        close(found, E / 4, 10 * np.finfo(dtype).eps)


def test_stacks_and_batches():
    stack = np.stack([np.eye(N) * 4, np.diag([1.0, 1.0, 9.0])])
    g = program(np.sqrt, by_stack)
    wanted = [derivative(mp.sqrtm, a, [E]) for a in stack]
    close(fdiff.jvp(g, stack, np.stack([E, E]))[1], wanted, 1e-13)
    mapped = fdiff.vmap(lambda a: fdiff.jvp(program(np.sqrt), a, E)[1])(stack)
    close(mapped, wanted, 1e-13)
    slopes = fdiff.vmap(fdiff.grad(lambda a: np.sum(WEIGHTS * program(np.sqrt)(a))))(stack)
    close(np.sum(slopes * E, (1, 2)), np.sum(WEIGHTS * np.array(wanted), (1, 2)), 1e-12)
    forward, reverse = (
        fdiff.jacobian(program(np.exp), mode=m)(stack[1]) for m in ("forward", "reverse")
    )
    close(forward, reverse, 1e-13)


def test_numbers_that_move():
    """``exp(-t A)``, also with one time for each of a batch, and the derivative of both."""

    def propagator(t, a):
        w, v = np.linalg.eigh(a)
        return (v * np.exp(-t * w)) @ v.T

    a, t = np.diag([1.0, 1.0, 2.0]), 0.7
    exact = -a @ scipy.linalg.expm(-t * a)
    close(fdiff.jacobian(propagator)(t, a), exact, 1e-13)
    both = derivative(lambda x: -x * mp.expm(-mp.mpf(t) * x), a, [E])
    mixed = fdiff.jacobian(lambda t: fdiff.jvp(lambda x: propagator(t, x), a, E)[1])(t)
    close(mixed, both, 1e-13)
    times = np.array([0.2, 0.7])
    found = fdiff.vmap(lambda t: fdiff.grad(lambda t: np.sum(WEIGHTS * propagator(t, a)))(t))(times)
    close(found, [np.sum(WEIGHTS * (-a @ scipy.linalg.expm(-t * a))) for t in times], 1e-13)


def test_no_kink_is_seen_in_a_function_of_the_matrix():
    with fdiff.kinks("raise"):
        found = fdiff.jvp(program(np.sqrt), 4 * np.eye(N), E)[1]
        with pytest.raises(fdiff.errors.KinkError, match="equal eigenvalues"):
            fdiff.jvp(lambda a: np.linalg.eigh(a)[1], np.eye(N), E)
    close(found, E / 4, 1e-15)


def test_what_is_no_function_of_the_matrix():
    """Weights that differ from column to column, and projectors: NaN at equal eigenvalues."""
    others = {
        "numbers of columns": lambda w, v: (v * (w * np.arange(3.0))) @ v.T,
        "projector": lambda w, v: v[:, :2] @ v[:, :2].T,
        "shuffled": lambda w, v: (v * np.sqrt(w[::-1])) @ v.T,
        "two matrices": lambda w, v: (v * np.sqrt(w)) @ np.linalg.eigh(2.0 * WEIGHTS)[1].T,
    }
    for g in others.values():
        f = lambda a, g=g: g(*np.linalg.eigh(a))
        assert not is_recognised(f)
        for gap in (0.0, 2e-16, 1e-15):
            assert np.isnan(fdiff.jvp(f, np.diag([1.0, 1.0 + gap, 2.0]), E)[1]).any()
            slope = fdiff.grad(lambda a, f=f: np.sum(WEIGHTS * f(a)))(
                np.diag([1.0, 1.0 + gap, 2.0])
            )
            assert np.isnan(slope).any()
        a = np.diag([1.0, 1.5, 2.0])
        step = (f(a + 1e-6 * E) - f(a - 1e-6 * E)) / 2e-6
        close(fdiff.jvp(f, a, E)[1], step, 1e-8)


def test_a_function_with_a_jump_between_eigenvalues():
    """The projector onto a whole part of the spectrum is a function of the matrix."""
    g = program(lambda w: np.where(w > 1.5, 1.0, 0.0))
    a = Q @ np.diag([1.0, 1.0, 2.0]) @ Q.T
    step = (g(a + 1e-6 * E) - g(a - 1e-6 * E)) / 2e-6
    close(fdiff.jvp(g, a, E)[1], step, 1e-8)

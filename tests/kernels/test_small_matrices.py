"""Systems and decompositions of up to four rows are written out: the bits of the routines."""

from itertools import product

import numpy as np
import pytest
import scipy.linalg

import fdiff
from fdiff import kernels
from fdiff.interpret import evaluate

MANY = 64  # of such a stack, the sizes of a matrix are part of the kernel


def lower(a):
    return np.tril(a) + 5 * np.eye(a.shape[-1], dtype=a.dtype)


def positive(a):
    return a @ np.swapaxes(a, -1, -2) + np.eye(a.shape[-1], dtype=a.dtype)


FUNCTIONS = {
    "solve": np.linalg.solve,
    "solve of one": lambda a, b: np.linalg.solve(a, b[..., :1]),
    "inv": lambda a, b: np.linalg.inv(a),
    "det": lambda a, b: np.linalg.det(a),
    "slogdet": lambda a, b: np.stack(np.linalg.slogdet(a)),
    "cholesky": lambda a, b: np.linalg.cholesky(positive(a)),
    "solve by Cholesky": lambda a, b: np.linalg.solve(np.linalg.cholesky(positive(a)), b),
}
EXACT = ("solve", "solve of one", "inv", "det")  # in the others, rt.log and sums may be reordered


def stack(n, dtype, seed=0):
    """Regular matrices, many of which have equal pivots to choose from, and right-hand sides."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(-2, 3, (40 * MANY, n, n)).astype(float)
    whole[::3] = rng.normal(size=whole[::3].shape)
    regular = whole[np.abs(np.linalg.det(whole)) > 0.3][:MANY]
    assert len(regular) == MANY
    return regular.astype(dtype), rng.normal(size=(MANY, n, 3)).astype(dtype)


def kernel_of(tape):
    return kernels.compile(tape, ("C",) * len(tape.inputs))


@pytest.mark.parametrize(("name", "n"), list(product(FUNCTIONS, (1, 2, 3, 4))))
def test_stacks_have_the_bits_of_routines(name, n):
    for dtype in (np.float64, np.float32):
        a, b = stack(n, dtype)
        tape = fdiff.make_tape(FUNCTIONS[name], a, b)
        assert "rt.call" not in kernels.source(tape, ("C", "C"))
        (value,) = kernel_of(tape)(a, b)
        eps = 1e-9 if dtype == np.float64 else 2e-3
        np.testing.assert_allclose(value, evaluate(tape, a, b)[0], rtol=eps, atol=eps)
        parts = np.split(a, 2), np.split(b, 2)  # few rows: no size is part of that kernel
        tape = fdiff.make_tape(FUNCTIONS[name], *(part[0] for part in parts))
        assert n == 1 or "rt.call" in kernels.source(tape, ("C", "C"))
        called = np.concatenate(
            [kernel_of(tape)(*some)[0] for some in zip(*parts, strict=True)],
            axis=1 if name == "slogdet" else 0,
        )
        if name in EXACT:
            np.testing.assert_array_equal(value, called)
        else:
            eps = 100 * np.finfo(dtype).eps
            np.testing.assert_allclose(value, called, rtol=eps, atol=eps)


def triangular(lower, trans, unit):
    def solve(a, b):
        return scipy.linalg.solve_triangular(a, b, lower=lower, trans=trans, unit_diagonal=unit)

    return solve


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_in_bodies_of_loops(n):
    def step(x, a, b):
        a = a + 1e-3 * np.tanh(x)  # what the trip before gave
        low = lower(a)
        sums = [f(a, b).sum() for f in FUNCTIONS.values()]
        sums += [triangular(*how)(low, b).sum() for how in product((True, False), (0, 1), (0, 1))]
        return x + sum(sums), np.stack(sums)

    a, b = (x[:6] for x in stack(n, np.float64))

    def f(a, b):
        return sum(np.sum(out) for out in fdiff.scan(lambda x, ab: step(x, *ab), 0.0, (a, b)))

    for call in (f, fdiff.grad(f, argnums=(0, 1))):
        tape = fdiff.make_tape(call, a, b)
        text = kernels.source(tape, ("C", "C"))
        assert call is not f or "rt.call" not in text
        for value, expected in zip(kernel_of(tape)(a, b), evaluate(tape, a, b), strict=True):
            scale = np.abs(expected).max()
            np.testing.assert_allclose(value / scale, expected / scale, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["solve", "inv", "cholesky", "triangular"])
def test_singular_matrices_are_errors_as_before(name, n):
    way = {"cholesky": np.linalg.cholesky, "inv": np.linalg.inv}.get(name)
    way = way or {"solve": lambda a: np.linalg.solve(a, a)}.get(name)
    way = way or (lambda a: scipy.linalg.solve_triangular(a, a, lower=True))
    good = np.stack([np.eye(n)] * MANY)
    loop = fdiff.make_tape(lambda a: fdiff.scan(lambda x, a: (x, way(a)), 0.0, a)[1], good)
    for tape in (fdiff.make_tape(way, good), loop):
        kernel = kernel_of(tape)
        kernel(good)
        bad = good.copy()
        bad[MANY // 2, n - 1, n - 1] = 0.0
        with pytest.raises(np.linalg.LinAlgError):
            kernel(bad)
        bad[MANY // 2] = np.nan  # as LAPACK's
        if name != "cholesky":
            assert np.isnan(kernel(bad)[0][MANY // 2]).any()


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_determinants_of_singular_matrices_are_zero(n):
    a = np.zeros((MANY, n, n))
    a[1::2, 0, 0] = 1.0
    tape = fdiff.make_tape(lambda a: (np.linalg.det(a), *np.linalg.slogdet(a)), a)
    value, sign, log = kernel_of(tape)(a)
    expected = np.arange(MANY) % 2 if n == 1 else np.zeros(MANY)
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(sign, expected)
    np.testing.assert_array_equal(log, np.where(expected, 0.0, -np.inf))


@pytest.mark.slow
def test_numba_compiles_them():
    a, b = stack(2, np.float64)
    tape = fdiff.make_tape(lambda a, b: (np.linalg.solve(a, b), np.linalg.slogdet(a)[1]), a, b)
    kernel = kernels.compile(tape, ("C", "C"), "numba")
    for value, expected in zip(kernel(a, b), kernel_of(tape)(a, b), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-14, atol=1e-14)


def test_of_long_programs_the_first_are_written_out():
    def f(a):
        x = a
        for k in range(40):
            x = np.linalg.solve(a + k, x)
        return x

    a = np.stack([np.diag([4.0, 5.0, 6.0, 7.0])] * MANY)
    text = kernels.source(fdiff.make_tape(f, a), ("C",))
    assert "rt.call" in text
    assert 5000 < text.count("\n") < 8000

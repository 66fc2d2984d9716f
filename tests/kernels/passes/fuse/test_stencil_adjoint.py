"""Kernels that gather the adjoints of overlapping slices: windows, edges, sums beside them."""

import numpy as np
import pytest
from tapes import tape_of

import fdiff
from fdiff import kernels
from fdiff.interpret import evaluate
from fdiff.transforms.batch import batch
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def second_differences(x):
    return np.sum((x[2:] - 2.0 * x[1:-1] + x[:-2]) ** 2) + np.sum(x**4)


def advected(x):
    return (x[1:] - x[:-1]) * np.sin(x[1:])


def laplacian(u):
    inner = u[1:-1, 1:-1]
    sides = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return np.sum((sides - 4.0 * inner + np.exp(0.1 * inner)) ** 2)


def nine_points(u):
    n, m = u.shape
    total = 0.0
    for i in range(3):
        for j in range(3):
            total = total + (1.0 + i + 3.0 * j) * u[i : n - 2 + i, j : m - 2 + j]
    return total**2


def along_one_axis(u):
    return np.sum((u[:, 1:] - u[:, :-1]) ** 2 * u[:, :-1], axis=1)


def transposed(u):
    v = u.T
    return np.sum(v[1:] * u[:, :-1].T) + np.sum(v[1:, 1:] * u.T[:-1, 1:] ** 2)


def mixed(x):
    """Overlapping slices beside strided, reversed, short and gathered ones."""
    wide = np.sum(x[1:] * x[:-1] ** 2) + np.sum(x[3:] * x[:-3])
    return wide + np.sum(x[::2] ** 3) + np.sum(x[::-1] * x) + x[0] * x[-1] + np.sum(x[[0, 2, 2]])


def nested(x):
    y = x[1:] * x[:-1]
    z = y[1:-1] + y[2:] ** 2
    return np.sum(z[1:] * z[:-1])


def kept_between(x):
    f = np.cumsum(x[1:] * x[:-1])
    return np.sum(f[1:] * f[:-1] * x[2:]) + np.sum(f)


def cube(t):
    return np.sum((t[1:, 1:, 1:] - t[:-1, :-1, :-1]) ** 2) + np.sum(t[1:, :, :-1] * t[:-1, :, 1:])


def two_arrays(x, y):
    return np.sum((x[1:] * y[:-1] - x[:-1] * y[1:]) ** 2)


def single(x):
    """One slice put back: nothing but zeros around it."""
    return np.sum(np.sin(x[1:]))


VECTORS = [rosenbrock, second_differences, advected, mixed, nested, kept_between, single]
MATRICES = [laplacian, nine_points, along_one_axis, transposed]


def shaped(shape):
    return 0.6 + np.random.default_rng(sum(shape)).uniform(0.1, 0.9, shape)


def check(tape, arrays):
    kernel = kernels.compile(tape, ("C",) * len(arrays))
    for got, want in zip(kernel(*arrays), evaluate(tape, *arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def check_all(f, *xs):
    """Reverse mode, forward over reverse, and reverse mode for several cotangents at once."""
    tape = tape_of(f, *xs)
    rng = np.random.default_rng(3)
    wrt = range(len(xs))
    pulled = simplify(vjp(tape, wrt))
    bars = [rng.normal(size=t.shape)[()] for t in tape.output_types]
    check(pulled, [*xs, *bars])
    dots = [rng.normal(size=x.shape) for x in xs]
    check(simplify(jvp(pulled, wrt)), [*xs, *bars, *dots])
    several = [np.stack([bar, 2.0 * bar, -bar]) for bar in bars]
    mapped = [False] * len(xs) + [True] * len(bars)
    check(simplify(batch(pulled, mapped, 3)), [*xs, *several])


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("f", VECTORS)
def test_vectors(f, n):
    check_all(f, shaped((n,)))


@pytest.mark.parametrize("shape", [(3, 9), (8, 4)])
@pytest.mark.parametrize("f", MATRICES)
def test_matrices(f, shape):
    check_all(f, shaped(shape))


@pytest.mark.parametrize("n", [3, 12])
def test_a_square(n):
    check_all(laplacian, shaped((n, n)))


@pytest.mark.parametrize("shape", [(2, 5, 3), (4, 3, 6)])
def test_three_axes(shape):
    check_all(cube, shaped(shape))


@pytest.mark.parametrize("n", [2, 3, 17])
def test_two_arrays(n):
    check_all(two_arrays, shaped((n,)), shaped((n,))[::-1].copy())


@pytest.mark.parametrize("f", [rosenbrock, advected, single])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_slices_of_one_entry_and_of_none(f, n):
    check_all(f, shaped((n,)))


def test_single_precision():
    x = shaped((9,)).astype(np.float32)
    tape = simplify(vjp(tape_of(rosenbrock, x), [0]))
    kernel = kernels.compile(tape, ("C", "C"))
    for got, want in zip(kernel(x, np.float32(1)), evaluate(tape, x, np.float32(1)), strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=2e-5)


@pytest.mark.parametrize("f", [rosenbrock, second_differences, laplacian])
def test_the_adjoint_is_one_loop_over_the_window(f):
    """Nothing is added to memory in a loop that grows with the array, and edges are one nest."""
    x = shaped((9, 9) if f is laplacian else (9,))
    text = kernels.source(simplify(vjp(tape_of(f, x), [0])), ("C", "C"))
    nests = text.split("    # ")
    assert sum("in range(max(" in nest for nest in nests) == 1
    assert sum("rt.keep_scalar()" in nest for nest in nests) == 1
    assert all("rt.add(out1" not in nest for nest in nests if "rt.keep_scalar()" not in nest)


def test_what_is_one_operation_on_a_kept_array_is_computed_again():
    """Of a residual `r` the adjoints ``2 r`` are gathered: `r` is kept, and the exponential."""
    n = np.ones((9, 8))
    gradient = fdiff.source(fdiff.value_and_grad(laplacian), n)
    assert gradient.count("work[") == 2
    assert "exp" in gradient

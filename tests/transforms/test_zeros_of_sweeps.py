"""Zeros of structure in dense results that sweeps give: of long functions, in chunks, on a GPU.

Of long functions they are put in where a result is not finite, before the first call is compiled;
then they are part of the kernel.
"""

import numpy as np
import pytest
from test_dense_terms import SWEPT, diagonal

import fdiff
from fdiff.functional.operators import dense_modes, structured_steps
from fdiff.transforms.terms import dense_tapes

X = np.array([np.inf, 2.0, np.nan, 0.5])


@pytest.fixture(autouse=True)
def swept(monkeypatch):
    """No derivative is taken from terms, and each function counts as a long one."""
    monkeypatch.setattr(dense_tapes, "dense_tape", lambda *_: None)
    monkeypatch.setattr(structured_steps, "dense_tape", lambda *_: None)
    monkeypatch.setattr(structured_steps, "MASKED", 0)


@pytest.mark.parametrize("tier", ["", "interpret", "evaluate", "compile"])
@pytest.mark.parametrize("name", SWEPT)
def test_zeros_of_long_functions_in_each_tier(name, tier, monkeypatch):
    """At each call: by the general way, by the fast path, compiled before and after."""
    if tier:
        monkeypatch.setenv("FDIFF_TIER", tier)
    derivative, f, wanted = SWEPT[name]
    prepared = derivative(f)
    for _ in range(6):
        np.testing.assert_array_equal(prepared(X), wanted(X))
    finite = np.array([1.0, 2.0, -3.0, 0.5])
    np.testing.assert_allclose(prepared(finite), wanted(finite), rtol=1e-12)


def test_the_walk_waits_for_a_kernel(monkeypatch):
    """Finite results of what is interpreted take no walk; a kernel has the zeros."""
    walks = []
    walk = structured_steps.zero_masks
    monkeypatch.setattr(structured_steps, "zero_masks", lambda *a: walks.append(1) or walk(*a))
    jacobian = fdiff.jacobian(lambda x: x * x)
    with monkeypatch.context() as patched:
        patched.setenv("FDIFF_TIER", "interpret")
        for _ in range(4):
            jacobian(np.ones(4))
        assert not walks
    monkeypatch.setenv("FDIFF_TIER", "compile")
    for _ in range(70):
        np.testing.assert_array_equal(jacobian(X), diagonal(2 * X))
    assert walks


def test_zeros_inside_other_functions():
    def sliced(x):
        return fdiff.jacobian(lambda x: x * x, x)[1:]

    np.testing.assert_array_equal(fdiff.jit(sliced)(X), diagonal(2 * X)[1:])
    batch = fdiff.vmap(fdiff.jacobian(lambda x: x * x))(np.stack([X, X[::-1]]))
    np.testing.assert_array_equal(batch[1], diagonal(2 * X[::-1]))


def test_zeros_of_kernels_in_place_of_chunks(monkeypatch):
    monkeypatch.setattr(dense_modes, "BUDGET", 64)
    for f in (fdiff.jacobian(lambda x: x * x), fdiff.hessian(lambda x: np.sum(x**3) / 3)):
        for _ in range(3):
            np.testing.assert_array_equal(f(X), diagonal(2 * X))
        f.compile(X)
        np.testing.assert_array_equal(f(X), diagonal(2 * X))


def test_hessians_of_two_arguments_stay_symmetric():
    """Zeros that the structure shows on one side of the diagonal alone are there on both sides."""

    def f(x, y):
        return np.sum(x[:2] ** 2 * y[1:3]) + np.sum(y**3)

    hessian = fdiff.hessian(f, argnums=(0, 1))
    x, y = np.array([np.inf, 1.0, 2.0]), np.array([1.0, np.inf, 3.0])
    blocks = hessian(x, y)
    sparse = fdiff.hessian(f, argnums=(0, 1), sparse=True)(x, y)
    for i in (0, 1):
        for j in (0, 1):
            np.testing.assert_array_equal(blocks[i][j], blocks[j][i].T)
            none = sparse[i][j].toarray() == 0
            np.testing.assert_array_equal(blocks[i][j][none], 0.0)


@pytest.mark.parametrize(("tier", "rate"), [("", 0.5), ("interpret", 0.25), ("compile", 2.0)])
def test_zeros_of_loops_wait_for_infinities(tier, rate, monkeypatch):
    """A short function with a loop counts as long: a walk through its body follows each trip."""
    monkeypatch.setattr(structured_steps, "MASKED", 300)
    if tier:
        monkeypatch.setenv("FDIFF_TIER", tier)
    walks = []
    walk = structured_steps.zero_masks
    monkeypatch.setattr(structured_steps, "zero_masks", lambda *a: walks.append(1) or walk(*a))

    def products(x):
        def step(_, y):
            return np.stack([y[0] * rate, y[1] * 3.0, y[2] * y[0]])

        return fdiff.fori_loop(0, 2, step, x)

    derivative = fdiff.jacobian(products)
    np.testing.assert_allclose(
        derivative(np.array([5.0, 2.0, 3.0])),  # the last output is rate * x[0]**2 * x[2]
        [[rate**2, 0.0, 0.0], [0.0, 9.0, 0.0], [30.0 * rate, 0.0, 25.0 * rate]],
        rtol=1e-14,
    )
    assert not walks
    for _ in range(4):
        slopes = derivative(np.array([5.0, 2.0, np.inf]))
        np.testing.assert_array_equal(slopes[:2], [[rate**2, 0.0, 0.0], [0.0, 9.0, 0.0]])
        np.testing.assert_array_equal(slopes[2, :2], [np.inf, 0.0])
    assert walks

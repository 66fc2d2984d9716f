"""Gradients of outputs with one element, whatever their shape, in every form of a call.

SciPy takes objectives of shape ``(1,)`` and ``(1, 1)``; the gradient has the shape of the argument.
"""

import numba
import numpy as np
import pytest
from scipy.optimize import minimize

import fdiff
from fdiff.errors import InputError

X = np.array([0.5, -1.5, 2.0])
WANT = 3 * X**2 + np.cos(X)
OUTPUTS = {
    "()": lambda total: total,
    "(1,)": lambda total: np.reshape(total, (1,)),
    "(1, 1)": lambda total: np.reshape(total, (1, 1)),
    "array of a list": lambda total: np.array([total]),
    "(1, 1, 1)": lambda total: np.reshape(total, 1)[:, None, None],
}


def model(shape, x):
    return OUTPUTS[shape](np.sum(x**3 + np.sin(x)))


TIERS = [
    ("interpret", "f8"),
    ("interpret", "f4"),
    ("evaluate", "f8"),
    ("compile", "f8"),
    ("compile", "f4"),
]


@pytest.fixture(params=TIERS, ids=" ".join)
def dtype(request, monkeypatch):
    """A dtype that the tier in force takes: the bytecode is of float64 alone."""
    fdiff.cache_clear()
    monkeypatch.setenv("FDIFF_TIER", request.param[0])
    yield np.dtype(request.param[1])
    fdiff.cache_clear()


def same(found, want, dtype=np.float64):
    assert np.shape(found) == np.shape(want)
    assert np.asarray(found).dtype == dtype
    np.testing.assert_allclose(found, want, rtol=1e-5 if dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("shape", OUTPUTS)
def test_the_gradient_has_the_shape_of_the_argument(shape, dtype):
    f = lambda x: model(shape, x)
    x = X.astype(dtype)
    both, slope = fdiff.value_and_grad(f), fdiff.grad(f)
    for _ in range(6):  # the later ones by a fast path
        value, found = both(x)
        same(value, f(x), dtype)
        assert type(value) is type(f(x))
        same(found, WANT, dtype)
        same(slope(x), WANT, dtype)


@pytest.mark.parametrize("shape", OUTPUTS)
def test_other_forms_of_the_call(shape):
    f = lambda x: model(shape, x)
    (value, aux), found = fdiff.value_and_grad(lambda x: (f(x), {"n": x * 2}), has_aux=True)(X)
    same(value, f(X))
    same(aux["n"], 2 * X)
    same(found, WANT)
    same(fdiff.grad(lambda x: (f(x), 1), has_aux=True)(X)[0], WANT)
    assert fdiff.grad(lambda p, q: f(p["x"]) * q, argnums=(0, 1))({"x": X}, 2.0)[0]["x"].shape == (
        3,
    )
    same(fdiff.vmap(fdiff.grad(f))(np.stack([X, 2 * X]))[0], WANT)
    values, slopes = fdiff.vmap(fdiff.value_and_grad(f))(np.stack([X, 2 * X]))
    same(values, np.stack([f(X), f(2 * X)]))
    same(slopes[0], WANT)
    same(fdiff.jit(fdiff.grad(f))(X), WANT)
    out = np.empty(3)
    assert fdiff.grad(f)(X, out=out) is out
    same(out, WANT)
    place = np.empty(np.shape(f(X)))
    value, found = fdiff.value_and_grad(f)(X, out=(place if place.shape else None, out))
    same(value, f(X))
    same(fdiff.jacobian(fdiff.grad(f))(X), fdiff.hessian(lambda x: np.sum(f(x)))(X))
    same(fdiff.hessian(f)(X), np.diag(6 * X - np.sin(X)))
    same(fdiff.grad(lambda x: np.sum(fdiff.grad(f)(x) ** 2))(X), 2 * (6 * X - np.sin(X)) * WANT)


@pytest.mark.parametrize("shape", OUTPUTS)
def test_functions_that_are_differentiated_as_they_run(shape):
    def f(x):
        total = 0.0
        for entry in x:
            total = total + (entry**3 if entry > 0 else np.sin(entry))
        return OUTPUTS[shape](total)

    rng = np.random.default_rng(0)
    both, hess = fdiff.value_and_grad(f), fdiff.hessian(f)
    for _ in range(40):
        x = rng.normal(size=12)
        value, found = both(x)
        same(value, f(x))
        same(found, np.where(x > 0, 3 * x**2, np.cos(x)))
        np.testing.assert_allclose(hess(x), np.diag(np.where(x > 0, 6 * x, -np.sin(x))), atol=1e-13)
    assert both.program.stability, "some calls were eager"


@pytest.mark.parametrize("shape", OUTPUTS)
def test_recorded_arrays(shape):
    z = fdiff.autograd.tensor(X, requires_grad=True)
    found = fdiff.grad(lambda x: model(shape, x))(z)
    same(found.detach().numpy(), WANT)
    np.sum(found).backward()
    same(np.asarray(z.grad), 6 * X - np.sin(X))


@pytest.mark.slow
@pytest.mark.parametrize("shape", OUTPUTS)
def test_compiled_code_calls_such_gradients(shape):
    f = lambda x: model(shape, x)
    slope, both = fdiff.njit(fdiff.grad(f), X), fdiff.njit(fdiff.value_and_grad(f), X)

    @numba.njit
    def call(x):
        value, found = both(x)
        return value, found + slope(x)

    value, found = call(X)
    same(value, f(X))
    same(found, 2 * WANT)


@pytest.mark.parametrize("shape", OUTPUTS)
@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "trust-exact", "SLSQP"])
def test_objectives_of_scipy(shape, method):
    f = lambda x: OUTPUTS[shape](np.sum((x - 1.0) ** 4 + (x - 1.0) ** 2))
    hess = {"hess": fdiff.hessian(f)} if method == "trust-exact" else {}
    apart = minimize(f, [2, 3], jac=fdiff.grad(f), method=method, tol=1e-12, **hess)
    at_once = minimize(fdiff.value_and_grad(f), [2, 3], jac=True, method=method, tol=1e-12, **hess)
    for found in (apart, at_once):
        np.testing.assert_allclose(found.x, [1, 1], atol=1e-4)


@pytest.mark.parametrize("f", [lambda x: x, lambda x: x[:0], lambda x: x[:2, None]])
@pytest.mark.parametrize("operator", [fdiff.grad, fdiff.value_and_grad])
def test_larger_and_empty_outputs_are_refused(operator, f):
    shape = np.shape(f(X))
    words = (
        f"{operator.__name__}(<lambda>): Gradient only defined for scalar-output functions."
        f" Output had shape: {shape}."
    )
    with pytest.raises(InputError) as caught:
        operator(f)(X)
    first, *_, last = str(caught.value).splitlines()
    assert (first, last.strip()) == (words, "Sum it, or use fdiff.jacobian.")

"""`primitive`: functions that are not traced, with derivatives of the user's."""

import ctypes
import ctypes.util
import math

import numba
import numpy as np
import pytest

import fdiff
from fdiff.errors import InputError

X = np.array([0.3, -1.2, 2.5])


@numba.njit
def compiled_sin(x):
    out = np.empty_like(x)
    for k in range(x.size):
        out.flat[k] = math.sin(x.flat[k])
    return out


def sine(rule):
    cos = lambda x: np.cos(x)
    rules = {
        "partials": lambda x, out: (2.0 * cos(x),),
        "vjp": lambda bar, out, x: (2.0 * bar * cos(x),),
        "jvp": lambda dots, out, x: 2.0 * dots[0] * cos(x),
    }
    return fdiff.primitive(compiled_sin, like=0, **{rule: rules[rule]})


@pytest.mark.parametrize("rule", ["partials", "vjp", "jvp"])
def test_a_function_compiled_by_numba_has_derivatives_of_every_kind(rule):
    f = sine(rule)
    slope = 2.0 * np.cos(X)
    np.testing.assert_allclose(f(X), np.sin(X))
    np.testing.assert_allclose(fdiff.grad(lambda x: np.sum(f(x)))(X), slope)
    for operator in (fdiff.jacobian, fdiff.jacrev, fdiff.jacfwd):
        np.testing.assert_allclose(operator(f)(X), np.diag(slope))
    np.testing.assert_allclose(fdiff.jvp(f, X, X)[1], slope * X)
    curved = fdiff.hessian(lambda x: np.sum(f(x)))(X)
    np.testing.assert_allclose(curved, np.diag(-2.0 * np.sin(X)))
    batch = np.stack([X, 2.0 * X])
    mapped = fdiff.vmap(fdiff.grad(lambda x: np.sum(f(x))))(batch)
    np.testing.assert_allclose(mapped, 2.0 * np.cos(batch))
    np.testing.assert_allclose(fdiff.jit(lambda x: f(x) * x)(X), np.sin(X) * X)


def test_the_slope_of_a_function_in_c_calls_it_again():
    lib = ctypes.CDLL(ctypes.util.find_library("m"))
    lib.exp.restype, lib.exp.argtypes = ctypes.c_double, [ctypes.c_double]
    exp = fdiff.primitive(np.vectorize(lambda x: lib.exp(x)), partials=lambda x, out: (exp(x),))
    third = fdiff.grad(fdiff.grad(fdiff.grad(lambda x: exp(2.0 * x))))
    assert third(0.7) == pytest.approx(8.0 * math.exp(1.4))


def test_arguments_broadcast_and_the_type_may_be_told():
    product = fdiff.primitive(lambda a, b: a * b, partials=lambda a, b, out: (b, a))
    total = lambda a, b: np.sum(product(a, b) ** 2)
    a, b = np.arange(3.0), np.arange(6.0).reshape(2, 3)
    expected = fdiff.grad(lambda a, b: np.sum((a * b) ** 2), (0, 1))(a, b)
    for mine, plain in zip(fdiff.grad(total, (0, 1))(a, b), expected, strict=True):
        np.testing.assert_allclose(mine, plain)
    pair = fdiff.primitive(
        lambda x: np.array([x.sum(), x.max()]),
        like=lambda x: np.zeros(2),
        vjp=lambda bar, out, x: (bar[0] + bar[1] * (x == out[1]),),
    )
    np.testing.assert_allclose(fdiff.jacrev(pair)(X), [[1.0, 1.0, 1.0], [0.0, 0.0, 1.0]])


def test_wrong_use_is_refused():
    with pytest.raises(InputError, match="one of partials, vjp and jvp is needed, not 0"):
        fdiff.primitive(np.sin)
    wrong = fdiff.primitive(lambda x: x[:2], partials=lambda x, out: (x,))
    with pytest.raises(InputError, match=r"returned an array of dtype float64 and shape \(2,\)"):
        fdiff.value_and_grad(lambda x: np.sum(wrong(x)))(X)

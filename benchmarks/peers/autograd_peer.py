"""HIPS autograd, by its own calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import autograd
import autograd.numpy as anp

Function = Callable[..., object]
NAMESPACE = anp
SPECIAL = {"erf": "autograd.scipy.special"}


def constant(value: object) -> object:
    return value


def value_and_grad(f: Function, count: int) -> Function:
    return autograd.value_and_grad(f, 0 if count == 1 else tuple(range(count)))


def jacobian(f: Function) -> Function:
    return autograd.jacobian(f)


def fresh_jacobian(f: Function, data: Sequence[object]) -> Function:
    return lambda b: autograd.jacobian(lambda b: f(b, *data))(b)  # noqa: PLW0108 - a fresh one a call


def hessian(f: Function) -> Function:
    return autograd.hessian(f)


def hvp(f: Function) -> Function:
    return autograd.hessian_vector_product(f)


def vjp(f: Function) -> Function:
    def call(x, v):
        pull, out = autograd.make_vjp(f)(x)
        return out, pull(v)

    return call

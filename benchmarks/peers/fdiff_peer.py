"""fdiff, by its public calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import fdiff

Function = Callable[..., object]
NAMESPACE = np
SPECIAL: dict[str, str] = {}


def constant(value: object) -> object:
    return value


def value_and_grad(f: Function, count: int) -> Function:
    return fdiff.value_and_grad(f, argnums=0 if count == 1 else tuple(range(count)))


def jacobian(f: Function) -> Function:
    return fdiff.jacobian(f)


def fresh_jacobian(f: Function, data: Sequence[object]) -> Function:
    return lambda b: fdiff.jacobian(lambda b: f(b, *data), b)


def hessian(f: Function) -> Function:
    return fdiff.hessian(f)


def hvp(f: Function) -> Function:
    return fdiff.hvp(f)


def vjp(f: Function) -> Function:
    return fdiff.vjp(f)

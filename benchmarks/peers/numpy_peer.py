"""NumPy: the plain function itself, without a derivative, as a user has it without fdiff."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Function = Callable[..., object]
NAMESPACE = np
SPECIAL: dict[str, str] = {}


def constant(value: object) -> object:
    return value


def value_and_grad(f: Function, count: int) -> Function:
    return f


def jacobian(f: Function) -> Function:
    return f


def fresh_jacobian(f: Function, data: Sequence[object]) -> Function:
    return lambda b: f(b, *data)


def hessian(f: Function) -> Function:
    return f


def hvp(f: Function) -> Function:
    return lambda x, vector: f(x)


def vjp(f: Function) -> Function:
    return lambda x, cotangent: f(x)

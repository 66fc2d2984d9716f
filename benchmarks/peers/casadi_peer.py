"""CasADi: the graph is built once for a shape, of scalars (SX) where it is small, else MX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import casadi as ca
import numpy as np

Function = Callable[..., object]
Array = np.ndarray

SMALL = 1000  # up to this many entries the scalar graph is built in no time and runs faster


class NAMESPACE:
    """The names that the cases use, where CasADi calls them otherwise."""

    pi = np.pi
    sin, cos, exp, tanh, arctan = ca.sin, ca.cos, ca.exp, ca.tanh, ca.atan
    log, log1p, sqrt, sum = ca.log, ca.log1p, ca.sqrt, ca.sum1


def constant(value: object) -> object:
    return ca.DM(value) if isinstance(value, np.ndarray) else value


def _built(derivative: Callable[..., Sequence[object]]) -> Function:
    """A function that builds the graph of `derivative` at the first call with a new length."""
    graphs: dict[int, Function] = {}

    def call(*args: Array) -> list[Array]:
        size = len(args[0])
        if size not in graphs:
            kind = ca.SX if size <= SMALL else ca.MX
            symbols = [kind.sym(f"x{k}", len(x)) for k, x in enumerate(args)]
            graphs[size] = ca.Function("derivative", symbols, list(derivative(*symbols)))
        return [out.full() for out in graphs[size].call(args)]

    return call


def value_and_grad(f: Function, count: int) -> Function:
    assert count == 1

    def derivative(x):
        out = f(x)
        return out, ca.gradient(out, x)

    built = _built(derivative)

    def call(x: Array) -> tuple[float, Array]:
        out, slope = built(x)
        return out[0, 0], slope[:, 0]

    return call


def jacobian(f: Function) -> Function:
    built = _built(lambda x: [ca.jacobian(f(x), x)])
    return lambda x: built(x)[0]


def fresh_jacobian(f: Function, data: Sequence[object]) -> Function:
    return lambda b: jacobian(lambda b: f(b, *data))(b)  # noqa: PLW0108 - a fresh one a call


def hessian(f: Function) -> Function:
    built = _built(lambda x: [ca.hessian(f(x), x)[0]])
    return lambda x: built(x)[0]


def hvp(f: Function) -> Function:
    built = _built(lambda x, v: [ca.jtimes(ca.gradient(f(x), x), x, v)])
    return lambda x, v: built(x, v)[0][:, 0]


def vjp(f: Function) -> Function:
    def derivative(x, v):
        out = f(x)
        return out, ca.jtimes(out, x, v, True)

    return _built(derivative)

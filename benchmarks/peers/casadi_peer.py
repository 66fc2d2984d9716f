"""CasADi: the graph is built once for a shape, of scalars (SX) where it is small, else MX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import casadi as ca
import numpy as np

Function = Callable[..., object]
Array = np.ndarray

SMALL = 1000  # up to this many entries the scalar graph is built in no time and runs faster
largest = [0]  # entries of the largest constant


def _total(x: object) -> object:
    """The sum of all entries."""
    return ca.sum1(ca.vec(x))


class NAMESPACE:
    """The names that the cases use, where CasADi calls them otherwise."""

    pi = np.pi
    sin, cos, exp, tanh, arctan = ca.sin, ca.cos, ca.exp, ca.tanh, ca.atan
    log, log1p, sqrt, sum = ca.log, ca.log1p, ca.sqrt, staticmethod(_total)


SPECIAL = {"erf": "casadi"}


def constant(value: object) -> object:
    if not isinstance(value, np.ndarray):
        return value
    largest[0] = max(largest[0], value.size)
    return ca.DM(value)


def _built(derivative: Callable[..., Sequence[object]]) -> Function:
    """A function that builds the graph of `derivative` at the first call with new shapes."""
    graphs: dict[tuple, Function] = {}

    def call(*args: Array) -> list[Array]:
        shapes = tuple([x.shape for x in args])
        if shapes not in graphs:
            kind = ca.SX if max(largest[0], *(x.size for x in args)) <= SMALL else ca.MX
            symbols = [kind.sym(f"x{k}", *shape) for k, shape in enumerate(shapes)]
            graphs[shapes] = ca.Function("derivative", symbols, list(derivative(*symbols)))
        return [out.full() for out in graphs[shapes].call(args)]

    return call


def value_and_grad(f: Function, count: int) -> Function:
    def derivative(*xs):
        out = f(*xs)
        return [out, *(ca.gradient(out, x) for x in xs)]

    built = _built(derivative)

    def call(*xs: Array) -> tuple[float, object]:
        out, *slopes = built(*xs)
        shaped = [slope.reshape(x.shape) for slope, x in zip(slopes, xs, strict=True)]
        return out[0, 0], shaped[0] if count == 1 else shaped

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

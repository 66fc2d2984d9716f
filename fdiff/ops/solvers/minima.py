"""Minima as ops: derivatives by the implicit function theorem on the gradient.

At a minimum ``g(x, p) = 0`` with the gradient ``g``, and ``dx = -H^-1 g_p dp`` with the Hessian ``H``.
A variable at a bound moves with the bound. Minimisers stop where the function is flat, at about half
of all digits; so the rule takes one step of Newton's method first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize as so

from ...arraytype import BOOL, F8, INT, ArrayType
from ...primitive import ZERO, Primitive, Sample
from ...trace import TracedArray, apply
from .body import Body, constant_body
from .calls import SOLVERS, Call, Field, require, solver
from .inner import Site, number_types
from .roots import solved

COUNT, TRUTH, NUMBER = ArrayType((), INT), ArrayType((), BOOL), ArrayType((), F8)
Arrays = Sequence[TracedArray]


def fields(x: ArrayType, *, slopes: bool) -> tuple[Field, ...]:
    kept = (("x", x), ("success", TRUTH), ("status", COUNT), ("nfev", COUNT), ("nit", COUNT))
    return (*kept, ("jac", x)) if slopes else kept


# --- SciPy's functions, with results of one form ------------------------------------------------


def _minimize(fun: object, x0: np.ndarray, lower: object = None, upper: object = None, **options: object) -> dict[str, object]:
    if lower is not None:
        options["bounds"] = so.Bounds(lower, upper)
    found = so.minimize(fun, x0, **options)  # type: ignore[call-overload]
    return {"nit": 0, "nfev": 0, "status": 0, **found}


def _minimize_scalar(fun: object, lower: object = None, upper: object = None, near: object = None, **options: object) -> dict[str, object]:
    if lower is not None:
        options["bounds"] = (lower, upper)
    found = so.minimize_scalar(fun, **options)  # type: ignore[call-overload]
    return {"status": 0, **found, "x": float(found.x)}


SOLVERS["scipy.optimize.minimize"] = _minimize
SOLVERS["scipy.optimize.minimize_scalar"] = _minimize_scalar

# --- rules ------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """The minimum after one step of Newton's method, and what a derivative there is made of."""

    x: TracedArray
    extras: Arrays
    slope: Body  # the gradient
    matrix: TracedArray  # the Hessian; of variables at bounds, rows of the identity
    free: TracedArray
    low: TracedArray | None
    high: TracedArray | None
    checked: Callable[[object], object]


def _diagonal(matrix: TracedArray) -> TracedArray:
    return np.diagonal(matrix) if matrix.shape else matrix


def _system(call: Call, slope: Body, x: TracedArray, extras: Arrays, free: object) -> tuple[TracedArray, TracedArray]:
    """Gradient and Hessian, with rows of the identity for what is at a bound."""
    shape = (x.size, x.size) if x.shape else ()
    gradient = slope.spliced([x], extras)[0].reshape(x.shape)
    hessian = slope.jacobian().spliced([x], extras)[0].reshape(shape)
    if free is None:
        return gradient, hessian
    rows = free[:, None] if x.shape else free
    return gradient, np.where(rows, hessian, np.eye(x.size).reshape(shape))


def _bounded(call: Call, x: TracedArray, args: Arrays, slope: Body, extras: Arrays) -> tuple[object, object, object]:
    """Which variables are free, and which are at their lower and upper bounds."""
    if "lower" not in call.starts:
        return None, None, None
    lower, upper = args[call.starts.index("lower")], args[call.starts.index("upper")]
    gradient, hessian = _system(call, slope, x, extras, None)
    ahead = x - gradient / np.abs(_diagonal(hessian))
    near = dict(call.options).get("near", 1e-9)
    low = (x - lower <= near * (1.0 + np.abs(x))) & (ahead < lower)
    high = (upper - x <= near * (1.0 + np.abs(x))) & (ahead > upper)
    return ~(low | high), low, high


def _place(call: Call, args: Arrays, outs: Arrays) -> _Place:
    x, (_, extras) = outs[0], call.split(args)
    slope = call.bodies[0].gradient()
    free, low, high = _bounded(call, x, args, slope, extras)
    gradient, matrix = _system(call, slope, x, extras, free)
    step = solved(matrix, gradient if free is None else np.where(free, gradient, 0.0))
    size = np.abs(step)
    sure = np.logical_or(outs[call.place("success")], np.all(size <= 1e-4 * np.abs(x) + 1e-10))
    holds = np.logical_and(sure, np.all(size <= 1e-2 * (1.0 + np.abs(x))))
    better = x - step
    _, matrix = _system(call, slope, better, extras, free)
    free = np.ones(x.shape, bool) if free is None else free
    return _Place(better, extras, slope, matrix, free, low, high, lambda value: apply(require, value, holds, name=call.name, site=call.site))


def _jvp(dots: Sequence[object], args: Arrays, outs: Arrays, *, call: Call, mode: str) -> list[object]:
    count = len(call.starts)
    moving = [k for k, dot in enumerate(dots[count:]) if dot is not ZERO]
    bounds = [k for k, name in enumerate(call.starts) if name in ("lower", "upper") and dots[k] is not ZERO]
    none: list[object] = [ZERO] * (len(outs) - 1)
    if not (moving or bounds):
        return [ZERO, *none]
    at = _place(call, args, outs)
    right: object = np.zeros(outs[0].shape)
    if moving:
        pushed = at.slope.pushed([1 + k for k in moving])
        right = -pushed.spliced([at.x], [*at.extras, *(dots[count + k] for k in moving)])[0].reshape(outs[0].shape)
        right = np.where(at.free, right, 0.0)
    for k in bounds:
        right = right + np.where(at.low if call.starts[k] == "lower" else at.high, dots[k], 0.0)
    return [at.checked(solved(at.matrix, right)), *none]


def _vjp(bars: Sequence[object], args: Arrays, outs: Arrays, *, call: Call, mode: str) -> list[object]:
    if bars[0] is ZERO:
        return [ZERO] * len(args)
    at = _place(call, args, outs)
    weights = at.checked(solved(np.transpose(at.matrix), bars[0]))

    def of_extra(k: int) -> object:
        seed = np.reshape(np.where(at.free, -weights, 0.0), at.slope.types[0].shape)
        return lambda: at.slope.pulled(1 + k).spliced([at.x], [*at.extras, seed])[0]

    def of_start(name: str) -> object:
        if name not in ("lower", "upper"):
            return ZERO
        return lambda: np.where(at.low if name == "lower" else at.high, weights, 0.0)

    found = [of_extra(k) if x.type.floating else ZERO for k, x in enumerate(at.extras)]
    return [*map(of_start, call.starts), *found]


def _sample() -> Sample:
    body = constant_body(lambda own, extras: [(own[0] - extras[0]) ** 2 + own[0] ** 4], number_types(1), number_types(1))
    call = Call("scipy.optimize.minimize_scalar", (), ("fun",), (body,), (), fields(NUMBER, slopes=False), Site("grad", ""))
    return Sample(lambda rng: (rng.random() + 1.0,), {"call": call, "mode": "rule"})


minimum: Primitive = solver("scipy.minimum", _jvp, _vjp, (_sample(),))

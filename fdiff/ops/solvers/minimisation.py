"""Minima as ops: the implicit function theorem applied to the gradient, which vanishes at a minimum.

A variable that a bound holds moves with the bound. A. V. Fiacco, Introduction to Sensitivity and Stability Analysis in
Nonlinear Programming, Academic Press 1983, theorem 3.2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import fdiff.intact_numpy as np
from fdiff.intact_scipy import optimize as so

from ...arraytype import BOOL, INT, ArrayType
from ...primitive import ZERO, LateParams, Primitive, Sample
from ...trace import Array, TracedArray, apply
from .exit_status import solver_op
from .implicit_function_theorem import PAIR, cotangents, exact, tangent
from .solver_arguments import CallSite, FrozenOption
from .solver_call import SOLVERS, ResultField, SolverCall, evaluate, infer
from .traced_function import TracedFunction, constant_body

COUNT, TRUTH = ArrayType((), INT), ArrayType((), BOOL)
Arrays = Sequence[TracedArray]


def fields(x: ArrayType, *, slopes: bool) -> tuple[ResultField, ...]:
    kept = (("x", x), ("success", TRUTH), ("status", COUNT), ("nfev", COUNT), ("nit", COUNT))
    return (*kept, ("jac", x)) if slopes else kept


# --- SciPy's functions, with results as mappings ------------------------------------------------


def _minimize(fun: object, x0: np.ndarray, lower: object = None, upper: object = None, **options: object) -> dict[str, object]:
    if lower is not None:
        options["bounds"] = so.Bounds(lower, upper)
    result: dict[str, object] = so.minimize(fun, x0, **options)
    return {"nit": 0, "nfev": 0, "status": 0, **result}


def _minimize_scalar(fun: object, lower: object = None, upper: object = None, near: object = None, **options: object) -> dict[str, object]:
    if lower is not None:
        options["bounds"] = (lower, upper)
    result: so.OptimizeResult = so.minimize_scalar(fun, **options)
    return {"status": 0, **result, "x": float(result.x)}


SOLVERS["scipy.optimize.minimize"] = _minimize
SOLVERS["scipy.optimize.minimize_scalar"] = _minimize_scalar

# --- rules ------------------------------------------------------------------------------------------


@lru_cache(maxsize=128)
def _stationary(fun: TracedFunction, *, bounded: bool) -> TracedFunction:
    """The residual at a minimum: the gradient, or, for a variable at a bound, the distance to the bound.

    After the inputs of the function come the bounds, and masks of the variables that are at each.
    """
    slope, (x, *extras) = fun.gradient(), fun.tape.input_types
    if not bounded:
        return slope
    mask = ArrayType(x.shape, BOOL)

    def results(own: list[TracedArray], parameters: list[TracedArray]) -> list[object]:
        lower, upper, low, high = parameters[len(extras) :]
        gradient = slope.spliced(own, parameters[: len(extras)])[0]
        return [np.where(low, own[0] - lower, np.where(high, own[0] - upper, gradient))]

    return constant_body(results, [x], [*extras, x, x, mask, mask])


def _at_bounds(call: SolverCall, x: TracedArray, lower: TracedArray, upper: TracedArray, extras: Arrays) -> list[TracedArray]:
    """Masks of the variables that are held at their lower and at their upper bounds (active constraints)."""
    slope = call.bodies[0].gradient()
    gradient = slope.spliced([x], extras)[0].reshape(x.shape)
    ahead = x - gradient / np.abs(slope.diagonal().spliced([x], extras)[0].reshape(x.shape))
    near = float(dict(call.options).get("near", 1e-9)) * (1.0 + np.abs(x))
    return [(x - lower <= near) & (ahead < lower), (upper - x <= near) & (ahead > upper)]


def _system(call: SolverCall, args: Arrays, outs: Arrays) -> tuple[TracedFunction, TracedArray, list[TracedArray]]:
    """The system of equations that the minimum solves, the exact minimum, and the inputs of the system."""
    x, (starts, extras) = outs[0], call.split(args)
    inputs = [*extras]
    bounded = "lower" in call.starts
    if bounded:
        lower, upper = (starts[call.starts.index(name)] for name in ("lower", "upper"))
        inputs += [lower, upper, *_at_bounds(call, x, lower, upper, extras)]
    body = _stationary(call.bodies[0], bounded=bounded)
    sure = outs[call.place("success")]
    return body, apply(exact, x, sure, *inputs, body=body, name=call.name, site=call.site), inputs


def _jvp(dots: Sequence[object], args: Arrays, outs: Arrays, *, call: SolverCall, mode: str) -> list[object]:
    starts = dict(zip(call.starts, dots, strict=False))
    moves = [*dots[len(call.starts) :], *([starts["lower"], starts["upper"], ZERO, ZERO] if "lower" in starts else [])]
    none: list[object] = [ZERO] * (len(outs) - 1)
    if all(dot is ZERO for dot in moves):
        return [ZERO, *none]
    body, x, inputs = _system(call, args, outs)
    return [tangent(body, x, inputs, moves), *none]


def _vjp(bars: Sequence[object], args: Arrays, outs: Arrays, *, call: SolverCall, mode: str) -> list[object]:
    if bars[0] is ZERO:
        return [ZERO] * len(args)
    body, x, inputs = _system(call, args, outs)
    cotangents_of = cotangents(body, x, inputs, bars[0])
    count = len(args) - len(call.starts)
    bounds = dict(zip(("lower", "upper"), cotangents_of[count:], strict=False))
    return [*(bounds.get(name, ZERO) for name in call.starts), *cotangents_of[:count]]


def _valley(own: Sequence[Array], parameters: Sequence[Array]) -> list[Array]:
    """A convex function of two variables, for samples."""
    x, p = own[0], parameters[0]
    return [np.sum((x - np.sin(p)) ** 2) + 0.3 * x[0] * x[1]]


def _sample_call() -> dict[str, object]:
    fun = constant_body(_valley, [PAIR], [PAIR])
    bodies = (fun, fun.gradient(), fun.gradient().jacobian())
    options = (("method", "Newton-CG"), ("options", FrozenOption("dict", (("xtol", 1e-14),))))
    call = SolverCall(
        "scipy.optimize.minimize", ("x0",), ("fun", "jac", "hess"), bodies, options, fields(PAIR, slopes=True), CallSite("sample", "")
    )
    return {"call": call, "mode": "value"}


_SAMPLE = Sample(lambda rng: (rng.normal(size=2), rng.normal(size=2)), LateParams(_sample_call))
minimum: Primitive = solver_op("scipy.minimum", infer, evaluate, _jvp, _vjp, _SAMPLE)

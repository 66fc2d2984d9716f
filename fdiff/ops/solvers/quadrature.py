"""`scipy.integrate.quad`, `dblquad`, `tplquad`, `nquad`: SciPy's value, derivatives by Leibniz's rule.

The derivative of an integral is the integral of the derivative, computed by `quad` with the same options, plus the
value of the integrand at limits that move (NIST Digital Library of Mathematical Functions, https://dlmf.nist.gov,
section 1.5(iv)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import scipy

import fdiff.intact_numpy as np
from fdiff.intact_scipy import integrate as si

from ...arraytype import F8, INT, ArrayType
from ...errors import UnsupportedError
from ...foreign_errors import comes_once, is_foreign
from ...primitive import ZERO, LateParams, Sample, Zero
from ...trace import Array, TracedArray, apply_many, current, replaces, tracing, unsupported
from ..entrywise.families import add_up
from ..scipy_functions import concrete_only
from ..shapes.shaping import traced
from .exit_status import (
    ENDED,
    RAISED,
    UNTRACED,
    batch_by_unrolling,
    solver_op,
    untraced_branch_error,
)
from .signatures import options_of
from .solver_arguments import (
    CallSite,
    all_captured,
    bound,
    concrete_options,
    inside_user_try,
    number,
    number_types,
    site,
    unfrozen,
    value_of,
)
from .traced_function import TracedFunction, UntracedBranch, constant_body
from .user_functions import UserFunction, UserFunctions

NAME = "scipy.integrate.quad"
Options = tuple[tuple[str, object], ...]


def _infer(a: ArrayType, b: ArrayType, points: ArrayType, *extras: ArrayType, body: TracedFunction, **_: object) -> tuple[ArrayType, ...]:
    shape = body.types[0].shape
    return ArrayType(shape, F8), ArrayType(shape, F8), ArrayType((), INT)


def integrate(
    body: TracedFunction, ends: Sequence[np.ndarray], extras: Sequence[np.ndarray], options: Options
) -> tuple[np.ndarray, np.ndarray]:
    """Integrals of all results of the body, and their error estimates, by SciPy."""
    a, b, points = float(ends[0]), float(ends[1]), np.asarray(ends[2])
    keywords = {k: unfrozen(v) for k, v in options}
    if points.size:
        keywords["points"] = points
    run = body.bound(extras)
    cached: dict[float, np.ndarray] = {}  # the entries of an array are integrated one by one

    def entry(t: float, k: int) -> float:
        if (values := cached.get(t)) is None:
            values = cached[t] = np.ravel(run(np.float64(t))[0])
        return float(values[k])

    shape = body.types[0].shape
    with np.errstate(all="ignore"):
        estimates = [si.quad(entry, a, b, args=(k,), **keywords)[:2] for k in range(body.types[0].size)]
    values, errors = np.array(estimates, float).reshape((-1, 2)).T
    return values.reshape(shape), errors.reshape(shape)


def _evaluate(
    a: np.ndarray, b: np.ndarray, points: np.ndarray, *extras: np.ndarray, body: TracedFunction, options: Options, site: CallSite, mode: str
) -> tuple[object, ...]:
    nothing = np.full(body.types[0].shape, np.nan)
    try:
        return (*integrate(body, (a, b, points), extras, options), np.int64(ENDED))
    except UntracedBranch:
        if mode == "rule":
            raise untraced_branch_error(NAME, site) from None
        return nothing, nothing, np.int64(UNTRACED)
    except Exception as error:
        again = partial(integrate, body, (a, b, points), extras, options)
        if mode != "caught" or (is_foreign(error) and comes_once(again)):
            raise
        return nothing, nothing, np.int64(RAISED)


def _integral(body: TracedFunction, args: Sequence[object], options: Options, site: CallSite) -> TracedArray:
    return apply_many(quad, *args, body=body, options=options, site=site, mode="rule")[0]


def _checked(body: TracedFunction, moving: Sequence[int], site: CallSite) -> None:
    """Refuse an integrand with a jump at a place that depends on `moving` inputs: Leibniz's rule would miss its contribution."""
    if body.jumps(moving):
        fact = (
            f"{NAME}: the integrand, or its derivative, decides (numpy.where, an `if`, a comparison, floor, the side of a kink)"
            " by the variable of integration and a differentiated value together."
            " Leibniz's rule does not see what the integral gains where that place moves."
        )
        way = "Split the interval there: quad(f, a, p)[0] + quad(g, p, b)[0], with limits that move."
        raise UnsupportedError(site.words(fact, way))


def _integrand_at_limit(body: TracedFunction, end: TracedArray, extras: Sequence[object], options: Options, site: CallSite) -> Array:
    """The integrand at a limit; zero at infinity."""
    if dict(options).get("weight") is not None:
        raise UnsupportedError(
            site.words(
                f"{NAME} with weight= has no derivative with respect to its limits in fdiff.", "Write the weight into the integrand."
            )
        )
    inside = body.spliced([end], extras)[0]
    return np.where(np.isfinite(end), inside, 0.0)


def _jvp(
    dots: Sequence[object], args: Sequence[TracedArray], outs: object, *, body: TracedFunction, options: Options, site: CallSite, mode: str
) -> Sequence[object]:
    a, b, points, *extras = args
    moving = [k for k, dot in enumerate(dots[3:]) if dot is not ZERO]
    terms: list[object] = []
    if moving:
        wrt = [body.own + k for k in moving]
        _checked(body, wrt, site)
        terms.append(_integral(body.pushforward(wrt), [a, b, points, *extras, *(dots[3 + k] for k in moving)], options, site))
    terms += [_integrand_at_limit(body, b, extras, options, site) * dots[1]] if dots[1] is not ZERO else []
    terms += [-(_integrand_at_limit(body, a, extras, options, site) * dots[0])] if dots[0] is not ZERO else []
    return [add_up(terms), ZERO, ZERO]


Bars = Sequence[Array | Zero]


def _vjp(
    bars: Bars, args: Sequence[TracedArray], outs: object, *, body: TracedFunction, options: Options, site: CallSite, mode: str
) -> list[object]:
    bar, (a, b, _, *extras) = bars[0], args
    if bar is ZERO:
        return [ZERO] * len(args)

    def of_limit(end: TracedArray, sign: float) -> object:
        return lambda: np.sum(bar * (sign * _integrand_at_limit(body, end, extras, options, site)))

    def of_extra(k: int) -> object:
        pull = lambda: _extra_cotangent(k, bar, args, body, options, site)  # noqa: E731 - called only if it is needed
        return pull if extras[k].type.floating else ZERO

    return [of_limit(a, -1.0), of_limit(b, 1.0), ZERO, *(of_extra(k) for k in range(len(extras)))]


def _extra_cotangent(
    k: int, bar: TracedArray, args: Sequence[TracedArray], body: TracedFunction, options: Options, site: CallSite
) -> object:
    """The cotangent of captured value number `k`: the integral of the integrand's VJP."""
    wrt = body.own + k
    _checked(body, [wrt], site)
    if not bar.shape:  # the cotangent of a number is a factor in front of the integral
        integral = bar * _integral(body.pullback(wrt, seeded=True), args, options, site)
    else:
        integral = _integral(body.pullback(wrt), [*args, bar], options, site)
    return integral.astype(args[3 + k].dtype)


def _batch(args: Sequence[TracedArray], mapped: Sequence[bool], size: int, *, body: TracedFunction, **params: object) -> Sequence[object]:
    if any(mapped[:3]) or not size:
        return batch_by_unrolling(quad, args, mapped, size, body=body, **params)
    wide = body.batched([False, *mapped[3:]], size)
    *outs, status = apply_many(quad, *args, body=wide, **params)
    return [*outs, np.broadcast_to(status, (size,))]


def _sample_params() -> dict[str, object]:
    body = constant_body(lambda own, extras: [np.exp(-extras[0] * own[0]) * np.cos(own[0])], number_types(1), [ArrayType((2,), F8)])
    return {"body": body, "options": (("epsabs", 1e-13), ("epsrel", 1e-13)), "site": CallSite("sample", ""), "mode": "value"}


_SAMPLE = Sample(
    lambda rng: (rng.uniform(0.0, 0.5, ()), rng.uniform(1.0, 2.0, ()), np.zeros(0), rng.uniform(0.5, 1.0, 2)), LateParams(_sample_params)
)
quad = solver_op("scipy.quad", _infer, _evaluate, _jvp, _vjp, _SAMPLE, batch=_batch)


def _middle(a: object, b: object) -> float:
    """A point inside of the interval."""
    low, high = float(value_of(a)), float(value_of(b))
    if np.isfinite(low) and np.isfinite(high):
        return 0.5 * (low + high)
    return low + 1.0 if np.isfinite(low) else high - 1.0 if np.isfinite(high) else 0.5


@replaces(si.quad)
def call(
    func: object, a: object, b: object, args: object = (), full_output: object = 0, epsabs: object = 1.49e-8,
    epsrel: object = 1.49e-8, limit: object = 50,
    points: object = None, weight: object = None, wvar: object = None, wopts: object = None, maxp1: object = 50, limlst: object = 50,
    complex_func: bool = False,
) -> object:  # fmt: skip
    """``scipy.integrate.quad``; the derivative of the error estimate is zero."""
    options = {
        "epsabs": epsabs, "epsrel": epsrel, "limit": limit, "weight": weight, "wvar": wvar, "wopts": wopts, "maxp1": maxp1,
        "limlst": limlst,
    }
    rest = bound(args)

    def plain() -> object:
        return concrete_only(si.quad)(func, a, b, args, full_output, points=points, complex_func=complex_func, **options)

    if not tracing() or isinstance(func, scipy.LowLevelCallable):
        return plain()
    functions = UserFunctions([UserFunction(lambda t: func(t, *rest), lambda: [_middle(a, b)], number_types(1))])
    if not functions.extras and all_captured([a, b, points]):
        return plain()
    if full_output or complex_func:
        raise unsupported(f"{NAME} with full_output= or complex_func=")
    if functions.bodies()[0].types[0].size != 1:
        raise TypeError("the integrand of quad returns an array; a number is expected")
    static = concrete_options({k: v for k, v in options.items() if v is not None}, NAME)
    ends = [number(a), number(b), traced(points).astype(F8) if points is not None else traced(np.zeros(0))]
    return _entered(functions, ends, static, plain)


def _entered(functions: UserFunctions, ends: Sequence[TracedArray], options: Options, plain: object) -> tuple[TracedArray, TracedArray]:
    trace = current()
    body = functions.explore(lambda bodies, extras: integrate(bodies[0], [value_of(e) for e in ends], extras, options))[0]
    mode = "caught" if inside_user_try() else "value"
    value, error, status = apply_many(quad, *ends, *functions.extras, body=body, options=options, site=site(), mode=mode)
    if mode == "caught" or body.has_branches:
        seen = int(status)
        if seen == RAISED:
            integrate(body, [value_of(e) for e in ends], [value_of(x) for x in functions.extras], options)
    assert trace is current()
    return value.reshape(()).as_python_float(), error.reshape(()).as_python_float()


# --- several variables: integrals of integrals ----------------------------------------------------


def _nested(
    func: Callable[..., object], ranges: Sequence[object], args: tuple[object, ...], options: Sequence[object]
) -> object:
    """``nquad`` by `quad` inside `quad`, the last range outermost."""

    def integral(depth: int, outer: tuple[object, ...]) -> object:
        limits, option = ranges[-1 - depth], options[-1 - depth]
        low, high = tuple(limits(*outer) if callable(limits) else limits)
        extra = options_of(option(*outer) if callable(option) else option)
        inner = func if depth + 1 == len(ranges) else lambda *place: next(iter(integral(depth + 1, place)))
        return call(inner, low, high, args=outer, **extra)

    return integral(0, args)


@replaces(si.nquad)
def nquad(
    func: Callable[..., object], ranges: Sequence[object], args: object = None, opts: object = None, full_output: bool = False
) -> object:
    """``nquad``; the error estimate is the error of the outermost integral alone."""
    if full_output:
        raise unsupported("scipy.integrate.nquad with full_output=True")
    each = list(opts) if isinstance(opts, (list, tuple)) else [opts or {}] * len(ranges)
    return _nested(func, list(ranges), tuple(args or ()), each)


@replaces(si.dblquad)
def dblquad(
    func: Callable[..., object], a: object, b: object, gfun: object, hfun: object, args: tuple[object, ...] = (), epsabs: object = 1.49e-8,
    epsrel: object = 1.49e-8,
) -> object:
    inner = lambda x, *_: (gfun(x) if callable(gfun) else gfun, hfun(x) if callable(hfun) else hfun)  # noqa: E731 - a line each
    return nquad(func, [inner, (a, b)], args, {"epsabs": epsabs, "epsrel": epsrel})


@replaces(si.tplquad)
def tplquad(
    func: Callable[..., object], a: object, b: object, gfun: object, hfun: object, qfun: object, rfun: object,
    args: tuple[object, ...] = (), epsabs: object = 1.49e-8, epsrel: object = 1.49e-8,
) -> object:  # fmt: skip
    middle = lambda x, *_: (gfun(x) if callable(gfun) else gfun, hfun(x) if callable(hfun) else hfun)  # noqa: E731 - a line each
    inner = lambda y, x, *_: (qfun(x, y) if callable(qfun) else qfun, rfun(x, y) if callable(rfun) else rfun)  # noqa: E731 - a line each
    return nquad(func, [inner, middle, (a, b)], args, {"epsabs": epsabs, "epsrel": epsrel})

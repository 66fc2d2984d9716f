"""Functions of `scipy.special` that are not ufuncs, composed of other ops: `logsumexp`, `softmax`, `comb`, ..."""

from __future__ import annotations

from math import log, pi

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc

from ....arraytype import broadcast
from ....trace import Array, TracedArray, apply, unsupported
from ....trace.static_arguments import settled
from ...along_axes.reductions import as_scalar
from ...entrywise.accurate_partials import vanishing
from ...entrywise.elementwise import bounded, stop
from ...entrywise.sample_domains import positive
from ...scipy_functions import concrete, replaces_if_traced
from ...shapes.axis_numbers import normal_axes
from ...shapes.shaping import floating, traced
from .special_family import special

# --- sums of exponentials ---------------------------------------------------------------------


def _peak(a: Array, axes: tuple[int, ...]) -> TracedArray:
    """The largest entry, as a constant: what is subtracted may not carry a derivative."""
    return apply(stop, np.max(a, axis=axes, keepdims=True))


@replaces_if_traced(sc.logsumexp)
def logsumexp(a: Array, axis: object = None, b: object = None, keepdims: bool = False, return_sign: bool = False) -> object:
    """Logarithm of the sum of ``b exp(a)``; the largest terms are summed separately, for precision, as in SciPy.

    The derivative of an infinite sum goes to its infinite terms.
    """
    x = floating(a)
    weights = None if b is None else floating(b)
    if weights is not None:
        shape = broadcast(x.shape, weights.shape)
        x, weights = np.broadcast_to(x, shape), np.broadcast_to(weights, shape)
    x = x.reshape((1,)) if not x.ndim else x
    weights = weights.reshape((1,)) if weights is not None and not weights.ndim else weights
    axes = normal_axes(axis, x.ndim)
    if not x.size:
        out = np.full(np.sum(np.zeros(x.shape), axis=axes, keepdims=True).shape, -np.inf, x.dtype)
        out, sign = traced(out), np.sign(traced(out))
    else:
        out, sign = _log_sum(x, weights, axes)
    if not keepdims or np.ndim(a) == 0:
        out, sign = np.squeeze(out, axis=axes), np.squeeze(sign, axis=axes)
    out = as_scalar(out)
    return (out, as_scalar(sign)) if return_sign else out if b is None else as_scalar(np.where(sign < 0, np.nan, out))


def _log_sum(x: Array, b: TracedArray | None, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Logarithm of the absolute sum, and its sign."""
    if b is None:
        out = _log_sum_of_terms(x, axes)
        sign = np.where(out == -np.inf, x.dtype.type(0), x.dtype.type(1))
        return out, np.where(np.isnan(out), out, sign)
    fixed = np.where(b == 0, -np.inf, apply(stop, x))  # what has no weight is not the largest
    top = _peak(fixed, axes)
    infinite = np.isinf(top)
    away = x - _shift(top)
    away = np.where((b == 0) & np.isinf(away), apply(stop, away), away)
    terms = vanishing(b, np.exp(np.where(infinite, apply(bounded, away, traced(x.dtype.type(1))), away)))
    largest, fixed_terms = fixed == top, apply(stop, terms)
    most = np.sum(np.where(largest, fixed_terms, 0.0), axis=axes, keepdims=True)
    rest = np.sum(np.where(largest, 0.0, fixed_terms), axis=axes, keepdims=True)
    ratio = np.where(rest == 0, rest, rest / np.where(rest == 0, 1.0, most))
    sign = np.sign(ratio + 1.0) * np.sign(most)
    finite = np.log1p(np.where(ratio < -1.0, -ratio - 2.0, ratio)) + np.log(np.abs(most)) + top
    held = largest & (fixed == np.inf)
    unbounded = np.sum(np.where(held, fixed * apply(stop, b), 0.0), axis=axes, keepdims=True)
    value = np.where(infinite, np.where(top < 0, top, np.abs(unbounded)), finite)
    log = np.log(np.abs(np.sum(terms, axis=axes, keepdims=True) + _in_place_of_none(np.max(x, axis=axes, keepdims=True))))
    rounding = np.where(value == log, 0.0, value - log)
    return log + apply(stop, rounding), np.where(infinite, np.where(top < 0, 0.0, np.sign(unbounded)), sign)


def _shift(top: TracedArray) -> Array:
    """The shift that is subtracted: the largest entry; a finite number for an infinite entry."""
    return np.where(np.isinf(top), np.where(top > 0, np.finfo(top.dtype).max, top.dtype.type(0)), top)


def _in_place_of_none(top: TracedArray) -> TracedArray:
    """One where all entries are -inf, for a sum that would be zero."""
    return np.where(top == -np.inf, top.dtype.type(1), top.dtype.type(0))


def _log_sum_of_terms(x: TracedArray, axes: tuple[int, ...]) -> TracedArray:
    """`logsumexp` without weights; it has the derivative of ``log(sum(exp(x - top)))``.

    The precise value comes in as a constant, so that nothing on the way from `x` to the sum is
    chosen by a `where`, whose masks cotangents would carry through all that `x` is made of. Where
    the sum is infinite, its terms are bounded, and its infinite entries have the slope; where all
    entries are -inf, one in place of zero makes their slopes zero.
    """
    fixed, top = apply(stop, x), _peak(x, axes)
    infinite, type_ = np.isinf(top), x.dtype.type
    terms = np.exp(apply(bounded, x - _shift(top), traced(type_(1))))
    total = np.sum(terms, axis=axes, keepdims=True)
    total = total + _in_place_of_none(top)
    largest, fixed_terms = fixed == top, apply(stop, terms)
    most = np.sum(np.where(largest, type_(1), type_(0)), axis=axes, keepdims=True)
    rest = np.sum(np.where(largest, type_(0), fixed_terms), axis=axes, keepdims=True)
    value = np.where(infinite, top, np.log1p(rest / most) + np.log(most) + top)
    log = np.log(total)
    return log + apply(stop, value - log)


@replaces_if_traced(sc.softmax)
def softmax(x: object, axis: object = None) -> Array:
    a = floating(x)
    axes = normal_axes(axis, a.ndim)
    shifted = np.exp(a - _peak(a, axes))
    return as_scalar(shifted / np.sum(shifted, axis=axes, keepdims=True))


@replaces_if_traced(sc.log_softmax)
def log_softmax(x: object, axis: object = None) -> Array:
    a = floating(x)
    axes = normal_axes(axis, a.ndim)
    top = _peak(a, axes)
    shifted = a - np.where(np.isfinite(top), top, 0.0)
    return as_scalar(shifted - np.log(np.sum(np.exp(shifted), axis=axes, keepdims=True)))


if hasattr(sc, "softplus"):  # since SciPy 1.15

    @replaces_if_traced(sc.softplus)
    def softplus(x: object, **keywords: object) -> TracedArray:
        return np.logaddexp(0, floating(x), **keywords)


# --- gamma ------------------------------------------------------------------------------------


@replaces_if_traced(sc.polygamma)
def polygamma(n: object, x: Array) -> Array:
    """``(-1)**(n + 1) n! zeta(n + 1, x)`` (DLMF 25.11.12), and digamma for n = 0."""
    order = np.asarray(concrete(n, "scipy.special.polygamma with a traced order"))
    if np.all(order == 0):
        return as_scalar(np.broadcast_to(sc.psi(floating(x)), broadcast(order.shape, np.shape(x))))
    a = floating(x)
    factor = ((-1.0) ** (order + 1) * sc.gamma(order + 1.0)).astype(a.dtype)
    out = factor * sc.zeta((order + 1.0).astype(a.dtype), a)
    return as_scalar(np.where(order == 0, sc.psi(a), out) if np.any(order == 0) else out)


@replaces_if_traced(sc.multigammaln)
def multigammaln(a: object, d: float) -> Array:
    """Logarithm of the multivariate gamma function; NaN where SciPy refuses the argument."""
    if np.ndim(d) or np.floor(d) != d:
        raise ValueError("d should be a positive integer (dimension)")
    x, size = floating(a), int(d)
    total = sum((sc.gammaln(x - 0.5 * j) for j in range(1, size)), start=sc.gammaln(x))
    total = total + size * (size - 1) * 0.25 * log(pi)
    return as_scalar(np.where(x > 0.5 * (size - 1), total, np.nan))


@replaces_if_traced(sc.factorial)
def factorial(n: object, exact: bool = False, extend: str = "zero") -> Array:
    """``gamma(n + 1)``, and 0 below 0."""
    if exact or extend != "zero":
        raise unsupported(f"scipy.special.factorial with {'exact=True' if exact else f'extend={extend!r}'}")
    x = floating(n)
    value = sc.gamma(np.where(x < 0, 0.0, x) + 1.0)
    return as_scalar(np.where(x < 0, 0.0, value))


@replaces_if_traced(sc.comb)
def comb(N: object, k: object, *, exact: bool = False, repetition: bool = False) -> Array:
    """Binomial coefficients; 0 outside their triangle."""
    if exact:
        raise unsupported("scipy.special.comb with exact=True")
    n, k = traced(N), traced(k)
    if repetition:
        value = sc.binom(n + k - 1.0, k)
        return as_scalar(np.where((k == 0) & (n >= 0), 1.0, value))
    inside = (k <= n) & (n >= 0) & (k >= 0)
    return as_scalar(np.where(inside, sc.binom(n, k), 0.0))


# --- Lambert's W: its two real branches -------------------------------------------------------
def _real_branch(z: np.ndarray, *, branch: int) -> np.ndarray:
    inside = (z >= -np.exp(-1.0)) & ((z < 0) | (branch == 0))
    return np.where(inside, np.real(sc.lambertw(z, branch)), np.nan)


_SLOPE, _MAIN = (lambda z, out, branch: np.exp(-out) / (1.0 + out)), ({"branch": 0},)
_lambertw = special("lambertw", _SLOPE, positive, evaluate=_real_branch, params=_MAIN)


@replaces_if_traced(sc.lambertw)
def lambertw(z: object, k: object = 0, tol: float = 1e-8) -> Array:
    """The real branches 0 and -1, as a real array; NaN where W is complex."""
    branch = concrete(k, "scipy.special.lambertw with a traced branch")
    if np.ndim(branch) or branch not in (0, -1):
        raise unsupported(f"scipy.special.lambertw with k={branch}, a complex branch,")
    x = floating(z)
    return as_scalar(apply(_lambertw, x, branch=int(branch)))


# --- functions whose Python code in SciPy works on traced arrays as it is ------------------------
for _function in (sc.zeta, sc.jvp, sc.yvp, sc.ivp, sc.kvp, sc.assoc_laguerre):
    replaces_if_traced(_function)(lambda *args, call=_function, **keywords: call(*map(settled, args), **keywords))

"""Means, variances and covariances (`mean`, `var`, `std`, `cov`, ...), and the functions that skip NaN; all composed."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import fdiff.intact_numpy as np

from ...arraytype import Shape, promote
from ...primitive import UFUNC_METHODS
from ...trace import Array, Operand, TracedArray, implements
from ..entrywise.kink_marks import marked
from ..shapes.axis_numbers import normal_axes, normal_axis
from ..shapes.joining_and_splitting import concatenate_call
from ..shapes.shaping import traced
from .cumulative import cumprod_call, cumsum_call
from .reductions import Axes, as_scalar, max_call, min_call, passed, prod_call, sum_call


def _over(shape: Shape, axes: Axes) -> int:
    return prod(shape[a] for a in axes)


@implements(np.mean, method="mean")
def mean(
    x: object, axis: object = None, dtype: object = None, out: object = None, keepdims: object = False, *, where: object = True
) -> Array:
    """Sum over count; integers are averaged in float64, float16 in float32, as NumPy does."""
    array = traced(x)
    if dtype is None and array.dtype == np.float16:
        return mean(array, axis, np.float32, keepdims=keepdims, where=where).astype(np.float16)
    array = array.astype(dtype or (array.dtype if array.type.floating else np.float64))
    axes = normal_axes(axis, array.ndim)
    total = sum_call(array, axes, keepdims=keepdims, where=where)
    masked = where is not True and where is not np._NoValue
    number = (
        np.sum(np.broadcast_to(where, array.shape), axis=axes, keepdims=keepdims is True).astype(array.dtype)
        if masked
        else _over(array.shape, axes)
    )
    return as_scalar(total / number)


@implements(np.var, method="var")
def var(
    x: object, axis: object = None, dtype: object = None, out: object = None, ddof: float = 0, keepdims: object = False, *,
    where: object = True, mean: object = np._NoValue, correction: Operand = np._NoValue,
) -> Array:
    """Mean of squared deviations, with `ddof` (or `correction`) taken off the count."""
    array = traced(x)
    array = array.astype(dtype or (array.dtype if array.type.floating else np.float64))
    axes = normal_axes(axis, array.ndim)
    centre = mean if passed(mean) else array.mean(axes, keepdims=True, where=where)
    away = array - centre
    squares = np.square(away) if away.dtype.kind != "c" else np.square(np.real(away)) + np.square(np.imag(away))
    masked = where is not True and where is not np._NoValue
    number = np.sum(np.broadcast_to(where, array.shape), axis=axes, keepdims=keepdims is True) if masked else _over(array.shape, axes)
    free = np.maximum(number - (correction if passed(correction) else ddof), 0)
    total = sum_call(squares, axes, keepdims=keepdims, where=where)
    return as_scalar(total / (free.astype(total.dtype) if masked else float(free)))


@implements(np.std, method="std")
def std(
    x: object, axis: object = None, dtype: object = None, out: object = None, ddof: float = 0, keepdims: object = False, *,
    where: object = True, mean: object = np._NoValue, correction: Operand = np._NoValue,
) -> Array:
    """Square root of the variance; where all entries are equal its slope is 0."""
    array = traced(x)
    point = EQUAL if _over(array.shape, normal_axes(axis, array.ndim)) > 1 else ""  # the std of one value is 0
    return root(var(array, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction), "numpy.std", point)


EQUAL = "equal values"


def root(x: TracedArray, function: str, point: str) -> Array:
    """Square root whose derivative at 0 is 0, for sums of squares, which have their minimum there.

    `function` and `point` say in words where that is a kink; an empty point says it is none.
    """
    out = as_scalar(np.where(x == 0, 0.0, np.sqrt(np.where(x == 0, 1.0, x))).astype(x.dtype))
    return marked(out, lambda: x == 0, function, point) if point else out


@implements(np.ptp)
def ptp(x: object, axis: object = None, out: object = None, keepdims: object = False) -> TracedArray:
    return max_call(x, axis, keepdims=keepdims) - min_call(x, axis, keepdims=keepdims)


@implements(np.average)
def average(x: object, axis: object = None, weights: object = None, returned: object = False, *, keepdims: object = False) -> object:
    """Weighted mean; where the weights sum to zero it is NaN or infinite, not a ZeroDivisionError."""
    array = traced(x)
    keep = keepdims is True
    if weights is None:
        out = mean(array, axis, keepdims=keepdims)
        total: object = np.float64(_over(array.shape, normal_axes(axis, array.ndim)))
    else:
        w = traced(weights)
        dtype = promote(array.dtype, w.dtype, *([] if array.type.floating else [np.dtype(float)]))
        if w.shape != array.shape:
            w = _along(w, array.shape, axis)
        total = np.sum(np.broadcast_to(w.astype(dtype), array.shape), axis=axis, keepdims=keep)
        out = np.sum(array * w, axis=axis, keepdims=keep, dtype=dtype) / total
    return (out, np.broadcast_to(traced(total).astype(out.dtype), out.shape) if out.ndim else total) if returned else out


def _along(w: TracedArray, shape: Shape, axis: object) -> Array:
    """Weights along some axes, reshaped to broadcast against the array."""
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = tuple(normal_axis(a, len(shape)) for a in np.atleast_1d(axis))
    if w.shape != tuple(shape[a] for a in axes):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    order = sorted(range(len(axes)), key=axes.__getitem__)
    return np.transpose(w, order).reshape(tuple(n if k in axes else 1 for k, n in enumerate(shape)))


@implements(np.count_nonzero)
def count_nonzero(x: object, axis: object = None, *, keepdims: object = False) -> TracedArray:
    return sum_call(traced(x) != 0, axis, keepdims=keepdims)

# --- passing over NaN -------------------------------------------------------------------------


def _filled(x: object, fill: float) -> Array:
    """`x` with `fill` for NaN."""
    array = traced(x)
    return np.where(np.isnan(array), fill, array) if array.type.floating else array


def _passing(call: Callable[..., TracedArray], fill: float) -> Callable[..., TracedArray]:
    """A reduction or cumulative function that skips NaN: these are replaced by the neutral element."""
    return lambda a, *args, **keywords: call(_filled(a, fill), *args, **keywords)


for _function, _call, _fill in (
    (np.nansum, sum_call, 0.0), (np.nanprod, prod_call, 1.0), (np.nancumsum, cumsum_call, 0.0), (np.nancumprod, cumprod_call, 1.0),
):  # fmt: skip
    implements(_function)(_passing(_call, _fill))


def _extremum(call: Callable[..., TracedArray], fill: float) -> Callable[..., Array]:
    """The extremum of the entries that are not NaN; NaN where all are."""

    def reduce(
        a: object, axis: object = None, out: object = None, keepdims: object = False, initial: object = None, where: object = True
    ) -> Array:
        array = traced(a)
        if not array.type.floating:
            return call(array, axis, keepdims=keepdims, initial=initial, where=where)
        best = call(_filled(array, fill), axis, keepdims=keepdims, initial=initial, where=where)
        if passed(initial):
            return best
        nothing = np.all(np.isnan(array), axis=axis, keepdims=keepdims is True)
        return as_scalar(np.where(nothing, np.nan, best))

    return reduce


nanmax = implements(np.nanmax)(_extremum(max_call, -np.inf))
nanmin = implements(np.nanmin)(_extremum(min_call, np.inf))


def _reduce(call: Callable[..., TracedArray]) -> Callable[..., TracedArray]:
    return lambda x, axis=0, dtype=None, **keywords: call(x, axis, **keywords)


UFUNC_METHODS[np.fmax, "reduce"] = _reduce(nanmax)
UFUNC_METHODS[np.fmin, "reduce"] = _reduce(nanmin)


def _present(x: TracedArray, where: object) -> Array:
    """The ``where=`` argument for the entries that are not NaN."""
    return ~np.isnan(x) & (True if where is True or where is np._NoValue else where)


@implements(np.nanmean)
def nanmean(
    a: object, axis: object = None, dtype: object = None, out: object = None, keepdims: object = False, *, where: object = True
) -> Array:
    x = traced(a)
    return mean(x, axis, dtype, keepdims=keepdims, where=_present(x, where) if x.type.floating else where)


@implements(np.nanvar)
def nanvar(
    a: object, axis: object = None, dtype: object = None, out: object = None, ddof: float = 0, keepdims: object = False, *,
    where: object = True, mean: object = np._NoValue, correction: Operand = np._NoValue,
) -> Array:
    """The variance of the entries that are not NaN; NaN where these are fewer than ``ddof + 1``."""
    x = traced(a)
    if not x.type.floating:
        return var(x, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    held = _present(x, where)
    out_ = var(x, axis, dtype, None, ddof, keepdims, where=held, mean=mean, correction=correction)
    free = np.sum(held, axis=axis, keepdims=keepdims is True) - (correction if passed(correction) else ddof)
    return as_scalar(np.where(free > 0, out_, np.nan))


@implements(np.nanstd)
def nanstd(
    a: object, axis: object = None, dtype: object = None, out: object = None, ddof: float = 0, keepdims: object = False, *,
    where: object = True, mean: object = np._NoValue, correction: Operand = np._NoValue,
) -> Array:
    return root(nanvar(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction), "numpy.std", EQUAL)

# --- covariance -------------------------------------------------------------------------------


def _observations(m: object, y: object, rowvar: object, dtype: object) -> Array:
    """One row for each variable."""
    x, more = traced(m), None if y is None else traced(y)
    for array, name in ((x, "m"), (more, "y")):
        if array is not None and array.ndim > 2:
            raise ValueError(f"{name} has more than 2 dimensions")
    kind = np.dtype(dtype) if dtype is not None else promote(*(k.dtype for k in (x, more) if k is not None), np.dtype(float))
    rows = np.atleast_2d(x.astype(kind))
    rows = rows.T if not rowvar and x.ndim != 1 else rows
    if more is None:
        return rows
    extra = np.atleast_2d(more.astype(kind))
    return concatenate_call([rows, extra.T if not rowvar and extra.shape[0] != 1 else extra])


def _case_weights(fweights: object, aweights: object, n: int) -> Array | None:
    """The product of both kinds of weights, checked as NumPy does; None if there are none."""
    total = None
    for w, name in ((fweights, "fweights"), (aweights, "aweights")):
        if w is None:
            continue
        values = None if isinstance(w, TracedArray) else np.asarray(w, float)
        if name == "fweights" and values is not None and not np.all(values == np.around(values)):
            raise TypeError("fweights must be integer")
        if np.ndim(w) > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if np.shape(w)[0] != n:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if values is not None and np.any(values < 0):
            raise ValueError(f"{name} cannot be negative")
        each = w.astype(np.float64) if values is None else values
        total = each if total is None else total * each
    return total


@implements(np.cov)
def cov(
    m: object, y: object = None, rowvar: object = True, bias: object = False, ddof: float | None = None, fweights: object = None,
    aweights: Array | None = None, *, dtype: object = None,
) -> TracedArray:  # fmt: skip
    """Covariance of the rows, with weights by frequency and by importance."""
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    x = _observations(m, y, rowvar, dtype)
    if not x.shape[0]:
        return traced(np.zeros((0, 0)))
    free = (0 if bias else 1) if ddof is None else ddof
    w = _case_weights(fweights, aweights, x.shape[1])
    if w is None:
        centre, scale = np.mean(x, axis=1), float(max(x.shape[1] - free, 0))
    else:
        total = np.sum(w)
        centre = np.sum(x * w, axis=1) / total
        scale = total if free == 0 else total - free * (1.0 if aweights is None else np.sum(w * aweights) / total)
        scale = np.maximum(scale, 0.0)
    x = x - centre[:, None]
    c = np.dot(x, np.conj((x if w is None else x * w).T))
    with np.errstate(divide="ignore"):
        c = c * np.true_divide(1, scale)
    return np.squeeze(c).astype(x.dtype)


@implements(np.corrcoef)
def corrcoef(x: object, y: object = None, rowvar: object = True, *, dtype: object = None) -> Array:
    """Correlations, kept inside [-1, 1]."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return as_scalar(c / c)
    deviation = np.sqrt(np.real(np.diag(c)))
    c = c / deviation[:, None] / deviation[None, :]
    if c.dtype.kind == "c":
        return np.clip(np.real(c), -1, 1) + 1j * np.clip(np.imag(c), -1, 1)
    return np.clip(c, -1, 1)

"""Sampled functions: grids (`linspace`), interpolation, differences, integrals, `unwrap`, convolution.

`convolve` is bilinear: the cotangent of one operand is a convolution with the other one reversed. All else is
composed of differentiable functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, broadcast_all, promote
from ...primitive import ZERO, Sample
from ...trace import Array, Operand, TracedArray, apply, implements
from ..entrywise.families import kind_of, multilinear
from ..entrywise.sample_domains import real
from ..shapes.axis_numbers import normal_axes, normal_axis
from ..shapes.joining_and_splitting import concatenate_call
from ..shapes.shaping import deepened, traced
from .reductions import as_scalar
from .sorting import argsort_call, searchsorted_call

# --- grids ------------------------------------------------------------------------------------


def _count(num: object) -> int:
    n = index(num)
    if n < 0:
        raise ValueError(f"Number of samples, {n}, must be non-negative.")
    return n


def _float_kind(*ends: object) -> np.dtype:
    return promote(*map(kind_of, ends), float)


@implements(np.linspace)
def linspace(
    start: object, stop: object, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: object = None, axis: int = 0, *,
    device: object = None
) -> Array | tuple[Array, Array]:  # fmt: skip
    """Equal steps from `start` to `stop`; the last entry is `stop` itself."""
    n = _count(num)
    kind = _float_kind(start, stop)
    first, last = (traced(end).astype(kind) for end in (start, stop))
    first, last = broadcast_all(first, last)
    parts = n - 1 if endpoint else n
    step = (last - first) / parts if parts > 0 else np.full(first.shape, np.nan)
    counts = np.arange(n, dtype=kind).reshape((-1, *(1,) * first.ndim))
    out = counts * step + first if parts > 0 else counts * (last - first) + first
    if endpoint and n > 1:
        out = concatenate_call([out[:-1], last[None]])
    out = np.moveaxis(out, 0, axis) if axis != 0 else out
    if dtype is not None and np.dtype(dtype).kind in "iu":
        out = np.floor(out)
    out = out if dtype is None else out.astype(dtype)
    return (out, as_scalar(traced(step))) if retstep else out


@implements(np.logspace)
def logspace(
    start: object, stop: object, num: int = 50, endpoint: bool = True, base: Operand = 10.0, dtype: object = None, axis: int = 0
) -> Array:
    """Powers of `base` with equal steps in the exponent."""
    if np.ndim(base):
        ndim = max(np.ndim(v) for v in (start, stop, base))
        start, stop, base = (deepened(traced(v), ndim) for v in (start, stop, base))
        base = np.expand_dims(base, axis)
    out = np.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return out if dtype is None else out.astype(dtype)


@implements(np.geomspace)
def geomspace(start: object, stop: object, num: int = 50, endpoint: bool = True, dtype: object = None, axis: int = 0) -> TracedArray:
    """Equal ratios from `start` to `stop`, both of which are met exactly."""
    n = _count(num)
    for end in (start, stop):
        if not isinstance(end, TracedArray) and np.any(np.equal(end, 0)):
            raise ValueError("Geometric sequence cannot include zero")
    kind = promote(*map(kind_of, (start, stop)), np.dtype(float if dtype is None else dtype), float)
    first, last = broadcast_all(*(traced(end).astype(kind) for end in (start, stop)))
    sign = np.sign(first)
    logs = [np.log10(end / sign) for end in (first, last)]
    out = np.power(10.0, linspace(*logs, n, endpoint)) * sign
    ends = [first[None]] if n else []
    close = [last[None]] if n > 1 and endpoint else []
    out = concatenate_call([*ends, out[len(ends) : n - len(close)], *close]) if ends else out
    out = np.moveaxis(out, 0, axis) if axis != 0 else out
    return out if dtype is None else out.astype(dtype)


# --- interpolation and differences ------------------------------------------------------------


def _periodic(x: TracedArray, xp: TracedArray, fp: TracedArray, period: Array) -> tuple[TracedArray, TracedArray, TracedArray]:
    """Points and data reduced to one period, and the data extended by one point on both sides."""
    if not isinstance(period, TracedArray) and period == 0:
        raise ValueError("period must be a non-zero value")
    length = np.abs(period)
    x, xp = x % length, xp % length
    order = argsort_call(xp)
    xp, fp = xp[order], fp[order]
    return x, concatenate_call([xp[-1:] - length, xp, xp[:1] + length]), concatenate_call([fp[-1:], fp, fp[:1]])


@implements(np.interp)
def interp(x: object, xp: object, fp: object, left: Operand | None = None, right: Operand | None = None, period: object = None) -> Array:
    """Linear interpolation; at a data point the derivative is the slope to the right of the point."""
    at, places, data = traced(x), traced(xp).astype(np.float64), traced(fp)
    if at.dtype.kind == "c":
        raise TypeError("Cannot cast array data from dtype('complex128') to dtype('float64') according to the rule 'safe'")
    at, data = at.astype(np.float64), data.astype(np.complex128 if data.dtype.kind == "c" else np.float64)
    if places.ndim != 1 or data.ndim != 1:
        raise ValueError("Data points must be 1-D sequences")
    if places.shape != data.shape:
        raise ValueError("fp and xp are not of the same length.")
    n = data.shape[0]
    if not n:
        raise ValueError("array of sample points is empty")
    if period is not None:
        at, places, data = _periodic(at, places, data, period)
        n, left, right = n + 2, None, None
    below = data[0] if left is None else left
    above = data[-1] if right is None else right
    inside = _on_segment(at, places, data) if n > 1 else data[0]
    out = np.where(at < places[0], below, np.where(at > places[-1], above, inside))
    return as_scalar(out.astype(data.dtype))


def _on_segment(x: TracedArray, xp: TracedArray, fp: TracedArray) -> Array:
    """On the line from the data point before `x` to the one after it.

    As NumPy: the data themselves at the points, and from the point after `x` where that before it gives NaN.
    """
    k = np.clip(searchsorted_call(xp, x, side="right") - 1, 0, fp.shape[0] - 2)
    x0, y0, x1, y1 = xp[k], fp[k], xp[k + 1], fp[k + 1]
    slope = (y1 - y0) / (x1 - x0)
    broken = ~np.isfinite(slope)
    lower = np.where(broken & (x == x0), y0, slope * (x - x0) + y0)
    upper = np.where(broken & (x == x1), y1, slope * (x - x1) + y1)
    level = np.where(broken & (x0 < x) & (x < x1) & (y0 == y1), y0, upper)  # between two equal infinities
    return np.where((x == x1) | np.isnan(lower), level, lower)


@implements(np.gradient)
def gradient(f: object, *varargs: object, axis: object = None, edge_order: int = 1) -> object:
    """Second-order differences inside, one-sided ones of order `edge_order` at the ends."""
    array = traced(f)
    array = array if array.type.floating else array.astype(np.float64)
    axes = normal_axes(None, array.ndim) if axis is None else tuple(normal_axis(a, array.ndim) for a in np.atleast_1d(axis))
    steps = _steps(varargs, [array.shape[a] for a in axes])
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    if any(array.shape[a] < edge_order + 1 for a in axes):
        raise ValueError("Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are required.")
    outs = tuple(_slope(array, a, h, edge_order).astype(array.dtype) for a, h in zip(axes, steps, strict=True))
    return outs[0] if len(outs) == 1 else outs


def _steps(spacings: Sequence[object], lengths: Sequence[int]) -> list[object]:
    """For each axis the step, or the differences of its coordinates."""
    if not spacings:
        return [1.0] * len(lengths)
    if len(spacings) == 1 and np.ndim(spacings[0]) == 0:
        return list(spacings) * len(lengths)
    if len(spacings) != len(lengths):
        raise TypeError("invalid number of arguments")
    steps = []
    for spacing, n in zip(spacings, lengths, strict=True):
        if np.ndim(spacing) > 1:
            raise ValueError("distances must be either scalars or 1d")
        if np.ndim(spacing) and np.shape(spacing) != (n,):
            raise ValueError("when 1d, distances must match the length of the corresponding dimension")
        whole = np.ndim(spacing) and traced(spacing).dtype.kind in "iu"
        steps.append(np.diff(traced(spacing).astype(np.float64) if whole else spacing) if np.ndim(spacing) else spacing)
    return steps


def _slope(f: TracedArray, axis: int, h: Array, order: int) -> TracedArray:
    """Differences along one axis; `h` is the step, or the steps one by one."""
    f = np.moveaxis(f, axis, -1)
    if np.ndim(h) == 0:
        inner = (f[..., 2:] - f[..., :-2]) / (2.0 * h)
        first, last = h, h
    else:
        p, q = h[:-1], h[1:]
        inner = -q / (p * (p + q)) * f[..., :-2] + (q - p) / (p * q) * f[..., 1:-1] + p / (q * (p + q)) * f[..., 2:]
        first, last = h[0], h[-1]
    if order == 1:
        ends = (f[..., 1] - f[..., 0]) / first, (f[..., -1] - f[..., -2]) / last
    else:
        second, before = (h[1], h[-2]) if np.ndim(h) else (h, h)
        ends = _end(f[..., 0], f[..., 1], f[..., 2], first, second), -_end(f[..., -1], f[..., -2], f[..., -3], last, before)
    out = concatenate_call([ends[0][..., None], inner, ends[1][..., None]], -1)
    return np.moveaxis(out, -1, axis)


def _end(f0: TracedArray, f1: TracedArray, f2: TracedArray, p: Array, q: Array) -> Array:
    """Slope at the first of three points that lie `p` and then `q` apart, of the parabola through them."""
    return -(2.0 * p + q) / (p * (p + q)) * f0 + (p + q) / (p * q) * f1 - p / (q * (p + q)) * f2


@implements(np.unwrap)
def unwrap(p: object, discont: object = None, axis: int = -1, *, period: Operand = 2 * np.pi) -> TracedArray:
    """Jumps of more than half a period removed by multiples of the period; the samples keep their derivatives."""
    array = traced(p)
    at = normal_axis(axis, array.ndim)
    step = np.diff(array, axis=at)
    dtype = promote(step.dtype, kind_of(period))
    whole = dtype.kind in "iu"
    half = period // 2 if whole else period / 2
    low = -half
    folded = np.mod(step - low, period) + low
    if not whole or period % 2 == 0:
        folded = np.where((folded == low) & (step > 0), half, folded)
    limit = period / 2 if discont is None else discont
    correction = np.cumsum(np.where(np.abs(step) < limit, 0, folded - step), axis=at)
    before = (slice(None),) * at
    return concatenate_call([array[(*before, slice(0, 1))], array[(*before, slice(1, None))] + correction], at).astype(dtype)


# --- convolution ------------------------------------------------------------------------------


def _convolved(a: ArrayType, v: ArrayType) -> tuple[ArrayType, ...]:
    return (ArrayType((*a.shape[:-1], a.shape[-1] + v.shape[-1] - 1), np.result_type(a.dtype, v.dtype)),)


def _convolve(a: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Row by row: leading axes are the axes of a batch."""
    out = np.empty((*a.shape[:-1], a.shape[-1] + v.shape[-1] - 1), np.result_type(a, v))
    for k in np.ndindex(a.shape[:-1]):
        out[k] = np.convolve(a[k], v[k])
    return out


def _convolve_transposes(bar: TracedArray, args: Sequence[TracedArray]) -> list[object]:
    """``a_bar[i] = sum_k bar[k] v[k - i]``: a convolution with the other operand reversed."""
    n = [a.shape[-1] for a in args]
    turned = [apply(convolution, bar, other[..., ::-1]) for other in (args[1], args[0])]
    return [
        t[..., n[1 - k] - 1 : n[1 - k] - 1 + n[k]] if a.type.floating else ZERO for k, (t, a) in enumerate(zip(turned, args, strict=True))
    ]


_PAIRS = (Sample(lambda rng: (real(rng, (5,)), real(rng, (3,)))), Sample(lambda rng: (real(rng, (2, 2)), real(rng, (2, 4)))))
convolution = multilinear("convolve", _convolved, _convolve_transposes, ((0,), (1,)), evaluate=_convolve, family="bilinear", samples=_PAIRS)

_MODE_NAMES = {0: "valid", 1: "same", 2: "full", "v": "valid", "s": "same", "f": "full"}


def _cut(full: TracedArray, n: int, m: int, mode: object) -> TracedArray:
    """The part of a full convolution of lengths ``n >= m`` that `mode` asks for."""
    name = _MODE_NAMES.get(mode[:1].lower() if isinstance(mode, str) else mode)
    if name is None:
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    if name == "valid":
        return full[m - 1 : n]
    return full[(m - 1) // 2 : (m - 1) // 2 + n] if name == "same" else full


def _sequences(a: object, v: object) -> tuple[TracedArray, TracedArray]:
    x, y = (traced(k) for k in (a, v))
    x, y = (k.reshape(1) if not k.ndim else k for k in (x, y))
    for k, name in ((x, "a"), (y, "v")):
        if k.ndim > 1:
            raise ValueError("object too deep for desired array")
        if not k.shape[0]:
            raise ValueError(f"{name} cannot be empty")
    common = np.result_type(x.dtype, y.dtype)
    return x.astype(common), y.astype(common)


@implements(np.convolve)
def convolve(a: object, v: object, mode: object = "full") -> TracedArray:
    x, y = _sequences(a, v)
    if y.shape[0] > x.shape[0]:
        x, y = y, x
    return _cut(apply(convolution, x, y), x.shape[0], y.shape[0], mode)


@implements(np.correlate)
def correlate(a: object, v: object, mode: object = "valid") -> TracedArray:
    """Sums of products of one sequence with the other moved along it: ``sum_i a[i + k] conj(v[i])``."""
    x, y = _sequences(a, v)
    y = np.conj(y) if y.dtype.kind == "c" else y
    if y.shape[0] <= x.shape[0]:
        return _cut(apply(convolution, x, y[::-1]), x.shape[0], y.shape[0], mode)
    return _cut(apply(convolution, y, x[::-1]), y.shape[0], x.shape[0], mode)[::-1]


@implements(np.diff)
def diff(a: object, n: int = 1, axis: int = -1, prepend: object = np._NoValue, append: object = np._NoValue) -> TracedArray:
    """Differences of neighbours, `n` times."""
    array = traced(a)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    at = normal_axis(axis, array.ndim)
    ends = []
    for end in (prepend, append):
        if end is not np._NoValue:
            part = traced(end)
            shape = (*array.shape[:at], 1, *array.shape[at + 1 :])
            ends.append(np.broadcast_to(part, shape) if part.ndim == 0 else part)
        else:
            ends.append(None)
    parts = [p for p in (ends[0], array, ends[1]) if p is not None]
    array = concatenate_call(parts, at) if len(parts) > 1 else array
    before = (slice(None),) * at
    for _ in range(n):
        array = array[(*before, slice(1, None))] - array[(*before, slice(None, -1))]
    return array


@implements(np.ediff1d)
def ediff1d(ary: object, to_end: object = None, to_begin: object = None) -> TracedArray:
    """Differences of neighbours of the flattened array, between given ends."""
    array = traced(ary).reshape(-1)
    ends = [[] if end is None else [traced(end).reshape(-1).astype(array.dtype)] for end in (to_begin, to_end)]
    return concatenate_call([*ends[0], diff(array), *ends[1]])


@implements(np.trapezoid)
def trapezoid(y: object, x: object = None, dx: object = 1.0, axis: int = -1) -> TracedArray:
    """Integral by the trapezoidal rule."""
    a = np.moveaxis(traced(y), axis, -1)
    if x is not None:
        step = np.diff(traced(x))
        dx = step if step.ndim == 1 else np.moveaxis(np.diff(traced(x), axis=axis), axis, -1)
    return np.sum(dx * (a[..., 1:] + a[..., :-1]) / 2.0, axis=-1)

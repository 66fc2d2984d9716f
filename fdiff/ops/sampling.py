"""Sampled functions: grids, interpolation, differences, convolution, covariance, borders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index

import numpy as np

from ..arraytype import ArrayType, promote
from ..primitive import ZERO, Primitive, Sample, register
from ..trace import TracedArray, apply, implements
from .elementwise import real
from .families import add_up, kind_of
from .indexing import pad as pad_plainly
from .joining import concatenate_call
from .reductions import as_scalar
from .shaping import broadcast_to, deepened, fresh, normal_axes, normal_axis, traced
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
    start: object, stop: object, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: object = None, axis: int = 0, *, device: object = None
) -> object:  # fmt: skip
    """Equal steps from `start` to `stop`; the last entry is `stop` itself."""
    n = _count(num)
    kind = _float_kind(start, stop)
    first, last = (traced(end).astype(kind) for end in (start, stop))
    first, last = np.broadcast_arrays(first, last)
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
def logspace(start: object, stop: object, num: int = 50, endpoint: bool = True, base: object = 10.0, dtype: object = None, axis: int = 0) -> TracedArray:
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
    first, last = np.broadcast_arrays(*(traced(end).astype(kind) for end in (start, stop)))
    sign = np.sign(first)
    logs = [np.log10(end / sign) for end in (first, last)]
    out = np.power(10.0, linspace(*logs, n, endpoint)) * sign
    ends = [first[None]] if n else []
    close = [last[None]] if n > 1 and endpoint else []
    out = concatenate_call([*ends, out[len(ends) : n - len(close)], *close]) if ends else out
    out = np.moveaxis(out, 0, axis) if axis != 0 else out
    return out if dtype is None else out.astype(dtype)


# --- interpolation and differences ------------------------------------------------------------


def _periodic(x: TracedArray, xp: TracedArray, fp: TracedArray, period: object) -> tuple[TracedArray, TracedArray, TracedArray]:
    """Points and data brought into one period, and the data continued on both sides."""
    if not isinstance(period, TracedArray) and period == 0:
        raise ValueError("period must be a non-zero value")
    length = np.abs(period)
    x, xp = x % length, xp % length
    order = argsort_call(xp)
    xp, fp = xp[order], fp[order]
    return x, concatenate_call([xp[-1:] - length, xp, xp[:1] + length]), concatenate_call([fp[-1:], fp, fp[:1]])


@implements(np.interp)
def interp(x: object, xp: object, fp: object, left: object = None, right: object = None, period: object = None) -> TracedArray:
    """Straight lines between data points; at a data point the slope is that of the line behind it."""
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
    inside = _between(at, places, data) if n > 1 else data[0] + 0.0 * at
    out = np.where(at < places[0], below, np.where(at > places[-1], above, inside))
    return as_scalar(out.astype(data.dtype))


def _between(x: TracedArray, xp: TracedArray, fp: TracedArray) -> TracedArray:
    """On the line from the data point before `x` to the one after it."""
    k = np.clip(searchsorted_call(xp, x, side="right") - 1, 0, fp.shape[0] - 2)
    x0, y0 = xp[k], fp[k]
    slope = (fp[k + 1] - y0) / (xp[k + 1] - x0)
    return np.where((x == x0) & ~np.isfinite(slope), y0, slope * (x - x0) + y0)


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


def _slope(f: TracedArray, axis: int, h: object, order: int) -> TracedArray:
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


def _end(f0: TracedArray, f1: TracedArray, f2: TracedArray, p: object, q: object) -> TracedArray:
    """Slope at the first of three points that lie `p` and then `q` apart, of the parabola through them."""
    return -(2.0 * p + q) / (p * (p + q)) * f0 + (p + q) / (p * q) * f1 - p / (q * (p + q)) * f2


@implements(np.unwrap)
def unwrap(p: object, discont: object = None, axis: int = -1, *, period: object = 2 * np.pi) -> TracedArray:
    """Jumps of more than half a period taken out; the slope is that of the samples."""
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
    """Row by row: leading axes are those of a batch."""
    out = np.empty((*a.shape[:-1], a.shape[-1] + v.shape[-1] - 1), np.result_type(a, v))
    for k in np.ndindex(a.shape[:-1]):
        out[k] = np.convolve(a[k], v[k])
    return out


def _convolve_jvp(dots: Sequence[object], args: Sequence[TracedArray], outs: object) -> list[object]:
    terms = [apply(convolution, *(d if k == j else a for j, a in enumerate(args))) for k, d in enumerate(dots) if d is not ZERO]
    return [add_up(terms)]


def _convolve_vjp(bars: Sequence[TracedArray], args: Sequence[TracedArray], outs: object) -> list[object]:
    """``a_bar[i] = sum_k bar[k] v[k - i]``: a convolution with the other one turned round."""
    n = [a.shape[-1] for a in args]
    turned = [apply(convolution, bars[0], other[..., ::-1]) for other in (args[1], args[0])]
    return [t[..., n[1 - k] - 1 : n[1 - k] - 1 + n[k]] if a.type.floating else ZERO for k, (t, a) in enumerate(zip(turned, args, strict=True))]


def _convolve_batch(args: Sequence[TracedArray], mapped: Sequence[bool], size: int) -> list[object]:
    return [apply(convolution, *(a if m else np.broadcast_to(a, (size, *a.shape)) for a, m in zip(args, mapped, strict=True)))]


convolution = register(
    Primitive(
        "convolve", _convolved, _convolve, _convolve_jvp, _convolve_vjp, _convolve_batch, family="bilinear",
        samples=(Sample(lambda rng: (real(rng, (5,)), real(rng, (3,)))), Sample(lambda rng: (real(rng, (2, 2)), real(rng, (2, 4))))),
    )
)  # fmt: skip

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


# --- covariance -------------------------------------------------------------------------------


def _observations(m: object, y: object, rowvar: object, dtype: object) -> TracedArray:
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


def _case_weights(fweights: object, aweights: object, n: int) -> object:
    """The product of both kinds of weights, checked as NumPy does; None if there are none."""
    total = None
    for w, name in ((fweights, "fweights"), (aweights, "aweights")):
        if w is None:
            continue
        known = None if isinstance(w, TracedArray) else np.asarray(w, float)
        if name == "fweights" and known is not None and not np.all(known == np.around(known)):
            raise TypeError("fweights must be integer")
        if np.ndim(w) > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if np.shape(w)[0] != n:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if known is not None and np.any(known < 0):
            raise ValueError(f"{name} cannot be negative")
        each = w.astype(np.float64) if known is None else known
        total = each if total is None else total * each
    return total


@implements(np.cov)
def cov(
    m: object, y: object = None, rowvar: object = True, bias: object = False, ddof: object = None, fweights: object = None,
    aweights: object = None, *, dtype: object = None,
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
def corrcoef(x: object, y: object = None, rowvar: object = True, *, dtype: object = None) -> TracedArray:
    """Correlations, kept inside [-1, 1]."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return as_scalar(c / c)
    deviation = np.sqrt(np.real(np.diag(c)))
    c = c / deviation[:, None] / deviation[None, :]
    if c.dtype.kind == "c":
        return np.clip(np.real(c), -1, 1) + 1j * np.clip(np.imag(c), -1, 1)
    return np.clip(c, -1, 1)


# --- borders ----------------------------------------------------------------------------------

_STATISTICS: dict[str, Callable[..., TracedArray]] = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}
_KEYWORDS = {
    "constant": ("constant_values",), "linear_ramp": ("end_values",), "reflect": ("reflect_type",), "symmetric": ("reflect_type",),
    **dict.fromkeys(("edge", "wrap", "empty"), ()), **dict.fromkeys(_STATISTICS, ("stat_length",)),
}  # fmt: skip


def _pairs(value: object, ndim: int) -> list[list[object]]:
    """A pair for each axis."""
    if value is None:
        return [[None, None]] * ndim
    full = np.broadcast_to(value if isinstance(value, TracedArray) else np.asarray(value), (ndim, 2))
    return [[full[k, 0], full[k, 1]] for k in range(ndim)]


def _widths(pad_width: object, ndim: int) -> list[list[int]]:
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(k, pad_width.get(k - ndim, (0, 0))) for k in range(ndim)]
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    if np.any(widths < 0):
        raise ValueError("index can't contain negative values")
    return np.broadcast_to(widths, (ndim, 2)).tolist()


@implements(np.pad)
def pad(array: object, pad_width: object, mode: object = "constant", **keywords: object) -> TracedArray:
    """The array with a border: a constant, copies, reflections, ramps or statistics of its entries."""
    x = fresh(traced(array))
    widths = _widths(pad_width, x.ndim)
    if mode not in _KEYWORDS:
        raise ValueError(f"mode '{mode}' is not supported")
    if unknown := set(keywords) - set(_KEYWORDS[mode]):
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    if mode == "empty":
        return pad_plainly(x, widths)
    if mode == "linear_ramp":
        return _along_axes(x, widths, _ramp, _pairs(keywords.get("end_values", 0), x.ndim))
    if mode in _STATISTICS:
        lengths = _pairs(keywords.get("stat_length"), x.ndim)
        return _along_axes(x, widths, lambda *args: _statistic(_STATISTICS[mode], *args), lengths)
    if keywords.get("reflect_type", "even") == "odd":
        return _along_axes(x, widths, lambda y, width, extra: _odd(y, *width, rim=mode == "symmetric"), [None] * x.ndim)
    return pad_plainly(x, widths, mode, **{k: v for k, v in keywords.items() if k != "reflect_type"})


def _along_axes(x: TracedArray, widths: Sequence[Sequence[int]], extend: Callable[..., TracedArray], extras: Sequence[object]) -> TracedArray:
    """One axis after the other, moved to the front."""
    for axis, (width, extra) in enumerate(zip(widths, extras, strict=True)):
        if any(width):
            x = np.moveaxis(extend(np.moveaxis(x, axis, 0), width, extra), 0, axis)
    return x


def _ramp(x: TracedArray, width: Sequence[int], ends: Sequence[object]) -> TracedArray:
    left = linspace(traced(ends[0]), x[0], width[0], endpoint=False, dtype=x.dtype)
    right = linspace(traced(ends[1]), x[-1], width[1], endpoint=False, dtype=x.dtype)[::-1]
    return concatenate_call([left, x, right])


def _statistic(function: Callable[..., TracedArray], x: TracedArray, width: Sequence[int], lengths: Sequence[object]) -> TracedArray:
    n = x.shape[0]
    left, right = (n if k is None else min(int(k), n) for k in lengths)
    if not (left and right) and function in (np.max, np.min):
        raise ValueError("stat_length of 0 yields no value for padding")
    ends = [function(part, axis=0, keepdims=True) for part in (x[:left], x[n - right :])]
    ends = [(np.rint(e) if x.dtype.kind in "iu" and e.type.floating else e).astype(x.dtype) for e in ends]
    return concatenate_call([broadcast_to(ends[0], (width[0], *x.shape[1:])), x, broadcast_to(ends[1], (width[1], *x.shape[1:]))])


def _odd(x: TracedArray, left: int, right: int, *, rim: bool) -> TracedArray:
    """Reflections through the end points (``2 * end - entry``), as often as the border is long.

    With `rim` the end itself is reflected too. The period is a multiple of the original length,
    as in ``numpy.pad``.
    """
    n = x.shape[0]
    if n == 1 and not rim:
        return concatenate_call([np.repeat(x, left, 0), x, np.repeat(x, right, 0)])
    skip = 0 if rim else 1
    while left or right:
        length = x.shape[0] // n * n if rim else (x.shape[0] - 1) // (n - 1) * (n - 1)
        a, b = min(length, left), min(length, right)
        ahead = 2 * x[:1] - x[skip : skip + a][::-1]
        behind = 2 * x[-1:] - x[::-1][skip : skip + b]
        x = concatenate_call([ahead, x, behind])
        left, right = left - a, right - b
    return x

"""Reductions and scans: what takes entries together along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..arraytype import BOOL, INT, ArrayType, Shape, shadow
from ..primitive import UFUNC_METHODS, ZERO, Lower, Primitive, Sample, register
from ..trace import TracedArray, apply, implements
from .elementwise import positive, real, truth, unit
from .families import linear
from .shaping import broadcast_to, normal_axes, normal_axis, traced

Axes = tuple[int, ...]


def _removed(shape: Shape, axes: Axes) -> Shape:
    return tuple(n for k, n in enumerate(shape) if k not in axes)


def _kept(shape: Shape, axes: Axes) -> Shape:
    return tuple(1 if k in axes else n for k, n in enumerate(shape))


def _reduced(x: ArrayType, *, axes: Axes) -> tuple[ArrayType, ...]:
    return (ArrayType(_removed(x.shape, axes), x.dtype),)


def _up(axes: Axes) -> Axes:
    return tuple(a + 1 for a in axes)


def _expand(value: object, shape: Shape, axes: Axes) -> TracedArray:
    """A reduced value put back beside the entries it was made of, ready to broadcast."""
    return np.reshape(value, _kept(shape, axes))


def _samples(make: Callable[..., np.ndarray]) -> tuple[Sample, ...]:
    return tuple(
        Sample(lambda rng, s=shape: (make(rng, s),), {"axes": axes})
        for shape, axes in (((2, 3), (0,)), ((2, 3), (1,)), ((4,), (0,)), ((2, 3, 2), (0, 2)))
    )


# --- sums -------------------------------------------------------------------------------------
sum_ = linear(
    "sum",
    _reduced,
    lambda bar, src, *, axes: broadcast_to(_expand(bar, src.shape, axes), src.shape),
    evaluate=lambda x, *, axes: np.sum(x, axis=axes, dtype=np.asarray(x).dtype),
    batch=lambda x, *, axes: apply(sum_, x, axes=_up(axes)),
    lower=Lower("reduce", "+"),
    structural=True,
    samples=_samples(real),
)


def reduction(
    name: str,
    function: Callable[..., object],
    text: str,
    slope: Callable[[TracedArray, TracedArray, TracedArray, Axes], object] | None,
    sample: Callable[..., np.ndarray],
) -> Primitive:
    """A reduction whose derivative is a weighted sum: ``slope(x, out, kept, axes)``."""

    def weights(args: Sequence[TracedArray], outs: Sequence[TracedArray], axes: Axes) -> object:
        return ZERO if slope is None else slope(args[0], outs[0], _expand(outs[0], args[0].shape, axes), axes)

    def jvp(dots: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, axes: Axes) -> list[object]:
        w = weights(args, outs, axes)
        return [ZERO if w is ZERO else apply(sum_, dots[0] * w, axes=axes)]

    def vjp(bars: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, axes: Axes) -> list[object]:
        w = weights(args, outs, axes)
        return [ZERO if w is ZERO else _expand(bars[0], args[0].shape, axes) * w]

    def batch(args: Sequence[TracedArray], mapped: object, size: int, *, axes: Axes) -> list[object]:
        return [apply(primitive, args[0], axes=_up(axes))]

    primitive = Primitive(
        name, _reduced, lambda x, *, axes: function(x, axis=axes), jvp, vjp, batch, Lower("reduce", text),
        "reduction", samples=_samples(sample),
    )  # fmt: skip
    return register(primitive)


def _even_share(x: TracedArray, out: TracedArray, kept: TracedArray, axes: Axes) -> object:
    """An extremum's slope, split evenly over the entries that attain it."""
    hit = np.where(x == kept, 1.0, 0.0).astype(x.dtype)
    return hit / np.sum(hit, axis=axes, keepdims=True)


def _others(x: TracedArray, out: TracedArray, kept: TracedArray, axes: Axes) -> object:
    """Product of all other entries: exclusive products from both sides, exact with zeros."""
    rest = [k for k in range(x.ndim) if k not in axes]
    order = (*rest, *axes)
    flat = np.transpose(x, order).reshape((*(x.shape[k] for k in rest), -1))
    ones = np.ones((*flat.shape[:-1], 1), x.dtype)
    last = flat.ndim - 1
    before = np.concatenate([ones, apply(cumprod, flat, axis=last, reverse=False)[..., :-1]], axis=last)
    after = np.concatenate([apply(cumprod, flat, axis=last, reverse=True)[..., 1:], ones], axis=last)
    moved = (before * after).reshape(tuple(x.shape[k] for k in order))
    return np.transpose(moved, tuple(np.argsort(order).tolist()))


prod = reduction("prod", lambda x, axis: np.prod(x, axis=axis, dtype=np.asarray(x).dtype), "*", _others, positive)
amax = reduction("max", np.max, "max", _even_share, real)
amin = reduction("min", np.min, "min", _even_share, real)
any_ = reduction("any", np.any, "or", None, truth)
all_ = reduction("all", np.all, "and", None, truth)


def _arg_type(x: ArrayType, *, axis: int) -> tuple[ArrayType, ...]:
    return (ArrayType(_removed(x.shape, (axis,)), INT),)


def _arg(name: str, function: Callable[..., object]) -> Primitive:
    def batch(args: Sequence[TracedArray], mapped: object, size: int, *, axis: int) -> list[object]:
        return [apply(primitive, args[0], axis=axis + 1)]

    sample = Sample(lambda rng: (real(rng, (3, 4)),), {"axis": 1})
    none = lambda *_, **__: [ZERO]  # noqa: E731 - an index has no derivative
    primitive = Primitive(name, _arg_type, function, none, none, batch, Lower("reduce", name), "reduction", samples=(sample,))
    return register(primitive)


argmax = _arg("argmax", lambda x, *, axis: np.argmax(x, axis=axis))
argmin = _arg("argmin", lambda x, *, axis: np.argmin(x, axis=axis))

# --- scans ------------------------------------------------------------------------------------


def _same(x: ArrayType, *_: ArrayType, **__: object) -> tuple[ArrayType, ...]:
    return (x,)


def _scan(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A NumPy scan that can also run from the end."""

    def evaluate(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
        turned = np.flip(x, axis) if reverse else x
        out = function(turned, axis=axis, dtype=x.dtype)
        return np.flip(out, axis) if reverse else out

    return evaluate


_SCAN_SAMPLES = [{"axis": 1, "reverse": False}, {"axis": 0, "reverse": True}]
cumsum = linear(
    "cumsum",
    _same,
    lambda bar, src, *, axis, reverse: apply(cumsum, bar, axis=axis, reverse=not reverse),
    evaluate=_scan(np.cumsum),
    batch=lambda x, *, axis, reverse: apply(cumsum, x, axis=axis + 1, reverse=reverse),
    lower=Lower("scan", "+"),
    samples=tuple(Sample(lambda rng: (real(rng, (3, 4)),), p) for p in _SCAN_SAMPLES),
)


def _shift(x: TracedArray, axis: int, *, back: bool, fill: float) -> TracedArray:
    """Entries moved by one along `axis` (towards the end, or the start if `back`), `fill` moved in."""
    before = (slice(None),) * axis
    edge = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), fill, x.dtype)
    if back:
        return np.concatenate([x[(*before, slice(1, None))], edge], axis=axis)
    return np.concatenate([edge, x[(*before, slice(None, -1))]], axis=axis)


def _previous(x: TracedArray, axis: int, reverse: bool, fill: float) -> TracedArray:
    """For each entry the one the scan met just before."""
    return _shift(x, axis, back=reverse, fill=fill)


def _cumprod_jvp(dots: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, axis: int, reverse: bool) -> list[object]:
    before = _previous(outs[0], axis, reverse, 1.0)
    return [apply(recurrence, args[0], before * dots[0], axis=axis, reverse=reverse)]


def _cumprod_vjp(bars: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, axis: int, reverse: bool) -> list[object]:
    following = _previous(args[0], axis, not reverse, 0.0)
    pulled = apply(recurrence, following, bars[0], axis=axis, reverse=not reverse)
    return [pulled * _previous(outs[0], axis, reverse, 1.0)]


def _map_scan(args: Sequence[TracedArray], mapped: Sequence[bool], size: int, *, axis: int, reverse: bool) -> list[object]:
    full = [a if m else np.broadcast_to(a, (size, *a.shape)) for a, m in zip(args, mapped, strict=True)]
    return [apply(recurrence if len(args) == 2 else cumprod, *full, axis=axis + 1, reverse=reverse)]


cumprod = register(
    Primitive(
        "cumprod", _same, _scan(np.cumprod), _cumprod_jvp, _cumprod_vjp, _map_scan, Lower("scan", "*"), "opaque",
        samples=tuple(Sample(lambda rng: (positive(rng, (3, 4)),), p) for p in _SCAN_SAMPLES),
    )
)  # fmt: skip


def _run_recurrence(a: np.ndarray, b: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    out = np.empty(b.shape, b.dtype)
    s, factor, term = (np.moveaxis(v, axis, 0) for v in (out, a, b))
    state = np.zeros(s.shape[1:], b.dtype)
    for i in range(len(s) - 1, -1, -1) if reverse else range(len(s)):
        state = s[i] = factor[i] * state + term[i]
    return out


def _recurrence_jvp(dots: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, axis: int, reverse: bool) -> list[object]:
    a_dot, b_dot = dots
    term = b_dot
    if a_dot is not ZERO:
        moved = a_dot * _previous(outs[0], axis, reverse, 0.0)
        term = moved if b_dot is ZERO else b_dot + moved
    return [apply(recurrence, args[0], term, axis=axis, reverse=reverse)]


def _recurrence_vjp(bars: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, axis: int, reverse: bool) -> list[object]:
    following = _previous(args[0], axis, not reverse, 0.0)
    b_bar = apply(recurrence, following, bars[0], axis=axis, reverse=not reverse)
    return [b_bar * _previous(outs[0], axis, reverse, 0.0), b_bar]


# s[i] = a[i] * s[i-1] + b[i]: the derivative of a running product, exact where entries are zero.
recurrence = register(
    Primitive(
        "recurrence", _same, _run_recurrence, _recurrence_jvp, _recurrence_vjp, _map_scan, Lower("special"), "opaque",
        samples=tuple(Sample(lambda rng: (unit(rng, (3, 4)), real(rng, (3, 4))), p) for p in _SCAN_SAMPLES),
    )
)  # fmt: skip

# --- what answers for NumPy -------------------------------------------------------------------


def _finish(out: TracedArray, shape: Shape, axes: Axes, *, keepdims: object) -> TracedArray:
    if keepdims is True:
        return out.reshape(_kept(shape, axes))
    out.scalar = not out.shape
    return out


def _masked(x: TracedArray, where: object, fill: object) -> TracedArray:
    """`x` with `fill` where the ``where=`` argument is false."""
    return x if where is True or where is np._NoValue else np.where(where, x, fill)


def _wide(x: TracedArray, dtype: object, ufunc: np.ufunc) -> TracedArray:
    """`x` in the dtype NumPy accumulates in (small integers and bools become int64)."""
    target = np.dtype(dtype) if dtype is not None else ufunc.reduce(np.zeros(1, x.dtype)).dtype
    return x.astype(target)


def _given(value: object) -> bool:
    return value is not None and value is not np._NoValue


@implements(np.sum, method="sum")
def sum_call(x: object, axis: object = None, dtype: object = None, out: object = None, keepdims: object = False, initial: object = None, where: object = True) -> TracedArray:
    """``np.sum`` with axis tuples, keepdims, initial and where."""
    array = _wide(traced(x), dtype, np.add)
    axes = normal_axes(axis, array.ndim)
    array = _masked(array, where, 0)
    total = _finish(apply(sum_, array, axes=axes), array.shape, axes, keepdims=keepdims)
    return total + traced(initial).astype(total.dtype) if _given(initial) else total


@implements(np.prod, method="prod")
def prod_call(x: object, axis: object = None, dtype: object = None, out: object = None, keepdims: object = False, initial: object = None, where: object = True) -> TracedArray:
    """``np.prod``; its derivative is exact where entries are zero."""
    array = _wide(traced(x), dtype, np.multiply)
    axes = normal_axes(axis, array.ndim)
    array = _masked(array, where, 1)
    total = _finish(apply(prod, array, axes=axes), array.shape, axes, keepdims=keepdims)
    return total * traced(initial).astype(total.dtype) if _given(initial) else total


def _extremum(primitive: Primitive, pick: np.ufunc, x: object, axis: object, keepdims: object, initial: object, where: object) -> TracedArray:
    array = traced(x)
    axes = normal_axes(axis, array.ndim)
    if where is not True and where is not np._NoValue and not _given(initial):
        raise ValueError(f"reduction operation '{pick.__name__}' does not have an identity, so to use a where mask one has to specify 'initial'")
    array = _masked(array, where, traced(initial).astype(array.dtype)) if _given(initial) else array
    empty = any(array.shape[a] == 0 for a in axes)
    if empty and not _given(initial):
        raise ValueError(f"zero-size array to reduction operation {pick.__name__} which has no identity")
    if empty:
        return broadcast_to(traced(initial).astype(array.dtype), np.max(shadow(array.type), axis=axes, keepdims=bool(keepdims is True), initial=0).shape)
    out = _finish(apply(primitive, array, axes=axes), array.shape, axes, keepdims=keepdims)
    return pick(out, traced(initial).astype(out.dtype)) if _given(initial) else out


@implements(np.max, np.amax, method="max")
def max_call(x: object, axis: object = None, out: object = None, keepdims: object = False, initial: object = None, where: object = True) -> TracedArray:
    """``np.max``; at ties the slope is split evenly."""
    return _extremum(amax, np.maximum, x, axis, keepdims, initial, where)


@implements(np.min, np.amin, method="min")
def min_call(x: object, axis: object = None, out: object = None, keepdims: object = False, initial: object = None, where: object = True) -> TracedArray:
    """``np.min``; at ties the slope is split evenly."""
    return _extremum(amin, np.minimum, x, axis, keepdims, initial, where)


def _logical(primitive: Primitive, fill: bool, x: object, axis: object, keepdims: object, where: object) -> TracedArray:  # noqa: FBT001 - private
    array = traced(x)
    array = _masked(array if array.dtype == BOOL else array != 0, where, fill)
    axes = normal_axes(axis, array.ndim)
    return _finish(apply(primitive, array, axes=axes), array.shape, axes, keepdims=keepdims)


@implements(np.any, method="any")
def any_call(x: object, axis: object = None, out: object = None, keepdims: object = False, *, where: object = True) -> TracedArray:
    return _logical(any_, False, x, axis, keepdims, where)


@implements(np.all, method="all")
def all_call(x: object, axis: object = None, out: object = None, keepdims: object = False, *, where: object = True) -> TracedArray:
    return _logical(all_, True, x, axis, keepdims, where)


def _arg_call(primitive: Primitive, x: object, axis: int | None, keepdims: object) -> TracedArray:
    array = traced(x)
    if array.size == 0 and (axis is None or array.shape[axis] == 0):
        raise ValueError(f"attempt to get {primitive.name} of an empty sequence")
    if axis is None:
        flat = apply(primitive, array.reshape(-1), axis=0)
        return _finish(flat, array.shape, tuple(range(array.ndim)), keepdims=keepdims)
    at = normal_axis(axis, array.ndim)
    return _finish(apply(primitive, array, axis=at), array.shape, (at,), keepdims=keepdims)


@implements(np.argmax, method="argmax")
def argmax_call(x: object, axis: int | None = None, out: object = None, *, keepdims: object = False) -> TracedArray:
    return _arg_call(argmax, x, axis, keepdims)


@implements(np.argmin, method="argmin")
def argmin_call(x: object, axis: int | None = None, out: object = None, *, keepdims: object = False) -> TracedArray:
    return _arg_call(argmin, x, axis, keepdims)


def _scan_call(primitive: Primitive, ufunc: np.ufunc, x: object, axis: int | None, dtype: object) -> TracedArray:
    array = _wide(traced(x), dtype, ufunc)
    if axis is None:
        array, axis = array.reshape(-1), 0
    return apply(primitive, array, axis=normal_axis(axis, array.ndim), reverse=False)


@implements(np.cumsum, method="cumsum")
def cumsum_call(x: object, axis: int | None = None, dtype: object = None, out: object = None) -> TracedArray:
    return _scan_call(cumsum, np.add, x, axis, dtype)


@implements(np.cumprod, method="cumprod")
def cumprod_call(x: object, axis: int | None = None, dtype: object = None, out: object = None) -> TracedArray:
    return _scan_call(cumprod, np.multiply, x, axis, dtype)


def _over(shape: Shape, axes: Axes) -> int:
    return int(np.prod([shape[a] for a in axes], dtype=np.int64))


@implements(np.mean, method="mean")
def mean(x: object, axis: object = None, dtype: object = None, out: object = None, keepdims: object = False, *, where: object = True) -> TracedArray:
    """Sum over count; integers are averaged in float64, as NumPy does."""
    array = traced(x)
    array = array.astype(dtype or (array.dtype if array.type.floating else np.float64))
    axes = normal_axes(axis, array.ndim)
    total = sum_call(array, axes, keepdims=keepdims, where=where)
    masked = where is not True and where is not np._NoValue
    number = np.sum(np.broadcast_to(where, array.shape), axis=axes, keepdims=keepdims is True).astype(array.dtype) if masked else _over(array.shape, axes)
    return _as_scalar(total / number)


def _as_scalar(x: TracedArray) -> TracedArray:
    x.scalar = not x.shape
    return x


@implements(np.var, method="var")
def var(x: object, axis: object = None, dtype: object = None, out: object = None, ddof: float = 0, keepdims: object = False, *, where: object = True, mean: object = np._NoValue, correction: object = np._NoValue) -> TracedArray:
    """Mean of squared deviations, with `ddof` (or `correction`) taken off the count."""
    array = traced(x)
    array = array.astype(dtype or (array.dtype if array.type.floating else np.float64))
    axes = normal_axes(axis, array.ndim)
    centre = mean if _given(mean) else array.mean(axes, keepdims=True, where=where)
    squares = np.square(array - centre)
    masked = where is not True and where is not np._NoValue
    number = np.sum(np.broadcast_to(where, array.shape), axis=axes, keepdims=keepdims is True) if masked else _over(array.shape, axes)
    free = np.maximum(number - (correction if _given(correction) else ddof), 0)
    total = sum_call(squares, axes, keepdims=keepdims, where=where)
    return _as_scalar(total / (free.astype(array.dtype) if masked else float(free)))


@implements(np.std, method="std")
def std(x: object, axis: object = None, dtype: object = None, out: object = None, ddof: float = 0, keepdims: object = False, *, where: object = True, mean: object = np._NoValue, correction: object = np._NoValue) -> TracedArray:
    """Square root of the variance; where all entries are equal its slope is 0."""
    return root(var(x, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction))


def root(x: TracedArray) -> TracedArray:
    """Square root whose slope at 0 is 0: of a sum of squares, where 0 is the minimum."""
    return _as_scalar(np.where(x == 0, 0.0, np.sqrt(np.where(x == 0, 1.0, x))).astype(x.dtype))


@implements(np.ptp)
def ptp(x: object, axis: object = None, out: object = None, keepdims: object = False) -> TracedArray:
    return max_call(x, axis, keepdims=keepdims) - min_call(x, axis, keepdims=keepdims)


@implements(np.average)
def average(x: object, axis: object = None, weights: object = None, returned: object = False, *, keepdims: object = False) -> object:  # noqa: FBT002
    """Weighted mean."""
    array = traced(x)
    if weights is None:
        out, total = mean(array, axis, keepdims=keepdims), _over(array.shape, normal_axes(axis, array.ndim))
    else:
        w = traced(weights)
        if w.shape != array.shape:
            at = normal_axis(axis, array.ndim)
            w = w.reshape(tuple(n if k == at else 1 for k, n in enumerate(array.shape)))
        total = np.sum(np.broadcast_to(w, array.shape), axis=axis, keepdims=keepdims is True)
        out = np.sum(array * w, axis=axis, keepdims=keepdims is True) / total
    return (out, total) if returned else out


@implements(np.count_nonzero)
def count_nonzero(x: object, axis: object = None, *, keepdims: object = False) -> TracedArray:
    return sum_call(traced(x) != 0, axis, keepdims=keepdims)


def _ufunc_reduce(call: Callable[..., TracedArray]) -> Callable[..., TracedArray]:
    """``ufunc.reduce``: the same, over axis 0 unless told."""

    def reduce(x: object, axis: object = 0, dtype: object = None, **keywords: object) -> TracedArray:
        return call(x, axis, **({"dtype": dtype} if dtype is not None else {}), **keywords)

    return reduce


for _ufunc, _call in (
    (np.add, sum_call), (np.multiply, prod_call), (np.maximum, max_call), (np.minimum, min_call),
    (np.logical_or, any_call), (np.logical_and, all_call),
):  # fmt: skip
    UFUNC_METHODS[_ufunc, "reduce"] = _ufunc_reduce(_call)
UFUNC_METHODS[np.add, "accumulate"] = lambda x, axis=0, dtype=None: cumsum_call(x, axis, dtype)
UFUNC_METHODS[np.multiply, "accumulate"] = lambda x, axis=0, dtype=None: cumprod_call(x, axis, dtype)


def _outer(ufunc: np.ufunc) -> Callable[..., object]:
    def outer(x: object, y: object, **keywords: object) -> object:
        a, b = traced(x), traced(y)
        return ufunc(a.reshape((*a.shape, *(1,) * b.ndim)), b, **keywords)

    return outer


for _ufunc in (np.add, np.subtract, np.multiply, np.divide, np.power, np.maximum, np.minimum, np.hypot, np.arctan2):
    UFUNC_METHODS[_ufunc, "outer"] = _outer(_ufunc)
UFUNC_METHODS[np.equal, "outer"] = _outer(np.equal)

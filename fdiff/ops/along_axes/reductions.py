"""Reductions along axes: `sum`, `prod`, `max`, `min`, `any`, `all`, `argmax`, `argmin`, and `reduce` of their ufuncs.

`sum` is linear, and its transpose broadcasts. The derivative of any other reduction is a weighted sum: for a
product the weights are the products of the other entries, for an extremum 1 at the entry that attains it,
shared evenly at ties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...arraytype import BOOL, INT, ArrayType, Shape, loop_dtypes, shadow
from ...facets import Kink, Lowering, Rules, Structure
from ...kernel_rule import KernelRule, Kind
from ...primitive import UFUNC_METHODS, UFUNCS, ZERO, Primitive, Sample, Zero, register
from ...trace import Array, TracedArray, applied, apply, implements
from .. import late_term_rules
from ..entrywise.elementwise import stop
from ..entrywise.families import kind_of, linear, refuse
from ..entrywise.sample_domains import positive, real, truth
from ..rewrites.contraction_rewrites import sum_of_products
from ..rewrites.shape_rewrites import sum_of_single_entries
from ..shapes import axis_maps
from ..shapes.axis_numbers import normal_axes, normal_axis
from ..shapes.shaping import broadcast_to, traced
from .accumulation_dtypes import total_dtype, wide
from .cumulative import cumprod

Axes = tuple[int, ...]


def _removed(shape: Shape, axes: Axes) -> Shape:
    return tuple(n for k, n in enumerate(shape) if k not in axes)


def _kept(shape: Shape, axes: Axes) -> Shape:
    return tuple(1 if k in axes else n for k, n in enumerate(shape))


def _reduced(x: ArrayType, *, axes: Axes) -> tuple[ArrayType, ...]:
    return (ArrayType(_removed(x.shape, axes), x.dtype),)


def _up(axes: Axes) -> Axes:
    return tuple(a + 1 for a in axes)


def _expand(value: Array, shape: Shape, axes: Axes) -> Array:
    """A reduced value with axes of length 1 in place of the reduced ones, ready to broadcast."""
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
    structure=Structure(structural=True, axis_map=axis_maps.summed, sizeless=True, terms=late_term_rules.summed),
    lowering=Lowering(KernelRule(Kind.SUM), rewrites=(sum_of_single_entries, sum_of_products)), samples=_samples(real),
)


def reduction(
    name: str,
    function: Callable[..., object],
    kind: Kind,
    slope: Callable[[TracedArray, TracedArray, TracedArray, Axes], Array] | None,
    sample: Callable[..., np.ndarray],
    kink: Kink | None = None,
    *,
    sizeless: bool = True,
    chooses: bool = False,
) -> Primitive:
    """A reduction whose derivative is a sum with the weights ``slope(x, out, kept, axes)``; `kept` is `out` with keepdims."""

    def weights(args: Sequence[TracedArray], outs: Sequence[TracedArray], axes: Axes) -> Array | Zero:
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
        name, "reduction", Rules(_reduced, lambda x, *, axes: function(x, axis=axes), jvp, vjp, batch, kink=kink),
        Structure(sizeless=sizeless, chooses=chooses), Lowering(KernelRule(kind)), samples=_samples(sample),
    )  # fmt: skip
    return register(primitive)


def _even_share(x: TracedArray, out: TracedArray, kept: TracedArray, axes: Axes) -> object:
    """The weights of an extremum: 1, shared evenly among the entries that attain it."""
    hit = np.where(x == kept, 1.0, 0.0).astype(x.dtype)
    return hit / np.sum(hit, axis=axes, keepdims=True)


def _others(x: TracedArray, out: TracedArray, kept: TracedArray, axes: Axes) -> object:
    """The products of all other entries, from exclusive cumulative products of both directions; exact with zeros."""
    if not x.size:
        return np.ones(x.shape, x.dtype)
    rest = [k for k in range(x.ndim) if k not in axes]
    order = (*rest, *axes)
    flat = np.transpose(x, order).reshape((*(x.shape[k] for k in rest), -1))
    ones = np.ones((*flat.shape[:-1], 1), x.dtype)
    last = flat.ndim - 1
    before = np.concatenate([ones, apply(cumprod, flat, axis=last, reverse=False)[..., :-1]], axis=last)
    after = np.concatenate([apply(cumprod, flat, axis=last, reverse=True)[..., 1:], ones], axis=last)
    moved = (before * after).reshape(tuple(x.shape[k] for k in order))
    return np.transpose(moved, tuple(np.argsort(order).tolist()))


def _several(pick: Callable[..., object]) -> Kink:
    """The kink where more than one entry attains the extremum."""
    return Kink("a tie", lambda x, axes: np.sum(x == pick(x, axis=axes, keepdims=True), axis=axes) > 1)


prod = reduction("prod", lambda x, axis: np.prod(x, axis=axis, dtype=np.asarray(x).dtype), Kind.PROD, _others, positive, sizeless=False)
amax = reduction("max", np.max, Kind.MAX, _even_share, real, _several(np.max), chooses=True)
amin = reduction("min", np.min, Kind.MIN, _even_share, real, _several(np.min), chooses=True)
any_ = reduction("any", np.any, Kind.ANY, None, truth)
all_ = reduction("all", np.all, Kind.ALL, None, truth)


def _arg_type(x: ArrayType, *, axis: int) -> tuple[ArrayType, ...]:
    return (ArrayType(_removed(x.shape, (axis,)), INT),)


def _arg(name: str, kind: Kind, function: Callable[..., object]) -> Primitive:
    def batch(args: Sequence[TracedArray], mapped: object, size: int, *, axis: int) -> list[object]:
        return [apply(primitive, args[0], axis=axis + 1)]

    sample = Sample(lambda rng: (real(rng, (3, 4)),), {"axis": 1})
    none = lambda *_, **__: [ZERO]  # noqa: E731 - an index has no derivative
    rules = Rules(_arg_type, function, none, none, batch)
    primitive = Primitive(name, "reduction", rules, lowering=Lowering(KernelRule(kind)), samples=(sample,))
    return register(primitive)


argmax = _arg("argmax", Kind.ARGMAX, lambda x, *, axis: np.argmax(x, axis=axis))
argmin = _arg("argmin", Kind.ARGMIN, lambda x, *, axis: np.argmin(x, axis=axis))
# --- NumPy's functions -------------------------------------------------------------------------


def _finish(out: TracedArray, shape: Shape, axes: Axes, *, keepdims: object) -> TracedArray:
    if keepdims is True:
        return out.reshape(_kept(shape, axes))
    out.scalar = not out.shape
    return out


def _masked(x: TracedArray, where: object, fill: Array) -> TracedArray:
    """`x` with `fill` where the ``where=`` argument is false."""
    return x if where is True or where is np._NoValue else np.where(where, x, fill)


def _widened(x: object, dtype: object, ufunc: np.ufunc) -> TracedArray:
    """`x` in the dtype in which NumPy accumulates."""
    array = traced(x)
    if dtype is None and total_dtype(ufunc, array.type.dtype) == array.type.dtype:
        return array
    return wide(array, dtype, ufunc)


def passed(value: object) -> bool:
    return value is not None and value is not np._NoValue


def _reduced_axes(axis: object, ndim: int) -> tuple[int, ...]:
    """As `normal_axes`; NumPy's reductions take the axes 0 and -1 of what has none."""
    return () if not ndim and not np.ndim(axis) and axis in (0, -1) else normal_axes(axis, ndim)


@implements(np.sum, method="sum")
def sum_call(
    x: object, axis: object = None, dtype: object = None, out: object = None, keepdims: object = False, initial: object = None,
    where: object = True,
) -> TracedArray:
    """``np.sum`` with axis tuples, keepdims, initial and where."""
    array = _widened(x, dtype, np.add)
    axes = _reduced_axes(axis, array.ndim)
    array = _masked(array, where, 0)
    total = _finish(applied(sum_, (array,), (("axes", axes),)), array.shape, axes, keepdims=keepdims)
    return total + traced(initial).astype(total.dtype) if passed(initial) else total


@implements(np.prod, method="prod")
def prod_call(
    x: object, axis: object = None, dtype: object = None, out: object = None, keepdims: object = False, initial: object = None,
    where: object = True,
) -> TracedArray:
    """``np.prod``; its derivative is exact where entries are zero."""
    array = _widened(x, dtype, np.multiply)
    axes = _reduced_axes(axis, array.ndim)
    array = _masked(array, where, 1)
    total = _finish(apply(prod, array, axes=axes), array.shape, axes, keepdims=keepdims)
    return total * traced(initial).astype(total.dtype) if passed(initial) else total


def _extremum(
    primitive: Primitive, pick: np.ufunc, x: object, axis: object, keepdims: object, initial: object, where: object
) -> TracedArray:
    array = traced(x)
    axes = _reduced_axes(axis, array.ndim)
    if where is not True and where is not np._NoValue and not passed(initial):
        raise ValueError(
            f"reduction operation '{pick.__name__}' does not have an identity, so to use a where mask one has to specify 'initial'"
        )
    array = _masked(array, where, traced(initial).astype(array.dtype)) if passed(initial) else array
    empty = any(array.shape[a] == 0 for a in axes)
    if empty and not passed(initial):
        raise ValueError(f"zero-size array to reduction operation {pick.__name__} which has no identity")
    if empty:
        return broadcast_to(
            traced(initial).astype(array.dtype), np.max(shadow(array.type), axis=axes, keepdims=bool(keepdims is True), initial=0).shape
        )
    out = _finish(apply(primitive, array, axes=axes), array.shape, axes, keepdims=keepdims)
    return pick(out, traced(initial).astype(out.dtype)) if passed(initial) else out


@implements(np.max, np.amax, method="max")
def max_call(
    x: object, axis: object = None, out: object = None, keepdims: object = False, initial: object = None, where: object = True
) -> TracedArray:
    """``np.max``; at ties the slope is split evenly."""
    return _extremum(amax, np.maximum, x, axis, keepdims, initial, where)


@implements(np.min, np.amin, method="min")
def min_call(
    x: object, axis: object = None, out: object = None, keepdims: object = False, initial: object = None, where: object = True
) -> TracedArray:
    """``np.min``; at ties the slope is split evenly."""
    return _extremum(amin, np.minimum, x, axis, keepdims, initial, where)


def _logical(primitive: Primitive, fill: bool, x: object, axis: object, keepdims: object, where: object) -> TracedArray:
    array = traced(x)
    array = _masked(array if array.dtype == BOOL else array != 0, where, fill)
    axes = _reduced_axes(axis, array.ndim)
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
    if axis is None or (not array.ndim and axis in (0, -1)):
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

def as_scalar(x: TracedArray) -> Array:
    """Mark the result of a reduction as a NumPy scalar where no axis is left (in place; see `scalar_if_0d` for a new handle)."""
    if not x.scalar:  # eager scalars have a class of their own, whose `scalar` cannot be set
        x.scalar = not x.shape
    return x


def _ufunc_reduce(call: Callable[..., TracedArray]) -> Callable[..., TracedArray]:
    """``ufunc.reduce`` by a function like `sum_call`; over axis 0 by default."""

    def reduce(x: object, axis: object = 0, dtype: object = None, **keywords: object) -> TracedArray:
        return call(x, axis, **({"dtype": dtype} if dtype is not None else {}), **keywords)

    return reduce


for _ufunc, _call in (
    (np.add, sum_call), (np.multiply, prod_call), (np.maximum, max_call), (np.minimum, min_call),
    (np.logical_or, any_call), (np.logical_and, all_call),
):  # fmt: skip
    UFUNC_METHODS[_ufunc, "reduce"] = _ufunc_reduce(_call)

def _outer(ufunc: np.ufunc) -> Callable[..., object]:
    def outer(x: object, y: object, **keywords: object) -> object:
        a, b = traced(x), traced(y)
        return ufunc(a.reshape((*a.shape, *(1,) * b.ndim)), b, **keywords)

    return outer


for _ufunc in list(UFUNCS):
    if _ufunc.nin == 2 and _ufunc.nout == 1 and _ufunc.signature is None:
        UFUNC_METHODS[_ufunc, "outer"] = _outer(_ufunc)


def _log_sum(ufunc: np.ufunc, exp: np.ufunc, log: np.ufunc) -> Callable[..., Array]:
    """``logaddexp.reduce``; the largest term is subtracted first, so that nothing overflows."""

    def reduce(x: object, axis: object = 0, dtype: object = None, keepdims: object = False, **keywords: object) -> Array:
        refuse(ufunc, keywords)
        array = traced(x).astype(loop_dtypes(ufunc, (kind_of(x),) * 2)[-1]) if dtype is None else traced(x).astype(dtype)
        top = apply(stop, max_call(array, axis, keepdims=True, initial=-np.inf))
        top = np.where(np.isfinite(top), top, 0.0)
        total = log(np.sum(exp(array - top), axis=axis, keepdims=True)) + top
        shape = np.sum(shadow(array.type), axis=axis, keepdims=keepdims is True).shape
        return as_scalar(total.reshape(shape)) if keepdims is not True else total

    return reduce


UFUNC_METHODS[np.logaddexp, "reduce"] = _log_sum(np.logaddexp, np.exp, np.log)
UFUNC_METHODS[np.logaddexp2, "reduce"] = _log_sum(np.logaddexp2, np.exp2, np.log2)


def odd(x: object, axis: object = None, keepdims: object = False, **keywords: object) -> TracedArray:
    """``logical_xor.reduce``: whether an odd number of entries is true."""
    refuse(np.logical_xor, keywords)
    return np.not_equal(np.sum(traced(x) != 0, axis=axis, keepdims=keepdims is True) % 2, 0)


UFUNC_METHODS[np.logical_xor, "reduce"] = _ufunc_reduce(odd)

"""Cumulative functions along an axis: `cumsum`, `cumprod`, and `accumulate` of maximum and minimum.

`cumsum` is linear, and its transpose is the cumulative sum from the other end. The derivative of `cumprod`
is the linear recurrence ``s[i] = a[i] * s[i-1] + b[i]``, which divides by nothing and so is exact where entries
are zero (G. E. Blelloch, "Prefix sums and their applications", CMU-CS-90-190, 1990, section 1.4).
A running maximum picks entries by their position, and the pick is a gather.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...facets import LayoutRule, Lowering, Structure
from ...kernel_rule import KernelRule, Kind
from ...primitive import UFUNC_METHODS, ZERO, Primitive, Sample
from ...trace import Array, TracedArray, apply, implements
from ..entrywise.families import flat_op, linear, opaque_op, refuse
from ..entrywise.kink_marks import marked
from ..entrywise.sample_domains import positive, real, unit
from ..late_term_rules import cumulated
from ..shapes.axis_numbers import normal_axis
from ..shapes.shaping import traced
from ..shapes.take_functions import take_along_axis
from .accumulation_dtypes import wide


def _same(x: ArrayType, *_: ArrayType, **__: object) -> tuple[ArrayType, ...]:
    return (x,)


def _scan(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A cumulative function of NumPy that can also run from the last entry to the first (`reverse`)."""

    def evaluate(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
        turned = np.flip(x, axis) if reverse else x
        out = function(turned, axis=axis, dtype=x.dtype)
        return np.flip(out, axis) if reverse else out

    return evaluate


_SCAN_SAMPLES = [{"axis": 1, "reverse": False}, {"axis": 0, "reverse": True}]
cumsum = linear(
    "cumsum", _same, lambda bar, src, *, axis, reverse: apply(cumsum, bar, axis=axis, reverse=not reverse), evaluate=_scan(np.cumsum),
    structure=Structure(structural=True, layout=LayoutRule("first"), terms=cumulated), lowering=Lowering(KernelRule(Kind.CUMSUM)),
    samples=tuple(Sample(lambda rng: (real(rng, (3, 4)),), p) for p in _SCAN_SAMPLES),
)


def _shift(x: TracedArray, axis: int, *, back: bool, fill: float) -> Array:
    """Entries shifted by one along `axis`, towards the end (or the start, if `back`), with `fill` at the free end."""
    if not x.shape[axis]:
        return x  # there is no entry to be moved in
    before = (slice(None),) * axis
    edge = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), fill, x.dtype)
    if back:
        return np.concatenate([x[(*before, slice(1, None))], edge], axis=axis)
    return np.concatenate([edge, x[(*before, slice(None, -1))]], axis=axis)


def _previous(x: TracedArray, axis: int, reverse: bool, fill: float) -> Array:
    """For each entry, the one before it in the order of the scan."""
    return _shift(x, axis, back=reverse, fill=fill)


def _cumprod_jvp(
    dots: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, axis: int, reverse: bool
) -> list[object]:
    before = _previous(outs[0], axis, reverse, 1.0)
    return [apply(recurrence, args[0], before * dots[0], axis=axis, reverse=reverse)]


def _cumprod_vjp(
    bars: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, axis: int, reverse: bool
) -> list[object]:
    following = _previous(args[0], axis, not reverse, 0.0)
    pulled = apply(recurrence, following, bars[0], axis=axis, reverse=not reverse)
    return [pulled * _previous(outs[0], axis, reverse, 1.0)]


_FIRST = Structure(layout=LayoutRule("first"))
_RISING = [Sample(lambda rng: (positive(rng, (3, 4)),), p) for p in _SCAN_SAMPLES]
_PROD = Lowering(KernelRule(Kind.CUMPROD))
cumprod = opaque_op("cumprod", _same, _scan(np.cumprod), _cumprod_jvp, _cumprod_vjp, *_RISING, structure=_FIRST, lowering=_PROD)


def _run_recurrence(a: np.ndarray, b: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    out = np.empty(b.shape, b.dtype)
    s, factor, term = (np.moveaxis(v, axis, 0) for v in (out, a, b))
    state = np.zeros(s.shape[1:], b.dtype)
    for i in range(len(s) - 1, -1, -1) if reverse else range(len(s)):
        state = s[i] = factor[i] * state + term[i]
    return out


def _recurrence_jvp(
    dots: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, axis: int, reverse: bool
) -> list[object]:
    a_dot, b_dot = dots
    term = b_dot
    if a_dot is not ZERO:
        moved = a_dot * _previous(outs[0], axis, reverse, 0.0)
        term = moved if b_dot is ZERO else b_dot + moved
    return [apply(recurrence, args[0], term, axis=axis, reverse=reverse)]


def _recurrence_vjp(
    bars: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, axis: int, reverse: bool
) -> list[object]:
    following = _previous(args[0], axis, not reverse, 0.0)
    b_bar = apply(recurrence, following, bars[0], axis=axis, reverse=not reverse)
    return [b_bar * _previous(outs[0], axis, reverse, 0.0), b_bar]


_RUN = Lowering(KernelRule(Kind.RECURRENCE))
_TERMS = [Sample(lambda rng: (unit(rng, (3, 4)), real(rng, (3, 4))), p) for p in _SCAN_SAMPLES]
# s[i] = a[i] * s[i-1] + b[i], from s[-1] = 0: the derivative of a cumulative product, exact where entries are zero.
recurrence = opaque_op("recurrence", _same, _run_recurrence, _recurrence_jvp, _recurrence_vjp, *_TERMS, lowering=_RUN)


_highest = _scan(lambda x, axis, dtype: np.maximum.accumulate(x, axis=axis))
_MAX = Lowering(KernelRule(Kind.CUMMAX))
_INTEGERS = [Sample(lambda rng: (rng.integers(-9, 9, (3, 4)),), p) for p in _SCAN_SAMPLES]
# The cumulative maximum as an op has no derivative: `maximum.accumulate` gathers entries at positions found with it.
cummax = flat_op("cummax", _same, _highest, *_INTEGERS, structure=_FIRST, lowering=_MAX)

# --- NumPy's functions -------------------------------------------------------------------------


def _scan_call(primitive: Primitive, ufunc: np.ufunc, x: object, axis: int | None, dtype: object) -> TracedArray:
    array = wide(traced(x), dtype, ufunc)
    if axis is None or (not array.ndim and axis in (0, -1)):
        array, axis = array.reshape(-1), 0
    return apply(primitive, array, axis=normal_axis(axis, array.ndim), reverse=False)


@implements(np.cumsum, method="cumsum")
def cumsum_call(x: object, axis: int | None = None, dtype: object = None, out: object = None) -> TracedArray:
    return _scan_call(cumsum, np.add, x, axis, dtype)


@implements(np.cumprod, method="cumprod")
def cumprod_call(x: object, axis: int | None = None, dtype: object = None, out: object = None) -> TracedArray:
    return _scan_call(cumprod, np.multiply, x, axis, dtype)

@implements(np.cumulative_sum)
def cumulative_sum(
    x: object, /, *, axis: int | None = None, dtype: object = None, out: object = None, include_initial: bool = False
) -> Array:
    return _cumulative(cumsum_call, 0, traced(x), axis, dtype, initial=include_initial)


@implements(np.cumulative_prod)
def cumulative_prod(
    x: object, /, *, axis: int | None = None, dtype: object = None, out: object = None, include_initial: bool = False
) -> Array:
    return _cumulative(cumprod_call, 1, traced(x), axis, dtype, initial=include_initial)


def _cumulative(
    call: Callable[..., TracedArray], first: int, x: TracedArray, axis: int | None, dtype: object, *, initial: bool
) -> Array:
    if axis is None and x.ndim != 1:
        raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
    at = normal_axis(axis or 0, x.ndim)
    out = call(x, at, dtype)
    if not initial:
        return out
    edge = np.full((*x.shape[:at], 1, *x.shape[at + 1 :]), first, out.dtype)
    return np.concatenate([edge, out], axis=at)


def _accumulate(call: Callable[..., TracedArray], ufunc: np.ufunc) -> Callable[..., TracedArray]:
    def accumulate(x: object, axis: int = 0, dtype: object = None, **keywords: object) -> TracedArray:
        refuse(ufunc, keywords)
        return call(x, axis, dtype)

    return accumulate


def running_max(x: object, axis: int = 0, dtype: object = None) -> Array:
    """`maximum.accumulate`: a gather at the position where the maximum was last attained; NaN stays NaN."""
    array = traced(x) if dtype is None else traced(x).astype(dtype)
    at = normal_axis(axis, array.ndim)
    best = apply(cummax, array, axis=at, reverse=False)
    count = np.arange(array.shape[at]).reshape([-1 if k == at else 1 for k in range(array.ndim)])
    reached = np.where((array == best) | np.isnan(array), count, 0)
    picked = apply(cummax, reached, axis=at, reverse=False)
    out = take_along_axis(array, picked, at)
    return marked(out, lambda: picked != _first(array, best, count, at), "numpy.maximum.accumulate (or minimum)", "a tie")


def running_min(x: object, axis: int = 0, dtype: object = None) -> Array:
    """`minimum.accumulate`: the cumulative maximum of the negated array.

    Integers and bools are negated bit by bit, so that none overflows.
    """
    array = traced(x) if dtype is None else traced(x).astype(dtype)
    turn = np.negative if array.type.floating else np.invert
    return turn(running_max(turn(array), axis))


def _first(array: TracedArray, best: TracedArray, count: np.ndarray, axis: int) -> TracedArray:
    """For each entry, the position at which the extremum so far was first attained."""
    before = _shift(best, axis, back=False, fill=0)
    rises = np.where((array > before) & (count > 0), count, 0)
    return apply(cummax, rises, axis=axis, reverse=False)


UFUNC_METHODS[np.add, "accumulate"] = _accumulate(cumsum_call, np.add)
UFUNC_METHODS[np.multiply, "accumulate"] = _accumulate(cumprod_call, np.multiply)
UFUNC_METHODS[np.maximum, "accumulate"] = _accumulate(running_max, np.maximum)
UFUNC_METHODS[np.minimum, "accumulate"] = _accumulate(running_min, np.minimum)

"""The methods `reduce`, `accumulate` and `reduceat` of ufuncs without a primitive of their own, entry after entry.

Sums, products, extrema and truth values have theirs: `along_axes/reductions.py` (`reduce`, `outer`), `along_axes/statistics.py`
(of `fmax` and `fmin`) and `along_axes/cumulative.py` (`accumulate`) enter their methods.
"""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np

from ...arraytype import INT
from ...primitive import UFUNC_METHODS, UFUNCS
from ...trace import Array, TracedArray
from ..along_axes.cumulative import cumsum_call
from ..along_axes.data_dependent_shapes import look_if_traced
from ..along_axes.reductions import as_scalar, passed
from ..shapes.axis_numbers import normal_axis
from ..shapes.joining_and_splitting import concatenate_call
from ..shapes.shaping import traced
from .families import refuse


def _fold(ufunc: np.ufunc) -> Callable[..., object]:
    """``ufunc.reduce`` as a left fold: one op for each entry."""

    def reduce(
        x: Array, axis: object = 0, dtype: object = None, keepdims: bool = False, initial: object = None, where: object = True
    ) -> object:
        refuse(ufunc, {"where": where})
        array = _loop_typed(ufunc, x, dtype)
        axes = [axis] if not isinstance(axis, tuple) else list(axis)
        if axis is None:
            array, axes = array.reshape(-1) if keepdims is not True else array.reshape((-1, *(1,) * (array.ndim - 1))), [0]
        if len(axes) != 1 or (axis is None and np.ndim(x) > 1):
            raise ValueError(f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may be specified")
        at = normal_axis(axes[0], array.ndim)
        rows = list(np.moveaxis(array, at, 0))
        start = [traced(initial).astype(array.dtype)] if passed(initial) else rows[:1]
        if not start:
            if ufunc.identity is None:
                raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
            start = [np.full((*array.shape[:at], *array.shape[at + 1 :]), ufunc.identity, array.dtype)]
        out = start[0]
        for row in rows if passed(initial) else rows[1:]:
            out = ufunc(out, row)
        out = traced(out)
        return np.expand_dims(out, at) if keepdims is True else as_scalar(TracedArray(out.home, out.id, out.type))

    return reduce


def _loop_typed(ufunc: np.ufunc, x: object, dtype: object) -> TracedArray:
    """`x` in the dtype in which NumPy accumulates."""
    array = traced(x)
    return array.astype(dtype if dtype is not None else ufunc.reduce(np.ones(1, array.dtype)).dtype)


def _accumulate(ufunc: np.ufunc) -> Callable[..., Array]:
    def accumulate(x: object, axis: int = 0, dtype: object = None) -> Array:
        array = _loop_typed(ufunc, x, dtype)
        at = normal_axis(axis, array.ndim)
        rows = list(np.moveaxis(array, at, 0))
        for k in range(1, len(rows)):
            rows[k] = ufunc(rows[k - 1], rows[k])
        return np.stack(rows, axis=at) if rows else TracedArray(array.home, array.id, array.type)

    return accumulate


def _first_less_the_rest(x: object, axis: int = 0, dtype: object = None) -> TracedArray:
    """``subtract.accumulate``: the first entry minus the cumulative sum of the others."""
    array = traced(x) if dtype is None else traced(x).astype(dtype)
    at = normal_axis(axis, array.ndim)
    before = (slice(None),) * at
    first, others = array[(*before, slice(0, 1))], array[(*before, slice(1, None))]
    return concatenate_call([first, first - cumsum_call(others, at, array.dtype)], at)


def _segments(indices: object, n: int) -> list[np.ndarray]:
    """The positions that each result is made of; a start that is not below the next one stands for one entry."""
    starts = look_if_traced(indices, "reduced between traced places") if isinstance(indices, TracedArray) else np.asarray(indices)
    starts = starts.astype(INT)
    for start in starts:
        if not 0 <= start < n:
            raise IndexError(f"index {start} out-of-bounds in add.reduceat [0, {n})")
    ends = [*starts[1:], n]
    return [np.arange(i, j if i < j else i + 1) for i, j in zip(starts.tolist(), ends, strict=True)]


def reduceat(ufunc: np.ufunc) -> Callable[..., Array]:
    """``ufunc.reduceat``: one reduction of all segments, padded to one length with the identity.

    For a ufunc without an identity, one reduction for each segment.
    """
    identity = {np.add: 0, np.multiply: 1}.get(ufunc)

    def answer(array: object, indices: object, axis: int = 0, dtype: object = None) -> Array:
        x = np.moveaxis(traced(array), axis, 0)
        segments = _segments(indices, x.shape[0])
        if identity is None or not segments:
            parts = [ufunc.reduce(x[s], axis=0, **({} if dtype is None else {"dtype": dtype})) for s in segments]
            out = np.stack(parts) if parts else x[:0]
        else:
            longest = max(map(len, segments))
            places = np.stack([np.resize(s, longest) for s in segments])
            held = np.arange(longest) < np.array([[len(s)] for s in segments])
            held = held.reshape((*held.shape, *(1,) * (x.ndim - 1)))
            out = ufunc.reduce(np.where(held, x[places], np.array(identity, x.dtype)), axis=1, dtype=dtype)
        return np.moveaxis(out, 0, axis)

    return answer


for _ufunc in (np.add, np.multiply, np.maximum, np.minimum):
    UFUNC_METHODS[_ufunc, "reduceat"] = reduceat(_ufunc)


_HOMOGENEOUS = {"dd->d", "ll->l", "qq->q"}  # loops whose result can be the next operand
for _ufunc in list(UFUNCS):
    if (
        _ufunc.nin == 2
        and _ufunc.nout == 1
        and _ufunc.signature is None
        and (_HOMOGENEOUS & set(_ufunc.types) or _ufunc.__name__.startswith("logical"))
    ):
        for _method, _make in (("reduce", _fold), ("accumulate", _accumulate), ("reduceat", reduceat)):
            if (_ufunc, _method) not in UFUNC_METHODS:
                UFUNC_METHODS[_ufunc, _method] = _make(_ufunc)
UFUNC_METHODS[np.subtract, "accumulate"] = _first_less_the_rest

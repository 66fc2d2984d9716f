"""The methods `reduce`, `accumulate` and `reduceat` of ufuncs without a primitive of their own, entry after entry; `at` of all.

Sums, products, extrema and truth values have theirs: `along_axes/reductions.py` (`reduce`, `outer`), `along_axes/statistics.py`
(of `fmax` and `fmin`) and `along_axes/cumulative.py` (`accumulate`) enter their methods.
"""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np

from ...arraytype import INT
from ...hooks import hooks
from ...primitive import UFUNC_METHODS, UFUNCS
from ...trace import Array, TracedArray, apply
from ...trace.array_links import is_copy
from ...trace.static_arguments import settled
from ..along_axes.cumulative import cumsum_call
from ..along_axes.data_dependent_shapes import look_if_traced
from ..along_axes.reductions import as_scalar, passed
from ..shapes.axis_numbers import normal_axis
from ..shapes.basic_indexing import basic
from ..shapes.gather_scatter import scatter_add
from ..shapes.indexing import resolve_key
from ..shapes.item_assignment import as_gathered, assign, picked_shape, stretched, target, write
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


def at(ufunc: np.ufunc) -> Callable[..., None]:
    """``ufunc.at``: repeated indices count each time."""

    def store(a: object, indices: object, b: object = None) -> None:
        x = target(a)
        if ufunc in (np.add, np.subtract) and x.type.floating:
            sign = 1.0 if ufunc is np.add else -1.0
            sums = traced(np.zeros(x.shape, x.dtype))
            _add_at(sums, indices, b)
            assign(x, x + sums * np.array(sign, x.dtype))
            return
        index = place_flat(x, indices)
        fault = "array is not broadcastable to correct shape"
        operand = None if b is None else stretched(traced(b), index.shape, fault).reshape(-1)
        flat = np.reshape(x, -1)
        apart = is_copy(flat)
        for rows in _rounds(index.ravel()):
            picked = flat[index.ravel()[rows]]
            new = UFUNCS[ufunc](picked) if operand is None else UFUNCS[ufunc](picked, operand[rows])
            flat[index.ravel()[rows]] = new
        if apart:
            assign(x, np.reshape(flat, x.shape))

    return store


def _add_at(sums: TracedArray, indices: object, b: object) -> None:
    """Store into `sums`, which is zero, the sum of the values that fall on each entry."""
    index_target = resolve_key(sums, indices)
    fault = "array is not broadcastable to correct shape"
    part = stretched(traced(b).astype(sums.dtype), picked_shape(index_target), fault)
    if index_target.entry is not None or not index_target.indices:
        assign(index_target.view if index_target.entry is None else basic(index_target.view, index_target.entry), part)
        return
    total = apply(scatter_add, as_gathered(part, index_target), *index_target.indices, shape=index_target.view.shape)
    write(index_target.view, total.id)


def place_flat(x: TracedArray, indices: object) -> np.ndarray:
    """Flat positions of ``x[indices]``; a traced index is looked at."""
    numbers = np.arange(x.size).reshape(x.shape)
    return np.asarray(numbers[settled(indices)])


def _rounds(flat: np.ndarray) -> list[np.ndarray]:
    """Positions in `flat` in rounds: within a round no index occurs twice, and rounds keep the order."""
    order = np.argsort(flat, kind="stable")
    sorted_ = flat[order]
    first = np.flatnonzero(np.r_[True, sorted_[1:] != sorted_[:-1]])
    rank = np.arange(flat.size) - np.repeat(first, np.diff(np.r_[first, flat.size]))
    turn = np.empty(flat.size, int)
    turn[order] = rank
    return [np.flatnonzero(turn == k) for k in range(int(turn.max(initial=-1)) + 1)]


hooks.ufunc_at = at


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

"""Functions that pick entries by position: `take`, `repeat`, `tile`, `delete`, `compress`, `extract`, `item`; gathers."""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...trace import TracedArray, guarded_value, implements
from .axis_numbers import normal_axis
from .shaping import deepened, fresh, traced


@implements(np.take, method="take")
def take(x: object, indices: object, axis: int | None = None, out: object = None, mode: str = "raise") -> TracedArray:
    """Entries by index along an axis; indices out of range raise, wrap or are clipped."""
    array = traced(x)
    if axis is None:
        array, axis = array.reshape(-1), 0
    at, n = normal_axis(axis, array.ndim), array.shape[axis]
    if mode == "wrap":
        indices = np.remainder(indices, n)
    elif mode == "clip":
        indices = np.clip(indices, 0, n - 1)
    whole = indices if isinstance(indices, (TracedArray, int, np.integer)) else np.asarray(indices)
    return array[(*(slice(None),) * at, whole)]


@implements(np.take_along_axis)
def take_along_axis(x: object, indices: object, axis: int | None = -1) -> TracedArray:
    """Entries matched along one axis."""
    array, index = traced(x), indices if isinstance(indices, TracedArray) else np.asarray(indices)
    if index.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        return array.reshape(-1)[index.reshape(-1)]
    if index.ndim != array.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    at = normal_axis(axis, array.ndim)
    grid = [np.arange(n).reshape([-1 if k == j else 1 for j in range(array.ndim)]) for k, n in enumerate(index.shape)]
    return array[tuple(index if k == at else g for k, g in enumerate(grid))]


@implements(np.repeat, method="repeat")
def repeat(x: object, repeats: object, axis: int | None = None) -> TracedArray:
    """Each entry several times: a gather."""
    array = traced(x)
    if axis is None:
        array, axis = array.reshape(-1), 0
    return take(array, np.repeat(np.arange(array.shape[axis]), repeats), axis)


@implements(np.tile)
def tile(x: object, reps: object) -> TracedArray:
    """The array repeated along its axes: a broadcast and a reshape."""
    array = traced(x)
    times = (reps,) if isinstance(reps, (int, np.integer)) else tuple(reps)
    array = deepened(array, len(times))
    times = (*(1,) * (array.ndim - len(times)), *times)
    paired = array.reshape(tuple(n for m in array.shape for n in (1, m)))
    full = np.broadcast_to(paired, tuple(n for r, m in zip(times, array.shape, strict=True) for n in (r, m)))
    return fresh(full.reshape(tuple(r * m for r, m in zip(times, array.shape, strict=True))))


@implements(np.delete)
def delete(arr: object, obj: object, axis: int | None = None) -> TracedArray:
    """The array without the entries (or rows) `obj` names."""
    array = traced(arr)
    if axis is None:
        array, axis = array.reshape(-1), 0
    return take(array, np.delete(np.arange(array.shape[normal_axis(axis, array.ndim)]), obj), axis)


@implements(np.compress)
def compress(condition: object, a: object, axis: int | None = None, out: object = None) -> TracedArray:
    """Entries along an axis where a condition holds, which is looked at."""
    held = guarded_value(condition, "picked entries by a traced condition") if isinstance(condition, TracedArray) else np.asarray(condition)
    return take(a, np.flatnonzero(held), axis)


@implements(method="compress")
def compress_method(x: TracedArray, condition: object, axis: int | None = None, out: object = None) -> TracedArray:
    return compress(condition, x, axis)


@implements(np.extract)
def extract(condition: object, arr: object) -> TracedArray:
    return compress(np.ravel(condition), traced(arr).reshape(-1))


@implements(method="item")
def item(x: TracedArray, *place: int) -> object:
    """One entry as a Python number: a float stays traced, an integer is looked at."""
    place = place[0] if len(place) == 1 and isinstance(place[0], tuple) else place
    if place:
        x = x.reshape(-1)[place[0]] if len(place) == 1 else x[place]
    elif x.size != 1:
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    x = x.reshape(())
    if not x.type.floating:
        return guarded_value(x, "turned a traced array into a Python number").item()
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64).as_python_float()

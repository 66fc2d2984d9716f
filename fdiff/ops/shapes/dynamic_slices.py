"""Slices of constant width that start at a traced integer: ``x[i:i + 3]`` in the body of a loop.

XLA's dynamic slice and dynamic update are here a gather at the positions ``i + arange(3)`` and its store, with
the rules and kernels that these have. `window_indices` is the one op: it gives the positions, or the error where one
lies outside. NumPy would clip the slice there, or count from the end, and the result would have another shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import fdiff.intact_numpy as np

from ...arraytype import INT, ArrayType
from ...errors import TraceError
from ...facets import Lowering
from ...primitive import Sample
from ...trace import TracedArray, apply, constant_value, current
from ...trace.array_links import ViewLink
from ..entrywise.elementwise import add, multiply, negative, subtract
from ..entrywise.families import flat_op
from .gather_scatter import gather
from .shaping import transpose_call

LEAVES = "a slice of constant width that leaves the array"
_SIGNS = {add: (1, 1), subtract: (1, -1), negative: (-1,)}  # of the terms of a sum


def _infer(start: ArrayType, *, size: int, count: int, step: int) -> tuple[ArrayType, ...]:
    return (ArrayType((*start.shape, count), INT),)


def _positions(start: np.ndarray, *, size: int, count: int, step: int) -> np.ndarray:
    last = start + step * (count - 1)
    if np.any((start < 0) | (last >= size)):
        raise IndexError(f"index is out of bounds: {LEAVES}, of length {size}")
    return np.asarray(start)[..., None] + step * np.arange(count)


def _spelled(start: TracedArray, *, size: int, count: int, step: int) -> object:
    """The positions, or one that no gather takes."""
    outside = (start < 0) | (start > size - 1 - step * (count - 1))
    first = np.where(outside, size, start)
    return np.expand_dims(first, -1) + step * np.arange(count)


_STARTS = Sample(lambda rng: (rng.integers(0, 4, (2, 3)),), {"size": 8, "count": 3, "step": 2})
# window_indices(i)[..., k] = i + step * k, all of them from 0 to size - 1.
window_indices = flat_op("window_indices", _infer, _positions, _STARTS, lowering=Lowering(spelled=_spelled))


def windows(x: TracedArray, items: Sequence[object]) -> tuple[TracedArray, list[object]]:
    """A view of `x` in place of slices whose bounds are not known, and the key with whole slices there.

    Bounds that are known at the arguments at hand stay, to be looked at. `items` has one item for each axis of `x`,
    beside new axes and an Ellipsis for none.
    """
    out, axis = list(items), 0
    for k, item in enumerate(items):
        if isinstance(item, slice) and _is_carried(item):
            x, out[k] = _window(x, axis, item), slice(None)
        axis += item is not None and item is not Ellipsis
    return x, out


def _is_carried(item: slice) -> bool:
    """Whether a bound is a traced integer without a value at the arguments at hand: another one in each trip."""
    ends = [end for end in (item.start, item.stop, item.step) if isinstance(end, TracedArray)]
    trace = current()
    if trace.eager or any(end.ndim or end.dtype.kind not in "iu" for end in ends):
        return False
    try:
        for end in ends:
            trace.guards.value(trace.own(end), "sliced by it")
    except TraceError:
        return True
    return False


def _window(x: TracedArray, axis: int, item: slice) -> TracedArray:
    """The view ``x[start:start + width:step]`` along an axis."""
    step = None if isinstance(item.step, TracedArray) else index(1 if item.step is None else item.step)
    width = None if step is None or step < 1 else _width(item.start, item.stop)
    if step is None or width is None or width < 0:
        fact = (
            "`f` slices by bounds that are not known when it is traced, such as those that a loop carries,"
            " and the width of the slice is not known either."
        )
        way = (
            "Slice by a constant width, such as x[i:i + 3], where i is an int64; for others, mask the entries:"
            " numpy.where(numpy.arange(len(x)) < i, x, 0)."
        )
        raise current().fail(fact, way)
    count = len(range(0, width, step))
    if not count:
        return x[(*[slice(None)] * axis, slice(0, 0))]
    if step * (count - 1) >= x.shape[axis]:
        raise IndexError(f"index is out of bounds: {LEAVES}, of length {x.shape[axis]}")
    order = (axis, *(k for k in range(x.ndim) if k != axis))
    leading = transpose_call(x, order)
    at = apply(window_indices, item.start, size=x.shape[axis], count=count, step=step)
    out = apply(gather, leading, at)
    if out.home.mutable:
        part = (slice(0, step * (count - 1) + 1, step),)
        out.link = ViewLink(leading, gather, (), out.home.own(leading), (out.home.own(at),), part=part)
    return transpose_call(out, np.argsort(order).tolist())


def _width(start: object, stop: object) -> int | None:
    """``stop - start``, if it is a constant of the tape; both are sums of multiples of the same values."""
    if not isinstance(start, TracedArray) or not isinstance(stop, TracedArray):
        return None
    home = start.home if start.home is stop.home else current()
    factors = {home.own(start): -1}
    factors[home.own(stop)] = factors.get(home.own(stop), 0) + 1
    width = 0
    while factors:
        last = max(factors)  # an argument comes before what is computed of it
        if factor := factors.pop(last):
            node = TracedArray(home, last, home.builder.type(last))
            if (value := constant_value(node)) is not None and value.dtype == INT:
                width += factor * int(value)
                continue
            if (parts := _sum_of_multiples(node)) is None:
                return None
            for part, by in parts:
                factors[part] = factors.get(part, 0) + factor * by
    return width


def _sum_of_multiples(x: TracedArray) -> list[tuple[int, int]] | None:
    """An int64 as a sum: nodes and the constants that they are multiplied with; None for any other value."""
    node = x.home.builder.nodes[x.id]
    if x.dtype != INT or any(x.home.builder.type(a) != x.type for a in node.args):
        return None
    if node.primitive in _SIGNS:
        return list(zip(node.args, _SIGNS[node.primitive], strict=True))
    if node.primitive is multiply:
        for a, b in (node.args, node.args[::-1]):
            factor = constant_value(TracedArray(x.home, a, x.type))
            if factor is not None:
                return [(b, int(factor))]
    return None

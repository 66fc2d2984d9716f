"""Arguments that name axes, counted from the front."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import fdiff.intact_numpy as np

Ints = tuple[int, ...]


def normal_axis(axis: int, ndim: int) -> int:
    """`axis` counted from the front; AxisError as NumPy words it."""
    return int(np.lib.array_utils.normalize_axis_index(index(axis), ndim))


def normal_axes(axis: int | Sequence[int] | None, ndim: int) -> Ints:
    """Sorted axes counted from the front; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    sequence = (axis,) if isinstance(axis, int) or not np.ndim(axis) else axis
    axes = tuple(sorted(normal_axis(a, ndim) for a in sequence))
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return axes

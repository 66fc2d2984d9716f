"""Broadcasting in rules of ops: operands are stretched, cotangents summed, arguments of batches aligned.

Source: NumPy's guide, page "Broadcasting", section "General broadcasting rules".
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...arraytype import Shape
from ...primitive import ZERO
from ...trace import Array, TracedArray


def stretch(value: Array, shape: Shape) -> object:
    """`value` broadcast to `shape`; `ZERO` stays."""
    if value is ZERO or value.shape == shape:
        return value
    return np.broadcast_to(value, shape)


def unbroadcast(bar: Array, shape: Shape) -> Array:
    """The transpose of broadcasting from `shape`: the sum over the broadcast axes."""
    if bar.shape == shape:
        return bar
    lead = bar.ndim - len(shape)
    axes = (*range(lead), *(lead + i for i, n in enumerate(shape) if n == 1 and bar.shape[lead + i] != 1))
    return np.reshape(np.sum(bar, axis=axes), shape)


def all_mapped(args: Sequence[TracedArray], mapped: Sequence[bool], size: int) -> list[Array]:
    """Arguments of a batch, each with the batch axis: arguments without it are repeated."""
    return [a if m else np.broadcast_to(a, (size, *a.shape)) for a, m in zip(args, mapped, strict=True)]


def align(args: Sequence[TracedArray], mapped: Sequence[bool]) -> list[Array]:
    """Arguments of a batch with axes of length 1 after the batch axis, so that the trailing axes still broadcast."""
    ndim = max(a.ndim - m for a, m in zip(args, mapped, strict=True))
    return [
        a.reshape((a.shape[0], *(1,) * (ndim - a.ndim + 1), *a.shape[1:])) if m and a.ndim - 1 < ndim else a
        for a, m in zip(args, mapped, strict=True)
    ]

"""Places of entries in slots of eight bytes: docs/decisions/bytecode-interpreter.md."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import fdiff.intact_numpy as np

from ...arraytype import F8, ArrayType, Shape, example_of
from ...primitive import Primitive
from ...tape import Params

DTYPES = {
    "f8": np.dtype(np.float64), "i8": np.dtype(np.int64), "b1": np.dtype(np.bool_),
    "c16": np.dtype(np.complex128),
}  # fmt: skip
Steps = tuple[int, ...]


class Layout:
    """Shape, steps and dtype; `dense` where the entries lie side by side in order.

    `packed` entries lie side by side in the order of some permutation of the axes. One object for
    equal ones, so that it is compared by identity. A truth value takes a slot too, a complex number
    two; `slots` counts all.
    """

    __slots__ = ("dense", "dtype", "packed", "shape", "size", "slots", "steps")

    def __init__(self, shape: Shape, steps: Steps, dtype: str) -> None:
        self.shape = shape
        self.steps = steps
        self.dtype = dtype
        self.size = prod(shape)
        self.slots = self.size * width(dtype)
        self.dense = self.size <= 1 or all(
            n == 1 or step == wanted
            for n, step, wanted in zip(shape, steps, dense_steps(shape, dtype), strict=True)
        )
        self.packed = self.dense or (width(dtype) == 1 and _packed(shape, steps))


def _packed(shape: Shape, steps: Steps) -> bool:
    axes = sorted((step, n) for n, step in zip(shape, steps, strict=True) if n != 1)
    wanted = 1
    for step, n in axes:
        if step != wanted:
            return False
        wanted *= n
    return True


@lru_cache(maxsize=1 << 14)
def row_major(shape: Shape) -> Steps:
    """Steps of an array whose entries lie side by side in order."""
    steps: list[int] = []
    step = 1
    for n in reversed(shape):
        steps.append(step)
        step *= n
    return tuple(reversed(steps))


def width(dtype: str) -> int:
    """Slots of an entry."""
    return 2 if dtype == "c16" else 1


def dense_steps(shape: Shape, dtype: str) -> Steps:
    """Steps, in slots, of entries that lie side by side in order."""
    steps = row_major(shape)
    return tuple(2 * step for step in steps) if dtype == "c16" else steps


def by_slots(shape: Shape, steps: Steps, dtype: str) -> tuple[Shape, Steps]:
    """Shape and steps of the slots: complex entries are pairs of real ones."""
    return ((*shape, 2), (*steps, 1)) if dtype == "c16" else (shape, steps)


@lru_cache(maxsize=1 << 14)
def laid(shape: Shape, steps: Steps, dtype: str) -> Layout:
    """The layout, one object for equal ones."""
    return Layout(shape, steps, dtype)


@lru_cache(maxsize=1 << 14)
def in_order(type_: ArrayType) -> Layout | None:
    """A value of that type with its entries side by side; None for a dtype that has no slots."""
    dtype = type_.dtype.str[1:]
    return laid(type_.shape, dense_steps(type_.shape, dtype), dtype) if dtype in DTYPES else None


def viewed(op: Primitive, params: Params, source: Layout) -> tuple[Layout, int] | None:
    """Layout of a view of `source`, and the offset of its first entry in `source`.

    NumPy is asked, by a view of memory that is never touched. None where it would make a copy.
    """
    if source.size == 0:
        type_ = op.rules.infer(ArrayType(source.shape, DTYPES[source.dtype]), **dict(params))[0]
        return laid(type_.shape, dense_steps(type_.shape, source.dtype), source.dtype), 0
    model = example_of(ArrayType(source.shape, F8), source.steps)
    out = np.asarray(op.rules.evaluate(model, **dict(params)))
    if not np.may_share_memory(out, model):
        return None
    delta = (out.__array_interface__["data"][0] - model.__array_interface__["data"][0]) // 8
    return laid(out.shape, tuple(step // 8 for step in out.strides), source.dtype), delta


def spread(source: Layout, shape: Shape) -> Steps:
    """Steps of `source` broadcast to `shape`."""
    lead = len(shape) - len(source.shape)
    return (
        *(0,) * lead,
        *(0 if n == 1 else step for n, step in zip(source.shape, source.steps, strict=True)),
    )


def joined_axes(shape: Shape, *steps: Steps) -> list[tuple[int, ...]]:
    """Loops over `shape` with the steps of several arrays: axes that continue others are joined."""
    loops: list[tuple[int, ...]] = []
    for n, *own in zip(shape, *steps, strict=True):
        if n == 1:
            continue
        if loops and all(o == n * i for o, i in zip(loops[-1][1:], own, strict=True)):
            loops[-1] = (loops[-1][0] * n, *own)
        else:
            loops.append((n, *own))
    return loops


def columns(loops: Sequence[tuple[int, ...]], rank: int, arrays: int) -> list[int] | None:
    """Lengths, then the steps of each array, of `rank` loops; None if there are more."""
    if len(loops) > rank:
        return None
    rows = [(1, *(0,) * arrays)] * (rank - len(loops)) + list(loops)
    return [row[k] for k in range(arrays + 1) for row in rows]

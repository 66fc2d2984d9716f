"""Which axes of its arguments an axis of an op's output lies along, entry by entry: `AxisMap`."""

from __future__ import annotations

from math import prod

from ...arraytype import ArrayType, Shape
from ...facets import AxisMap

Ints = tuple[int, ...]


def entrywise(along: int, out: ArrayType, /, *types: ArrayType, **_: object) -> AxisMap:
    """The axis map of an elementwise op: axes counted from the last, unless they are stretched."""
    axes = [along - out.ndim + t.ndim for t in types]
    pairs = zip(types, axes, strict=True)
    return AxisMap(tuple([k if k >= 0 and t.shape[k] == out.shape[along] else None for t, k in pairs]))


def broadcast(along: int, out: ArrayType, /, x: ArrayType, **_: object) -> AxisMap:
    return entrywise(along, out, x)._replace(sized="shape")


def reshaped(along: int, out: ArrayType, /, x: ArrayType, *, shape: Shape) -> AxisMap | None:
    """The axis of this length with as many entries before it."""
    before, length = prod(shape[:along]), shape[along]
    axes = [
        k for k, n in enumerate(x.shape) if n == length and prod(x.shape[:k]) == before and (n > 1 or k == along)
    ]
    return AxisMap((axes[0],), "shape") if axes and prod(shape) else None


def transposed(along: int, out: ArrayType, /, x: ArrayType, *, axes: Ints) -> AxisMap:
    return AxisMap((axes[along],))


def sliced(along: int, out: ArrayType, /, x: ArrayType, *, starts: Ints, sizes: Ints, steps: Ints) -> AxisMap | None:
    whole = x.shape[along] == sizes[along] and steps[along] == 1
    return AxisMap((along,), "sizes") if whole else None


def unsliced(along: int, out: ArrayType, /, x: ArrayType, *, starts: Ints, steps: Ints, shape: Shape) -> AxisMap | None:
    whole = x.shape[along] == shape[along] and steps[along] == 1
    return AxisMap((along,), "shape") if whole else None


def updated(along: int, out: ArrayType, /, base: ArrayType, part: ArrayType, *, starts: Ints, steps: Ints) -> AxisMap:
    whole = part.shape[along] == out.shape[along] and steps[along] == 1
    return AxisMap((along, along)) if whole else AxisMap((along, None), None)


def concatenated(along: int, out: ArrayType, /, *types: ArrayType, axis: int) -> AxisMap | None:
    return AxisMap((along,) * len(types)) if along != axis else None


def summed(along: int, out: ArrayType, /, x: ArrayType, *, axes: Ints) -> AxisMap:
    return AxisMap(([k for k in range(x.ndim) if k not in axes][along],))

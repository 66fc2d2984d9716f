"""Masks of cotangents: the entries whose cotangent counts, where slopes may be infinite.

A `where` leaves entries out: their cotangent is zero, and their slope may be infinite or NaN. Zero
times infinity would be NaN, so that the cotangent carries a mask of the entries that were chosen.
Each rule hands the mask on to its arguments. Which masks can be left out: `needless_masks.py`.

Our own: docs/decisions/where-protects-branches.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import fdiff.intact_numpy as np

from ..arraytype import BOOL
from ..kernel_rule import Kind
from ..named_tuples import NamedTuple
from ..ops.entrywise.broadcasting import unbroadcast
from ..ops.entrywise.elementwise import where
from ..primitive import ZERO, Primitive
from ..tape import Node
from ..trace import Array, TracedArray


class Bar(NamedTuple):
    """A cotangent that is zero outside of `mask`, if it has a mask.

    A cotangent that comes out of a `where` carries the mask of its branch, so that a slope that
    is infinite or NaN where the branch was not taken is never multiplied in.
    """

    value: Array
    mask: Array | None = None


def mask_of_seeds(primitive: Primitive, seeds: Sequence[object]) -> Array | None:
    """The mask of a cotangent; for the cotangents of several outputs, what any of them keeps.

    That is told entry by entry for elementwise ops; for others it is whether there is an entry.
    """
    masks = [bar.mask for bar in seeds if isinstance(bar, Bar)]
    if len(seeds) == 1 or any(mask is None for mask in masks):
        return masks[0] if len(seeds) == 1 and masks else None
    by_operand = (
        primitive.structure.structural
        or primitive.structure.masks is not None
        or primitive.family == "reduction"
    )
    if by_operand:  # of one output
        return None
    whole = primitive.family == "elementwise"
    kept: Any = masks if whole else [np.any(mask) for mask in masks]
    return reduce(np.logical_or, kept)


def inside(mask: Array | None, value: Array) -> Array:
    """`value` where `mask` is true, and zero elsewhere."""
    if mask is None or value is ZERO:
        return value
    return np.where(mask, value, np.zeros((), value.dtype))


def elementwise_bar(
    k: int, primitive: Primitive, result: object, mask: Array | None, args: Sequence[Array]
) -> Bar | None:
    """Cotangent of argument `k` of an elementwise op, summed over broadcast axes, with its mask."""
    if result is ZERO:
        return None
    bar: Any = result
    if mask is not None and not primitive.rules.unit_slopes:
        bar = np.where(mask, bar, 0.0)
    if primitive is where:
        chosen = args[0] if k == 1 else np.logical_not(args[0])
        kept: Array = chosen if mask is None else np.logical_and(mask, chosen)
        mask = np.broadcast_to(kept, bar.shape)
    shape = args[k].shape
    return Bar(unbroadcast(bar, shape), None if mask is None else narrow_mask(mask, shape))


def narrow_mask(mask: Array, shape: tuple[int, ...]) -> Array:
    """The mask before broadcasting from `shape`: true where it is true for any copy."""
    if mask.shape == shape:
        return mask
    lead = mask.ndim - len(shape)
    axes = (
        *range(lead),
        *(lead + i for i, n in enumerate(shape) if n == 1 and mask.shape[lead + i] != 1),
    )
    return np.reshape(np.any(mask, axis=axes), shape)


# Their transposes add entries up, which have to be numbers; transposes of others move truth values.
_ADD_UP = (Kind.GATHER, Kind.CUMSUM)


def entries_taken(
    node: Node, bar: np.ndarray, args: Sequence[Array], outs: Sequence[Array]
) -> list[Array | None]:
    """Masks of the entries of each argument whose cotangent is not zero; None where all are."""
    assert node.primitive.rules.vjp is not None
    pulled = node.primitive.rules.vjp([bar], args, outs, **dict(node.params))
    cotangents: list[Any] = [p() if callable(p) else p for p in pulled]
    return [None if p is ZERO else p if p.dtype == BOOL else p != 0 for p in cotangents]


def entries_read(
    node: Node, mask: Array, args: Sequence[Array], outs: Sequence[TracedArray]
) -> list[Array | None]:
    """For each argument, a mask of the entries from which the output's entries `mask` are computed.

    Of traced arrays; where the op is elementwise, of any arrays.
    """
    if node.primitive is where:
        taken = np.logical_and(mask, args[0])
        passed = np.logical_and(mask, np.logical_not(args[0]))
        return [narrow_mask(m, a.shape) for m, a in zip((mask, taken, passed), args, strict=True)]
    if node.primitive.family == "elementwise":
        return [narrow_mask(mask, a.shape) for a in args]
    return masks_of_arguments(node, mask, args, outs)


def masks_of_arguments(
    node: Node, mask: Array, args: Sequence[Array], outs: Sequence[Array]
) -> list[Array | None]:
    """A mask of the output pulled back: true for each entry that a true one depends on.

    Exact for ops that move or add entries, reductions and products; for any other op all entries
    or none take part.
    """
    params = dict(node.params)
    if node.primitive.structure.structural:
        weight: object = mask
        if node.primitive.kind in _ADD_UP:
            weight = np.where(mask, np.ones((), outs[0].dtype), np.zeros((), outs[0].dtype))
        return entries_taken(node, np.broadcast_to(weight, outs[0].shape), args, outs)
    if node.primitive.structure.masks is not None:
        return [*node.primitive.structure.masks(mask, args, **params)]
    if node.primitive.family == "reduction" and "axes" in params:
        kept = np.expand_dims(mask, params["axes"])
        return [np.broadcast_to(kept, a.shape) for a in args]
    some = np.any(mask)
    return [np.broadcast_to(some, a.shape) for a in args]

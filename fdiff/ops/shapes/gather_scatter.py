"""Gather and scatter: the linear ops behind indexing by arrays.

``gather(x, i, j) = x[i, j]``; its transpose is `scatter_add`, which adds up what falls on one entry, and the
other way round. ``scatter_set(x, values, i)`` is `x` with ``x[i] = values``: the cotangent of `x` is zero
where a value was stored, and the cotangent of a value is zero where a later one was stored over it. `iota` counts.

Source: NumPy's guide, page "Indexing on ndarrays", section "Advanced indexing".
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...arraytype import INT, ArrayType, Shape, broadcast, distinct
from ...facets import EagerRule, LayoutRule, Lowering, Rules, Structure
from ...kernel_rule import KernelRule, Kind
from ...primitive import PRIMITIVES, Primitive, Sample, register
from ...trace import Array, TracedArray, TracedArrays, apply, constant_value
from ...trace.operation_cache import READS_ENTRY
from ...trace.provenance import through_scatter
from .. import late_term_rules as term_rules
from ..entrywise.broadcasting import all_mapped
from ..entrywise.families import multilinear
from ..rewrites.shape_rewrites import gather_of_counters
from .shaping import transpose_call
from .view_ops import spread


def _gathered(x: ArrayType, *indices: ArrayType) -> tuple[ArrayType, ...]:
    return (ArrayType((*broadcast(*(i.shape for i in indices)), *x.shape[len(indices) :]), x.dtype),)


def _scattered(bar: ArrayType, *indices: ArrayType, shape: Shape) -> tuple[ArrayType, ...]:
    return (ArrayType(shape, bar.dtype),)


def _scatter(bar: np.ndarray, *indices: np.ndarray, shape: Shape) -> np.ndarray:
    out = np.zeros(shape, np.asarray(bar).dtype)
    if np.ndim(bar) > 32:  # NumPy's `add.at` crashes
        lead = broadcast(*[i.shape for i in indices])
        indices = tuple([np.broadcast_to(i, lead).ravel() for i in indices])
        kept = [n for n in shape[len(indices) :] if n != 1]
        bar = np.reshape(bar, (-1, *kept))
        np.add.at(out.reshape((*shape[: len(indices)], *kept)), indices, bar)
    else:
        np.add.at(out, indices, bar)
    return out


def _lead(indices: TracedArrays, mapped: Sequence[bool], size: int) -> list[Array]:
    """Index arrays for a batch: each gets the batch axis in front, and a first index counts along the batch."""
    ndim = max(i.ndim - m for i, m in zip(indices, mapped, strict=True))
    shape = (size, *indices[mapped.index(True)].shape[1:]) if any(mapped) else (size, *indices[0].shape)
    full = [i if m else np.broadcast_to(i, shape) for i, m in zip(indices, mapped, strict=True)]
    rows = np.broadcast_to(apply(iota, size=size).reshape((size, *(1,) * ndim)), shape)
    return [rows, *full]


def _gather_batch(args: TracedArrays, mapped: Sequence[bool], size: int) -> list[object]:
    x, *indices = args
    if not mapped[0]:
        return [apply(gather, x, *all_mapped(indices, mapped[1:], size))]
    if any(mapped[1:]):
        return [apply(gather, x, *_lead(indices, mapped[1:], size))]
    k, n = len(indices), indices[0].ndim
    behind = transpose_call(x, (*range(1, k + 1), 0, *range(k + 1, x.ndim)))
    out = apply(gather, behind, *indices)
    return [transpose_call(out, (n, *range(n), *range(n + 1, out.ndim)))]


def _scatter_batch(args: TracedArrays, mapped: Sequence[bool], size: int, *, shape: Shape) -> list[object]:
    bar, *indices = args
    if any(mapped[1:]):
        return [apply(scatter_add, *all_mapped([bar], mapped[:1], size), *_lead(indices, mapped[1:], size), shape=(size, *shape))]
    k, n = len(indices), indices[0].ndim
    behind = transpose_call(bar, (*range(1, n + 1), 0, *range(n + 1, bar.ndim)))
    out = apply(scatter_add, behind, *indices, shape=(*shape[:k], size, *shape[k:]))
    return [transpose_call(out, (k, *range(k), *range(k + 1, out.ndim)))]


def _gather_sample(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return rng.normal(size=(4, 3, 2)), rng.integers(-4, 4, (2, 3)), rng.integers(-3, 3, (2, 3))


def _scatter_sample(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return rng.normal(size=(5, 2)), rng.integers(-3, 3, 5)


# gather(x, i, j)[...] = x[i[...], j[...]]: indices of one shape, for the leading axes of x.
gather = multilinear(
    "gather", _gathered, lambda bar, args: [apply(scatter_add, bar, *args[1:], shape=args[0].shape)],
    evaluate=lambda x, *indices: x[indices], batch=_gather_batch,
    structure=Structure(
        structural=True, selects=True, put=lambda parent, new, *indices: apply(PRIMITIVES["scatter_set"], parent, new, *indices),
        sizeless=True, terms=term_rules.gathered,
    ),
    lowering=Lowering(KernelRule(Kind.GATHER), eager=EagerRule(scalar_rule=READS_ENTRY), rewrites=(gather_of_counters,)),
    samples=(Sample(_gather_sample),),
)
scatter_add = multilinear(
    "scatter_add", _scattered, lambda bar, args, shape: [apply(gather, bar, *args[1:])], evaluate=_scatter, batch=_scatter_batch,
    structure=Structure(structural=True, sizeless=True, terms=term_rules.scattered_sum), lowering=Lowering(KernelRule(Kind.SCATTER_ADD)),
    samples=(Sample(_scatter_sample, {"shape": (3, 2)}),),
)
_COUNTING = Rules(lambda *, size: (ArrayType((size,), INT),), lambda *, size: np.arange(size))
_FOUR = Sample(lambda rng: (), {"size": 4})
iota = register(Primitive("iota", "leaf", _COUNTING, lowering=Lowering(KernelRule(Kind.IOTA)), samples=(_FOUR,)))


def _set_type(x: ArrayType, values: ArrayType, *indices: ArrayType) -> tuple[ArrayType, ...]:
    return (x,)


def _store(x: np.ndarray, values: np.ndarray, *indices: np.ndarray) -> np.ndarray:
    x[indices] = values
    return x


def _set_transposes(bar: TracedArray, args: TracedArrays) -> list[object]:
    x, values, *indices = args
    part = apply(gather, bar, *indices)
    mine = _last_store_mask(x, indices)
    if mine is not None:
        mine = mine.reshape((*mine.shape, *(1,) * (values.ndim - mine.ndim)))
        part = np.where(mine, part, np.zeros((), part.dtype))
    return [apply(scatter_set, bar, np.zeros(values.shape, bar.dtype), *indices), part]


def _last_store_mask(x: TracedArray, indices: TracedArrays) -> TracedArray | None:
    """Mask of the values that were not overwritten by a later store to the same entry; None if all indices differ."""
    if all(i.size == 1 for i in indices):
        return None
    if len(indices) == 1 and indices[0].ndim == 1 and _is_window(indices[0]):
        return None
    constants = [k for i in indices if (k := constant_value(i)) is not None]
    shape = x.shape[: len(indices)]
    if len(constants) == len(indices):
        flat = np.ravel_multi_index(
            [np.where(k < 0, k + n, k) for k, n in zip(constants, shape, strict=True)], shape
        )
        if distinct(flat).size == flat.size:
            return None
    count = indices[0].size
    rank = np.reshape(apply(iota, size=count), indices[0].shape)
    winner = apply(scatter_set, np.zeros(shape, INT), rank, *indices)
    return apply(gather, winner, *indices) == rank


def _is_window(index: TracedArray) -> bool:
    return index.home.builder.nodes[index.id].primitive is PRIMITIVES["window_indices"]


def _set_batch(args: TracedArrays, mapped: Sequence[bool], size: int) -> list[object]:
    indices = args[2:]
    full = [
        a if m else apply(spread, a, shape=(size, *a.shape))
        for a, m in zip(args[:2], mapped[:2], strict=True)
    ]
    return [apply(scatter_set, *full, *_lead(indices, mapped[2:], size))]


scatter_set = multilinear(
    "scatter_set", _set_type, _set_transposes, evaluate=lambda x, *stored: _store(np.array(x), *stored), batch=_set_batch,
    overwrite=_store,
    structure=Structure(structural=True, selects=True, layout=LayoutRule("update"), provenance=through_scatter, terms=term_rules.scattered),
    lowering=Lowering(KernelRule(Kind.SCATTER_SET)),
    samples=(
        Sample(lambda rng: (rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), np.array([2, -4]))),
        Sample(lambda rng: (rng.normal(size=(4, 2)), rng.normal(size=(3, 2)), np.array([2, 0, -2]))),
    ),
)

"""Ops that move entries and compute nothing: reshape, transpose, broadcast, slice, and the update of a slice.

All are linear. The transpose of a broadcast is a sum over the stretched axes; the transpose of a slice (`slice`) puts the
entries back among zeros (`unslice`), and ``update(x, part)`` is `x` with a slice replaced by `part`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, Shape
from ...facets import EagerRule, LayoutRule, Lowering, Structure
from ...kernel_rule import KernelRule, Kind
from ...primitive import Sample
from ...tape import Params, Types
from ...trace import Array, TracedArray, apply
from ...trace.load_forwarding import forward_load, forward_store, join_reshapes
from ...trace.provenance import through_broadcast, through_reshape, through_slice, through_update
from .. import late_term_rules as terms
from ..entrywise.broadcasting import all_mapped, unbroadcast
from ..entrywise.families import linear, multilinear
from ..rewrites.shape_rewrites import (
    one_broadcast,
    one_reshape,
    one_transpose,
    transpose_before_reshape,
)
from . import axis_maps


def _to_scalar(params: Params, operand_types: tuple[Types, ...], types: Types) -> Callable[[Array], object] | None:
    """A scalar out of an array of one entry, where `numpy.reshape` gives an array without axes; else the method."""
    if operand_types[0][0].shape == (1,) and not types[0].shape:
        return operator.itemgetter(0)
    return operator.methodcaller("reshape", types[0].shape)


reshape = linear(
    "reshape",
    lambda x, *, shape: (ArrayType(shape, x.dtype),),
    lambda bar, src, *, shape: apply(reshape, bar, shape=src.shape),
    evaluate=lambda x, *, shape: np.reshape(x, shape),
    batch=lambda x, *, shape: apply(reshape, x, shape=(x.shape[0], *shape)),
    structure=Structure(
        structural=True, moves=True, axis_map=axis_maps.reshaped, terms=terms.reshaped, sizeless=True, view=True,
        put=lambda parent, new, *, shape: apply(reshape, new, shape=parent.shape), layout=LayoutRule("view", may_copy=True),
        provenance=through_reshape,
    ),
    lowering=Lowering(KernelRule(Kind.RESHAPE), shorten=join_reshapes, rewrites=(one_reshape,), eager=EagerRule(specialise=_to_scalar)),
    samples=(Sample(lambda rng: (rng.normal(size=(2, 3)),), {"shape": (3, 1, 2)}),),
)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


transpose = linear(
    "transpose",
    lambda x, *, axes: (ArrayType(tuple(x.shape[a] for a in axes), x.dtype),),
    lambda bar, src, *, axes: apply(transpose, bar, axes=_inverse(axes)),
    evaluate=lambda x, *, axes: np.transpose(x, axes),
    batch=lambda x, *, axes: apply(transpose, x, axes=(0, *(a + 1 for a in axes))),
    structure=Structure(
        structural=True, moves=True, axis_map=axis_maps.transposed, terms=terms.transposed, sizeless=True, view=True,
        put=lambda parent, new, *, axes: apply(transpose, new, axes=_inverse(axes)),
        layout=LayoutRule("view", leaves_c_order=True),
    ),
    lowering=Lowering(KernelRule(Kind.TRANSPOSE), rewrites=(one_transpose, transpose_before_reshape)),
    samples=(Sample(lambda rng: (rng.normal(size=(2, 3, 4)),), {"axes": (2, 0, 1)}),),
)
spread = linear(
    "broadcast_to",
    lambda x, *, shape: (ArrayType(shape, x.dtype),),
    lambda bar, src, *, shape: unbroadcast(bar, src.shape),
    evaluate=lambda x, *, shape: np.broadcast_to(x, shape),
    batch=lambda x, *, shape: apply(
        spread, x.reshape((x.shape[0], *(1,) * (len(shape) - x.ndim + 1), *x.shape[1:])), shape=(x.shape[0], *shape)
    ),
    structure=Structure(
        structural=True, moves=True, axis_map=axis_maps.broadcast, sizeless=True, view=True,
        layout=LayoutRule("view", leaves_c_order=True), terms=partial(terms.signed, signs=(1,)), provenance=through_broadcast,
    ),
    lowering=Lowering(KernelRule(Kind.BROADCAST), folds=False, rewrites=(one_broadcast,)),
    samples=(Sample(lambda rng: (rng.normal(size=(3, 1)),), {"shape": (2, 3, 4)}),),
)
Ints = tuple[int, ...]


@lru_cache(maxsize=1 << 12)
def slices(starts: Ints, sizes: Ints, steps: Ints) -> tuple[slice, ...]:
    """Python slices that read `sizes` entries from `starts` by `steps` (negative ones too)."""
    ends = (a + n * s for a, n, s in zip(starts, sizes, steps, strict=True))
    return tuple(
        slice(a, None if e < 0 else e, s) if n else slice(0, 0) for a, e, s, n in zip(starts, ends, steps, sizes, strict=True)
    )


def _unslice(bar: np.ndarray, *, starts: Ints, steps: Ints, shape: Shape) -> np.ndarray:
    out = np.zeros(shape, np.asarray(bar).dtype)
    out[slices(starts, np.shape(bar), steps)] = bar
    return out


def _of_unit_steps(params: Params, operand_types: tuple[Types, ...], types: Types) -> Callable[[Array], object] | None:
    """A slice by steps of 1 as a key that is made once."""
    named = dict(params)
    if any(step != 1 for step in named["steps"]):
        return None
    bounds = zip(named["starts"], named["sizes"], strict=True)
    return operator.itemgetter(tuple([slice(a, a + n) for a, n in bounds]))


_SLICES = (
    {"starts": (1, 0), "sizes": (2, 4), "steps": (2, 1)},
    {"starts": (4, 3), "sizes": (5, 2), "steps": (-1, -2)},
)
slice_ = linear(
    "slice", lambda x, *, starts, sizes, steps: (ArrayType(sizes, x.dtype),),
    lambda bar, src, *, starts, sizes, steps: apply(unslice, bar, starts=starts, steps=steps, shape=src.shape),
    evaluate=lambda x, *, starts, sizes, steps: x[slices(starts, sizes, steps)],
    batch=lambda x, *, starts, sizes, steps: apply(slice_, x, starts=(0, *starts), sizes=(x.shape[0], *sizes), steps=(1, *steps)),
    structure=Structure(
        structural=True, selects=True, moves=True, axis_map=axis_maps.sliced, terms=terms.sliced, sizeless=True, view=True,
        put=lambda parent, new, *, starts, sizes, steps: apply(update, parent, new, starts=starts, steps=steps),
        layout=LayoutRule("view"), provenance=through_slice,
    ),
    lowering=Lowering(KernelRule(Kind.SLICE), shorten=forward_load, eager=EagerRule(specialise=_of_unit_steps)),
    samples=tuple(Sample(lambda rng: (rng.normal(size=(5, 4)),), params) for params in _SLICES),
)
unslice = linear(
    "unslice",
    lambda x, *, starts, steps, shape: (ArrayType(shape, x.dtype),),
    lambda bar, src, *, starts, steps, shape: apply(slice_, bar, starts=starts, sizes=src.shape, steps=steps),
    evaluate=_unslice,
    batch=lambda x, *, starts, steps, shape: apply(
        unslice, x, starts=(0, *starts), steps=(1, *steps), shape=(x.shape[0], *shape)
    ),
    structure=Structure(structural=True, moves=True, axis_map=axis_maps.unsliced, terms=terms.unsliced, sizeless=True),
    lowering=Lowering(KernelRule(Kind.UNSLICE)),
    samples=(Sample(lambda rng: (rng.normal(size=(2, 2)),), {"starts": (1, 3), "steps": (2, -2), "shape": (5, 4)}),),
)


def _updated(x: ArrayType, part: ArrayType, *, starts: Ints, steps: Ints) -> tuple[ArrayType, ...]:
    return (x,)


def _store(x: np.ndarray, part: np.ndarray, *, starts: Ints, steps: Ints) -> np.ndarray:
    x[slices(starts, np.shape(part), steps)] = part
    return x


def _update_bars(bar: TracedArray, args: Sequence[TracedArray], **at: Ints) -> Sequence[object]:
    nothing = np.zeros(args[1].shape, bar.dtype)
    return [apply(update, bar, nothing, **at), apply(slice_, bar, sizes=args[1].shape, **at)]


def _update_batch(args: Sequence[TracedArray], mapped: Sequence[bool], size: int, *, starts: Ints, steps: Ints) -> list[object]:
    return [apply(update, *all_mapped(args, mapped, size), starts=(0, *starts), steps=(1, *steps))]


# update(x, part) is x with `part` in the entries that a slice names.
update = multilinear(
    "update", _updated, _update_bars, evaluate=lambda x, part, **at: _store(np.array(x), part, **at), batch=_update_batch, overwrite=_store,
    second_alone=lambda part, x, **at: apply(unslice, part, shape=x.shape, **at),
    structure=Structure(
        structural=True, selects=True, moves=True, axis_map=axis_maps.updated, terms=terms.updated, layout=LayoutRule("update"),
        provenance=through_update,
    ),
    lowering=Lowering(KernelRule(Kind.UPDATE), shorten=forward_store),
    samples=(Sample(lambda rng: (rng.normal(size=(5, 4)), rng.normal(size=(2, 2))), {"starts": (1, 3), "steps": (2, -2)}),),
)  # fmt: skip

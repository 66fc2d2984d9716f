"""Functions of the user as ops: their code is not traced, it runs on numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, broadcast
from ...errors import InputError, message
from ...facets import Lowering, Rules, Structure
from ...kernel_rule import KernelRule
from ...primitive import Primitive
from ...trace import TracedArray, apply
from ..entrywise.broadcasting import align
from ..entrywise.families import kind_of
from ..shapes import axis_maps

TypeRule = Callable[..., ArrayType]


def opaque(
    name: str,
    function: Callable[..., object],
    type_of: TypeRule,
    *,
    entrywise: bool,
    kernel: KernelRule | None,
    sparsity: Callable[..., Sequence[np.ndarray | None]] | None,
) -> Primitive:
    """The record of a function that returns one array, of the type that ``type_of(*types)`` gives.

    An `entrywise` one broadcasts, as a ufunc does. Derivatives come from the rules around it
    (`functional/rules/primitives.py`).
    """

    def evaluate(*args: np.ndarray) -> object:
        """The function's result, which must have the declared type."""
        expected = type_of(*[ArrayType(np.shape(a), np.asarray(a).dtype) for a in args])
        result = np.asarray(function(*args))
        castable = np.can_cast(result.dtype, expected.dtype, "same_kind")
        if result.shape != expected.shape or not castable:
            fact = f"the function returned an array of dtype {result.dtype} and shape {result.shape}; {expected} was told."
            raise InputError(message(name, fact, "Correct `like`, or what the function returns."))
        return result.astype(expected.dtype, order="C")[()]

    def batch(args: Sequence[TracedArray], mapped: Sequence[bool], size: int) -> list[object]:
        if entrywise:
            return [apply(op, *align(args, mapped))]
        pairs = list(zip(args, mapped, strict=True))
        return [np.stack([apply(op, *(x[k] if m else x for x, m in pairs)) for k in range(size)])]

    op = Primitive(
        name, "elementwise" if entrywise else "opaque",
        Rules(lambda *types: (type_of(*types),), evaluate, batch=batch),
        Structure(axis_map=axis_maps.entrywise if entrywise else None, sparsity=sparsity),
        Lowering(kernel), transient=True,
    )
    return op


def entrywise_type(*types: ArrayType) -> ArrayType:
    """The type of what acts entry by entry: shapes broadcast, integers become floats."""
    dtype = np.result_type(np.float32, *[t.dtype for t in types])
    return ArrayType(
        broadcast(*[t.shape for t in types]),
        dtype if any(t.floating for t in types) else np.dtype(float),
    )


def common_dtype(args: Sequence[object]) -> np.dtype:
    """The dtype in which numbers and arrays are computed with entry by entry, as by a ufunc."""
    kinds = [k() if isinstance(k, type) else k for k in map(kind_of, args)]
    if not any(isinstance(k, np.dtype) and k.kind in "fc" for k in kinds):
        kinds.append(np.dtype(float))
    return np.result_type(np.float32, *kinds)

"""Calls of a function of the user as one op: its code is not traced, it runs on numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arraytype import ArrayType, broadcast
from ..errors import InputError, message
from ..primitive import Primitive
from ..trace import TracedArray, apply
from .families import align


class OpaqueFunction:
    """A function of arrays that returns one array, of the type that ``type_of(*types)`` gives.

    An `entrywise` function broadcasts, as a ufunc does.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        type_of: Callable[..., ArrayType],
        name: str,
        *,
        entrywise: bool,
    ) -> None:
        self.function, self.type_of, self.name, self.entrywise = function, type_of, name, entrywise

    def __repr__(self) -> str:
        return self.name

    def run(self, *args: np.ndarray) -> np.ndarray:
        """What the function returns, which must be of the type that was told."""
        types = [ArrayType(np.shape(a), np.asarray(a).dtype) for a in args]
        expected = self.type_of(*types)
        found = np.asarray(self.function(*args))
        if found.shape != expected.shape or not np.can_cast(
            found.dtype, expected.dtype, "same_kind"
        ):
            fact = f"the function returned an array of dtype {found.dtype} and shape {found.shape}; {expected} was told."
            raise InputError(
                message(self.name, fact, "Correct `like`, or what the function returns.")
            )
        return found.astype(expected.dtype)[()]


def _infer(*types: ArrayType, function: OpaqueFunction) -> tuple[ArrayType, ...]:
    return (function.type_of(*types),)


def _evaluate(*args: np.ndarray, function: OpaqueFunction) -> object:
    return function.run(*args)


def _batch(
    args: Sequence[TracedArray], mapped: Sequence[bool], size: int, *, function: OpaqueFunction
) -> list[object]:
    if function.entrywise:
        return [apply(opaque, *align(args, mapped), function=function)]
    rows = [
        apply(
            opaque,
            *(x[k] if m else x for x, m in zip(args, mapped, strict=True)),
            function=function,
        )
        for k in range(size)
    ]
    return [np.stack(rows)]


# Derivatives are those of the rules around it (`functional/primitives.py`).
opaque = Primitive("opaque", _infer, _evaluate, None, None, _batch, None, "opaque")


def entrywise_type(*types: ArrayType) -> ArrayType:
    """The type of what acts entry by entry: shapes broadcast, integers become floats."""
    dtype = np.result_type(np.float32, *[t.dtype for t in types])
    return ArrayType(
        broadcast(*[t.shape for t in types]),
        dtype if any(t.floating for t in types) else np.dtype(float),
    )

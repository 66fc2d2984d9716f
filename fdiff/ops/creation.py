"""Functions that NumPy does not hand to its protocols, answered for while `f` is traced."""

from __future__ import annotations

import numpy as np

from ..primitive import ANSWERS
from ..trace import TracedArray, answers, assemble
from .shaping import traced


def _holds_traced(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_traced(v) for v in value)
    return isinstance(value, TracedArray) or (isinstance(value, np.ndarray) and value.dtype == object)


def _joined(value: object) -> TracedArray:
    """A traced array from nested sequences of traced arrays and numbers."""
    if isinstance(value, (list, tuple)):
        return np.stack([_joined(v) for v in value])  # type: ignore[call-overload,return-value]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return assemble(value)  # type: ignore[return-value]
    return traced(value)


@answers(np.array)
def array(value: object, dtype: object = None, **keywords: object) -> object:
    """``np.array`` that takes traced values anywhere in its argument."""
    if not _holds_traced(value):
        return np.array(value, dtype, **keywords)  # type: ignore[call-overload]
    out = _joined(value)
    ndmin: int = keywords.get("ndmin", 0)  # type: ignore[assignment]
    if out.ndim < ndmin:
        out = out.reshape((*(1,) * (ndmin - out.ndim), *out.shape))
    out = TracedArray(out.home, out.id, out.type)  # never a scalar, never weak
    return out if dtype is None else out.astype(dtype)


def _like_asarray(function: object) -> object:
    def convert(a: object, dtype: object = None, *args: object, **keywords: object) -> object:
        return array(a, dtype) if _holds_traced(a) else function(a, dtype, *args, **keywords)  # type: ignore[operator]

    return convert


def _class_of(x: TracedArray) -> type:
    """The class of what `x` stands for."""
    if x.scalar or x.weak:
        return float if x.weak and x.dtype == np.float64 else x.dtype.type
    return np.ndarray


@answers(isinstance)
def is_instance(value: object, kinds: type | tuple[type, ...]) -> bool:
    """``isinstance`` that answers for the array a traced array stands for."""
    return issubclass(_class_of(value), kinds) if isinstance(value, TracedArray) else isinstance(value, kinds)


@answers(np.isscalar)
def is_scalar(value: object) -> bool:
    """``np.isscalar`` of the same kind."""
    return value.scalar or value.weak if isinstance(value, TracedArray) else np.isscalar(value)


for _function in (np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray):
    answers(_function)(_like_asarray(_function))


def answer(value: object) -> object:
    """What a private copy of a function finds in place of `value`."""
    found = ANSWERS.get(id(value))
    return value if found is None else found[1]

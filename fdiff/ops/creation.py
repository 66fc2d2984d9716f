"""Functions that NumPy does not hand to its protocols, answered for while `f` is traced."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import BuiltinFunctionType, FunctionType

import numpy as np

from ..primitive import ANSWERS, LATE, met
from ..trace import TracedArray, answers, assemble
from ..trace.local import holds_traced, localised, resolve
from ..trace.views import memory_axes
from .foreign import guarded, of_scipy
from .shaping import traced


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
    if not holds_traced(value):
        return localised(np.array(value, dtype, **keywords), (value,))  # type: ignore[call-overload]
    given = resolve(value)
    out = _joined(given)
    ndmin: int = keywords.get("ndmin", 0)  # type: ignore[assignment]
    if keywords.get("copy", True) is not True and given is out and out.ndim >= ndmin:
        return out if dtype is None else out.astype(dtype, copy=False)
    if out.ndim < ndmin:
        out = out.reshape((*(1,) * (ndmin - out.ndim), *out.shape))
    out = TracedArray(out.home, out.id, out.type)  # never a scalar, never weak
    return out if dtype is None else out.astype(dtype)


def _like_asarray(function: Callable[..., object], ndim: int, order: str) -> Callable[..., object]:
    """A converter that gives an array itself, and so an alias, where it need not convert."""

    def convert(a: object, dtype: object = None, *args: object, **keywords: object) -> object:
        if not holds_traced(a):
            out = function(a, dtype, *args, **keywords)
            if (
                isinstance(a, np.ndarray)
                and (out.dtype, out.shape, out.strides) == (a.dtype, a.shape, a.strides)
                and np.may_share_memory(out, a)
            ):
                return a
            return localised(out, (a,))
        given = resolve(a)
        if not isinstance(given, TracedArray) or given.scalar or given.weak or given.ndim < ndim:
            return array(given, dtype, ndmin=ndim)
        axes = memory_axes(given) if order and given.ndim > 1 else []
        if axes != sorted(axes, reverse=order == "F"):
            given = given.copy(order)
        return given if dtype is None else given.astype(dtype, copy=False)

    return convert


def _class_of(x: TracedArray) -> type:
    """The class of what `x` stands for."""
    if x.scalar or x.weak:
        return float if x.weak and x.dtype == np.float64 else x.dtype.type
    return np.ndarray


@answers(isinstance)
def is_instance(value: object, kinds: type | tuple[type, ...]) -> bool:
    """``isinstance`` that answers for the array a traced array stands for."""
    value = resolve(value)
    return (
        issubclass(_class_of(value), kinds)
        if isinstance(value, TracedArray)
        else isinstance(value, kinds)
    )


@answers(np.isscalar)
def is_scalar(value: object) -> bool:
    """``np.isscalar`` of the same kind."""
    return value.scalar or value.weak if isinstance(value, TracedArray) else np.isscalar(value)


for _function, _ndim, _order in (
    (np.asarray, 0, ""), (np.asanyarray, 0, ""), (np.ascontiguousarray, 1, "C"), (np.asfortranarray, 0, "F"),
):  # fmt: skip
    answers(_function)(_like_asarray(_function, _ndim, _order))

_FUNCTIONS = (FunctionType, BuiltinFunctionType, type(np.sum))
_making: dict[int, tuple[object, Callable[..., object]]] = {}


def answer(value: object) -> object:
    """What a private copy of a function finds in place of `value`."""
    found = ANSWERS.get(id(value))
    if LATE:  # sparse matrices reach `f` in ways that no private copy sees
        met("scipy.sparse")
    if found is None and of_scipy(value):
        met()
        found = ANSWERS.get(id(value), (value, guarded(value)))
    if found is not None:
        return found[1]
    return _noticed(value) if _of_numpy(value) else value


def _of_numpy(value: object) -> bool:
    return isinstance(value, _FUNCTIONS) and (value.__module__ or "").partition(".")[0] == "numpy"


def _noticed(function: object) -> object:
    """A function of NumPy whose results notice what is stored into them."""
    known = _making.get(id(function))
    if known is None:
        call: Callable[..., object] = function  # type: ignore[assignment]

        @wraps(call)
        def make(*args: object, **keywords: object) -> object:
            return localised(call(*args, **keywords), args)

        known = _making[id(function)] = function, make
    return known[1]

"""Functions that make arrays of nested sequences (`numpy.array`, `asarray`, ...) or walk over their entries.

NumPy hands these to no protocol, so private copies of the user's functions find these instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import fdiff.intact_numpy as np

from ...foreign_errors import wraps
from ...trace import TracedArray, assemble, current, replaces
from ...trace.handler_arguments import resolve
from ...trace.local_arrays import LocalArray, holds_traced, localised
from ...trace.traced_keys import TracedKey
from .shaping import in_order, traced


def _stacked(value: object) -> object:
    """A traced array from nested sequences of traced arrays and numbers."""
    if isinstance(value, (list, tuple)):
        return np.stack([_stacked(v) for v in value])
    if isinstance(value, np.ndarray) and value.dtype == object:
        return assemble(value, current())
    return traced(value)


@replaces(np.array)
def array(value: object, dtype: object = None, **keywords: object) -> object:
    """``np.array`` that takes traced values anywhere in its argument."""
    if not holds_traced(value):
        # NumPy answers order="A" otherwise for subclasses.
        own = np.ndarray.view(value, np.ndarray) if isinstance(value, LocalArray) else value
        return localised(np.array(own, dtype, **keywords), (value,))
    resolved = resolve(value)
    resolved = traced(resolved) if isinstance(resolved, TracedArray) else resolved
    out = _stacked(resolved)
    ndmin, copy = cast("int", keywords.get("ndmin", 0)), keywords.get("copy", True)
    if resolved is not out or out.scalar or out.weak or dtype not in (None, out.dtype):
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        out, copy = TracedArray(out.home, out.id, out.type).astype(dtype or out.dtype), None
    out = in_order(out, keywords.get("order"), copy=copy)
    return out if out.ndim >= ndmin else out.reshape((*(1,) * (ndmin - out.ndim), *out.shape))


def _like_asarray(function: Callable[..., object], ndim: int, order: str) -> Callable[..., object]:
    """A converter that returns the given array itself (an alias) where nothing has to be converted."""

    def convert(a: object, dtype: object = None, *args: object, **keywords: object) -> object:
        if not holds_traced(a):
            out = function(a, dtype, *args, **keywords)
            if (
                (isinstance(a, (LocalArray, np.memmap)) or (isinstance(a, np.ndarray) and type(out) is type(a)))
                and (out.dtype, out.shape, out.strides) == (a.dtype, a.shape, a.strides)
                and np.may_share_memory(out, a)
            ):
                return a
            return localised(out, (a,))
        wanted = order or (args[0] if args else keywords.get("order"))
        copy = keywords.get("copy")
        return array(a, dtype, copy=copy, order=wanted, ndmin=ndim)

    return convert


@replaces(np.isscalar)
def is_scalar(value: object) -> bool:
    """``np.isscalar`` of what a traced array stands for."""
    return value.scalar or value.weak if isinstance(value, TracedArray) else np.isscalar(value)


@replaces(np.ndenumerate)
def ndenumerate(arr: object) -> Iterator[tuple[tuple[int, ...], object]]:
    """Positions and entries, in C order."""
    x = resolve(arr)
    if not isinstance(x, TracedArray):
        return np.ndenumerate(arr)
    return ((place, x[place]) for place in np.ndindex(x.shape))


def _of_memory(function: Callable[..., object], way_out: str) -> None:
    """Register a function that reads memory, which a traced array does not have: it raises for one."""

    @wraps(function)
    def walk(*args: object, **keywords: object) -> object:
        if holds_traced(args) or any(isinstance(a, TracedKey) for a in args):
            fact = f"numpy.{function.__name__} was given a traced array, whose entries lie nowhere in memory."
            raise current().fail(fact, way_out)
        return localised(function(*args, **keywords), args)

    replaces(function)(walk)


_of_memory(np.nditer, "Use numpy.ndenumerate, or loop over numpy.ndindex(x.shape).")
_of_memory(np.frombuffer, "Use the array itself, or `.reshape` and `.view`.")

for _function, _ndim, _order in (
    (np.asarray, 0, ""), (np.asanyarray, 0, ""), (np.ascontiguousarray, 1, "C"), (np.asfortranarray, 0, "F"),
):  # fmt: skip
    replaces(_function)(_like_asarray(_function, _ndim, _order))

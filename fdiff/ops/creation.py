"""Functions that NumPy does not hand to its protocols, answered for while `f` is traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from ..primitive import LAZY_TABLES, REPLACEMENTS, load_tables
from ..trace import TracedArray, assemble, current, replaces
from ..trace.local_arrays import Local, holds_traced, localised, resolve
from ..trace.traced_keys import TracedKey
from .shaping import in_order, traced
from .third_party_functions import concrete_only, is_scipy_function


def _joined(value: object) -> TracedArray:
    """A traced array from nested sequences of traced arrays and numbers."""
    if isinstance(value, (list, tuple)):
        return np.stack([_joined(v) for v in value])
    if isinstance(value, np.ndarray) and value.dtype == object:
        return assemble(value)
    return traced(value)


@replaces(np.array)
def array(value: object, dtype: object = None, **keywords: object) -> object:
    """``np.array`` that takes traced values anywhere in its argument."""
    if not holds_traced(value):
        # NumPy answers order="A" otherwise for subclasses.
        own = np.ndarray.view(value, np.ndarray) if isinstance(value, Local) else value
        return localised(np.array(own, dtype, **keywords), (value,))
    given = resolve(value)
    out = _joined(given)
    ndmin: int = keywords.get("ndmin", 0)
    copy: bool | None = keywords.get("copy", True)
    if given is not out or out.scalar or out.weak or dtype not in (None, out.dtype):
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        out, copy = TracedArray(out.home, out.id, out.type).astype(dtype or out.dtype), None
    out = in_order(out, keywords.get("order"), copy=copy)
    return out if out.ndim >= ndmin else out.reshape((*(1,) * (ndmin - out.ndim), *out.shape))


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
        wanted = order or (args[0] if args else keywords.get("order"))
        copy = keywords.get("copy")
        return array(a, dtype, copy=copy, order=wanted, ndmin=ndim)

    return convert


def _class_of(x: TracedArray) -> type:
    """The class of what `x` stands for."""
    if x.scalar or x.weak:
        return float if x.weak and x.dtype == np.float64 else x.dtype.type
    return np.ndarray


@replaces(isinstance)
def is_instance(value: object, kinds: type | tuple[type, ...]) -> bool:
    """``isinstance`` that answers for the array a traced array stands for."""
    value = resolve(value)
    return (
        issubclass(_class_of(value), kinds)
        if isinstance(value, TracedArray)
        else isinstance(value, kinds)
    )


def class_of(value: object) -> type:
    """The class of what `value` stands for, as the function knows it: ``type(1.0) is float``."""
    given = resolve(value)
    kind = type(given)
    if isinstance(given, TracedArray):
        kind = _class_of(given)
    elif isinstance(given, Local):
        kind = np.ndarray
    elif kind.__module__.startswith("fdiff."):  # stands for a class, a dict, a ufunc
        kind = type if isinstance(given, type) else getattr(kind, "_fdiff_kind", given.__class__)
    return REPLACEMENTS.get(id(kind), (kind, kind))[1]


class _TypeMeta(type):
    """Of the class that stands for `type`: instances and subclasses are those of `type`."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, type) if cls is Type else super().__instancecheck__(value)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, type) if cls is Type else super().__subclasscheck__(kind)

    def __eq__(cls, other: object) -> bool:
        return other is cls or (cls is Type and other is type)

    def __hash__(cls) -> int:
        return hash(type) if cls is Type else super().__hash__()

    def __call__(cls, *args: Any, **keywords: Any) -> object:
        if cls is not Type:
            return super().__call__(*args, **keywords)
        return class_of(*args) if len(args) == 1 and not keywords else type(*args, **keywords)


class Type(type, metaclass=_TypeMeta):
    """Stands for `type`, which sees through to what traced and tracked arrays stand for."""


replaces(type)(Type)


@replaces(hasattr)
def has_attribute(value: object, name: str) -> bool:
    """``hasattr`` of the same kind: a scalar has no ``__len__``, by which it is often told."""
    value = resolve(value)
    return hasattr(_class_of(value) if isinstance(value, TracedArray) else value, name)


@replaces(np.isscalar)
def is_scalar(value: object) -> bool:
    """``np.isscalar`` of the same kind."""
    return value.scalar or value.weak if isinstance(value, TracedArray) else np.isscalar(value)


@replaces(np.ndenumerate)
def ndenumerate(arr: object) -> Iterator[tuple[tuple[int, ...], object]]:
    """Places and entries, in C order."""
    x = resolve(arr)
    if not isinstance(x, TracedArray):
        return np.ndenumerate(arr)
    return ((place, x[place]) for place in np.ndindex(x.shape))


def _of_memory(function: Callable[..., object], way_out: str) -> None:
    """A function that walks over memory, of which a traced array has none."""

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

_FUNCTIONS = (FunctionType, BuiltinFunctionType, type(np.sum))
_making: dict[int, tuple[object, Callable[..., object]]] = {}


def replacement_of(value: object) -> object:
    """What a private copy of a function finds in place of `value`."""
    found = REPLACEMENTS.get(id(value))
    if LAZY_TABLES:  # objects reach `f` in ways that no private copy sees
        load_tables("scipy.sparse", "scipy.stats", "scipy.interpolate")
    if found is None and is_scipy_function(value):
        load_tables()
        found = REPLACEMENTS.get(id(value), (value, concrete_only(value)))
    if found is not None:
        return found[1]
    return _noticed(value) if _of_numpy(value) else value


def _of_numpy(value: object) -> bool:
    return isinstance(value, _FUNCTIONS) and (value.__module__ or "").partition(".")[0] == "numpy"


def _noticed(function: object) -> object:
    """A function of NumPy whose results notice what is stored into them."""
    known = _making.get(id(function))
    if known is None:
        call: Callable[..., object] = function

        @wraps(call)
        def make(*args: object, **keywords: object) -> object:
            return localised(call(*args, **keywords), args)

        known = _making[id(function)] = function, make
    return known[1]


# What `np.empty` holds is anything: zeros, so that equal programs have equal tapes.
for _function, _filled in ((np.empty, np.zeros), (np.empty_like, np.zeros_like)):
    replaces(_function)(_noticed(_filled))

"""Replacements for Python's own `float`, `int`, `type`, `isinstance`, `hasattr` and `hash`, which see through traced values.

A traced array stands for an array or a number; the user's code must find it to be one.
"""

from __future__ import annotations

import builtins

import fdiff.intact_numpy as np

from ..arraytype import INT, python_type
from ..capture.symbolic_numbers import SymbolicNumber
from ..capture.value_kinds import module_name
from ..primitive import REPLACEMENTS
from ..trace import TracedArray, current, replaces
from ..trace.concrete_values import whole
from ..trace.handler_arguments import resolve
from ..trace.local_arrays import LocalArray, TracedLocalArray
from ..trace.traced_keys import Text, TracedKey, is_made_of_value

_OF_PYTHON = np.dtype(float), INT


def _class_of(x: TracedArray) -> type:
    """The class of what `x` stands for."""
    if x.scalar or x.weak:
        python = x.weak and x.dtype in _OF_PYTHON
        return python_type(x.dtype) if python else x.dtype.type
    return np.ndarray


@replaces(isinstance)
def is_instance(value: object, kinds: type | tuple[type, ...]) -> bool:
    """``isinstance`` that answers for the array a traced array stands for."""
    value = resolve(value)
    if isinstance(value, TracedArray):
        return issubclass(_class_of(value), kinds)
    stands_for_another = module_name(type(value)).startswith("fdiff.capture.")
    return issubclass(class_of(value), kinds) if stands_for_another else isinstance(value, kinds)


def class_of(value: object) -> object:
    """The class of what `value` stands for, as the user's function knows it: ``type(1.0) is float``."""
    resolved = resolve(value)
    kind = type(resolved)
    if isinstance(resolved, TracedArray):
        kind = _class_of(resolved)
    elif isinstance(resolved, LocalArray):
        kind = np.ndarray
    elif isinstance(resolved, SymbolicNumber):
        kind = type(resolved.value)
    elif module_name(kind).startswith("fdiff."):  # stands for a class, a dict, a ufunc
        kind = type if isinstance(resolved, type) else getattr(kind, "_fdiff_kind", resolved.__class__)
    return REPLACEMENTS.get(id(kind), (kind, kind))[1]


class _TypeMeta(type):
    """The class of `Type`: what is an instance or subclass of `type` is one of `Type`."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, type) if cls is Type else super().__instancecheck__(value)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, type) if cls is Type else super().__subclasscheck__(kind)

    def __eq__(cls, other: object) -> bool:
        return other is cls or (cls is Type and other is type)

    def __hash__(cls) -> int:
        return hash(type) if cls is Type else super().__hash__()

    def __call__(cls, *args: object, **keywords: object) -> object:
        if cls is not Type:
            return super().__call__(*args, **keywords)
        return class_of(*args) if len(args) == 1 and not keywords else type(*args, **keywords)


class Type(type, metaclass=_TypeMeta):
    """The replacement of `type`, which gives the class that a traced or tracked array stands for."""


replaces(type)(Type)


@replaces(hasattr)
def has_attribute(value: object, name: str) -> bool:
    """``hasattr`` of what a traced array stands for: a scalar has no ``__len__``, for instance."""
    value = resolve(value)
    return hasattr(_class_of(value) if isinstance(value, TracedArray) else value, name)


def number(x: object) -> TracedArray:
    """A Python float that stays traced: what ``float(x)`` and ``x.item()`` give."""
    array = resolve(x)
    assert isinstance(array, TracedArray)
    if array.size != 1 or array.dtype.kind == "c":
        float(np.empty(array.shape, array.dtype))  # raises what NumPy raises
    return array.reshape(()).astype(np.float64).as_python_float()


class _NumberMeta(type):
    """The class of `Int` and `Float`, which stand for `int` and `float`; their subclasses are classes as others."""

    def __instancecheck__(cls, value: object) -> bool:
        kind = vars(cls).get(_KIND)
        return super().__instancecheck__(value) if kind is None else is_instance(value, kind)

    def __subclasscheck__(cls, kind: type) -> bool:
        own = vars(cls).get(_KIND)
        return super().__subclasscheck__(kind) if own is None else issubclass(kind, own)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is vars(cls).get(_KIND, cls)

    def __hash__(cls) -> int:
        return hash(vars(cls)[_KIND]) if _KIND in vars(cls) else super().__hash__()

    def __call__(cls, *args: object, **keywords: object) -> object:
        kind = vars(cls).get(_KIND)
        if kind is None:
            return super().__call__(*args, **keywords)
        if len(args) == 1 and not keywords and isinstance(args[0], (TracedArray, TracedLocalArray)):
            return number(args[0]) if kind is float else whole(resolve(args[0]))
        text = args[0] if args and kind is float and isinstance(args[0], str) else None
        if text is not None and (type(text) is Text or is_made_of_value(text)):
            fact = "a number was read from the text of a traced value, which drops its derivative."
            raise current().fail(fact, "Use numpy.round to round, or fdiff.stop_gradient.")
        return kind(*args, **keywords)


_KIND = "_stands_for"


class Int(int, metaclass=_NumberMeta):
    """The replacement of `int`, which cannot hold a traced value; NumPy takes it for the dtype int64."""

    _stands_for = int
    dtype = INT


class Float(float, metaclass=_NumberMeta):
    """The replacement of `float`, which cannot hold a traced value; NumPy takes it for the dtype float64."""

    __slots__ = ()
    _stands_for = float
    dtype = np.dtype(float)


for _own in (Int, Float):
    _kind = vars(_own)[_KIND]
    _own.__module__, _own.__name__, _own.__qualname__ = "builtins", _kind.__name__, _kind.__name__
    replaces(_kind)(_own)


@replaces(builtins.hash)
def hash_of(value: object) -> object:
    """The replacement of `hash`: the hash of a differentiated value may only be used as a key (`TracedKey`)."""
    digest = hash(value)
    return TracedKey(digest) if _depends(value) else digest


def _depends(value: object) -> bool:
    if isinstance(value, tuple):
        return any(map(_depends, value))
    if isinstance(value, TracedArray):
        trace = current(value)
        return trace.guards.depends(trace.own(value))
    return isinstance(value, TracedKey)

"""NumPy with its functions as NumPy defines them: what all of fdiff calls (see `intact`)."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, TypeVar, cast

import numpy  # noqa: ICN001 - `np` is this module

from .error_state import errstate as _errstate
from .intact import intact

if TYPE_CHECKING:  # for type checkers this module is NumPy
    from numpy import *  # noqa: F403 # pyright: ignore[reportWildcardImportFromLibrary] - see above

_names = {name: value for name, value in vars(intact(numpy)).items() if name[:2] != "__"}
globals().update(_names)

# Classes without a protocol that NumPy would ask.
_PLAIN = frozenset((numpy.ndarray, tuple, type(None), *numpy.ScalarType))
_numpy_functions: dict[object, object] = {}
_Callable = TypeVar("_Callable", bound=Callable[..., object])


def _method(array: numpy.ndarray, name: str, *args: object, **named: object) -> object:
    return getattr(array, name)(*args, **named)


def _calling_a_method(function: object) -> FunctionType | None:
    """The Python code of a NumPy function that calls a method of its array."""
    code = vars(function)["__wrapped__"] if type(function) is type(numpy.sum) else None
    return code if type(code) is FunctionType and "_wrapfunc" in code.__code__.co_names else None


def _without_retry(function: Callable[..., object], numpys: FunctionType) -> Callable[..., object]:
    """A NumPy function that calls a method of its array once.

    NumPy's `_wrapfunc` calls the method of a converted array after each TypeError, which it takes
    for one about a foreign method's arguments, and drops a TypeError that a signal handler raised.
    """
    names = {**numpys.__globals__, "_wrapfunc": _method}
    direct = FunctionType(numpys.__code__, names, numpys.__name__, numpys.__defaults__)
    direct.__kwdefaults__ = numpys.__kwdefaults__

    def call(array: object, *args: object, **named: object) -> object:
        if type(array) is numpy.ndarray or isinstance(array, numpy.generic):
            for argument in (*args, *named.values()) if named else args:
                if type(argument) not in _PLAIN:
                    return function(array, *args, **named)
            return direct(array, *args, **named)
        return function(array, *args, **named)

    call.__name__, call.__qualname__ = numpys.__name__, numpys.__qualname__
    vars(call)["__wrapped__"] = function
    return call


for _name, _function in _names.items():
    if (_numpys := _calling_a_method(_function)) is not None:
        globals()[_name] = _call = _without_retry(_function, _numpys)
        _numpy_functions[_call] = _function
globals()["errstate"] = _errstate


def numpy_function(function: _Callable) -> _Callable:
    """The function that NumPy names where it asks an array for its protocol."""
    return cast("_Callable", _numpy_functions.get(function, function))


def defines_function(name: str) -> builtins.bool:
    """Whether NumPy has a function of a name; without the warnings that it gives for others."""
    return callable(_names.get(name))


def __getattr__(name: str) -> object:
    """Attributes that NumPy imports when they are asked for."""
    value = getattr(numpy, name)
    if isinstance(value, ModuleType):
        globals()[name] = value = intact(value)
    return value

"""NumPy with its functions as NumPy defines them: what all of fdiff calls (see `intact`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, TypeVar, cast

import numpy  # noqa: ICN001 - `np` is this module

from .error_state import errstate as _errstate
from .intact import intact

if TYPE_CHECKING:  # for type checkers this module is NumPy
    from numpy import *  # noqa: F403 # pyright: ignore[reportWildcardImportFromLibrary] - see above

globals().update({name: value for name, value in vars(intact(numpy)).items() if name[:2] != "__"})


_PLAIN = frozenset(
    (numpy.ndarray, tuple, type(None), *numpy.ScalarType)
)  # classes without a protocol
_numpy_functions: dict[object, object] = {}
_Callable = TypeVar("_Callable", bound=Callable[..., object])


def _method(array: numpy.ndarray, name: str, *args: object, **named: object) -> object:
    return getattr(array, name)(*args, **named)


def _without_retry(function: Callable[..., object]) -> Callable[..., object]:
    """A function of NumPy's that calls a method of its array once.

    NumPy's `_wrapfunc` calls the method of a converted array after each TypeError, which it takes
    for one about a foreign method's arguments, and drops a TypeError that a signal handler raised.
    """
    numpys: FunctionType = getattr(function, "__wrapped__")  # noqa: B009 - NumPy's stubs do not name it
    names = {**numpys.__globals__, "_wrapfunc": _method}
    direct = FunctionType(numpys.__code__, names, numpys.__name__, numpys.__defaults__)
    direct.__kwdefaults__ = numpys.__kwdefaults__

    @wraps(function)
    def call(array: object, *args: object, **named: object) -> object:
        if type(array) is numpy.ndarray or isinstance(array, numpy.generic):
            for argument in (*args, *named.values()) if named else args:
                if type(argument) not in _PLAIN:
                    return function(array, *args, **named)
            return direct(array, *args, **named)
        return function(array, *args, **named)

    return call


def _replace_functions_that_retry() -> None:
    for name, function in [*globals().items()]:
        code = getattr(getattr(function, "__wrapped__", None), "__code__", None)
        if name[0] != "_" and code is not None and "_wrapfunc" in code.co_names:
            globals()[name] = call = _without_retry(function)
            _numpy_functions[call] = function


_replace_functions_that_retry()
globals()["errstate"] = _errstate


def numpy_function(function: _Callable) -> _Callable:
    """The function that NumPy names where it asks an array for its protocol."""
    return cast("_Callable", _numpy_functions.get(function, function))


def __getattr__(name: str) -> object:
    """Attributes that NumPy imports when they are asked for."""
    value = getattr(numpy, name)
    if isinstance(value, ModuleType):
        globals()[name] = value = intact(value)
    return value

"""Arguments as handlers take them, and results stored in the arrays given as ``out=``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import CO_VARARGS, Parameter, signature, unwrap
from itertools import takewhile
from operator import is_not
from typing import TYPE_CHECKING, Any, cast, overload

import fdiff.intact_numpy as np

from ..foreign_errors import wraps
from ..hooks import hooks

if TYPE_CHECKING:
    from .traced_array import Operand

_HOLDING = frozenset((list, tuple))


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array or a number."""
    return np.shape(value)


def resolved(args: tuple[object, ...]) -> tuple[object, ...]:
    """Arguments with traced arrays in place of the local arrays that stand for them."""
    for a in args:
        if isinstance(a, np.ndarray) or a.__class__ in _HOLDING:
            return tuple([resolve(a) for a in args])
    return args


@overload
def resolve(value: Operand) -> Operand: ...
@overload
def resolve(value: object) -> object: ...
def resolve(value: object) -> object:
    """The traced array that a local array stands for; lists and tuples with such arrays replaced.

    Any other value is given back as it is.
    """
    if isinstance(value, np.ndarray):
        return getattr(value, "handle", value)
    if (kind := type(value)) in _HOLDING:
        items = cast("Sequence[object]", value)
        parts = [resolve(item) for item in items]
        if any(map(is_not, parts, items)):
            return parts if kind is list else tuple(parts)
    return value


def stored(outs: tuple[object, ...], result: object, where: object, name: str) -> object:
    """The arrays given as ``out=``, after the results have been stored in them."""
    into = hooks.fill_out
    if len(outs) == 1:
        return into(outs[0], result, where, name)
    results = cast("tuple[object, ...]", result)
    return tuple(
        r if out is None else into(out, r, where, name)
        for out, r in zip(outs, results, strict=True)
    )


@lru_cache(maxsize=1024)
def _place_of_out(handler: Callable[..., object]) -> int | None:
    """The position of ``out`` among the arguments of a handler; None if it takes none."""
    names = _names(handler)
    return names.index("out") if "out" in names else None


@lru_cache(maxsize=1024)
def _names(handler: Callable[..., object]) -> tuple[str, ...]:
    """The names of the parameters of a handler."""
    code = getattr(unwrap(handler), "__code__", None)
    if code is None or code.co_flags & CO_VARARGS:
        return tuple(signature(handler).parameters)
    # The same, in a fiftieth of the time.
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


@lru_cache(maxsize=1024)
def _unnamed(function: Callable[..., object], handler: Callable[..., object]) -> tuple[str, ...]:
    """NumPy's names of the first arguments of a function, as far as its handler has others."""
    names = tuple(signature(function).parameters)
    own = signature(handler).parameters
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in own.values()):
        return ()
    return tuple(takewhile(lambda name: name not in own, names))


def positioned(
    function: Callable[..., object],
    handler: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Arguments of a NumPy call; the first ones, which only NumPy names, by position."""
    kwargs = dict(kwargs)
    own = _names(handler)
    if all(name in own for name in kwargs):  # `signature` takes 3 ms the first time
        return args, kwargs
    for name in _unnamed(function, handler)[len(args) :]:
        if name not in kwargs:
            break
        args = (*args, kwargs.pop(name))
    return args, kwargs


def call_with_out(
    handler: Callable[..., object], name: str, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """Call a handler without ``out``, then store the result there."""
    out = kwargs.pop("out", None)
    place = _place_of_out(handler)
    if place is not None and len(args) > place:
        out, args = args[place], (*args[:place], None, *args[place + 1 :])
    if kwargs:
        kwargs = {k: resolve(v) for k, v in kwargs.items()}
    result = handler(*args, **kwargs)
    return result if out is None else stored((out,), result, True, name)


def taking_out(handler: Callable[..., object], name: str) -> Callable[..., object]:
    """The handler as a method of arrays, which stores its result in ``out`` if that is given."""
    place = _place_of_out(handler)
    if place is None:
        return handler

    @wraps(handler)
    def method(self: object, *args: object, **kwargs: object) -> object:
        if len(args) < place and "out" not in kwargs:
            return handler(self, *args, **kwargs)
        return call_with_out(handler, name, (self, *resolved(args)), kwargs)

    return method

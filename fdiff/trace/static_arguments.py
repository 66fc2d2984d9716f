"""Arguments that are part of a program: shapes, axes, counts and places must be Python integers.

Where `f` takes one out of an array of integers, ``np.tile(x, counts[2])``, it is a traced value. It
is looked at before the handler runs, which pins it: a change of the array is a new trace.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import TypeVar, cast

import fdiff.intact_numpy as np

from ..foreign_errors import wraps
from .handler_arguments import resolve
from .traced_array import TracedArray, guarded_value

Handler = TypeVar("Handler", bound=Callable[..., object])
Convert = Callable[[np.ndarray, bool], object]

# Parameters of functions of NumPy and SciPy. Other ones that hold integers are data.
NAMES = frozenset(
    [
        "axes", "axis", "axis1", "axis2", "axisa", "axisb", "axisc", "decimals", "deg",
        "destination", "dims", "indices_or_sections", "k", "kth", "minlength", "n", "N",
        "new_shape", "newshape", "num", "obj", "offset", "origin", "pad_width", "repeats", "reps",
        "s", "shape", "shift", "size", "source", "stat_length",
    ]
)  # fmt: skip
_PLAIN = frozenset((int, str, bool, type(None)))
MOST = 64  # axes of an array, which is how many arguments there are to ``x.reshape(2, 3, ...)``


def settled(value: object) -> object:
    """A value with concrete integers and truth values in place of traced ones, as NumPy has them.

    In lists, tuples and slices too. What is traced of another kind stays.
    """
    return _looked_at(value, lambda array, scalar: array[()] if scalar else array)


def whole(value: object) -> object:
    """As `settled`, but with Python integers, and a TypeError for other numbers."""
    return _looked_at(value, lambda array, _: array if array.ndim else array.item(), strict=True)


def _looked_at(value: object, convert: Convert, *, strict: bool = False) -> object:
    value = resolve(value)
    if isinstance(value, TracedArray):
        if not value.type.floating:
            action = "took a shape, an axis, a count or a place out of an array"
            return convert(guarded_value(value, action), value.scalar)
        if strict:
            raise TypeError("an array of real numbers cannot be interpreted as an integer")
    elif type(value) is list or type(value) is tuple:
        items = cast("list[object]", value)
        return type(value)([_looked_at(item, convert, strict=strict) for item in items])
    elif type(value) is slice:
        ends = value.start, value.stop, value.step
        return slice(*[_looked_at(end, convert) for end in ends])
    return value


@lru_cache(maxsize=1024)
def static_arguments(handler: Callable[..., object]) -> frozenset[int | str]:
    """Positions and names of the arguments of a handler that are part of a program.

    Parameters that its attribute `data` names are none.
    """
    # `inspect.signature` takes fifty times as long
    code: CodeType | None = getattr(inspect.unwrap(handler), "__code__", None)
    if code is None:  # of a ufunc
        return frozenset()
    positional, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    parameters = code.co_varnames[:named]
    data = getattr(handler, "data", None)
    names = NAMES if data is None else NAMES.difference(data)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        static: set[int | str] = {*names}
    else:
        static = {*names.intersection(parameters)}
    static |= {k for k, name in enumerate(parameters[:positional]) if name in names}
    if code.co_flags & inspect.CO_VARARGS and code.co_varnames[named] in names:
        static |= {*range(positional, MOST)}
    return frozenset(static)


def looking(handler: Handler, look: Callable[[object], object] = whole) -> Handler:
    """The handler, with static arguments looked at."""
    static = static_arguments(handler)
    places = sorted(k for k in static if isinstance(k, int))

    @wraps(handler)
    def call(*args: object, **keywords: object) -> object:
        for k in places:
            if k >= len(args):
                break
            if args[k].__class__ not in _PLAIN:
                args = (*args[:k], look(args[k]), *args[k + 1 :])
        for name, value in keywords.items():
            if value.__class__ not in _PLAIN and name in static:
                keywords[name] = look(value)
        return handler(*args, **keywords)

    return cast("Handler", call) if static else handler

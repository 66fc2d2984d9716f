"""Replacements of objects in private copies of a user's function, as they are registered."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType

import fdiff.intact_numpy as np

from ..foreign_errors import wraps
from ..primitive import LAZY_TABLES, REPLACEMENTS, load_tables
from ..trace import replaces
from ..trace.local_arrays import localised
from ..trace.static_arguments import settled
from .scipy_functions import concrete_only, is_scipy_function
from .shapes.list_arguments import taking_lists

_FUNCTIONS = (FunctionType, BuiltinFunctionType, type(np.sum))
_making: dict[int, tuple[object, Callable[..., object]]] = {}


def replacement_of(value: object) -> object:
    """What a private copy of a function finds in place of `value`: its replacement, or the value itself."""
    entry = REPLACEMENTS.get(id(value))
    if LAZY_TABLES:  # objects of these modules may be reached through attributes, which no private copy sees
        load_tables("scipy.sparse", "scipy.stats", "scipy.interpolate")
    if entry is None and is_scipy_function(value):
        load_tables()
        entry = REPLACEMENTS.get(id(value), (value, concrete_only(value)))
    elif entry is None and _of_numpy(value):
        listed = taking_lists(value)
        entry = REPLACEMENTS.get(id(value))
        if entry is None and listed is not None:
            replaces(value)(listed)
            entry = REPLACEMENTS[id(value)]
    if entry is not None:
        return entry[1]
    return _noticed(value) if _of_numpy(value) and not isinstance(value, np.ufunc) else value


def _of_numpy(value: object) -> bool:
    if isinstance(value, np.ufunc):
        return getattr(np, value.__name__, None) is value
    if not isinstance(value, _FUNCTIONS) and type(value).__name__ != "cython_function_or_method":
        return False
    return (value.__module__ or "").partition(".")[0] == "numpy"


def _noticed(function: Callable[..., object]) -> object:
    """A NumPy function without a rule: it gets concrete integers, and a store into its result is noticed."""
    entry = _making.get(id(function))
    if entry is None:
        @wraps(function)
        def make(*args: object, **keywords: object) -> object:
            args = tuple(map(settled, args))
            return localised(function(*args, **{name: settled(v) for name, v in keywords.items()}), args)

        entry = _making[id(function)] = function, make
    return entry[1]


# The contents of `np.empty` are arbitrary: zeros here, so that equal programs have equal tapes.
for _function, _filled in ((np.empty, np.zeros), (np.empty_like, np.zeros_like)):
    replaces(_function)(_noticed(_filled))

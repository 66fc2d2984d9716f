"""NumPy functions called with lists and tuples of traced values, as in ``np.mean([x[0], x[1]])``.

NumPy hands a list to no protocol. Private copies of the user's functions find these wrappers instead of NumPy's
functions: a list that holds traced values becomes an array, and everything else goes to NumPy as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

import fdiff.intact_numpy as np

from ...foreign_errors import hiding, wraps
from ...primitive import FUNCTIONS, UFUNCS, handler_of
from ...trace import TracedArray
from ...trace.local_arrays import holds_traced, localised
from ...trace.static_arguments import static_arguments
from ...trace.traced_array import call_with_out
from .creation import array

# Functions of lists of arrays; NumPy hands such a call to its protocol if one of the arrays is traced.
OF_ARRAYS = {
    np.concatenate, np.stack, np.hstack, np.vstack, np.dstack, np.column_stack, np.select, np.lexsort, np.linalg.multi_dot,
    np.numpy_function(np.choose), np.histogramdd, np.piecewise,
}  # fmt: skip
# `numpy.block` reads nested lists itself; the others write into an array, which is never a list.
LEFT_ALONE = {np.block, np.copyto, np.put, np.putmask, np.place, np.fill_diagonal, np.put_along_axis}


def list_to_array(value: object) -> object:
    """A list or tuple that holds traced numbers becomes one array; anything else stays as it is."""
    return array(value) if isinstance(value, (list, tuple)) and holds_traced(value) else value


def _lists_to_arrays(value: object) -> object:
    """A list of arrays, each of which may be a list of traced numbers itself."""
    if isinstance(value, (list, tuple)) and holds_traced(value):
        return [array(v) if isinstance(v, (list, tuple)) or (holds_traced(v) and not isinstance(v, TracedArray)) else v for v in value]
    return value


def accepting_lists(function: Callable[..., object], convert: Callable[[object], object]) -> Callable[..., object]:
    """`function`, with arrays in place of lists of traced values, but for shapes and axes."""
    static = static_arguments(handler_of(function) or function)

    @wraps(function)
    def call(*args: object, **keywords: object) -> object:
        for v in (*args, *keywords.values()):
            if type(v) in (list, tuple):
                return with_lists(args, keywords)
        return localised(function(*args, **keywords))

    def with_lists(args: tuple[object, ...], keywords: dict[str, object]) -> object:
        if not args and function in OF_ARRAYS and (first := next(iter(signature(function).parameters))) in keywords:
            args, keywords = (keywords[first],), {k: v for k, v in keywords.items() if k != first}
        args = tuple([a if k in static else convert(a) for k, a in enumerate(args)])
        keywords = {k: v if k in static else convert(v) for k, v in keywords.items()}
        if function in OF_ARRAYS and args and type(args[0]) is list and holds_traced(args[0]):
            return call_with_out(FUNCTIONS[function], function.__name__, args, keywords)
        return localised(function(*args, **keywords))

    return call


class ListUfunc:
    """A ufunc that also takes lists of traced values; in all else it is the ufunc."""

    __slots__ = ("_ufunc",)

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc

    @property
    @hiding
    def __class__(self) -> type:  # type: ignore[override] - none sets it
        return np.ufunc

    def __call__(self, *args: object, **keywords: object) -> object:
        for a in args:
            if type(a) in (list, tuple):
                return self._ufunc(*map(list_to_array, args), **keywords)
        return self._ufunc(*args, **keywords)

    @hiding
    def __getattr__(self, name: str) -> object:
        if name in ("reduce", "accumulate", "outer", "reduceat"):
            method = getattr(self._ufunc, name)
            return lambda *args, **keywords: method(*map(list_to_array, args), **keywords)
        return getattr(self._ufunc, name)

    def __repr__(self) -> str:
        return repr(self._ufunc)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._ufunc

    def __hash__(self) -> int:
        return hash(self._ufunc)


def taking_lists(function: Callable[..., object]) -> object | None:
    """A registered function or ufunc of NumPy that also takes lists; None of a function that is not registered."""
    if isinstance(function, np.ufunc):
        return ListUfunc(function) if function in UFUNCS else None
    if handler_of(function) is None or function in LEFT_ALONE:
        return None
    return accepting_lists(function, _lists_to_arrays if function in OF_ARRAYS else list_to_array)

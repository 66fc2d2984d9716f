"""Functions of NumPy called with lists and tuples of traced values.

A list is no array, so NumPy hands ``np.mean([x[0], x[1]])`` to no protocol. Private copies find these
functions in place of NumPy's: lists that hold traced values are made arrays, all else is NumPy's.
"""

# What is wrapped here must have been registered: imported for that alone.
# pyright: reportUnusedImport=false

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ..primitive import FUNCTIONS, REPLACEMENTS, UFUNCS
from ..trace import TracedArray, replaces
from ..trace.local_arrays import holds_traced, localised
from ..trace.traced_array import call_with_out
from . import (  # noqa: F401 - as said above
    composite_functions,
    contraction,
    cumulative,
    data_dependent_shapes,
    decompositions,
    fourier,
    higher_order_functions,
    histograms,
    index_functions,
    indexing,
    joining_and_splitting,
    linalg,
    padding,
    polynomial_families,
    polynomials,
    reductions,
    sampled_functions,
    sorting,
    statistics,
)
from .creation import array

# Their lists are lists of arrays, which NumPy hands over if one of them is traced.
OF_ARRAYS = {
    np.concatenate, np.stack, np.hstack, np.vstack, np.dstack, np.column_stack, np.select, np.lexsort, np.choose, np.linalg.multi_dot,
    np.histogramdd, np.piecewise,
}  # fmt: skip
# Nested lists, which their handlers read themselves.
NESTED = {np.block}


def list_to_array(value: object) -> object:
    """A list or tuple that holds traced numbers as one array; anything else as it is."""
    if isinstance(value, (list, tuple)) and holds_traced(value) and _floating(value):
        return array(value)
    return value


def _floating(value: object) -> bool:
    """Whether something in nested lists is floating: lists of integers alone are shapes and axes."""
    if isinstance(value, (list, tuple)):
        return any(map(_floating, value))
    return isinstance(value, float) or getattr(getattr(value, "dtype", None), "kind", "") in ("f", "c")


def _lists_to_arrays(value: object) -> object:
    """A list of arrays, each of which may be a list itself."""
    if isinstance(value, (list, tuple)) and holds_traced(value):
        return [array(v) if isinstance(v, (list, tuple)) or (holds_traced(v) and not isinstance(v, TracedArray)) else v for v in value]
    return value


def accepting_lists(function: Callable[..., object], convert: Callable[[object], object]) -> Callable[..., object]:
    """`function` for which lists of traced values are arrays."""

    @functools.wraps(function)
    def call(*args: object, **keywords: object) -> object:
        for v in (*args, *keywords.values()):
            if type(v) in (list, tuple):
                return with_lists(args, keywords)
        return localised(function(*args, **keywords))

    def with_lists(args: tuple[object, ...], keywords: dict[str, object]) -> object:
        args = tuple([convert(a) for a in args])
        keywords = {k: convert(v) for k, v in keywords.items()}
        if function in OF_ARRAYS and type(args[0]) is list and holds_traced(args[0]):
            return call_with_out(FUNCTIONS[function], function.__name__, args, keywords)
        return localised(function(*args, **keywords))

    return call


class ListUfunc:
    """Stands for a ufunc: a call takes lists of traced values, all else is the ufunc's own."""

    __slots__ = ("_ufunc",)

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc

    @property
    def __class__(self) -> type:  # type: ignore[override] - none sets it
        return np.ufunc

    def __call__(self, *args: object, **keywords: object) -> object:
        for a in args:
            if type(a) in (list, tuple):
                return self._ufunc(*map(list_to_array, args), **keywords)
        return self._ufunc(*args, **keywords)

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


for _function in list(FUNCTIONS):
    if id(_function) not in REPLACEMENTS and _function not in NESTED:
        replaces(_function)(accepting_lists(_function, _lists_to_arrays if _function in OF_ARRAYS else list_to_array))
for _ufunc in list(UFUNCS):
    if id(_ufunc) not in REPLACEMENTS:
        replaces(_ufunc)(ListUfunc(_ufunc))

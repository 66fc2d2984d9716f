"""Assertions of `numpy.testing` in differentiated functions: they hold as in plain code, by a guard.

What NumPy compares is compared on the tape. Where an assertion fails, the values at hand are given
to NumPy's function, which raises its own error.
"""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np

from ..trace import Array, TracedArray, guarded_value
from .scipy_functions import replaces_if_traced


def _value(x: object) -> object:
    if not isinstance(x, TracedArray):
        return x
    array = guarded_value(x, "numpy.testing")
    return array[()] if x.scalar else array


def _assert(holds: object, function: Callable[..., object], x: object, y: object, *args: object, **options: object) -> None:
    """Nothing if `holds`, or else the error of NumPy's `function`."""
    if not holds:
        function(_value(x), _value(y), *args, **options)


@replaces_if_traced(np.testing.assert_allclose)
def assert_allclose(
    actual: Array, desired: Array, rtol: float = 1e-7, atol: float = 0, equal_nan: bool = True, *args: object, **options: object
) -> None:
    holds = np.all(np.isclose(actual, desired, rtol=rtol, atol=atol, equal_nan=equal_nan))
    _assert(holds, np.testing.assert_allclose, actual, desired, rtol, atol, equal_nan, *args, **options)


def _equality(function: Callable[..., object]) -> None:
    @replaces_if_traced(function)
    def check(actual: Array, desired: Array, *args: object, **options: object) -> None:
        same = np.equal(actual, desired) | (np.isnan(actual) & np.isnan(desired))
        holds = np.shape(actual) in (np.shape(desired), ()) and np.all(same)
        _assert(holds, function, actual, desired, *args, **options)


@replaces_if_traced(np.testing.assert_array_less)
def assert_array_less(x: Array, y: Array, *args: object, **options: object) -> None:
    _assert(np.all(np.less(x, y)), np.testing.assert_array_less, x, y, *args, **options)


def _closeness(function: Callable[..., object], digits: int) -> None:
    @replaces_if_traced(function)
    def check(actual: Array, desired: Array, decimal: int = digits, *args: object, **options: object) -> None:
        holds = np.all(np.abs(np.subtract(desired, actual)) < 1.5 * 10.0**-decimal)
        _assert(holds, function, actual, desired, decimal, *args, **options)


_equality(np.testing.assert_array_equal)
_equality(np.testing.assert_equal)
_closeness(np.testing.assert_array_almost_equal, 6)
_closeness(np.testing.assert_almost_equal, 7)

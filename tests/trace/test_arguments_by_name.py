"""Calls with NumPy's names of the first arguments, and calls without a rule that are caught."""

import os
from inspect import signature

import numpy as np
import pytest

import fdiff
from fdiff.errors import UnsupportedError

X = np.arange(1.0, 13.0).reshape(3, 4)
PAIR = np.arange(1.0, 4.0)
OF_AN_ARRAY = [
    "ravel", "transpose", "squeeze", "copy", "zeros_like", "ones_like", "real", "imag", "cumsum",
    "cumprod", "sum", "prod", "max", "min", "mean", "var", "std", "ptp", "average", "diagonal",
    "trace", "diag", "size",
]  # fmt: skip
MORE = {
    "take": {"indices": 1},
    "repeat": {"repeats": 2},
    "tile": {"reps": 2},
    "roll": {"shift": 1},
    "swapaxes": {"axis1": 0, "axis2": 1},
    "moveaxis": {"source": 0, "destination": 1},
    "expand_dims": {"axis": 0},
    "broadcast_to": {"shape": (2, 3, 4)},
    "append": {"values": 1.0},
    "take_along_axis": {"indices": np.array([[0]]), "axis": 0},
    "split": {"indices_or_sections": 3},
    "full_like": {"fill_value": 2.0},
}


@pytest.fixture(autouse=True)
def one_tier(monkeypatch):
    """Both functions have one tape: another tier may run it later, and add in another order."""
    monkeypatch.setenv("FDIFF_TIER", "interpret")


def same_gradient(by_name, by_place, point):
    """Sums of sines of what both return have one gradient."""

    def summed(function):
        def total(x):
            value = function(x)
            parts = value if isinstance(value, list) else [value]
            return np.sum(x) + np.sum(np.sin(np.concatenate([np.ravel(part) for part in parts])))

        return fdiff.grad(total)(point)

    np.testing.assert_array_equal(summed(by_name), summed(by_place))


@pytest.mark.parametrize("name", [*OF_AN_ARRAY, *MORE])
def test_the_first_argument_by_name(name):
    function, more = getattr(np, name), MORE.get(name, {})
    first = next(iter(signature(function).parameters))
    same_gradient(
        lambda x: function(**{first: x * x}, **more), lambda x: function(x * x, **more), X
    )


@pytest.mark.parametrize("name", ["dot", "outer", "kron", "tensordot", "array_equal"])
def test_both_arguments_by_name(name):
    function, more = getattr(np, name), {"axes": 1} if name == "tensordot" else {}
    first, second, *_ = signature(function).parameters
    same_gradient(
        lambda x: function(**{second: 2.0 * x, first: x}, **more),
        lambda x: function(x, 2.0 * x, **more),
        PAIR,
    )
    same_gradient(
        lambda x: function(x, **{second: 2.0 * x}, **more),
        lambda x: function(x, 2.0 * x, **more),
        PAIR,
    )


@pytest.mark.parametrize("name", ["stack", "vstack", "hstack", "dstack", "column_stack"])
def test_a_list_of_arrays_by_name(name):
    function = getattr(np, name)
    first = next(iter(signature(function).parameters))
    same_gradient(lambda x: function(**{first: [x, x * x]}), lambda x: function([x, x * x]), PAIR)


def test_a_call_by_name_in_a_try():
    """It was a TypeError, which the user's code caught: the result was another one."""

    def f(x):
        try:
            return np.sum(np.take(a=X * x[0], indices=1, axis=0))
        except Exception:  # noqa: BLE001 - what users write
            return 0.0

    np.testing.assert_array_equal(fdiff.grad(f)(PAIR), [X[1].sum(), 0.0, 0.0])


def test_a_function_without_a_rule_is_an_error_where_it_is_caught():
    """Plain code does not meet the error, and goes another way."""

    def f(x):
        try:
            np.savetxt(os.devnull, x)
        except Exception:  # noqa: BLE001 - what users write
            return 7.0 * x[0]
        return x[1]

    with pytest.raises(UnsupportedError, match=r"numpy\.savetxt has no derivative rule"):
        fdiff.grad(f)(PAIR)

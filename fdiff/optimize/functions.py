"""Functions that call the user's: of the variables alone, or of several of his functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import fdiff.intact_numpy as np

Function = Callable[..., Any]


def calling(function: Function) -> Function:
    """Mark a function of ours that calls the user's: traces then treat it as the user's own."""
    function.__fdiff_decorator__ = True  # type: ignore[attr-defined] - functions have attributes
    return function


def with_arguments(f: Function, args: tuple[object, ...]) -> Function:
    """A function of the variables alone."""
    if not args:
        return f

    @calling
    @wraps(f)
    def at(x: object) -> Any:
        return f(x, *args)

    return at


def lagrangian_of(f: Function, g: Function | None) -> Function:
    """The Lagrangian, as solvers weight it."""

    @calling
    def lagrangian(x: object, multipliers: Any, objective_factor: Any) -> Any:
        weighted = objective_factor * np.sum(f(x))
        return weighted if g is None else weighted + np.sum(multipliers * np.ravel(g(x)))

    return lagrangian


def weighted_sum(g: Function) -> Function:
    """The sum of constraints, each times a weight."""

    @calling
    def weighted(x: object, weights: Any) -> Any:
        return np.sum(weights * np.ravel(g(x)))

    return weighted


def raveled(f: Function) -> Function:
    """A function whose result is a vector."""

    @calling
    @wraps(f)
    def flat(x: object) -> Any:
        return np.ravel(f(x))

    return flat


def weighted_by(f: Function, sigma: Any) -> Function:
    """Residuals divided by standard deviations."""
    if sigma is None:
        return f
    deviations = np.asarray(sigma, np.float64)

    @calling
    @wraps(f)
    def weighted(x: object) -> Any:
        return f(x) / deviations

    return weighted


def packed(f: Function) -> Function:
    """A curve whose parameters are one vector, which comes first."""

    @calling
    @wraps(f)
    def curve(parameters: Any, x: object) -> Any:
        return f(x, *parameters)

    del vars(curve)["__wrapped__"]  # whose arguments are others
    return curve

"""Functions that call the user's: of the variables alone, or of several functions."""

from __future__ import annotations

import fdiff.intact_numpy as np

from ..foreign_errors import update_wrapper
from ..hooks import Function


def calling(function: Function, f: Function | None = None) -> Function:
    """Mark a function of ours that calls the user's: traces then treat it as the user's own.

    In messages it has the name of `f`.
    """
    vars(function)["__fdiff_decorator__"] = True
    return function if f is None else update_wrapper(function, f)


def with_arguments(f: Function, args: tuple[object, ...]) -> Function:
    """A function of the variables alone."""
    return calling(lambda x: f(x, *args), f) if args else f


def raveled(f: Function) -> Function:
    """A function whose result is a vector."""
    return calling(lambda x: np.ravel(f(x)), f)


def divided(f: Function, deviations: np.ndarray | None) -> Function:
    """Residuals divided by standard deviations."""
    return f if deviations is None else calling(lambda x: f(x) / deviations, f)


def packed(f: Function) -> Function:
    """A curve whose parameters are one vector, which comes first."""
    curve = calling(lambda parameters, x: f(x, *parameters), f)
    del vars(curve)["__wrapped__"]  # whose arguments are others
    return curve


def weighted_sum(g: Function) -> Function:
    """The sum of constraints, each times a weight."""

    def weighted(x: object, weights: object) -> object:
        return np.sum(weights * np.ravel(g(x)))

    return calling(weighted)


def lagrangian_of(f: Function, g: Function | None) -> Function:
    """The Lagrangian, as solvers weight it."""

    def lagrangian(x: object, multipliers: object, objective_factor: object) -> object:
        weighted = objective_factor * np.sum(f(x))
        return weighted if g is None else weighted + np.sum(multipliers * np.ravel(g(x)))

    return calling(lagrangian)

"""Vectors, bounds and limits that users give, checked."""

from __future__ import annotations

from typing import Any

import fdiff.intact_numpy as np

from ..errors import InputError, failure, shown
from ..foreign_errors import not_foreign

BOUNDS_WAY = "Write bounds=scipy.optimize.Bounds(lower, upper), or a list of pairs (lower, upper)."


def vector(value: object, role: str, call: str, size: int | None = None) -> np.ndarray:
    """A vector of float64, of this size if one is given; integers are converted."""
    try:
        array = np.asarray(value)
    except not_foreign(ValueError):  # a ragged list
        array = np.asarray(None)
    if array.dtype.kind not in "fiub" or array.ndim != 1 or not array.size:
        what = f"shape {array.shape} and dtype {array.dtype}"
        fact = f"{role} must be a vector of real numbers, and has {what}."
        way = (
            f"Pass {role}.ravel(), and reshape it inside of the function." if array.ndim > 1 else ""
        )
        raise failure(InputError, call, fact, way or f"Write {role}=[1.0, 2.0], for two variables.")
    if size is not None and array.size != size:
        what = "variables" if role == "x" else "constraints"
        fact = f"{role} has {array.size} entries, and there are {size} {what}."
        raise failure(InputError, call, fact, "Call compile(x0) again for another size.")
    return np.array(array, np.float64)


def limits(
    lower: object, upper: object, size: int, names: tuple[str, str], call: str
) -> np.ndarray:
    """Lower and upper limits as two rows; None means that there is none."""
    rows = np.empty((2, size))
    for row, limit, name, free in zip(rows, (lower, upper), names, (-np.inf, np.inf), strict=True):
        try:
            row[:] = free if limit is None else np.asarray(limit, np.float64)
        except not_foreign(TypeError, ValueError):
            fact = f"{name} must be a number or {size} numbers, and is {shown(limit)}."
            raise failure(InputError, call, fact, "Write -np.inf or np.inf for no limit.") from None
    wrong = np.flatnonzero(~(rows[0] <= rows[1]))
    if wrong.size:
        k = int(wrong[0])
        fact = f"{names[0]}[{k}] = {rows[0, k]} is not below {names[1]}[{k}] = {rows[1, k]}."
        raise failure(InputError, call, fact, "Give equal limits for an equation.")
    return rows


def deviations(sigma: object, call: str) -> np.ndarray | None:
    """Standard deviations, none of which may be 0, or a matrix of covariances."""
    if sigma is None:
        return None
    entries = np.asarray(sigma, np.float64)
    if entries.ndim < 2 and (zeros := np.flatnonzero(entries == 0)).size:
        fact = f"sigma[{zeros[0]}] is 0, and residuals are divided by sigma."
        way = "Leave sigma out where all points weigh the same, or the points that are exact."
        raise failure(InputError, call, fact, way)
    return entries


def bounds_of(bounds: Any, size: int, call: str) -> np.ndarray:
    """Bounds of the variables as two rows, from what SciPy takes: `Bounds`, or pairs."""
    if bounds is None:
        return limits(None, None, size, ("lower", "upper"), call)
    if hasattr(bounds, "lb"):
        return limits(bounds.lb, bounds.ub, size, ("bounds.lb", "bounds.ub"), call)
    try:
        pairs = [
            (-np.inf if low is None else float(low), np.inf if high is None else float(high))
            for low, high in bounds
        ]
    except not_foreign(TypeError, ValueError):
        fact = f"bounds must be pairs of numbers, and are {shown(bounds)}."
        raise failure(InputError, call, fact, BOUNDS_WAY) from None
    if len(pairs) != size:
        fact = f"there are {len(pairs)} pairs of bounds for {size} variables."
        raise failure(InputError, call, fact, BOUNDS_WAY)
    lower, upper = zip(*pairs, strict=True)
    return limits(lower, upper, size, ("lower bound", "upper bound"), call)

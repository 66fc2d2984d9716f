"""Rosenbrock's function and its gradient in `scipy.optimize`: the first function that many differentiate.

H. H. Rosenbrock, "An automatic method for finding the greatest or least value of a function", Computer J. 3, pages 175-184, 1960.
"""

from __future__ import annotations

import fdiff.intact_numpy as np
from fdiff.intact_scipy import optimize as so

from ...trace import Array, TracedArray
from ..scipy_functions import replaces_if_traced
from ..shapes.shaping import floating


@replaces_if_traced(so.rosen)
def rosen(x: object) -> TracedArray:
    points = floating(x)
    return np.sum(100.0 * (points[1:] - points[:-1] ** 2) ** 2 + (1 - points[:-1]) ** 2, axis=0)


@replaces_if_traced(so.rosen_der)
def rosen_der(x: object) -> Array:
    points = floating(x)
    offset = points[1:] - points[:-1] ** 2
    first = -400.0 * offset * points[:-1] - 2.0 * (1 - points[:-1])
    gap = np.zeros_like(points[:1])
    return np.concatenate([first, gap]) + np.concatenate([gap, 200.0 * offset])

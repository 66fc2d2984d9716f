"""`RegularGridInterpolator`, `interpn`: splines are tensor products (C. de Boor, A Practical Guide to Splines, 2001, chapter XVII)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import fdiff.intact_numpy as np
from fdiff.intact_scipy import interpolate as sp

from ...arraytype import broadcast_all
from ...primitive import LIBRARY_OBJECTS
from ...trace import Array, Operand, TracedArray, unsupported
from ...trace.handler_arguments import resolve
from ..scipy_functions import patch_method, replace_class, replaces_if_traced
from ..shapes.creation import array as array_call
from ..shapes.shaping import traced
from .spline_formulas import basis
from .splines import increasing, numbers, real

NAME = "scipy.interpolate.RegularGridInterpolator"


class TracedGridInterpolator:
    """The traced counterpart of a `RegularGridInterpolator`."""

    def __init__(
        self, points: Sequence[object], values: object, method: str = "linear", bounds_error: bool = True, fill_value: object = np.nan,
        **solver: object,
    ) -> None:
        if solver:
            raise unsupported(f"{NAME} with solver=")
        self.grid, self.values = tuple(real(p) for p in points), numbers(values)
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        self.spline: object = None
        if fill_value is not None and traced(fill_value).dtype.kind == "c" and self.values.dtype.kind != "c":
            raise ValueError("fill_value must be either 'None' or of a type compatible with values")
        for p, n in zip(self.grid, self.values.shape, strict=False):
            increasing(p)
            if len(p) != n:
                raise ValueError(f"There are {len(p)} points and {n} values on dimension {self.grid.index(p)}")

    def __call__(self, xi: object, method: str | None = None, *, nu: object = None) -> Array:
        method = self.method if method is None else method
        if nu is not None:
            raise unsupported(f"{NAME} with nu=")
        places = _places(xi, len(self.grid))
        flat = places.reshape((-1, places.shape[-1]))
        columns = [flat[:, k] for k in range(len(self.grid))]
        inside = [(p[0] <= x) & (x <= p[-1]) for p, x in zip(self.grid, columns, strict=True)]
        if self.bounds_error:
            for k, held in enumerate(inside):
                if not bool(np.all(held)):
                    raise ValueError(f"One of the requested xi is out of bounds in dimension {k}")
        out = self._inside(columns, method)
        width = (-1, *(1,) * (out.ndim - 1))
        if not self.bounds_error and self.fill_value is not None:
            out = np.where(np.logical_and.reduce(inside).reshape(width), out, self.fill_value)
        out = np.where(np.any(np.isnan(flat), axis=-1).reshape(width), np.nan, out)
        return out.reshape((*places.shape[:-1], *self.values.shape[len(self.grid) :]))

    def _inside(self, columns: Sequence[TracedArray], method: str) -> Operand:
        if method in ("linear", "nearest"):
            return _corners(self.grid, self.values, columns, nearest=method == "nearest")
        if self.spline is None or method != self.method:
            raise unsupported(f"{NAME} with method={method!r} and traced points or values")
        return _tensor(self.spline, columns)


def _places(xi: object, ndim: int) -> TracedArray:
    """Places with their coordinates along the last axis; a tuple holds coordinates."""
    points = resolve(xi)
    if isinstance(points, tuple):
        points = np.stack(broadcast_all(*(traced(x) for x in points)), axis=-1)
    places = real(array_call(points) if isinstance(points, list) else points)
    if places.ndim == 1:
        places = places.reshape((1, -1) if ndim > 1 or places.shape[0] == 1 else (-1, 1))
    if places.shape[-1] != ndim:
        raise ValueError(
            f"The requested sample points xi have dimension {places.shape[-1]} but this RegularGridInterpolator has dimension {ndim}"
        )
    return places


def _corners(grid: Sequence[TracedArray], values: TracedArray, columns: Sequence[TracedArray], *, nearest: bool) -> Operand:
    """Weighted values at the corners of the cell around each place."""
    low = [np.clip(np.searchsorted(p, x, side="right") - 1, 0, len(p) - 2) for p, x in zip(grid, columns, strict=True)]
    far = [(x - p[i]) / (p[i + 1] - p[i]) for p, x, i in zip(grid, columns, low, strict=True)]
    if nearest:
        return values[tuple(np.where(d <= 0.5, i, i + 1) for i, d in zip(low, far, strict=True))]
    out: Operand = 0.0
    rest = (-1, *(1,) * (values.ndim - len(grid)))
    plane = len(grid) == 2 and values.ndim == 2  # SciPy multiplies in another order there
    for corner in itertools.product((0, 1), repeat=len(grid)):
        weights = [(d if upper else 1 - d).reshape(rest) for d, upper in zip(far, corner, strict=True)]
        term = values[tuple(i + upper for i, upper in zip(low, corner, strict=True))]
        if plane:
            term = term * weights[0] * weights[1]
        else:
            weight: Operand = 1.0
            for w in weights:
                weight = weight * w
            term = term * weight
        out = out + term
    return out


def _tensor(spline: sp.NdBSpline, columns: Sequence[TracedArray]) -> Operand:
    """A tensor product of B-splines."""
    parts = []
    for t, k, x in zip(spline.t, spline.k, columns, strict=True):
        at, h = basis(traced(np.asarray(t)), int(k), x, 0, len(t) - int(k) - 1)
        parts.append([(at - int(k) + a, h[a]) for a in range(int(k) + 1)])
    c = traced(np.asarray(spline.c))
    out: Operand = 0.0
    rest = (-1, *(1,) * (c.ndim - len(parts)))
    for combination in itertools.product(*parts):
        weight: Operand = 1.0
        for _, h in combination:
            weight = weight * h
        out = out + c[tuple(i for i, _ in combination)] * np.reshape(weight, rest)
    return out


_regular_grid_interpolator = replace_class(sp.RegularGridInterpolator, TracedGridInterpolator, TracedGridInterpolator)


def _made_before(self: sp.RegularGridInterpolator, xi: object, method: str | None = None, *, nu: object = None) -> Array:
    grid = TracedGridInterpolator(self._grid, np.asarray(self._values), self.method, self.bounds_error, self.fill_value)
    grid.spline = self._spline
    return grid(xi, method, nu=nu)


patch_method(sp.RegularGridInterpolator, "__call__", _made_before)


@replaces_if_traced(sp.interpn)
def interpn(
    points: Sequence[object], values: object, xi: object, method: str = "linear", bounds_error: bool = True, fill_value: object = np.nan
) -> TracedArray:
    """``interpn``: a `RegularGridInterpolator` that is used once."""
    if method == "splinef2d":
        raise unsupported("scipy.interpolate.interpn with method='splinef2d'")
    return _regular_grid_interpolator(points, values, method=method, bounds_error=bounds_error, fill_value=fill_value)(xi)


def _from_attributes(value: object, points: Sequence[object], *others: object) -> TracedGridInterpolator:
    *options, spline = others
    grid = TracedGridInterpolator(points, *options)
    grid.spline = spline
    return grid


_ATTRIBUTES = ("_grid", "_values", "method", "bounds_error", "fill_value", "_spline")
LIBRARY_OBJECTS[sp.RegularGridInterpolator] = _ATTRIBUTES, _from_attributes
if hasattr(sp, "NdBSpline"):
    LIBRARY_OBJECTS[sp.NdBSpline] = (), lambda value: value

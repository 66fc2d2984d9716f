"""`scipy.interpolate.interp1d`, of traced data or at traced points."""

from __future__ import annotations

import numpy as np
from scipy import interpolate as sp

from ...primitive import LIBRARY_OBJECTS
from ...trace import TracedArray, unsupported
from ...trace.out_arguments import resolve
from ..scipy_functions import patch_method, replace_class
from ..shaping import traced
from .splines import make_interp_spline

_Bounds = tuple[object, object]


class TracedInterp1d:
    """The traced counterpart of an `interp1d`; the interpolation axis of `y` is its first."""

    def __init__(self, x: TracedArray, y: TracedArray, axis: int, fill: _Bounds | None, *, refuse: bool, kind: object = 1) -> None:
        self.x, self.y, self.axis, self.kind = x, y, axis, kind
        self.fill, self.refuse = fill, refuse

    def __call__(self, x: object) -> TracedArray:
        new = traced(resolve(x))
        places = new.ravel() if new.type.floating else new.ravel().astype(np.float64)
        self._check(places)
        width = (1,) * (self.y.ndim - 1)
        out = self._inside(places, width)
        if self.fill is not None:
            below, above = ((places < self.x[0]).reshape((-1, *width)), (places > self.x[-1]).reshape((-1, *width)))
            out = np.where(below, self.fill[0], np.where(above, self.fill[1], out))
        out = np.where(np.isnan(places).reshape((-1, *width)), np.nan, out)
        out = out.reshape((*new.shape, *self.y.shape[1:]))
        ahead = range(new.ndim)
        return np.moveaxis(out, tuple(ahead), tuple(self.axis + k for k in ahead))

    def _inside(self, places: TracedArray, width: tuple[int, ...]) -> TracedArray:
        """Values between the points."""
        if self.kind in _STEPS:
            return self.y[_STEPS[self.kind](self.x, places)]
        if self.kind != 1:
            return make_interp_spline(self.x, self.y, k=self.kind)(places)
        found = np.clip(np.searchsorted(self.x, places), 1, len(self.x) - 1)
        low, high = found - 1, found
        step = (places - self.x[low]).reshape((-1, *width))
        slope = (self.y[high] - self.y[low]) / (self.x[high] - self.x[low]).reshape((-1, *width))
        return slope * step + self.y[low]

    def _check(self, places: TracedArray) -> None:
        """Raise SciPy's error for places beyond the ends, if no value was given for these."""
        if not self.refuse:
            return
        if bool(np.any(places < self.x[0])):
            raise ValueError("A value in x_new is below the interpolation range.")
        if bool(np.any(places > self.x[-1])):
            raise ValueError("A value in x_new is above the interpolation range.")


def _step(side: str, ahead: int) -> object:
    """A function of points and places: the number of the point before (or after, if `ahead`) each place."""

    def at(x: TracedArray, places: TracedArray) -> TracedArray:
        return np.clip(np.searchsorted(x, places, side="right" if ahead == 0 else "left") - 1 + ahead, 0, len(x) - 1)

    return at


def _nearest(side: str) -> object:
    """A function of points and places: the number of the nearest point; between two, the lower (or the upper) one."""

    def at(x: TracedArray, places: TracedArray) -> TracedArray:
        half = x / 2.0
        return np.clip(np.searchsorted(half[1:] + half[:-1], places, side=side), 0, len(x) - 1)

    return at


_STEPS = {"previous": _step("right", 0), "next": _step("left", 1), "nearest": _nearest("left"), "nearest-up": _nearest("right")}
_DEGREES = {"linear": 1, "slinear": 1, "quadratic": 2, "cubic": 3}


def _traced_interp1d(
    x: object, y: object, kind: object = "linear", axis: int = -1, copy: bool = True, bounds_error: bool | None = None,
    fill_value: object = np.nan, assume_sorted: bool = False,
) -> TracedInterp1d:  # fmt: skip
    kind = _DEGREES.get(kind, kind) if isinstance(kind, str) else int(kind)
    if kind not in _STEPS and (isinstance(kind, str) or kind < 1):
        raise unsupported(f"scipy.interpolate.interp1d with kind={kind!r}")
    places, values = traced(x), traced(y)
    if places.ndim != 1:
        raise ValueError("the x array must have exactly one dimension.")
    if not values.ndim:
        raise ValueError("the y array must have at least one dimension.")
    axis %= values.ndim
    values = np.moveaxis(values if values.type.floating else values.astype(np.float64), axis, 0)
    if len(places) != len(values):
        raise ValueError("x and y arrays must be equal in length along interpolation axis.")
    if len(places) < 2:
        raise unsupported("scipy.interpolate.interp1d of fewer than two points")
    if not isinstance(kind, str) and len(places) <= kind:
        raise ValueError(f"x and y arrays must have at least {kind + 1} entries")
    if not assume_sorted:
        order = np.argsort(places, kind="stable")
        places, values = places[order], values[order]
    extrapolate = isinstance(fill_value, str) and fill_value == "extrapolate"
    if extrapolate and bounds_error:
        raise ValueError("Cannot extrapolate and raise at the same time.")
    pair = isinstance(fill_value, tuple) and len(fill_value) == 2
    fill = None if extrapolate else fill_value if pair else (fill_value, fill_value)
    given = pair or isinstance(fill_value, TracedArray) or not np.all(np.isnan(fill_value)) if not extrapolate else True
    refuse = not extrapolate and (bounds_error if bounds_error is not None else not given)
    return TracedInterp1d(places, values, axis, fill, refuse=refuse, kind=kind)


replace_class(sp.interp1d, _traced_interp1d, TracedInterp1d)

_ATTRIBUTES = ("x", "y", "axis", "bounds_error", "_kind", "_extrapolate", "_fill_value_below", "_fill_value_above")


def _from_attributes(value: sp.interp1d, x: object, y: object, axis: int, bounds_error: bool, kind: object, extrapolate: bool, below: object, above: object) -> TracedInterp1d:
    degree = value._spline.k if kind == "spline" else kind
    fill = "extrapolate" if extrapolate else (below, above)
    return _traced_interp1d(x, y, degree, axis, bounds_error=bool(bounds_error), fill_value=fill, assume_sorted=True)


patch_method(sp.interp1d, "__call__", lambda self, x: _from_attributes(self, *(getattr(self, name, None) for name in _ATTRIBUTES))(x))
LIBRARY_OBJECTS[sp.interp1d] = _ATTRIBUTES, _from_attributes

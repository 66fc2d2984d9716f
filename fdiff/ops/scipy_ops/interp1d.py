"""`scipy.interpolate.interp1d`, of traced data or at traced points."""

from __future__ import annotations

import fdiff.intact_numpy as np
from fdiff.intact_scipy import interpolate as sp

from ...arraytype import F8
from ...primitive import LIBRARY_OBJECTS
from ...trace import Array, Operand, TracedArray, unsupported
from ...trace.handler_arguments import resolve
from ..scipy_functions import patch_method, replace_class
from ..shapes.shaping import traced
from .splines import make_interp_spline, numbers, real

_Bounds = tuple[object, object]


class TracedInterp1d:
    """The traced counterpart of an `interp1d`; the interpolation axis of `y` is its first."""

    def __init__(self, x: TracedArray, y: TracedArray, axis: int, fill: _Bounds | None, *, refuse: bool, kind: str | int) -> None:
        self.x, self.y, self.axis, self.kind = x, y, axis, kind
        self.fill, self.refuse = fill, refuse

    def __call__(self, x: object) -> TracedArray:
        new = _floating(x)
        places = new.ravel()
        self._check(places)
        width = (1,) * (self.y.ndim - 1)
        out = self._inside(places, width)
        if self.fill is not None:
            below, above = ((places < self.x[0]).reshape((-1, *width)), (places > self.x[-1]).reshape((-1, *width)))
            low, high = (np.asarray(value).astype(out.dtype) for value in self.fill)
            out = np.where(below, low, np.where(above, high, out))
        out = out.reshape((*new.shape, *self.y.shape[1:]))
        ahead = range(new.ndim)
        return np.moveaxis(out, tuple(ahead), tuple(self.axis + k for k in ahead))

    def _inside(self, places: TracedArray, width: tuple[int, ...]) -> Operand:
        """Values between the points."""
        if self.kind in _STEPS:
            return self.y[_STEPS[self.kind](self.x, places)]
        if self.kind != "linear":
            return make_interp_spline(self.x, self.y, k=self.kind)(places)
        if self.y.ndim == 1 and self.fill is not None and self.x.dtype in _OF_INTERP and self.y.dtype == F8:
            return np.interp(places, self.x, self.y)  # as SciPy: its values differ at points that are there twice
        interval = np.clip(np.searchsorted(self.x, places), 1, len(self.x) - 1)
        low, high = interval - 1, interval
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

    def at(x: TracedArray, places: TracedArray) -> Array:
        return np.clip(np.searchsorted(x, places, side="right" if ahead == 0 else "left") - 1 + ahead, 0, len(x) - 1)

    return at


def _nearest(side: str) -> object:
    """A function of points and places: the number of the nearest point; between two, the lower (or the upper) one."""

    def at(x: TracedArray, places: TracedArray) -> TracedArray:
        half = x / 2.0
        return np.clip(np.searchsorted(half[1:] + half[:-1], places, side=side), 0, len(x) - 1)

    return at


_STEPS = {"previous": _step("right", 0), "next": _step("left", 1), "nearest": _nearest("left"), "nearest-up": _nearest("right")}
_OPEN_ENDS = ("previous", "next")
_OF_INTERP = (F8, np.dtype(int))
_DEGREES = {"slinear": 1, "quadratic": 2, "cubic": 3}


def _traced_interp1d(
    x: object, y: object, kind: object = "linear", axis: int = -1, copy: bool = True, bounds_error: bool | None = None,
    fill_value: object = np.nan, assume_sorted: bool = False,
) -> TracedInterp1d:  # fmt: skip
    """As SciPy's constructor, for points or values that are traced; with SciPy's errors."""
    kind = _DEGREES.get(kind, kind) if isinstance(kind, str) else int(kind)
    if kind not in (*_STEPS, "linear") and (isinstance(kind, str) or kind < 1):
        raise unsupported(f"scipy.interpolate.interp1d with kind={kind!r}")
    places, values, axis = _points(x, y, axis)
    if not isinstance(kind, str) and len(places) <= kind:
        raise ValueError(f"x and y arrays must have at least {kind + 1} entries")
    if not assume_sorted:
        order = np.argsort(places, kind="stable")
        places, values = places[order], values[order]
    fill, refuse = _beyond_the_ends(fill_value, bounds_error, values)
    if fill is None and kind in _OPEN_ENDS:  # steps go on to one side only
        fill = (values[0], np.nan) if kind == "next" else (np.nan, values[-1])
    return TracedInterp1d(places, values, axis, fill, refuse=refuse, kind=kind)


def _points(x: object, y: object, axis: int) -> tuple[TracedArray, TracedArray, int]:
    """The points, their values with the interpolation axis first, and where that axis was."""
    places, values = traced(x), traced(y)
    if places.dtype.kind == "c":
        places = real(places)
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
    return places, values, axis


def _floating(x: object) -> TracedArray:
    """Places as an array of real floating-point numbers, of their own precision."""
    new = traced(resolve(x))
    return new if new.dtype.kind == "f" else real(new)


def _beyond_the_ends(fill_value: object, bounds_error: bool | None, values: TracedArray) -> tuple[_Bounds | None, bool]:
    """The values below and above all points, None to extrapolate; and whether to raise an error there instead."""
    if isinstance(fill_value, str) and fill_value == "extrapolate":
        if bounds_error:
            raise ValueError("Cannot extrapolate and raise at the same time.")
        return None, False
    if isinstance(fill_value, tuple) and len(fill_value) == 2:
        fill = _fill(fill_value[0], values, "fill_value (below)"), _fill(fill_value[1], values, "fill_value (above)")
    else:
        fill = (end := _fill(fill_value, values, "fill_value")), end
    return fill, bounds_error is None or bounds_error


def _fill(fill: object, values: TracedArray, name: str) -> Array:
    """A value beyond an end, in the shape of the values at one point; with SciPy's error if it does not fit."""
    split = values.dtype.kind == "c"
    array = numbers((complex(np.nan, np.nan) if split else np.nan) if resolve(fill) is None else fill)
    shape = values.shape[1:] or (1,)
    if array.ndim > len(shape) or any(n not in (1, m) for m, n in zip(shape[::-1], array.shape[::-1], strict=False)):
        raise ValueError(f"{name} argument must be able to broadcast up to shape {shape} but had shape {array.shape}")
    return np.broadcast_to(array if split else real(array), shape).reshape(values.shape[1:])


replace_class(sp.interp1d, _traced_interp1d, TracedInterp1d)

_ATTRIBUTES = ("x", "y", "axis", "bounds_error", "_kind", "_extrapolate", "_spline?", "_fill_value_below?", "_fill_value_above?")


def _from_attributes(
    _value: object, x: object, y: Array, axis: int, bounds_error: bool, kind: object, extrapolate: bool, spline: sp.BSpline | None,
    *ends: object,
) -> TracedInterp1d:  # fmt: skip
    degree = kind if spline is None else spline.k
    fill = "extrapolate" if extrapolate else tuple(_unraveled(end, np.shape(y), axis) for end in ends)
    return _traced_interp1d(x, y, degree, axis, bounds_error=bool(bounds_error), fill_value=fill, assume_sorted=True)


def _unraveled(fill: Array, shape: tuple[int, ...], axis: int) -> object:
    """A value beyond an end as the constructor takes it; the attribute is raveled, and holds None for NaN."""
    if np.size(fill) != 1:
        return np.reshape(fill, shape[:axis] + shape[axis + 1 :])
    return None if isinstance(fill, np.ndarray) and fill.item() is None else fill


patch_method(
    sp.interp1d, "__call__", lambda self, x: _from_attributes(self, *(getattr(self, name.rstrip("?"), None) for name in _ATTRIBUTES))(x)
)
LIBRARY_OBJECTS[sp.interp1d] = _ATTRIBUTES, _from_attributes

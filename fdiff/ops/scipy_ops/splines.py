"""Splines of `scipy.interpolate`: `CubicSpline`, `PchipInterpolator`, `BSpline`, `UnivariateSpline`, ...

Values are differentiated with respect to the data, the points and the places of evaluation: coefficients are
linear in the data, and values are polynomials of the places.

C. de Boor, A Practical Guide to Splines, revised ed., Springer 2001, chapters IX and X.
"""

from __future__ import annotations

import fdiff.intact_numpy as np
from fdiff.intact_scipy import interpolate as sp

from ...arraytype import F8
from ...foreign_errors import hiding
from ...primitive import LIBRARY_OBJECTS
from ...trace import Array, Operand, TracedArray, current, unsupported
from ...trace.handler_arguments import resolve
from ..scipy_functions import TO_LIBRARY, concrete, patch_method, replace_class, replaces_if_traced
from ..shapes.creation import array as array_call
from ..shapes.shaping import traced
from .spline_formulas import (
    akima_slopes,
    bspline,
    cubic_slopes,
    ends_of,
    hermite,
    interpolating,
    interpolating_knots,
    pchip_slopes,
    polynomials,
)

C16 = np.dtype(np.complex128)


def numbers(x: object) -> TracedArray:
    """Data or coefficients as an array of float64 or complex128."""
    resolved = resolve(x)
    out = traced(array_call(resolved) if isinstance(resolved, (list, tuple)) else resolved)
    dtype = C16 if out.dtype.kind == "c" else F8
    return out if out.dtype == dtype else out.astype(dtype)


def real(x: object) -> TracedArray:
    """Points, knots or places as a float64 array."""
    out = numbers(x)
    if out.dtype == C16:
        way = "Give the real part, np.real(x); of complex data interpolate np.real(y) and np.imag(y) apart."
        raise unsupported("scipy.interpolate with complex numbers where SciPy takes real ones", way)
    return out


def increasing(x: TracedArray) -> None:
    """Raise SciPy's error for points that are not increasing, if their values are known."""
    trace = current()
    if trace.guards.is_known(trace.own(x)) and not bool(np.all(np.diff(x) > 0)):
        raise ValueError("`x` must be strictly increasing sequence.")


class _Curve:
    """The traced counterpart of a curve of one variable; the axis of the data is the first one of its coefficients."""

    axis: int
    extrapolate: object
    undefined = complex(np.nan)  # SciPy's value of a complex curve where it has none

    def _values(self, places: TracedArray, nu: int) -> Operand:
        raise NotImplementedError

    def _range(self) -> tuple[Array, Array]:
        raise NotImplementedError

    def __call__(self, x: object, nu: int = 0, extrapolate: object = None) -> Array:
        new = real(x)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        places = new.reshape((-1,))
        first, last = self._range()
        if extrapolate == "periodic":
            places = first + (places - first) % (last - first)
        out = traced(self._values(places, nu))
        lost = np.isnan(places) if extrapolate else ~((places >= first) & (places <= last))
        undefined = self.undefined if out.dtype == C16 else np.nan
        out = np.where(lost.reshape((-1, *(1,) * (out.ndim - 1))), undefined, out)
        out = out.reshape((*new.shape, *out.shape[1:]))
        ahead = tuple(range(new.ndim))
        return np.moveaxis(out, ahead, tuple(self.axis + k for k in ahead))


class TracedPPoly(_Curve):
    """The traced counterpart of a `PPoly`: a `CubicSpline`, a `PchipInterpolator`, ..."""

    def __init__(self, c: object, x: object, extrapolate: object = True, axis: int = 0) -> None:
        self.c, self.x, self.axis = traced(c), traced(x), axis
        self.extrapolate = True if extrapolate is None else extrapolate

    def _values(self, places: TracedArray, nu: int) -> Operand:
        return polynomials(self.c, self.x, places, nu)

    def _range(self) -> tuple[Array, Array]:
        return self.x[0], self.x[-1]

    def derivative(self, nu: int = 1) -> TracedPPoly:
        """The derivative of order `nu`, again piecewise polynomials."""
        if nu < 0:
            return self.antiderivative(-nu)
        n = len(self.c)
        if nu >= n:
            return TracedPPoly(np.zeros((1, *self.c.shape[1:]), self.c.dtype), self.x, self.extrapolate, self.axis)
        powers = np.arange(n - 1, nu - 1, -1)
        factors = np.prod([powers - k for k in range(nu)], axis=0) * np.ones(n - nu)
        return TracedPPoly(self.c[: n - nu] * factors.reshape((-1, *(1,) * (self.c.ndim - 1))), self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> TracedPPoly:
        """The antiderivative that vanishes at the first point."""
        primitive = self
        for _ in range(nu):
            c = primitive.c
            lead = c / np.arange(len(c), 0, -1).reshape((-1, *(1,) * (c.ndim - 1)))
            width = np.diff(primitive.x).reshape((-1, *(1,) * (c.ndim - 2)))
            whole = lead[0]
            for k in range(1, len(c)):
                whole = whole * width + lead[k]
            sums = np.cumsum(whole * width, axis=0)
            start = np.concatenate([np.zeros((1, *c.shape[2:])), sums[:-1]])
            extrapolate = False if primitive.extrapolate == "periodic" else primitive.extrapolate
            primitive = TracedPPoly(np.concatenate([lead, start[None]]), primitive.x, extrapolate, primitive.axis)
        return primitive

    def integrate(self, a: object, b: object, extrapolate: object = None) -> Array:
        """The integral between two places."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if extrapolate == "periodic":
            raise unsupported("the integral of a periodic spline")
        whole = self.antiderivative()
        return whole(b, extrapolate=extrapolate) - whole(a, extrapolate=extrapolate)

    @hiding
    def __getattr__(self, name: str) -> object:
        return _of_scipy(self, name)


class TracedBSpline(_Curve):
    """The traced counterpart of a `BSpline`."""

    undefined = complex(np.nan, np.nan)

    def __init__(self, t: object, c: object, k: int, extrapolate: object = True, axis: int = 0) -> None:
        self.t, self.k, self.axis, self.extrapolate = traced(t), int(k), axis, extrapolate
        self.c = traced(c)

    @property
    @hiding
    def tck(self) -> tuple[TracedArray, TracedArray, int]:
        return self.t, self.c, self.k

    def _values(self, places: TracedArray, nu: int) -> Operand:
        count = len(self.t) - self.k - 1
        return bspline(self.t, self.c[:count], self.k, places, nu)

    def _range(self) -> tuple[Array, Array]:
        return self.t[self.k], self.t[len(self.t) - self.k - 1]

    def derivative(self, nu: int = 1) -> _CurveDerivative:
        """The derivative of order `nu`, as a curve."""
        return _CurveDerivative(self, nu)

    @hiding
    def __getattr__(self, name: str) -> object:
        return _of_scipy(self, name)


class _CurveDerivative(_Curve):
    """The derivative of a curve."""

    def __init__(self, curve: _Curve, nu: int) -> None:
        self.curve, self.nu, self.axis, self.extrapolate = curve, nu, curve.axis, curve.extrapolate
        self.undefined = curve.undefined

    def _values(self, places: TracedArray, nu: int) -> Operand:
        return self.curve._values(places, nu + self.nu)

    def _range(self) -> tuple[Array, Array]:
        return self.curve._range()


def _of_scipy(curve: _Curve, name: str) -> object:
    """The attribute of SciPy's own object, if the data depend on nothing that is differentiated."""
    kind = sp.PPoly if isinstance(curve, TracedPPoly) else sp.BSpline
    if name.startswith("__") or not hasattr(kind, name):
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
    return getattr(as_scipy(curve, f"scipy.interpolate.{kind.__name__}.{name}"), name)


def as_scipy(curve: _Curve, name: str) -> object:
    """SciPy's own object."""
    if isinstance(curve, TracedPPoly):
        return sp.PPoly.construct_fast(concrete(curve.c, name), concrete(curve.x, name), curve.extrapolate, curve.axis)
    if isinstance(curve, TracedBSpline):
        return sp.BSpline.construct_fast(concrete(curve.t, name), concrete(curve.c, name), curve.k, curve.extrapolate, curve.axis)
    raise unsupported(name)


TO_LIBRARY.update({TracedPPoly: as_scipy, TracedBSpline: as_scipy, _CurveDerivative: as_scipy})

# --- made inside the function ---------------------------------------------------------------------


def _data(x: object, y: object, axis: int) -> tuple[TracedArray, TracedArray, int]:
    """Points, data with their axis in front, and that axis."""
    points, data = real(x), numbers(y)
    axis %= data.ndim
    if points.ndim != 1 or len(points) != data.shape[axis]:
        raise ValueError(f"The length of `y` along `axis`={axis} doesn't match the length of `x`")
    if len(points) < 2:
        raise ValueError("`x` must contain at least 2 elements.")
    increasing(points)
    return points, np.moveaxis(data, axis, 0), axis


def _cubic(x: object, y: object, axis: int = 0, bc_type: object = "not-a-knot", extrapolate: object = None) -> TracedPPoly:
    points, data, axis = _data(x, y, axis)
    bc = ends_of(bc_type)
    if extrapolate is None:
        extrapolate = "periodic" if bc[0] == "periodic" else True
    return TracedPPoly(hermite(points, data, cubic_slopes(points, data, bc)), points, extrapolate, axis)


def _real_data(x: object, y: object, axis: int, name: str) -> tuple[TracedArray, TracedArray, int]:
    """As `_data`; with SciPy's error for complex data, for slopes that are not linear in the data."""
    points, data, axis = _data(x, y, axis)
    if data.dtype == C16:
        raise ValueError(
            f"`{name}` only works with real values for `y`. If you are trying to use the real components of the"
            f" passed array, use `np.real` on the array before passing to `{name}`."
        )
    return points, data, axis


def _pchip(x: object, y: object, axis: int = 0, extrapolate: object = None) -> TracedPPoly:
    points, data, axis = _real_data(x, y, axis, "PchipInterpolator")
    return TracedPPoly(hermite(points, data, pchip_slopes(points, data)), points, extrapolate, axis)


def _akima(x: object, y: object, axis: int = 0, *, method: str = "akima", extrapolate: object = None) -> TracedPPoly:
    points, data, axis = _real_data(x, y, axis, "Akima1DInterpolator")
    slopes = akima_slopes(points, data, method)
    return TracedPPoly(hermite(points, data, slopes), points, False if extrapolate is None else extrapolate, axis)


def _hermite(x: object, y: object, dydx: object, axis: int = 0, extrapolate: object = None) -> TracedPPoly:
    points, data, axis = _data(x, y, axis)
    return TracedPPoly(hermite(points, data, np.moveaxis(numbers(dydx), axis, 0)), points, extrapolate, axis)


def _ppoly(c: object, x: object, extrapolate: object = None, axis: int = 0) -> TracedPPoly:
    if axis:
        raise unsupported("scipy.interpolate.PPoly with axis=")
    return TracedPPoly(numbers(c), real(x), extrapolate)


def _bspline(t: object, c: object, k: int, extrapolate: object = True, axis: int = 0) -> TracedBSpline:
    coefficients = numbers(c)
    axis %= coefficients.ndim
    return TracedBSpline(real(t), np.moveaxis(coefficients, axis, 0), k, extrapolate, axis)


@replaces_if_traced(sp.make_interp_spline)
def make_interp_spline(
    x: object, y: object, k: int = 3, t: object = None, bc_type: object = None, axis: int = 0, check_finite: bool = True
) -> TracedBSpline:
    """``make_interp_spline``: coefficients from a banded system that is linear in the data."""
    points, data, axis = _data(x, y, axis)
    if isinstance(bc_type, str) and bc_type == "periodic":
        raise unsupported("scipy.interpolate.make_interp_spline with periodic conditions")
    free = bc_type is None or (isinstance(bc_type, str) and bc_type == "not-a-knot")
    pair = (None, None) if free else (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
    if k <= 1 and t is None:
        ends = [points[:1]] * k
        return TracedBSpline(np.concatenate([*ends, points, points[-1:]]), data, k, axis=axis)
    aliases = {"clamped": [(1, 0.0)], "natural": [(2, 0.0)]}
    left, right = (list(aliases[c] if isinstance(c, str) else c or []) for c in pair)
    if data.dtype != C16:
        left, right = ([(order, real(value)) for order, value in end] for end in (left, right))
    knots = real(t) if t is not None else interpolating_knots(points, k, free=pair == (None, None))
    return TracedBSpline(knots, interpolating(points, data, knots, k, left, right), k, axis=axis)


@replaces_if_traced(sp.splev)
def splev(x: object, tck: object, der: int = 0, ext: int = 0) -> Array:
    """The values of a curve given by knots and coefficients, as ``splrep`` returns them."""
    t, c, k = tck.tck if isinstance(tck, (sp.BSpline, TracedBSpline)) else tuple(tck)
    if isinstance(c, (list, tuple)) or ext not in (0, 1):
        raise unsupported("scipy.interpolate.splev of a parametric curve, or with ext=2 or ext=3")
    out = TracedBSpline(real(t), real(c), k)(x, der)
    if ext == 0:
        return out
    places = real(x)
    first, last = real(t)[k], real(t)[len(t) - k - 1]
    return np.where((places < first) | (places > last), 0.0, out)


for _class, _make in (
    (sp.CubicSpline, _cubic), (sp.PchipInterpolator, _pchip), (sp.Akima1DInterpolator, _akima), (sp.CubicHermiteSpline, _hermite),
    (sp.PPoly, _ppoly), (sp.BSpline, _bspline),
):  # fmt: skip
    replace_class(_class, _make, _Curve)


# --- made before the function ---------------------------------------------------------------------

def _polynomials(curve: sp.PPoly) -> TracedPPoly:
    return TracedPPoly(np.asarray(curve.c), np.asarray(curve.x), curve.extrapolate, curve.axis)


def _basis(curve: sp.BSpline) -> TracedBSpline:
    return TracedBSpline(np.asarray(curve.t), np.asarray(curve.c), curve.k, curve.extrapolate, curve.axis)


patch_method(sp.PPoly, "__call__", lambda self, *args, **keywords: _polynomials(self)(*args, **keywords))
patch_method(sp.PPoly, "integrate", lambda self, *args, **keywords: _polynomials(self).integrate(*args, **keywords))
patch_method(sp.BSpline, "__call__", lambda self, *args, **keywords: _basis(self)(*args, **keywords))


class TracedUnivariateSpline:
    """The traced counterpart of a `UnivariateSpline`, or of its derivative of order `nu`."""

    def __init__(self, tck: object, ext: object, nu: int = 0) -> None:
        self._tck, self._ext, self._nu = tck, ext, nu

    def __call__(self, x: object, nu: int = 0, ext: object = None) -> Array:
        ext = self._ext if ext is None else ext
        if ext not in (0, 1, "extrapolate", "zeros"):
            raise unsupported("scipy.interpolate.UnivariateSpline with ext=2 or ext=3")
        return splev(x, self._tck, nu + self._nu, 0 if ext in (0, "extrapolate") else 1)

    def derivative(self, n: int = 1) -> TracedUnivariateSpline:
        """The derivative of order `n`."""
        return TracedUnivariateSpline(self._tck, self._ext, self._nu + n)

    @hiding
    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or not hasattr(sp.UnivariateSpline, name):
            raise AttributeError(f"'UnivariateSpline' object has no attribute {name!r}")
        raise unsupported(f"scipy.interpolate.UnivariateSpline.{name} of a spline that is made outside of the function")


patch_method(
    sp.UnivariateSpline, "__call__", lambda self, *args, **keywords: TracedUnivariateSpline(self._eval_args, self.ext)(*args, **keywords)
)

# Captured objects: their arrays become arguments of the kernel, so that later changes of these are seen.
for _class in (sp.PPoly, sp.CubicSpline, sp.CubicHermiteSpline, sp.PchipInterpolator, sp.Akima1DInterpolator):
    LIBRARY_OBJECTS[_class] = ("c", "x", "extrapolate", "axis"), lambda value, *parts: TracedPPoly(*parts)
LIBRARY_OBJECTS[sp.BSpline] = ("t", "c", "k", "extrapolate", "axis"), lambda value, *parts: TracedBSpline(*parts)
for _class in (sp.UnivariateSpline, sp.InterpolatedUnivariateSpline, sp.LSQUnivariateSpline):
    LIBRARY_OBJECTS[_class] = ("_eval_args", "ext"), lambda value, *parts: TracedUnivariateSpline(*parts)

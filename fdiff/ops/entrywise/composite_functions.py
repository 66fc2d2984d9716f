"""NumPy functions written with other traced functions, and differentiated through these.

`clip`, `round`, `fix`, `sinc`, `nan_to_num`, `isclose` and its relatives, `angle`, `real_if_close`, `select`,
`divmod`, `modf`, `frexp`, and `fdiff.stop_gradient`.
"""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...arraytype import loop_dtypes
from ...foreign_errors import not_foreign
from ...hooks import hooks
from ...primitive import FUNCTIONS, UFUNCS
from ...trace import Array, Operand, TracedArray, apply, constant_value, guarded_value, implements
from ..along_axes.reductions import all_call
from ..shapes.shaping import scalar_if_0d, traced
from .elementwise import pair, stop
from .families import kind_of, refuse
from .kink_marks import marked


@implements(np.clip, method="clip")
def clip(
    a: object, a_min: object = None, a_max: object = None, out: object = None, *, min: object = None, max: object = None, **keywords: object
) -> TracedArray:
    """Values kept between bounds; at a bound the slope of the value is 1, as in torch."""
    refuse(np.clip, keywords)
    if (min is not None or max is not None) and (a_min is not None or a_max is not None):
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    low = min if a_min is None else a_min
    high = max if a_max is None else a_max
    x = traced(a)
    kinds = [kind_of(v) for v in (a, low, high) if v is not None]
    dtype = np.result_type(*[k(0) if isinstance(k, type) else k for k in kinds])
    value = x.astype(dtype)
    if low is not None:
        bound = traced(low).astype(dtype)
        value = _bounded(value, value < bound, bound)
    if high is not None:
        bound = traced(high).astype(dtype)
        value = _bounded(value, value > bound, bound)
    return scalar_if_0d(value)


def _bounded(value: TracedArray, beyond: TracedArray, bound: TracedArray) -> Array:
    """`value`, and the bound beyond it; they meet in a kink."""
    return marked(np.where(_outside(beyond, bound), bound, value), lambda: value == bound, "numpy.clip", "a bound")


def _outside(beyond: TracedArray, bound: TracedArray) -> Array:
    """Where the bound takes over: beyond it, and wherever the bound is NaN."""
    constant = constant_value(bound)
    return beyond if constant is not None and not np.any(np.isnan(constant)) else beyond | np.isnan(bound)


@implements(np.round, np.around, method="round")
def round_call(a: object, decimals: int = 0, out: object = None) -> Array:
    """To the nearest even at `decimals`; the slope is 0."""
    x = traced(a)
    if not x.type.floating and decimals >= 0:
        return x
    if decimals == 0:
        return np.rint(x)
    if x.dtype.kind == "c":  # NumPy rounds the parts
        return scalar_if_0d(apply(pair, np.round(np.real(x), decimals), np.round(np.imag(x), decimals)))
    scale = 10.0 ** abs(decimals)
    return np.rint(x * scale) / scale if decimals > 0 else (np.rint(x / scale) * scale).astype(x.dtype)


@implements(np.fix)
def fix(x: object, out: object = None) -> Array:
    return np.trunc(traced(x))


@implements(np.sinc)
def sinc(x: object) -> TracedArray:
    """``sin(pi x) / (pi x)``, 1 at 0.

    Near 0 the series: its first term left out is ``y**16 / 17!`` < 1e-19, and neither its first
    nor its second derivative cancels, as derivatives of ``sin(y) / y`` would.
    """
    y = np.pi * traced(x)
    near = np.abs(y) < 0.5
    far = np.where(near, 1.0, y)
    square = y * y
    series: object = 1.0
    for k in range(14, 0, -2):
        series = 1.0 - square / (k * (k + 1.0)) * series
    return scalar_if_0d(np.where(near, series, np.sin(far) / far))


@implements(np.nan_to_num)
def nan_to_num(x: Array, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Array:
    """NaN and infinities replaced by numbers, whose slope is 0."""
    a = traced(x)
    if not copy:
        FUNCTIONS[np.copyto](x, nan_to_num(x, True, nan, posinf, neginf))
        return x
    if not a.type.floating:
        return TracedArray(a.home, a.id, a.type, scalar=a.scalar)
    if a.dtype.kind == "c":
        parts = [nan_to_num(part, copy, nan, posinf, neginf) for part in (np.real(a), np.imag(a))]
        return scalar_if_0d(apply(pair, *parts))
    info = np.finfo(a.dtype)
    high = info.max if posinf is None else posinf
    low = info.min if neginf is None else neginf
    finite = np.where(np.isnan(a), nan, np.where(a == np.inf, high, np.where(a == -np.inf, low, a)))
    out = scalar_if_0d(finite.astype(a.dtype))
    return marked(out, lambda: ~np.isfinite(a), "numpy.nan_to_num", "NaN or an infinity, which it replaces")


@implements(np.isclose)
def isclose(a: object, b: object, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    """``|a - b| <= atol + rtol |b|``, equal where both are the same infinity."""
    x, y = traced(a), traced(b)
    near = (np.abs(x - y) <= atol + rtol * np.abs(y)) & np.isfinite(y) | (x == y)
    both = np.isnan(x) & np.isnan(y)
    return near | both if equal_nan else near


@implements(np.allclose)
def allclose(a: object, b: object, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> TracedArray:
    return all_call(isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a: object, b: object, equal_nan: bool = False) -> object:
    x, y = traced(a), traced(b)
    if x.shape != y.shape:
        return False
    same = x == y
    return all_call(same | (np.isnan(x) & np.isnan(y)) if equal_nan else same)


@implements(np.array_equiv)
def array_equiv(a1: object, a2: object) -> object:
    x, y = traced(a1), traced(a2)
    try:
        return all_call(x == y)
    except not_foreign(ValueError):
        return False


@implements(np.isposinf)
def isposinf(x: object, out: object = None) -> TracedArray:
    return traced(x) == np.inf


@implements(np.isneginf)
def isneginf(x: object, out: object = None) -> TracedArray:
    return traced(x) == -np.inf


@implements(np.isreal)
def isreal(x: object) -> object:
    a = traced(x)
    return np.imag(a) == 0 if a.dtype.kind == "c" else np.ones(a.shape, bool)[()]


@implements(np.iscomplex)
def iscomplex(x: object) -> object:
    a = traced(x)
    return np.imag(a) != 0 if a.dtype.kind == "c" else np.zeros(a.shape, bool)[()]


@implements(np.angle)
def angle(z: object, deg: bool = False) -> TracedArray:
    """Argument of complex numbers; its slope at 0 is 0."""
    a = traced(z)
    turn = scalar_if_0d(np.arctan2(np.imag(a), np.real(a)))
    return turn * (180 / np.pi) if deg else turn


@implements(np.real_if_close)
def real_if_close(a: object, tol: float = 100) -> Array:
    """The real part where every imaginary part is within `tol` spacings of 0 (`tol` itself up to 1)."""
    x = traced(a)
    if x.dtype.kind != "c":
        return x
    bound = np.finfo(x.dtype).eps * tol if tol > 1 else tol
    small = guarded_value(np.all(np.absolute(np.imag(x)) < bound), "asked whether imaginary parts are close to zero")
    return np.real(x) if small else x


@implements(np.select)
def select(condlist: list[object], choicelist: list[object], default: Operand = 0) -> Operand:
    """The first choice whose condition holds."""
    out = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        out = np.where(traced(condition), choice, out)
    return out


def divmod_call(x: Array, y: Array, **keywords: object) -> tuple[object, object]:
    refuse(np.divmod, keywords)
    return np.floor_divide(x, y), np.remainder(x, y)


def modf_call(x: object, **keywords: object) -> tuple[object, object]:
    """Fraction and whole part; the slope belongs to the fraction."""
    refuse(np.modf, keywords)
    x = traced(x).astype(loop_dtypes(np.modf, (kind_of(x),))[0])
    whole = np.trunc(x)
    return scalar_if_0d(np.where(np.isinf(x), np.copysign(0.0, x), x - whole)), whole


UFUNCS[np.divmod] = divmod_call
UFUNCS[np.modf] = modf_call
TracedArray.__divmod__ = lambda self, other: (self // other, self % other)
TracedArray.__rdivmod__ = lambda self, other: (other // self, other % self)


def frexp_call(x: object, **keywords: object) -> tuple[object, object]:
    """Mantissa and exponent; the exponent is a step function."""
    refuse(np.frexp, keywords)
    a = traced(x)
    zero = (a == 0) | ~np.isfinite(a)
    exponent = np.floor(np.log2(np.abs(np.where(zero, 1.0, a)))) + 1.0
    exponent = exponent + (np.abs(np.ldexp(a, -exponent.astype(np.int64))) >= 1.0) - (np.abs(np.ldexp(a, -exponent.astype(np.int64))) < 0.5)
    power = scalar_if_0d(np.where(zero, 0.0, exponent).astype(np.int32))
    mantissa = np.ldexp(a, -power)
    return marked(mantissa, lambda: np.abs(mantissa) == 0.5, "numpy.frexp", "powers of two, where it jumps"), power


UFUNCS[np.frexp] = frexp_call


def stop_gradient(x: object) -> object:
    """`x` itself, whose derivative is taken to be zero at every order."""
    if not isinstance(x, TracedArray):
        return x if hooks.detached is None else hooks.detached(x)
    out = apply(stop, x)
    return TracedArray(out.home, out.id, out.type, scalar=x.scalar, weak=x.weak)

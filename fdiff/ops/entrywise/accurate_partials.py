"""Partial derivatives that textbook formulas compute with a loss of digits, each as an op of its own.

``1 - tanh(x)**2`` is 0 from x = 19 on, where the derivative of tanh is ``1 / cosh(x)**2``, down to 1e-323; and
a rule that writes the latter with other ops costs one more exponential. As an op it has a kernel formula that
shares the exponential with the function itself (equal instructions are merged), an accurate reference value,
and a derivative rule of its own. Used by the rows of `elementwise.py` and `scipy_ops/special_tables/special.py`.

Each is computed twice, here in NumPy and for kernels in `kernels/runtime/maths/`, as every op is. One source
would serve neither: NumPy runs whole arrays by functions of its own and has no fused multiply-add, so that it
finds what a sum or product lost to rounding by other steps; kernels share the steps of the function itself
(`hypot` and its slopes are scaled by the same instructions, which are merged). Tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log as _log

import fdiff.intact_numpy as np

from ...arraytype import broadcast_all
from ...primitive import Primitive
from ...trace import TracedArray, apply
from .families import elementwise
from .sample_domains import above_two, positive, real, unit

Array = np.ndarray
_LN2 = _log(2.0)
_SPLIT = 134217729.0  # 2**27 + 1, as in algorithm 3.2 of the source of `product_error`


def _floating(*dtypes: np.dtype) -> np.dtype:
    if dtypes[0].kind != "f" or any(d != dtypes[0] for d in dtypes):
        raise TypeError(
            f"defined for floating-point numbers of one dtype, not {', '.join(map(str, dtypes))}"
        )
    return dtypes[0]


def slope_op(
    name: str, slopes: Callable[..., object], numpy: Callable[..., object], *sample: Callable[..., Array], text: str | None = None
) -> Primitive:
    """An elementwise op of floating-point numbers of one dtype; Python numbers are double.

    `slopes`, `sample` and `text` are as in `elementwise`.
    """

    def evaluate(*operands: object) -> object:
        return numpy(*[x if isinstance(x, (np.ndarray, np.generic)) else np.float64(x) for x in operands])

    return elementwise(name, slopes, *sample, text=text, numpy=evaluate, loop=_floating)


def _vanishing(x: Array, y: Array) -> object:
    out = x * y
    lost = np.isnan(out) & ~(np.isnan(x) | np.isnan(y))
    return np.where(lost, out.dtype.type(0), out)[()]


# ``x * y`` where zero times infinity is zero, at every order. Rules say so by this product and not by
# ``np.where(x == 0, 0.0, ...)``, which has that value and loses the derivative of all that it replaces.
_TEXT = "{0} * {1} if ({0} * {1} == {0} * {1}) | ({0} != {0}) | ({1} != {1}) else {T}(0)"
vanishing_product = elementwise(
    "vanishing_product", None, real, real, text=_TEXT, numpy=_vanishing, loop=np.promote_types,
    transposes=lambda bar, args: [vanishing(bar, other) for other in args[::-1]], groups=((0,), (1,)),
)  # fmt: skip


def vanishing(x: object, y: object) -> TracedArray:
    """``x * y``, and 0 for zero times infinity."""
    return apply(vanishing_product, x, y)


def steep(x: TracedArray) -> TracedArray:
    """0 at x = 0, where its derivative is infinite."""
    return vanishing(x, np.full((), np.inf, x.dtype))


def _sum_error(x: Array, y: Array, total: Array) -> Array:
    """The rounding error of ``total = x + y`` (TwoSum: Knuth, Seminumerical Algorithms, section 4.2.2, theorem B); 0 if infinite."""
    other = total - x
    lost = (x - (total - other)) + (y - other)
    return np.where(np.isfinite(lost), lost, lost.dtype.type(0))


def product_error(x: Array, y: Array, out: Array) -> Array:
    """The rounding error of ``out = x * y``; 0 where splitting overflows.

    TwoProduct of T. Ogita, S. M. Rump, S. Oishi, "Accurate sum and dot product", SIAM J. Sci. Comput. 26(6), 2005, algorithm 3.3.
    """
    a, b = x * _SPLIT, y * _SPLIT
    x_high, y_high = a - (a - x), b - (b - y)
    x_low, y_low = x - x_high, y - y_high
    lost = ((x_high * y_high - out) + x_high * y_low + x_low * y_high) + x_low * y_low
    return np.where(np.isfinite(lost), lost, 0.0)


# --- hyperbolic and logistic ----------------------------------------------------------------------


def _sech_squared(x: Array) -> object:
    """``1 / cosh(x)**2`` as a square, so that no digit is lost before the result itself is subnormal."""
    e = np.exp(-np.abs(x))
    root = (e + e) / (1.0 + e * e)
    return root * root


sech_squared = slope_op("sech_squared", lambda x, out: -2.0 * np.tanh(x) * out, _sech_squared, real)


def _logistic_slope(x: Array) -> object:
    e = np.exp(-np.abs(x))
    return e / np.square(1.0 + e)


# The derivative of `expit`. As the product expit(x) expit(-x) its own derivative would cancel at 0.
logistic_slope = slope_op("logistic_slope", lambda x, out: -np.tanh(0.5 * x) * out, _logistic_slope, real)


def _share(exp: np.ufunc, unit: float, second: bool) -> Callable[[Array, Array], object]:
    def share(x: Array, y: Array) -> object:
        x, y = (y, x) if second else (x, y)
        d = x - y
        lost = _sum_error(np.asarray(x), -np.asarray(y), np.asarray(d)) * unit
        e = exp(-np.abs(d))
        over = 1.0 / (1.0 + e)
        out = np.where(d < 0, e, x.dtype.type(1)) * over
        out = out + out * lost * np.where(d < 0, x.dtype.type(1), e) * over
        return np.where(
            np.isnan(d) & (x == y), np.where(x > 0, x.dtype.type(1), x.dtype.type(0)), out
        )[()]

    return share


def _add_share(name: str, exp: np.ufunc, unit: float, *, second: bool) -> Primitive:
    """The op ``b**x / (b**x + b**y)`` (or with y on top): a partial derivative of `logaddexp`.

    Its own partial derivatives are plus and minus the product of both shares.
    """
    pair = SHARES[exp]

    def slopes(x: TracedArray, y: TracedArray, out: TracedArray) -> tuple[object, object]:
        slope = out * apply(pair[not second], x, y)
        slope = slope if unit == 1.0 else unit * slope
        return (-slope, slope) if second else (slope, -slope)

    return slope_op(name, slopes, _share(exp, unit, second), real, real)


# The shares of the first and of the second argument. Both take the arguments in the same order, so that a kernel
# computes their exponential once.
SHARES: dict[np.ufunc, list[Primitive]] = {np.exp: [], np.exp2: []}
for _exp, _ending, _unit in ((np.exp, "", 1.0), (np.exp2, "2", _LN2)):
    SHARES[_exp] += [
        _add_share(f"{which}_share{_ending}", _exp, _unit, second=which == "second")
        for which in ("first", "second")
    ]


# --- exponentials of products, powers of sums -----------------------------------------------------


def _exp_product(x: Array, y: Array) -> object:
    if np.asarray(x).dtype == np.float32:
        return np.exp(np.asarray(x, float) * y).astype(np.float32)[()]
    product = x * y
    out = np.exp(product)
    return np.where(np.isfinite(out), out + out * product_error(x, y, product), out)[()]


exp_product = slope_op("exp_product", lambda x, y, out: (y * out, x * out), _exp_product, real, real)

# An op of its own, because it has one argument whose range has to be checked, and not two.
exp_minus_square = slope_op("exp_minus_square", lambda x, out: -2.0 * (x * out), lambda x: _exp_product(-x, x), real)


def power_of_sum(x: Array, y: Array, z: Array) -> Array:
    exponent = y + z
    out = np.power(x, exponent)
    lost = _sum_error(np.asarray(y), np.asarray(z), np.asarray(exponent))
    more = np.where(lost == 0, out.dtype.type(0), lost * np.log(np.abs(x)))
    return np.where(np.isfinite(more) & np.isfinite(out), out + out * more, out)[()]


def _zero_power_log(x: Array, y: Array) -> object:
    y = broadcast_all(x, y)[1]
    return np.where(y > 0, y.dtype.type(0), np.where(y <= 0, y.dtype.type(-np.inf), y))[()]


def _zero_power_log_slopes(x: TracedArray, y: TracedArray, out: TracedArray) -> tuple[object, object]:
    above = np.where(y > 0, apply(zero_power_log, x, y - np.ones((), y.dtype)), np.inf)
    return above.astype(y.dtype), -out


# ``x**y log(x)`` at x = 0. A further logarithm changes the sign of the infinity.
_ZERO_POWER = "{T}(0) if {1} > 0 else {T}(-np.inf) if {1} <= 0 else {1}"
zero_power_log = slope_op("zero_power_log", _zero_power_log_slopes, _zero_power_log, positive, above_two, text=_ZERO_POWER)


def falling(x: TracedArray, exponent: TracedArray, lower: TracedArray) -> object:
    """``exponent * lower``, the slope of ``x**exponent`` if `lower` is ``x**(exponent - 1)``.

    It is 0 for x = 0 and exponent 0, where `lower` is infinite, and so is its derivative in the exponent.
    """
    return np.where((x == 0) & (exponent == 0), steep(exponent), exponent * lower)


def _power_sum_slopes(x: TracedArray, y: TracedArray, z: TracedArray, out: TracedArray) -> tuple[object, ...]:
    exponent = y + z
    slope = np.where(x == 0, apply(zero_power_log, x, exponent), out * np.log(x))
    return falling(x, exponent, apply(power_sum, x, y, z - np.ones((), z.dtype))), slope, slope


# ``x**(y + z)``, where ``y + z`` need not be representable.
power_sum = slope_op("power_sum", _power_sum_slopes, power_of_sum, positive, real, real)


def _power_slope(x: Array, y: Array, z: Array) -> object:
    small = (np.abs(y) <= 0.25) & (z == -1) & (x != 0) & np.isfinite(x)
    near = (y * np.power(x, y)) / np.where(small, x, x.dtype.type(1))
    return np.where(y == 0, y * y, np.where(small, near, y * power_of_sum(x, y, z)))[()]


def _power_curvatures(x: TracedArray, y: TracedArray, z: TracedArray, out: TracedArray) -> tuple[object, ...]:
    exponent, zero = y + z, x == 0
    at_zero = y * apply(zero_power_log, x, exponent)
    by_z = out * np.log(x)
    by_y = np.where(zero, at_zero, apply(power_sum, x, y, z) + by_z)
    lower = apply(power_slope, x, y, z - np.ones((), z.dtype))
    return falling(x, exponent, lower), by_y, np.where(zero, at_zero, by_z)


# ``y x**(y + z)``, without overflow of the power where the product is finite, and 0 where y is.
power_slope = slope_op("power_slope", _power_curvatures, _power_slope, positive, real, real)


# --- squares --------------------------------------------------------------------------------------


def _one_minus_square(x: Array) -> object:
    return (1.0 - x) * (1.0 + x)


one_minus_square = slope_op("one_minus_square", lambda x, out: -2.0 * x, _one_minus_square, unit, text="({T}(1) - {0}) * ({T}(1) + {0})")


def _over_one_plus_square(x: Array) -> object:
    far = np.abs(x) > (1e4 if np.asarray(x).dtype == np.float32 else 1e8)
    inverse = 1.0 / np.where(far, x, 1.0 + np.square(np.where(far, x.dtype.type(0), x)))
    return (inverse * np.where(far, inverse, x.dtype.type(1)))[()]


def _over_one_plus_square_slope(x: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (-2.0 * (x * out) * out,)


# ``1 / (1 + x**2)``, without overflow of the square.
over_one_plus_square = slope_op("over_one_plus_square", _over_one_plus_square_slope, _over_one_plus_square, real)


def _over_root_one_plus_square(x: Array) -> object:
    return 1.0 / np.hypot(x, x.dtype.type(1))


def _over_root_slope(x: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (-((x * out) * out) * out,)


# ``1 / sqrt(1 + x**2)``, without overflow of the square.
over_root_one_plus_square = slope_op("over_root_one_plus_square", _over_root_slope, _over_root_one_plus_square, real)

# --- the unit vector of (x, y) and the slope of its angle ------------------------------------------


def _into_range(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Both numbers times a power of two with which their squares neither overflow nor underflow, and that power."""
    most, down, least, up = (
        (63, -65, -55, 90) if np.asarray(x).dtype == np.float32 else (511, -513, -480, 600)
    )
    size = np.maximum(np.abs(x), np.abs(y))
    factor = np.where(
        size > 2.0**most, 2.0**down, np.where(size < 2.0**least, 2.0**up, 1.0)
    ).astype(np.asarray(x).dtype)
    return x * factor, y * factor, factor


def _quotient(x: Array, y: Array) -> object:
    """``x / y``, and 0 where `y` is."""
    return np.where(y == 0, y, x / np.where(y == 0, y.dtype.type(1), y))[()]


def _direction(x: Array, y: Array, *, second: bool) -> object:
    u, v, _ = _into_range(x, y)
    return _quotient(v if second else u, np.hypot(u, v))


def _angle_slope(x: Array, y: Array, *, second: bool) -> object:
    u, v, factor = _into_range(x, y)
    return _quotient(v if second else u, np.square(u) + np.square(v)) * factor


def _pair_of(
    name: str, evaluate: Callable[..., object], slopes: Callable[..., tuple[object, object]]
) -> list[Primitive]:
    """A pair of ops, one for each of two arguments; both take the arguments in the same order, so that kernels share the root."""
    return [
        slope_op(f"{which}_{name}", partial(slopes, second=second), partial(evaluate, second=second), real, real)
        for which, second in (("first", False), ("second", True))
    ]  # fmt: skip


def _direction_slopes(
    x: TracedArray, y: TracedArray, out: TracedArray, *, second: bool
) -> tuple[object, object]:
    """``(y**2, -x y) / h**3``; the quotient rule would subtract almost equal numbers for x >> y."""
    other, h = apply(DIRECTION[not second], x, y), np.hypot(x, y)
    over = other / np.where(h == 0, 1.0, h)
    along, across = other * over, -out * over
    return (across, along) if second else (along, across)


def _angle_curvatures(
    x: TracedArray, y: TracedArray, out: TracedArray, *, second: bool
) -> tuple[object, object]:
    """``(y**2 - x**2, -2 x y) / h**4``."""
    h = np.hypot(x, y)
    h = np.where(h == 0, 1.0, h)
    across = -2.0 * (apply(DIRECTION[0], x, y) * apply(DIRECTION[1], x, y)) / h / h
    along = ((y - x) / h) * ((y + x) / h) / h / h
    return (across, -along) if second else (along, across)


# ``(x, y) / hypot(x, y)`` and ``(x, y) / (x**2 + y**2)``: 0 at the origin.
DIRECTION = _pair_of("direction", _direction, _direction_slopes)
ANGLE_SLOPE = _pair_of("angle_slope", _angle_slope, _angle_curvatures)

"""Sine, cosine and tangent up to `REACH`; beyond it they are NaN, and `out_of_range` says so.

Arguments are reduced by multiples of pi/2 in three parts with fused operations: the first step is
exact, so that also next to a multiple of pi/2 the remainder keeps its precision (Cody and Waite;
Muller, Elementary Functions, 3rd ed., 2016, section 11.2). The polynomials have the form of
fdlibm's k_sin.c and k_cos.c.
"""

from __future__ import annotations

from math import inf

from .constants import HALF_PI
from .value import (
    DoubleDouble,
    Value,
    fabs,
    fast_two_sum,
    flip,
    fma,
    libm,
    nearest,
    polynomial,
    quotient,
    where,
    word,
)

REACH = 2.0**31, 2.0**16  # in double and in single precision

_PER_HALF_PI = 0.6366197723675814
# (sin(r) / r - 1) / r**2 in r**2, |r| <= pi/4: relative errors 2**-58 and 2**-28.
_SIN = (
    -0.16666666666666627, 0.00833333333332129, -0.0001984126982887432, 2.7557313357399125e-06,
    -2.5050704252174992e-08, 1.58935961623632e-10,
), (-0.16666653752326965, 0.00833213236182928, -0.0001951089798239991)  # fmt: skip
# (cos(r) - 1 + r**2 / 2) / r**4 in r**2: errors 2**-64 and 2**-33.
_COS = (
    0.04166666666666659, -0.001388888888887261, 2.4801587288498254e-05, -2.7557314058389277e-07,
    2.087568212985539e-09, -1.1357461782580079e-11,
), (0.04166664555668831, -0.001388730714097619, 2.443130324536469e-05)  # fmt: skip


@word
def out_of_range(x: Value) -> Value:
    """Whether a finite `x` is beyond the range of these functions."""
    size = fabs(x)
    return (size > x.by_format(*REACH)) & (size < inf)


def _quadrants(x: Value) -> tuple[Value, Value]:
    """The multiple `k` of pi/2 nearest to ``x >= 0``, infinite out of reach, and its last bits."""
    return nearest(where(x > x.by_format(*REACH), inf, x), _PER_HALF_PI)


def _reduce(x: Value) -> tuple[DoubleDouble, Value]:
    """``|x| - k pi/2`` as a double-double, and the last bits of `k`."""
    x = fabs(x)
    high, middle, low = x.by_format(*HALF_PI)
    k, bits = _quadrants(x)
    first = fma(k, -high, x)
    second = k * middle
    r = first - second
    return DoubleDouble(r, fma(k, -low, first - r - second - fma(k, middle, -second))), bits


def _reduced(x: Value) -> tuple[Value, Value]:
    """``|x| - k pi/2`` to about an ulp, and the last bits of `k`."""
    x = fabs(x)
    high, middle, low = x.by_format(*HALF_PI)
    k, bits = _quadrants(x)
    return fma(k, -low, fma(k, -middle, fma(k, -high, x))), bits


def _sine(r: Value, low: Value | float = 0.0) -> DoubleDouble:
    z = r * r
    return fast_two_sum(r, fma(r * z, polynomial(z, r.by_format(*_SIN)), low))


def _cosine(r: Value, low: Value | float = 0.0) -> DoubleDouble:
    z = r * r
    small = z * z * polynomial(z, r.by_format(*_COS))
    half = z * 0.5
    one = 1.0 - half
    small = fma(-r, low, small) if isinstance(low, Value) else small
    return fast_two_sum(one, (1.0 - one - half) + small)


def _signs(x: Value, bits: Value, by: int) -> Value:
    """Bit `by` of the quadrant as the first bit."""
    return bits << (x.format.whole.width - 1 - by)


@word
@libm("sin")
def sin(x: Value) -> Value:
    """The sine."""
    r, bits = _reduced(x)
    out = where((bits & 1).equals(0), _sine(r).high, _cosine(r).high)
    return flip(out, _signs(x, bits, 1) ^ x.bits())


@word
@libm("cos")
def cos(x: Value) -> Value:
    """The cosine."""
    r, bits = _reduced(x)
    out = where((bits & 1).equals(0), _cosine(r).high, _sine(r).high)
    return flip(out, _signs(x, bits + 1, 1))


@word
@libm("tan")
def tan(x: Value) -> Value:
    """The tangent, as the quotient of both."""
    (r, low), bits = _reduce(x)
    sine, cosine = _sine(r, low), _cosine(r, low)
    even = (bits & 1).equals(0)
    over = DoubleDouble(where(even, sine.high, cosine.high), where(even, sine.low, cosine.low))
    under = DoubleDouble(where(even, cosine.high, sine.high), where(even, cosine.low, sine.low))
    out = quotient(over, under)
    return flip(out, _signs(x, bits, 0) ^ x.bits())

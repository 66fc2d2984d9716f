"""Exponentials and hyperbolic functions.

Arguments are reduced by multiples of log(2) in two parts (Cody and Waite, Software Manual for the
Elementary Functions, 1980, chapter 6), of which fused operations lose nothing (Muller, Elementary
Functions, 3rd ed., 2016, section 11.2).
"""

from __future__ import annotations

from math import inf

from ....named_tuples import NamedTuple
from .constants import LOG_2
from .value import (
    DoubleDouble,
    Value,
    clamp,
    copysign,
    fabs,
    fast_two_sum,
    fma,
    fused,
    libm,
    nearest,
    polynomial,
    power_of_two,
    quotient,
    scale,
    scale_by,
    scale_near,
    two_product_error,
    where,
    word,
)

LOG2_E = 1.4426950408889634
# log2(e) in single precision, in two parts
_LOG2_E_SINGLE = 1.4426950216293335, 1.925963033500011e-08
# log(2) with a first part so short that its products with whole numbers are exact (fdlibm).
_LOG_2_SHORT = (
    (0.6931471803691238, 1.9082149292705877e-10),
    (0.693145751953125, 1.428606765330187e-06),
)

# (exp(r) - 1 - r) / r**2 on |r| <= log(2) / 2: relative errors of exp 2**-64 and 2**-34.
_EXP = (
    0.5, 0.16666666666666685, 0.04166666666666673, 0.008333333333316744, 0.0013888888888858584,
    0.0001984126989704692, 2.4801587373609866e-05, 2.755723424782713e-06, 2.755723339980418e-07,
    2.5112236259801247e-08, 2.0926944162424923e-09,
), (
    0.5, 0.1666666716337204, 0.041666269302368164, 0.008333263918757439, 0.001394607126712799,
    0.0001991870376514271,
)  # fmt: skip
# (2**r - 1 - r log(2)) / r**2 on |r| <= 1/2: relative errors of 2**r 2**-64 and 2**-29.
_EXP2 = (
    0.24022650695910072, 0.0555041086648217, 0.009618129107628479,
    0.0013333558146389765, 0.00015403530393374315, 1.525273385689574e-05, 1.3215486804138382e-06,
    1.0178050926136996e-07, 7.054899644015432e-09, 4.456717890381335e-10, 2.5725181019624816e-11,
), (
    0.24022650718688965, 0.055503252893686295, 0.00961809791624546,
    0.0013401248725131154, 0.00015445196186192334,
)  # fmt: skip
# (sinh(r) / r - 1) / r**2 in r**2, |r| <= log(2) / 2: relative errors 2**-62 and 2**-37.
_SINH = (
    0.16666666666666677, 0.008333333333321579, 0.00019841269886269528, 2.755724405709551e-06,
    2.510909242480022e-08,
), (0.1666666716337204, 0.008333289064466953, 0.00019905006047338247)  # fmt: skip
# (cosh(r) - 1) / r**2 in r**2: errors of cosh 2**-71 and 2**-34.
_COSH = (
    0.5, 0.04166666666666671, 0.001388888888886385, 2.480158736355726e-05, 2.755724168942195e-07,
    2.092446720387192e-09,
), (0.5, 0.041666265577077866, 0.0013946271501481533)  # fmt: skip


# (tanh(x) / x - 1) / x**2 in x**2, |x| <= 0.55: relative error of tanh 2**-30, single only.
_TANH = (
    -0.33333319425582886, 0.13332602381706238, -0.05385385826230049, 0.02107776142656803,
    -0.006282482761889696,
)  # fmt: skip


class _Reduced(NamedTuple):
    """``k log(2) + r + low``, with |r| at most log(2) / 2 and `low` what `r` lost to rounding."""

    k: Value
    r: Value
    low: Value


def _reduce(x: Value, times: float = 1.0) -> _Reduced:
    """Reduce `x * times` to ``k log 2 + r``, where `times` is a power of two."""
    high, low = x.by_format(*LOG_2)
    k, _ = nearest(x, times * LOG2_E)
    first = fma(k, -high, x if times == 1.0 else x * times)
    r = fma(k, -low, first)
    return _Reduced(k, r, fma(k, -low, first - r))


@word
@libm("exp")
def exp(x: Value) -> Value:
    """The exponential."""
    k, r, _ = _reduce(_clipped(x))
    return scale_near(_rise(r), k)


def _rise(r: Value) -> Value:
    """``exp(r) - 1`` of a reduced `r`, to the last digit of 1."""
    return _curve(r, r)


def _curve(r: Value, more: Value) -> Value:
    """``exp(r) - 1 - r + more``."""
    return fma(r * r, polynomial(r, r.by_format(*_EXP)), more)


@libm("exp")
def exp_of_normal(x: Value) -> Value:
    """The exponential where it is a normal number, anything elsewhere; NaN stays."""
    k, r, _ = _reduce(x)
    s = power_of_two(k)
    return fma(_rise(r), s, s)


@word
def exp_product(x: Value, y: Value) -> Value:
    """``exp(x * y)``, of the product before it is rounded.

    The first step of the reduction takes it; what is out of range is known by the rounded one.
    """
    if not fused():
        return _corrected(x, y)
    k, _ = nearest(_clipped(x * y), LOG2_E)
    high, low = x.by_format(*_LOG_2_SHORT)
    r = fma(k, -low, clamp(fma(x, y, k * -high), -1.0, 1.0))
    return scale_near(_rise(r), k)


def _corrected(x: Value, y: Value) -> Value:
    """``exp(x * y)`` of the rounded product, times one plus what rounding took from it."""
    product = x * y
    low = two_product_error(x, y, product)
    low = where(fabs(low) < 2.0**-10, low, 0.0)  # more only where the whole is 0 or infinite
    out = exp(product)
    return where(out < inf, fma(out, low, out), out)


@word
def exp_minus_square(x: Value) -> Value:
    """``exp(-x * x)``, likewise; bounds of `x` are all that its range needs."""
    if not fused():
        return _corrected(-x, x)
    most, up = x.by_format((27.5, 100.0), (10.5, 40.0))
    x = fabs(x)
    x = where(x > most, most, x)
    k, _ = nearest(x * x, -LOG2_E)
    high, low = x.by_format(*_LOG_2_SHORT)
    r = fma(k, -low, fma(-x, x, k * -high))
    s = power_of_two(k, up)
    return fma(_rise(r), s, s) * 2.0**-up


def _clipped(x: Value) -> Value:
    """`x` cut to where `exp` is neither 0 nor infinite, and a little more."""
    return clamp(x, *x.by_format((-746.0, 709.9), (-104.5, 88.9)))


def exp_parts(x: Value, low: Value) -> tuple[DoubleDouble, Value]:
    """``exp(x + low)`` as a double-double near 1 and its scale, a power of two; `x` is not huge."""
    k, r, lost = _reduce(x)
    r, low = fast_two_sum(r, lost + low)
    one = fast_two_sum(x.like(1.0), r)
    rest = _curve(r, low)
    return fast_two_sum(one.high, one.low + rest), k


@word
@libm("exp2")
def exp2(x: Value) -> Value:
    """Two to a power; whole powers are exact."""
    x = clamp(x, *x.by_format((-1076.0, 1025.0), (-151.0, 129.0)))
    return exp2_sum(x, 0.0)


def exp2_sum(x: Value, low: Value | float, by: Value | None = None) -> Value:
    """``2**(x + low)`` for a small `low` and an `x` that is not huge; times `by`."""
    k, _ = nearest(x, 1.0)
    r = x - k + low if isinstance(low, Value) else x - k
    out = fma(r * r, polynomial(r, x.by_format(*_EXP2)), r * LOG_2[0][0])
    return scale_near(out, k) if by is None else scale_by(out + 1.0, k, by)


def _minus_one(r: Value, rest: Value, s: Value, half: float) -> DoubleDouble:
    """``s (1 + r + rest) - half``, with what it loses to rounding, for `s` a power of two."""
    one = s - half
    high = fma(s, r, one)
    return fast_two_sum(high, fma(s, rest, fma(s, r, one - high)))


@word
@libm("expm1")
def expm1(x: Value) -> Value:
    """``exp(x) - 1`` without cancellation; reduced as `exp` is, which is its slope."""
    k, r, low = _reduce(_clipped(x))
    rest = _curve(r, low)
    least = x.by_format(-60.0, -30.0)
    s = power_of_two(where(k < least, least, k) - 1.0)
    out = _minus_one(r, rest, s, 0.5).high
    return where(fabs(x) < x.by_format(2.0**-54, 2.0**-25), x, out + out)


class Twice(NamedTuple):
    """``e = exp(-2 |x|)`` as ``(1 + r + rest) factor``; what tanh and its slope have in common.

    Steps below are 2**-53 of their results: 1 + e is at least 1.
    """

    r: Value
    rest: Value
    factor: Value  # a power of two; subnormal where `e` is

    @staticmethod
    def of(x: Value) -> Twice:
        """Reduced as `exp` reduces it; in single precision `r` is all of it."""
        size = fabs(x)
        if x.double:
            k, r, low = _reduce(where(size > 373.0, 373.0, size), -2.0)
            rest = _curve(r, low)
            return Twice(r, rest, power_of_two(k, 60.0) * 2.0**-60)
        size = where(size > 52.25, 52.25, size)
        k, _ = nearest(size, -2.0 * LOG2_E)
        r = fma(size, -2.0 * _LOG2_E_SINGLE[0], -k)
        r = fma(size, -2.0 * _LOG2_E_SINGLE[1], r)
        r = r * polynomial(r, (LOG_2[0][0], *_EXP2[1]))
        return Twice(r, x.like(0.0), power_of_two(k, 30.0) * 2.0**-30)

    def minus_one(self) -> DoubleDouble:
        """``e - 1``."""
        return _minus_one(self.r, self.rest, self.factor, 1.0)

    def plus_one(self) -> Value:
        """``e + 1``."""
        if self.r.double:
            return self.minus_one().high + 2.0
        return fma(self.r + 1.0, self.factor, 1.0)

    def whole(self, times: float = 1.0) -> Value:
        """``times * e``."""
        factor = self.factor if times == 1.0 else self.factor * times
        return fma(self.r + self.rest if self.r.double else self.r, factor, factor)


@word
@libm("tanh")
def tanh(x: Value) -> Value:
    """``-t / (t + 2)`` with ``t = expm1(-2 |x|)`` (fdlibm, s_tanh.c, has the other sign)."""
    if not x.double:
        return copysign(_tanh_single(fabs(x)), x)
    e = Twice.of(x)
    t, under = e.minus_one(), e.plus_one()
    inverse = 1.0 / under
    out = t.high * inverse
    return copysign(fma(fma(-out, under, t.high) + t.low, inverse, out), x)


def _tanh_single(x: Value) -> Value:
    """A polynomial, and ``1 - 2 e / (1 + e)`` from 0.55 on, where errors of exp shrink."""
    z = x * x
    near = fma(x * z, polynomial(z, _TANH), x)
    e = Twice.of(x)
    inverse = 1.0 / e.plus_one()
    far = fma((e.r + 1.0) * e.factor, inverse * -2.0, 1.0)
    return where(x < 0.55, near, far)


def _halves(x: Value) -> tuple[Value, Value, Value, Value]:
    """For x >= 0: sinh(r), cosh(r) - 1, ``2**(k - 2)`` and ``2**(-k - 2)``."""
    k, r, low = _reduce(clamp(x, 0.0, x.by_format(710.6, 89.6)))
    z = r * r
    sine = fma(r * z, polynomial(z, x.by_format(*_SINH)), low) + r
    least = float(1 - x.format.bias)
    down = -2.0 - k
    down = power_of_two(where(down < least, least, down))
    return sine, z * polynomial(z, x.by_format(*_COSH)), power_of_two(k - 2.0), down


@word
@libm("sinh")
def sinh(x: Value) -> Value:
    """By the sum formula for ``k log(2) + r``, so that nothing is divided and nothing cancels."""
    size = fabs(x)
    sine, rise, up, down = _halves(size)
    minus = fast_two_sum(up, -down)
    out = fma(sine, up + down, fma(rise, minus.high, minus.low)) + minus.high
    return copysign(where(size < x.by_format(2.0**-28, 2.0**-13), size, out + out), x)


@word
@libm("cosh")
def cosh(x: Value) -> Value:
    """Hyperbolic cosine, computed as `sinh` is."""
    sine, rise, up, down = _halves(fabs(x))
    plus = fast_two_sum(up, down)
    out = fma(sine, up - down, fma(rise, plus.high, plus.low)) + plus.high
    return out + out


@word
def expit(x: Value) -> Value:
    """The logistic function ``1 / (1 + exp(-x))``, through ``exp(-|x|)``, which never overflows."""
    if not fused():
        e = exp(-fabs(x))
        return where(x < 0.0, e, 1.0) / (e + 1.0)
    e, lost = _falling(x)
    under = fast_two_sum(x.like(1.0), e)
    over = DoubleDouble(where(x < 0.0, e, 1.0), where(x < 0.0, lost, 0.0))
    return quotient(over, DoubleDouble(under.high, under.low + lost))


def _falling(x: Value) -> DoubleDouble:
    """``exp(-|x|)``."""
    k, r, low = _reduce(clamp(-fabs(x), *x.by_format((-746.0, 0.0), (-104.5, 0.0))))
    p = fast_two_sum(x.like(1.0), _curve(r, low) + r)
    return DoubleDouble(scale(p.high, k), where(k > -100.0, p.low * power_of_two(k), 0.0))


@word
def logistic_slope(x: Value) -> Value:
    """``h (1 - h)``, ``h = e / (1 + e)``, ``e = exp(-|x|)``, as `expit` has it."""
    e = _falling(x).high if fused() else exp(-fabs(x))
    share = e * (1.0 / (1.0 + e))
    return fma(-share, share, share)

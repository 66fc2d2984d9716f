"""Exponentials and hyperbolic functions.

Arguments are reduced by multiples of log(2) in two parts (Cody and Waite, Software Manual for the
Elementary Functions, 1980, chapter 6), of which fused operations lose nothing (Muller, Elementary
Functions, 3rd ed., 2016, section 11.2).
"""

from __future__ import annotations

from typing import NamedTuple

from .value import (
    Pair,
    Value,
    clamp,
    copysign,
    fabs,
    fma,
    fused,
    libm,
    nearest,
    polynomial,
    power_of_two,
    quotient,
    scale,
    total,
    where,
)

LOG2_E = 1.4426950408889634
_LOG_2 = (0.6931471805599453, 2.3190468138462996e-17), (0.6931471824645996, -1.9046542121259336e-09)

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


def _reduce(x: Value) -> _Reduced:
    high, low = x.pick(*_LOG_2)
    k, _ = nearest(x, LOG2_E)
    first = fma(k, -high, x)
    r = fma(k, -low, first)
    return _Reduced(k, r, fma(k, -low, first - r))


@libm("exp")
def exp(x: Value) -> Value:
    """The exponential."""
    k, r, _ = _reduce(clamp(x, *x.pick((-746.0, 711.0), (-104.5, 89.5))))
    return scale(fma(r * r, polynomial(r, x.pick(*_EXP)), r) + 1.0, k)


def exp_parts(x: Value, low: Value) -> tuple[Pair, Value]:
    """``exp(x + low)`` as a pair near 1 and the power of two it is scaled by; `x` is not huge."""
    k, r, lost = _reduce(x)
    r, low = total(r, lost + low)
    one = total(x.like(1.0), r)
    rest = fma(r * r, polynomial(r, x.pick(*_EXP)), low)
    return total(one.high, one.low + rest), k


@libm("exp2")
def exp2(x: Value) -> Value:
    """Two to a power; whole powers are exact."""
    x = clamp(x, *x.pick((-1076.0, 1025.0), (-151.0, 129.0)))
    return exp2_sum(x, 0.0)


def exp2_sum(x: Value, low: Value | float) -> Value:
    """``2**(x + low)`` for a small `low` and an `x` that is not huge."""
    k, _ = nearest(x, 1.0)
    r = x - k + low if isinstance(low, Value) else x - k
    return scale(fma(r * r, polynomial(r, x.pick(*_EXP2)), r * _LOG_2[0][0]) + 1.0, k)


def _minus_one(x: Value, half: float) -> Pair:
    """``half * (exp(x) - 1)``, with what ``2**k (1 + r) - 1`` loses to rounding."""
    k, r, low = _reduce(x)
    rest = fma(r * r, polynomial(r, x.pick(*_EXP)), low)
    s = power_of_two(k) if half == 1.0 else power_of_two(k - 1.0)
    one = s - half
    high = fma(s, r, one)
    return total(high, fma(s, rest, fma(s, r, one - high)))


@libm("expm1")
def expm1(x: Value) -> Value:
    """``exp(x) - 1`` without cancellation."""
    inner = clamp(x, *x.pick((-40.0, 709.9), (-20.0, 88.9)))
    out = _minus_one(inner, 0.5).high
    return where(fabs(x) < x.pick(2.0**-54, 2.0**-25), x, out + out)


@libm("tanh")
def tanh(x: Value) -> Value:
    """``t / (t + 2)`` with ``t = expm1(2 |x|)`` (fdlibm, s_tanh.c)."""
    size = fabs(x)
    if not x.double:
        return copysign(_tanh_single(size), x)
    twice = size + size
    t = _minus_one(where(twice > 44.0, 44.0, twice), 1.0)
    under = t.high + 2.0
    return copysign(quotient(t, Pair(under, (2.0 - under) + t.high + t.low)), x)


def _tanh_single(x: Value) -> Value:
    """A polynomial, and ``1 - 2 / (exp(2 x) + 1)`` from 0.55 on, where errors of exp shrink."""
    z = x * x
    near = fma(x * z, polynomial(z, _TANH), x)
    x = where(x > 10.0, 10.0, x)
    k, _ = nearest(x, 2.0 * LOG2_E)
    r = fma(x, 2.0 * LOG2_E, -k)
    e = fma(r, polynomial(r, (_LOG_2[0][0], *_EXP2[1])), 1.0)
    return where(x < 0.55, near, 1.0 - 2.0 / fma(e, power_of_two(k), 1.0))


def _halves(x: Value) -> tuple[Value, Value, Value, Value]:
    """For x >= 0: sinh(r), cosh(r) - 1, ``2**(k - 2)`` and ``2**(-k - 2)``."""
    k, r, low = _reduce(clamp(x, 0.0, x.pick(710.6, 89.6)))
    z = r * r
    sine = fma(r * z, polynomial(z, x.pick(*_SINH)), low) + r
    least = float(1 - x.format.bias)
    down = -2.0 - k
    down = power_of_two(where(down < least, least, down))
    return sine, z * polynomial(z, x.pick(*_COSH)), power_of_two(k - 2.0), down


@libm("sinh")
def sinh(x: Value) -> Value:
    """By the sum formula for ``k log(2) + r``, so that nothing is divided and nothing cancels."""
    size = fabs(x)
    sine, rise, up, down = _halves(size)
    minus = total(up, -down)
    out = fma(sine, up + down, fma(rise, minus.high, minus.low)) + minus.high
    return copysign(where(size < x.pick(2.0**-28, 2.0**-13), size, out + out), x)


@libm("cosh")
def cosh(x: Value) -> Value:
    """As `sinh`."""
    sine, rise, up, down = _halves(fabs(x))
    plus = total(up, down)
    out = fma(sine, up - down, fma(rise, plus.high, plus.low)) + plus.high
    return out + out


def expit(x: Value) -> Value:
    """The logistic function ``1 / (1 + exp(-x))``, through ``exp(-|x|)``, which never overflows."""
    if not fused():
        e = exp(-fabs(x))
        return where(x < 0.0, e, 1.0) / (e + 1.0)
    k, r, low = _reduce(clamp(-fabs(x), *x.pick((-746.0, 0.0), (-104.5, 0.0))))
    p = total(x.like(1.0), fma(r * r, polynomial(r, x.pick(*_EXP)), low) + r)
    lost = where(k > -100.0, p.low * power_of_two(k), 0.0)
    e = scale(p.high, k)
    under = total(x.like(1.0), e)
    over = Pair(where(x < 0.0, e, 1.0), where(x < 0.0, lost, 0.0))
    return quotient(over, Pair(under.high, under.low + lost))

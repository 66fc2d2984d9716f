"""Logarithms: ``x = 2**k (1 + f)`` with ``1 + f`` between sqrt(1/2) and sqrt(2).

log(1 + f) = 2 atanh(s) with s = f / (2 + f), written as f - f**2/2 + s (f**2/2 + R(s**2)) so that
the first terms are exact (fdlibm, e_log.c and s_log1p.c; FreeBSD, e_log2.c and e_log10.c):
docs/decisions/elementary-functions.md.
"""

from __future__ import annotations

from math import inf, nan

from ....named_tuples import NamedTuple
from .constants import LOG_2
from .exponential import exp, exp2
from .value import (
    Value,
    copysign,
    fabs,
    fast_two_sum,
    fma,
    libm,
    polynomial,
    power_of_two,
    sqrt,
    two_sum,
    where,
    word,
)

# 2 atanh(s) / s - 2 over s**2, in s**2: relative error of the logarithm 2**-59.
_ATANH = (
    0.6666666666666734, 0.3999999999941429, 0.28571428742497185, 0.2222219856036249,
    0.18183565056575893, 0.1531403049771596, 0.14796162189243067,
)  # fmt: skip
# (log(1 + f) - f + f**2 / 2) / f**3, relative error of the logarithm 2**-30.
_CUBIC = (
    0.3333331048488617, -0.24999986588954926, 0.20002231001853943, -0.16669273376464844,
    0.14218562841415405, -0.12383919954299927, 0.11873316764831543, -0.11792489886283875,
    0.06917727738618851,
)  # fmt: skip
_PER_LOG_2 = (
    (1.4426950408889634, 2.0355273740931033e-17),
    (1.4426950216293335, 1.925963033500011e-08),
)
_PER_LOG_10 = (
    (0.4342944819032518, 1.098319650216765e-17),
    (0.4342944920063019, -1.0103049952192578e-08),
)
_LOG10_2 = (
    (0.3010299956639812, -2.8037281277851704e-18),
    (0.3010300099849701, -1.432098883924482e-08),
)
_ROOT_HALF = 0x3FE6A09E667F3BCD, 0x3F3504F3  # bits of sqrt(1/2)


def _split(x: Value, offset: Value | float) -> tuple[Value, Value]:
    """``k - offset`` and `f`, both as real numbers, of a positive normal number."""
    form = x.format
    begin, one = x.by_format(*_ROOT_HALF), form.bias << form.digits
    moved = x.bits() + (one - begin)
    magic = (form.bias + form.digits) << form.digits  # bits of 2**digits
    k = ((moved >> form.digits) | magic).real(form) - (offset + (2.0**form.digits + form.bias))
    return k, ((moved & ((1 << form.digits) - 1)) + begin).real(form) - 1.0


def split(x: Value) -> tuple[Value, Value]:
    """`k` and `f` of a positive normal number, garbage of any other."""
    return _split(x, 0.0)


def split_any(x: Value) -> tuple[Value, Value]:
    """Split as `split` does, subnormal numbers too."""
    up = float(x.format.digits + 2)
    tiny = x < x.format.smallest
    raised = fma(x, 2.0**up, 0.0)  # of either zero it is 0.0
    return _split(where(tiny, raised, x), where(tiny, up, x.like(0.0)))


class _Terms(NamedTuple):
    """``f - half + rest`` is log(1 + f)."""

    half: Value
    rest: Value


def _terms(f: Value) -> _Terms:
    """By atanh, or in single precision, where a division costs more, by a polynomial in `f`."""
    square = f * f
    half = square * 0.5
    if not f.double:
        return _Terms(half, square * f * polynomial(f, _CUBIC))
    s = f / (f + 2.0)
    z = s * s
    return _Terms(half, s * fma(z, polynomial(z, _ATANH), half))


def _defined(x: Value, out: Value, pole: float = 0.0) -> Value:
    """-inf at the pole, NaN below it, inf at inf."""
    out = where(x < inf, out, x)
    return where(x > pole, out, where(x.equals(pole), x.like(-inf), nan))


def _flagged(factor: Value, wrong: Value) -> Value:
    """A factor, huge where the result is `wrong` and replaced in the end: its product overflows.

    That sets a flag of the processor, as the C library does.
    """
    return where(wrong, factor.by_format(1.7e308, 3.4e38), factor)


@word
@libm("log")
def log(x: Value) -> Value:
    """The natural logarithm."""
    k, f = split_any(x)
    high, low = x.by_format(*LOG_2)
    half, rest = _terms(f)
    out = fma(k, _flagged(x.like(high), x <= 0.0), f - (half - fma(k, low, rest)))
    return where(x >= 0.0, where(x < inf, out, x), nan)  # k < 0 of zero: that is -inf by now


def _log1p_sum(x: Value, low: Value | float, wrong: Value | None = None) -> Value:
    """``log(1 + x + low)`` for -1 < x < inf and a `low` of an ulp of `x` or so.

    What 1 + x loses to rounding is divided by 1 + f to second order: it is an ulp at most.
    """
    u = x + 1.0
    lost = where(x > 1.0, 1.0 - (u - x), x - (u - 1.0)) + low
    k, f = split(u)
    same = k.equals(0.0)
    lost = where(same, low, lost * power_of_two(-where(k > 100.0, 100.0, k)))
    lost = lost * fma(f, f - 1.0, 1.0)
    f = where(same, x, f)
    high, low = x.by_format(*LOG_2)
    half, rest = _terms(f)
    factor = x.like(high) if wrong is None else _flagged(x.like(high), wrong)
    return copysign(fma(k, factor, f - (half - (fma(k, low, lost) + rest))), x)


@libm("log1p")
def log1p_finite(x: Value) -> Value:
    """``log(1 + x)`` for -1 < x < inf."""
    return _log1p_sum(x, 0.0)


@word
@libm("log1p")
def log1p(x: Value) -> Value:
    """``log(1 + x)`` without cancellation."""
    return _defined(x, _log1p_sum(x, 0.0, x <= -1.0), -1.0)


def _in_base(x: Value, one: tuple[float, float], unit: tuple[float, float]) -> Value:
    """The logarithm with log(2) as `one` in two parts, and ``1 / log(base)`` likewise in `unit`."""
    k, f = split_any(x)
    half, rest = _terms(f)
    high = f - half
    low = (f - high) - half + rest
    main = high * unit[0]
    low = fma(low, unit[0], fma(high, unit[1], fma(high, unit[0], -main)))
    total = fma(k, _flagged(x.like(one[0]), x <= 0.0), main)
    return _defined(x, total + (fma(k, one[1], low) + (fma(k, one[0], -total) + main)))


@word
@libm("log2")
def log2(x: Value) -> Value:
    """The logarithm to base 2."""
    return _in_base(x, (1.0, 0.0), x.by_format(*_PER_LOG_2))


@word
@libm("log10")
def log10(x: Value) -> Value:
    """The logarithm to base 10."""
    return _in_base(x, x.by_format(*_LOG10_2), x.by_format(*_PER_LOG_10))


@word
def logaddexp(x: Value, y: Value) -> Value:
    """``log(exp(x) + exp(y))`` as NumPy has it (npymath's npy_logaddexp)."""
    d = x - y
    out = where(d > 0.0, x, y) + log1p_finite(exp(-fabs(d)))
    return where(x.equals(y), x + LOG_2[0][0], out)


@word
def logaddexp2(x: Value, y: Value) -> Value:
    """``log2(2**x + 2**y)``."""
    d = x - y
    out = fma(log1p_finite(exp2(-fabs(d))), 1.4426950408889634, where(d > 0.0, x, y))
    return where(x.equals(y), x + 1.0, out)


# --- inverse hyperbolic functions: logarithms of sums, handed over with their low parts ---------


def _from_one(x: Value, t: Value, root: Value) -> Value:
    """``log(1 + t + root)`` for root >= 0, t of either size; ``log(2 x)`` where `x` is large."""
    large = x > x.by_format(2.0**56, 2.0**27)
    high, low = two_sum(t, root)
    out = _log1p_sum(where(large, x, high), where(large, 0.0, low))
    return where(x < inf, where(large, out + LOG_2[0][0], out), x)


@word
@libm("asinh")
def asinh(x: Value) -> Value:
    """``log(1 + a + a**2 / (1 + sqrt(1 + a**2)))``, a = |x| (fdlibm, s_asinh.c)."""
    a = fabs(x)
    square = a * a
    return copysign(_from_one(a, a, square / (sqrt(square + 1.0) + 1.0)), x)


@word
@libm("acosh")
def acosh(x: Value) -> Value:
    """``log(1 + t + sqrt(2 t + t**2))``, t = x - 1 (fdlibm, e_acosh.c)."""
    t = x - 1.0
    return where(x < 1.0, nan, _from_one(x, t, sqrt(fma(t, t, t + t))))


@word
@libm("atanh")
def atanh(x: Value) -> Value:
    """``log(1 + 2 a / (1 - a)) / 2``, a = |x| (fdlibm, e_atanh.c), the quotient a double-double."""
    a = fabs(x)
    half, under = _flagged(a, a > 1.0), fast_two_sum(x.like(1.0), -a)
    over = half + half
    inverse = 1.0 / under.high
    high = over * inverse
    low = (fma(-high, under.high, over) - high * under.low) * inverse
    out = where(a < 1.0, _log1p_sum(high, low) * 0.5, where(a.equals(1.0), x.like(inf), nan))
    return copysign(out, x)

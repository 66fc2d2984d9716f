"""Slopes to the last digits, from the function's parts: docs/decisions/slopes-keep-their-digits.md.

`fdiff/ops/entrywise/accurate_partials.py` uses them. Equal instructions of a function and of its
slope are merged once both are inlined: the slope of tanh adds six to the instructions of tanh.
"""

from __future__ import annotations

from math import inf

from .constants import LOG_2
from .exponential import Twice, exp, exp2
from .logarithm import log
from .power import Scaled, exponent_sum, power
from .value import Formula, Value, fabs, fma, fused, sqrt, two_sum, where, word


@word
def sech_squared(x: Value) -> Value:
    """``4 h (1 - h)``, ``h = e / (1 + e)``, ``e = exp(-2 |x|)``, as `tanh` has it.

    Errors of h do not grow on the way, as errors of ``4 e / (1 + e)**2`` do.
    """
    if not fused():
        e = exp(-fabs(x))
        root = (e + e) / fma(e, e, 1.0)
        return root * root
    e = Twice.of(x)
    share = e.whole() * (1.0 / e.plus_one())
    return fma(-share, share, share) * 4.0


def _shares(x: Value, y: Value, of: Formula, unit: float) -> tuple[Value, Value]:
    """Shares of both in ``b**x + b**y``, from ``b**-|x - y|``, as `logaddexp` has it."""
    d, lost = two_sum(x, -y)
    lost = where(fabs(d) < inf, lost, 0.0)
    e = of(-fabs(d))
    inverse = 1.0 / (e + 1.0)
    first, second = where(d < 0.0, e, 1.0) * inverse, where(d < 0.0, e.like(1.0), e) * inverse
    more = first * second * (lost * unit)
    tie = x.equals(y) & fabs(x).equals(inf)
    whole = where(x > 0.0, x.like(1.0), 0.0)
    return where(tie, whole, first + more), where(tie, whole, second - more)


@word
def first_share(x: Value, y: Value) -> Value:
    """``exp(x) / (exp(x) + exp(y))``."""
    return _shares(x, y, exp, 1.0)[0]


@word
def second_share(x: Value, y: Value) -> Value:
    """``exp(y) / (exp(x) + exp(y))``."""
    return _shares(x, y, exp, 1.0)[1]


@word
def first_share2(x: Value, y: Value) -> Value:
    """``2**x / (2**x + 2**y)``."""
    return _shares(x, y, exp2, LOG_2[0][0])[0]


@word
def second_share2(x: Value, y: Value) -> Value:
    """``2**y / (2**x + 2**y)``."""
    return _shares(x, y, exp2, LOG_2[0][0])[1]


@word
def power_sum(x: Value, y: Value, z: Value) -> Value:
    """``x**(y + z)`` of the sum as a double-double."""
    high, low = two_sum(y, z)
    if fused():
        return exponent_sum(x, high, low)
    out = power(x, high)
    more = where(low.equals(0.0), 0.0, low * log(fabs(x)))
    return where(fabs(more) < 1.0, fma(out, more, out), out)


@word
def over_one_plus_square(x: Value) -> Value:
    """``1 / (1 + x**2)``; ``(1 / x)**2`` where that is the same, so that no square overflows."""
    far = fabs(x) > x.by_format(2.0**27, 2.0**13)
    inverse = 1.0 / where(far, x, fma(x, x, 1.0))
    return inverse * where(far, inverse, 1.0)


@word
def over_root_one_plus_square(x: Value) -> Value:
    """``1 / sqrt(1 + x**2)``, by `asinh`'s root; ``1 / |x|`` where that is the same."""
    size = fabs(x)
    far = size > x.by_format(2.0**27, 2.0**13)
    return 1.0 / where(far, size, sqrt(size * size + 1.0))


@word
def power_slope(x: Value, y: Value, z: Value) -> Value:
    """``y x**(y + z)``, also where only the power leaves the range; 0 where y is."""
    out = exponent_sum(x, *two_sum(y, z), by=y) if fused() else y * power_sum(x, y, z)
    return where(y.equals(0.0), y * y, out)


def _direction(x: Value, y: Value, *, second: bool) -> Value:
    near = Scaled.of(x, y)
    root = near.root()
    return where(root.equals(0.0), root, (y if second else x) * near.factor / root)


@word
def first_direction(x: Value, y: Value) -> Value:
    """``x / hypot(x, y)``, 0 at the origin; both scaled as `hypot` scales them."""
    return _direction(x, y, second=False)


@word
def second_direction(x: Value, y: Value) -> Value:
    """``y / hypot(x, y)``."""
    return _direction(x, y, second=True)


def _angle_slope(x: Value, y: Value, *, second: bool) -> Value:
    near = Scaled.of(x, y)
    square = near.square()
    zero = square.equals(0.0)
    return where(zero, square, (y if second else x) * near.factor / square) * near.factor


@word
def first_angle_slope(x: Value, y: Value) -> Value:
    """``x / (x**2 + y**2)``, 0 at the origin."""
    return _angle_slope(x, y, second=False)


@word
def second_angle_slope(x: Value, y: Value) -> Value:
    """``y / (x**2 + y**2)``."""
    return _angle_slope(x, y, second=True)

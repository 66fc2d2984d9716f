"""Inverse trigonometric functions: docs/decisions/elementary-functions.md."""

from __future__ import annotations

from math import inf

from .constants import HALF_PI
from .value import Value, copysign, fabs, libm, polynomial, sqrt, where, word

_HALF_PI = HALF_PI[0][:2], HALF_PI[1][:2]  # two parts suffice here
# (asin(s) / s - 1) / s**2 in s**2 on [0, 1/4]: relative errors 2**-56 and 2**-32.
_ASIN = (
    0.16666666666665378, 0.07500000000344621, 0.04464285682208631, 0.03038195939182825,
    0.022371752012389473, 0.01735979464512745, 0.013884359366361097, 0.012174888805806298,
    0.006503733402389057, 0.019593800079480923, -0.016325900408333177, 0.03198118033244188,
), (
    0.16666659712791443, 0.07500512152910233, 0.04451549053192139, 0.031819675117731094,
    0.014394303783774376, 0.03757753223180771,
)  # fmt: skip
# (atan(t) / t - 1) / t**2 in t**2, |t| <= 1/2: relative errors 2**-58 and 2**-32.
_ATAN = (
    -0.33333333333332993, 0.1999999999990526, -0.14285714276556727, 0.1111111066640423,
    -0.09090896400517115, 0.07692076167468526, -0.0666383200029354, 0.05858433762681332,
    -0.05122566220105148, 0.04187978969155425, -0.027457211854911418, 0.01013153640218395,
), (
    -0.333333283662796, 0.1999949812889099, -0.14272230863571167, 0.10942196100950241,
    -0.07988434284925461, 0.03878178820014,
)  # fmt: skip


def _arcsine(x: Value) -> tuple[Value, Value, Value]:
    """Whether |x| < 1/2; then |x|, else sqrt((1 - |x|) / 2), as s; and asin(s) - s."""
    size = fabs(x)
    small = size < 0.5
    z = where(small, x * x, (1.0 - size) * 0.5)
    s = where(small, size, sqrt(z))
    return small, s, s * z * polynomial(z, x.by_format(*_ASIN))


def _subtracted(base: Value | float, rest: Value | float, s: Value, more: Value) -> Value:
    """``base + rest - s - more``, of which the first difference is made up for its rounding."""
    r = base - s
    return r + ((base - r - s) + (rest - more))


@word
@libm("asin")
def asin(x: Value) -> Value:
    """By asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)) from 1/2 on (fdlibm, e_asin.c)."""
    small, s, more = _arcsine(x)
    out = where(small, s + more, _subtracted(*x.by_format(*_HALF_PI), s + s, more + more))
    return copysign(out, x)


@word
@libm("acos")
def acos(x: Value) -> Value:
    """Inverse cosine, computed as `asin` is (fdlibm, e_acos.c)."""
    small, s, more = _arcsine(x)
    high, low = x.by_format(*_HALF_PI)
    sign = where(x < 0.0, -1.0, x.like(1.0))
    base = where(small, high, where(x < 0.0, 2.0 * high, x.like(0.0)))
    rest = where(small, low, where(x < 0.0, 2.0 * low, x.like(0.0)))
    factor = where(small, sign, sign * -2.0)
    return _subtracted(base, rest, s * factor, more * factor)


def _octant(y: Value, x: Value) -> tuple[Value, Value, Value, Value, Value]:
    """For y, x >= 0: which multiple of pi/4 atan(y / x) is next to, and atan of the rest.

    tan(a - pi/4) is (y - x) / (y + x): one division serves all (fdlibm, s_atan.c, with three
    intervals in place of five). Between 1/2 and 2 the difference is exact.
    """
    steep, middle = y > x * 2.0, y > x * 0.5
    over = where(steep, -x, where(middle, y - x, y))
    under = where(steep, y, where(middle, y + x, x))
    t = over / where(under.equals(0.0), 1.0, under)
    z = t * t
    high, low = y.by_format(*_HALF_PI)
    eighths = where(steep, y.like(1.0), where(middle, y.like(0.5), y.like(0.0)))
    return eighths * high, eighths * low, t, t * z * polynomial(z, y.by_format(*_ATAN)), eighths


@word
@libm("atan")
def atan(x: Value) -> Value:
    """The arc tangent."""
    base, rest, t, more, _ = _octant(fabs(x), x.like(1.0))
    return copysign(_subtracted(base, rest, -t, -more), x)


@word
@libm("atan2")
def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), as C99 has it, quadrants and signed zeros included."""
    up, right = fabs(y), fabs(x)
    great = 2.0 ** (y.format.bias - 2)
    shrink = where((up > great) | (right > great), y.like(0.125), y.like(1.0))
    infinite = up.equals(inf) & right.equals(inf)
    up = where(infinite, 1.0, up * shrink)
    right = where(infinite, 1.0, right * shrink)
    base, rest, t, more, _ = _octant(up, right)
    high, low = y.by_format(*_HALF_PI)
    behind = copysign(x.like(1.0), x) < 0.0
    base = where(behind, 2.0 * high - base, base)
    rest = where(behind, 2.0 * low - rest, rest)
    out = _subtracted(base, rest, where(behind, t, -t), where(behind, more, -more))
    return copysign(where(x.is_nan() | y.is_nan(), x + y, out), y)

"""General powers, cube roots and lengths."""

from __future__ import annotations

from math import inf, nan

from ....named_tuples import NamedTuple
from .exponential import exp2_sum
from .logarithm import split_any
from .value import (
    F4,
    F8,
    DoubleDouble,
    Value,
    clamp,
    copysign,
    fabs,
    fast_two_sum,
    fma,
    libm,
    nearest,
    polynomial,
    power_of_two,
    product,
    sqrt,
    where,
    word,
)

# log2((1 + s) / (1 - s)) = s (K0 + z (K1 + z W(z))), z = s**2: relative error 2**-66, and 2**-45
# with the second polynomial in place of K1 + z W(z).
_K0 = (2.8853900817779268, 4.0710547481862066e-17)
_K1 = (0.9617966939259756, 5.0577616648125907e-17)
_W = (
    0.5770780163556182, 0.4121985830918533, 0.3205989022899631, 0.26230769960986117,
    0.22198407114850022, 0.19125337297886946, 0.19040271490975538,
)  # fmt: skip
_SHORT = (
    0.9617966940583769, 0.577077952951739, 0.4122084300621865, 0.3199334959490892,
    0.28255934398387567,
)  # fmt: skip
# m**(-1/3) between sqrt(1/2) and sqrt(2): relative error 2**-11.9.
_ROOT = (1.7307201608881708, -1.285659753660332, 0.713173339424421, -0.1584574533589223)


def _log2(x: Value) -> DoubleDouble:
    """log2 of a positive number to about 2**-65, as a double-double."""
    k, f = split_any(x)
    under = f + 2.0
    inverse = 1.0 / under
    high = f * inverse
    lost = f - (under - 2.0)
    s = DoubleDouble(high, inverse * fma(-high, lost, fma(-high, under, f)))
    square = s.high * s.high
    z = DoubleDouble(square, fma(s.high, s.high, -square) + s.high * s.low * 2.0)
    tail = square * polynomial(square, _W)
    second = fast_two_sum(x.like(_K1[0]), tail)
    second = DoubleDouble(second.high, second.low + _K1[1])
    term = product(z, second)
    first = fast_two_sum(x.like(_K0[0]), term.high)
    first = DoubleDouble(first.high, first.low + (term.low + _K0[1]))
    fraction = product(s, first)
    out = fast_two_sum(k, fraction.high)  # k is 0 or at least 1 in size, the fraction at most 1/2
    return fast_two_sum(out.high, out.low + fraction.low)


def _log2_short(x: Value) -> DoubleDouble:
    """log2 to about 2**-44, for results in single precision."""
    k, f = split_any(x)
    s = f / (f + 2.0)
    z = s * s
    return DoubleDouble(fma(s, fma(z, polynomial(z, _SHORT), _K0[0]), k), x.like(0.0))


def _raise(
    x: Value,
    y: Value,
    log: DoubleDouble,
    more: Value | None = None,
    by: Value | None = None,
    wrong: Value | None = None,
) -> Value:
    """``|x| ** (y + more)`` from log2 |x|, infinities, zeros and NaN included; times `by`.

    What is `wrong`, and replaced in the end, overflows: the processor has a flag for that.
    """
    size = fabs(x)
    ends = where(size.equals(0.0), -inf, size)
    inside = (size > 0.0) & (size < inf)
    high, low = where(inside, log.high, ends), where(inside, log.low, 0.0)
    e = y * high
    rest = fma(y, low, fma(y, high, -e))
    if more is not None:
        rest = fma(more, high, rest)
    e = where(size.equals(1.0), 0.0, e)  # 1 ** inf is 1
    rest = where(fabs(rest) < 1.0, rest, 0.0)
    if wrong is not None:
        e = where(wrong, 1100.0, e)
    if by is None:
        return exp2_sum(clamp(e, -1100.0, 1100.0), rest)
    out = exp2_sum(clamp(e, -1200.0, 1100.0), rest, by)
    ends = where(e > 0.0, e.like(inf), where(e < 0.0, e.like(0.0), e * by))
    return where(inside & (e > -1200.0), out, ends)


@word
@libm("pow")
def power(x: Value, y: Value) -> Value:
    """``x ** y`` as C99 has it.

    exp2(y log2 |x|) with the logarithm as a double-double (Muller, Elementary Functions, section
    13.2); the sign and the special cases are selected afterwards.
    """
    if not x.double:
        x, y = x.to(F8), y.to(F8)
        return _signed(x, y, _raise(x, y, _log2_short(fabs(x)), wrong=_unreal(x, y))).to(F4)
    return _signed(x, y, _raise(x, y, _log2(fabs(x)), wrong=_unreal(x, y)))


def exponent_sum(x: Value, y: Value, low: Value, by: Value | None = None) -> Value:
    """``x ** (y + low)`` for a `low` that rounding has taken from `y`; times `by`.

    The factor is multiplied in before the power of two, so that it may make up for its size.
    """
    if not x.double:
        wide, y, low = x.to(F8), y.to(F8), low.to(F8)
        out = _signed(wide, y, _raise(wide, y + low, _log2_short(fabs(wide))))
        return (out if by is None else out * by.to(F8)).to(F4)
    if by is None:
        return _signed(x, y, _raise(x, y, _log2(fabs(x)), low))
    size = fabs(by)
    out = _signed(x, y, _raise(x, y, _log2(fabs(x)), low, size))
    return where(y.equals(0.0), size, out) * copysign(x.like(1.0), by)


def _unreal(x: Value, y: Value) -> Value:
    """Whether the power of a negative number is none that is real."""
    return (x < 0.0) & (x > -inf) & (y.call("trunc").equals(y) ^ 1)


def _signed(x: Value, y: Value, out: Value) -> Value:
    half = y * 0.5
    whole = y.call("trunc").equals(y)
    odd = whole & ((half.call("trunc") - half).equals(0.0) ^ 1)
    odd = odd & (fabs(y) < inf)
    out = where(odd, copysign(out, x), out)
    out = where(_unreal(x, y), nan, out)
    return where(y.equals(0.0), 1.0, out)


@word
@libm("cbrt")
def cbrt(x: Value) -> Value:
    """The cube root: a polynomial for m**(-1/3), then iterations of third and second order.

    Steps for the inverse root need no division (Kahan and Bindel, Computing a real cube root,
    2001, the whole note, for the correction in the end).
    """
    size = fabs(x)
    k, f = split_any(size)
    q, _ = nearest(k, 1.0 / 3.0)
    j = fma(q, -3.0, k)
    t = (f + 1.0) * where(j < 0.0, 0.5, where(j > 0.0, x.like(2.0), 1.0))
    turn = where(j < 0.0, 1.2599210498948732, where(j > 0.0, x.like(0.7937005259840998), 1.0))
    g = polynomial(f + 1.0, _ROOT) * turn
    h = fma(-(t * g), g * g, 1.0)
    g = fma(g * h, fma(h, 2.0 / 9.0, 1.0 / 3.0), g)
    if x.double:
        h = fma(-(t * g), g * g, 1.0)
        g = fma(g * h, 1.0 / 3.0, g)
    c = t * g * g
    square = c * c
    rest = fma(-square, c, t) - fma(c, c, -square) * c
    c = fma(rest, g * g * (1.0 / 3.0), c) * power_of_two(q)
    return copysign(where((size > 0.0) & (size < inf), c, size), x)


@word
@libm("hypot")
def hypot(x: Value, y: Value) -> Value:
    """``sqrt(x**2 + y**2)``, scaled by a power of two where squares leave the range."""
    near = Scaled.of(x, y)
    out = near.root() * near.back
    x, y = fabs(x), fabs(y)
    out = where(x.is_nan() | y.is_nan(), x + y, out)
    return where(x.equals(inf) | y.equals(inf), inf, out)


class Scaled(NamedTuple):
    """The sizes of two numbers by a power of two that lets their squares be added."""

    great: Value
    small: Value
    factor: Value
    back: Value

    @staticmethod
    def of(x: Value, y: Value) -> Scaled:
        """The larger, the smaller."""
        x, y = fabs(x), fabs(y)
        great, small = where(x > y, x, y), where(x > y, y, x)
        most, down = x.by_format((2.0**511, 2.0**-513), (2.0**63, 2.0**-65))
        least, up = x.by_format((2.0**-480, 2.0**600), (2.0**-55, 2.0**90))
        large, tiny = great > most, great < least
        factor = where(large, down, where(tiny, x.like(up), 1.0))
        back = where(large, 1.0 / down, where(tiny, x.like(1.0 / up), 1.0))
        return Scaled(great * factor, small * factor, factor, back)

    def square(self) -> Value:
        """The sum of their squares."""
        return fma(self.great, self.great, self.small * self.small)

    def root(self) -> Value:
        """The root of the sum of their squares."""
        return sqrt(self.square())

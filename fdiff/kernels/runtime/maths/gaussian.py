"""Error functions and the normal distribution.

erf(x) is a polynomial up to 1 and ``1 - exp(-q(|x|))`` beyond, where little is subtracted. erfc(x)
is ``exp(-x**2) erfcx(x)``, and (1 + 2 x) erfcx(x) a polynomial in t = (x - 3) / (x + 3) (Shepherd
and Laframboise, Math. Comp. 36, pages 249-253, 1981), with all factors as double-doubles; up to 1/2
it is 1 - erf(x). Ranges follow Cody, Math. Comp. 23, pages 631-637, 1969, and fdlibm's s_erf.c.
"""

from __future__ import annotations

from .exponential import exp, exp_of_normal, exp_parts
from .value import (
    F8,
    DoubleDouble,
    Value,
    clamp,
    copysign,
    fabs,
    fast_two_sum,
    fma,
    fused,
    libm,
    polynomial,
    product,
    quotient,
    scale,
    two_product_error,
    two_sum,
    where,
    word,
)

# erf(x) / x - 1 in x**2 on |x| <= 1: relative errors of erf 2**-56.9 and 2**-29.6.
_NEAR = (
    0.12837916709551256, -0.3761263890318352, 0.11283791670944185, -0.02686617064311151,
    0.005223977606118798, -0.0008548325929336332, 0.00012055293577794342, -1.4924712323585433e-05,
    1.6447131883909376e-06, -1.6206316436802343e-07, 1.3710992911506707e-08,
    -7.779493076806134e-10,
), (
    0.12837916612625122, -0.3761262595653534, 0.1128358542919159, -0.026853812858462334,
    0.00518832728266716, -0.0008010188466869295, 7.853835268178955e-05,
)  # fmt: skip
# The same on |x| <= 1/2: relative error 2**-57.8.
_HALF = (
    0.12837916709551256, -0.37612638903183465, 0.11283791670924813, -0.02686617063271565,
    0.005223977370322069, -0.000854829752396624, 0.000120533242924833, -1.4845583216689138e-05,
    1.4723210227177568e-06,
)  # fmt: skip
# log(erfc(x)) in x - 2 for x from 1 to 6, or to 4: errors of erf 2**-55.1 and 2**-34.2.
_LOG = (
    -5.36494126461664, -4.418160805994391, -0.9237508418235866, -0.0164651181372672,
    0.003570756343026276, -0.0007323993844582153, 0.00013530935088052628, -2.0706432556882173e-05,
    1.952153054154789e-06, 2.036374500297954e-07, -1.7314771081128052e-07, 5.780406811540112e-08,
    -1.3997620320306522e-08, 2.537077005172181e-09, -2.519405963355201e-10,
    -4.466247806919347e-11, 3.181717887495979e-11, -9.048178523438427e-12, 1.5292921287571366e-12,
    -1.473014794754104e-13, 6.22450624263842e-15,
), (
    -5.364941120147705, -4.418160915374756, -0.9237509965896606, -0.016465909779071808,
    0.0035703182220458984, -0.0007301490404643118, 0.00013805880735162646,
    -2.1512232706299983e-05,
)  # fmt: skip
# (1 + 2 x) exp(x**2) erfc(x) in (x - 3) / (x + 3): from 0.49 to 28, and from 0 to 10.7 for results
# in single precision. Relative errors 2**-54.5 and 2**-30.4; the first coefficient in two parts.
_SCALED = (
    1.2530080582697296, -0.13562110612458106, -0.04756229435343219, 0.12964515870274365,
    -0.11927366341647264, 0.06830802734477022, -0.023770514890242143, 0.002529391798906701,
    0.0018886900051062912, -0.0007798320673729928, -0.0001051572418937782, 0.00012509789038382855,
    4.9380908858597936e-06, -2.0094065535928993e-05, -6.994639604262421e-07,
    3.454250782418112e-06, 3.003688606724471e-07, -5.855769538711322e-07, -8.19964672018261e-08,
    7.178593507426663e-08, 7.841211649277823e-09,
)  # fmt: skip
_SCALED_LOW = -4.4208261156043e-18
_SHORT = (
    1.2530080590849275, -0.13562111137309552, -0.04756239917655081, 0.12964534805549907,
    -0.11927140506384608, 0.06830686484652441, -0.023788345310455653, 0.0025252566187089855,
    0.0019480449420516714, -0.0007350465899406066, -0.00017445851628422124,
    3.8185101750029336e-05,
)  # fmt: skip
_SLOPE = 1.1283791670955126  # 2 / sqrt(pi): of erf at 0
_ROOT_HALF = 0.7071067811865476, -4.833646656726457e-17  # in two parts


@word
@libm("erf")
def erf(x: Value) -> Value:
    """The error function."""
    size = fabs(x)
    z = x * x
    near = fma(x, polynomial(z, x.by_format(*_NEAR)), x)
    most = x.by_format(6.0, 4.0)
    log = polynomial(where(size > most, most, size) - 2.0, x.by_format(*_LOG))
    return where(size < 1.0, near, copysign(1.0 - exp_of_normal(log), x))


@word
@libm("erfc")
def erfc(x: Value) -> Value:
    """``1 - erf(x)`` without cancellation, down to subnormal numbers."""
    return _complement(x.to(F8), 0.0, exact=x.double).to(x.format)


@word
def ndtr(x: Value) -> Value:
    """The normal distribution, ``erfc(-x / sqrt(2)) / 2`` with the quotient in two parts."""
    wide = clamp(x.to(F8), -60.0, 60.0)
    y = wide * -_ROOT_HALF[0]
    if not fused():
        low = two_product_error(wide, -_ROOT_HALF[0], y) - wide * _ROOT_HALF[1]
        return ((y.library("erfc") - low * exp(-(y * y)) * _SLOPE) * 0.5).to(x.format)
    low = fma(wide, -_ROOT_HALF[0], -y) - wide * _ROOT_HALF[1]
    return (_complement(y, low, exact=x.double) * 0.5).to(x.format)


def _complement(x: Value, low: Value | float, *, exact: bool) -> Value:
    """``erfc(x + low)`` of a double, to the precision of double or single numbers."""
    size = fabs(x)
    tail = _tail(size, copysign(x.like(1.0), x) * low, exact=exact)
    tail = where(x < 0.0, 2.0 - tail, tail)
    if not exact:
        return tail
    near = (0.5 - x) + fma(-x, polynomial(x * x, _HALF), 0.5)
    return where(size < 0.5, near, tail)


def _tail(x: Value, low: Value, *, exact: bool) -> Value:
    """``erfc(x + low)`` for x >= 0, to full precision from 1/2 on."""
    x = clamp(x, 0.0, 28.0)
    over, under = two_sum(x, -3.0), two_sum(x, 3.0)
    first, *rest = _SCALED if exact else _SHORT
    t = quotient(over, under)
    p = fast_two_sum(x.like(first), fma(t, polynomial(t, rest), _SCALED_LOW))
    square = x * x
    e, k = exp_parts(-square, -fma(x, x, -square) - (x + x) * low)
    one = fast_two_sum(x + x, x.like(1.0))
    return scale(quotient(product(e, p), DoubleDouble(one.high, one.low + (low + low))), k)

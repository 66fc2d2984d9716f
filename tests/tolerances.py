"""How many units of the last place derivatives may be off at extreme points, and why some more."""
# ruff: noqa: E501 - a table

from math import inf

SLOPE, CURVATURE = 4.0, 8.0
_SUBNORMAL = "the curvature is a multiple of the slope, which has few digits where it is subnormal"
_NEAR_ZERO = "next to its zeros the absolute error stays that of its terms"

# Slope, curvature, why. `inf`: no digit is right at some point.
LOST: dict[str, tuple[float, float, str]] = {
    "x**x": (8.0, inf, "a sum of two terms of opposite sign, next to 1/e; at subnormal numbers the curvature 1/x is infinite"),
    "1 / (1 + exp(-x))": (inf, inf, "exp(-x) is infinite below -709.8 (-88.7 in single precision), and inf / inf is nan: scipy.special.expit has no such limit"),
    "exp10": (inf, inf, "SciPy's exp10 is 0 where it would be subnormal"),
    "erf": (SLOPE, 32.0, _SUBNORMAL),
    "erfc": (SLOPE, 32.0, _SUBNORMAL),
    "log_ndtr": (8.0, 4096.0, "below 0 the curvature h (x + h) subtracts h from -x, which it approaches: x**2 units"),
    "erfcx": (4096.0, inf, "2 x erfcx(x) - 2 / sqrt(pi) is a difference of almost equal numbers for large x, up to 25, where a series begins"),
    "expi": (SLOPE, inf, f"the curvature is 0 at 1; {_NEAR_ZERO}"),
    "j0": (4096.0, 4096.0, f"SciPy's Bessel functions: {_NEAR_ZERO}"),
    "i0": (inf, inf, "SciPy's i1 is infinite from 710 on, where it could be represented up to 713.9"),
    "ellipk": (4096.0, 8192.0, "1 - m is not known better than m, and SciPy's ellipe and ellipk are subtracted"),
}  # fmt: skip

# Slopes of SciPy's functions, in double precision.
SPECIAL = 8.0
_OWN = "SciPy's own value, whose error is passed on"
_BOTH = "a sum of SciPy's values, each with its error, which cancel in part"
_RECURRENCE = f"SciPy's recurrence: {_NEAR_ZERO}"

LOST_SPECIAL: dict[str, tuple[float, str]] = {
    "dawsn": (256.0, "1 - 2 x dawsn(x) is a difference of almost equal numbers up to 25, where a series begins"),
    "ndtri_exp": (128.0, _OWN),
    "rgamma": (64.0, _NEAR_ZERO),
    "beta(x, 2.5)": (131072.0, f"SciPy's beta is exp(betaln) for large arguments: {_OWN}"),
    "beta(x, 1e-20)": (131072.0, f"as above: {_OWN}"),
    "binom(x, 2.5)": (131072.0, _OWN),
    "poch(x, 2.5)": (32768.0, _OWN),
    "rel_entr(x, 2)": (16.0, _NEAR_ZERO),
    "boxcox(0.3, x)": (256.0, f"hyp1f1: {_OWN}"),
    "inv_boxcox(x, 0.1)": (256.0, _OWN),
    "inv_boxcox1p(x, 0.1)": (256.0, _OWN),
    "exprel": (64.0, f"hyp1f1: {_OWN}"),
    "wrightomega": (16.0, _OWN),
    "hyp0f1(2.5, x)": (1024.0, f"{_OWN}; {_NEAR_ZERO}"),
    "hyp1f1(1.5, 2.5, x)": (64.0, _OWN),
    "hyp2f1(0.5, 1.5, 2.5, x)": (16.0, _OWN),
    "expn(1, x)": (inf, "SciPy's expn is 0 where it would be subnormal"),
    "expn(3, x)": (inf, "as above"),
    "eval_legendre(7, x)": (128.0, _RECURRENCE),
    "eval_sh_legendre(7, x)": (32.0, _RECURRENCE),
    "eval_chebyt(7, x)": (512.0, _RECURRENCE),
    "eval_chebyu(7, x)": (16.0, _RECURRENCE),
    "eval_chebys(7, x)": (16.0, _RECURRENCE),
    "eval_sh_chebyu(7, x)": (16.0, _RECURRENCE),
    "eval_hermite(7, x)": (16.0, _RECURRENCE),
    "eval_laguerre(7, x)": (64.0, _RECURRENCE),
    "eval_genlaguerre(7, 0.5, x)": (64.0, _RECURRENCE),
    "eval_gegenbauer(7, 0.5, x)": (128.0, _RECURRENCE),
    "eval_jacobi(7, 0.5, 1.5, x)": (128.0, _RECURRENCE),
    "eval_sh_jacobi(7, 2, 1.5, x)": (32.0, _RECURRENCE),
    "j1": (2048.0, f"SciPy's jv: {_NEAR_ZERO}, and grows with x"),
    "y0": (256.0, "as above"),
    "y1": (64.0, "as above"),
    "yn(2, x)": (256.0, "as above"),
    "i0e": (128.0, "i1e - i0e is a difference of almost equal numbers up to 30, where a series begins"),
    "i1e": (256.0, "as above, and next to its zero"),
    "ive(2.5, x)": (512.0, "as above, and SciPy's ive at tiny arguments"),
    "k0e": (64.0, "k0e - k1e, likewise"),
    "k1e": (64.0, "as above"),
    "kve(2.5, x)": (128.0, "as above"),
    "jv(2.5, x)": (256.0, f"SciPy's jv at tiny arguments; {_NEAR_ZERO}"),
    "jve(2.5, x)": (256.0, "as above"),
    "yv(2.5, x)": (32.0, _BOTH),
    "yve(2.5, x)": (32.0, _BOTH),
    "iv(2.5, x)": (64.0, "SciPy's iv at tiny arguments"),
    "kv(2.5, x)": (inf, "SciPy's kv is 0 from about 697 on, where kve is not"),
    "struve(1.5, x)": (131072.0, _BOTH),
    "modstruve(1.5, x)": (128.0, "SciPy's modstruve at tiny arguments"),
    "airy, first": (4096.0, f"{_OWN}; {_NEAR_ZERO}"),
    "airy, third": (2048.0, "as above"),
    "airye, first": (2.0**23, "aip + sqrt(x) ai is a difference of almost equal numbers: x**1.5 units"),
    "airye, third": (2.0**21, "as above"),
    "spherical_jn(2, x)": (256.0, "SciPy's spherical_jn at tiny arguments"),
    "spherical_yn(2, x)": (16.0, _BOTH),
    "spherical_in(2, x)": (64.0, "SciPy's spherical_in at tiny arguments"),
    "spherical_kn(2, x)": (inf, "as kv"),
    "gammainc(500, x)": (2048.0, "the exponential of a number of hundreds, each of which is worth a unit"),
    "betainc(500, 700, x)": (512.0, "as above"),
    "stdtr(1e6, x)": (256.0, "as above"),
    "gammainc(x, 2.5)": (2048.0, "as above"),
    "gammaincc(x, 2.5)": (2048.0, "as above"),
    "betainc(x, 2.5, 0.3)": (128.0, "as above"),
    "chdtr(3, x)": (inf, "x / 2 is rounded where x is subnormal"),
    "chdtrc(3, x)": (inf, "as above"),
    "fdtr(3, 5, x)": (inf, "likewise: 3 / 5 of a subnormal x is rounded"),
    "fdtrc(3, 5, x)": (inf, "as above"),
    "gammaincinv(2.5, x)": (64.0, f"one over the density at {_OWN}"),
    "gammainccinv(2.5, x)": (64.0, "as above"),
    "chdtri(3, x)": (64.0, "as above"),
    "betaincinv(2.5, 3.5, x)": (65536.0, "as above: next to 1 the root is not known better than 1 - x"),
    "betainccinv(2.5, 3.5, x)": (65536.0, "as above"),
    "stdtrit(3, x)": (32.0, "as gammaincinv"),
}  # fmt: skip

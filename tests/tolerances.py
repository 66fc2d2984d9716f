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
    "erf": (SLOPE, 32.0, _SUBNORMAL),
    "erfc": (SLOPE, 32.0, _SUBNORMAL),
    "log_ndtr": (8.0, 4096.0, "below 0 the curvature h (x + h) subtracts h from -x, which it approaches: x**2 units"),
    "erfcx": (4096.0, inf, "2 x erfcx(x) - 2 / sqrt(pi) is a difference of almost equal numbers for large x, up to 25, where a series begins"),
    "expi": (SLOPE, inf, f"the curvature is 0 at 1; {_NEAR_ZERO}"),
    "j0": (4096.0, 4096.0, f"SciPy's Bessel functions: {_NEAR_ZERO}"),
    "i0": (inf, inf, "SciPy's i1 is infinite from 710 on, where it could be represented up to 713.9"),
    "ellipk": (4096.0, 8192.0, "1 - m is not known better than m, and SciPy's ellipe and ellipk are subtracted"),
}  # fmt: skip

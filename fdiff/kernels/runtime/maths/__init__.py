"""Elementary functions that LLVM vectorises: no branches, no calls, 2 ulp.

Coefficients are those of minimax polynomials (Remez's second algorithm in 60 digits, then rounded).
Each is a formula on `Value`, written in LLVM's terms once a kernel and inlined. They run 0.15 to
2 ns an entry where scalar functions of libm take 2.5 to 15.
"""

from . import exponential, gaussian, inverse, logarithm, power, slopes, trigonometric
from .function import call as call
from .function import expecting as expecting
from .value import Formula

_ALL: tuple[Formula, ...] = (
    exponential.exp, exponential.exp2, exponential.expm1, exponential.sinh, exponential.cosh,
    exponential.tanh, exponential.expit, gaussian.erf, gaussian.erfc, gaussian.ndtr, logarithm.log,
    logarithm.log1p, logarithm.log2, logarithm.log10, logarithm.asinh, logarithm.acosh,
    logarithm.atanh, logarithm.logaddexp, logarithm.logaddexp2, trigonometric.sin,
    trigonometric.cos, trigonometric.tan, trigonometric.out_of_range, inverse.asin, inverse.acos,
    inverse.atan, inverse.atan2, power.power, power.cbrt, power.hypot, slopes.sech_squared,
    exponential.logistic_slope, exponential.exp_product, exponential.exp_minus_square,
    slopes.first_share, slopes.second_share, slopes.first_share2,
    slopes.second_share2, slopes.power_sum, slopes.power_slope,
    slopes.over_one_plus_square, slopes.over_root_one_plus_square,
    slopes.first_direction, slopes.second_direction, slopes.first_angle_slope,
    slopes.second_angle_slope,
)  # fmt: skip
FORMULAS = {formula.__name__: formula for formula in _ALL}
TESTS = frozenset(["out_of_range"])  # they give truth values

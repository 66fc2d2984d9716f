"""Elementary functions that LLVM vectorises: no branches, no calls, 2 ulp.

Coefficients are those of minimax polynomials (Remez's second algorithm in 60 digits, then rounded).
Each is a formula on `Value`, written in LLVM's terms once a kernel and inlined. They run 0.15 to
2 ns an entry where scalar functions of libm take 2.5 to 15.
"""

from . import exponential, gaussian, inverse, logarithm, trigonometric
from . import power as powers
from .function import binary, test, unary
from .function import expecting as expecting
from .function import generator as generator

exp = unary(exponential.exp)
exp2 = unary(exponential.exp2)
expm1 = unary(exponential.expm1)
sinh = unary(exponential.sinh)
cosh = unary(exponential.cosh)
tanh = unary(exponential.tanh)
expit = unary(exponential.expit)
erf = unary(gaussian.erf)
erfc = unary(gaussian.erfc)
ndtr = unary(gaussian.ndtr)
log = unary(logarithm.log)
log1p = unary(logarithm.log1p)
log2 = unary(logarithm.log2)
log10 = unary(logarithm.log10)
asinh = unary(logarithm.asinh)
acosh = unary(logarithm.acosh)
atanh = unary(logarithm.atanh)
logaddexp = binary(logarithm.logaddexp)
logaddexp2 = binary(logarithm.logaddexp2)
sin = unary(trigonometric.sin)
cos = unary(trigonometric.cos)
tan = unary(trigonometric.tan)
far = test(trigonometric.far)
asin = unary(inverse.asin)
acos = unary(inverse.acos)
atan = unary(inverse.atan)
atan2 = binary(inverse.atan2)
cbrt = unary(powers.cbrt)
hypot = binary(powers.hypot)
real_power = powers.power  # `rt.power` serves whole numbers too

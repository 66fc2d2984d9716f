"""Elementary functions that LLVM vectorises: no branches, no calls, 2 ulp.

Coefficients are coefficients of minimax polynomials (Remez's second algorithm in 60 digits, then
rounded). Each function is a formula on `Value`, written in LLVM's terms once per kernel and
inlined. The functions take 0.15 to 2 ns an entry; scalar functions of libm take 2.5 to 15.
"""

from . import exponential as exponential  # these seven enter their words
from . import gaussian as gaussian
from . import inverse as inverse
from . import logarithm as logarithm
from . import power as power
from . import slopes as slopes
from . import trigonometric as trigonometric
from .formula_functions import call as call
from .formula_functions import expecting as expecting
from .value import FORMULAS as FORMULAS
from .value import Formula as Formula

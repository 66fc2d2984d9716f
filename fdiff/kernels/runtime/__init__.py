"""What the text of a kernel may call: ``rt.name``. Compiled parts; importing this imports Numba."""

from . import maths as maths
from .foreign import provide as provide
from .linalg import DECOMPOSITIONS
from .maths import acos as acos
from .maths import acosh as acosh
from .maths import asin as asin
from .maths import asinh as asinh
from .maths import atan as atan
from .maths import atan2 as atan2
from .maths import atanh as atanh
from .maths import cbrt as cbrt
from .maths import cos as cos
from .maths import cosh as cosh
from .maths import erf as erf
from .maths import erfc as erfc
from .maths import exp as exp
from .maths import exp2 as exp2
from .maths import expit as expit
from .maths import expm1 as expm1
from .maths import far as far
from .maths import hypot as hypot
from .maths import log as log
from .maths import log1p as log1p
from .maths import log2 as log2
from .maths import log10 as log10
from .maths import logaddexp as logaddexp
from .maths import logaddexp2 as logaddexp2
from .maths import ndtr as ndtr
from .maths import sin as sin
from .maths import sinh as sinh
from .maths import tan as tan
from .maths import tanh as tanh
from .memory import add as add
from .memory import call as call
from .memory import flat as flat
from .memory import multiply as multiply
from .memory import part as part
from .memory import unvectorised as unvectorised
from .products import PRODUCTS
from .scalar import floor_divide as floor_divide
from .scalar import fmax as fmax
from .scalar import fmin as fmin
from .scalar import fmod as fmod
from .scalar import gcd as gcd
from .scalar import heaviside as heaviside
from .scalar import invert as invert
from .scalar import isfinite as isfinite
from .scalar import isinf as isinf
from .scalar import isnan as isnan
from .scalar import lcm as lcm
from .scalar import ldexp as ldexp
from .scalar import left_shift as left_shift
from .scalar import maximum as maximum
from .scalar import minimum as minimum
from .scalar import nextafter as nextafter
from .scalar import power as power
from .scalar import remainder as remainder
from .scalar import right_shift as right_shift
from .scalar import rint as rint
from .scalar import sign as sign
from .scalar import signbit as signbit
from .scalar import spacing as spacing

ROUTINES = {**DECOMPOSITIONS, **PRODUCTS}

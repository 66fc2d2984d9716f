"""What the text of a kernel may call: ``rt.name``. Compiled parts; importing this imports Numba."""

from .foreign import provide as provide
from .linalg import DECOMPOSITIONS
from .memory import add as add
from .memory import call as call
from .memory import flat as flat
from .memory import multiply as multiply
from .memory import part as part
from .products import PRODUCTS
from .scalar import exp2 as exp2
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
from .scalar import logaddexp as logaddexp
from .scalar import logaddexp2 as logaddexp2
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

"""The public operators: derivatives of functions, and transforms of functions.

Each operator (`gradients`, `products`, `jacobians`, `hessians`, `vectorized_map`, `programs`) turns
a traced function into a plan: the derivative tapes, and the structure of the result. `invocation`
is the part that all operators share: it finds or makes the trace, and runs the plan.
"""

from .gradients import grad, value_and_grad
from .hessians import hessian, hvp, vhp
from .jacobians import jacfwd, jacobian, jacrev
from .kink_policy import kinks
from .products import jvp, vjp
from .programs import cache_clear, cache_info, jit, make_tape, source, stop_gradient
from .vectorized_map import vmap

__all__ = [
    "cache_clear",
    "cache_info",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "kinks",
    "make_tape",
    "source",
    "stop_gradient",
    "value_and_grad",
    "vhp",
    "vjp",
    "vmap",
]


def __dir__() -> list[str]:
    """The public names, without the modules of the package."""
    return list(__all__)

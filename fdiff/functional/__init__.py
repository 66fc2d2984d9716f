"""The public operators: derivatives of functions, and transforms of functions.

Each operator (`gradients`, `products`, `jacobians`, `hessians`, `vectorized_map`, `jit_programs`)
turns a traced function into a plan: the derivative tapes, and the structure of the result.
`invocation` is the part that all operators share: it finds or makes the trace, and runs the plan.
"""

from typing import TYPE_CHECKING

from ..hooks import hooks
from ..process.forking import imported, late
from .call.kink_policy import kinks
from .operators.gradients import grad, value_and_grad

if TYPE_CHECKING:
    from .operators.hessians import hessian, hvp, vhp
    from .operators.jacobians import jacfwd, jacobian, jacrev
    from .operators.jit_programs import (
        cache_clear,
        cache_info,
        jit,
        make_tape,
        source,
        stop_gradient,
    )
    from .operators.products import jvp, vjp
    from .operators.vectorized_map import vmap

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


# Modules that are imported when one of their operators is first asked for, and these.
_LATE = {
    "operators.hessians": "hessian hvp vhp",
    "operators.jacobians": "jacfwd jacobian jacrev",
    "operators.products": "jvp vjp",
    "operators.jit_programs": "cache_clear cache_info jit make_tape source stop_gradient",
    "operators.vectorized_map": "vmap",
}
LATE_NAMES = {name: module for module, names in _LATE.items() for name in names.split()}
hooks.vmap = late("operators.vectorized_map", __name__, "vmap")


def __getattr__(name: str) -> object:
    """The operators that are imported when they are first asked for."""
    if name not in LATE_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = imported(f".{LATE_NAMES[name]}", __name__)
    operator = globals()[name] = getattr(module, name)
    return operator


def __dir__() -> list[str]:
    """The public names, without the modules of the package."""
    return list(__all__)

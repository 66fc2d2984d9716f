"""What users call: derivatives of functions, and transforms of functions."""

from .checking import gradcheck, gradgradcheck
from .gradients import grad, value_and_grad
from .hessians import hessian, hvp, vhp
from .jacobians import jacfwd, jacobian, jacrev
from .kink_policy import kinks
from .mapping import vmap
from .products import jvp, vjp
from .programs import cache_clear, cache_info, jit, make_tape, source, stop_gradient

__all__ = [
    "cache_clear",
    "cache_info",
    "grad",
    "gradcheck",
    "gradgradcheck",
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

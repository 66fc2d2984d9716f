"""What users call: derivatives of functions, and transforms of functions."""

from .checking import gradcheck, gradgradcheck
from .first import jvp, vjp
from .gradients import grad, value_and_grad
from .jacobians import jacfwd, jacobian, jacrev
from .kinking import kinks
from .mapping import vmap
from .programs import cache_clear, cache_info, jit, make_tape, source, stop_gradient
from .second import hessian, hvp, vhp

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

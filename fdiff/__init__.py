"""Exact derivatives of plain NumPy functions, just-in-time compiled with Numba."""

from . import errors, functional
from .functional.checking import gradcheck, gradgradcheck
from .functional.first import grad, jacfwd, jacobian, jacrev, jvp, value_and_grad, vjp
from .functional.mapping import cache_clear, cache_info, jit, make_tape, source, stop_gradient, vmap
from .functional.second import hessian, hvp, vhp

__all__ = [
    "cache_clear",
    "cache_info",
    "errors",
    "functional",
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
    "make_tape",
    "source",
    "stop_gradient",
    "value_and_grad",
    "vhp",
    "vjp",
    "vmap",
]

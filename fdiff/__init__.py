"""Exact derivatives of plain NumPy functions, just-in-time compiled with Numba."""

from . import forking as forking  # first, so that a fork waits for all the others

# isort: split
from . import errors, functional
from .functional import (
    cache_clear,
    cache_info,
    grad,
    gradcheck,
    gradgradcheck,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jit,
    jvp,
    kinks,
    make_tape,
    source,
    stop_gradient,
    value_and_grad,
    vhp,
    vjp,
    vmap,
)

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
    "kinks",
    "make_tape",
    "source",
    "stop_gradient",
    "value_and_grad",
    "vhp",
    "vjp",
    "vmap",
]

"""Exact derivatives of plain NumPy functions, compiled just in time."""

from .process import forking as forking  # first, so that a fork waits for all the others

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

__version__ = "0.1.0"

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


def __dir__() -> list[str]:
    """The public names alone: the modules below are nobody's concern but fdiff's."""
    return [*__all__, "__version__"]

"""Exact derivatives of plain NumPy functions, compiled just in time.

The code is read in this order: `functional` (what users call), `dispatch` (from a call to its
result), `trace` and `capture` (from Python to a tape), `transforms` (from tape to tape), `kernels`
(from a tape to machine code). `ops` holds the operations.

Kernels are Numba source. By default a fast path compiles them, which is tested against Numba; where
``FDIFF_COMPILER=numba`` or ``jit(f, compiler="numba")`` asks for it, Numba does. With
``device="cuda"`` kernels are made for a GPU, and `numba.cuda` compiles them.
"""

from .process import forking as forking  # first, so that a fork waits for all the others

# isort: split
from . import errors, functional
from .functional import (
    cache_clear,
    cache_info,
    cfunc,
    doctor,
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
    njit,
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
    "cfunc",
    "doctor",
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
    "njit",
    "source",
    "stop_gradient",
    "value_and_grad",
    "vhp",
    "vjp",
    "vmap",
]


def __dir__() -> list[str]:
    """The public names alone, without the modules of the package."""
    return [*__all__, "__version__"]

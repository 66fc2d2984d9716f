"""Exact derivatives of plain NumPy functions, compiled just in time.

The code is read in this order: `functional` (what users call), `dispatch` (from a call to its
result), `trace` and `capture` (from Python to a tape), `transforms` (from tape to tape), `kernels`
(from a tape to machine code). `ops` holds the operations.

Kernels are Numba source. By default fdiff's own compiler, by way of LLVM, compiles them; tests
compare it with Numba, which compiles them under ``FDIFF_COMPILER=numba`` and for
``jit(f, compiler="numba")``. With ``device="cuda"`` kernels are made for a GPU, and `numba.cuda`
compiles them.
"""

from .process import forking as forking  # first, so that a fork waits for all the others

# isort: split
import importlib
import typing

from . import errors, functional
from .functional import grad, kinks, value_and_grad

if typing.TYPE_CHECKING:
    from . import autograd as autograd
    from . import distributed as distributed
    from . import profiler as profiler
    from .explanation import draw, explain
    from .functional.call.anomaly_contexts import debug_nans
    from .functional.checking import check_grads, gradcheck, gradgradcheck
    from .functional.compiled.c_functions import cfunc
    from .functional.compiled.numba_functions import njit
    from .functional.doctor import doctor
    from .functional.loops.branches import cond, switch, while_loop
    from .functional.loops.memory_budgets import memory_budget
    from .functional.loops.parallel_loops import associative_scan, map  # noqa: A004 - the name of ``lax.map``
    from .functional.loops.scans import fori_loop, scan
    from .functional.operators.hessian_diagonals import hessian_diagonal
    from .functional.operators.hessians import hessian, hvp, vhp
    from .functional.operators.jacobians import jacfwd, jacobian, jacrev
    from .functional.operators.jit_programs import (
        cache_clear,
        cache_info,
        jit,
        make_tape,
        source,
        stop_gradient,
    )
    from .functional.operators.linear_maps import linearize
    from .functional.operators.products import jvp, vjp
    from .functional.operators.pytrees import ravel, register_pytree
    from .functional.operators.vectorized_map import vmap
    from .functional.rules.checkpoints import checkpoint
    from .functional.rules.custom_derivatives import custom_jvp, custom_vjp
    from .functional.rules.primitives import primitive

globals().pop("primitive")  # the module of this name; users find the function
__version__ = "0.2.0"

__all__ = [
    "associative_scan",
    "cache_clear",
    "cache_info",
    "cfunc",
    "check_grads",
    "checkpoint",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "debug_nans",
    "doctor",
    "draw",
    "errors",
    "explain",
    "fori_loop",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "hessian",
    "hessian_diagonal",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "kinks",
    "linearize",
    "make_tape",
    "map",
    "memory_budget",
    "njit",
    "primitive",
    "ravel",
    "register_pytree",
    "scan",
    "source",
    "stop_gradient",
    "switch",
    "value_and_grad",
    "vhp",
    "vjp",
    "vmap",
    "while_loop",
]

# What is imported when it is first asked for: modules, and names with the module they stand in.
_LATE = frozenset(["autograd", "distributed", "optimize", "profiler"])
_LATE_NAMES = {
    "associative_scan": "functional.loops.parallel_loops",
    "cfunc": "functional.compiled.c_functions",
    "cond": "functional.loops.branches",
    "check_grads": "functional.checking",
    "checkpoint": "functional.rules.checkpoints",
    "custom_jvp": "functional.rules.custom_derivatives",
    "custom_vjp": "functional.rules.custom_derivatives",
    "debug_nans": "functional.call.anomaly_contexts",
    "doctor": "functional.doctor",
    "draw": "explanation",
    "explain": "explanation",
    "fori_loop": "functional.loops.scans",
    "gradcheck": "functional.checking",
    "gradgradcheck": "functional.checking",
    "hessian_diagonal": "functional.operators.hessian_diagonals",
    "linearize": "functional.operators.linear_maps",
    "map": "functional.loops.parallel_loops",
    "memory_budget": "functional.loops.memory_budgets",
    "njit": "functional.compiled.numba_functions",
    "primitive": "functional.rules.primitives",
    "ravel": "functional.operators.pytrees",
    "register_pytree": "functional.operators.pytrees",
    "scan": "functional.loops.scans",
    "switch": "functional.loops.branches",
    "while_loop": "functional.loops.branches",
    **{name: f"functional.{module}" for name, module in functional.LATE_NAMES.items()},
}


def __getattr__(name: str) -> object:
    """The modules and names that are imported when they are first asked for."""
    if name in _LATE:
        with forking.no_fork:
            return importlib.import_module(f"{__name__}.{name}")
    if name not in _LATE_NAMES:
        with forking.no_fork:
            name_suggestions = importlib.import_module(f"{__name__}.functional.name_suggestions")
        raise name_suggestions.missing(name)
    with forking.no_fork:
        value = getattr(importlib.import_module(f"{__name__}.{_LATE_NAMES[name]}"), name)
    globals()[name] = value  # which the next one finds without this function
    return value


def __dir__() -> list[str]:
    """The public names and the modules for users, without the other modules of the package."""
    return [*__all__, *_LATE, "__version__"]

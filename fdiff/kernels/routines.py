"""Matrix routines, compiled by Numba once a machine. Importing this imports Numba."""

from __future__ import annotations

import pickle
from collections.abc import Callable

from numba import njit
from numba.core import serialize, types
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys
from numba.core.typing.templates import signature

from .loops import BUFFERS, SIZES
from .runtime.foreign import provide
from .runtime.linalg import DECOMPOSITIONS
from .runtime.products import PRODUCTS

ROUTINES: dict[str, Callable[..., int]] = {**DECOMPOSITIONS, **PRODUCTS}
_NUMBA = {"f4": types.float32, "f8": types.float64}
_loaded: list[CompileResult] = []


def compiled(routine: str) -> CompileResult:
    """A routine such as ``solve_f8``: pointers and sizes to a status, callable from C."""
    name, dtype = routine.rsplit("_", 1)
    provide()
    pointer = types.CPointer(_NUMBA[dtype])
    kind = signature(types.int64, *[pointer] * BUFFERS, *[types.int64] * SIZES)
    dispatcher = njit(kind, nogil=True, error_model="numpy", boundscheck=False)(ROUTINES[name])
    return next(iter(dispatcher.overloads.values()))


def address_of(result: CompileResult) -> int:
    """Where C finds the compiled routine, which stays loaded from now on."""
    _loaded.append(result)
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name))


def dump(result: CompileResult) -> bytes:
    """The compiled routine as bytes."""
    return bytes(serialize.dumps(result._reduce()))


def load(payload: bytes) -> CompileResult | None:
    """The routine of these bytes, without any compiling; None if they cannot be read."""
    provide()
    rtsys.initialize(cpu_target.target_context)  # all a loaded routine needs
    try:
        parts = pickle.loads(payload)  # noqa: S301 - our own file, owner and checksum verified
        return CompileResult._rebuild(cpu_target.target_context, *parts)
    except (
        pickle.UnpicklingError,
        AttributeError,
        ImportError,
        IndexError,
        TypeError,
        ValueError,
        RuntimeError,
    ):
        return None

"""From text to machine code and back from disk. Importing this imports Numba."""

from __future__ import annotations

import linecache
import math
import pickle
import sys
from collections.abc import Callable
from types import ModuleType
from typing import cast

import numpy as np
from numba import njit
from numba.core import serialize, types
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys
from numba.core.typing.templates import Signature, signature

from ..errors import TapeError
from . import runtime
from .bones import Skeleton
from .emit import elementary
from .loops import BUFFERS, SIZES

Entry = Callable[..., int]
_njit = cast("Callable[..., Callable[[Entry], Dispatcher]]", njit)  # Numba types a few options only
_loaded: list[CompileResult] = []
_NUMBA = {
    "b1": types.boolean,
    "i1": types.int8,
    "i2": types.int16,
    "i4": types.int32,
    "i8": types.int64,
    "u1": types.uint8,
    "u2": types.uint16,
    "u4": types.uint32,
    "u8": types.uint64,
    "f4": types.float32,
    "f8": types.float64,
}


def signature_of(bones: Skeleton, *, workspace: bool) -> Signature:
    """Types of the arguments of a kernel, in order, and its status."""
    arguments: list[types.Type] = []
    for i in bones.inputs:
        part = bones.parts[i]
        dtype = _NUMBA[part.dtype]
        arguments.append(
            types.Array(dtype, len(part.dims), str(part.data[1])) if part.dims else dtype
        )
    arrays = sorted((p.data[0], p.dtype) for p in bones.parts if p.op == "array")
    arguments += [types.Array(_NUMBA[dtype], 1, "C") for _, dtype in arrays]
    arguments += [types.Array(types.int64, 1, "C"), types.Array(types.float64, 1, "C")]
    arguments += [
        types.Array(_NUMBA[p.dtype], len(p.dims), "C")
        for p in (bones.parts[o] for o in bones.outputs)
    ]
    arguments += [types.Array(types.uint8, 1, "C")] * workspace
    return signature(types.int64, *arguments)


def _module(text: str, name: str) -> ModuleType:
    """The module of a kernel, known to `sys.modules` and to tracebacks."""
    module = ModuleType(f"fdiff_kernel_{name}")
    module.__file__ = f"<fdiff kernel {name[:12]}>"
    module.__dict__.update(math=math, np=np, rt=runtime)
    linecache.cache[module.__file__] = (
        len(text),
        None,
        text.splitlines(keepends=True),
        module.__file__,
    )
    sys.modules[module.__name__] = module
    return module


def forget(name: str) -> None:
    """Drop what `sys.modules` and tracebacks know of a kernel."""
    module = sys.modules.pop(f"fdiff_kernel_{name}", None)
    if module is not None:
        linecache.cache.pop(str(module.__file__), None)


def compile_text(text: str, name: str, kind: Signature) -> CompileResult:
    """Compile the function ``kernel`` of `text`; a failure is fdiff's own fault."""
    module = _module(text, name)
    exec(compile(text, str(module.__file__), "exec"), module.__dict__)
    try:
        with runtime.maths.expecting(len(elementary(text))):
            return _compiled(module.__dict__["kernel"], kind, wrapper=False)
    except NumbaError as error:
        reason = str(error).strip().splitlines()
        raise TapeError(
            f"fdiff made a kernel that does not compile ({reason[0] if reason else ''}):\n{text}"
        ) from None


def compile_routine(routine: str) -> CompileResult:
    """A routine such as ``solve_f8``: pointers and sizes to a status, callable from C."""
    name, dtype = routine.rsplit("_", 1)
    runtime.provide()
    pointer = types.CPointer(_NUMBA[dtype])
    kind = signature(types.int64, *[pointer] * BUFFERS, *[types.int64] * SIZES)
    return _compiled(runtime.ROUTINES[name], kind, wrapper=True)


def _compiled(function: Callable[..., int], kind: Signature, *, wrapper: bool) -> CompileResult:
    """The machine code of a function, on request with a `wrapper` that C can call."""
    dispatcher = _njit(
        kind, nogil=True, error_model="numpy", boundscheck=False, no_cfunc_wrapper=not wrapper
    )(function)
    return next(iter(dispatcher.overloads.values()))


def load_routine(payload: bytes, name: str) -> CompileResult | None:
    """A routine of these bytes; None if they cannot be read."""
    runtime.provide()
    return load(payload, "", name)


def address_of(result: CompileResult) -> int:
    """Where C finds the compiled routine, which stays loaded from now on."""
    _loaded.append(result)
    return result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)


def dump(result: CompileResult) -> bytes:
    """The compiled kernel as bytes."""
    return serialize.dumps(result._reduce())


def load(payload: bytes, text: str, name: str) -> CompileResult | None:
    """The kernel of these bytes, without any compiling; None if they cannot be read."""
    _module(text, name)
    rtsys.initialize(cpu_target.target_context)  # all a loaded kernel needs; typing is not set up
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

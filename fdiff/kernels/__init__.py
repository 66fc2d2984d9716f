"""Compiled kernels of tapes: made from their structure alone, kept in memory and on disk.

This page is all that the rest of fdiff knows of this folder. `compile` turns a tape into an
`Executable`, `encode` into an `Evaluation`, which needs no compile; `caller` makes a builtin that
calls a kernel from Python, told by the descriptors imported here.

What is not imported here is loaded when it is first asked for: a program that is only interpreted
needs neither the compiler nor LLVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..process.collector import collector_paused
from ..process.forking import no_fork
from .llvm.call_descriptor import (
    ATTRIBUTES,
    OWNED,
    Given,
    KernelInput,
    KernelOutput,
    Make,
    Preconditions,
    Read,
    Unpack,
)

if TYPE_CHECKING:
    from .bytecode import Evaluation, RefusedError
    from .bytecode import prepare as encode
    from .codegen.source_generation import text_after
    from .compiler import (
        CacheInfo,
        cache_clear,
        cache_info,
        compile,  # noqa: A004 - the module is the namespace
        entry_stub,
        missing,
        on_disk,
        predict_seconds,
        seen,
        source,
        started,
        supported,
        workspace,
    )
    from .executable import Executable, Parts
    from .llvm.dispatch_table import caller, fault
    from .passes.pipeline import NAMES as PASSES

__all__ = [
    "ATTRIBUTES",
    "OWNED",
    "PASSES",
    "CacheInfo",
    "Evaluation",
    "Executable",
    "Given",
    "KernelInput",
    "KernelOutput",
    "Make",
    "Parts",
    "Preconditions",
    "Read",
    "RefusedError",
    "Unpack",
    "cache_clear",
    "cache_info",
    "caller",
    "compile",
    "encode",
    "entry_stub",
    "fault",
    "missing",
    "on_disk",
    "predict_seconds",
    "seen",
    "source",
    "started",
    "supported",
    "text_after",
    "workspace",
]

# Where a name is that is loaded when it is asked for; all others are in `compiler`.
_HOMES = {
    "PASSES": ("passes.pipeline", "NAMES"),
    "RefusedError": ("bytecode", "RefusedError"),
    "caller": ("llvm.dispatch_table", "caller"),
    "encode": ("bytecode", "prepare"),
    "fault": ("llvm.dispatch_table", "fault"),
    "text_after": ("codegen.source_generation", "text_after"),
}


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    home, own = _HOMES.get(name, ("compiler", name))
    with no_fork, collector_paused():
        return getattr(import_module(f".{home}", __name__), own)

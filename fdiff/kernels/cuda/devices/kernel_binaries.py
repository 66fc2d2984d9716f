"""Machine code of kernels: in memory, on disk, or compiled now.

An entry on disk is named by a hash of all that it depends on: text, types of the parameters, words,
compute capability, and the versions of what compiles. It lies in the cache of CPU kernels.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from ....errors import CompileError
from ....foreign_errors import not_foreign
from ....process.progress import Stage
from ... import disk_cache, kernel_names
from ...loaded_code import digest
from ..cuda_program import CudaKernel
from . import adapter
from .adapter import Binary

_KIND = "cubin"
_compiled: dict[tuple[CudaKernel, tuple[int, int]], Binary] = {}


def binary(kernel: CudaKernel, capability: tuple[int, int]) -> Binary:
    """Machine code of a kernel for a compute capability such as ``(9, 0)``; needs no driver."""
    key = kernel, capability
    compiled = _compiled.get(key)
    if compiled is None:
        compiled = _compiled[key] = _stored(kernel, capability) or _compiled_now(kernel, capability)
    return compiled


def forget() -> None:
    """Drop what is in memory."""
    _compiled.clear()


def _stored(kernel: CudaKernel, capability: tuple[int, int]) -> Binary | None:
    payload = disk_cache.read(_name(kernel, capability), _KIND)
    if payload is None:
        return None
    entry, _, code = payload.partition(b"\n")
    return Binary(entry.decode(), code)


def _compiled_now(kernel: CudaKernel, capability: tuple[int, int]) -> Binary:
    """The kernel compiled now. Whatever fails, a user cannot have caused it."""
    with Stage("compiling", size=kernel.text.count("\n")):
        try:
            ptx = adapter.compile_ptx(kernel, capability)
            compiled = adapter.binary_of(ptx, capability)
        except not_foreign(Exception) as error:
            fact = f"the CUDA kernel {kernel.name} failed to compile: {type(error).__name__}"
            raise CompileError(f"{fact}: {error}") from error
    disk_cache.write(
        _name(kernel, capability), _KIND, compiled.entry.encode() + b"\n" + compiled.code
    )
    return compiled


def _name(kernel: CudaKernel, capability: tuple[int, int]) -> str:
    parts = (kernel.text, kernel.parameters, capability, adapter.versions(), _sources())
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]


@lru_cache(maxsize=1)
def _sources() -> str:
    """A hash of the sources that say what the words of a text mean."""
    return digest(Path(__file__).parents[1]) + kernel_names.compiler_digest()

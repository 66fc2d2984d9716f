"""The only module that imports Numba's CUDA target, and the libraries of NVIDIA beside it.

All of it is imported when CUDA is asked for (`docs/decisions/cuda-calls.md`). Texts are compiled by
``numba.cuda``: the package numba-cuda, which takes the place of Numba's own; what it gives, PTX, is
linked, loaded and launched by ``cuda.core``, a package that numba-cuda needs itself. Under
``NUMBA_ENABLE_CUDASIM=1`` there is Numba's simulator instead of all that, also without any package.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from ....foreign_errors import environment_value, not_foreign
from ....named_tuples import NamedTuple
from ....process.forking import imported, no_fork
from .driver import driver_state

if TYPE_CHECKING:
    from ..cuda_program import CudaKernel

SIMULATOR = "NUMBA_ENABLE_CUDASIM"
INSTALL = "pip install 'numba-fdiff[cuda12]'"
_WITH_DRIVER = f"Install NVIDIA's driver, or set {SIMULATOR}=1 to run on Numba's simulator, slowly."
_ENTRY = re.compile(r"\.visible\s+\.entry\s+([\w$]+)\s*\(")


class Fault(NamedTuple):
    """Why there is no CUDA: the fact, and the way out."""

    fact: str
    way: str


class Binary(NamedTuple):
    """Machine code for one compute capability, and the name of the kernel in it."""

    entry: str
    code: bytes


def simulated() -> bool:
    """Whether Numba's simulator stands in for a GPU: by the variable that Numba reads."""
    return environment_value(SIMULATOR) not in (None, "", "0")


@lru_cache(maxsize=1)
def numba_cuda() -> ModuleType:
    """The module ``numba.cuda``."""
    return imported("numba.cuda")


@lru_cache(maxsize=1)
def cuda_core() -> ModuleType:
    """The module ``cuda.core``, with its parts that are not imported with it."""
    imported("cuda.core.utils")
    return imported("cuda.core")


@lru_cache(maxsize=1)
def cuda_driver() -> ModuleType:
    """The functions of the driver's library, for what ``cuda.core`` leaves out."""
    return imported("cuda.bindings.driver")


@lru_cache(maxsize=1)
def cupy() -> ModuleType | None:
    """CuPy, for arrays, memory and libraries; None where it is not installed, and simulated."""
    if simulated() or not installed("cupy"):
        return None
    return imported("cupy")


@lru_cache(maxsize=1)
def cupyx() -> ModuleType:
    """CuPy's extensions, where its error states are."""
    return imported("cupyx")


def installed(module: str) -> bool:
    """Whether a top-level module, or one below it, could be imported."""
    try:
        return find_spec(module) is not None
    except not_foreign(ImportError, ValueError):  # the package above it is missing
        return False


def version_of(package: str) -> str:
    """The version of an installed package; empty if it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def toolkit() -> tuple[int, int]:
    """The version of the CUDA toolkit that makes machine code."""
    return imported("cuda.bindings.nvjitlink").version()


def fault() -> Fault | None:
    """Why CUDA cannot be used here; None if it can."""
    if simulated():
        return None
    lacking = [name for name in ("numba_cuda", "cuda.core", "cuda.bindings") if not installed(name)]
    if lacking:
        fact = f"the package for CUDA is not installed: there is no {lacking[0]}."
        return Fault(fact, f"Write {INSTALL}, or [cuda13] for a driver of CUDA 13.")
    state = driver_state()
    if state.fault:
        which = "no CUDA driver works here" if state.version else "there is no CUDA driver here"
        return Fault(f"{which}: {state.fault}.", _WITH_DRIVER)
    try:
        major, minor = toolkit()
    except not_foreign(Exception, again=toolkit) as error:  # of a broken installation
        fact = f"the CUDA toolkit of this environment cannot be used: {error}."
        return Fault(fact, f"Install it again: {INSTALL}.")
    if state.version // 1000 < major:
        fact = (
            f"the CUDA driver is older than the PTX that would be made: it supports CUDA"
            f" {state.release}, and the installed toolkit is for CUDA {major}.{minor}."
        )
        older = f"[cuda{state.version // 1000}]"
        return Fault(fact, f"Update the driver, or install the extra {older} in place of this one.")
    return None


def fault_in_words() -> str:
    """Why CUDA cannot be used here, and the way out; empty if it can."""
    problem = fault()
    return "" if problem is None else f"{problem.fact} {problem.way}"


def compile_ptx(kernel: CudaKernel, capability: tuple[int, int]) -> str:
    """PTX of a kernel for a compute capability such as ``(8, 0)``; needs no driver."""
    with no_fork:
        words = import_module(".device_words", __package__)
        function, signature = words.function_of(kernel), words.signature(kernel)
        with import_module(".numba_speedups", __package__).numba_speedups():
            text, _ = numba_cuda().compile_ptx(function, signature, cc=capability)
    return text


def binary_of(ptx: str, capability: tuple[int, int]) -> Binary:
    """Machine code of PTX, by nvJitLink: it runs with any driver of the same major version.

    The assembler takes as many registers as make one thread fast, and fewer threads then run at the
    same time. Where the kernel fits the next lower number at which more blocks do, without a word
    more in local memory, it gets that many (measured on an H100: up to a third faster).
    """
    entry = _ENTRY.search(ptx)
    assert entry is not None, "PTX without a kernel"
    arch = f"sm_{capability[0]}{capability[1]}"
    with no_fork:
        best = _linked(ptx, arch)
        for registers, most in _FEWER_REGISTERS:
            if registers < best.registers <= most:
                other = _linked(ptx, arch, registers)
                best = other if other.spilled <= best.spilled else best
    return Binary(entry[1], best.code)


class _Linked(NamedTuple):
    """Machine code, the registers of a thread, and the bytes that it stores for want of more."""

    code: bytes
    registers: int
    spilled: int


# Of 256 threads four blocks run on a multiprocessor with 64 registers each, three with 80, two with
# 128. A kernel that takes up to so many more is tried with these.
_FEWER_REGISTERS = ((64, 96), (80, 112), (128, 168))
_REGISTERS = re.compile(r"[Uu]sed (\d+) registers")
_SPILLED = re.compile(r"(\d+) bytes spill stores")


def _linked(ptx: str, arch: str, registers: int | None = None) -> _Linked:
    """Machine code of PTX, which uses at most `registers` registers."""
    core = cuda_core()
    options = core.LinkerOptions(arch=arch, max_register_count=registers, verbose=True)
    linker = core.Linker(core.ObjectCode.from_ptx(ptx.encode()), options=options)
    code, said = bytes(linker.link("cubin").code), str(linker.get_info_log())
    used, spilled = (max(map(int, p.findall(said)), default=0) for p in (_REGISTERS, _SPILLED))
    return _Linked(code, used, spilled)


def versions() -> str:
    """Everything besides text and compute capability that machine code depends on."""
    packages = ("numba-cuda", "numba", "llvmlite", "cuda-core")
    return " ".join([*(f"{p} {version_of(p)}" for p in packages), "CUDA {}.{}".format(*toolkit())])

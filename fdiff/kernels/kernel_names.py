"""Names of kernels and texts on disk: hashes of all that they depend on."""

from __future__ import annotations

import hashlib
import platform
import sys
from functools import lru_cache
from pathlib import Path

import fdiff.intact_numpy as np

from ..foreign_errors import Suppressed, environment_value
from ..process.forking import imported
from .compiler_choice import LLVM, described
from .loaded_code import digest

# Of object code: what they import from elsewhere in `kernels` is among them, or does not matter.
_COMPILER_SOURCES = ("ir", "kernel_source.py", "llvm", "machine_code.py", "numba", "runtime")
_HERE = Path(__file__).parent
KERNEL = "kernel"  # the optimisation of kernels, beside `machine_code.Optimisation` of functions


def name_of(text: str, compiler: str = LLVM, optimisation: str = KERNEL) -> str:
    """Name of what a compiler makes of `text`, in these versions of everything, here."""
    made_by = f"{environment()}\n{described(compiler)}\n{optimisation}"
    return hashlib.sha256(f"{made_by}\n{text}".encode()).hexdigest()[:40]


def name_of_text(structure: str) -> str:
    """Name of the text that this version of fdiff generates for a kernel graph."""
    return hashlib.sha256(f"{_generator_digest()}\n{structure}".encode()).hexdigest()[:40]


def compiler_digest() -> str:
    """A hash of the sources that make machine code of a text, and say what its words mean."""
    return digest(*(_HERE.joinpath(name) for name in _COMPILER_SOURCES))


@lru_cache(maxsize=1)
def environment() -> str:
    """Everything besides its text that a compiled kernel depends on."""
    llvmlite = imported("llvmlite")  # its version alone: LLVM is in `llvmlite.binding`
    # `platform.platform()` would start a process to ask for the processor's name
    system = [platform.system(), platform.release(), platform.machine()]
    versions = [llvmlite.__version__, np.__version__, sys.version]
    return "\n".join([compiler_digest(), *versions, *system, _processor()])


@lru_cache(maxsize=1)
def _generator_digest() -> str:
    """Everything besides a kernel graph that its text depends on."""
    return "\n".join([digest(_HERE), sys.version])


def _processor() -> str:
    """Model and instruction sets of the processor, and the level that ``FDIFF_CPU`` allows."""
    return f"{_described()}\n{environment_value('FDIFF_CPU') or ''}"


def _described() -> str:
    wanted = ("model name", "flags", "Features", "CPU part")
    with Suppressed(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))
    return f"{platform.machine()} {platform.processor()}"  # this starts a process

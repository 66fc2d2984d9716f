"""The compiler of kernels: LLVM alone by default, or Numba on request.

``FDIFF_COMPILER=numba`` selects Numba for all kernels, ``jit(f, compiler="numba")`` for the kernels
of one function. Numba is imported when it is to compile a kernel, and not before.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Protocol, cast

from ..errors import InputError, failure, shown
from ..foreign_errors import environment_value
from ..process.forking import no_fork
from ..process.garbage_collection import collector_paused

LLVM, NUMBA = "llvm", "numba"
COMPILERS = (LLVM, NUMBA)
VARIABLE = "FDIFF_COMPILER"
OLDEST = (0, 62)  # of Numba
_SLOWER = 7.0  # what Numba takes to compile a kernel, in times of what LLVM alone does: the median
_START_SECONDS = 1.5  # to import Numba, and for the first function that it compiles


def compiler_of(asked: str = "") -> str:
    """The compiler that a caller asked for, or the environment; LLVM alone otherwise."""
    if asked:
        return asked
    way = f"Set it to {' or '.join(COMPILERS)}, or leave it unset."
    return check_compiler(environment_value(VARIABLE) or LLVM, VARIABLE, way)


def check_compiler(compiler: object, call: str, way: str = "") -> str:
    """A compiler that there is, and that is installed; `way` is the way out of an error."""
    if not isinstance(compiler, str) or compiler not in COMPILERS:
        way = way or f"Write compiler={' or '.join(map(repr, COMPILERS))}, or leave it out."
        raise failure(InputError, call, f"{shown(compiler)} is not a compiler.", way)
    if compiler == NUMBA:
        _check_numba(call)
    return compiler


def _check_numba(call: str) -> None:
    version = numba_version()
    wanted = ".".join(map(str, OLDEST))
    if not version:
        fact = "Numba is not installed."
    elif tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:
        fact = f"Numba {version} is too old: fdiff needs {wanted}."
    else:
        return
    way = f"Install it: pip install 'numba>={wanted}'; or leave the choice to fdiff."
    raise failure(InputError, call, fact, way)


@lru_cache(maxsize=1)
def numba_version() -> str:
    """The version of Numba that is installed; empty without one."""
    with no_fork:
        from importlib.metadata import (  # noqa: PLC0415 - for those who ask for Numba alone
            PackageNotFoundError,
            version,
        )
    try:
        return version("numba")
    except PackageNotFoundError:
        return ""


class NumbaCompiler(Protocol):
    """The module `fdiff.kernels.numba.compilation`."""

    def kernel_code(self, text: str) -> bytes: ...

    def function_code(self, text: str) -> bytes: ...


def numba_compiler() -> NumbaCompiler:
    """Numba, imported when the first kernel is compiled by it."""
    with no_fork, collector_paused():
        return cast("NumbaCompiler", import_module(".numba.compilation", __package__))


def described(compiler: str) -> str:
    """The compiler and its version, for the names of stored kernels."""
    return f"numba {numba_version()}" if compiler == NUMBA else compiler


def seconds_of(compiler: str, by_llvm: float) -> float:
    """Seconds to compile with `compiler`, where LLVM alone would take `by_llvm` seconds."""
    return _START_SECONDS + _SLOWER * by_llvm if compiler == NUMBA else by_llvm

"""Addresses of SciPy's BLAS and LAPACK, in a `table`: docs/decisions/matrix-routines.md.

Only SciPy's two modules of addresses are loaded, as importing `scipy.linalg` takes 0.15 s. Routines
are given the table when they are called, so that no address stands in object code on disk.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType

import fdiff.intact_numpy as np

from ...foreign_errors import environment_value
from ...process.environment import bound_cores
from ...process.forking import no_fork
from ...process.memory_reserve import check_room_for_scipy

_BLAS, _LAPACK = ("gemm", "gemv", "trsm"), ("getrf", "potrf")
_LETTERS = {"f4": "s", "f8": "d"}
NAMES = [letter + name for letter in _LETTERS.values() for name in (*_BLAS, *_LAPACK)]


def places(dtype: str) -> dict[str, int]:
    """The entries of the table as macros: ``GETRF`` is the function for matrices of this dtype.

    ``DGETRF`` is that for double precision.
    """
    letter = _LETTERS[dtype]
    own = {"BLOCKS_TO": len(NAMES)} | {
        name[1:].upper(): k for k, name in enumerate(NAMES) if name[0] == letter
    }
    return own | {name.upper(): k for k, name in enumerate(NAMES) if name[0] == "d"}


@lru_cache(maxsize=2)
def table(*, alone: bool = False) -> np.ndarray:
    """The addresses in this process, then the multiplications up to which products need no BLAS.

    If BLAS is left `alone`, no product is large enough for it: it would start threads of its own.
    """
    modules = [_module(module) for module in ("cython_blas", "cython_lapack")]
    to = np.iinfo(np.int64).max if alone else _blocks_to()
    capsules = {k: v for module in modules for k, v in module.__pyx_capi__.items()}
    return np.array([*(_address(capsules[name]) for name in NAMES), to], np.int64)


def _blocks_to() -> int:
    """BLAS uses threads from about 64 x 64 x 64 multiplications on, if it may use several."""
    wanted = [
        environment_value(f"{name}_NUM_THREADS") for name in ("OPENBLAS", "GOTO", "OMP", "MKL")
    ]
    threads_asked = next((int(n) for n in wanted if n and n.isdecimal()), 0)
    return 1 << 26 if (threads_asked or bound_cores()) == 1 else 1 << 18


def _module(name: str) -> ModuleType:
    """A module of `scipy.linalg` without the package, whose later import finds the same module."""
    check_room_for_scipy()
    with no_fork:
        folders = [f"{folder}/linalg" for folder in import_module("scipy").__path__]
        spec = PathFinder.find_spec(f"scipy.linalg.{name}", folders)
        if spec is None or spec.loader is None:
            raise ImportError(f"SciPy has no scipy.linalg.{name}", name=f"scipy.linalg.{name}")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def _address(capsule: object) -> int:
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, name(capsule)))

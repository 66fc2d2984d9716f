"""Functions of Python's and NumPy's C interfaces, by their addresses."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np


def python_api(name: str) -> int:
    """Address of a function of Python's C interface."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


@lru_cache(maxsize=1)
def _slots() -> ctypes.Array[ctypes.c_void_p]:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api = pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined] - NumPy's C API has no stub
    return ctypes.cast(api, ctypes.POINTER(ctypes.c_void_p))  # type: ignore[return-value] - a pointer is indexed like an array


def numpy_api(slot: int) -> int:
    """What stands in a slot of NumPy's C interface."""
    return int(_slots()[slot] or 0)  # type: ignore[arg-type] - an address

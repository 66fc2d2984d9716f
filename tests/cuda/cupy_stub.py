"""A stand-in for CuPy, over the memory of the host, as far as fdiff uses it."""

import contextlib
import ctypes
import importlib.machinery
import sys
import types

import numpy as np

STREAM = 77  # the current one
pooled = []  # sizes of what was taken from the pool


class Pointer:
    """CuPy's MemoryPointer."""

    def __init__(self, memory, offset=0):
        self.memory, self.ptr = memory, memory.ptr + offset


class Unowned:
    """CuPy's UnownedMemory."""

    def __init__(self, ptr, size, owner):
        self.ptr, self.size, self.owner = ptr, size, owner


class ndarray(np.ndarray):  # noqa: N801 - CuPy's own name
    """An array of NumPy's that tells its address as CuPy's arrays do."""

    def __new__(cls, shape, dtype, memptr):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        there = (ctypes.c_char * max(size, 1)).from_address(memptr.ptr)
        found = np.ndarray.__new__(cls, shape, dtype, there)
        found.kept = memptr
        return found

    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.__array_interface__["data"][0])

    def get(self):
        """The entries, copied to the host."""
        return np.array(self, subok=False)

    @property
    def __cuda_array_interface__(self):
        return {**self.__array_interface__, "version": 3, "stream": STREAM}


def alloc(size):
    pooled.append(size)
    owner = np.empty(size, np.uint8)
    return types.SimpleNamespace(ptr=owner.ctypes.data, owner=owner)


def empty(shape, dtype):
    size = max(int(np.prod(shape)) * np.dtype(dtype).itemsize, 8)
    return ndarray(shape, dtype, alloc(size))


def install():
    """The module `cupy` from now on."""
    cupy = types.ModuleType("cupy")
    cupy.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    cupy.ndarray, cupy.empty, cupy.matmul, cupy.lib = ndarray, empty, np.matmul, np.lib
    cupy.linalg = np.linalg
    extensions = types.ModuleType("cupyx")
    extensions.errstate = lambda linalg: contextlib.nullcontext()
    sys.modules["cupyx"] = extensions
    cupy.cuda = types.SimpleNamespace(
        alloc=alloc,
        Device=lambda: types.SimpleNamespace(id=0),
        MemoryPointer=Pointer,
        UnownedMemory=Unowned,
        get_current_stream=lambda: types.SimpleNamespace(ptr=STREAM),
    )
    sys.modules["cupy"] = cupy

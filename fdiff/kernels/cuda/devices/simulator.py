"""Numba's simulator as a device: the memory of the host, and kernels run by Python's interpreter.

For tests where there is no GPU, and for looking into a kernel with a debugger.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from ....device_arrays import DeviceArray
from ..cuda_program import CudaKernel
from ..cuda_words import function_of
from . import adapter
from .device import Argument, Block, Pointer, Prepared
from .strided_copies import copied, copy_into, zeroed


class Simulator:
    """A device whose memory is the host's."""

    name = "Numba's simulator"
    can_record = False

    def __init__(self) -> None:
        self._cuda = adapter.numba_cuda()
        self._array = type(self._cuda.device_array(1))  # a simulated array around a NumPy array

    def view(self, value: object) -> DeviceArray:
        if isinstance(value, self._array):
            array = cast("Any", value)._ary
            address = array.__array_interface__["data"][0]
            return DeviceArray(self, array.shape, array.dtype, address, value, array.strides)
        interface = cast("Any", value).__cuda_array_interface__
        dtype = np.dtype(interface["typestr"])
        shape, strides = tuple(interface["shape"]), interface.get("strides")
        return DeviceArray(self, shape, dtype, interface["data"][0], value, strides)

    def allocate(self, nbytes: int) -> Block:
        owner = np.empty(nbytes, np.uint8)
        return Block(owner.ctypes.data, owner)

    def results(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        return self.upload(np.empty(shape, dtype))

    def upload(self, array: np.ndarray) -> DeviceArray:
        owner = np.array(array, order="C")
        return DeviceArray(self, owner.shape, owner.dtype, owner.ctypes.data, owner)

    def download(self, array: DeviceArray) -> np.ndarray:
        return np.array(_as_numpy_array(array), order="C")

    def copy(self, array: DeviceArray) -> DeviceArray:
        return copied(self, array)

    def write(self, source: DeviceArray, target: DeviceArray) -> None:
        copy_into(self, source, target)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        return zeroed(self, shape, dtype)

    def wait(self) -> None:
        """Nothing: a launch returns when it is done."""

    def clear(self, address: int, nbytes: int) -> None:
        ctypes.memset(address, 0, nbytes)

    def prepare(
        self, kernel: CudaKernel, blocks: int, threads: int, arguments: Sequence[Argument]
    ) -> Prepared:
        run = self._cuda.jit(function_of(kernel))[blocks, threads]

        def launch(addresses: Sequence[int]) -> None:
            with np.errstate(all="ignore"):  # a GPU warns of nothing
                run(*(self._argument(a, addresses) for a in arguments))

        return launch

    def _argument(self, argument: Argument, addresses: Sequence[int]) -> object:
        if not isinstance(argument, Pointer):
            return argument
        shape = (argument.entries,)
        return self._array(_memory(addresses[argument.slot], shape, argument.dtype))

    def recorded(self, launches: Callable[[], None]) -> Callable[[], None]:
        return launches

    def export(self, array: DeviceArray) -> object:
        return self._array(_as_numpy_array(array))


def _memory(address: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array over memory at an address, which others keep alive."""
    nbytes = prod(shape) * dtype.itemsize
    if not nbytes:
        return np.empty(shape, dtype)
    there = (ctypes.c_char * nbytes).from_address(address)
    return np.frombuffer(memoryview(there), dtype).reshape(shape)


def _as_numpy_array(array: DeviceArray) -> np.ndarray:
    """A device array as a NumPy array over the same memory, which it keeps alive."""
    if isinstance(array.owner, np.ndarray) and array.owner.ctypes.data == array.address:
        return array.owner.view(array.dtype).reshape(array.shape)
    if array.strides is None:
        return _memory(array.address, array.shape, array.dtype)
    steps = list(zip(array.shape, array.strides, strict=True))
    low = sum((n - 1) * s for n, s in steps if s < 0)
    high = sum((n - 1) * s for n, s in steps if s > 0) + array.dtype.itemsize
    flat = _memory(array.address + low, (high - low,), np.dtype(np.uint8))
    return np.ndarray(array.shape, array.dtype, flat, -low, array.strides)

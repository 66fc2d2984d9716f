"""The protocol of a device for programs: memory, copies, and launches that are prepared once.

There are two: a GPU (`gpu`) and Numba's simulator (`simulator`). `device` gives the one at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ....device_arrays import DeviceArray
from ....errors import DeviceError, failure
from ....named_tuples import NamedTuple
from ....process.forking import at_fork, imported
from ..cuda_program import CudaKernel
from . import adapter


class Pointer(NamedTuple):
    """An argument of a launch that changes from call to call: the address of memory `slot`."""

    slot: int
    entries: int
    dtype: np.dtype


Argument = Pointer | int | float
Prepared = Callable[[Sequence[int]], None]  # a launch, given the addresses of all memory


class Block(NamedTuple):
    """A piece of memory: its address, and the object that frees it when nobody holds it."""

    address: int
    owner: object


class CudaDevice(Protocol):
    """A device with one queue of work at a time, in which everything below is done in order."""

    @property
    def name(self) -> str:
        """The device in words, for `repr` and messages."""
        ...

    def view(self, value: object) -> DeviceArray:
        """An array of another library as it lies on the device; later work waits for its own."""
        ...

    def allocate(self, nbytes: int) -> Block:
        """Memory from a pool."""
        ...

    def results(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        """Memory for an array that the caller gets."""
        ...

    def upload(self, array: np.ndarray) -> DeviceArray:
        """A copy on the device, in row-major order."""
        ...

    def download(self, array: DeviceArray) -> np.ndarray:
        """A copy in the memory of the host, once all work before is done."""
        ...

    def copy(self, array: DeviceArray) -> DeviceArray:
        """A copy of an array in row-major order, on the device."""
        ...

    def write(self, source: DeviceArray, target: DeviceArray) -> None:
        """Copy the entries of an array into another one of this shape and dtype."""
        ...

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        """A new array of zeros."""
        ...

    def wait(self) -> None:
        """Wait until everything that was launched is done."""
        ...

    def clear(self, address: int, nbytes: int) -> None:
        """Set bytes to zero."""
        ...

    def prepare(
        self, kernel: CudaKernel, blocks: int, threads: int, arguments: Sequence[Argument]
    ) -> Prepared:
        """A launch of a kernel, which is compiled or loaded now."""
        ...

    can_record: bool

    def recorded(self, launches: Callable[[], None]) -> Callable[[], None]:
        """A function that repeats all launches of `launches` at once; needs `can_record`."""
        ...

    def export(self, array: DeviceArray) -> object:
        """The array as users get it: CuPy's where CuPy is there, else Numba's."""
        ...


def device(call: str) -> CudaDevice:
    """The device that the public call `call` asked for; raises `DeviceError` if there is none."""
    simulated = adapter.simulated()
    current = _devices.get(simulated)
    if current is None:
        if (fault := adapter.fault()) is not None:
            fact = f"device='cuda' was asked for, but {fault.fact}"
            raise failure(DeviceError, call, fact, fault.way)
        home = imported(".simulator" if simulated else ".gpu", __package__)
        opened = home.Simulator() if simulated else home.Gpu()
        current = _devices.setdefault(
            simulated, opened
        )  # the first one, if two threads come at once
    return current


_devices: dict[bool, CudaDevice] = {}  # made at the first call: the simulator by True
at_fork(after_in_child=_devices.clear)  # where CUDA does not work: it asks again, and is told so

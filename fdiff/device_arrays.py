"""Arrays in the memory of a device, as plain data, and the recognition of other libraries' arrays.

Nothing here imports a library of a device: an array of another library is recognised by its
protocol (``__cuda_array_interface__`` [1]_ or DLPack [2]_), and is wrapped by the device that asks
for it (`fdiff.kernels.cuda`).

.. [1] https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html

.. [2] https://dmlc.github.io/dlpack/latest/python_spec.html
"""

from __future__ import annotations

from math import prod
from typing import Any, Protocol

import fdiff.intact_numpy as np

CPU, CUDA = "cpu", "cuda"
DEVICES = (CPU, CUDA)
_DLPACK_CUDA = (2, 13)  # kDLCUDA and kDLCUDAManaged


class MemoryDevice(Protocol):
    """The methods of a device that its arrays use."""

    def download(self, array: DeviceArray) -> np.ndarray:
        """A copy in the memory of the host, once all that was launched before is done."""
        ...

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        """A new array of zeros."""
        ...

    def write(self, source: DeviceArray, target: DeviceArray) -> None:
        """Copy the entries of an array into another one of this shape and dtype."""
        ...

    def export(self, array: DeviceArray) -> object:
        """The array as users get it, of a library of theirs."""
        ...


class DeviceArray:
    """An array on a device: its type, its address, and the owner that keeps its memory alive.

    `strides` are in bytes; None stands for row-major order.
    """

    __slots__ = ("address", "device", "dtype", "owner", "shape", "strides")

    def __init__(
        self,
        device: MemoryDevice,
        shape: tuple[int, ...],
        dtype: np.dtype,
        address: int,
        owner: object,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.device = device
        self.shape = shape
        self.dtype = dtype
        self.address = address
        self.owner = owner
        self.strides = None if strides is None or _in_order(shape, strides, dtype) else strides

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def host(self) -> np.ndarray:
        """The entries as a NumPy array: waits for the device, and copies."""
        return self.device.download(self)

    def __getitem__(self, index: tuple[()]) -> DeviceArray:
        """The array itself: a result without axes stays an array on its device."""
        assert index == (), "entries are read on the host"
        return self

    def __bool__(self) -> bool:
        return bool(self.host())

    def as_number(self, kind: type) -> object:
        """The array without axes as a Python number."""
        return kind(self.host())


def _in_order(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether these strides are in row-major order; strides of axes with one entry do not count."""
    due = dtype.itemsize
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != due:
            return not prod(shape)
        due *= n
    return True


def described(value: Any) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of an array of another library, by which two of them are compared."""
    if hasattr(type(value), "__cuda_array_interface__"):
        interface = value.__cuda_array_interface__
        return tuple(interface["shape"]), str(interface["typestr"])
    return tuple(value.shape), str(value.dtype)


def lies_on_device(value: Any) -> bool:
    """Whether a value is an array of another library, in the memory of a GPU."""
    kind = type(value)
    if isinstance(value, (np.ndarray, np.generic, int, float, complex, str)):
        return False
    if getattr(kind, "__cuda_ndarray__", False) is True:  # Numba's, its simulator's too
        return True
    if hasattr(kind, "__cuda_array_interface__"):
        try:  # arrays of torch and JAX in the memory of the host have none
            return getattr(value, "__cuda_array_interface__", None) is not None
        except RuntimeError:  # of torch, if it is part of its graph: it lies on a GPU
            return True
    if hasattr(kind, "__dlpack_device__"):
        return int(value.__dlpack_device__()[0]) in _DLPACK_CUDA
    return False

"""Copies of arrays with any strides into row-major order, by a kernel of their own."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...device_arrays import DeviceArray
from ...errors import InputError, message
from .device import CudaDevice, Pointer
from .program import CudaKernel, Parameter

_THREADS = 256
_MOST_BLOCKS = 4096  # then each thread copies several entries
_LEAVES = (1, 2, 4, 8)  # bytes of what is moved at once


def copied(device: CudaDevice, array: DeviceArray) -> DeviceArray:
    """A copy of `array` in row-major order, which somebody else may own."""
    out = device.results(array.shape, array.dtype)
    if not array.size:
        return out
    unit = next((n for n in reversed(_LEAVES) if _fits(array, n)), 0)
    if not unit:
        fact = f"an array has strides {array.strides} for entries of {array.dtype}."
        raise InputError(message("device='cuda'", fact, "Pass a contiguous copy of it."))
    shape, strides = array.shape, array.strides or _row_major(array)
    if array.dtype.itemsize != unit:  # an entry of several units is one more axis
        shape, strides = (*shape, array.dtype.itemsize // unit), (*strides, unit)
    steps = [s // unit for s in strides]
    before = sum((n - 1) * s for n, s in zip(shape, steps, strict=True) if s < 0)
    reach = sum((n - 1) * abs(s) for n, s in zip(shape, steps, strict=True)) + 1
    count = int(np.prod(shape, dtype=np.int64))
    dtype = np.dtype(f"u{unit}")
    launch = device.prepare(
        _kernel(len(shape), unit),
        min(-(-count // _THREADS), _MOST_BLOCKS),
        _THREADS,
        [Pointer(0, reach, dtype), Pointer(1, count, dtype), count, -before, *shape, *steps],
    )
    launch([array.address + before * unit, out.address])
    return out


def _fits(array: DeviceArray, unit: int) -> bool:
    """Whether entries and strides are whole numbers of units of so many bytes."""
    steps = array.strides or ()
    return not any(n % unit for n in (array.dtype.itemsize, *steps)) and not array.address % unit


def _row_major(array: DeviceArray) -> tuple[int, ...]:
    found, step = [0] * array.ndim, array.dtype.itemsize
    for k in reversed(range(array.ndim)):
        found[k], step = step, step * array.shape[k]
    return tuple(found)


@lru_cache(maxsize=64)
def _kernel(rank: int, unit: int) -> CudaKernel:
    """The kernel for arrays of so many axes, whose entries are counted in units of bytes."""
    axes = range(rank)
    names = ["count", "begin", *(f"n{k}" for k in axes), *(f"s{k}" for k in axes)]
    lines = [f"def copy_strided({', '.join(['x', 'out', *names])}):"]
    lines.append("    for i in range(cuda.grid(1), count, cuda.gridsize(1)):")
    lines += ["        place = begin", "        rest = i"]
    for k in reversed(axes):
        lines += [f"        place += (rest % n{k}) * s{k}", f"        rest = rest // n{k}"]
    lines.append("        out[i] = x[place]")
    memory = [Parameter(name, f"u{unit}", address=True) for name in ("x", "out")]
    numbers = [Parameter(name, "i8", address=False) for name in names]
    return CudaKernel("copy_strided", "\n".join(lines) + "\n", (*memory, *numbers))

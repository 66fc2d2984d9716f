"""Copies between arrays with any strides, by a kernel of their own."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from ....device_arrays import DeviceArray
from ..cuda_program import CudaKernel, Parameter
from .device import CudaDevice, Pointer

_THREADS = 256
_MOST_BLOCKS = 4096  # then each thread copies several entries
_LEAVES = (8, 4, 2, 1)  # bytes of what is moved at once: as many as fit


def copied(device: CudaDevice, array: DeviceArray) -> DeviceArray:
    """A copy of `array` in row-major order, which somebody else may own."""
    out = device.results(array.shape, array.dtype)
    copy_into(device, array, out)
    return out


def zeroed(device: CudaDevice, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
    """A new array of zeros."""
    out = device.results(shape, dtype)
    device.clear(out.address, out.nbytes)
    return out


def copy_into(device: CudaDevice, source: DeviceArray, target: DeviceArray) -> None:
    """Copy the entries of an array into another one, each with strides of its own."""
    if not source.size:
        return
    both = (source, target)
    unit = next(n for n in _LEAVES if all(_is_multiple(a, n) for a in both))
    shape = source.shape
    if source.dtype.itemsize != unit:  # an entry of several units is one more axis
        shape = (*shape, source.dtype.itemsize // unit)
    count, dtype = prod(shape), np.dtype(f"u{unit}")
    steps = [_steps(a, unit) for a in both]
    begins = [
        sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0) for strides in steps
    ]
    reach = [
        sum((n - 1) * abs(s) for n, s in zip(shape, strides, strict=True)) + 1 for strides in steps
    ]
    pointers = [Pointer(k, entries, dtype) for k, entries in enumerate(reach)]
    launch = device.prepare(
        _kernel(len(shape), unit),
        min(-(-count // _THREADS), _MOST_BLOCKS),
        _THREADS,
        [*pointers, count, *(-b for b in begins), *shape, *steps[0], *steps[1]],
    )
    launch([a.address + b * unit for a, b in zip(both, begins, strict=True)])


def _steps(array: DeviceArray, unit: int) -> list[int]:
    """Strides in units, with the stride of an entry's units where an entry has several."""
    steps = [s // unit for s in array.strides or _row_major(array)]
    return steps if array.dtype.itemsize == unit else [*steps, 1]


def _is_multiple(array: DeviceArray, unit: int) -> bool:
    """Whether the address, entries and strides are multiples of `unit` bytes."""
    steps = array.strides or ()
    return not any(n % unit for n in (array.dtype.itemsize, *steps)) and not array.address % unit


def _row_major(array: DeviceArray) -> tuple[int, ...]:
    strides, step = [0] * array.ndim, array.dtype.itemsize
    for k in reversed(range(array.ndim)):
        strides[k], step = step, step * array.shape[k]
    return tuple(strides)


@lru_cache(maxsize=64)
def _kernel(rank: int, unit: int) -> CudaKernel:
    """The kernel that copies arrays of `rank` axes in units of `unit` bytes."""
    axes = range(rank)
    names = ["count", "begin", "first", *(f"{letter}{k}" for letter in "nst" for k in axes)]
    lines = [f"def copy_strided({', '.join(['x', 'out', *names])}):"]
    lines.append("    for i in range(cuda.grid(1), count, cuda.gridsize(1)):")
    lines += ["        place = begin", "        to = first", "        rest = i"]
    for k in reversed(axes):
        lines += [f"        at = rest % n{k}", f"        place += at * s{k}"]
        lines += [f"        to += at * t{k}", f"        rest = rest // n{k}"]
    lines.append("        out[to] = x[place]")
    memory = [Parameter(name, f"u{unit}", address=True) for name in ("x", "out")]
    numbers = [Parameter(name, "i8", address=False) for name in names]
    return CudaKernel("copy_strided", "\n".join(lines) + "\n", (*memory, *numbers))

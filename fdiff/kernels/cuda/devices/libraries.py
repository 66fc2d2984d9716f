"""Steps that are calls of a library: cuBLAS and cuSOLVER, through CuPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import prod
from types import ModuleType
from typing import Protocol, Self

import numpy as np

from ....errors import DeviceError, message
from ...ir.loops import Call
from ..cuda_program import LibraryCall, Numbers, SortKeys, evaluate
from . import adapter
from .device import CudaDevice, Pointer, Prepared


class CuArray(Protocol):
    """An array of CuPy."""

    dtype: np.dtype

    def reshape(self, shape: tuple[int, ...]) -> Self: ...
    def sort(self) -> None: ...
    def __getitem__(self, key: slice, /) -> Self: ...
    def __setitem__(self, key: object, value: object, /) -> None: ...


Routine = Callable[[ModuleType, list[CuArray], list[int]], None]  # CuPy, its arrays, and sizes
Pointers = Callable[[str], Pointer]  # the memory of a name, as an argument
_INSTALL = "Install CuPy, whose libraries do it: pip install cupy-cuda12x (or cupy-cuda13x)."


def library_step(
    step: LibraryCall | SortKeys, pointers: Pointers, numbers: Numbers
) -> Prepared | None:
    """A step by a library, with its sizes put in; None where there is no library for it."""
    cupy = adapter.cupy()
    if cupy is None:
        return None
    if isinstance(step, SortKeys):
        return _sorted(cupy, pointers(step.keys), evaluate(step.number, numbers))
    if (routine := _ROUTINES.get(step.call.name)) is None:
        return None
    return _routine_call(cupy, routine, step.call, pointers, numbers)


def lacking_library(step: LibraryCall | SortKeys, device: CudaDevice) -> DeviceError:
    """The error where a step needs a library that is not there."""
    what = "sorting" if isinstance(step, SortKeys) else step.call.name
    fact = f"{what} of such sizes on {device.name} needs a library that is not there."
    return DeviceError(message("device='cuda'", fact, _INSTALL))


def _sorted(cupy: ModuleType, keys: Pointer, number: int) -> Prepared:
    """Integers sorted in place."""

    def run(addresses: Sequence[int]) -> None:
        _array(cupy, addresses[keys.slot], number, keys.dtype).sort()

    return run


def _routine_call(
    cupy: ModuleType, routine: Routine, call: Call, pointers: Pointers, numbers: Numbers
) -> Prepared:
    """A routine on the buffers of a call."""
    sizes = [evaluate(size, numbers) for size in call.sizes]
    begins = [evaluate(b, numbers) for b in call.begins] or [0] * len(call.buffers)
    memory = [pointers(b) for b in call.buffers]

    def run(addresses: Sequence[int]) -> None:
        flat = [
            _array(cupy, addresses[p.slot] + b * p.dtype.itemsize, p.entries - b, p.dtype)
            for p, b in zip(memory, begins, strict=True)
        ]
        routine(cupy, flat, sizes)

    return run


def _array(cupy: ModuleType, address: int, number: int, dtype: np.dtype) -> CuArray:
    """CuPy's array over memory that others keep alive."""
    memory = cupy.cuda.UnownedMemory(address, number * dtype.itemsize, None)
    return cupy.ndarray((number,), dtype, cupy.cuda.MemoryPointer(memory, 0))


def _matmul(cupy: ModuleType, flat: list[CuArray], sizes: list[int]) -> None:
    """A stack of products; either operand may be transposed, rows have strides."""
    stack, m, k, n, *steps, flip_a, flip_b = sizes
    step_a, lead_a, step_b, lead_b, step_c, lead_c = steps
    a = _matrices(cupy, flat[0], (stack, m, k), step_a, lead_a, flipped=bool(flip_a))
    b = _matrices(cupy, flat[1], (stack, k, n), step_b, lead_b, flipped=bool(flip_b))
    c = _matrices(cupy, flat[2], (stack, m, n), step_c, lead_c, flipped=False)
    c[...] = cupy.matmul(a, b)


def _matrices(
    cupy: ModuleType, flat: CuArray, shape: tuple[int, ...], step: int, lead: int, *, flipped: bool
) -> CuArray:
    """A stack of matrices in flat memory; of a flipped one, `lead` is the stride of columns."""
    size = flat.dtype.itemsize
    strides = (step * size, size, lead * size) if flipped else (step * size, lead * size, size)
    return cupy.lib.stride_tricks.as_strided(flat, shape, strides)


def _solve(cupy: ModuleType, flat: list[CuArray], sizes: list[int]) -> None:
    a, b, x, *_ = flat
    stack, n, columns = sizes
    right = (stack, n, columns)
    with _reporting_singular():
        _first(x, right)[...] = cupy.linalg.solve(_first(a, (stack, n, n)), _first(b, right))


def _inv(cupy: ModuleType, flat: list[CuArray], sizes: list[int]) -> None:
    stack, n = sizes
    with _reporting_singular():
        _first(flat[1], (stack, n, n))[...] = cupy.linalg.inv(_first(flat[0], (stack, n, n)))


def _cholesky(cupy: ModuleType, flat: list[CuArray], sizes: list[int]) -> None:
    stack, n = sizes
    with _reporting_singular():
        _first(flat[1], (stack, n, n))[...] = cupy.linalg.cholesky(_first(flat[0], (stack, n, n)))


def _det(cupy: ModuleType, flat: list[CuArray], sizes: list[int]) -> None:
    stack, n = sizes
    _first(flat[1], (stack,))[...] = cupy.linalg.det(_first(flat[0], (stack, n, n)))


def _slogdet(cupy: ModuleType, flat: list[CuArray], sizes: list[int]) -> None:
    stack, n = sizes
    results = cupy.linalg.slogdet(_first(flat[0], (stack, n, n)))
    for out, values in zip(flat[1:3], results, strict=True):
        _first(out, (stack,))[...] = values


def _first(flat: CuArray, shape: tuple[int, ...]) -> CuArray:
    """The first entries of flat memory in this shape."""
    return flat[: prod(shape)].reshape(shape)


def _reporting_singular() -> AbstractContextManager[object]:
    """CuPy reports singular matrices in this context, as `numpy.linalg` does."""
    return adapter.cupyx().errstate(linalg="raise")


_ROUTINES: dict[str, Routine] = {
    "matmul": _matmul,
    "solve": _solve,
    "inv": _inv,
    "det": _det,
    "slogdet": _slogdet,
    "cholesky": _cholesky,
}

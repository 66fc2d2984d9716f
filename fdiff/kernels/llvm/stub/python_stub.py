"""A kernel called through ctypes, where the entry stub cannot run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ....process.float_flags import note_flags
from .call_descriptor import BoundKernel, KernelInput, KernelOutput
from .descriptor_layout import ALIGNED, PLAIN, WRITEABLE

_LINE = 64  # bytes to which a workspace is aligned


def call_through_python(
    bound: BoundKernel,
    inputs: Sequence[KernelInput],
    outputs: Sequence[KernelOutput],
    *,
    status: bool,
) -> Callable[..., object]:
    """A function of the inputs in their order, which returns a tuple of outputs.

    If `status` says so, the kernel's status. For arguments of other types or layouts the function
    returns None, and so it does if it was to return outputs and the kernel fails.
    """
    kernel = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)(bound.address)

    def run(*arguments: object) -> object:
        if len(arguments) != len(inputs):
            return None
        taken = [_as_array(a, entry) for a, entry in zip(arguments, inputs, strict=True)]
        arrays = [array for array in taken if array is not None]
        if len(arrays) < len(taken):
            return None
        results = [np.empty(o.shape, o.dtype) for o in outputs]
        code = _status_of(kernel, bound, inputs, [*arrays, *results])
        if status:
            return code
        return tuple(results) if code == 0 else None

    return run


def _status_of(
    kernel: Callable[..., int],
    bound: BoundKernel,
    inputs: Sequence[KernelInput],
    arrays: Sequence[np.ndarray],
) -> int:
    """The kernel's status for its inputs and then the arrays that it writes to."""
    read = sum(entry.written is None for entry in inputs)
    pairs = zip(arrays, inputs, strict=False)
    strides = [s // a.itemsize for a, entry in pairs if entry.strided for s in a.strides]
    work = np.empty(bound.size + _LINE, np.uint8)
    data = [array.ctypes.data for array in (*arrays[:read], *bound.constants, *arrays[read:])]
    words = np.array([*data, work.ctypes.data + _LINE - 1 & -_LINE], np.int64)
    steps = np.array(strides or [0], np.int64)
    tables = (words, steps, bound.ints, bound.floats)
    code = kernel(*[table.ctypes.data for table in tables])
    note_flags()
    return code


def _as_array(value: object, entry: KernelInput) -> np.ndarray | None:
    """The array of an argument; None if the kernel needs a conversion of it."""
    if type(value) is not np.ndarray:
        number = entry.shape == () and entry.written is None
        fits = number and isinstance(value, (float, complex, np.inexact))
        return (
            np.array(value, entry.dtype) if fits and np.dtype(type(value)) == entry.dtype else None
        )
    mask = ALIGNED if entry.strided else PLAIN | (WRITEABLE if entry.written is not None else 0)
    fits = (
        value.shape == entry.shape and value.dtype == entry.dtype and value.flags.num & mask == mask
    )
    whole = not entry.strided or not any(step % value.itemsize for step in value.strides)
    return value if fits and whole else None

"""A kernel called with arrays: what is allocated, what is passed along, what a status means."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np

from ..tape import Tape
from .bones import Values
from .emit.workspace import Room

_KEEP = 1 << 26  # bytes up to which a workspace is kept for later calls
spare: dict[int, list[np.ndarray]] = {}


class Executable(Protocol):
    """A kernel bound to one tape: call it with the tape's inputs, get its outputs."""

    source: str
    parts: Parts

    def __call__(self, *arrays: object) -> list[np.ndarray]: ...


class Parts(NamedTuple):
    """What a call comes to: ``entry(*inputs, *fixed, *outputs)``, which gives 0 for success."""

    entry: Callable[..., int]
    fixed: tuple[object, ...]
    made: tuple[tuple[tuple[int, ...], np.dtype], ...]  # shapes and dtypes of the outputs


class Kernel(NamedTuple):
    """Machine code for one structure, with the addresses of the routines it calls."""

    entry: Callable[..., int]
    addresses: tuple[int, ...]
    rooms: tuple[Room, ...]
    text: str
    name: str
    patient: Callable[[], Callable[..., int]] | None


def _fail(status: int) -> None:
    """The exception a status stands for."""
    if status == 1:
        raise IndexError("index is out of bounds")
    if status == 2:
        raise np.linalg.LinAlgError("Singular matrix")
    raise np.linalg.LinAlgError("Matrix is not positive definite")


def bind(kernel: Kernel, tape: Tape, values: Values) -> Executable:
    """A function of the inputs alone; the common numbers of outputs have their own, for speed."""
    begins = list(accumulate((room.bytes(values.ints) for room in kernel.rooms), initial=0))
    ints = np.array([*values.ints, *kernel.addresses, *begins], np.int64)
    fixed = (*values.arrays, ints, np.array(values.floats, np.float64))

    def furnished(entry: Callable[..., int]) -> Callable[..., int]:
        return _furnished(entry, begins[-1]) if kernel.rooms else entry

    entry = furnished(kernel.entry)
    made = [(t.shape, t.dtype) for t in tape.output_types]
    empty = np.empty

    def settle(status: int, arrays: tuple[object, ...], outs: list[np.ndarray]) -> list[np.ndarray]:
        """Call again with copies of oddly laid out inputs, or patiently for huge angles, or raise.

        An error too may come from an angle, of which the sine was NaN.
        """
        if status == -1:
            copies = [np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a for a in arrays]
            return settle(entry(*copies, *fixed, *outs), tuple(copies), outs)
        if status and kernel.patient is not None:
            status = furnished(kernel.patient())(*arrays, *fixed, *outs)
        if status:
            _fail(status)
        return outs

    def one(*arrays: object) -> list[np.ndarray]:
        out = empty(shape, dtype)
        status = entry(*arrays, *fixed, out)
        return settle(status, arrays, [out]) if status else [out]

    def two(*arrays: object) -> list[np.ndarray]:
        out, second = empty(shape, dtype), empty(shape2, dtype2)
        status = entry(*arrays, *fixed, out, second)
        return settle(status, arrays, [out, second]) if status else [out, second]

    def many(*arrays: object) -> list[np.ndarray]:
        outs = [empty(s, d) for s, d in made]
        status = entry(*arrays, *fixed, *outs)
        return settle(status, arrays, outs) if status else outs

    (shape, dtype), (shape2, dtype2) = [*made, ((), np.float64), ((), np.float64)][:2]
    run = one if len(made) == 1 else two if len(made) == 2 else many
    run.source = kernel.text  # type: ignore[attr-defined]
    run.parts = Parts(entry, fixed, tuple(made))  # type: ignore[attr-defined]
    return run  # type: ignore[return-value]


def _furnished(entry: Callable[..., int], size: int) -> Callable[..., int]:
    """`entry` with a workspace as its last argument."""
    room = 1 << max(size, 4096).bit_length() if size <= _KEEP else size
    kept = spare.setdefault(room, []) if size <= _KEEP else None

    def run(*arguments: object) -> int:
        work = kept.pop() if kept else _workspace(room)
        status = entry(*arguments, work)
        if kept is not None:
            kept.append(work)
        return status

    return run


def _workspace(size: int) -> np.ndarray:
    """Memory that begins with a cache line; what is never touched costs nothing."""
    raw = np.empty(size + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    return raw[begin : begin + size]

"""A kernel called with arrays: what is allocated, what is passed along, what a status means."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple, cast

import numpy as np

from ..arraytype import ArrayType
from ..errors import CompileError
from ..tape import Tape
from .ir.graph import Values
from .ir.parallel import PARTS, THREADS
from .kernel_source import WorkspaceBuffer
from .llvm.call_descriptor import Given, KernelInput, KernelOutput, Machinery, Make
from .llvm.dispatch_table import caller, fault
from .llvm.machine import Loaded
from .llvm.python_stub import portable
from .runtime.status import error_of
from .runtime.worker_code import HEADER
from .thread_pool import pool, threads

_KEEP = 1 << 26  # bytes up to which a workspace is kept for later calls
_BRIEF = 1 << 14  # bytes of arrays up to which other threads may as well wait
spare: dict[int, np.ndarray] = {}  # by size, a cell with the address of a workspace or 0


class Kernel(NamedTuple):
    """Machine code for one structure, with the addresses of the routines it calls.

    `stub` gives the address of the entry stub, 0 as long as that is made in the background;
    `patient` makes the kernel for sines of huge arguments.
    `run` is the address of what runs a kernel for several threads, 0 for any other.
    """

    code: Loaded
    addresses: tuple[int, ...]
    buffers: tuple[WorkspaceBuffer, ...]
    text: str
    layouts: tuple[str, ...]
    patient: Callable[[], Loaded] | None
    stub: Callable[[], int]
    run: int


class Parts(NamedTuple):
    """What a call comes to, for whoever writes his own."""

    machinery: Machinery
    inputs: tuple[KernelInput, ...]
    made: tuple[tuple[tuple[int, ...], np.dtype], ...]  # shapes and dtypes of the outputs
    call: int


class Executable:
    """A kernel bound to one tape: call it with the tape's inputs, get its outputs."""

    def __init__(self, kernel: Kernel, tape: Tape, values: Values, parts: int = 1) -> None:
        self.source = kernel.text
        self._parts = parts  # of loops that several threads share
        self._threads = threads() if kernel.run else 1
        self._kernel = kernel
        self._made = tuple((t.shape, _plain(t)) for t in tape.output_types)
        self._inputs = tuple(
            KernelInput(k, t.shape, _plain(t), strided=layout == "A" and bool(t.shape))
            for k, (t, layout) in enumerate(zip(tape.input_types, kernel.layouts, strict=True))
        )
        self._machinery = self._furnished(values)
        self._apart: Parts | None = None
        self._called = False
        self._quick: Callable[..., Any] = self._without_stub

    def __call__(self, *arrays: object) -> tuple[np.ndarray, ...]:
        found = self._quick(*arrays)
        return self._careful(arrays) if found is None else found

    @property
    def note(self) -> str:
        """Why calls go through Python although there is a kernel, in words; else empty."""
        call = self._kernel.stub() if self._called else 0
        words = fault(call) if call else ""
        return f", called through Python: {words}" if words else ""

    def _without_stub(self, *arrays: object) -> object:
        """None: a call goes through Python. From the second on the entry stub is wanted.

        A program that is called once does not wait until the stub is compiled.
        """
        if not self._called:
            self._called = True
            return None
        call = self._kernel.stub()
        if not call:
            return None
        result = [Make("MADE", k) for k in range(len(self._made))]
        result.append(Make("GROUP", tuple, len(self._made)))
        outputs = [KernelOutput(*made) for made in self._made]
        given = Given(len(self._inputs))
        self._quick = caller(call, self._machinery, given, self._inputs, outputs, result)
        return self._quick(*arrays)

    def parts(self) -> Parts | None:
        """The kernel taken apart; None as long as the entry stub is being made."""
        if self._apart is None and (call := self._kernel.stub()):
            self._apart = Parts(self._machinery, self._inputs, self._made, call)
        return self._apart

    def _status(
        self, machinery: Machinery, given: list[np.ndarray], outs: tuple[np.ndarray, ...]
    ) -> int:
        """What the kernel says of a call that goes through Python."""
        first = len(self._inputs)
        written = [KernelInput(first + k, *made, written=k) for k, made in enumerate(self._made)]
        run = portable(machinery, (*self._inputs, *written), (), status=True)
        status = run(*given, *outs)
        assert status is not None, "a kernel was given what its tape has no inputs for"
        return cast("int", status)

    def _careful(self, arrays: tuple[object, ...]) -> tuple[np.ndarray, ...]:
        """A call with arguments that are laid out oddly, or that fails.

        An error may come from a huge angle, of which the sine was NaN.
        """
        given = [_laid(a, i) for a, i in zip(arrays, self._inputs, strict=True)]
        outs = tuple(np.empty(shape, dtype) for shape, dtype in self._made)
        status = self._status(self._machinery, given, outs)
        if status and self._kernel.patient is not None:
            patient = self._run_by(self._machinery, self._patient())
            status = self._status(patient, given, outs)
        if status:
            raise error_of(status)
        return outs

    def _patient(self) -> Loaded:
        """The kernel for sines of huge arguments, which may have to be compiled now."""
        assert self._kernel.patient is not None, "no sine, and no other kernel"
        try:
            return self._kernel.patient()
        except Exception as error:
            raise CompileError(f"{type(error).__name__}: {error}") from error

    def _furnished(self, values: Values) -> Machinery:
        """The kernel with its tables and its workspace."""
        kernel = self._kernel
        copies = {"": 1, THREADS: self._threads, PARTS: self._parts}
        one = [room.bytes(values.ints) for room in kernel.buffers]
        taken = [b * copies[room.copies] for b, room in zip(one, kernel.buffers, strict=True)]
        begins = list(accumulate(taken, initial=0))
        widths = [b // int(room.dtype[1]) for b, room in zip(one, kernel.buffers, strict=True)]
        rest = [self._parts, *widths] if kernel.run else []
        ints = np.array([*values.ints, *kernel.addresses, *begins, *rest], np.int64)
        floats = np.array(values.floats, np.float64)
        size = 1 << max(begins[-1], 4096).bit_length() if begins[-1] <= _KEEP else begins[-1]
        size = size if kernel.buffers else 0
        keep = size <= _KEEP
        cell = spare.setdefault(size, np.zeros(1, np.int64)) if keep else np.zeros(1, np.int64)
        shapes = [*self._made, *((i.shape, i.dtype) for i in self._inputs)]
        brief = size + sum(_bytes(*pair) for pair in shapes) <= _BRIEF and not kernel.addresses
        made = Machinery(
            0, ints, floats, values.arrays, size, cell, keep, not brief or bool(kernel.run), None
        )
        return self._run_by(made, kernel.code)

    def _run_by(self, machinery: Machinery, code: Loaded) -> Machinery:
        """The same with this code, which several threads run if it is made for that."""
        if not self._kernel.run:
            return machinery._replace(address=code.address, owner=code)
        most = min(self._parts, self._threads)
        words = {"JOB_POOL": pool.address, "JOB_CODE": code.address, "JOB_THREADS": most}
        before = np.zeros(len(HEADER), np.int64)
        for name, value in words.items():
            before[HEADER[name]] = value
        ints = np.concatenate([before, machinery.ints])[len(HEADER) :]
        return machinery._replace(address=self._kernel.run, owner=code, ints=ints)


def _plain(type_: ArrayType) -> np.dtype[Any]:
    """The dtype as arrays have it that were made without much thought."""
    return np.dtype(type_.dtype.str)


def _bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _laid(given: object, wanted: KernelInput) -> np.ndarray:
    """The argument as an array that a kernel takes, copied if need be."""
    array = np.asarray(given)
    assert array.shape == wanted.shape, "a kernel was given what its tape has no inputs for"
    if array.dtype is not wanted.dtype:
        array = array.astype(wanted.dtype)
    odd = any(step % array.itemsize for step in array.strides) or not array.flags.aligned
    if odd or not (wanted.strided or array.flags.c_contiguous):
        array = np.array(array, order="C")
    return array.view(np.ndarray)


def release_spare() -> None:
    """Give the workspaces back to the system."""
    free = ctypes.pythonapi.PyMem_RawFree
    free.argtypes, free.restype = [ctypes.c_void_p], None
    for cell in spare.values():
        address, cell[0] = int(cell[0]), 0
        free(address)

"""A kernel bound to a tape, to be called with arrays.

This is where tables of numbers and the workspace are laid out, where arguments are copied that no
kernel takes as they are, and where a status becomes an exception.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from time import perf_counter
from typing import cast

import fdiff.intact_numpy as np

from ..arraytype import ArrayType
from ..errors import CompileError
from ..foreign_errors import is_foreign
from ..hooks import Function
from ..named_tuples import NamedTuple
from ..process import interruptible
from ..tape import Tape
from .interrupted_kernels import BRIEF, stoppable
from .ir.kernel_graph import Values
from .ir.parallel import PARTS, THREADS
from .kernel_source import KernelSource
from .llvm.machine import Loaded
from .llvm.stub.call_descriptor import (
    BoundKernel,
    CallSignature,
    KernelInput,
    KernelOutput,
    ResultStep,
)
from .llvm.stub.python_stub import call_through_python
from .llvm.stub.stub_binding import bind_entry_stub, stub_fault
from .runtime.status_errors import error_of
from .runtime.worker_code import HEADER
from .thread_pool import pool, threads

_KEEP = 1 << 26  # bytes up to which a workspace is kept for later calls
_BRIEF = 1 << 14  # bytes of arrays up to which a kernel keeps the GIL
# By size, an array that holds the address of a workspace for the next call, or 0.
_spare: dict[int, np.ndarray] = {}


class Kernel(NamedTuple):
    """Machine code for one structure, with the addresses of the routines it calls.

    `compiler` made the code of `source`. `by_libm` gives the kernel for arguments of sin, cos or
    tan that are out of range. `stub` gives the address of the entry stub, 0 as long as that is
    compiled in the background. `run` is the address of the function that runs a parallel kernel, 0
    for any other.
    """

    code: Loaded
    addresses: tuple[int, ...]
    source: KernelSource
    layouts: tuple[str, ...]
    by_libm: Callable[[], Loaded] | None
    stub: Callable[[], int]
    run: int
    compiler: str


class CallParts(NamedTuple):
    """The parts of a call, for fast paths, which bind kernel and entry stub themselves.

    `made` are shapes and dtypes of the outputs, `call` is the address of the entry stub.
    """

    kernel: BoundKernel
    inputs: tuple[KernelInput, ...]
    made: tuple[tuple[tuple[int, ...], np.dtype], ...]
    call: int


class BareKernel(NamedTuple):
    """A kernel with its tables, without an entry stub: addresses that machine code calls.

    `by_libm` gives the address of the kernel for arguments of sin, cos or tan that are out of
    range; it compiles that when it is first asked.
    """

    kernel: BoundKernel
    inputs: tuple[KernelInput, ...]
    made: tuple[tuple[tuple[int, ...], np.dtype], ...]
    by_libm: Callable[[], int] | None


class Executable:
    """A kernel bound to one tape: call it with the tape's inputs, get its outputs.

    `quick` is the same call for arrays that need no care; it gives None for others.
    """

    def __init__(
        self, kernel: Kernel, tape: Tape, values: Values, parts: int = 1, stamps: int = 0
    ) -> None:
        self.source = kernel.source.text
        self.compiler = kernel.compiler
        self._parts = parts  # of parallel loops
        self._threads = threads() if kernel.run else 1
        self._kernel = kernel
        self._made = tuple((t.shape, _native_dtype(t)) for t in tape.output_types)
        self._inputs = tuple(
            KernelInput(k, t.shape, _native_dtype(t), strided=layout == "A" and bool(t.shape))
            for k, (t, layout) in enumerate(zip(tape.input_types, kernel.layouts, strict=True))
        )
        if stamps:  # one input more, for so many time stamps
            self._inputs += (KernelInput(len(self._inputs), (stamps,), np.dtype(np.int64)),)
        self._owners = values.owners
        self._bound = self._bind(values)
        self._bound_briefly = self._briefly()
        # Ctrl-C is answered while it runs, until a call shows that it need not be.
        self._is_long = not self._is_brief
        self._call_parts: CallParts | None = None
        self._called = self._needed_libm = False
        # never a bound method: a cycle would leave when its machine code is freed to the collector
        self.quick: Function = _unbound

    def __call__(self, *arrays: object) -> tuple[np.ndarray, ...]:
        outputs = self.quick(*arrays)
        if outputs is None and self.quick is _unbound and self._bind_stub():
            outputs = self.quick(*arrays)
        return self._careful(arrays) if outputs is None else outputs

    @property
    def layouts(self) -> tuple[str, ...]:
        """The layouts of the inputs that it takes."""
        return self._kernel.layouts

    @property
    def note(self) -> str:
        """Why calls go through Python although there is a kernel; empty if they do not."""
        call = self._kernel.stub() if self._called else 0
        words = stub_fault(call) if call else ""
        return f", called through Python: {words}" if words else ""

    def _bind_stub(self) -> bool:
        """Bind the entry stub at the second call, if it is compiled by then.

        So a program that calls once does not wait until the stub is compiled.
        """
        called, self._called = self._called, True
        call = self._kernel.stub() if called and not self._is_long else 0
        if not call:
            return False
        result = [ResultStep("OUTPUT", k) for k in range(len(self._made))]
        result.append(ResultStep("GROUP", tuple, len(self._made)))
        outputs = [KernelOutput(*output) for output in self._made]
        signature = CallSignature(len(self._inputs))
        self.quick = bind_entry_stub(
            call, self._bound_briefly, signature, self._inputs, outputs, result
        )
        return True

    def parts(self) -> CallParts | None:
        """The parts of a call; None as long as the entry stub is being compiled.

        A long one has none: its calls go through Python.
        """
        if self._call_parts is None and not self._is_long and (call := self._kernel.stub()):
            self._call_parts = CallParts(self._bound_briefly, self._inputs, self._made, call)
        return self._call_parts

    def parts_by_libm(self) -> CallParts | None:
        """The parts of a call for angles that are out of range; None until there has been one."""
        parts = self.parts() if self._needed_libm else None
        return parts and parts._replace(
            kernel=self._with_code(self._bound_briefly, self._libm_code())
        )

    def bare(self) -> BareKernel:
        """The kernel of one thread, for callers that are machine code themselves."""
        assert not self._kernel.run, "a kernel of several threads is called by its `run`"
        by_libm = self._kernel.by_libm and (lambda: self._libm_code().address)
        return BareKernel(self._bound, self._inputs, self._made, by_libm)

    def _status(
        self, bound: BoundKernel, inputs: list[np.ndarray], outs: tuple[np.ndarray, ...]
    ) -> int:
        """The status of a call that goes through Python."""
        first = len(self._inputs)
        written = [
            KernelInput(first + k, *output, written=k) for k, output in enumerate(self._made)
        ]
        run = call_through_python(bound, (*self._inputs, *written), (), status=True)
        begin, work = perf_counter(), partial(run, *inputs, *outs)
        if self._kernel.source.facts.trips:
            status = stoppable(work, bound.ints[-1:], answering=self._is_long)
        else:
            status = interruptible.interruptibly_without_lock(work) if self._is_long else work()
        self._is_long = self._is_long and perf_counter() - begin > interruptible.LONG
        assert status is not None, "a kernel was given what its tape has no inputs for"
        return cast("int", status)

    def _careful(self, arrays: tuple[object, ...]) -> tuple[np.ndarray, ...]:
        """A call with arguments of an unusual layout, or one that fails.

        Any error may come from an angle that was out of range, whose sine was NaN.
        """
        self._is_long |= self._kernel.source.facts.trips  # which may have ended by themselves
        inputs = [_laid(a, i) for a, i in zip(arrays, self._inputs, strict=True)]
        outs = tuple(np.empty(shape, dtype) for shape, dtype in self._made)
        status = self._status(self._bound, inputs, outs)
        if status and self._kernel.by_libm is not None:
            by_libm = self._with_code(self._bound, self._libm_code())
            status = self._status(by_libm, inputs, outs)
            self._needed_libm = not status
        if status:
            raise error_of(status)
        return outs

    def _libm_code(self) -> Loaded:
        """The kernel that calls libm, which may have to be compiled now."""
        assert self._kernel.by_libm is not None, "no sine, and no other kernel"
        try:
            return self._kernel.by_libm()
        except Exception as error:
            if is_foreign(error):
                raise
            raise CompileError(f"{type(error).__name__}: {error}") from error

    def _bind(self, values: Values) -> BoundKernel:
        """The kernel with its workspace and tables; `IntegerTable` describes the integers."""
        kernel = self._kernel
        copies = {"": 1, THREADS: self._threads, PARTS: self._parts}
        buffers = kernel.source.buffers
        sizes = [buffer.bytes(values.ints) for buffer in buffers]
        taken = [b * copies[buffer.copies] for b, buffer in zip(sizes, buffers, strict=True)]
        begins = list(accumulate(taken, initial=0))
        copy_sizes = [b // int(buffer.dtype[1]) for b, buffer in zip(sizes, buffers, strict=True)]
        table = kernel.source.table(len(values.ints))
        ints = np.zeros(table.stop + kernel.source.facts.trips, np.int64)
        ints[: table.begins] = [*values.ints, *kernel.addresses]
        ints[table.begins : table.parts] = begins
        if kernel.run:
            ints[table.parts : table.stop] = [self._parts, *copy_sizes]
        floats = np.array(values.floats, np.float64)
        size = 1 << max(begins[-1], 4096).bit_length() if begins[-1] <= _KEEP else begins[-1]
        size = size if buffers else 0
        keep = size <= _KEEP
        spare = _spare.setdefault(size, np.zeros(1, np.int64)) if keep else np.zeros(1, np.int64)
        shapes = [*self._made, *((i.shape, i.dtype) for i in self._inputs)]
        brief = size + sum(_bytes(*pair) for pair in shapes) <= _BRIEF and not kernel.addresses
        brief = brief and not kernel.source.facts.trips
        self._is_brief = brief and not kernel.run
        bound = BoundKernel(
            0, ints, floats, values.arrays, size, spare, keep, not self._is_brief, None
        )
        return self._with_code(bound, kernel.code)

    def _briefly(self) -> BoundKernel:
        """The kernel as machine code calls it: loops over trips end where they take long."""
        if not self._kernel.source.facts.trips:
            return self._bound
        ints = self._bound.ints.copy()
        ints[-1] = BRIEF
        return self._with_code(self._bound._replace(ints=ints), self._kernel.code)

    def _with_code(self, bound: BoundKernel, code: Loaded) -> BoundKernel:
        """The kernel with the address to call.

        That is the code itself; for a parallel kernel it is the thread pool's `run`, which finds
        the code in the table of integers.
        """
        if not self._kernel.run:
            return bound._replace(address=code.address, owner=(code, self._owners))
        most = min(self._parts, self._threads)
        job = {"JOB_POOL": pool.address, "JOB_CODE": code.address, "JOB_THREADS": most}
        before = np.zeros(len(HEADER), np.int64)
        for name, value in job.items():
            before[HEADER[name]] = value
        ints = np.concatenate([before, bound.ints])[len(HEADER) :]
        return bound._replace(address=self._kernel.run, owner=(code, self._owners), ints=ints)


def _unbound(*_: object) -> None:
    """A placeholder until the entry stub is bound: calls go through Python."""


def _native_dtype(type_: ArrayType) -> np.dtype:
    """The native dtype of this kind and size, without metadata: what new arrays have."""
    return np.dtype(type_.dtype.str)


def _bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _laid(value: object, wanted: KernelInput) -> np.ndarray:
    """The argument as an array that the kernel takes, copied if necessary."""
    array = np.asarray(value)
    assert array.shape == wanted.shape, "a kernel was given what its tape has no inputs for"
    if array.dtype is not wanted.dtype:
        array = array.astype(wanted.dtype)
    odd = any(step % array.itemsize for step in array.strides) or not array.flags.aligned
    if odd or not (wanted.strided or array.flags.c_contiguous):
        array = np.array(array, order="C")
    return array.view(np.ndarray)


def release_workspaces() -> None:
    """Give spare workspaces back to the system."""
    free = ctypes.pythonapi.PyMem_RawFree
    free.argtypes, free.restype = [ctypes.c_void_p], None
    for spare in [*_spare.values()]:  # another thread may enter one
        address, spare[0] = int(spare[0]), 0
        free(address)

"""A program bound to one tape and one device: called with device arrays, it gives device arrays.

Sizes and numbers are put in once, so that a call is: allocate results and workspace, fill in the
addresses, launch one kernel after the other, and read the status if the program has one. Nothing
waits for the device but that.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from ....arraytype import ArrayType
from ....device_arrays import DeviceArray, lies_on_device
from ....named_tuples import NamedTuple
from ....process import observed_spans
from ....process.observed_spans import KERNEL, span
from ....tape import Tape
from ...ir.kernel_graph import KernelGraph, Values
from ...runtime.status_errors import error_of
from ..cuda_program import (
    CudaProgram,
    DeviceMemory,
    Launch,
    LibraryCall,
    Numbers,
    Role,
    Step,
    contents,
    entries,
    evaluate,
    numbers_of,
)
from .device import Argument, CudaDevice, Pointer, Prepared
from .launch_graphs import LaunchGraphs, graphs_wanted
from .libraries import lacking_library, library_step


def observed_steps(
    device: CudaDevice, steps: Sequence[Prepared], names: Sequence[str], addresses: Sequence[int]
) -> None:
    """Run the steps of a program; the host waits for each, where somebody wants to know its time.

    Without that, launches return before the kernels are done, and a span has the time of a launch.
    """
    seen = observed_spans.observer
    wait = seen is not None and seen.device
    if wait:
        device.wait()  # for what came before
    for step, name in zip(steps, names, strict=True):
        with span(name, KERNEL, device=device.name, waited=wait):
            step(addresses)
            if wait:
                device.wait()


_ALIGNED = 256  # bytes: where a piece of the workspace may begin


class _Slots(NamedTuple):
    """Where the address of each piece of memory stands, and how many entries of what it has."""

    places: dict[str, int]
    counts: dict[str, int]
    dtypes: dict[str, np.dtype]

    def pointer(self, name: str) -> Pointer:
        return Pointer(self.places[name], self.counts[name], self.dtypes[name])


class CudaExecutable:
    """A program for one tape: call it with the tape's inputs, get its outputs."""

    def __init__(
        self,
        program: CudaProgram,
        graph: KernelGraph,
        values: Values,
        tape: Tape,
        device: CudaDevice,
    ) -> None:
        self.program = program
        self._device = device
        numbers = numbers_of(graph, values)
        self._slots = _slots(program, numbers)
        self._inputs = [(m.number, self._address(m)) for m in program.of(Role.INPUT)]
        self._outputs = [self._address(m) for m in program.of(Role.OUTPUT)]
        self._given = tape.input_types
        self._results = [(t.shape, _native_dtype(t.dtype)) for t in tape.output_types]
        self._constants = [
            (self._address(m), device.upload(array)) for m, array in contents(program, values)
        ]
        temporaries = program.of(Role.TEMPORARY)
        begins = list(accumulate((self._bytes(m) for m in temporaries), initial=0))
        self._workspace = begins[-1]
        self._temporaries = [
            (self._address(m), b) for m, b in zip(temporaries, begins[:-1], strict=True)
        ]
        self._status = [self._address(m) for m in program.of(Role.STATUS)]
        self._libraries = False  # whether a step is one by a library, which may take memory
        prepared = [(p, _name(s)) for s in program.steps for p in self._prepared(s, numbers)]
        self._steps, self._names = [p for p, _ in prepared], [name for _, name in prepared]
        graphs = device.can_record and not self._libraries and graphs_wanted(len(self._steps))
        self._run = LaunchGraphs(device, self._steps) if graphs else self._one_by_one

    def __call__(self, arrays: Sequence[DeviceArray]) -> list[DeviceArray]:
        device = self._device
        inputs = [a if a.strides is None else device.copy(a) for a in arrays]
        outs = [device.results(shape, dtype) for shape, dtype in self._results]
        addresses = [0] * len(self._slots.places)
        for number, place in self._inputs:
            addresses[place] = inputs[number].address
        for place, out in zip(self._outputs, outs, strict=True):
            addresses[place] = out.address
        for place, constant in self._constants:
            addresses[place] = constant.address
        block = device.allocate(self._workspace) if self._workspace else None
        for place, begin in self._temporaries:
            addresses[place] = block.address + begin if block is not None else 0
        status = self._cleared_status(addresses)
        if observed_spans.observer is None:
            self._run(addresses)
        else:  # a profiler times each kernel, so they are no graph then
            observed_steps(device, self._steps, self._names, addresses)
        if status is not None and (code := int(status.host()[0])):
            raise error_of(code)
        return outs

    def _one_by_one(self, addresses: Sequence[int]) -> None:
        for step in self._steps:
            step(addresses)

    def of_any(self, arrays: Sequence[object]) -> list[DeviceArray]:
        """Call with other libraries' arrays on the device, and host arrays, which are copied."""
        return self([self._on_device(*pair) for pair in zip(arrays, self._given, strict=True)])

    def _on_device(self, value: object, type_: ArrayType) -> DeviceArray:
        if isinstance(value, DeviceArray):
            return value
        if lies_on_device(value):  # captured
            return self._device.view(value)
        array = np.asarray(value, type_.dtype)
        assert array.shape == type_.shape, "a kernel was given what its tape has no inputs for"
        return self._device.upload(array)

    def copy(self, array: DeviceArray) -> DeviceArray:
        """A copy of a result, for a caller who gets it twice."""
        return self._device.copy(array)

    @property
    def state(self) -> str:
        """How it runs, in words: a line of the `repr` of a function."""
        count = len(self._steps)
        return f"compiled, {count} CUDA kernel{'s' * (count != 1)} on {self._device.name}"

    def _cleared_status(self, addresses: list[int]) -> DeviceArray | None:
        """The status word, which is 0 before the first step; None if no step has one."""
        if not self._status:
            return None
        status = self._device.results((1,), np.dtype(np.int64))
        self._device.clear(status.address, status.nbytes)
        for place in self._status:
            addresses[place] = status.address
        return status

    def _address(self, memory: DeviceMemory) -> int:
        return self._slots.places[memory.name]

    def _bytes(self, memory: DeviceMemory) -> int:
        """Bytes of a piece of the workspace, rounded up so that the next one is aligned."""
        taken = self._slots.counts[memory.name] * self._slots.dtypes[memory.name].itemsize
        return -(-taken // _ALIGNED) * _ALIGNED

    def _prepared(self, step: Step, numbers: Numbers) -> list[Prepared]:
        """A step with its sizes put in: a launch, a call of a library, or launches instead."""
        if isinstance(step, Launch):
            return [self._launch(step, numbers)]
        if called := library_step(step, self._slots.pointer, numbers):
            self._libraries = True
            return [called]
        if not step.instead:
            raise lacking_library(step, self._device)
        return [self._launch(launch, numbers) for launch in step.instead]

    def _launch(self, step: Launch, numbers: Numbers) -> Prepared:
        blocks = evaluate(step.blocks, numbers)
        arguments: list[Argument] = [
            self._slots.pointer(name) if p.address else numbers[name]
            for p, name in zip(step.kernel.parameters, step.arguments, strict=True)
        ]
        return self._device.prepare(step.kernel, max(1, blocks), step.threads, arguments)


def _name(step: Step) -> str:
    """The name of a step in a profile: its kernel or routine."""
    if isinstance(step, Launch):
        return step.kernel.name
    return step.call.routine if isinstance(step, LibraryCall) else "sort_keys"


def _slots(program: CudaProgram, numbers: Numbers) -> _Slots:
    """A slot for each piece of memory, in the order of the program."""
    names = [m.name for m in program.memory]
    return _Slots(
        {name: k for k, name in enumerate(names)},
        {m.name: entries(m, numbers) for m in program.memory},
        {m.name: np.dtype("u1" if m.dtype == "b1" else m.dtype) for m in program.memory},
    )


def _native_dtype(dtype: np.dtype) -> np.dtype:
    """The native dtype of this kind and size, without metadata."""
    return np.dtype(dtype.str)

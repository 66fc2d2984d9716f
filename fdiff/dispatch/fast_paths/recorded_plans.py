"""Recorded plans: the tapes that a call runs and the arrays they run on, for callers in machine
code.

A recording stands for a device. Its arrays have types and addresses but no memory. A plan that
assembles its result from parts, as a Jacobian in chunks does, therefore writes the parts into one
array as on a GPU. The recording becomes a sequence of kernels and copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import fdiff.intact_numpy as np

from ... import kernels
from ...device_arrays import DeviceArray
from ...kernels import BareKernel, Place, SequencedCopy, SequencedKernel
from ...tree import flatten, map_leaves
from ..plans import Arrays, PlanStep, Step
from .result_template import Placeholder

_BITS = 44  # of an offset in an array: what stands above them in an address numbers the array


class PlannedArray(DeviceArray):
    """An array on a recording; a `scalar` is a number of the result."""

    __slots__ = ("scalar",)
    scalar: bool

    def __getitem__(self, index: tuple[()]) -> PlannedArray:
        if index != ():
            raise TypeError("the plan computes with an output of its kernel")
        scalar = PlannedArray(self.device, self.shape, self.dtype, self.address, self.owner)
        scalar.scalar = True
        return scalar

    @property
    def number(self) -> int:
        """Which array of the recording it is."""
        return self.address >> _BITS


class PlannedRun(NamedTuple):
    """A step of a plan, its arguments, and the arrays of its outputs."""

    step: PlanStep
    inputs: list[object]
    outputs: list[PlannedArray]


class _Write(NamedTuple):
    source: DeviceArray
    target: DeviceArray


class PlanRecording:
    """The record of a plan: its `run` replaces `execute`. `arrays` are the plan's inputs."""

    def __init__(self, arrays: Sequence[object]) -> None:
        self._made: list[PlannedArray] = []
        self._zeros: list[PlannedArray] = []
        self._log: list[PlannedRun | _Write] = []
        self.arrays = [self._new(np.shape(a), np.asarray(a).dtype) for a in arrays]  # type: ignore[arg-type] - numbers and arrays

    def _new(self, shape: tuple[int, ...], dtype: np.dtype) -> PlannedArray:
        array = PlannedArray(self, shape, dtype, len(self._made) << _BITS, None)
        array.scalar = False
        self._made.append(array)
        return array

    @property
    def runs(self) -> list[PlannedRun]:
        """The steps that were run."""
        return [entry for entry in self._log if isinstance(entry, PlannedRun)]

    def run(self, step: Step, arrays: Arrays) -> list[PlannedArray]:
        """Note a step; return arrays for its outputs, but none for a guard."""
        assert isinstance(step, PlanStep), "no kernel is made of an eager trace"
        slots = list(step.runner.slots())
        outputs = [self._new(t.shape, np.dtype(t.dtype.str)) for t in step.runner.tape.output_types]
        self._log.append(PlannedRun(step, list(arrays), outputs))
        return [outputs[k] for k in (slots[:-1] if step.guarded else slots)]

    # --- what plans ask of a device -----------------------------------------------------------

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> PlannedArray:
        """A new array, which is to be zero."""
        self._zeros.append(self._new(shape, dtype))
        return self._zeros[-1]

    def write(self, source: DeviceArray, target: DeviceArray) -> None:
        """Note a copy."""
        self._log.append(_Write(source, target))

    def download(self, array: DeviceArray) -> NoReturn:
        """Refuse to compute with an array that has no values."""
        raise TypeError("the plan computes with an output of its kernel")

    export = download

    # --- what becomes of it -------------------------------------------------------------------

    def numbers(self, result: object) -> list[int]:
        """The numbers of the arrays in a result."""
        leaves = [leaf for leaf in flatten(result)[0] if isinstance(leaf, PlannedArray)]
        return list(dict.fromkeys(leaf.number for leaf in leaves))

    def placed(self, result: object, numbers: Sequence[int]) -> object:
        """The result with placeholders for the outputs, which are the arrays of these numbers."""

        def placeholder(leaf: object) -> object:
            if not isinstance(leaf, PlannedArray):
                return leaf
            return Placeholder(numbers.index(leaf.number), scalar=leaf.scalar)

        return map_leaves(placeholder, result)

    def sequence(
        self, compiled: Callable[[PlanStep, int], BareKernel], results: Sequence[int]
    ) -> BareKernel:
        """One kernel that does what was recorded, whose outputs are the arrays of these numbers.

        `compiled` gives the kernel of a step, of whose inputs so many are the plan's.
        """
        kernels_by_step = {
            id(entry.step): compiled(entry.step, self._own_inputs(entry)) for entry in self.runs
        }
        first = next(entry for entry in self.runs if self._own_inputs(entry))
        inputs = kernels_by_step[id(first.step)].inputs[: len(self.arrays)]
        memory = _Memory(self._made, [*range(len(self.arrays)), *results])
        steps: list[SequencedKernel | SequencedCopy] = []
        for entry in self._log:
            if isinstance(entry, PlannedRun):
                reads = [memory.place(a) for a in entry.inputs]
                writes = [memory.place(a) for a in entry.outputs]
                steps.append(SequencedKernel(kernels_by_step[id(entry.step)], reads, writes))
            else:
                steps.append(memory.copy(entry.source, entry.target))
        zeros = [
            memory.copy(np.zeros(a.shape, a.dtype), a) for a in self._zeros if not self._covered(a)
        ]
        types = tuple([(self._made[k].shape, self._made[k].dtype) for k in results])
        every = [*zeros, *steps]
        return kernels.kernel_sequence(every, inputs, types, memory.size, memory.held)

    def _own_inputs(self, run: PlannedRun) -> int:
        """How many of a run's first inputs are the plan's inputs: all, or none."""
        leading = run.inputs[: len(self.arrays)]
        same = all(a is b for a, b in zip(leading, self.arrays, strict=False))
        return len(self.arrays) if same and len(leading) == len(self.arrays) else 0

    def _covered(self, array: PlannedArray) -> bool:
        """Whether parts that do not overlap make up the whole array."""
        writes = [entry.target for entry in self._log if isinstance(entry, _Write)]
        return sum(t.nbytes for t in writes if t.address >> _BITS == array.number) == array.nbytes


class _Memory:
    """The places of arrays: the arrays in `given` lie at addresses that a call passes, in order."""

    def __init__(self, arrays: Sequence[PlannedArray], numbers: Sequence[int]) -> None:
        self._arrays = arrays
        self._places = {number: Place(k) for k, number in enumerate(numbers)}
        self.size = 0  # of the workspace
        self.held: list[np.ndarray] = []

    def place(self, array: object) -> Place:
        """The place of an array, or of a part of one; values are kept where they are."""
        if not isinstance(array, DeviceArray):
            self.held.append(np.array(array))
            return Place(kernels.FIXED, int(self.held[-1].ctypes.data))
        number, offset = divmod(array.address, 1 << _BITS)
        if number not in self._places:
            self._places[number] = Place(kernels.WORKSPACE, self.size)
            self.size += kernels.buffer_bytes(self._arrays[number].nbytes)
        whole = self._places[number]
        return whole._replace(offset=whole.offset + offset)

    def copy(self, source: DeviceArray | np.ndarray, target: DeviceArray) -> SequencedCopy:
        """The copy of an array, row by row where the rows of the target lie apart."""
        lines, step = 1, 0
        if target.strides is not None:
            lines, step = target.shape[0], target.strides[0]
        width = target.nbytes // lines
        return SequencedCopy(self.place(source), self.place(target), width, lines, step)

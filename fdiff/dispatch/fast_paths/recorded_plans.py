"""Recorded plans and calls: the tapes that a call runs and the arrays they run on, for callers in
machine code.

A recording stands for a device. Its arrays have types and addresses but no memory. A plan that
assembles its result from parts, as a Jacobian in chunks does, therefore writes the parts into one
array as on a GPU. The recording becomes a sequence of kernels and copies.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ... import kernels
from ...device_arrays import DeviceArray
from ...foreign_errors import comes_once
from ...kernels import BareKernel, Place, SequencedCopy, SequencedKernel
from ...named_tuples import NamedTuple
from ...trace.handler_arguments import shape_of
from ...tree import Spec, flatten, map_leaves, unflatten
from ..arguments import is_static
from ..plans import Arrays, PlanStep, Step
from ..variant import Variant
from .result_template import Placeholder

Split = Callable[[tuple[object, ...]], tuple[tuple[object, ...], tuple[object, ...]]]
Source = int | np.ndarray  # the number of a leaf of the call, or an array from outside
_BITS = 44  # of an offset in an array: what stands above them in an address numbers the array


class PlannedArray(DeviceArray):
    """An array on a recording; a `scalar` is a number of the result, perhaps a Python number."""

    __slots__ = ("python", "scalar")
    scalar: bool
    python: type | None

    def __getitem__(self, index: tuple[()]) -> PlannedArray:
        if index != ():
            raise TypeError("the plan computes with an output of its kernel")
        scalar = PlannedArray(self.device, self.shape, self.dtype, self.address, self.owner)
        scalar.scalar, scalar.python = True, None
        return scalar

    def as_number(self, kind: type) -> PlannedArray:
        number = self[()]
        number.python = kind
        return number

    @property
    def number(self) -> int:
        """The number of the array in the recording."""
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
    """The record of a plan: its `run` replaces `plans.execute`. `arrays` are the plan's inputs.

    A plan may choose its step by the `values` of index arrays: `reads_values` says that it did.
    """

    def __init__(self, arrays: Sequence[object], values: Sequence[object] = ()) -> None:
        self._values, self.reads_values = values, False
        self._made: list[PlannedArray] = []
        self._zeros: list[PlannedArray] = []
        self._log: list[PlannedRun | _Write] = []
        self.arrays = [self._new(shape_of(a), np.asarray(a).dtype) for a in arrays]

    def _new(self, shape: tuple[int, ...], dtype: np.dtype) -> PlannedArray:
        array = PlannedArray(self, shape, dtype, len(self._made) << _BITS, None)
        array.scalar, array.python = False, None
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
        return [outputs[k] for k in slots[: len(slots) - step.guarded - step.written]]

    # --- what plans ask of a device -----------------------------------------------------------

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> PlannedArray:
        """A new array, which is to be zero."""
        self._zeros.append(self._new(shape, dtype))
        return self._zeros[-1]

    def write(self, source: DeviceArray, target: DeviceArray) -> None:
        """Note a copy."""
        self._log.append(_Write(source, target))

    def download(self, array: DeviceArray) -> np.ndarray:
        """The values of an input, if there are any; outputs have none."""
        assert isinstance(array, PlannedArray), "arrays of a recording are planned"
        if array.number >= len(self._values):
            raise TypeError("the plan computes with an output of its kernel")
        self.reads_values = True
        return np.asarray(self._values[array.number])

    export = download

    # --- what becomes of it -------------------------------------------------------------------

    def numbers(self, result: object) -> list[int]:
        """The numbers of the arrays in a result."""
        leaves = [leaf for leaf in flatten(result)[0] if isinstance(leaf, PlannedArray)]
        return list(dict.fromkeys(leaf.number for leaf in leaves))

    def placed(self, result: object, numbers: Sequence[int] = ()) -> object:
        """The result with placeholders for the outputs, which are the arrays of these numbers."""
        place = {number: k for k, number in enumerate(numbers)}

        def placeholder(leaf: object) -> object:
            if not isinstance(leaf, PlannedArray):
                return leaf
            return Placeholder(place.get(leaf.number, -1), leaf.python, scalar=leaf.scalar)

        return map_leaves(placeholder, result)

    def sequence(
        self, compiled: Callable[[PlanStep, int], BareKernel], results: Sequence[int]
    ) -> BareKernel:
        """One kernel for the recording, whose outputs are the arrays of these numbers.

        `compiled` gives the kernel of a step, given how many of its inputs are the plan's.
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


class RecordedCall:
    """One call, whose arguments are `leaves` in a tree: the sources of its inputs, its result.

    The entry stub (`fast_path_builder`), code of Numba and C functions (`single_kernels`) are made
    of this record. `sources` are the sources of the plan's inputs, first the `traced` ones, then
    the captured arrays; `vectors` stand for the vectors of a product. `result` is built of planned
    arrays; it is None, and `error` the exception, where code of Python computes with outputs.
    Code of Numba and C functions are compiled by types: their leaves have no values.
    """

    def __init__(
        self,
        variant: Variant,
        leaves: Sequence[object],
        spec: Spec,
        split: Split,
        captured: Sequence[np.ndarray],
        *,
        has_values: bool = False,
    ) -> None:
        self.variant, self._has_values = variant, has_values
        markers = [*map(_marker, leaves)]
        args, named = unflatten(spec, markers)
        own, self.vectors = split(args)
        traced = variant.traced.leaves(own, named)
        self._leaves = {id(x): (k, x) for k, x in enumerate(markers) if not is_static(x)}
        self.traced = len(traced)
        self.sources: list[Source] = [*map(self.leaf_of, traced), *captured]
        self._inputs = [*traced, *captured]
        self.error: Exception | None = None
        try:
            self._run()
        except Exception as error:
            # By the plan, or a class of the user's. What a signal handler raises comes once.
            if comes_once(self._run):
                raise
            self.error, self.result = error, None

    def _run(self) -> None:
        values = self._inputs if self._has_values else ()
        self.recording = PlanRecording(self._inputs, values)
        plan = self.variant.plan
        self.result = plan.call(self.recording.arrays, self.vectors, self.recording.run)
        steps = [run.step for run in self.recording.runs]
        if self.recording.reads_values and steps != [plan.only_step()]:
            raise TypeError("the plan chooses its steps by values that no kernel compares")
        self.recording.placed(self.result)  # a class of the user's may look at what it is given

    def leaf_of(self, value: object) -> int:
        """The number of the leaf that a value stands for; -1 if there is none."""
        return self._leaves.get(id(value), (-1, None))[0]

    def sources_of(self, run: PlannedRun) -> list[Source]:
        """The sources of a step's inputs, which are the plan's and then vectors; [] for others."""
        in_order = all(map(operator.is_, run.inputs, self.recording.arrays))
        vectors = map(self.leaf_of, run.inputs[len(self.sources) :])
        return [*self.sources, *vectors] if in_order else []


def _marker(leaf: object) -> object:
    """An object that stands for a leaf: it has the leaf's type, and an address of its own."""
    if is_static(leaf):
        return leaf
    if isinstance(leaf, np.ndarray):
        return leaf.view()
    return type(leaf)(leaf) if isinstance(leaf, np.generic) else leaf * 1.0  # type: ignore[operator] - a number

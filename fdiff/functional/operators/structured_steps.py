"""The structures of a derivative, which may depend on index arrays, and a step for each.

Structures also tell the zeros of dense blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...bounded_cache import WeakValues
from ...device_arrays import DeviceArray
from ...dispatch.plans import Arrays, PlanStep, Run, deriving, executes
from ...dispatch.tiers.tiered_execution import runner
from ...dispatch.variant import Traced
from ...lazy_attributes import cached_property
from ...process.garbage_collection import collector_paused
from ...tape import Tape
from ...trace import Trace, TracedArray, constant_value, derived_lines, guarded_value, splice
from ...trace.traced_array import Array
from ...transforms.derivative_tapes import all_finite
from ...transforms.late_steps import late_step
from ...transforms.pipeline import has_loops
from ...transforms.terms.dense_tapes import dense_tape
from ...transforms.terms.frozen_values import Known
from ...transforms.terms.sparse_tapes import sparse_tape
from ...transforms.terms.structures import SparseTape, StructureRequest, with_declared_calls

masked = late_step("terms.entry_places", "masked")
zero_masks = late_step("terms.entry_places", "zero_masks")
COMPARED = 1 << 18  # bytes of index arrays up to which a kernel compares them
Masks = list[np.ndarray | None]  # for each block, the mask of its entries; None if it is full
STRUCTURES = 8  # kept for one tape, the least recently used dropped first
MASKED = 300  # nodes of a function, up to which zeros are looked for before the first call
CHANGES = 64  # after so many changes of its structure, a dense derivative uses sweeps


class Structures:
    """The structures of one derivative, keyed by the index arrays that they depend on.

    Plans of equal tapes share structures, because ``data`` of a prepared function has its own plan.
    """

    def __init__(self, tape: Tape, request: StructureRequest) -> None:
        self.tape, self.request = tape, request
        self.kept: list[SparseTape] = []
        self.tried = 0  # for a dense derivative, the number of structures
        self._refused = False

    def of(self, arrays: Arrays, call: str) -> SparseTape | None:
        """The structure that holds for these inputs: a kept structure, or a new one.

        None for a dense derivative if sweeps cost no more, or if its structure changes too often.
        """
        for structure in self.kept:
            if _is_unchanged(structure, arrays):
                if structure is not self.kept[0]:
                    self.kept = [
                        structure,
                        *[other for other in self.kept if other is not structure],
                    ]
                return structure
        with collector_paused(), deriving(call):
            structure = self._derived(readers(arrays, self.request.wrt))
        if structure is not None and structure.lasting:
            self.kept = [structure, *self.kept][:STRUCTURES]
        return structure

    def _derived(self, readers: Known) -> SparseTape | None:
        if not self.request.dense:
            return sparse_tape(self.tape, self.request, readers)
        if self._refused or self.tried >= CHANGES:
            return None
        self.tried += 1
        structure = dense_tape(self.tape, self.request, readers)
        self._refused = structure is None
        return structure

    @property
    def fixed(self) -> SparseTape | None:
        """The structure, if all inputs share one."""
        first = self.kept[0] if len(self.kept) == 1 else None
        return None if first is None or first.pins or first.index_tape is not None else first


def _value(array: object) -> np.ndarray | None:
    """The value of an input; None if the input is traced and not constant."""
    if array is None:
        return None
    if isinstance(array, TracedArray):
        value = constant_value(array)
        if value is not None or array.type.floating:
            return value
        return guarded_value(array, "decided where entries of a derivative are")
    return np.asarray(array.host() if isinstance(array, DeviceArray) else array)


def _reader(array: object) -> Callable[[], np.ndarray | None]:
    """A function that returns the value of an input; a traced input is read in its own trace."""
    if isinstance(array, TracedArray):
        value = _value(array)
        return lambda: value
    return partial(_value, array)


def readers(arrays: Arrays, wrt: Sequence[int]) -> Known:
    """Functions that return the values of inputs that are not differentiated."""
    return [None if k in wrt else _reader(a) for k, a in enumerate(arrays)]


def _is_unchanged(structure: SparseTape, arrays: Arrays) -> bool:
    """Whether all values that a structure depends on are unchanged."""
    for k, seen in structure.pins.items():
        value = _value(arrays[k])
        if value is None or value.tobytes() != seen:
            return False
    if structure.index_tape is None:
        return True
    values = [value for value in map(_value, arrays) if value is not None]
    if len(values) < len(arrays):
        return False
    outs = runner(structure.index_tape)(values)
    return tuple([np.asarray(out).tobytes() for out in outs]) == structure.values


_structures: WeakValues[object, Structures] = WeakValues()


def structures_of(tape: Tape, request: StructureRequest) -> Structures:
    """The structures of a derivative, shared by all plans of an equal tape.

    If errors must name derivative lines, earlier structures are not reused: their lines differ.
    """
    if derived_lines.wanted.on:
        return Structures(tape, request)
    structures = _structures.get((tape, request))
    if structures is None:
        structures = _structures[tape, request] = Structures(tape, request)
    return structures


class StructuredSteps:
    """The steps of a derivative of the function that `traced` records, one for each structure.

    With `compares_pins`, kernels compare the index arrays that a structure depends on, as far as
    the arrays are short, so that such a step has a fast path.
    """

    def __init__(
        self, traced: Traced, tape: Tape, request: StructureRequest, *, compares_pins: bool
    ) -> None:
        self.traced, self.compares_pins = traced, compares_pins
        self.structures = structures_of(tape, request)
        self._fixed: SparseTape | None = None
        self._steps: list[tuple[SparseTape, PlanStep]] = []

    def structure(self, arrays: Arrays) -> SparseTape | None:
        """The structure that holds for these inputs; None if no structure pays off."""
        structure = self._fixed
        if structure is None:
            structure = self.structures.of(arrays, self.traced.call)
            self._fixed = self.structures.fixed
        return structure

    def step(self, structure: SparseTape) -> PlanStep:
        """The step of the values of a structure."""
        steps = self._steps
        for pair in steps:
            if pair[0] is structure:
                if pair is not steps[0]:  # the latest first
                    self._steps = [pair, *[other for other in steps if other is not pair]]
                return pair[1]
        traced = self.traced
        with collector_paused(), deriving(traced.call):
            check = traced.check
            if self._compares_pins(structure):
                check = pins_hold(structure, traced.tape.input_types, check)
            step = PlanStep(structure.tape, check, traced.call, traced.device, traced.written)
        kept = [pair for pair in self._steps if any(pair[0] is k for k in self.structures.kept)]
        self._steps = [(structure, step), *kept]
        return step

    @property
    def long(self) -> bool:
        """Whether a walk for zeros takes too long: it follows each trip of a loop."""
        return len(self.structures.tape) > MASKED or has_loops(self.structures.tape)

    def with_zeros(self, blocks: Tape) -> Tape:
        """The tape of blocks from sweeps, with zeros where no inputs give an entry."""
        return masked(blocks, zero_masks(self.structures.tape, self.structures.request.wrt))

    def only_step(self) -> PlanStep | None:
        """The step of the values, if nothing else must be compared before it runs."""
        if not self._steps:
            return None
        structure, step = self._steps[0]
        latest = any(structure is kept for kept in self.structures.kept[:1])
        latest = latest and self._compares_pins(structure)
        return step if latest or self.structures.fixed is not None else None

    def _compares_pins(self, structure: SparseTape) -> bool:
        """Whether the kernel compares index arrays, so that a fast path need not."""
        size = sum(map(len, structure.pins.values()))
        return self.compares_pins and structure.index_tape is None and 0 < size <= COMPARED

    def steps(self) -> list[PlanStep]:
        return [step for _, step in self._steps]


def dense_steps(
    traced: Traced, function: Traced, request: StructureRequest, slopes: Callable[[Traced], Tape]
) -> StructuredSteps:
    """The steps of a dense Jacobian of the tape of `traced`: `function`, or its gradient.

    `slopes` gives the tape of a gradient.
    """
    tape = with_declared_calls(function.tape)
    if request.hessian:
        same = tape is function.tape
        tape = traced.tape if same else slopes(function._replace(tape=tape))
    return StructuredSteps(traced, tape, request, compares_pins=True)


def pins_hold(structure: SparseTape, types: Sequence[ArrayType], check: Tape | None) -> Tape:
    """The tape that tells whether index arrays agree with a structure, and `check` holds."""
    with Trace("check", lines=False) as trace:
        inputs = [trace.input(t) for t in types]
        holds: Array | bool = True
        for k, seen in structure.pins.items():
            pinned = np.frombuffer(seen, types[k].dtype).reshape(types[k].shape)
            holds = np.logical_and(holds, np.all(np.equal(inputs[k], pinned)))
        if check is not None:
            (more,) = splice(check, inputs[: len(check.inputs)], trace)
            holds = np.logical_and(holds, more)
        return trace.builder.finish([trace.lift(holds)])


# --- zeros of dense blocks that sweeps computed, where infinities would leave NaN -----------------


class StructuralZeros:
    """Puts zeros into the blocks (output, input) of a Jacobian or a Hessian.

    The structure of `tape` says which entries are zero; `traced` is the function of the call.
    Blocks of a Hessian may be `symmetric` already: an entry is then also zero where the mirrored
    entry is zero.
    """

    def __init__(
        self, tape: Tape, traced: Traced, types: Sequence[ArrayType], *, symmetric: bool
    ) -> None:
        self.tape, self.types, self.symmetric = tape, types, symmetric
        self.wrt, self.call, self.device = traced.wrt, traced.call, traced.device

    def put(self, blocks: list[np.ndarray], arrays: Arrays, run: Run) -> list[np.ndarray]:
        """The blocks with zeros; on a device, zeros are put only if another entry is not finite.

        Steps that are recorded for later calls put the zeros there in any case.
        """
        if not any(isinstance(block, DeviceArray) for block in blocks):
            return [*map(_masked, blocks, self._masks(readers(arrays, self.wrt)))]
        if executes(run):
            (finite,) = run(self._finite, blocks)
            if np.asarray(finite.host() if isinstance(finite, DeviceArray) else finite):
                return blocks
            step = self._masking(self._masks(readers(arrays, self.wrt)))
        else:
            step = self._masking_any
        return blocks if step is None else cast("list[np.ndarray]", run(step, blocks))

    @cached_property
    def _finite(self) -> PlanStep:
        """A step that tells whether all blocks are finite, where they lie."""
        with collector_paused(), deriving(self.call):
            return PlanStep(all_finite(self.types), device=self.device)

    @cached_property
    def _masking_any(self) -> PlanStep | None:
        """The step that sets the zeros that hold for any index arrays."""
        return self._masking(self._masks(()))

    def _masking(self, masks: Masks) -> PlanStep | None:
        if all(mask is None for mask in masks):
            return None
        with collector_paused(), deriving(self.call):
            with Trace("jacobian", lines=False) as trace:
                tape = trace.builder.finish([trace.lift(trace.input(t)) for t in self.types])
            return PlanStep(masked(tape, masks), device=self.device)

    def _masks(self, values: Known) -> Masks:
        """For each block, the mask of its entries; None if all entries are there."""
        wrt = self.wrt
        masks = zero_masks(self.tape, wrt, values)
        if self.symmetric:
            return _on_both_sides(masks, [self.tape.input_types[k].size for k in wrt])
        return masks


def _masked(block: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    if mask is None:
        return block
    return np.where(mask.reshape(block.shape), block, block.dtype.type(0))


def _on_both_sides(masks: Masks, sizes: Sequence[int]) -> Masks:
    """The masks of the blocks of Hessians, each together with the mask across the diagonal."""
    width, joint = len(sizes), [*masks]
    for k, own in enumerate(masks):
        i, j = k // width % width, k % width
        across = masks[k + (j - i) * (width - 1)]
        if across is not None:
            turned = across.reshape((-1, sizes[j], sizes[i])).transpose((0, 2, 1))
            turned = turned.reshape((-1, sizes[j]))
            joint[k] = turned if own is None else own & turned
    return joint

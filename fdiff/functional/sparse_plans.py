"""Plans of sparse Jacobians and Hessians: structures that are kept, and SciPy's arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse as sp

from ..arraytype import ArrayType
from ..attributes import cached_property
from ..bounded_cache import WeakValues
from ..device_arrays import CPU, DeviceArray
from ..dispatch.plans import Arrays, OperatorPlan, PlanStep, Run
from ..dispatch.program import deriving
from ..dispatch.tiered_execution import runner
from ..dispatch.variant import Variant
from ..errors import DeviceError, DtypeError, InputError, failure
from ..process.forking import no_fork
from ..tape import Tape, prune
from ..trace import Trace, TracedArray, constant_value, guarded_value, splice
from ..transforms.derivative_tapes import assembled
from ..transforms.pipeline import GRADIENT, derive
from ..transforms.terms.declared_patterns import with_declared_calls
from ..transforms.terms.sparse_tapes import Asked, SparseBlock, SparseTape, sparse_tape
from ..tree import unflatten
from .block_results import block_type
from .dense_plans import without_eager_trace

COMPARED = 1 << 16  # bytes of index arrays up to which a kernel compares them
STRUCTURES = 8  # kept for one tape, the least recently used dropped first


class SparseStructures:
    """The structures of one derivative, by the index arrays that they rest on.

    Plans of equal tapes share them: `data` of a prepared function has those of the function.
    """

    def __init__(self, tape: Tape, asked: Asked) -> None:
        self.tape, self.asked = tape, asked
        self.kept: list[SparseTape] = []

    def of(self, arrays: Arrays, call: str) -> SparseTape:
        """The structure that holds for these inputs: the one that is known, or a new one."""
        for structure in self.kept:
            if _holds(structure, arrays):
                if structure is not self.kept[0]:
                    self.kept = [
                        structure,
                        *[other for other in self.kept if other is not structure],
                    ]
                return structure
        moving = set(self.asked.wrt)
        readers = [None if k in moving else _reader(a) for k, a in enumerate(arrays)]
        with deriving(call):
            structure = sparse_tape(self.tape, self.asked, readers)
        if structure.lasting:
            self.kept = [structure, *self.kept][:STRUCTURES]
        return structure

    @property
    def fixed(self) -> SparseTape | None:
        """The structure, where it is one for all inputs."""
        first = self.kept[0] if len(self.kept) == 1 else None
        return None if first is None or first.pins or first.index_tape is not None else first


def _value(array: object) -> np.ndarray | None:
    """The value of an input; None of a traced one that is no constant."""
    if isinstance(array, TracedArray):
        value = constant_value(array)
        if value is not None or array.type.floating:
            return value
        return guarded_value(array, "decided where entries of a derivative are")
    return np.asarray(array.host() if isinstance(array, DeviceArray) else array)


def _reader(array: object) -> Callable[[], np.ndarray | None]:
    """What gives the value of an input; a traced one is looked at in the trace it belongs to."""
    if isinstance(array, TracedArray):
        value = _value(array)
        return lambda: value
    return partial(_value, array)


def _holds(structure: SparseTape, arrays: Arrays) -> bool:
    """Whether all that a structure rests on is as it was."""
    for k, seen in structure.pins.items():
        value = _value(arrays[k])
        if value is None or value.tobytes() != seen:
            return False
    if structure.index_tape is None:
        return True
    values = [_value(a) for a in arrays]
    if any(value is None for value in values):
        return False
    outs = runner(structure.index_tape)(values)  # type: ignore[arg-type] - none is None here
    return tuple([np.asarray(out).tobytes() for out in outs]) == structure.values


_structures: WeakValues[object, SparseStructures] = WeakValues()


def structures_of(tape: Tape, asked: Asked) -> SparseStructures:
    """The structures of a derivative, shared by all plans of an equal tape."""
    structures = _structures.get((tape, asked))
    if structures is None:
        structures = _structures[tape, asked] = SparseStructures(tape, asked)
    return structures


class SparsePlan(OperatorPlan):
    """The plan of a sparse derivative, or of a part of it: its values, or its structure.

    `result` makes the result for one block of a block and, where `values` says so, its values.
    """

    merges = False  # entries are those of the branch taken, whichever the calls before took

    def __init__(
        self,
        variant: Variant,
        tape: Tape,
        asked: Asked,
        result: Result,
        *,
        values: bool,
    ) -> None:
        self.variant = variant
        self.structures = structures_of(tape, asked)
        # a result is nested in structures, the innermost first
        self.levels = (variant.in_spec,) * (2 if asked.hessian else 1)
        self.outer = variant.out_spec
        self.result, self.values = result, values
        self.guards = values  # a structure alone runs no step that would check them
        self.order = 2 if asked.hessian else 1
        self._alone = self.outer.kind is None and variant.in_spec.kind is None
        self._fixed: SparseTape | None = None
        self._steps: list[tuple[SparseTape, PlanStep]] = []
        self._attributes: dict[int, tuple[SparseBlock, dict[str, object]]] = {}

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        structure = self._fixed
        if structure is None:
            structure = self.structures.of(arrays, self.variant.call)
            self._fixed = self.structures.fixed
        values: Sequence[object] = [None] * len(structure.blocks)
        if self.values:
            values = run(self._step(structure), arrays)
        if self._alone:
            return self.result(structure.blocks[0], values[0], self)
        return self._nested(
            [self.result(b, v, self) for b, v in zip(structure.blocks, values, strict=True)]
        )

    def _nested(self, results: list[object]) -> object:
        width = len(self.variant.wrt)
        for spec in self.levels:
            results = [
                unflatten(spec, results[k : k + width]) for k in range(0, len(results), width)
            ]
        return unflatten(self.outer, results)

    def _step(self, structure: SparseTape) -> PlanStep:
        steps = self._steps
        for pair in steps:
            if pair[0] is structure:
                if pair is not steps[0]:  # the latest first
                    self._steps = [pair, *[other for other in steps if other is not pair]]
                return pair[1]
        variant = self.variant
        with deriving(variant.call):
            check = variant.check
            if self._compares_pins(structure):
                check = pins_hold(structure, variant.tape.input_types, check)
            step = PlanStep(structure.tape, check, variant.call, variant.device, variant.written)
        kept = [pair for pair in self._steps if any(pair[0] is k for k in self.structures.kept)]
        self._steps = [(structure, step), *kept]
        return step

    def derived_at(self, arrays: Arrays) -> Sequence[str]:
        structure = self.structures.of(arrays, self.variant.call)
        if self.values:
            self._step(structure)
        return [f"sparse: {row}" for row in structure.facts.rows()]

    def only_step(self) -> PlanStep | None:
        """The step of the values, where nothing else is to be compared before it runs."""
        if not (self.values and self._steps):
            return None
        structure, step = self._steps[0]
        latest = any(structure is kept for kept in self.structures.kept[:1])
        latest = latest and self._compares_pins(structure)
        return step if latest or self.structures.fixed is not None else None

    def _compares_pins(self, structure: SparseTape) -> bool:
        """Whether the kernel compares index arrays, so that a fast path need not."""
        size = sum(map(len, structure.pins.values()))
        return self.result is values_alone and structure.index_tape is None and 0 < size <= COMPARED

    def steps(self) -> list[PlanStep]:
        return [step for _, step in self._steps]

    def attributes(self, block: SparseBlock, kind: type) -> dict[str, object]:
        """What arrays of a block share, as long as its structure is kept."""
        entry = self._attributes.get(id(block))
        if entry is None or entry[0] is not block:
            kept = {id(b) for structure in self.structures.kept for b in structure.blocks}
            self._attributes = {k: pair for k, pair in self._attributes.items() if k in kept}
            entry = self._attributes[id(block)] = (block, _attributes(block, kind))
        return entry[1]

    @cached_property
    def by_columns(self) -> bool:
        return self.structures.asked.by_columns


Result = Callable[[SparseBlock, Any, SparsePlan], object]


def sparse_plan(
    variant: Variant,
    *,
    hessian: bool,
    lower: bool,
    mode: str,
    format: str,  # noqa: A002 - as SciPy says
    result: Result,
    values: bool,
) -> SparsePlan:
    """The plan of a sparse derivative of a traced function."""
    variant = without_eager_trace(variant)
    variant = replace(variant, tape=with_declared_calls(variant.tape))
    ins = [variant.tape.input_types[k] for k in variant.wrt]
    tape = _gradients(variant) if hessian else variant.tape
    types = tuple([block_type(o, i, mode) for o in tape.output_types for i in ins])
    asked = Asked(variant.wrt, mode, format == "csc", hessian, lower, types)
    return SparsePlan(replace(variant, tape=tape), tape, asked, result, values=values)


def _gradients(variant: Variant) -> Tape:
    """The tape of the gradients of all outputs, each of one element."""
    tape, wrt = variant.tape, variant.wrt
    outs = tape.output_types
    if large := [t.shape for t in outs if t.size != 1]:
        fact = f"a sparse Hessian needs outputs of one element, not of shape {large[0]}."
        way = "Weight the outputs: fdiff.hessian(lambda x, v: v @ f(x), sparse=True)."
        raise failure(InputError, variant.call, fact, way)
    wide = [o for o, t in enumerate(outs) if t.floating]
    each = [prune(tape, [tape.outputs[o]]) for o in wide]
    parts = [derive(GRADIENT, t, wrt=wrt, keep=range(1, 1 + len(wrt))) for t in each]
    places = [o * len(wrt) + k for o in wide for k in range(len(wrt))]
    return assembled(tape, parts, places, [tape.input_types[k] for k in wrt] * len(outs))


def pins_hold(structure: SparseTape, types: Sequence[ArrayType], check: Tape | None) -> Tape:
    """The tape that tells whether index arrays are those of a structure, and `check` holds."""
    with Trace("check", lines=False) as trace:
        inputs = [trace.input(t) for t in types]
        holds: Any = True
        for k, seen in structure.pins.items():
            pinned = np.frombuffer(seen, types[k].dtype).reshape(types[k].shape)
            holds = np.logical_and(holds, np.all(np.equal(inputs[k], pinned)))
        if check is not None:
            (more,) = splice(check, inputs[: len(check.inputs)], trace)
            holds = np.logical_and(holds, more)
        return trace.builder.finish([trace.lift(holds)])


# --- results ------------------------------------------------------------------------------------


def values_alone(block: SparseBlock, values: Any, plan: SparsePlan) -> object:
    """The values of a block."""
    return values


def coordinates(block: SparseBlock, values: Any, plan: SparsePlan) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the values, in their order."""
    first = np.repeat(
        np.arange(len(block.starts) - 1, dtype=block.indices.dtype), np.diff(block.starts)
    )
    return (block.indices.copy(), first) if plan.by_columns else (first, block.indices.copy())


def array_as(format: str, *, filled: bool) -> Result:  # noqa: A002 - SciPy's word
    """What makes SciPy's array of a block; without `filled`, the array of its places."""
    kind = getattr(sp, f"{format}_array")

    def sparse_array(block: SparseBlock, values: Any, plan: SparsePlan) -> object:
        if not filled:
            values = np.ones(len(block.indices), bool)
        if isinstance(values, TracedArray):
            return _traced(block, values, plan, format)
        if plan.variant.device != CPU and filled:
            fact = "a sparse array cannot be put together on a device."
            way = "Take its values there: jacobian(f, sparse=True, device='cuda').data(x)."
            raise failure(DeviceError, plan.variant.call, fact, way)
        if values.dtype == np.float16:
            fact = "SciPy has no sparse arrays of float16."
            way = "Pass x in float32, or take the values: jacobian(f, sparse=True).data(x)."
            raise failure(DtypeError, plan.variant.call, fact, way)
        array = kind.__new__(kind)
        vars(array).update(plan.attributes(block, kind))
        array.data = values
        return array

    return sparse_array


def _traced(block: SparseBlock, values: TracedArray, plan: SparsePlan, format: str) -> object:  # noqa: A002 - SciPy's word
    """The traced counterpart of an array, whose values are in the order of the rows."""
    with no_fork:
        from ..ops.scipy_ops.traced_sparse import TracedSparse  # noqa: PLC0415 - inside traces alone

    rows, cols = (a.astype(np.int64) for a in coordinates(block, None, plan))
    if plan.by_columns:
        order = np.lexsort((cols, rows))
        rows, cols, values = rows[order], cols[order], values[order]
    return TracedSparse(values, rows, cols, block.shape, format=format, matrix=False)


def _attributes(block: SparseBlock, kind: type) -> dict[str, object]:
    """The attributes of an array but for its values: SciPy's constructor takes 10 µs."""
    values = np.zeros(len(block.indices))
    if kind is sp.coo_array:
        first = np.repeat(
            np.arange(block.shape[0], dtype=block.indices.dtype), np.diff(block.starts)
        )
        first.flags.writeable = False
        block.indices.flags.writeable = False
        array = kind((values, (first, block.indices)), shape=block.shape)
    else:
        for part in (block.indices, block.starts):
            part.flags.writeable = False
        array = kind((values, block.indices, block.starts), shape=block.shape)
        array.has_sorted_indices = True
    array.has_canonical_format = True
    return vars(array)

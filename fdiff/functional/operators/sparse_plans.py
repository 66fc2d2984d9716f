"""Plans of sparse Jacobians and Hessians: cached structures, and SciPy's sparse arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse as sp

from ...device_arrays import CPU
from ...dispatch.plans import Arrays, OperatorPlan, PlanStep, Run
from ...dispatch.variant import Traced
from ...errors import DeviceError, DtypeError, InputError, failure
from ...lazy_attributes import cached_property
from ...pictures.matrices import spy_plot
from ...pictures.picture import Picture
from ...process.forking import no_fork
from ...tape import Tape, prune
from ...trace import TracedArray
from ...transforms.derivative_tapes import assembled
from ...transforms.pipeline import GRADIENT, derive
from ...transforms.terms.entry_places import entry_places
from ...transforms.terms.sparse_tapes import SparseBlock, StructureRequest
from ...transforms.terms.structures import with_declared_calls
from ...tree import unflatten
from .block_results import block_type
from .structured_steps import StructuredSteps


class SparsePlan(OperatorPlan):
    """The plan of a sparse derivative, or of one part of it: its values, or its structure.

    `result` makes the result from a `SparseBlock` and, if `values` is true, the block's values.
    """

    def __init__(
        self,
        traced: Traced,
        tape: Tape,
        request: StructureRequest,
        result: Result,
        *,
        values: bool,
    ) -> None:
        self.traced = traced
        compares = result is values_alone
        self.structured = StructuredSteps(traced, tape, request, compares_pins=compares)
        # a result is nested in structures, the innermost first
        self.levels = (traced.in_spec,) * (2 if request.hessian else 1)
        self.outer = traced.out_spec
        self.result, self.values = result, values
        self.guards = values  # a structure alone runs no step that would check them
        self.order = 2 if request.hessian else 1
        self._alone = self.outer.kind is None and traced.in_spec.kind is None
        self._attributes: dict[int, tuple[SparseBlock, dict[str, object]]] = {}

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        structure = self.structured.structure(arrays)
        assert structure is not None, "of sparse derivatives, one is refused by an error"
        values: Sequence[object] = [None] * len(structure.blocks)
        if self.values:
            values = run(self.structured.step(structure), arrays)
        if self._alone:
            return self.result(structure.blocks[0], values[0], self)
        return self._nested(
            [self.result(b, v, self) for b, v in zip(structure.blocks, values, strict=True)]
        )

    def _nested(self, results: list[object]) -> object:
        width = len(self.traced.wrt)  # 0 where an argument has no arrays
        for level, spec in enumerate(self.levels, 1):
            count = len(self.traced.scalars) * width ** (len(self.levels) - level)
            begins = range(0, count * width, width) if width else [0] * count
            results = [unflatten(spec, results[k : k + width]) for k in begins]
        return unflatten(self.outer, results)

    def derived_at(self, arrays: Arrays) -> Sequence[str]:
        structure = self.structured.structure(arrays)
        assert structure is not None
        if self.values:
            self.structured.step(structure)
        return [f"sparse: {row}" for row in structure.facts.rows()]

    def only_step(self) -> PlanStep | None:
        return self.structured.only_step() if self.values else None

    def steps(self) -> list[PlanStep]:
        return self.structured.steps()

    def attributes(self, block: SparseBlock, kind: type) -> dict[str, object]:
        """Attributes that arrays of a block share as long as its structure is kept."""
        entry = self._attributes.get(id(block))
        if entry is None or entry[0] is not block:
            kept = {
                id(b) for structure in self.structured.structures.kept for b in structure.blocks
            }
            self._attributes = {k: pair for k, pair in self._attributes.items() if k in kept}
            entry = self._attributes[id(block)] = (block, _attributes(block, kind))
        return entry[1]

    @cached_property
    def by_columns(self) -> bool:
        return self.structured.structures.request.by_columns


Result = Callable[[SparseBlock, Any, SparsePlan], object]


def sparse_plan(
    traced: Traced,
    *,
    hessian: bool,
    lower: bool,
    mode: str,
    format: str,  # noqa: A002 - as SciPy says
    result: Result,
    values: bool,
) -> SparsePlan:
    """The plan of a sparse derivative of a traced function."""
    traced = traced.ordinary()
    traced = traced._replace(tape=with_declared_calls(traced.tape, entry_places))
    ins = traced.wrt_types
    tape = _gradients(traced) if hessian else traced.tape
    types = tuple([block_type(o, i, mode) for o in tape.output_types for i in ins])
    request = StructureRequest(traced.wrt, mode, format == "csc", hessian, lower, types)
    return SparsePlan(traced._replace(tape=tape), tape, request, result, values=values)


def _gradients(traced: Traced) -> Tape:
    """The tape of the gradients of all outputs; each output has one element."""
    tape, wrt = traced.tape, traced.wrt
    outs = tape.output_types
    if large := [t.shape for t in outs if t.size != 1]:
        fact = f"a sparse Hessian needs outputs of one element, not of shape {large[0]}."
        way = "Weight the outputs: fdiff.hessian(lambda x, v: v @ f(x), sparse=True)."
        raise failure(InputError, traced.call, fact, way)
    wide = [o for o, t in enumerate(outs) if t.floating]
    each = [prune(tape, [tape.outputs[o]]) for o in wide]
    parts = [derive(GRADIENT, t, wrt=wrt, keep=range(1, 1 + len(wrt))) for t in each]
    places = [o * len(wrt) + k for o in wide for k in range(len(wrt))]
    return assembled(tape, parts, places, [tape.input_types[k] for k in wrt] * len(outs))


# --- results ------------------------------------------------------------------------------------


def values_alone(block: SparseBlock, values: object, plan: SparsePlan) -> object:
    """The values of a block."""
    return values


def coordinates(block: SparseBlock, values: Any, plan: SparsePlan) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the values, in their order."""
    first = np.repeat(
        np.arange(len(block.starts) - 1, dtype=block.indices.dtype), np.diff(block.starts)
    )
    return (block.indices.copy(), first) if plan.by_columns else (first, block.indices.copy())


def array_as(format: str, *, filled: bool) -> Result:  # noqa: A002 - SciPy's word
    """A function that makes SciPy's array from a block; if `filled` is false, from its places."""
    kind = getattr(sp, f"{format}_array") if filled else PATTERNS[format]

    def sparse_array(block: SparseBlock, values: Any, plan: SparsePlan) -> object:
        if not filled:
            values = np.ones(len(block.indices), bool)
        if isinstance(values, TracedArray):
            return _traced(block, values, plan, format)
        if plan.traced.device != CPU and filled:
            fact = "a sparse array cannot be put together on a device."
            way = "Take its values there: jacobian(f, sparse=True, device='cuda').data(x)."
            raise failure(DeviceError, plan.traced.call, fact, way)
        if values.dtype == np.float16:
            fact = "SciPy has no sparse arrays of float16."
            way = "Pass x in float32, or take the values: jacobian(f, sparse=True).data(x)."
            raise failure(DtypeError, plan.traced.call, fact, way)
        array = kind.__new__(kind)
        vars(array).update(plan.attributes(block, kind))
        array.data = values
        return array

    return sparse_array


def _traced(block: SparseBlock, values: TracedArray, plan: SparsePlan, format: str) -> object:  # noqa: A002 - SciPy's word
    """The traced counterpart of an array, whose values are in the order of the rows."""
    with no_fork:
        from ...ops.scipy_ops.sparse.traced_sparse import TracedSparse  # noqa: PLC0415 - inside traces alone

    rows, cols = (a.astype(np.int64) for a in coordinates(block, None, plan))
    if plan.by_columns:
        order = np.lexsort((cols, rows))
        rows, cols, values = rows[order], cols[order], values[order]
    return TracedSparse(values, rows, cols, block.shape, format=format, matrix=False)


def _attributes(block: SparseBlock, kind: type) -> dict[str, object]:
    """The attributes of an array except its values: SciPy's constructor takes 10 µs."""
    values = np.zeros(len(block.indices))
    if issubclass(kind, sp.coo_array):
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


# --- patterns, which Jupyter shows as a picture ---------------------------------------------------


class _Shown:
    """Methods that a pattern has beside the methods of SciPy's array."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture of the pattern to a file.

        Parameters
        ----------
        path : str or path-like
            Where to; its suffix is ``.svg``.

        Raises
        ------
        InputError
            If the suffix is another one.
        """
        _picture(self).save(path)

    def _repr_html_(self) -> str:
        return _picture(self)._repr_html_()


class CsrPattern(_Shown, sp.csr_array):
    """The places of the entries, by rows."""


class CscPattern(_Shown, sp.csc_array):
    """The places of the entries, by columns."""


class CooPattern(_Shown, sp.coo_array):
    """The places of the entries, as a list."""


PATTERNS = {"csr": CsrPattern, "csc": CscPattern, "coo": CooPattern}


def _picture(pattern: Any) -> Picture:
    places = pattern.tocoo()
    rows, columns = places.coords
    return spy_plot(rows, columns, places.shape, "pattern")

"""Plans of dense Jacobians and Hessians.

The blocks of a Jacobian are computed by the first of four methods that applies: terms, where their
estimated cost is lower (`structured_steps`); all columns or rows at once in one batched tape, if
its intermediate values fit the memory budget; the same by a kernel, which holds fewer values;
columns or rows in chunks (`dense_sweeps`). The blocks of a call that is differentiated eagerly come
from sweeps through its trace (`eager_results`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...device_arrays import CPU
from ...dispatch.plans import Arrays, EagerStep, OperatorPlan, PlanStep, Run
from ...dispatch.variant import Traced
from ..call.complex_rules import check_complex, refuse_complex
from ..call.input_checks import (
    check_columns,
    check_one_element,
    check_outputs,
    check_strict,
    check_strict_gradient,
)
from ..call.late_functions import late
from .block_results import (
    Finish,
    nested_hessian,
    nested_hessians,
    nested_jacobian,
)
from .dense_modes import dense_blocks, jacobian_blocks
from .dense_sweeps import ChunkedSweeps, DenseDerivative, OneSweep, gives_one_element, gradient_tape

if TYPE_CHECKING:
    from ...transforms.terms.structures import SparseTape

jacobian_values = late("operators.eager_results", "jacobian_values")
hessian_values = late("operators.eager_results", "hessian_values")


def check_jacobian(traced: Traced, name: str, *, strict: bool, choice: str) -> None:
    """Refuse functions that have no such Jacobian."""
    check_outputs(traced, name)
    check_complex(traced, choice)
    check_columns(traced)
    if strict:
        check_strict(traced, each_pair=True)


def check_hessian(traced: Traced, name: str, *, strict: bool) -> None:
    """Refuse functions that have no such second derivative."""
    if name == "hessian":
        check_outputs(traced, name)
        refuse_complex(traced)
    else:
        check_one_element(traced, name)
    if strict:
        check_strict(traced, each_pair=True)
        check_strict_gradient(gradient_tape(traced), traced, name)


class DensePlan(OperatorPlan):
    """The plan of all blocks of a dense derivative; `finish` puts them into the result's structure.

    Terms give the blocks if they cost less, which may depend on index arrays. Otherwise the
    `sweeps` give the blocks; they are chosen once.
    """

    def __init__(
        self,
        derivative: DenseDerivative,
        finish: Finish,
        eager: EagerStep | None,
        *,
        by_terms: bool = True,
    ) -> None:
        self.derivative, self.finish, self.order = derivative, finish, derivative.order
        size, blocks = derivative.requested.chunk_size, derivative.blocks
        self.by_terms = by_terms and size is None and eager is None
        chunks = [block.count for block in blocks]
        if derivative.traced.device == CPU or size is not None:  # the budget is the host's
            chunks = [block.chunk(size, derivative.requested.budget) for block in blocks]
        sweep = OneSweep(derivative, eager)
        chunked = any(c < b.count for c, b in zip(chunks, blocks, strict=True))
        self.sweeps = ChunkedSweeps(derivative, chunks, sweep) if chunked else sweep
        self.guards = not chunked

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        step = self.step_of_terms(arrays)
        blocks = self.sweeps.blocks(arrays, run) if step is None else run(step, arrays)
        return self.finish(blocks)

    def structure_of_terms(self, arrays: Arrays) -> SparseTape | None:
        """The structure of terms that holds for these inputs; None if sweeps give the blocks."""
        return self.derivative.terms.structure(arrays) if self.by_terms else None

    def step_of_terms(self, arrays: Arrays) -> PlanStep | None:
        """The step that gives the blocks from terms; None if sweeps give them."""
        structure = self.structure_of_terms(arrays)
        return None if structure is None else self.derivative.terms.step(structure)

    def derived_at(self, arrays: Arrays) -> Sequence[str]:
        if self.step_of_terms(arrays) is None:
            self.sweeps.programs()
        return ()

    def only_step(self) -> PlanStep | None:
        step = self.derivative.terms.only_step() if self.by_terms else None
        return step or self.sweeps.only_step()

    def steps(self) -> list[PlanStep]:
        terms = self.derivative.terms.steps() if self.by_terms else []
        return list(dict.fromkeys([*super().steps(), *terms, *self.sweeps.steps()]))


def jacobian_plan(traced: Traced, mode: str, chunk_size: int | None) -> DensePlan:
    """The plan of a Jacobian."""
    requested = jacobian_blocks(traced, mode, chunk_size)
    eager = None
    if traced.eager is not None:
        eager = EagerStep(partial(jacobian_values, traced, requested))
    return DensePlan(DenseDerivative(traced, requested), nested_jacobian(traced), eager)


def hessian_plan(traced: Traced, mode: str, chunk_size: int | None) -> DensePlan:
    """The plan of a Hessian: the Jacobian of the gradient, or of the Jacobian of several outputs.

    It is computed forward over reverse. For several outputs, terms are not used, and an eager trace
    is replaced by its tape.
    """
    ins, scalar = traced.wrt_types, gives_one_element(traced)
    if scalar and traced.eager is not None:
        requested = dense_blocks(ins, ins, mode, "forward", chunk_size)
        eager = EagerStep(partial(hessian_values, traced, requested))
        return DensePlan(DenseDerivative(traced, requested, order=2), nested_hessian(traced), eager)
    slopes = traced._replace(tape=gradient_tape(traced), eager=None)
    outs = ins if scalar else slopes.tape.output_types
    requested = dense_blocks(outs, ins, mode, "forward", chunk_size)
    finish = nested_hessian(traced) if scalar else nested_hessians(traced)
    return DensePlan(
        DenseDerivative(slopes, requested, traced, order=2), finish, None, by_terms=scalar
    )

"""The tapes of a dense derivative, and the sweeps that compute all of its blocks.

All seeds run at once, or in chunks (`dense_plans`). Source: A. Griewank and A. Walther, Evaluating
Derivatives, 2nd ed., SIAM 2008, sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, cast

import fdiff.intact_numpy as np

from ...device_arrays import DeviceArray
from ...dispatch.plans import (
    Arrays,
    EagerStep,
    Inspection,
    PlanStep,
    Run,
    Step,
    deriving,
    executes,
    replay,
)
from ...dispatch.tiers.fixed_tier import fixed_tier
from ...dispatch.variant import Traced
from ...lazy_attributes import cached_property
from ...process.garbage_collection import collector_paused
from ...process.progress import Stage
from ...tape import Builder, Tape
from ...transforms.derivative_tapes import assembled, symmetric
from ...transforms.pipeline import GRADIENT, HESSIAN, JACOBIAN, derive
from ..call.late_functions import late
from .block_results import DenseBlocks, mirrored, put_part, zeros_beside
from .dense_modes import jacobian_blocks
from .seeded_blocks import SeededBlock, column_blocks, row_blocks

if TYPE_CHECKING:
    from .structured_steps import StructuralZeros, StructuredSteps

WALKED = 5000  # nodes up to which the zeros of a compiled function are looked for


class DenseDerivative:
    """A dense Jacobian of the tape of `traced`: its seeded `blocks`, and the tapes made of them.

    `function` is the function itself: for a Hessian, `traced` has the tape of its gradient.
    """

    def __init__(
        self,
        traced: Traced,
        requested: DenseBlocks,
        function: Traced | None = None,
        *,
        order: int = 1,
    ) -> None:
        self.traced, self.requested, self.order = traced, requested, order
        self.function = function or traced
        self.blocks: list[SeededBlock] = []
        if traced.eager is None:
            split = column_blocks if requested.mode == "forward" else row_blocks
            self.blocks = split(traced.tape, traced.wrt)

    @cached_property
    def terms(self) -> StructuredSteps:
        """The steps that give the blocks from terms, one for each structure."""
        traced, requested = self.traced, self.requested
        request = late("operators.structured_steps", "StructureRequest")(
            tuple(traced.wrt), requested.mode, hessian=self.order > 1, types=tuple(requested.types),
            dense=True, budget=requested.budget,
        )  # fmt: skip
        steps = late("operators.structured_steps", "dense_steps")
        with collector_paused(), deriving(traced.call):
            return steps(traced, self.function, request, gradient_tape)

    @cached_property
    def zeros(self) -> StructuralZeros:
        """The function that puts structural zeros into blocks."""
        of_gradient = self.order > 1 and self.traced.eager is not None
        traced = self.traced if of_gradient else self.traced.ordinary()
        tape = gradient_tape(traced) if of_gradient else traced.tape
        zeros = late("operators.structured_steps", "StructuralZeros")
        return zeros(tape, self.traced, self.requested.types, symmetric=self.order > 1)

    def step(self, *, walk: bool = False) -> PlanStep:
        """The step of all blocks, which checks the guards; with zeros as in `tape`."""
        with collector_paused(), deriving(self.traced.call):
            return self.traced.step(self.tape(walk=walk))

    def tape(self, *, walk: bool = False) -> Tape:
        """Every block in one tape, in the order (output, input); absent blocks are zero.

        For a long function, the tape has the zeros of the structure only if `walk` is true.
        """
        tape, wrt, types = self.traced.tape, self.traced.wrt, self.requested.types
        blocks = [b.whole() for b in self.blocks]
        places = [o * len(self.requested.ins) + i for b in self.blocks for o, i in b.targets]
        whole = assembled(tape, blocks, places, types)
        if self.function.eager is None and (walk or not self.terms.long):
            whole = self.terms.with_zeros(whole)
        pipeline = HESSIAN if self.order > 1 else JACOBIAN
        return derive(pipeline, whole, wrt=wrt, types=types)

    def with_zeros(self, blocks: Sequence[object], arrays: Arrays, run: Run) -> Sequence[object]:
        """The blocks, with the zeros of their structure if any other entry is not finite."""
        if all(type(block) is np.ndarray and bool(np.isfinite(block).all()) for block in blocks):
            return blocks
        return self.zeros.put(cast("list[np.ndarray]", blocks), arrays, run)

    def symmetric(self, blocks: Sequence[object], run: Run) -> Sequence[object]:
        """Blocks of Hessians made exactly symmetric, on the host or on their device."""
        if any(isinstance(block, DeviceArray) for block in blocks):
            return run(self._symmetric_step, blocks)
        return mirrored(cast("list[np.ndarray]", blocks), [t.size for t in self.requested.ins])

    @cached_property
    def _symmetric_step(self) -> PlanStep:
        builder = Builder()
        blocks = builder.finish([builder.input(t) for t in self.requested.types])
        with collector_paused(), deriving(self.traced.call):
            return PlanStep(symmetric(blocks, self.requested.ins), device=self.traced.device)


def gives_one_element(traced: Traced) -> bool:
    """Whether the function returns one array with one element, and no structure."""
    return traced.out_spec.kind is None and traced.tape.output_types[0].size == 1


def gradient_tape(traced: Traced) -> Tape:
    """The tape of the gradient alone; for several outputs, the tape of their Jacobian."""
    traced = traced.ordinary()
    count, wrt = len(traced.tape.outputs), traced.wrt
    if gives_one_element(traced):
        return derive(GRADIENT, traced.tape, wrt=wrt, keep=range(count, count + len(wrt)))
    rows = DenseDerivative(traced, jacobian_blocks(traced, "auto", None))
    structure = rows.terms.structure([None] * len(traced.tape.inputs))
    return rows.tape(walk=True) if structure is None else structure.tape


class OneSweep:
    """All seeds at once: one step, made when it is first needed, or the step of an eager trace.

    The tape writes the zeros of the structure, where infinities would leave NaN. For long
    functions, whose zeros take a walk to find, and for eager traces, results get the zeros later.
    """

    chunked = False

    def __init__(self, derivative: DenseDerivative, eager: EagerStep | None) -> None:
        self.derivative = derivative
        self._step: Step | None = eager
        self._lacks_zeros = eager is not None

    def blocks(self, arrays: Arrays, run: Run) -> Sequence[object]:
        """Every block."""
        step = self._step or self._derived()
        if not self._lacks_zeros:
            return run(step, arrays)
        if executes(run):
            return self.derivative.with_zeros(run(step, arrays), arrays, run)
        return run(self._with_zeros(), arrays)

    def _derived(self) -> PlanStep:
        self._step = step = self.derivative.step()
        self._lacks_zeros = self.derivative.terms.long
        return step

    def _with_zeros(self) -> PlanStep:
        """The step with zeros: another step if there are zeros."""
        derivative, step = self.derivative, self._step
        assert isinstance(step, PlanStep), "an eager trace is executed"
        with collector_paused(), deriving(derivative.traced.call):
            if (tape := derivative.tape(walk=True)) != step.tape:
                self._step = step = derivative.traced.step(tape)
        self._lacks_zeros = False
        return step

    def only_step(self) -> PlanStep | None:
        """The step, with its zeros if it is compiled, since compiling took longer than a walk."""
        step = self._step
        if not isinstance(step, PlanStep):
            return None
        if not self._lacks_zeros or step.runner.tier not in {"compile", "evaluate"}:
            return step
        return self._with_zeros() if len(self.derivative.traced.tape) <= WALKED else None

    def steps(self) -> list[PlanStep]:
        """The steps made so far, except the `only_step`."""
        return []

    def programs(self) -> list[tuple[Tape, int]]:
        """The tapes that a call runs, and how often: for reports."""
        step = self._step or self._derived()
        return [(step.tape, 1)] if isinstance(step, PlanStep) else []


class ChunkedSweeps:
    """As many seeds at a time as the memory budget allows, or as `chunk_size` says.

    `chunks` are the numbers of seeds at a time, one for each of the seeded blocks. In a trace,
    `whole`, the sweep of all seeds, is recorded.
    """

    chunked = True

    def __init__(self, derivative: DenseDerivative, chunks: Sequence[int], whole: OneSweep) -> None:
        self.derivative, self.chunks, self._whole = derivative, chunks, whole
        self.spent = 0.0  # seconds that chunks took
        self._together: PlanStep | None = None

    def blocks(self, arrays: Arrays, run: Run) -> Sequence[object]:
        """Every block."""
        if run is replay:
            return self._whole.blocks(arrays, run)
        if isinstance(run, Inspection):
            return self._in_chunks(arrays, run)
        derivative = self.derivative
        if derivative.requested.chunk_size is None and self._fits(arrays, asked=not executes(run)):
            blocks = run(self.together, arrays)
            long = derivative.terms.long
            return derivative.with_zeros(blocks, arrays, run) if long else blocks
        begin = perf_counter()
        blocks = self._in_chunks(arrays, run)
        self.spent += perf_counter() - begin
        return blocks

    @property
    def together(self) -> PlanStep:
        """All seeds at once, like chunks without a check of the guards."""
        if self._together is None:
            derivative = self.derivative
            with collector_paused(), deriving(derivative.traced.call):
                self._together = PlanStep(derivative.tape(), device=derivative.traced.device)
        return self._together

    def _fits(self, arrays: Arrays, *, asked: bool) -> bool:
        """Whether a kernel runs all seeds at once within the budget.

        The interpreter's values decide whether to run in chunks. A kernel holds few of them, and
        computes values that do not depend on the seeds only once.
        """
        asked |= fixed_tier() == "compile"
        in_order = all(a.flags.c_contiguous for a in arrays if isinstance(a, np.ndarray))
        if not (asked or self.spent) or not in_order:
            return False
        runner = self.together.runner
        runner.account.asked |= asked
        runner.account.spent = max(runner.account.spent, self.spent)
        return runner.kernel_fits(self.derivative.requested.budget)

    def _in_chunks(self, arrays: Arrays, run: Run) -> Sequence[object]:
        """Every block, `chunk` rows or columns at a time, by one tape; the last may overlap."""
        derivative = self.derivative
        traced, requested = derivative.traced, derivative.requested
        wholes = zeros_beside(arrays, requested.types)
        columns, count = (
            requested.mode == "forward",
            sum(block.count for block in derivative.blocks),
        )
        running = Stage("running", traced.call, total=count, category="")
        with running:
            for block, chunk in zip(derivative.blocks, self.chunks, strict=True):
                for begin in range(0, block.count, chunk):
                    lo = min(begin, block.count - chunk)
                    if (step := block.steps.get(chunk)) is None:
                        with collector_paused(), deriving(traced.call):
                            step = block.step(chunk, traced.device)
                    parts = run(step, [*arrays, np.int64(lo)])
                    for (o, i), part in zip(block.targets, parts, strict=True):
                        whole = wholes[o * len(requested.ins) + i]
                        put_part(whole, cast("np.ndarray", part), lo, block.count, columns=columns)
                    running.advance(min(chunk, block.count - begin))
        blocks = derivative.with_zeros(wholes, arrays, run)
        return derivative.symmetric(blocks, run) if derivative.order > 1 else blocks

    def only_step(self) -> None:
        """None, because there are several steps."""

    def steps(self) -> list[PlanStep]:
        """The steps made so far."""
        steps = [step for block in self.derivative.blocks for step in block.steps.values()]
        together = self._together
        return steps if together is None or not together.runner.tier else [*steps, together]

    def programs(self) -> list[tuple[Tape, int]]:
        """The tapes that a call runs, and how often: for reports.

        The calls decide whether a kernel runs all seeds at once in place of chunks.
        """
        device = self.derivative.traced.device
        return [
            (block.step(chunk, device).tape, -(-block.count // chunk))
            for block, chunk in zip(self.derivative.blocks, self.chunks, strict=True)
        ]

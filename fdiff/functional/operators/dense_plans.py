"""Plans of dense Jacobians and Hessians.

The blocks of a Jacobian are computed by the first of four methods that applies: terms, where their
estimated cost is lower (`structured_steps`); all columns or rows at once in one batched tape, if
its intermediate values fit the memory budget; the same by a kernel, which holds fewer values;
columns or rows in chunks. The blocks of a call that is differentiated eagerly come from sweeps
through its trace (`eager_results`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, cast

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...attributes import cached_property
from ...device_arrays import CPU, DeviceArray
from ...dispatch.plans import (
    Arrays,
    EagerStep,
    Inspection,
    OperatorPlan,
    PlanStep,
    Run,
    Step,
    deriving,
    execute,
    executes,
    replay,
)
from ...dispatch.tiers.fixed_tier import fixed_tier
from ...dispatch.variant import Variant
from ...process.collector import collector_paused
from ...process.progress import Stage
from ...tape import Builder, Tape
from ...trace.eager.eager_trace import to_ordinary_tape
from ...transforms.derivative_tapes import assembled, symmetric
from ...transforms.pipeline import GRADIENT, HESSIAN, JACOBIAN, derive
from ..call.input_checks import (
    check_one_element,
    check_outputs,
    check_strict,
    check_strict_gradient,
)
from ..call.late_operators import late
from .block_results import (
    DenseBlocks,
    Finish,
    block_type,
    mirrored,
    nested_hessian,
    nested_hessians,
    nested_jacobian,
    pick_mode,
    put_part,
    zeros_beside,
)
from .complex_rules import refuse_complex
from .seeded_blocks import SeededBlock, column_blocks, row_blocks

if TYPE_CHECKING:
    from ...transforms.terms.structures import SparseTape
    from .structural_zeros import StructuralZeros
    from .structured_steps import StructuredSteps

jacobian_values = late("operators.eager_results", "jacobian_values")
hessian_values = late("operators.eager_results", "hessian_values")
BUDGET = 256 * 2**20  # bytes of intermediate values that one pass of a dense derivative may hold
WALKED = 5000  # nodes of a function whose zeros are looked for once it is compiled


def check_hessian(variant: Variant, name: str, *, strict: bool) -> None:
    """Refuse functions that have no such second derivative."""
    if name == "hessian":
        check_outputs(variant, name)
        refuse_complex(variant)
    else:
        check_one_element(variant, name)
    if strict:
        check_strict(variant, each_pair=True)
        check_strict_gradient(gradient_tape(variant), variant, name)


class JacobianPlan(OperatorPlan):
    """The plan of all blocks of a Jacobian; `finish` puts the blocks into the structure of the
    result.

    `whole` is the step that computes all seeds at once, made when it is first needed; an eager
    trace has the `eager` step instead. `chunks` are the numbers of seeds per chunk, one for each of
    the seeded `blocks`.
    """

    pipeline = JACOBIAN

    def __init__(
        self,
        variant: Variant,
        asked: DenseBlocks,
        finish: Finish,
        eager: EagerStep | None,
        function: Variant | None = None,
    ) -> None:
        self.variant = variant
        self.function = function or variant  # of a Hessian the function of the gradient
        self.finish = finish
        self.mode, self.outs, self.ins, self.types, chunk_size, _ = asked
        self.whole: Step | None = eager
        self.blocks: list[SeededBlock] = []
        if eager is None:
            split = column_blocks if self.mode == "forward" else row_blocks
            self.blocks = split(variant.tape, variant.wrt)
        whole = variant.device != CPU and chunk_size is None  # the budget is the host's
        self.chunks = [b.count if whole else b.chunk(chunk_size, BUDGET) for b in self.blocks]
        self.auto = chunk_size is None
        self.of_all_seeds: PlanStep | None = None  # made by `together`
        self.of_terms: StructuredSteps | None = None  # made by `structured`
        self.spent = 0.0  # seconds that chunks took
        self.by_terms = chunk_size is None and eager is None
        self.unmasked = eager is not None  # `whole` lacks the zeros of the structure

    @property
    def guards(self) -> bool:
        return not self.chunked

    @property
    def chunked(self) -> bool:
        return any(c < b.count for c, b in zip(self.chunks, self.blocks, strict=True))

    def only_step(self) -> PlanStep | None:
        step = (self.of_terms and self.of_terms.only_step()) or _made(self.whole)
        if step is None or step is not self.whole or not self.unmasked:
            return step
        if step.runner.tier not in {"compile", "evaluate"}:
            return step
        # to compile it took longer than a walk does
        return self.masked_whole() if len(self.variant.tape) <= WALKED else None

    def steps(self) -> list[PlanStep]:
        parts = [step for block in self.blocks for step in block.steps.values()]
        if self.of_terms is not None:
            parts += [step for step in self.of_terms.steps() if step is not self.only_step()]
        if self.of_all_seeds is not None and self.of_all_seeds.runner.tier:
            parts.append(self.of_all_seeds)
        return [*super().steps(), *parts]

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        if (step := self.step_of_terms(arrays)) is not None:
            return self.finish(run(step, arrays))
        if self.chunked and run is not replay:
            asked = not executes(run)
            if isinstance(run, Inspection):
                return self.finish(self.in_chunks(arrays, run))
            if self.auto and (at_once := self.at_once(arrays, asked=asked)) is not None:
                dense = cast("list[np.ndarray]", run(at_once, arrays))
                return self.finish(
                    self.zeroed(dense, arrays, run) if self.structured.long else dense
                )
            begin = perf_counter()
            dense = self.in_chunks(arrays, run)
            self.spent += perf_counter() - begin
            return self.finish(dense)
        step = self.whole or self._made_whole()
        if self.unmasked and not executes(run):
            step = self.masked_whole()
        blocks = cast("list[np.ndarray]", run(step, arrays))
        return self.finish(self.zeroed(blocks, arrays, run) if self.unmasked else blocks)

    def _made_whole(self) -> Step:
        """The step of all seeds at once; of a long function without zeros, which cost a walk."""
        with collector_paused(), deriving(self.variant.call):
            self.whole = self.variant.step(self.dense())
        self.unmasked = self.structured.long
        return self.whole

    def masked_whole(self) -> PlanStep:
        """The same with zeros: another one where there are any."""
        with collector_paused(), deriving(self.variant.call):
            if (tape := self.dense(walk=True)) != cast("PlanStep", self.whole).tape:
                self.whole = self.variant.step(tape)
        self.unmasked = False
        return cast("PlanStep", self.whole)

    def zeroed(self, blocks: list[np.ndarray], arrays: Arrays, run: Run) -> list[np.ndarray]:
        """The blocks with the zeros of their structure, if something beside them is not finite."""
        if all(type(block) is np.ndarray and bool(np.isfinite(block).all()) for block in blocks):
            return blocks
        return self.zeros.put(blocks, arrays, run)

    @cached_property
    def zeros(self) -> StructuralZeros:
        """What puts the zeros of the structure into blocks that have none."""
        symmetric = self.order > 1
        of_gradient = symmetric and self.variant.eager is not None
        variant = self.variant if of_gradient else without_eager_trace(self.variant)
        tape = gradient_tape(variant) if of_gradient else variant.tape
        make = late("operators.structural_zeros", "StructuralZeros")
        return make(tape, self.variant, self.types, symmetric=symmetric)

    @property
    def together(self) -> PlanStep:
        """All seeds at once, like chunks without a check of the guards."""
        if self.of_all_seeds is None:
            with collector_paused(), deriving(self.variant.call):
                self.of_all_seeds = PlanStep(self.dense(), device=self.variant.device)
        return self.of_all_seeds

    def at_once(self, arrays: Arrays, *, asked: bool) -> PlanStep | None:
        """The step of all seeds at once, where a kernel runs it within the budget.

        Whether to run in chunks is decided by the values that the interpreter would hold. A kernel
        holds few of them, and computes only once what does not depend on the seeds.
        """
        asked |= fixed_tier() == "compile"
        if not (asked or self.spent) or not all(map(_in_order, arrays)):
            return None
        runner = self.together.runner
        runner.account.asked |= asked
        runner.account.spent = max(runner.account.spent, self.spent)
        return self.together if runner.kernel_fits(BUDGET) else None

    @property
    def structured(self) -> StructuredSteps:
        """The steps that give the blocks from terms, one for each structure."""
        if self.of_terms is not None:
            return self.of_terms
        asked = late("operators.structured_steps", "Asked")(
            tuple(self.variant.wrt), self.mode, hessian=self.order > 1, types=tuple(self.types),
            dense=True, budget=BUDGET,
        )  # fmt: skip
        make = late("operators.structured_steps", "dense_steps")
        with collector_paused(), deriving(self.variant.call):
            self.of_terms = steps = make(self.variant, self.function, asked, gradient_tape)
        return steps

    def structure_of_terms(self, arrays: Arrays) -> SparseTape | None:
        """The structure of terms that holds for these inputs; None where sweeps do."""
        return self.structured.structure(arrays) if self.by_terms else None

    def step_of_terms(self, arrays: Arrays) -> PlanStep | None:
        """The step that gives the blocks from terms; None where sweeps do."""
        structure = self.structure_of_terms(arrays)
        return None if structure is None else self.structured.step(structure)

    def derived_at(self, arrays: Arrays) -> Sequence[str]:
        if self.step_of_terms(arrays) is None:
            self.programs()
        return ()

    def programs(self) -> list[tuple[Tape, int]]:
        """The tapes that a call runs where it takes no terms, and how often: for reports.

        Whether a kernel would run all seeds at once in place of chunks is decided by the calls.
        """
        if not self.chunked:
            step = _made(self.whole or self._made_whole())
            return [] if step is None else [(step.tape, 1)]
        steps: list[tuple[Tape, int]] = []
        for block, chunk in zip(self.blocks, self.chunks, strict=True):
            steps.append((block.step(chunk, self.variant.device).tape, -(-block.count // chunk)))
        return steps

    def dense(self, *, walk: bool = False) -> Tape:
        """Every block in one tape, in the order (output, input); zeros where there is none.

        Zeros of the structure of a long function are there if a `walk` is asked for.
        """
        tape, wrt = self.variant.tape, self.variant.wrt
        blocks = [b.whole() for b in self.blocks]
        places = [o * len(self.ins) + i for b in self.blocks for o, i in b.targets]
        whole = assembled(tape, blocks, places, self.types)
        if self.function.eager is None and (walk or not self.structured.long):
            whole = self.structured.with_zeros(whole)
        return derive(self.pipeline, whole, wrt=wrt, types=self.types)

    def in_chunks(self, arrays: Arrays, run: Run = execute) -> list[np.ndarray]:
        """Every block, `chunk` rows or columns at a time, by one tape: the last may overlap."""
        blocks = zeros_beside(arrays, self.types)
        columns, count = self.mode == "forward", sum(block.count for block in self.blocks)
        running = Stage("running", self.variant.call, total=count, category="")
        with running:
            for block, chunk in zip(self.blocks, self.chunks, strict=True):
                for begin in range(0, block.count, chunk):
                    lo = min(begin, block.count - chunk)
                    if (step := block.steps.get(chunk)) is None:
                        with collector_paused(), deriving(self.variant.call):
                            step = block.step(chunk, self.variant.device)
                    parts = run(step, [*arrays, np.int64(lo)])
                    for (o, i), part in zip(block.targets, parts, strict=True):
                        whole = blocks[o * len(self.ins) + i]
                        put_part(whole, cast("np.ndarray", part), lo, block.count, columns=columns)
                    running.advance(min(chunk, block.count - begin))
        return self.zeroed(blocks, arrays, run)


def _made(step: Step | None) -> PlanStep | None:
    return step if isinstance(step, PlanStep) else None


def _in_order(array: object) -> bool:
    return not isinstance(array, np.ndarray) or array.flags.c_contiguous


class HessianPlan(JacobianPlan):
    """The Jacobian of the gradient, forward over reverse, made exactly symmetric."""

    order = 2
    pipeline = HESSIAN

    def in_chunks(self, arrays: Arrays, run: Run = execute) -> list[np.ndarray]:
        blocks = super().in_chunks(arrays, run)
        if any(isinstance(block, DeviceArray) for block in blocks):
            return cast("list[np.ndarray]", run(self.symmetrised, blocks))
        return mirrored(blocks, [t.size for t in self.ins])

    @cached_property
    def symmetrised(self) -> PlanStep:
        """What makes blocks on a device exactly symmetric there."""
        builder = Builder()
        blocks = builder.finish([builder.input(t) for t in self.types])
        with collector_paused(), deriving(self.variant.call):
            return PlanStep(symmetric(blocks, self.ins), device=self.variant.device)


def jacobian_plan(variant: Variant, mode: str, chunk_size: int | None) -> JacobianPlan:
    """The plan of a Jacobian.

    Blocks have the dtype of the input, as in torch; of the output where `mode` is "forward". The
    mode that "auto" picks changes nothing of that: a dtype does not depend on sizes.
    """
    outs, ins = variant.tape.output_types, _input_types(variant)
    types = [block_type(o, i, mode) for o in outs for i in ins]
    picked = pick_mode(mode, variant.tape, variant.wrt)
    asked = DenseBlocks(picked, outs, ins, types, chunk_size, BUDGET)
    eager = None
    if variant.eager is not None:
        eager = EagerStep(partial(jacobian_values, variant, asked))
    return JacobianPlan(variant, asked, nested_jacobian(variant), eager)


def hessian_plan(variant: Variant, mode: str, chunk_size: int | None) -> HessianPlan:
    """The plan of a Hessian: the Jacobian of the gradient, or of the Jacobian of several outputs.

    The one of several outputs is never taken from terms, and of an eager trace its tape is taken.
    """
    ins = _input_types(variant)
    if gives_one_element(variant):
        types = [block_type(a, b, mode) for a in ins for b in ins]
        asked = DenseBlocks("forward", ins, ins, types, chunk_size, BUDGET)
        finish = nested_hessian(variant)
        if variant.eager is not None:
            eager = EagerStep(partial(_eager_hessian, variant, asked))
            return HessianPlan(variant, asked, finish, eager)
        slopes = replace(variant, tape=gradient_tape(variant))
        return HessianPlan(slopes, asked, finish, None, variant)
    slopes = replace(variant, tape=gradient_tape(variant), eager=None)
    outs = slopes.tape.output_types
    types = [block_type(a, b, mode) for a in outs for b in ins]
    asked = DenseBlocks("forward", outs, ins, types, chunk_size, BUDGET)
    plan = HessianPlan(slopes, asked, nested_hessians(variant), None, variant)
    plan.by_terms = False
    return plan


def _eager_hessian(variant: Variant, asked: DenseBlocks, arrays: Arrays) -> list[np.ndarray]:
    rows = hessian_values(variant, asked, arrays)
    return mirrored(rows, [t.size for t in asked.ins])


def gives_one_element(variant: Variant) -> bool:
    """Whether the function returns one array with one element, and no structure."""
    return variant.out_spec.kind is None and variant.tape.output_types[0].size == 1


def without_eager_trace(variant: Variant) -> Variant:
    """The variant with an ordinary tape, where it was traced eagerly."""
    if variant.eager is None:
        return variant
    tape = to_ordinary_tape(variant.eager, variant.tape.outputs)
    return replace(variant, tape=tape, eager=None)


def gradient_tape(variant: Variant) -> Tape:
    """The tape of the gradient alone; of several outputs, of their Jacobian."""
    variant = without_eager_trace(variant)
    count, wrt = len(variant.tape.outputs), variant.wrt
    if gives_one_element(variant):
        return derive(GRADIENT, variant.tape, wrt=wrt, keep=range(count, count + len(wrt)))
    rows = jacobian_plan(variant, "auto", None)
    structure = rows.structure_of_terms([None] * len(variant.tape.inputs))
    return rows.dense(walk=True) if structure is None else structure.tape


def _input_types(variant: Variant) -> tuple[ArrayType, ...]:
    """Types of the differentiated inputs."""
    return tuple(variant.tape.input_types[k] for k in variant.wrt)

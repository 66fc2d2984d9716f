"""Dense Jacobians and Hessians: every column (or row) at once, or in chunks under a byte budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import cast

import numpy as np

from ..arraytype import ArrayType
from ..attributes import cached_property
from ..dispatch.plans import (
    Arrays,
    EagerStep,
    OperatorPlan,
    PlanStep,
    Run,
    Step,
    execute,
    execute_unchecked,
    replay,
)
from ..dispatch.program import building
from ..dispatch.tiered_execution import fixed_tier
from ..dispatch.variant import Variant
from ..tape import Tape
from ..transforms.derivative_tapes import assembled
from ..transforms.pipeline import (
    COLUMNS,
    COTANGENTS,
    GRADIENT,
    HESSIAN,
    JACOBIAN,
    ROWS,
    SPARSE_HESSIAN,
    SPARSE_JACOBIAN,
    TANGENTS,
    Request,
    attempt,
    derive,
)
from ..tree import unflatten
from .eager_results import DenseBlocks, hessian_values, jacobian_values
from .invocation import deliver

BUDGET = 256 * 2**20  # bytes of intermediate values that one pass of a dense derivative may hold
Finish = Callable[[Sequence[object]], object]


def pick_mode(mode: str, tape: Tape, wrt: Sequence[int]) -> str:
    """Forward where there are no more inputs than outputs, else reverse."""
    if mode != "auto":
        return mode
    rows = sum(t.size for t in tape.output_types if t.floating)
    columns = sum(tape.input_types[k].size for k in wrt)
    return "forward" if columns <= rows else "reverse"


def seed_bytes(derived: Tape) -> int:
    """Bytes of all values that depend on the last input: what one more seed costs."""
    marked = {derived.inputs[-1]}
    total = 0
    for i, node in enumerate(derived.nodes):
        if i in marked or any(a in marked for a in node.args):
            marked.add(i)
            total += sum(t.nbytes for t in node.types)
    return max(total, 1)


class Block:
    """Part of a Jacobian that one seeded derivative gives: `count` columns or rows.

    ``build(size, chunked)`` makes the tape; each of its outputs belongs to the entry of `targets`
    at the same position, a block ``(rows, columns)`` of the Jacobian.
    """

    def __init__(
        self,
        build: Callable[[int, bool], Tape],
        count: int,
        per_seed: int,
        targets: Sequence[tuple[int, int]],
    ) -> None:
        self.build = build
        self.count = count
        self.per_seed = per_seed
        self.targets = targets
        self.steps: dict[int, PlanStep] = {}

    def chunk(self, chunk_size: int | None) -> int:
        """How many seeds are run at a time; as many as the budget allows where not told."""
        wanted = BUDGET // self.per_seed if chunk_size is None else chunk_size
        return max(1, min(self.count, wanted))

    def step(self, size: int) -> PlanStep:
        if size not in self.steps:
            self.steps[size] = PlanStep(self.build(size, True))
        return self.steps[size]


class JacobianPlan(OperatorPlan):
    """All blocks of a Jacobian in one step, or block by block in chunks where memory asks for it.

    With an `eager` step, that step gives them.
    """

    pipeline, sparse_pipeline = JACOBIAN, SPARSE_JACOBIAN

    def __init__(
        self, variant: Variant, asked: DenseBlocks, finish: Finish, eager: EagerStep | None
    ) -> None:
        self.variant = variant
        self.finish = finish
        self.mode, self.outs, self.ins, self.types, chunk_size, _ = asked
        self.whole: Step | None = eager
        self.blocks: list[Block] = []
        if eager is None:
            split = _forward if self.mode == "forward" else _reverse
            self.blocks = split(variant.tape, variant.wrt)
        self.chunks = [b.chunk(chunk_size) for b in self.blocks]
        self.auto = chunk_size is None
        self.spent = 0.0  # seconds that chunks took
        self.sparse = chunk_size is None and self.mode == "forward" and eager is None

    @property
    def guards(self) -> bool:
        return self.compressed is not None or not self.chunked

    @property
    def chunked(self) -> bool:
        return any(c < b.count for c, b in zip(self.chunks, self.blocks, strict=True))

    def only_step(self) -> PlanStep | None:
        return self.__dict__.get("compressed") or _made(self.whole)

    def steps(self) -> list[PlanStep]:
        parts = [step for block in self.blocks for step in block.steps.values()]
        together = self.__dict__.get("together")
        if together is not None and together.runner.tier:
            parts.append(together)
        return [*super().steps(), *parts]

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        if run is not replay and (few := self.compressed) is not None:
            return self.finish(run(few, arrays))
        if self.chunked and run is not replay:
            asked = run not in (execute, execute_unchecked)
            if self.auto and (at_once := self.at_once(arrays, asked=asked)) is not None:
                return self.finish(run(at_once, arrays))
            begin = perf_counter()
            found = self.in_chunks(arrays)
            self.spent += perf_counter() - begin
            return self.finish(found)
        if self.whole is None:
            with building(self.variant.call):
                self.whole = self.variant.step(self.dense())
        return self.finish(run(self.whole, arrays))

    @cached_property
    def together(self) -> PlanStep:
        """All seeds at once; its steps decide nothing, as those of chunks."""
        with building(self.variant.call):
            return PlanStep(self.dense())

    def at_once(self, arrays: Arrays, *, asked: bool) -> PlanStep | None:
        """All seeds at once, where a kernel does it within the budget.

        What decides about chunks are the values that the interpreter would hold. A kernel holds
        few of them, and what does not depend on the seeds it computes once.
        """
        asked |= fixed_tier() == "compile"
        if not (asked or self.spent) or not all(map(_in_order, arrays)):
            return None
        runner = self.together.runner
        runner.asked |= asked
        runner.spent = max(runner.spent, self.spent)
        return self.together if runner.fits(BUDGET) else None

    @cached_property
    def compressed(self) -> PlanStep | None:
        """The way of few sweeps, where the Jacobian is made of blocks or its pattern is sparse."""
        if not self.sparse or len(self.types) != 1:
            return None
        source, wrt = self.variant.tape, self.variant.wrt
        request = Request(source, wrt, types=self.types, budget=BUDGET, symmetric=self.order > 1)
        with building(self.variant.call):
            tape = attempt(self.sparse_pipeline, source, request)
        return None if tape is None else self.variant.step(tape)

    def dense(self) -> Tape:
        """Every block in one tape, in the order (output, input); zeros where there is none."""
        tape, wrt = self.variant.tape, self.variant.wrt
        blocks = [b.build(b.count, False) for b in self.blocks]
        places = [o * len(self.ins) + i for b in self.blocks for o, i in b.targets]
        whole = assembled(tape, blocks, places, self.types)
        return derive(self.pipeline, whole, wrt=wrt, types=self.types)

    def in_chunks(self, arrays: Arrays) -> list[np.ndarray]:
        """Every block, `chunk` rows or columns at a time."""
        found = [np.zeros(t.shape, t.dtype) for t in self.types]
        for block, chunk in zip(self.blocks, self.chunks, strict=True):
            for lo in range(0, block.count, chunk):
                size = min(chunk, block.count - lo)
                if (step := block.steps.get(size)) is None:
                    with building(self.variant.call):
                        step = block.step(size)
                parts = execute(step, [*arrays, np.int64(lo)])
                for (o, i), part in zip(block.targets, parts, strict=True):
                    self._put(
                        found[o * len(self.ins) + i], cast("np.ndarray", part), lo, size, block
                    )
        return found

    def _put(self, whole: np.ndarray, part: np.ndarray, lo: int, size: int, block: Block) -> None:
        if not whole.size:
            return
        if self.mode == "forward":
            whole.reshape((-1, block.count))[:, lo : lo + size] = np.reshape(part, (-1, size))
        else:
            whole.reshape((block.count, -1))[lo : lo + size] = np.reshape(part, (size, -1))


def _made(step: Step | None) -> PlanStep | None:
    return step if isinstance(step, PlanStep) else None


def _in_order(array: object) -> bool:
    return not isinstance(array, np.ndarray) or array.flags.c_contiguous


def block_type(out: ArrayType, inn: ArrayType, mode: str) -> ArrayType:
    """Type of a Jacobian block; complex where the output or the input is."""
    dtype = out.dtype if mode == "forward" and out.floating else inn.dtype
    if "c" in (out.dtype.kind, inn.dtype.kind):
        dtype = np.result_type(dtype, np.complex64)
    return ArrayType((*out.shape, *inn.shape), dtype)


def _forward(tape: Tape, wrt: Sequence[int]) -> list[Block]:
    """Columns, one block for each input; outputs that are integers are left out: they are zero."""
    keep = [o for o, t in enumerate(tape.output_types) if t.floating]
    return [
        Block(
            partial(_columns, tape, k, keep),
            tape.input_types[k].size,
            seed_bytes(derive(TANGENTS, tape, wrt=(k,))),
            [(o, i) for o in keep],
        )
        for i, k in enumerate(wrt)
        if keep
    ]


def _columns(tape: Tape, k: int, keep: Sequence[int], size: int, chunked: bool) -> Tape:  # noqa: FBT001 - by Block
    return derive(COLUMNS, tape, wrt=(k,), of=keep, size=size, chunked=chunked)


def _reverse(tape: Tape, wrt: Sequence[int]) -> list[Block]:
    """Rows, one block for each output that is floating."""
    return [
        Block(
            partial(_rows, tape, wrt, o),
            type_.size,
            seed_bytes(derive(COTANGENTS, tape, wrt=wrt, of=(o,))),
            [(o, i) for i in range(len(wrt))],
        )
        for o, type_ in enumerate(tape.output_types)
        if type_.floating
    ]


def _rows(tape: Tape, wrt: Sequence[int], o: int, size: int, chunked: bool) -> Tape:  # noqa: FBT001 - by Block
    return derive(ROWS, tape, wrt=wrt, of=(o,), size=size, chunked=chunked)


class HessianPlan(JacobianPlan):
    """The Jacobian of the gradient, forward over reverse, made exactly symmetric."""

    order = 2
    pipeline, sparse_pipeline = HESSIAN, SPARSE_HESSIAN

    def in_chunks(self, arrays: Arrays) -> list[np.ndarray]:
        return mirrored(super().in_chunks(arrays), [t.size for t in self.ins])


def mirrored(rows: list[np.ndarray], sizes: Sequence[int]) -> list[np.ndarray]:
    """Blocks of a Hessian made exactly symmetric, in place."""
    n = len(sizes)
    for i in range(n):
        for j in range(i, n):
            upper = rows[i * n + j].reshape((sizes[i], sizes[j]))
            if i == j:
                _make_symmetric(upper)
            else:
                rows[j * n + i].reshape((sizes[j], sizes[i]))[...] = upper.T
    return rows


def _make_symmetric(square: np.ndarray, stripe: int = 256) -> None:
    """Replace a matrix by the mean of itself and its transpose, in place, stripe by stripe."""
    for lo in range(0, len(square), stripe):
        part = slice(lo, lo + stripe)
        mean = 0.5 * (square[part, lo:] + square[lo:, part].T)
        square[part, lo:] = mean
        square[lo:, part] = mean.T


def nested(variant: Variant) -> Callable[[Sequence[object]], object]:
    """Blocks in the structure of the outputs, each in the structure of the inputs."""
    columns = len(variant.wrt)
    rows = len(variant.tape.outputs)

    def finish(blocks: Sequence[object]) -> object:
        if rows == columns == 1 and variant.out_spec.kind is None and variant.in_spec.kind is None:
            return deliver(blocks[0], variant.scalars[0] and variant.input_scalars[variant.wrt[0]])
        made = []
        for o in range(rows):
            row = [
                deliver(blocks[o * columns + i], variant.scalars[o] and variant.input_scalars[k])
                for i, k in enumerate(variant.wrt)
            ]
            made.append(unflatten(variant.in_spec, row))
        return unflatten(variant.out_spec, made)

    return finish


def nested_square(variant: Variant) -> Callable[[Sequence[object]], object]:
    """Hessian blocks in the structure of the inputs, twice."""
    n = len(variant.wrt)

    def finish(blocks: Sequence[object]) -> object:
        if n == 1 and variant.in_spec.kind is None:
            return deliver(blocks[0], variant.input_scalars[variant.wrt[0]])
        rows = []
        for i, k in enumerate(variant.wrt):
            row = [
                deliver(blocks[i * n + j], variant.input_scalars[k] and variant.input_scalars[m])
                for j, m in enumerate(variant.wrt)
            ]
            rows.append(unflatten(variant.in_spec, row))
        return unflatten(variant.in_spec, rows)

    return finish


def jacobian_plan(variant: Variant, mode: str, chunk_size: int | None) -> JacobianPlan:
    """The plan of a Jacobian.

    Blocks have the dtype of the input, as in torch; of the output where `mode` is "forward". The
    mode that "auto" picks changes nothing of that: a dtype does not depend on sizes.
    """
    outs, ins = variant.tape.output_types, _input_types(variant)
    types = [block_type(o, i, mode) for o in outs for i in ins]
    picked = pick_mode(mode, variant.tape, variant.wrt)
    asked = DenseBlocks(picked, outs, ins, types, chunk_size, BUDGET)
    eager = EagerStep(partial(jacobian_values, variant, asked)) if variant.eager else None
    return JacobianPlan(variant, asked, nested(variant), eager)


def hessian_plan(variant: Variant, mode: str, chunk_size: int | None) -> HessianPlan:
    """The plan of a Hessian, which is the Jacobian of the gradient."""
    ins = _input_types(variant)
    asked = DenseBlocks(
        "forward", ins, ins, [block_type(a, b, mode) for a in ins for b in ins], chunk_size, BUDGET
    )
    finish = nested_square(variant)
    if variant.eager is not None:
        eager = EagerStep(partial(_eager_hessian, variant, asked))
        return HessianPlan(variant, asked, finish, eager)
    return HessianPlan(replace(variant, tape=gradient_tape(variant)), asked, finish, None)


def _eager_hessian(variant: Variant, asked: DenseBlocks, given: Arrays) -> list[np.ndarray]:
    return mirrored(hessian_values(variant, asked, given), [t.size for t in asked.ins])


def gradient_tape(variant: Variant) -> Tape:
    """The tape of the gradient alone."""
    count, wrt = len(variant.tape.outputs), variant.wrt
    return derive(GRADIENT, variant.tape, wrt=wrt, keep=range(count, count + len(wrt)))


def _input_types(variant: Variant) -> tuple[ArrayType, ...]:
    """Types of the differentiated inputs."""
    return tuple(variant.tape.input_types[k] for k in variant.wrt)

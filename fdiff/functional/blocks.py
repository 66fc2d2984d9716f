"""Dense Jacobians and Hessians: every column (or row) at once, or in chunks under a byte budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..arraytype import ArrayType
from ..program import Variant
from ..tape import Tape
from ..trace import Trace
from ..transforms.forward import jvp
from ..transforms.rearrange import choose, forward_blocks, gradient, merge, reverse_blocks, symmetric
from ..transforms.reverse import vjp
from ..tree import unflatten
from .calls import Plan, Run, Step, deliver, execute

BUDGET = 256 * 2**20  # bytes of intermediate values that one pass of a dense derivative may hold


def pick_mode(mode: str, tape: Tape, wrt: Sequence[int]) -> str:
    """Forward where there are no more inputs than outputs, else reverse."""
    if mode != "auto":
        return mode
    rows = sum(t.size for t in tape.output_types if t.floating)
    columns = sum(tape.input_types[k].size for k in wrt)
    return "forward" if columns <= rows else "reverse"


def seed_bytes(derived: Tape, seeds: int) -> int:
    """Bytes of all values that depend on the last `seeds` inputs: what one more seed costs."""
    marked = set(derived.inputs[len(derived.inputs) - seeds :])
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

    def __init__(self, build: Callable[[int, bool], Tape], count: int, per_seed: int, targets: Sequence[tuple[int, int]]) -> None:
        self.build = build
        self.count = count
        self.per_seed = per_seed
        self.targets = targets
        self.steps: dict[int, Step] = {}

    def chunk(self, chunk_size: int | str) -> int:
        if chunk_size == "auto":
            return max(1, min(self.count, BUDGET // self.per_seed))
        return max(1, min(self.count, int(chunk_size)))

    def step(self, size: int) -> Step:
        if size not in self.steps:
            self.steps[size] = Step(self.build(size, True))
        return self.steps[size]


class JacobianPlan(Plan):
    """All blocks of a Jacobian in one step, or block by block in chunks where memory asks for it."""

    def __init__(self, variant: Variant, mode: str, chunk_size: int | str, finish: Callable[[Sequence[object]], object]) -> None:
        tape, wrt = variant.tape, variant.wrt
        self.variant = variant
        self.finish = finish
        self.mode = pick_mode(mode, tape, wrt)
        self.outs = tape.output_types
        self.ins = tuple(tape.input_types[k] for k in wrt)
        self.blocks = _forward(tape, wrt) if self.mode == "forward" else _reverse(tape, wrt)
        self.chunks = [b.chunk(chunk_size) for b in self.blocks]
        self.whole: Step | None = None

    @property
    def chunked(self) -> bool:
        return any(c < b.count for c, b in zip(self.chunks, self.blocks, strict=True))

    def call(self, arrays: list[object], vectors: Sequence[object], run: Run) -> object:
        if self.chunked and run is execute:
            return self.finish(self._in_chunks(arrays))
        if self.whole is None:
            self.whole = Step(self._merged())
        return self.finish(run(self.whole, arrays))

    def _merged(self) -> Tape:
        """Every block in one tape, in the order (output, input); zeros where there is none."""
        tapes = [b.build(b.count, False) for b in self.blocks]
        place = {t: k for k, t in enumerate(t for b in self.blocks for t in b.targets)}
        zeros = [(o, i) for o in range(len(self.outs)) for i in range(len(self.ins)) if (o, i) not in place]
        if zeros:
            tapes.append(zero_tape(self.variant.tape, [block_type(self.outs[o], self.ins[i]) for o, i in zeros]))
            place |= {t: len(place) + k for k, t in enumerate(zeros)}
        merged = merge(tapes) if tapes else choose(self.variant.tape, ())
        return choose(merged, [place[o, i] for o in range(len(self.outs)) for i in range(len(self.ins))])

    def _in_chunks(self, arrays: list[object]) -> list[object]:
        types = [block_type(o, i) for o in self.outs for i in self.ins]
        results = [np.zeros(t.shape, t.dtype) for t in types]
        for block, chunk in zip(self.blocks, self.chunks, strict=True):
            for lo in range(0, block.count, chunk):
                size = min(chunk, block.count - lo)
                parts = block.step(size)([*arrays, np.int64(lo)])
                for (o, i), part in zip(block.targets, parts, strict=True):
                    whole = results[o * len(self.ins) + i]
                    if self.mode == "forward":
                        whole.reshape((-1, block.count))[:, lo : lo + size] = np.reshape(part, (-1, size))  # type: ignore[call-overload]
                    else:
                        whole.reshape((block.count, -1))[lo : lo + size] = np.reshape(part, (size, -1))  # type: ignore[call-overload]
        return results  # type: ignore[return-value]


def block_type(out: ArrayType, inn: ArrayType) -> ArrayType:
    """Type of a Jacobian block; the dtype of the output, or of the input where that is not floating."""
    return ArrayType((*out.shape, *inn.shape), out.dtype if out.floating else inn.dtype)


def zero_tape(tape: Tape, types: Sequence[ArrayType]) -> Tape:
    """Tape with the inputs of `tape` and outputs that are zero."""
    with Trace("zeros", lines=False) as trace:
        for t in tape.input_types:
            trace.input(t)
        return trace.builder.finish([trace.lift(np.zeros(t.shape, t.dtype)) for t in types])


def _forward(tape: Tape, wrt: Sequence[int]) -> list[Block]:
    outs = range(len(tape.outputs))
    blocks = []
    for i, k in enumerate(wrt):
        pushed = jvp(tape, (k,))
        build = lambda size, chunked, k=k: forward_blocks(tape, k, size, chunked=chunked)  # noqa: E731
        count = tape.input_types[k].size
        blocks.append(Block(build, count, seed_bytes(pushed, 1), [(o, i) for o in outs]))
    return [_only_floating(b, tape) for b in blocks]


def _only_floating(block: Block, tape: Tape) -> Block:
    """Leave out outputs that are integers: their block is zero."""
    keep = [n for n, (o, _) in enumerate(block.targets) if tape.output_types[o].floating]
    if len(keep) == len(block.targets):
        return block
    build = block.build
    targets = [block.targets[n] for n in keep]
    return Block(lambda size, chunked: choose(build(size, chunked), keep), block.count, block.per_seed, targets)


def _reverse(tape: Tape, wrt: Sequence[int]) -> list[Block]:
    blocks = []
    for o, type_ in enumerate(tape.output_types):
        if type_.floating:
            pulled = vjp(tape, wrt, of=(o,))
            build = lambda size, chunked, o=o: reverse_blocks(tape, wrt, o, size, chunked=chunked)  # noqa: E731
            blocks.append(Block(build, type_.size, seed_bytes(pulled, 1), [(o, i) for i in range(len(wrt))]))
    return blocks


class HessianPlan(JacobianPlan):
    """The Jacobian of the gradient, forward over reverse, made exactly symmetric."""

    def __init__(self, variant: Variant, chunk_size: int | str, finish: Callable[[Sequence[object]], object]) -> None:
        full = gradient(variant.tape, variant.wrt)
        slope = choose(full, range(len(variant.tape.outputs), len(full.outputs)))
        inner = replace(variant, tape=slope)
        super().__init__(inner, "forward", chunk_size, finish)

    def _merged(self) -> Tape:
        return symmetric(super()._merged(), self.ins)

    def _in_chunks(self, arrays: list[object]) -> list[object]:
        rows = super()._in_chunks(arrays)
        n = len(self.ins)
        for i in range(n):
            for j in range(i, n):
                upper = rows[i * n + j].reshape((self.ins[i].size, self.ins[j].size))  # type: ignore[attr-defined]
                if i == j:
                    upper[...] = 0.5 * (upper + upper.T)
                else:
                    lower = rows[j * n + i]
                    lower.reshape((self.ins[j].size, self.ins[i].size))[...] = upper.T  # type: ignore[attr-defined]
        return rows


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



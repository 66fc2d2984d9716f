"""Dense Jacobians and Hessians of one call, where a function takes another way each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arraytype import ArrayType
from ..dispatch.variant import Variant
from ..transforms.eager.eager_derivatives import enter_gradient, pull_values, push_values
from .dense_blocks import BUDGET, Finish, JacobianPlan, block_type, mirrored, nested, pick_mode
from .invocation import Arrays, Plan, Run
from .plans import Eagerly, settled

Rows = Callable[[np.ndarray], list[Any]]  # seeds with a leading axis to derivatives with one


class EagerJacobianPlan(Eagerly):
    """All blocks of a Jacobian from batched sweeps through the nodes of an eager trace."""

    def __init__(self, variant: Variant, mode: str, chunk_size: int | None, finish: Finish) -> None:
        tape = variant.tape
        self.variant = variant
        self.finish = finish
        self.mode = pick_mode(mode, tape, variant.wrt)
        self.outs = tape.output_types
        self.ins = tuple(tape.input_types[k] for k in variant.wrt)
        self.types = [block_type(o, i, mode) for o in self.outs for i in self.ins]
        self.chunk_size = chunk_size

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        return self.finish(self.blocks())

    def blocks(self) -> list[np.ndarray]:
        """Every block, in the order (output, input)."""
        return self.columns() if self.mode == "forward" else self.rows()

    def columns(self) -> list[np.ndarray]:
        return self.pushed(list(self.variant.tape.outputs), self.outs)

    def pushed(self, outs: list[int | None], types: Sequence[ArrayType]) -> list[np.ndarray]:
        """The Jacobian of the nodes `outs`, column by column."""
        found: list[list[np.ndarray]] = []
        for node, inn in zip(self.inputs, self.ins, strict=True):

            def push(seeds: np.ndarray, node: int = node) -> list[Any]:
                return push_values(self.trace, {node: seeds}, outs, len(seeds))

            columns = self._seeded(inn, push, types)
            found.append([np.moveaxis(c, 0, -1).reshape(t.shape + inn.shape) for c, t in columns])
        return [
            np.ascontiguousarray(found[i][o], self.types[o * len(self.ins) + i].dtype)
            for o in range(len(types))
            for i in range(len(self.ins))
        ]

    def rows(self) -> list[np.ndarray]:
        blocks: list[np.ndarray] = []
        for o, out in enumerate(self.outs):
            kinds = self.types[o * len(self.ins) : (o + 1) * len(self.ins)]
            if not out.floating:
                blocks += [np.zeros(t.shape, t.dtype) for t in kinds]
                continue

            def pull(seeds: np.ndarray, node: int = self.node(o)) -> list[Any]:
                return pull_values(self.trace, {node: seeds}, self.inputs, len(seeds))

            rows = self._seeded(out, pull, self.ins)
            blocks += [
                np.asarray(r, t.dtype).reshape(t.shape)
                for (r, _), t in zip(rows, kinds, strict=True)
            ]
        return blocks

    def _seeded(
        self, seed: ArrayType, derive: Rows, types: Sequence[ArrayType]
    ) -> list[tuple[np.ndarray, ArrayType]]:
        """Derivatives along every unit seed, as many at a time as the memory budget allows."""
        wanted = self.chunk_size or max(1, BUDGET // self._bytes())
        whole = [np.zeros((seed.size, *t.shape), t.dtype) for t in types]
        for lo in range(0, seed.size, wanted):
            size = min(wanted, seed.size - lo)
            seeds = np.eye(size, seed.size, lo, dtype=seed.dtype).reshape((size, *seed.shape))
            kinds = [ArrayType((size, *t.shape), t.dtype) for t in types]
            for place, part in zip(whole, settled(derive(seeds), kinds), strict=True):
                place[lo : lo + size] = part
        return list(zip(whole, types, strict=True))

    def _bytes(self) -> int:
        """Bytes of all nodes that move: what one more seed costs."""
        builder = self.trace.builder
        moving = zip(builder.nodes, builder.moves, strict=True)
        return max(sum(sum(t.nbytes for t in node.types) for node, on in moving if on), 1)


class EagerHessianPlan(EagerJacobianPlan):
    """The Jacobian of the gradient, whose nodes are entered in the trace; exactly symmetric."""

    order = 2

    def __init__(self, variant: Variant, mode: str, chunk_size: int | None, finish: Finish) -> None:
        super().__init__(variant, mode, chunk_size, finish)
        self.types = [block_type(a, b, mode) for a in self.ins for b in self.ins]

    def blocks(self) -> list[np.ndarray]:
        slopes = enter_gradient(self.trace, self.node(0), self.inputs)
        return mirrored(self.pushed(slopes, self.ins), [t.size for t in self.ins])


def jacobian_plan(variant: Variant, mode: str, chunk_size: int | None) -> Plan:
    """The plan of a Jacobian, for many calls or for one."""
    made = EagerJacobianPlan if variant.eagerly else JacobianPlan
    return made(variant, mode, chunk_size, nested(variant))

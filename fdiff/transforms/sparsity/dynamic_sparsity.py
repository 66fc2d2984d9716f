"""Columns of a Jacobian, from tangents that each node carries only for the seeds that reach it.

In a model of a hand, the bones of a finger move with the angles of that finger alone: their
tangents are zero for all other seeds, and these zeros are neither computed nor stored. The tape of
tangents is batched over unit seeds. Of these it is known which input entry each belongs to, so that
a slice of the input is reached by the seeds of its own entries, and each node computed from it by
these and no others. A node has its tangents in parts (`sparse_tangents.py`): a part is an array of
tangents and the seeds it belongs to. (Dynamic sparsity: A. Griewank and A. Walther, Evaluating
Derivatives, 2nd ed., SIAM 2008, chapter 7, Sparse Forward and Reverse.)
"""

from __future__ import annotations

from typing import Any

import fdiff.intact_numpy as np

from ...ops.contraction import contract
from ...ops.tangent_parts import TangentPart, full, seeds_of
from ...ops.view_ops import reshape, slice_, spread
from ...tape import ITEM, Node, Tape
from ...trace import TracedArray
from ..batch import widened
from ..derivative_tapes import seeds_behind
from ..simplify import SimplifyingTrace
from .tangent_state import SparseTangents, Unit

WORTH = 0.6  # the largest part of the work for all seeds at which the shorter work still pays
LONGER = 1.5  # how many times as long as the tape of one tangent that of the columns may be
SURE = 0.9  # and that of the first `TRIED` nodes after which the rest is not looked at
TRIED = 256
MOST = 1 << 20  # nodes times seeds: beyond, keeping account of the seeds would take seconds


def read_in_slices(tape: Tape, k: int) -> Tape | None:
    """The tape, if its real input `k` is read in slices alone and the tape is short enough."""
    source, type_ = tape.inputs[k], tape.input_types[k]
    several = type_.size > 1 and type_.size * len(tape) <= MOST
    readers = {node.primitive for node in tape.nodes if source in node.args}
    sliced = readers == {slice_} and source not in tape.outputs
    return tape if type_.dtype.kind == "f" and several and sliced else None


def reached_columns(pushed: Tape, tape: Tape, k: int) -> Tape | None:
    """Columns of the Jacobian for input `k` of `tape`, from the tape of its tangents.

    Each block has the shape of the output, then of the input. None where most seeds reach most
    nodes.
    """
    with SimplifyingTrace("jacobian") as trace:
        sweep = SparseSweep(pushed, trace, tape.input_types[k])
        sweep.run()
        if sweep.full or sweep.carried > WORTH * sweep.all:
            return None
        found = trace.builder.finish([sweep.column(o) for o in pushed.outputs])
    return found if len(found) <= LONGER * len(pushed) else None


class SparseSweep(SparseTangents):
    """The nodes of a tape of tangents, walked forwards."""

    def run(self) -> None:
        """Enter each node, or the parts of its tangents, while some of the seeds reach few."""
        for i, node, line in self.tape.operations():
            if self.full:
                break
            self.line = self.trace.line = line
            if node.primitive is ITEM and node.args[0] in self.items:
                self.parts[i] = self.items[node.args[0]][node.k]
            elif not any(self.moves(a) for a in node.args):
                ids = tuple([self.values[a] for a in node.args])
                self.values[i] = self.builder.add(
                    node.primitive, ids, node.params, self.line, node.types
                )
            elif not self._unit(i, node):
                self._carry(i, node)

    @property
    def full(self) -> bool:
        """Whether nearly all seeds reach nearly all of the nodes that were tried."""
        return self.counted > TRIED and self.carried > max(SURE, WORTH) * self.all

    # --- one node -----------------------------------------------------------------------------

    def _unit(self, i: int, node: Node) -> bool:
        """Whether what a node reads of unit seeds are unit seeds again."""
        unit = self.units.get(node.args[0]) if len(node.args) == 1 else None
        if unit is None or node.primitive not in (slice_, reshape):
            return False
        numbers = np.arange(len(unit.seeds)).reshape(unit.shape)
        picked: Any = node.primitive.evaluate(numbers, **dict(node.params))
        order = picked.ravel().tolist()
        if order != sorted(order) or not order:
            return False
        self.units[i] = Unit(tuple([unit.seeds[k] for k in order]), node.type.shape)
        return True

    def _carry(self, i: int, node: Node) -> None:
        """The parts of what a node computes, by the rule of its op or all of them as one."""
        rule = node.primitive.sparse_tangents
        found = rule(self, node) if rule is not None and node.type.size else None
        if found is not None:
            self.parts[i] = found
        elif len(node.types) == 1:
            self.parts[i] = self._as_one(node)[0]
        else:
            self.items[i] = self._as_one(node)
        if found is None or not (node.primitive.view or node.primitive is contract):
            self.count(sum(part.volume for part in self.parts.get(i, ())), node.type.size)

    def _as_one(self, node: Node) -> list[list[TangentPart]]:
        """One part for each output, of all seeds that reach an operand."""
        moving = [self.moves(a) for a in node.args]
        there = [p for a, m in zip(node.args, moving, strict=True) if m for p in self.parts_of(a)]
        seeds = seeds_of(there)
        if not seeds:
            return [[] for _ in node.types]
        ids = [
            self.whole(a, seeds).node if m else self.values[a]
            for a, m in zip(node.args, moving, strict=True)
        ]
        if len(seeds) > 1:
            on = tuple([int(m) for m in moving])
            outs = widened(self.trace, node, ids, on, len(seeds), self.line)
        else:
            made = self.trace.builder.add(
                node.primitive, tuple(ids), node.params, self.line, node.types
            )
            outs = self.builder.results(made)
        return [
            [TangentPart(out, seeds, full(t.shape))]
            for out, t in zip(outs, node.types, strict=True)
        ]

    def column(self, o: int) -> int:
        """The tangents of an output for all seeds, whose axes come last."""
        shape, size = self.type(o).shape, self.source.size
        if self.moves(o):
            node = self.emit.with_seed_axis(self.whole(o, tuple(range(size))))
        else:
            node = self.emit.add(spread, (self.values[o],), shape=(size, *shape))
        x = TracedArray(self.trace, node, self.builder.type(node))
        return self.trace.lift(seeds_behind(x, (*shape, *self.source.shape)))

"""The tangents of the nodes of a tape as parts: what rules of sparse tangents read and enter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, Shape
from ...ops.tangent_parts import Seeds, TangentPart, full, leading_axis
from ...ops.view_ops import reshape, spread
from ...tape import Node, Tape
from ...user_lines import Line
from ..batch import widened
from ..derivative_tapes import unit_seeds
from ..simplify import SimplifyingTrace
from .sparse_tangents import TangentParts


class Unit(NamedTuple):
    """Seeds of an identity: entry `k`, in C order, of an array of `shape` moves with seed `k`."""

    seeds: Seeds
    shape: Shape


class SparseTangents:
    """The nodes of a tape of tangents in a trace; the parts of those that the seeds reach.

    `carried` counts the entries of the parts that ops compute, for products the factors they are
    made of; `all` those of all seeds; `counted` the ops.
    """

    def __init__(self, tape: Tape, trace: SimplifyingTrace, source: ArrayType) -> None:
        self.tape, self.trace, self.source = tape, trace, source
        self.emit = TangentParts(trace)
        self.builder = trace.builder
        self.values = [-1] * len(tape.nodes)
        self.units: dict[int, Unit] = {}
        self.parts: dict[int, list[TangentPart]] = {}
        self.items: dict[int, list[list[TangentPart]]] = {}
        self.line: Line | None = None
        self.carried = self.all = self.counted = 0
        for i in tape.inputs[:-1]:
            self.values[i] = self.builder.input(tape.nodes[i].type)
        self.units[tape.inputs[-1]] = Unit(tuple(range(source.size)), source.shape)

    def moves(self, i: int) -> bool:
        """Whether any seed may reach a node."""
        return i in self.parts or i in self.units

    def is_zero(self, i: int) -> bool:
        """Whether a node that does not move is a constant of zeros, or a broadcast one."""
        node = self.builder.nodes[self.values[i]]
        while node.primitive in (spread, reshape):
            node = self.builder.nodes[node.args[0]]
        return node.value is not None and not node.value.any()

    def count(self, carried: int, entries: int) -> None:
        """Count entries of parts that an op computes, and of an array that all seeds reach."""
        self.counted += 1
        self.carried += carried
        self.all += self.source.size * entries

    def type(self, i: int) -> ArrayType:
        return self.tape.nodes[i].type

    def parts_of(self, i: int) -> list[TangentPart]:
        """The parts of a node as they came to be."""
        if i not in self.parts:
            unit = self.units[i]
            type_ = ArrayType(unit.shape, self.source.dtype)
            seeds = np.ones(unit.shape) if type_.size == 1 else unit_seeds(type_, 0, type_.size)
            node = self.trace.lift(seeds, type_.dtype)
            self.parts[i] = [TangentPart(node, unit.seeds, full(unit.shape))]
        return self.parts[i]

    def coalesced(self, i: int) -> list[TangentPart]:
        """The parts of a node, put together for an op that computes with each."""
        self.parts[i] = self.emit.coalesced(self.parts_of(i))
        return self.parts[i]

    def whole(self, i: int, seeds: Seeds) -> TangentPart:
        """The tangents of a node for `seeds`, all of its entries; zeros where none reaches it."""
        shape, dtype = self.type(i)
        if not self.parts_of(i):
            zeros = self.emit.zeros((*leading_axis(seeds), *shape), dtype)
            return TangentPart(zeros, seeds, full(shape))
        return self.emit.merged(self.parts_of(i), seeds, full(shape))

    def apply(self, node: Node, ids: Sequence[int], on: Sequence[bool], size: int) -> int:
        """An op of one output on other operands, of which those `on` carry the seeds' axis."""
        if not any(on):
            return self.trace.add(node.primitive, tuple(ids), node.params)
        flags = tuple([int(m) for m in on])
        return widened(self.trace, node, ids, flags, size, self.line)[0]

"""Kernel graphs: operations without sizes and values, which stand in tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import fdiff.intact_numpy as np

from ...kernel_rule import Category, Kind, Routine
from ...named_tuples import NamedTuple
from .index_expressions import Axes, Dims, Slices

Data = tuple[object, ...]
T = TypeVar("T")


class SliceParameters(NamedTuple):
    """Which entries a slice reads, its transpose adds to, or a store writes: `Operation.data`.

    `slices` has start and step along each axis; it is empty for a store at index arrays.
    `disjoint` counts the neighbouring stores, the nearest first, that write none of these entries:
    of a store those below it, of a slice those above the array it reads. A transpose is `wide` if
    it covers more than half of every axis, so that any two such overlap. A store is `large` if the
    array may as well be made anew. The array it begins with is `unread` if this store and those
    above, which alone read it, write all of it.
    """

    slices: Slices
    disjoint: int = 0
    unread: bool = False
    wide: bool = False
    large: bool = False


class Operation(NamedTuple):
    """A node without sizes and values; `data`: structural parameters, names of run-time ones.

    `name` is the name of the op, where many ops have the kind; it stands in comments only.
    `routine` is the routine that computes an operation of the category ``routine``.
    """

    kind: Kind
    text: str
    args: tuple[int, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[Dims, ...]
    data: Data = ()
    name: str = ""
    routine: Routine | None = None

    @property
    def label(self) -> str:
        """The name of the operation in comments of kernels."""
        return self.name or self.kind.value

    @property
    def parameters(self) -> dict[str, object]:
        """The structural parameters by name."""
        return dict(cast("tuple[tuple[str, object], ...]", self.data))

    def parameter(self, name: str, kind: type[T]) -> T:
        """The structural parameter called `name`."""
        value = self.parameters[name]
        assert isinstance(value, kind)
        return value

    def reading(self, args: tuple[int, ...]) -> Operation:
        """The operation with other operands: `_replace`, in a quarter of its time."""
        if args == self.args:
            return self
        kind, text, _, dtypes, shapes, data, name, routine = self
        return Operation(kind, text, args, dtypes, shapes, data, name, routine)

    @property
    def axes(self) -> Axes:
        """The axes that a reduction folds, or the order in which a transpose has those it reads."""
        return self.parameter("axes", tuple)

    @property
    def subscripts(self) -> tuple[str, str, str]:
        """The labels of the axes of a contraction's operands and of its result."""
        operands, result = self.parameter("subscripts", str).split("->")
        left, right = operands.split(",")
        return left, right, result

    @property
    def region(self) -> SliceParameters:
        """The entries that a slice, the transpose of one, or a store into one is about."""
        assert isinstance(self.data, SliceParameters)
        return self.data

    @property
    def slices(self) -> Slices:
        """Start and step along each axis of a slice, of its transpose, or of a store into one."""
        return self.region.slices

    @property
    def bodies(self) -> tuple[KernelGraph, ...]:
        """The graphs that the operation runs: the body of a loop."""
        control = self.kind.category is Category.CONTROL
        return self.parameter("bodies", tuple) if control else ()

    @property
    def dtype(self) -> str:
        return self.dtypes[0]

    @property
    def dims(self) -> Dims:
        return self.shapes[0]


class Computed(NamedTuple):
    """What a nest or a call computes: an operation by its `name`, and the `place` of its result.

    The place is memory or an accumulator; it is empty for a local.
    """

    place: str
    name: str

    @property
    def comment(self) -> str:
        """The comment of a kernel on it."""
        return f"{self.place} = {self.name}" if self.place else self.name


@dataclass(frozen=True)
class KernelGraph:
    """Operations in canonical order, inputs first; counts of sizes, integers, floats, arrays.

    `rows` names the size of the axis that has many rows of few entries each, if there is one.
    `literals` are the sizes whose values stand in the text. The graph of a body has names of the
    tables of the whole kernel, in which its counts are those up to there; its first `carries`
    inputs it may write over, and its outputs with these numbers follow them in the next trip.
    """

    ops: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    sizes: int
    ints: int
    floats: int
    arrays: int
    rows: str = ""
    literals: tuple[tuple[str, int], ...] = ()
    carries: int = -1  # of a whole kernel

    @property
    def all_ops(self) -> Iterator[Operation]:
        """The operations, including the operations of bodies."""
        for op in self.ops:
            yield op
            for body in op.bodies:
                yield from body.all_ops

    @property
    def is_body(self) -> bool:
        """Whether it is run by an operation of another graph."""
        return self.carries >= 0

    @property
    def key(self) -> tuple[object, ...]:
        return self.ops, self.inputs, self.outputs, self.rows, self.literals


def users_of(graph: KernelGraph) -> list[list[int]]:
    """For each operation its readers (once for each reading)."""
    users: list[list[int]] = [[] for _ in graph.ops]
    for i, op in enumerate(graph.ops):
        for a in op.args:
            users[a].append(i)
    return users


def subscripts_data(left: str, right: str, result: str) -> Data:
    """The parameters of a contraction with these labels."""
    return (("subscripts", f"{left},{right}->{result}"),)


def sizes_of_labels(ops: Sequence[Operation], contraction: Operation) -> dict[str, str]:
    """The size of the axis that each label of a contraction stands for."""
    sizes: dict[str, str] = {}
    for labels, a in zip(contraction.subscripts, contraction.args, strict=False):
        sizes.update(zip(labels, ops[a].dims, strict=True))
    return sizes


def is_masked(ops: Sequence[Operation], i: int) -> bool:
    """Whether the entries of operation `i` are -0.0 where a product is to leave them out."""
    while ops[i].kind.is_view:
        (i,) = ops[i].args
    return ops[i].kind is Kind.MASKED


class Values(NamedTuple):
    """The tables and arrays that a kernel is called with; its graph leaves them out.

    `owners` keep the addresses valid that are among the integers.
    """

    ints: tuple[int, ...]
    floats: tuple[float, ...]
    arrays: tuple[np.ndarray, ...]
    owners: tuple[object, ...] = ()

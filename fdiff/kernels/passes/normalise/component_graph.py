"""Components: for an array with small axes, an array without them for each position on these axes.

An array of shape ``(n, 3)`` has three components of shape ``(n,)``. `scalarise.py` says what they
are for, and names the source. Which axes are taken apart: docs/decisions/components-are-scalars.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from ....kernel_rule import Kind
from ....named_tuples import NamedTuple
from ...ir.index_expressions import ONE, WHOLE, Axes, Dims, Slices, same_nonunit
from ...ir.kernel_graph import KernelGraph, Operation, SliceParameters
from .graph_rewrite import GraphRewrite

Place = dict[int, int]  # of each small axis, where on it
Ids = tuple[int, ...]


class Whole(NamedTuple):
    """A rule's result that is not split into components: one new operation."""

    operation: int


def is_small(dim: str) -> bool:
    """Whether the size of an axis is known, and not one."""
    return dim != ONE and dim.isdigit()


def small_axes(dims: Dims) -> Axes:
    """The axes whose size stands in the graph as a number above one: few components each."""
    return tuple(a for a, d in enumerate(dims) if is_small(d))


def places(dims: Dims) -> Iterator[Place]:
    """The positions of all components on the small axes, in row-major order."""
    axes = small_axes(dims)
    for position in product(*(range(int(dims[a])) for a in axes)):
        yield dict(zip(axes, position, strict=True))


def without_small(dims: Dims) -> Dims:
    """The shape of a component."""
    return tuple(d for d in dims if not is_small(d))


def slices_at(dims: Dims, place: Place) -> Slices:
    """The slices that cut out the component at `place`, with axes of size one."""
    return tuple((str(place[a]), "1") if is_small(d) else WHOLE for a, d in enumerate(dims))


class Components(GraphRewrite):
    """A graph by components: for each old operation the whole result, its components, or both.

    The whole results are in `place`. Equal operations are made once (hash consing).
    """

    def __init__(self, graph: KernelGraph) -> None:
        super().__init__(graph)
        self.split: dict[int, Ids] = {}  # the components of old operations, in row-major order
        self.zeros: set[int] = set()  # new operations that are zero
        self.sums: set[int] = set()  # old operations that are added up in memory
        self._made: dict[Operation, int] = {}

    def add(self, op: Operation) -> int:
        """The number of a new operation, or of an equal one."""
        if op not in self._made:
            self._made[op] = super().add(op)
        return self._made[op]

    def dims(self, i: int) -> Dims:
        return self.old[i].dims

    def at(self, i: int, place: Place) -> int:
        """The component of old operation `i` at `place`, without small axes."""
        dims = self.dims(i)
        if i not in self.split:
            op = self.sliced(self.place[i], slices_at(dims, place))
            return self.reshaped(op, without_small(dims))
        number = 0
        for a in small_axes(dims):
            number = number * int(dims[a]) + place[a]
        return self.split[i][number]

    def whole(self, i: int) -> int:
        """The whole result of old operation `i`, put together from its components if need be."""
        if i not in self.place:
            dims = self.dims(i)
            inner = tuple(ONE if is_small(d) else d for d in dims)
            puts = [
                (self.reshaped(op, inner), slices_at(dims, place))
                for op, place in zip(self.split[i], places(dims), strict=True)
            ]
            self.place[i] = self.put(puts, self.old[i])
        return self.place[i]

    def put(self, terms: Iterable[tuple[int, Slices]], like: Operation) -> int:
        """An array of several operands, each at the start and step it has along every axis."""
        args, spots = zip(*terms, strict=True)
        return self.add(Operation(Kind.PLACE, "", args, like.dtypes, like.shapes, spots))

    def sliced(self, op: int, pairs: Slices, dims: Dims = ()) -> int:
        """A slice of shape `dims`: by default one entry of each small axis, all of the others."""
        source = self.ops[op]
        inner = dims or tuple(ONE if is_small(d) else d for d in source.dims)
        if all(p == WHOLE for p in pairs) and source.dims == inner:
            return op
        region = SliceParameters(pairs)
        return self.add(Operation(Kind.SLICE, "", (op,), source.dtypes, (inner,), region))

    def reshaped(self, i: int, dims: Dims) -> int:
        """Add a reshape of new operation `i` to other axes of size one, and give its number."""
        op = self.ops[i]
        if op.kind is Kind.RESHAPE and same_nonunit(op.dims, self.ops[op.args[0]].dims):
            return self.reshaped(op.args[0], dims)
        new = super().reshaped(i, dims)
        if i in self.zeros:
            self.zeros.add(new)
        return new

    def zero(self, dtype: str, dims: Dims) -> int:
        """An array of zeros."""
        text = "False" if dtype == "b1" else "0.0" if dtype[0] == "f" else "0"
        new = self.broadcast(self.add(Operation(Kind.VALUE, text, (), (dtype,), ((),))), dims)
        self.zeros.add(new)
        return new

    def combined(self, kind: Kind, text: str, terms: Iterable[int]) -> int:
        """Operands of one shape, combined by an operator of two."""
        first, *others = terms
        for term in others:
            op = self.ops[first]
            first = self.add(Operation(kind, text, (first, term), op.dtypes, op.shapes))
        return first

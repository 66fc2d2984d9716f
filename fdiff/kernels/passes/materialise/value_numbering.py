"""Value numbering: an entry of a value is known by its node, a shape and an index.

Two expressions that read the same node at the same index have one key, and are computed once.

S. S. Muchnick, Advanced Compiler Design and Implementation, Morgan Kaufmann 1997, section 12.4.2.
"""

from __future__ import annotations

from ....kernel_rule import Kind
from ...ir.index_expressions import (
    FIRST,
    ONE,
    Dims,
    Index,
    nonunit,
    same_nonunit,
    through_broadcast,
    through_ones,
    through_slice,
    through_transpose,
)
from ...ir.kernel_graph import Operation


class Key:
    """The entry at `index` of `node`, read as an array of shape `dims`.

    There is one object for each key, so that keys are compared and hashed by identity.
    """

    __slots__ = ("below", "dims", "index", "node")

    def __init__(self, node: int, dims: Dims, index: Index) -> None:
        self.node, self.dims, self.index = node, dims, index
        self.below: tuple[Key, ...] | None = None  # once it has been asked for

    def __repr__(self) -> str:
        return f"Key({self.node}, {self.dims}, {self.index})"


class Keys:
    """The keys of one graph; they do not depend on what is stored."""

    def __init__(self, ops: tuple[Operation, ...], dims: list[Dims]) -> None:
        self._ops, self._dims = ops, dims
        self._interned: dict[tuple[int, Dims, Index], Key] = {}

    def key(self, node: int, dims: Dims, index: Index) -> Key:
        """The only key of a node with these dims at this index."""
        three = (node, dims, index)
        key = self._interned.get(three)
        if key is None:
            key = self._interned[three] = Key(node, dims, index)
        return key

    def at(self, node: int, index: Index, dims: Dims | None = None) -> Key:
        """The key of a node at an index; a node of one entry has one key."""
        own = self._dims[node]
        if not nonunit(own) and all(a.var < 0 for a in index):
            return self.key(node, (), ())
        return self.key(node, own if dims is None else dims, index)

    def whole(self, node: int) -> Key:
        """The key of all entries of an array, which is read at positions found at run time."""
        return self.key(node, self._dims[node], ())

    def below(self, key: Key) -> tuple[Key, ...]:
        """The keys of the operands of a value; for a gather, the keys of the positions that it
        reads.
        """
        keys = key.below
        if keys is None:
            keys = key.below = tuple(self._below(key, self._ops[key.node]))
        return keys

    def _below(self, key: Key, op: Operation) -> list[Key]:
        if op.kind is Kind.GATHER:
            lead = len(self._dims[op.args[1]])
            index = key.index or (FIRST,) * len(op.dims)
            return [self.at(a, index[:lead]) for a in op.args[1:]]
        return [self._child(key, op, a) for a in op.args]

    def _child(self, key: Key, op: Operation, arg: int) -> Key:
        """The key of operand `arg` of a value: views map the index to the index of their source."""
        source = self._dims[arg]
        if key.index and source == key.dims == op.dims and ONE not in source and op.text:
            return self.key(arg, source, key.index)
        index = key.index or (FIRST,) * len(op.dims)
        dims = key.dims if key.index else op.dims
        if not nonunit(source):
            return self.at(arg, (FIRST,) * len(source))
        if op.kind is Kind.RESHAPE and same_nonunit(source, dims):
            return self.at(arg, through_ones(index, source, dims))
        if dims != op.dims or op.kind is Kind.RESHAPE:
            return self.at(arg, index, dims)
        if op.kind is Kind.SLICE:
            return self.at(arg, through_slice(index, op.slices))
        if op.kind is Kind.TRANSPOSE:
            return self.at(arg, through_transpose(index, op.axes))
        return self.at(arg, through_broadcast(index, source, op.dims))

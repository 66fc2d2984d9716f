"""The entries that stores write, if a tape tells them: disjoint stores share a loop.

Stores follow one another, each into the result of the one before. Slices are compared as they are;
where constant index arrays are among them, the last store into each entry is noted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...arraytype import disjoint
from ...kernel_rule import Kind
from ...lazy_attributes import cached_property
from ...named_tuples import NamedTuple
from ...tape import CONSTANT, Node, Tape

MOST_COMPARED = 64  # stores that a store or a slice is compared with
_INDEXED: dict[Kind | None, int] = {
    Kind.GATHER: 1,
    Kind.SCATTER_ADD: 1,
    Kind.SCATTER_SET: 2,
}  # operands before indices


class Stored(NamedTuple):
    """How many stores just below a store write other entries.

    The array below is `unread` if this store and those above write all of its entries.
    """

    disjoint: int
    unread: bool = False


class StoredEntries:
    """The stores of a tape, and its constant index arrays."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self._stored: dict[int, Stored] = {}

    def of(self, i: int) -> Stored:
        """The facts about store `i`."""
        if i not in self._stored:
            chain = self._chain(i)
            indexed = any(self.tape.nodes[k].primitive.kind is Kind.SCATTER_SET for k in chain)
            counts, unread = self._noted(chain) if indexed else self._compared(chain)
            unread = unread and self.tape.nodes[chain[0]].args[0] not in self._sliced
            self._stored |= {
                k: Stored(n, unread and k == chain[0]) for k, n in zip(chain, counts, strict=True)
            }
        return self._stored[i]

    def side_by_side(self, i: int) -> bool:
        """Whether the store below or above store `i` is into as many entries, at equal steps."""
        nodes = self.tape.nodes

        def alike(k: int) -> bool:
            below = nodes[k].args[0]
            if not (_is_slice_store(nodes[k]) and _is_slice_store(nodes[below])):
                return False
            shapes = [nodes[nodes[j].args[1]].type.shape for j in (k, below)]
            steps = [dict(nodes[j].params)["steps"] for j in (k, below)]
            return shapes[0] == shapes[1] and steps[0] == steps[1]

        return alike(i) or (i in self._next_stores and alike(self._next_stores[i]))

    @cached_property
    def indexed(self) -> dict[int, tuple[int, ...]]:
        """Constants that are positions and nothing else, with the sizes of the axes they count."""
        nodes = self.tape.nodes
        sizes: dict[int, set[int]] = {}
        others = set(self.tape.outputs)
        for node in nodes:
            first = _INDEXED.get(node.primitive.kind, len(node.args))
            others.update(node.args[:first])
            counted = nodes[node.args[0]] if node.primitive.kind is Kind.GATHER else node
            for a, n in zip(node.args[first:], counted.type.shape, strict=False):
                sizes.setdefault(a, set()).add(n)
        return {
            a: tuple(sorted(counted))
            for a, counted in sizes.items()
            if nodes[a].primitive is CONSTANT and a not in others
        }

    @cached_property
    def _sliced(self) -> set[int]:
        """Arrays with a slice, which a pass may take from the stores into them."""
        slices = (n for n in self.tape.nodes if n.primitive.kind is Kind.SLICE)
        return {node.args[0] for node in slices}

    @cached_property
    def _next_stores(self) -> dict[int, int]:
        """The store into each array that nothing else reads."""
        nodes = self.tape.nodes
        users = Counter(self.tape.outputs)
        for node in nodes:
            users.update(node.args)
        stores = [(i, node.args[0]) for i, node in enumerate(nodes) if _is_store(node)]
        return {base: i for i, base in stores if users[base] == 1}

    def _chain(self, i: int) -> list[int]:
        """The stores that follow one another, the first first, of which `i` is one."""
        nodes = self.tape.nodes
        while _is_store(nodes[base := nodes[i].args[0]]) and base in self._next_stores:
            i = base
        chain = [i]
        while chain[-1] in self._next_stores:
            chain.append(self._next_stores[chain[-1]])
        return chain

    # --- slices alone -----------------------------------------------------------------------

    def _compared(self, chain: Sequence[int]) -> tuple[list[int], bool]:
        """Stores into slices: how many below each are disjoint, and whether all is written."""
        nodes = self.tape.nodes
        counts = [self._disjoint_stores_below(i) for i in chain]
        parts = sum(nodes[nodes[i].args[1]].type.size for i in chain)
        apart = all(n >= k for k, n in enumerate(counts))
        return counts, apart and parts == nodes[chain[0]].type.size

    def _disjoint_stores_below(self, i: int) -> int:
        """How many stores into slices just below a store are into other entries."""
        nodes, node, count = self.tape.nodes, self.tape.nodes[i], 0
        base = node.args[0]
        sizes = nodes[node.args[1]].type.shape
        while count < MOST_COMPARED and nodes[base].primitive.kind is Kind.UPDATE:
            if not self.misses(base, sizes, **dict(node.params)):
                break
            count, base = count + 1, nodes[base].args[0]
        return count

    def misses(
        self, store: int, sizes: Sequence[int], *, starts: Sequence[int], steps: Sequence[int]
    ) -> bool:
        """Whether a store into a slice writes none of these entries."""
        node = self.tape.nodes[store]
        params = dict(node.params)
        shape = self.tape.nodes[node.args[1]].type.shape
        return any(map(disjoint, sizes, starts, steps, shape, params["starts"], params["steps"]))

    # --- slices and constant index arrays -----------------------------------------------------

    def _noted(self, chain: Sequence[int]) -> tuple[list[int], bool]:
        """The results of `_compared` for stores some of which are at index arrays."""
        last = np.full(self.tape.nodes[chain[0]].type.shape, -1, np.int32)
        counts: list[int] = []
        has_places = True
        for k, i in enumerate(chain):
            place = self._constant_index(i)
            has_places = has_places and place is not None
            place = ... if place is None else place
            counts.append(min(k - 1 - int(last[place].max(initial=-1)), MOST_COMPARED))
            last[place] = k
        return counts, has_places and bool(np.all(last >= 0))

    def _constant_index(self, i: int) -> tuple[np.ndarray | slice | None, ...] | None:
        """The entries of a store as an index of NumPy; None if they are not constant."""
        node = self.tape.nodes[i]
        if node.primitive.kind is Kind.SCATTER_SET:
            values = [self.tape.nodes[a].value for a in node.args[2:]]
            inside = (
                v is not None and bool(np.all((v >= -n) & (v < n)))
                for v, n in zip(values, node.type.shape, strict=False)
            )
            return tuple(values) if all(inside) else None
        params = dict(node.params)
        shape = self.tape.nodes[node.args[1]].type.shape
        return tuple(map(_slice, params["starts"], shape, params["steps"]))


def _is_slice_store(node: Node) -> bool:
    return node.primitive.kind is Kind.UPDATE


def _is_store(node: Node) -> bool:
    return node.primitive.kind is not None and node.primitive.kind.is_store


def _slice(start: int, size: int, step: int) -> slice:
    end = start + size * step
    return slice(start, None if end < 0 else end, step) if size else slice(0, 0)


def bounds(array: np.ndarray, sizes: Sequence[int]) -> list[int]:
    """The sizes of axes for which all positions are in bounds and not negative."""
    if not array.size:
        return [*sizes]
    low, high = int(array.min()), int(array.max())
    return [n for n in sizes if low >= 0 and high < n]

"""Loop rerolling: equal unrolled computations whose results are joined become one batch.

``np.stack([f(x, a[k]) for k in range(n)])`` is recorded as n computations that differ in nothing
but the slice of `a` that they read. They are joined by a concatenation, by stores side by side into
an array until it is full (``s[:, k] = f(x, a[k])``), or by a sum (``total += f(x, a[k])``). From a
join, all parts are walked in lockstep. As the body of a loop without carries, `f` is entered once,
as loops of the tape whose trips do not wait for each other are (`loop_batches.py`).

Isomorphic computations are packed as in S. Larsen and S. Amarasinghe, Exploiting superword level
parallelism with multimedia instruction sets, PLDI 2000, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import sub

from ...named_tuples import NamedTuple
from ...ops.along_axes.reductions import sum_
from ...ops.entrywise.elementwise import add
from ...ops.linear_algebra.contraction import contract
from ...ops.shapes.joining_and_splitting import concatenate
from ...ops.shapes.subscripts import sizes_by_label
from ...ops.shapes.view_ops import reshape, slice_, spread, transpose, update
from ...primitive import Primitive
from ...tape import INPUT, Builder, Node, Tape, rebuild
from ..batch import batch
from ..loops.bodies import entered
from ..simplify import Simplifier
from .loop_batches import multiplies_large

Ids = tuple[int, ...]
Users = Sequence[Sequence[int]]

FEWEST = 8  # parts; fewer are left as they are: what is unrolled stays in registers
MOST = 256 * 2**20  # bytes of one value of all parts, which unrolled take as much memory
FEW, MANY = 4, 20  # entries of a sum that are written out; parts from which on that is slower
FAMILIES = ("elementwise", "reduction")
OTHERS = (reshape, transpose, spread, slice_, sum_, contract)


def reroll_loops(tape: Tape) -> Tape:
    """Replace equal computations over slices that are joined by batches."""
    users = tape.users()
    for i in tape.outputs:
        users[i].append(-1)  # who calls the tape
    rolled: dict[int, _Repeats] = {}
    for join in _joins(tape, users):
        if join.node not in rolled and (repeats := _Repeats(tape, users, join)).applies:
            rolled[join.node] = repeats
    return rebuild(tape, Simplifier(), {i: r.enter for i, r in rolled.items()}) if rolled else tape


class _Join(NamedTuple):
    """Arrays that are joined along an axis, or added up if that is None, to the node `node`.

    `chain` are all nodes that join, `start` is what a sum begins with, if that is not a part.
    """

    node: int
    parts: Ids
    chain: Ids
    axis: int | None
    start: int | None = None


def _joins(tape: Tape, users: Users) -> Iterator[_Join]:
    """The joins from the last to the first; of a sum, the join of more parts first."""
    nodes, below = tape.nodes, set[int]()  # nodes of chains that have been met
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        if node.primitive is concatenate:
            yield _Join(i, node.args, (i,), node.param("axis"))
        elif node.primitive in (update, add) and i not in below:
            chain = _chain(nodes, users, i)
            below.update(chain)
            if len(chain) >= FEWEST - 1 and node.primitive is update:
                yield from _stores(nodes, chain)
            elif len(chain) >= FEWEST - 1 and node.type.dtype.kind in "fc":
                first, parts = nodes[chain[0]].args[0], [nodes[k].args[1] for k in chain]
                if {nodes[k].type for k in parts} == {node.type}:
                    yield _Join(i, (first, *parts), chain, None)
                    yield _Join(i, tuple(parts), chain, None, first)


def _chain(nodes: Sequence[Node], users: Users, top: int) -> Ids:
    """Nodes of one op and type from the first to `top`: each is read by the next one alone."""
    chain, node = [top], nodes[top]
    while True:
        i = nodes[chain[-1]].args[0]
        equal = nodes[i].primitive is node.primitive and nodes[i].types == node.types
        if not equal or len(users[i]) != 1:
            return tuple(chain[::-1])
        chain.append(i)


def _stores(nodes: Sequence[Node], chain: Ids) -> Iterator[_Join]:
    """Stores that fill an array side by side, in any order."""
    stores = sorted([(nodes[i].param("starts"), nodes[i].args[1]) for i in chain])
    parts, whole = tuple([part for _, part in stores]), nodes[chain[0]].type.shape
    axis, width = _spacing([starts for starts, _ in stores])
    part = (*whole[:axis], width, *whole[axis + 1 :])
    equal = all(nodes[k].type.shape == part for k in parts)
    unit = all({*nodes[i].param("steps")} == {1} for i in chain)
    if width and not any(stores[0][0]) and len(parts) * width == whole[axis] and equal and unit:
        yield _Join(chain[-1], parts, chain, axis)


def _spacing(starts: Sequence[Ids]) -> tuple[int, int]:
    """The axis along which places are equally spaced, and by how much: 0 where they are not."""
    move, *others = [tuple(map(sub, after, before)) for before, after in pairwise(starts)]
    axes = [k for k, n in enumerate(move) if n]
    equal = len(axes) == 1 and others.count(move) == len(others)
    return (axes[0], move[axes[0]]) if equal else (0, 0)


class _Slices(NamedTuple):
    """Equally spaced slices of one array, which can be read as rows."""

    source: int
    axis: int
    first: Mapping[str, Ids]  # parameters of the first slice; its step leads to the second one

    def enter(self, b: Builder, source: int, count: int, shape: Ids) -> int:
        """Enter the rows, each in the shape `shape`."""
        at, sizes = self.axis, self.first["sizes"]
        whole = (*sizes[:at], count * sizes[at], *sizes[at + 1 :])
        x = source
        if whole != b.type(source).shape:
            x = _add(b, slice_, source, **{**self.first, "sizes": whole})
        x = _add(b, reshape, x, shape=(*sizes[:at], count, *sizes[at:]))
        axes = (at, *[k for k in range(len(sizes) + 1) if k != at])
        return _transposed(b, x, axes, (count, *shape))


class _Repeats:
    """Comparison of the parts of a join: nodes they share, slices they read, equal operations.

    Each of these is named by its nodes in all parts.
    """

    def __init__(self, tape: Tape, users: Users, join: _Join) -> None:
        self.nodes, self.lines, self.join = tape.nodes, tape.lines, join
        self.count = len(join.parts)
        self.shared, self.slices = list[Ids](), dict[Ids, _Slices]()
        self.steps: dict[Ids, list[Ids]] = {}  # what is computed, and of what
        self.own = {*join.chain}
        self.applies = (
            self.count >= FEWEST
            and self._compare()
            and bool(self.slices)
            and all(self.own.issuperset(users[i]) for ids in self.steps for i in ids)
            and self._pays()
        )

    def _compare(self) -> bool:
        """Walk all parts in lockstep from results to inputs; whether they are isomorphic."""
        stack, met = [self.join.parts], {self.join.parts}
        while stack:
            ids = stack.pop()
            if len({*ids}) == 1:
                self.shared.append(ids)
            elif (slices := self._slices(ids)) is not None:
                self.slices[ids] = slices
            elif self._equal(ids):
                self.own.update(ids)
                self.steps[ids] = [*zip(*[self.nodes[i].args for i in ids], strict=True)]
                stack += {*self.steps[ids]} - met
                met.update(self.steps[ids])
            else:
                return False
        return True

    def _equal(self, ids: Ids) -> bool:
        """Whether these nodes have the same op, parameters and types."""
        primitive, args, params, types = self.nodes[ids[0]]
        if primitive.family not in FAMILIES and primitive not in OTHERS:
            return False
        if not self.own.isdisjoint(ids) or self.count * types[0].nbytes > MOST:
            return False
        nodes = [self.nodes[i] for i in ids]
        if len({*ids}) < self.count or any(
            n.primitive is not primitive or n.params != params or n.types != types for n in nodes
        ):
            return False
        shared = any(len({*each}) == 1 for each in zip(*[n.args for n in nodes], strict=True))
        return not multiplies_large(nodes[0], [self.nodes[a].type for a in args], shared=shared)

    def _slices(self, ids: Ids) -> _Slices | None:
        """These nodes as equally spaced slices of one array, if they are (perhaps reshaped)."""
        nodes, shape = [self.nodes[i] for i in ids], self.nodes[ids[0]].type.shape
        if all(n.primitive is reshape and n.type.shape == shape for n in nodes):
            nodes = [self.nodes[n.args[0]] for n in nodes]
        if any(n.primitive is not slice_ or n.args != nodes[0].args for n in nodes):
            return None
        first, *others = [dict(n.params) for n in nodes]
        if any({**other, "starts": first["starts"]} != first for other in others):
            return None
        at, move = _spacing([dict(n.params)["starts"] for n in nodes])
        if move < 1:
            return None
        single, beside = first["sizes"][at] == 1, (first["sizes"][at], 1)
        if not single and (move, first["steps"][at]) != beside:
            return None
        steps = (*first["steps"][:at], move if single else 1, *first["steps"][at + 1 :])
        return _Slices(nodes[0].args[0], at, {**first, "steps": steps})

    def _pays(self) -> bool:
        """Whether a batch is faster than parts that are unrolled, which stay in registers.

        Sums of few entries for each of many rows are unrolled too, and terms without sums are best
        added one by one.
        """
        summed = max([self._summed(self.nodes[ids[0]]) for ids in self.steps], default=0)
        if summed < 2:
            return self.join.axis is not None
        single_entry = self.nodes[self.join.parts[0]].type.size == 1
        return single_entry or summed > FEW or self.count >= MANY

    def _summed(self, node: Node) -> int:
        """The number of entries that a node reduces to one entry."""
        types, entries = [self.nodes[a].type for a in node.args], 0
        if node.primitive is contract:
            entries = math.prod(sizes_by_label(node.param("subscripts"), *types).values())
        elif node.primitive is sum_ or node.primitive.family == "reduction":
            entries = types[0].size
        return entries // max(node.type.size, 1)

    def enter(self, b: Simplifier, places: Mapping[int, int]) -> int:
        """Enter the batch and its join; `places` maps old ids to new."""
        body, args, at = Builder(), list[int](), dict[Ids, int]()
        for ids in (*self.slices, *self.shared):
            primitive, operands, params, types = self.nodes[ids[0]]
            if not operands and primitive is not INPUT:  # a constant, which rules may want to see
                at[ids] = body.add(primitive, (), params, None, types)
                continue
            at[ids] = body.input(types[0])
            if (slices := self.slices.get(ids)) is None:
                args.append(places[ids[0]])
            else:
                args.append(slices.enter(b, places[slices.source], self.count, types[0].shape))
        for ids in sorted(self.steps):
            primitive, _, params, types = self.nodes[ids[0]]
            operands = tuple([at[a] for a in self.steps[ids]])
            at[ids] = body.add(primitive, operands, params, None, types)
            if ids[0] in self.lines:
                body.lines.setdefault(at[ids], self.lines[ids[0]][:1])
        mapped = [k < len(self.slices) for k in range(len(args))]
        wide = batch(body.finish([at[self.join.parts]]), mapped, self.count)
        (out,) = entered(wide, b, dict(zip(wide.inputs, args, strict=True)), wide.outputs)
        if self.join.axis is not None:
            return self._joined(b, out, self.join.axis)
        total = _add(b, sum_, out, axes=(0,))
        return total if self.join.start is None else b.add(add, (places[self.join.start], total))

    def _joined(self, b: Builder, x: int, axis: int) -> int:
        """Move the batch axis of `x` to where the join has it."""
        count, *shape = b.type(x).shape
        if shape[axis] == 1:  # stacked: no axis of one entry is to be moved
            x = _add(b, reshape, x, shape=(count, *shape[:axis], *shape[axis + 1 :]))
        axes = (*range(1, axis + 1), 0, *range(axis + 1, len(b.type(x).shape)))
        return _transposed(b, x, axes, self.nodes[self.join.node].type.shape)


def _transposed(b: Builder, x: int, axes: Ids, shape: Ids) -> int:
    return _add(b, reshape, _add(b, transpose, x, axes=axes), shape=shape)


def _add(b: Builder, op: Primitive, x: int, **params: object) -> int:
    return b.add(op, (x,), tuple(sorted(params.items())))

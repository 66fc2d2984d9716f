"""Reductions and slices see through concatenations: ``sum(f(concatenate((a, b))))`` is two sums.

What is joined only to be computed with entry by entry and reduced needs no memory: each part has a
loop of its own, in which it is fused with what it is made of. So it is with `np.roll`, which joins
two slices, and with residuals that are concatenated before their squares are summed. A slice of
such a value that lies within one part is computed from that part alone. Derivatives are computed by
parts, too.

These are promotion rules of lists: ``map f (x ++ y) = map f x ++ map f y`` and the same of
reductions. R. S. Bird, An introduction to the theory of lists, in Logic of Programming and Calculi
of Discrete Design, Springer 1987, rule "map promotion".
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise

from ...named_tuples import NamedTuple
from ...ops.along_axes.reductions import sum_
from ...ops.entrywise.elementwise import add
from ...ops.linear_algebra.contraction import contract
from ...ops.shapes.joining_and_splitting import concatenate
from ...ops.shapes.subscripts import parse
from ...ops.shapes.view_ops import slice_
from ...tape import Node, Tape, rebuild
from ..simplify import Simplifier

MOST = 4  # parts that a reduction is split into, each of which is a loop
LEAST = 16  # entries of the largest part: what is shorter is not worth the loops


def split_concatenations(tape: Tape) -> Tape:
    """Move reductions and slices of joined arrays to the parts."""
    if not any(_is_concatenation(node) for node in tape.nodes):
        return tape
    users = tape.users()
    joins = {
        i: join
        for i, node in enumerate(tape.nodes)
        if node.primitive in (sum_, contract, slice_) and (join := _region(tape, users, i))
    }
    if not joins:
        return tape
    return rebuild(
        tape, Simplifier(), {i: partial(_split, tape, i, join) for i, join in joins.items()}
    )


class JoinedRegion(NamedTuple):
    """Values between joins and a reduction or slice; no other node reads them.

    `axis` is the axis of the joins, counted from the end; `bounds` is where their parts begin and
    end.
    """

    inner: frozenset[int]
    axis: int
    bounds: tuple[int, ...]

    def within(self, start: int, size: int) -> bool:
        """Whether these entries lie in one part of each join."""
        return any(a <= start and start + size <= b for a, b in pairwise(self.bounds))


def _region(tape: Tape, users: Sequence[Sequence[int]], root: int) -> JoinedRegion | None:
    """The region between `root` and joins along an axis that it reduces or cuts; else None."""
    axes = _axes(tape, tape.nodes[root])
    for slices in (True, False) if axes else ():
        inner = _inner(tape, users, root, slices=slices)
        nodes = [tape.nodes[i] for i in inner]
        along = {_axis(node) for node in nodes if _is_concatenation(node)}
        cut = {_sliced_axis(tape, node) for node in nodes if node.primitive is slice_}
        if len(along) == 1 and along <= axes and cut <= along:
            (axis,) = along
            region = JoinedRegion(frozenset(inner), axis, _bounds(tape, inner, root, axis))
            return region if _pays(tape.nodes[root], region) else None
    return None


def _pays(node: Node, join: JoinedRegion) -> bool:
    """Whether a root is simpler by parts: few reductions, or a slice of one part."""
    sizes = [b - a for a, b in pairwise(join.bounds)]
    if max(sizes, default=0) < LEAST:
        return False
    if node.primitive is not slice_:
        return len(sizes) <= MOST
    start, size = node.param("starts")[join.axis], node.type.shape[join.axis]
    return join.within(start, size) and 2 * size > join.bounds[-1]


def _bounds(tape: Tape, inner: set[int], root: int, axis: int) -> tuple[int, ...]:
    """Where parts of joins begin and end, as entries of what `root` reads."""
    full = tape.nodes[tape.nodes[root].args[0]].type.shape[axis]
    bounds = {0, full}
    waiting = [(a, 0) for a in tape.nodes[root].args]
    seen = set(waiting)
    while waiting:
        i, offset = waiting.pop()
        node = tape.nodes[i]
        if i not in inner:
            continue
        if _is_concatenation(node):
            ends = accumulate(tape.nodes[a].type.shape[axis] for a in node.args)
            bounds.update(end - offset for end in ends if 0 < end - offset < full)
            continue
        further = node.param("starts")[axis] if node.primitive is slice_ else 0
        new = {(a, offset + further) for a in node.args} - seen
        seen |= new
        waiting += new
    return tuple(sorted(bounds))


def _axes(tape: Tape, node: Node) -> set[int]:
    """The axes that a node reduces or cuts, counted from the end; none if it does more."""
    ndim = tape.nodes[node.args[0]].type.ndim
    if node.primitive is sum_:
        return {a - ndim for a in node.param("axes")}
    if node.primitive is contract:
        left, right, out = parse(node.param("subscripts"))
        return {left.index(x) - ndim for x in left if x not in out} if left == right else set()
    axis = _sliced_axis(tape, node)
    return set() if axis is None else {axis}


def _axis(node: Node) -> int:
    """The axis of a join, counted from the end."""
    return node.param("axis") - node.type.ndim


def _sliced_axis(tape: Tape, node: Node) -> int | None:
    """The single axis that a slice cuts, if the slice has step 1."""
    whole = tape.nodes[node.args[0]].type.shape
    cut = [k for k, (n, full) in enumerate(zip(node.type.shape, whole, strict=True)) if n != full]
    plain = all(step == 1 for step in node.param("steps"))
    return cut[0] - len(whole) if plain and len(cut) == 1 else None


def _inner(tape: Tape, users: Sequence[Sequence[int]], root: int, *, slices: bool) -> set[int]:
    """Joins and elementwise operations on them whose last reader is `root`.

    Where `slices` of joins are among that, parts are read at several places, but not computed
    again. A slice that is the root may have one of several that read a join.
    """
    nodes, inner, outputs = tape.nodes, {root}, set(tape.outputs)
    waiting = sorted(set(nodes[root].args))
    while waiting:
        i = waiting.pop()
        primitive, args = nodes[i].primitive, nodes[i].args
        joined = _is_concatenation(nodes[i])
        of_join = slices and primitive is slice_ and _is_concatenation(nodes[args[0]])
        plain = joined or of_join or primitive.family == "elementwise"
        read = joined and nodes[root].primitive is slice_ and i in nodes[root].args
        private = i not in outputs and inner.issuperset(users[i])
        if i in inner or not plain or not (private or read):
            continue
        inner.add(i)
        for a in () if joined else args:
            insort(waiting, a)
    return inner - {root}


def _is_concatenation(node: Node) -> bool:
    return node.primitive is concatenate


class _RegionReader:
    """Enters nodes of a join for some entries along its axis only, the entries of one part."""

    def __init__(
        self, tape: Tape, b: Simplifier, places: Mapping[int, int], join: JoinedRegion
    ) -> None:
        self.nodes, self.b, self.places, self.join = tape.nodes, b, places, join
        self.known: dict[tuple[int, int, int], int] = {}

    def enter(self, i: int, start: int, size: int) -> int:
        """Entries of node `i` from `start` on; the node itself where it has one along the axis."""
        key = (i, start, size)
        if key not in self.known:
            self.known[key] = self._entered(i, start, size)
        return self.known[key]

    def _entered(self, i: int, start: int, size: int) -> int:
        primitive, args, params, types = self.nodes[i]
        shape, axis = types[0].shape, self.join.axis
        if len(shape) < -axis or shape[axis] == 1:
            return self.places[i]
        if i not in self.join.inner:
            return self._sliced(self.places[i], start, size)
        if primitive is slice_:
            return self.enter(args[0], start + self.nodes[i].param("starts")[axis], size)
        if not _is_concatenation(self.nodes[i]):
            return self.b.add(primitive, tuple([self.enter(a, start, size) for a in args]), params)
        for a in args:
            n = self.nodes[a].type.shape[axis]
            if start < n:
                return self._sliced(self.places[a], start, size)
            start -= n
        raise AssertionError("no part of a join has these entries")

    def _sliced(self, x: int, start: int, size: int) -> int:
        """Entries of a value as one slice, of the value's source if it is a slice itself."""
        shape, axis = self.b.type(x).shape, self.join.axis
        if size == shape[axis]:
            return x
        node = self.b.nodes[x]
        at = len(shape) + axis
        starts, steps = [0] * len(shape), [1] * len(shape)
        if node.primitive is slice_:
            starts, steps = [*node.param("starts")], [*node.param("steps")]
            (x,) = node.args
        starts[at] += start * steps[at]
        steps[at] = 1 if size == 1 else steps[at]
        sizes = (*shape[:at], size, *shape[at + 1 :])
        params = (("sizes", sizes), ("starts", tuple(starts)), ("steps", tuple(steps)))
        return self.b.add(slice_, (x,), params)


def _split(
    tape: Tape, root: int, join: JoinedRegion, b: Simplifier, places: Mapping[int, int]
) -> int:
    """Enter a reduction as the sum over the parts, or a slice as a slice of one part."""
    primitive, args, params, types = tape.nodes[root]
    reader = _RegionReader(tape, b, places, join)
    if primitive is slice_:
        return reader.enter(args[0], dict(params)["starts"][join.axis], types[0].shape[join.axis])
    total = -1
    for start, end in pairwise(join.bounds):
        part = b.add(primitive, tuple([reader.enter(a, start, end - start) for a in args]), params)
        total = part if total < 0 else b.add(add, (total, part))
    return total

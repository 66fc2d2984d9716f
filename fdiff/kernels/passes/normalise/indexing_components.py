"""Scalarisation of joins, gathers, scatters, stores: docs/decisions/components-are-scalars.md."""

from __future__ import annotations

from ....kernel_rule import Kind
from ...ir.index_expressions import ONE, WHOLE, Slices, plus
from ...ir.kernel_graph import Operation, SliceParameters
from .component_graph import (
    Components,
    Ids,
    Place,
    Whole,
    is_small,
    places,
    slices_at,
    without_small,
)
from .elementwise_components import among_kept, entry_of_slice, operand


def joined_components(new: Components, i: int, op: Operation) -> Ids | None:
    """A concatenation: along a small axis the components of its operands, one after another.

    Along another axis each component joins the components of the operands.
    """
    axis = op.parameter("axis", int)
    if is_small(op.dims[axis]):
        if not all(new.dims(a)[axis].isdigit() for a in op.args):
            return None  # two times two, where four is a size that is known but two is not
        return tuple([_chosen(new, op, axis, dict(place)) for place in places(op.dims)])
    out: list[int] = []
    for place in places(op.dims):
        left = among_kept(op.dims, (axis,))[0]
        dims = without_small(op.dims)
        start, puts = "0", []
        for a in op.args:
            own = new.dims(a)
            count = int(own[axis]) if is_small(own[axis]) else 1
            for k in range(count):
                term = new.at(a, place | ({axis: k} if is_small(own[axis]) else {}))
                inner = tuple(
                    own[x] if x != axis or count == 1 else ONE
                    for x in range(len(own))
                    if x not in place
                )
                begin = plus(start, str(k))
                puts += _unfolded(new, new.reshaped(term, inner), left, len(dims), begin)
            start = plus(start, own[axis])
        out.append(new.put(puts, op._replace(shapes=(dims,))))
    return tuple(out)


def _unfolded(
    new: Components, term: int, axis: int, rank: int, start: str
) -> list[tuple[int, Slices]]:
    """The nodes that `term` stands for in a concatenation, each with the slice that it fills.

    `term` begins at `start` along the `axis` of a result with `rank` axes. A vector that is itself
    a concatenation stands for its own terms, any other operand for itself.
    """
    op = new.ops[term]
    if op.kind is Kind.PLACE and rank == 1:
        spots = [spot[0] for spot in op.data]  # type: ignore[index] - parameters are objects to the checker
        return [(a, ((plus(start, s[0]), s[1]),)) for a, s in zip(op.args, spots, strict=True)]
    return [(term, tuple((start, "1") if x == axis else WHOLE for x in range(rank)))]


def _chosen(new: Components, op: Operation, axis: int, place: Place) -> int:
    """The component that lies at `place` of a concatenation along a small axis."""
    for a in op.args:
        count = int(new.dims(a)[axis])
        if place[axis] < count:
            own = {x: k for x, k in place.items() if is_small(new.dims(a)[x])}
            return new.reshaped(new.at(a, own), without_small(op.dims))
        place[axis] -= count
    raise AssertionError(op)


def gathered(new: Components, i: int, op: Operation) -> Ids | None:
    """For each component a gather from the whole array, which stays in one piece."""
    x, *indices = op.args
    behind = new.dims(x)[len(indices) :]
    lead = op.dims[: len(op.dims) - len(behind)]
    out: list[int] = []
    for place in places(op.dims):
        ahead = {k: at for k, at in place.items() if k < len(lead)}
        args = (new.whole(x), *(operand(new, j, lead, ahead) for j in indices))
        dims = (*without_small(lead), *behind)
        whole = new.add(op._replace(args=args, shapes=(dims,)))
        inner = {k - len(lead): at for k, at in place.items() if k >= len(lead)}
        pairs = (*(WHOLE for _ in without_small(lead)), *slices_at(behind, inner))
        out.append(new.reshaped(new.sliced(whole, pairs), without_small(op.dims)))
    return tuple(out)


def scattered(new: Components, i: int, op: Operation) -> Whole:
    """The whole array, into which each component is scattered: the sum of these scatters."""
    bar, *indices = op.args
    source, behind = new.dims(bar), op.dims[len(indices) :]
    lead = source[: len(source) - len(behind)]
    terms: list[int] = []
    for place in places(source):
        ahead = {k: at for k, at in place.items() if k < len(lead)}
        inner = {k - len(lead): at for k, at in place.items() if k >= len(lead)}
        dims = tuple(ONE if is_small(d) else d for d in behind)
        value = new.reshaped(new.at(bar, place), (*without_small(lead), *dims))
        args = (value, *(operand(new, j, lead, ahead) for j in indices))
        added = op._replace(args=args, shapes=((*op.dims[: len(indices)], *dims),))
        region = SliceParameters((*(WHOLE for _ in indices), *slices_at(behind, inner)))
        put = Operation(Kind.UNSLICE, "", (new.add(added),), op.dtypes, op.shapes, region)
        terms.append(new.add(put) if inner else put.args[0])
    new.sums.add(i)
    return Whole(new.combined(Kind.ADD, "{0} + {1}", terms))


def updated(new: Components, i: int, op: Operation) -> Ids | None:
    """A store of some components of all rows: new components for these, old ones for others."""
    base, stored = op.args
    dims, inner, pairs = op.dims, new.dims(stored), op.slices
    if any(pairs[x] != WHOLE for x, d in enumerate(dims) if not is_small(d)):
        return None
    if any(not n.isdigit() for n, d in zip(inner, dims, strict=True) if is_small(d)):
        return None
    out: list[int] = []
    for place in places(dims):
        own = {x: entry_of_slice(at, pairs[x], inner[x]) for x, at in place.items()}
        if -1 in own.values():
            out.append(new.at(base, place))
        else:
            term = new.at(stored, {x: k for x, k in own.items() if is_small(inner[x])})
            out.append(new.reshaped(term, without_small(dims)))
    return tuple(out)

"""Rules of scalarisation for elementwise ops, reductions and views.

What a rule gives is explained at `scalarise.Rule`. Which axes are taken apart:
docs/decisions/components-are-scalars.md.
"""

from __future__ import annotations

from itertools import product

from ....kernel_rule import Kind
from ...ir.index_expressions import ONE, WHOLE, Axes, Dims, nonunit, part, plus, same_nonunit, times
from ...ir.kernel_graph import Operation, SliceParameters
from .component_graph import (
    Components,
    Ids,
    Place,
    Whole,
    is_small,
    places,
    small_axes,
    without_small,
)

COMBINED = {
    Kind.SUM: (Kind.ADD, "{0} + {1}"),
    Kind.PROD: (Kind.MULTIPLY, "{0} * {1}"),
    Kind.MAX: (Kind.MAXIMUM, "rt.maximum({0}, {1})"),
    Kind.MIN: (Kind.MINIMUM, "rt.minimum({0}, {1})"),
    Kind.ANY: (Kind.LOGICAL_OR, "{0} | {1}"),
    Kind.ALL: (Kind.LOGICAL_AND, "{0} & {1}"),
}


def among_kept(dims: Dims, axes: Axes) -> Axes:
    """The numbers of `axes` in a component, whose small axes are gone."""
    left = [a for a, d in enumerate(dims) if not is_small(d)]
    return tuple(left.index(a) for a in axes if a in left)


def _is_sum_in_memory(new: Components, i: int, op: Operation) -> bool:
    """Whether all operands are sums added up in memory; then so is operation `i`, in one piece."""
    if new.sums.issuperset(op.args):
        new.sums.add(i)
    return i in new.sums


# --- entry by entry ---------------------------------------------------------------------------


def operand(new: Components, a: int, dims: Dims, place: Place) -> int:
    """The operand of a component at `place` of a result of shape `dims`.

    `place` is the position of the component on the small axes; along others the operand broadcasts.
    """
    own = new.dims(a)
    lead = len(dims) - len(own)
    op = new.at(a, {q: place[q + lead] for q in small_axes(own)})
    left = [d for q, d in enumerate(own) if not is_small(d) and q + lead not in place]
    return new.reshaped(op, tuple(left))


def elementwise(new: Components, i: int, op: Operation) -> Ids | None:
    """The op on the components of its operands."""
    if op.kind is Kind.ADD and _is_sum_in_memory(new, i, op):
        return None
    dims = without_small(op.dims)
    out: list[int] = []
    for place in places(op.dims):
        args = tuple([operand(new, a, op.dims, place) for a in op.args])
        same = _without_zeros(new, op, args, dims)
        out.append(new.add(op._replace(args=args, shapes=(dims,))) if same is None else same)
    return tuple(out)


def _without_zeros(new: Components, op: Operation, args: Ids, dims: Dims) -> int | None:
    """The other operand of a sum one term of which is zero; None if none is."""
    if op.kind is Kind.ADD and new.zeros.intersection(args):
        other = args[args[0] in new.zeros]
        return other if new.ops[other].dims == dims else None
    if op.kind is Kind.SUBTRACT and args[1] in new.zeros:
        return args[0] if new.ops[args[0]].dims == dims else None
    return args[0] if op.kind is Kind.NEGATIVE and args[0] in new.zeros else None


def broadcast(new: Components, i: int, op: Operation) -> Ids | None:
    """The components of the operand, each broadcast to the shape of a component."""
    dims = without_small(op.dims)
    operands = (operand(new, op.args[0], op.dims, place) for place in places(op.dims))
    return tuple([new.broadcast(a, dims) for a in operands])


def iota(new: Components, i: int, op: Operation) -> Ids | None:
    if nonunit(without_small(op.dims)):
        return None
    count = range(len(list(places(op.dims))))
    values = [new.add(Operation(Kind.VALUE, str(k), (), op.dtypes, ((),))) for k in count]
    return tuple([new.reshaped(v, without_small(op.dims)) for v in values])


# --- reductions and scans ---------------------------------------------------------------------


def reduced(new: Components, i: int, op: Operation) -> Ids | None:
    """A reduction over small axes, written out, then over the other axes."""
    (a,) = op.args
    source, axes = new.dims(a), op.axes
    few = [x for x in axes if is_small(source[x])]
    if new.old[a].dtype != op.dtype and op.kind is not Kind.SUM:
        return None
    stays = [x for x in range(len(source)) if x not in axes]
    left = among_kept(source, axes)
    out: list[int] = []
    for place in places(op.dims):
        own = {stays[k]: at for k, at in place.items()}
        spots = product(*(range(int(source[x])) for x in few))
        terms = [new.at(a, own | dict(zip(few, s, strict=True))) for s in spots]
        kind, text = COMBINED[op.kind]
        value = new.combined(kind, text, [_converted(new, t, op.dtype) for t in terms])
        shapes = (without_small(op.dims),)
        summed = op._replace(args=(value,), shapes=shapes, data=(("axes", left),))
        out.append(new.add(summed) if left else value)
    return tuple(out)


def _converted(new: Components, i: int, dtype: str) -> int:
    op = new.ops[i]
    if op.dtype == dtype:
        return i
    return new.add(Operation(Kind.CONVERT, "{T}({0})", (i,), (dtype,), op.shapes))


def scanned(new: Components, i: int, op: Operation) -> Ids | None:
    """Running totals of each component, along an axis that is not small."""
    axis = op.parameter("axis", int)
    if is_small(op.dims[axis]) or any(new.dims(a) != op.dims for a in op.args):
        return None
    (moved,) = among_kept(op.dims, (axis,))
    data = tuple({**op.parameters, "axis": moved}.items())
    like = op._replace(shapes=(without_small(op.dims),), data=data)
    return tuple(
        new.add(like._replace(args=tuple([new.at(a, place) for a in op.args])))
        for place in places(op.dims)
    )


# --- views ------------------------------------------------------------------------------------


def transposed(new: Components, i: int, op: Operation) -> Ids | None:
    """The components of the operand in the order of the result, each transposed."""
    if new.old[op.args[0]].kind.is_routine:
        return None  # other routines take matrices as they are: systems with a Cholesky factor
    if _is_sum_in_memory(new, i, op):
        return None
    (a,) = op.args
    source, axes = new.dims(a), op.axes
    order = among_kept(source, axes)
    spots = ({axes[k]: at for k, at in place.items()} for place in places(op.dims))
    return tuple([new.transposed(new.at(a, spot), order) for spot in spots])


def reshaped(new: Components, i: int, op: Operation) -> Ids | Whole | None:
    """Reshapes that add or drop axes of size one, or that join rows to a vector, and back.

    Component `k` of rows of `n` entries is then every `n`-th entry of the vector, from `k` on.
    """
    (a,) = op.args
    source, dims = new.dims(a), op.dims
    if new.sums.issuperset(op.args):
        return None
    if same_nonunit(source, dims):
        axes = [[x for x, d in enumerate(s) if d != ONE] for s in (source, dims)]
        back = dict(zip(axes[1], axes[0], strict=True))
        own = [new.at(a, {back[k]: at for k, at in place.items()}) for place in places(dims)]
        return tuple([new.reshaped(p, without_small(dims)) for p in own])
    rows, few = _rows(dims)
    own_rows, own_few = _rows(source)
    if rows == own_rows and few == own_few > 1:
        own = [new.at(a, place) for place in places(source)]
        return tuple([new.reshaped(p, without_small(dims)) for p in own])
    if few > 1 and len(rows) == 1 == len(nonunit(source)) and own_few == 1:
        flat = new.reshaped(new.whole(a), nonunit(source))
        slices = [new.sliced(flat, ((str(k), str(few)),), rows) for k in range(few)]
        return tuple([new.reshaped(s, without_small(dims)) for s in slices])
    if own_few > 1 and len(own_rows) == 1 and few == 1 and len(nonunit(dims)) == 1:
        own = [new.reshaped(new.at(a, place), own_rows) for place in places(source)]
        puts = [(p, ((str(k), str(own_few)),)) for k, p in enumerate(own)]
        flat = new.put(puts, op._replace(shapes=(nonunit(dims),)))
        return Whole(new.reshaped(flat, dims))
    return None


def _rows(dims: Dims) -> tuple[Dims, int]:
    """The axes before the small ones at the end, and how many entries those have together."""
    own = list(nonunit(dims))
    few = 1
    while own and is_small(own[-1]):
        few *= int(own.pop())
    return tuple(own), few if not any(map(is_small, own)) else 0


def sliced(new: Components, i: int, op: Operation) -> Ids | None:
    """The components of the operand that lie in the slice, each sliced along the other axes."""
    (a,) = op.args
    source, dims, pairs = new.dims(a), op.dims, op.slices
    if any(is_small(s) and not d.isdigit() for s, d in zip(source, dims, strict=True)):
        return None  # of no entries
    out: list[int] = []
    for place in places(dims):
        starts = [plus(p[0], times(str(place.get(x, 0)), p[1])) for x, p in enumerate(pairs)]
        own = new.at(a, {x: int(starts[x]) for x in small_axes(source)})
        left = tuple(
            part(starts[x], "1") if x in place else pairs[x]
            for x, d in enumerate(source)
            if not is_small(d)
        )
        inner = tuple(
            ONE if is_small(d) else d for d, s in zip(dims, source, strict=True) if not is_small(s)
        )
        taken = new.sliced(own, left, inner) if left else own
        out.append(new.reshaped(taken, without_small(dims)))
    return tuple(out)


def unsliced(new: Components, i: int, op: Operation) -> Ids | None:
    """The components of the operand at the positions of the slice, and zeros elsewhere."""
    if _is_sum_in_memory(new, i, op):
        return None
    (b,) = op.args
    inner, dims, pairs = new.dims(b), op.dims, op.slices
    if any(is_small(d) and not n.isdigit() for n, d in zip(inner, dims, strict=True)):
        return None
    across = [x for x, n in enumerate(inner) if is_small(n) and not is_small(dims[x])]
    left = [x for x, d in enumerate(dims) if not is_small(d)]
    wide = op.region.wide and not across
    out: list[int] = []
    for place in places(dims):
        own = {x: entry_of_slice(at, pairs[x], inner[x]) for x, at in place.items()}
        if -1 in own.values():
            out.append(new.zero(op.dtype, without_small(dims)))
            continue
        terms: list[int] = []
        for spots in product(*(range(int(inner[x])) for x in across)):
            at = dict(zip(across, spots, strict=True))
            term = new.at(b, {x: k for x, k in (own | at).items() if is_small(inner[x])})
            slices = tuple(_shifted(pairs[x], at.get(x)) for x in left)
            shape = tuple(ONE if x in at else inner[x] for x in left)
            term = new.reshaped(term, shape)
            region = SliceParameters(slices, wide=wide)
            put = Operation(Kind.UNSLICE, "", (term,), op.dtypes, (without_small(dims),), region)
            terms.append(term if all(s == WHOLE for s in slices) else new.add(put))
        out.append(new.combined(Kind.ADD, "{0} + {1}", terms))
    return tuple(out)


def entry_of_slice(at: int, pair: tuple[str, str], size: str) -> int:
    """Which entry of a slice lies at position `at` of the array; -1 if none does."""
    k, odd = divmod(at - int(pair[0]), int(pair[1]))
    return k if not odd and 0 <= k < int(size) else -1


def _shifted(pair: tuple[str, str], at: int | None) -> tuple[str, str]:
    return pair if at is None else part(plus(pair[0], times(str(at), pair[1])), "1")

"""Adjoints of stencils: sums of terms that are added to overlapping slices, turned into gathers.

The adjoint of ``x[1:] - x[:-1]`` adds one array to two slices of a sum. Where such slices overlap,
a nest over their intersection (the interior) computes each entry of the sum from all terms at once:
a gather. Only the few entries around it (the boundary) are added to slice by slice. A loop a slice
would read and write the sum each time, and one loop that scatters would carry a dependence, which
prevents vectorisation. It is an idea of J. Hueckelheim et al., Automatic differentiation for
adjoint stencil loops, ICPP 2019: docs/decisions/stencil-adjoints.md.
"""

from __future__ import annotations

from dataclasses import replace

from ....kernel_rule import Kind
from ...ir.effect import Effect, EffectKind, Guard, ShiftedTerm, View
from ...ir.index_expressions import (
    FIRST,
    ONE,
    Axis,
    Dims,
    Index,
    identity,
    nonunit,
    plus,
    through_broadcast,
    through_ones,
    through_slice,
    times,
)
from ...ir.kernel_graph import Operation
from ...ir.loops import Ranges
from ..materialise.materialisation import Plan
from .memory_reads import fused_nodes

Leaf = tuple[int, tuple[int, ...], Dims]  # a term, the views between it and the sum, its shape


def stencil_adjoint_effects(plan: Plan, i: int) -> list[Effect]:
    """The effects of a sum of slices: gathers where terms overlap, updates for other terms."""
    dims = plan.ops[i].dims
    dense: list[View] = []
    shifted: list[ShiftedTerm] = []
    others: list[Effect] = []
    for leaf, chain, shape in _leaves(plan, i):
        op = plan.ops[leaf]
        if op.kind is Kind.SCATTER_ADD and (leaf == i or leaf in plan.analysis.absorbed):
            others.append(_scatter(plan, i, op, leaf, chain))
            continue
        place = _push(plan, identity(shape), shape, chain)
        term = (leaf, through_broadcast(identity(shape), op.dims, shape))
        slices = [plan.ops[c] for c in chain if plan.ops[c].kind is Kind.UNSLICE]
        wide = all(s.region.wide for s in slices)
        moved = _shifted_term(term, place, shape, dims) if wide else None
        if not slices and place == identity(dims):
            dense.append(term)
        elif slices and moved is not None and i not in plan.overwrites:
            shifted.append(moved)
        else:
            others.append(_update(plan, i, term, place, shape))
    if i in plan.overwrites:
        return [replace(u, overwrites=plan.overwrites[i]) for u in others]
    if shifted:
        return [*_gathered(plan, i, dense, shifted), *others]
    return [_initial_store(plan, i, dense), *others]


def _initial_store(plan: Plan, i: int, dense: list[View], excluded: Ranges = ()) -> Effect:
    """The store of the first values of the sum: the terms that cover all of it, or zeros."""
    dims = plan.ops[i].dims
    index = identity(dims)
    whole = len(dense) == 1 and dense[0][1] == index and not excluded
    return plan.effect(
        EffectKind.STORE, i, dims, tuple(dense), index, literal="" if dense else "0",
        excluded=excluded, copies_of=(dense[0][0],) if whole else (),
    )  # fmt: skip


def _update(plan: Plan, i: int, term: View, place: Index, shape: Dims) -> Effect:
    """The update that adds a term of this shape to the entries at `place` of the sum."""
    return plan.effect(EffectKind.UPDATE, i, shape, (term,), place, after=(i,))


def _scatter(plan: Plan, i: int, op: Operation, leaf: int, chain: tuple[int, ...]) -> Effect:
    """``out[positions] += bar``, with positions that are checked at run time."""
    bar, *positions = op.args
    dims = plan.ops[bar].dims
    lead = len(plan.ops[positions[0]].dims)
    index = identity(dims)
    place = _push(plan, (*(FIRST for _ in positions), *index[lead:]), op.dims, chain)
    views = tuple((p, index[:lead]) for p in positions)
    return replace(_update(plan, i, (bar, index), place, dims), positions=views)


def _leaves(plan: Plan, i: int) -> list[Leaf]:
    """The terms of a sum: a node, the views through which it is added, and its shape."""
    out: list[Leaf] = []
    stack: list[Leaf] = [(i, (), plan.ops[i].dims)]
    while stack:
        node, chain, shape = stack.pop()
        op = plan.ops[node]
        inside = node == i or node in plan.analysis.absorbed
        if inside and op.kind is Kind.ADD:
            stack.extend((a, chain, shape) for a in reversed(op.args))
        elif inside and op.kind in (Kind.UNSLICE, Kind.RESHAPE, Kind.TRANSPOSE):
            stack.append((op.args[0], (node, *chain), plan.ops[op.args[0]].dims))
        else:
            out.append((node, chain, shape))
    return out


def _push(plan: Plan, index: Index, dims: Dims, chain: tuple[int, ...]) -> Index:
    """The index in the sum of entry `index` of a term, through the views of its `chain`."""
    for c in chain:
        op = plan.ops[c]
        if op.kind is Kind.UNSLICE:
            index = through_slice(index, op.slices)
        elif op.kind is Kind.TRANSPOSE:
            index = tuple(index[a] for a in op.axes)
        else:
            index = through_ones(index, op.dims, dims)
        dims = op.dims
    return index


# --- gathering --------------------------------------------------------------------------------


def _shifted_term(term: View, place: Index, shape: Dims, dims: Dims) -> ShiftedTerm | None:
    """A term that is only shifted along axes of the sum; None if its entries lie otherwise."""
    axes = [a for a, d in enumerate(dims) if d != ONE]
    if any(place[a].var < 0 or place[a].step != "1" for a in axes):
        return None
    sizes = nonunit(shape)
    if sorted(place[a].var for a in axes) != list(range(len(sizes))):
        return None
    if any(place[a] != FIRST for a, d in enumerate(dims) if d == ONE):
        return None
    begin = tuple(place[a].start for a in axes)
    end = tuple(plus(place[a].start, sizes[place[a].var]) for a in axes)
    loops = [0] * len(axes)
    for k, a in enumerate(axes):
        loops[place[a].var] = k
    return ShiftedTerm(term, place, shape, begin, end, tuple(loops))


def _gathered(plan: Plan, i: int, dense: list[View], shifted: list[ShiftedTerm]) -> list[Effect]:
    """A gather of all terms over the interior, and updates of the boundary around it."""
    dims = plan.ops[i].dims
    domain, index = nonunit(dims), identity(dims)
    ranges: Ranges = tuple(
        _intersection([(s.begin[k], s.end[k]) for s in shifted], size)
        for k, size in enumerate(domain)
    )
    values = (*dense, *(_shifted_view(s, s.term) for s in shifted))
    inner = plan.effect(EffectKind.STORE, i, domain, values, index, ranges=ranges)
    if not any(ranges):
        return [replace(inner, ranges=())]
    around = [replace(_initial_store(plan, i, dense, excluded=ranges), boundary=True)]
    if len({(s.begin, s.end) for s in shifted}) > 1:
        around += [
            replace(
                _update(plan, i, _shifted_view(s, s.term), index, domain),
                excluded=ranges, boundary=True, guard=_guard_of(s, domain),
            )
            for s in shifted
        ]  # fmt: skip
    shifts = tuple(s for s in shifted if s.loops == tuple(range(len(domain))))
    return [*around, replace(inner, shifts=shifts)]


def fuse_reductions_with_gathers(plan: Plan, effects: list[Effect]) -> list[Effect]:
    """The effects, with reductions over a slice fused with the gather of the slice's adjoint.

    The reduction is done in two parts: over the interior, and over the boundary.
    """
    gathers = [effect for effect in effects if effect.shifts]
    if not gathers:
        return effects
    out: list[Effect] = []
    for effect in effects:
        op = plan.ops[effect.node]
        whole = effect.kind is EffectKind.REDUCE and len(effect.reduced) == len(effect.domain) > 0
        plain = whole and op.kind in (Kind.SUM, Kind.CONTRACT) and op.dtype == "f8"
        local = plain and plan.is_local(effect.node)
        match = _matching_gather(plan, gathers, effect) if local else None
        if match is None:
            out.append(effect)
            continue
        gather, s = match
        values = tuple(_shifted_view(s, v) for v in effect.values)
        moved = replace(effect, domain=gather.domain, values=values)
        guard = _guard_of(s, gather.domain)
        out += [
            replace(moved, boundary=True, excluded=gather.ranges, guard=guard),
            replace(moved, ranges=gather.ranges, after=(effect.node,), continues=True),
        ]
    return out


def _matching_gather(
    plan: Plan, gathers: list[Effect], reduction: Effect
) -> tuple[Effect, ShiftedTerm] | None:
    """The gather to fuse a reduction with, and its term over the same domain; None without one.

    Of several, the one whose term has the most operations in common with the reduction.
    """
    domain, best, most = reduction.domain, None, -1
    fused = [v[0] for v in reduction.values]
    own: set[int] | None = None
    for effect in gathers:
        for s in effect.shifts:
            if nonunit(s.shape) != domain:
                continue
            own = fused_nodes(plan, fused, plan.stored) if own is None else own
            common = len(own & fused_nodes(plan, [s.term[0]], plan.stored))
            if common > most:
                best, most = (effect, s), common
    return best


def _intersection(ranges: list[tuple[str, str]], size: str) -> tuple[str, str] | None:
    """The intersection of ranges of one axis; None if it is the whole axis."""
    begins, ends = (list(dict.fromkeys(bounds)) for bounds in zip(*ranges, strict=True))
    if begins == ["0"] and ends == [size]:
        return None
    begin = begins[0] if len(begins) == 1 else f"max({', '.join(begins)})"
    return begin, ends[0] if len(ends) == 1 else f"min({', '.join(ends)})"


def _shifted_view(s: ShiftedTerm, term: View) -> View:
    """A value in the loops over a term, as it is read in the loops over the sum."""

    def moved(axis: Axis) -> Axis:
        if axis.var < 0:
            return axis
        loop = s.loops[axis.var]
        before = times(axis.step, times("-1", s.begin[loop]))
        return Axis(loop, axis.step, plus(axis.start, before))

    node, index = term
    return node, tuple(map(moved, index))


def _guard_of(s: ShiftedTerm, domain: Dims) -> Guard:
    """The condition under which a term has a share in an entry of the sum."""
    ranges = enumerate(zip(s.begin, s.end, domain, strict=True))
    return tuple((k, begin, end) for k, (begin, end, n) in ranges if (begin, end) != ("0", n))

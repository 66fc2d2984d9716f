"""Rules of ops for terms: ops that act entry by entry, and ops that move entries.

A rule gives the terms of a node, given the terms of the operands that move (`ops/terms.py`). Maps and coefficients
are treated alike: slices and transposes of maps are views. What is not of the form of terms becomes a cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import fdiff.intact_numpy as np

from ..arraytype import Shape, broadcast_all
from ..tape import Node
from ..trace import Array, apply
from .terms import (
    Entries,
    LinearTerm,
    Run,
    TermSweep,
    common,
    in_other_rows,
    ones_like,
    placed,
    rows_key,
    whole,
    widened,
    without,
)

FEW = 16  # entries up to which a window that no reshape maps to a window is read entry by entry
FAR = 8  # a store into every n-th entry, n above this, leaves too many windows


# --- ops that act entry by entry ---------------------------------------------------------------


def entrywise(s: TermSweep, node: Node, *, cut: bool = False) -> list[LinearTerm]:
    """The op on each coefficient, in the place of its operand; zeros in the place of others that move.

    With `cut`, terms of sources that products are needed for are left out.
    """
    moving = [k for k, a in enumerate(node.args) if s.moves(a)]
    numbers = all(s.constant(a) for k, a in enumerate(node.args) if k not in moving)
    terms = []
    for q in moving:
        a = node.args[q]
        for term in s.terms_of(a) if numbers or cut else s.eased(a):
            if cut and s.multiplies(term):
                continue
            t = widened(term, s.type(a).shape, node.type.shape)
            factor = s.lift(ones_like(t, s.type(a).dtype))
            ids = [
                factor if k == q else s.lift(np.zeros((), s.type(b).dtype)) if k in moving else beside(s, b, t)
                for k, b in enumerate(node.args)
            ]
            terms.append(t._replace(coef=apply(node.primitive, *ids, **dict(node.params))))
    return terms


def selected(s: TermSweep, node: Node) -> list[LinearTerm]:
    """The op on each coefficient, or on the entries of a source: 0 times one that is infinite would be NaN."""
    condition, chosen, other = node.args
    if s.moves(chosen) and not s.moves(other) and s.holds(condition):
        return [widened(t, s.type(chosen).shape, node.type.shape) for t in s.terms_of(chosen)]
    terms: list[LinearTerm] = []
    for a in [a for a in node.args if s.moves(a)]:
        behind = [widened(t, s.type(a).shape, node.type.shape) for t in s.terms_of(a) if s.multiplies(t)]
        if behind:
            lists = s.resolved(behind, node.type)
            terms += s.cut([e._replace(values=_chosen(s, node, a, e)) for e in lists], node.type)
    return terms + entrywise(s, node, cut=True)


def _chosen(s: TermSweep, node: Node, arg: int, e: Entries) -> object:
    """The op on the values of entries of one operand."""
    dtype = s.type(arg).dtype
    values = np.ones(len(e.rows), dtype) if e.values is None else e.values.astype(dtype, copy=False)
    ids = []
    for b in node.args:
        if b == arg or s.moves(b):
            ids.append(s.lift(values if b == arg else np.zeros((), s.type(b).dtype)))
        else:
            flat = np.reshape(np.broadcast_to(s.value(b), node.type.shape), (-1,))
            ids.append(s.lift(flat[e.rows]))
    return apply(node.primitive, *ids, **dict(node.params))


def beside(s: TermSweep, arg: int, term: LinearTerm) -> Array:
    """The entries of an operand that does not move, beside the entries of a term of the result."""
    x = s.value(arg)
    count, extra = len(term.rows), term.cols.ndim - len(term.rows)
    if x.ndim < count:
        x = np.reshape(x, ((1,) * (count - x.ndim)) + x.shape)
    if any(n != 1 and run != (0, n, 1) for n, run in zip(x.shape, term.rows, strict=True)):
        x = x[tuple([slice(None) if n == 1 else key for n, key in zip(x.shape, rows_key(term.rows), strict=True)])]
    return np.reshape(x, x.shape + (1,) * extra) if extra else x


def signed(s: TermSweep, node: Node, signs: Sequence[int]) -> list[LinearTerm]:
    """The terms of all operands that move, of a sum with these signs of the operands."""
    terms = []
    for a, sign in zip(node.args, signs, strict=True):
        own = [widened(t, s.type(a).shape, node.type.shape) for t in s.terms_of(a)] if s.moves(a) else []
        terms += [t if sign > 0 else t._replace(coef=s.lift(-ones_like(t, node.type.dtype))) for t in own]
    return terms


def converted(s: TermSweep, node: Node) -> list[LinearTerm]:
    """The terms of the operand, with coefficients of the other dtype."""
    terms, params = s.terms_of(node.args[0]), dict(node.params)
    return [t if t.coef is None else t._replace(coef=apply(node.primitive, t.coef, **params)) for t in terms]


def multiplied(s: TermSweep, node: Node) -> list[LinearTerm]:
    """A product with what does not move: no factor 1 is multiplied in."""
    k = int(not s.moves(node.args[0]))
    a, b = node.args[k], node.args[1 - k]
    terms = []
    for term in s.terms_of(a) if s.constant(b) else s.eased(a):
        t = widened(term, s.type(a).shape, node.type.shape)
        factor = beside(s, b, t)
        terms.append(t._replace(coef=factor if t.coef is None else np.multiply(t.coef, factor)))
    return terms


# --- ops that move entries -----------------------------------------------------------------------


def moved(s: TermSweep, arg: int, where: np.ndarray) -> list[Entries]:
    """The entries of a node whose row `r` goes to ``where[r]``, or nowhere if that is below zero."""
    return in_other_rows(s.listed(s.terms_of(arg), s.type(arg)), where)


def sliced(s: TermSweep, node: Node) -> list[LinearTerm]:
    named = dict(node.params)
    runs = list(zip(named["starts"], named["sizes"], named["steps"], strict=True))
    terms = []
    for term in s.terms_of(node.args[0]):
        met = [common(run, own) for run, own in zip(runs, term.rows, strict=True)]
        both = [m for m in met if m is not None]
        if len(both) == len(met):
            terms.append(term.of_runs(tuple([rows for rows, _ in both]), [own for _, own in both]))
    return terms


def unsliced(s: TermSweep, node: Node) -> list[LinearTerm]:
    named = dict(node.params)
    return [placed(t, named["starts"], named["steps"]) for t in s.terms_of(node.args[0])]


def updated(s: TermSweep, node: Node) -> list[LinearTerm]:
    """Terms of a store: the base outside of the region, and the part as a window."""
    named = dict(node.params)
    base, part = node.args
    sizes = s.type(part).shape
    runs: list[Run] = []
    for start, n, step in zip(named["starts"], sizes, named["steps"], strict=True):
        runs.append((start, n, step) if step > 0 else (start + (n - 1) * step, n, -step))
    region = tuple(runs)
    terms: list[LinearTerm] = []
    if s.moves(base):
        if any(step > FAR for _, _, step in region):
            where = s.grid(node.type.shape).copy()
            where[rows_key(region)] = -1
            terms = s.cut(moved(s, base, where.reshape(-1)), node.type)
        else:
            terms = [left for t in s.terms_of(base) for left in (without(t, region) if prod(sizes) else [t])]
    if s.moves(part):
        terms = terms + [placed(t, named["starts"], named["steps"]) for t in s.terms_of(part)]
    return terms


def concatenated(s: TermSweep, node: Node) -> list[LinearTerm]:
    axis, at, terms = node.param("axis"), 0, []
    count = node.type.ndim
    for a in node.args:
        if s.moves(a):
            starts = tuple([at if k == axis else 0 for k in range(count)])
            terms += [placed(t, starts, (1,) * count) for t in s.terms_of(a)]
        at += s.type(a).shape[axis]
    return terms


def transposed(s: TermSweep, node: Node) -> list[LinearTerm]:
    axes = node.param("axes")
    terms = []
    for t in s.terms_of(node.args[0]):
        order = (*axes, *range(len(axes), t.cols.ndim))
        rows = tuple([t.rows[a] for a in axes])
        terms.append(t.changed(rows, lambda a, order=order: np.transpose(a, order)))
    return terms


def reshaped(s: TermSweep, node: Node) -> list[LinearTerm]:
    """Axes that are split or joined have to be whole in each window, or read entry by entry; flat numbers stay."""
    (a,) = node.args
    source, target = s.type(a).shape, node.type.shape
    groups = axis_groups(source, target)
    if groups is None:
        return s.cut(s.listed(s.terms_of(a), s.type(a)), node.type)
    parts = [part for t in s.terms_of(a) for part in _fitting(t, source, target, groups)]
    if any(part is None for part in parts):
        return s.cut(s.listed(s.terms_of(a), s.type(a)), node.type)
    return [_reshaped(t, source, target, groups) for t in parts if t is not None]


Groups = list[tuple[list[int], list[int]]]


def axis_groups(source: Shape, target: Shape) -> Groups | None:
    """Runs of axes of both shapes with as many entries; None for arrays without entries."""
    if not (prod(source) and prod(target)):
        return None
    i = j = 0
    groups: Groups = []
    while i < len(source) or j < len(target):
        first, second, n, m = [], [], 1, 1
        if i < len(source):
            first, n, i = [i], source[i], i + 1
        if j < len(target):
            second, m, j = [j], target[j], j + 1
        while n != m:
            if n < m:
                first.append(i)
                n, i = n * source[i], i + 1
            else:
                second.append(j)
                m, j = m * target[j], j + 1
        groups.append((first, second))
    return groups


def _fits(term: LinearTerm, source: Shape, target: Shape, first: list[int], second: list[int]) -> bool:
    """Whether a window is one of the reshaped array, along axes that are split or joined."""
    runs = [term.rows[k] for k in first]
    if all(run == (0, source[k], 1) for k, run in zip(first, runs, strict=True)) or all(n == 1 for _, n, _ in runs):
        return True
    return sum(source[k] != 1 for k in first) == 1 == sum(target[k] != 1 for k in second)


def _fitting(term: LinearTerm, source: Shape, target: Shape, groups: Groups) -> list[LinearTerm | None]:
    """The term, entry by entry along the axes where its window does not fit; None where these are many."""
    apart = [k for first, second in groups if not _fits(term, source, target, first, second) for k in first]
    if prod([term.rows[k][1] for k in apart]) > FEW:
        return [None]
    return [*one_by_one(term, apart)]


def one_by_one(term: LinearTerm, axes: Sequence[int]) -> list[LinearTerm]:
    """A term for each entry along some axes."""
    parts = [term]
    for k in axes:
        start, n, step = term.rows[k]
        parts = [_entry_along(part, k, (start + step * j, 1, 1), j) for part in parts for j in range(n)]
    return parts


def _entry_along(term: LinearTerm, axis: int, row: Run, place: int) -> LinearTerm:
    """One entry of a term along an axis."""
    rows, runs = [*term.rows], [(0, n, 1) for _, n, _ in term.rows]
    rows[axis], runs[axis] = row, (place, 1, 1)
    return term.of_runs(tuple(rows), runs)


def _reshaped(term: LinearTerm, source: Shape, target: Shape, groups: Groups) -> LinearTerm:
    """A term whose window fits."""
    rows = _reshaped_window(term, source, target, groups)

    def change(a: Array) -> Array:
        lead, new = list(a.shape[: len(source)]), [1] * len(target)
        for first, second in groups:
            if any(a.shape[k] != 1 for k in first):
                for k in first:
                    lead[k] = term.rows[k][1]
                for k in second:
                    new[k] = rows[k][1]
        rest = a.shape[len(source) :]
        full = (*lead, *rest)
        return np.reshape(a if full == a.shape else np.broadcast_to(a, full), (*new, *rest))

    return term.changed(rows, change)


def _reshaped_window(term: LinearTerm, source: Shape, target: Shape, groups: Groups) -> tuple[Run, ...]:
    """The window of a term in the reshaped array."""
    rows: list[Run] = [(0, n, 1) for n in target]
    for first, second in groups:
        if all(term.rows[k] == (0, source[k], 1) for k in first):
            continue
        long, wide = [k for k in first if source[k] != 1], [k for k in second if target[k] != 1]
        if len(long) == len(wide) == 1:
            rows[wide[0]] = term.rows[long[0]]
            continue
        at = np.ravel_multi_index([term.rows[k][0] for k in first], [source[k] for k in first])
        for k, start in zip(second, np.unravel_index(at, [target[k] for k in second]), strict=True):
            rows[k] = (int(start), 1, 1)
    return tuple(rows)


# --- indices -------------------------------------------------------------------------------------


def positive_indices(s: TermSweep, args: Sequence[int], shape: Shape) -> list[np.ndarray]:
    """Index arrays of one shape, counted from the beginning."""
    arrays = broadcast_all(*[s.index(a) for a in args])
    return [np.where(i < 0, i + n, i) for i, n in zip(arrays, shape, strict=False)]


def gathered(s: TermSweep, node: Node) -> list[LinearTerm]:
    source, *args = node.args
    shape, count = s.type(source).shape, len(args)
    indices = positive_indices(s, args, shape)
    terms, picked = s.lean(source, node.type.size), indices[0].shape
    if any(t.rows[:count] != whole(shape[:count]) for t in terms):
        terms = s.source_of(source)
    lead, behind = (1,) * len(picked), whole(picked)

    def change(a: Array) -> Array:
        if all(n == 1 for n in a.shape[:count]) and prod(shape[:count]) != 1:
            return np.reshape(a, (*lead, *a.shape[count:]))
        if a.shape[:count] != shape[:count]:
            a = np.broadcast_to(a, (*shape[:count], *a.shape[count:]))
        return a[tuple(indices)] if isinstance(a, np.ndarray) else apply(node.primitive, a, *map(s.value, args))

    return [t.changed((*behind, *t.rows[count:]), change) for t in terms]


def scattered_sum(s: TermSweep, node: Node) -> list[LinearTerm]:
    places = s.grid(node.type.shape)[tuple(positive_indices(s, node.args[1:], node.type.shape))]
    return s.cut(moved(s, node.args[0], places.reshape(-1)), node.type)


def scattered(s: TermSweep, node: Node) -> list[LinearTerm]:
    """Of several stores to one entry the last one counts."""
    base, part, *args = node.args
    size = node.type.size
    flat = s.grid(node.type.shape)[tuple(positive_indices(s, args, node.type.shape))].reshape(-1)
    last = np.full(size, -1)
    last[flat] = np.arange(len(flat))
    where = np.where(last[flat] == np.arange(len(flat)), flat, -1)
    if not s.moves(base) and len(flat) <= FEW:
        return [t for own in s.terms_of(part) for t in _scattered(own, s.type(part).shape, where, node.type.shape)]
    lists: list[Entries] = []
    if s.moves(base):
        lists = moved(s, base, np.where(last < 0, s.grid((size,)), -1))
    if s.moves(part):
        lists = lists + moved(s, part, where)
    return s.cut(lists, node.type)


def _scattered(term: LinearTerm, source: Shape, where: np.ndarray, target: Shape) -> list[LinearTerm]:
    """The entries of a term, each where it is stored."""
    terms: list[LinearTerm] = []
    count, lead = len(source), (1,) * len(target)
    for t in one_by_one(term, range(count)):
        place = where[np.ravel_multi_index([start for start, _, _ in t.rows], source)] if source else where[0]
        if place >= 0:
            rows = tuple([(int(k), 1, 1) for k in np.unravel_index(place, target)])
            terms.append(t.changed(rows, lambda a: np.reshape(a, (*lead, *a.shape[count:]))))
    return terms

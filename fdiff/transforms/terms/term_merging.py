"""Merge the terms of a node: equal places, maps, tied axes: docs/decisions/terms-and-cuts.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod

import fdiff.intact_numpy as np

from ...arraytype import broadcast, distinct
from ...named_tuples import NamedTuple
from ...ops.shapes.view_ops import unslice
from ...ops.terms import LinearTerm, Rows, ones_like
from ...trace import Array, TracedArray, apply
from .affine_maps import Maps

MANY = 32  # terms beyond which terms of one entry along an axis are left alone: they are cut
SMALL = 8  # the length up to which an axis is untied


class Merging:
    """How the terms of one node are combined; `dtype` is the dtype of the node."""

    def __init__(self, maps: Maps, lift: Callable[[object], TracedArray], dtype: np.dtype) -> None:
        self.maps, self.lift, self.dtype = maps, lift, dtype

    def merged(self, terms: Sequence[LinearTerm]) -> list[LinearTerm]:
        """Combine the terms of a sum into fewer terms."""
        if len(terms) < 2:
            return [*terms]
        fewer = self._of_same_places(terms)
        fewer = self._untied(fewer) if len(fewer) > 1 else fewer
        return self._of_boxes(fewer) if len(fewer) > 1 else fewer

    def _ones(self, term: LinearTerm) -> TracedArray:
        return self.lift(ones_like(term, self.dtype))

    def _added(self, first: LinearTerm, second: LinearTerm) -> LinearTerm:
        return first._replace(coef=self.lift(self._ones(first) + self._ones(second)))

    def _of_same_places(self, terms: Sequence[LinearTerm]) -> list[LinearTerm]:
        """Add terms with equal source, rows and columns."""
        groups: dict[object, list[LinearTerm]] = {}
        for t in terms:
            groups.setdefault((t.source, t.rows, t.domain, t.cols.shape), []).append(t)
        sums: list[LinearTerm] = []
        for group in groups.values():
            own: dict[object, list[LinearTerm]] = {}
            for t in group:
                alike = own.setdefault(self.maps.key(t.cols) if len(group) > 1 else None, [])
                same = (k for k, u in enumerate(alike) if self.maps.same(u.cols, t.cols))
                if (k := next(same, -1)) < 0:
                    alike.append(t)
                else:
                    alike[k] = self._added(alike[k], t)
            sums += [t for alike in own.values() for t in alike]
        return sums

    # --- columns side by side ---------------------------------------------------------------

    def side_by_side(self, terms: Sequence[LinearTerm]) -> list[LinearTerm]:
        """Join terms with equal rows and row-independent columns into one term."""
        groups: dict[object, list[LinearTerm]] = {}
        for k, t in enumerate(terms):
            count = len(t.rows)
            fixed = prod(t.cols.shape[:count]) == 1 and t.cols.shape[count:] == t.extra
            each_once = fixed and len(distinct(t.cols)) == t.cols.size
            groups.setdefault((t.source, t.rows) if each_once else k, []).append(t)
        return [g[0] if len(g) == 1 else self._concatenated_columns(g) for g in groups.values()]

    def _concatenated_columns(self, terms: Sequence[LinearTerm]) -> LinearTerm:
        """One term with the columns of several, in order; entries of equal columns are added."""
        count = len(terms[0].rows)
        columns = [t.cols.reshape(-1) for t in terms]
        union = distinct(np.concatenate(columns))
        place = np.full((len(terms), len(union)), -1)
        for own, at in zip(place, columns, strict=True):
            own[np.searchsorted(union, at)] = np.arange(len(at))
        there = place >= 0
        goes_on = (there[:, 1:] == there[:, :-1]) & (~there[:, 1:] | (np.diff(place) == 1))
        ends = [0, *np.flatnonzero(~np.all(goes_on, axis=0)) + 1, len(union)]
        flat = [self._flat_columns(t) for t in terms]
        parts = []
        for low, high in pairwise(ends):
            first, *more = [
                f[..., own[low] : own[low] + high - low]
                for f, own in zip(flat, place, strict=True)
                if own[low] >= 0
            ]
            parts.append(sum(more, first))
        lead = broadcast(*[c.shape[:count] for c in parts])
        parts = [np.broadcast_to(c, (*lead, c.shape[-1])) for c in parts]
        coef = self.lift(np.concatenate(parts, axis=-1))
        cols = union.reshape((*(1,) * count, -1))
        if union[-1] - union[0] == len(union) - 1:
            sides = [(1, 0)] * count
            cols = self.maps.affine(int(union[0]), sides, [(len(union), 1)])
        return LinearTerm(terms[0].rows, cols, coef, terms[0].source)

    def _flat_columns(self, t: LinearTerm) -> Array:
        """The coefficient of a term with one axis for all of its columns."""
        factor, count = self._ones(t), len(t.rows)
        full = (*factor.shape[:count], *t.extra)
        factor = factor if factor.shape == full else np.broadcast_to(factor, full)
        return np.reshape(factor, (*full[:count], prod(t.extra)))

    # --- tied axes --------------------------------------------------------------------------

    def _untied(self, terms: Sequence[LinearTerm]) -> list[LinearTerm]:
        """Merge a term with columns along a small axis into one with all columns in each row."""
        groups: dict[object, list[LinearTerm]] = {}
        for t in terms:
            groups.setdefault((t.source, t.rows), []).append(t)
        untied: list[LinearTerm] = []
        for group in groups.values():
            kept, k = [*group], 0
            while k < len(kept):
                pairs = ((j, self._tied(kept[k], u)) for j, u in enumerate(kept) if j != k)
                j, joint = next(((j, tied) for j, tied in pairs if tied is not None), (-1, None))
                if joint is None:
                    k += 1
                else:
                    kept[j] = joint
                    del kept[k]
            untied += kept
        return untied

    def _tied(self, t: LinearTerm, u: LinearTerm) -> LinearTerm | None:
        """The sum of both, where columns of `t` go along an axis, of `u` along an extra one."""
        count = len(t.rows)
        if u.cols.ndim != t.cols.ndim + 1:
            return None
        for k, (_, n, _) in enumerate(t.rows):
            if not 1 < n <= SMALL or t.cols.shape[k] != n or u.cols.shape[k] != 1:
                continue
            for e in range(count, u.cols.ndim):
                moved = np.swapaxes(np.expand_dims(t.cols, e), k, e)
                if (*t.extra[: e - count], n, *t.extra[e - count :]) != u.extra:
                    continue
                if u.cols.shape[e] == n and self.maps.same(moved, u.cols):
                    shape = [n if a in (k, e) else 1 for a in range(u.cols.ndim)]
                    eye = np.eye(n, dtype=bool).reshape(shape)
                    factor = self._ones(t)
                    wide = np.reshape(factor, (*factor.shape[:e], 1, *factor.shape[e:]))
                    alone = np.where(eye, wide, np.zeros((), self.dtype))  # no infinity times 0
                    return u._replace(coef=self.lift(self._ones(u) + alone))
        return None

    # --- boxes ------------------------------------------------------------------------------

    def _of_boxes(self, terms: Sequence[LinearTerm]) -> list[LinearTerm]:
        """Merge terms of one affine map whose windows together are a box."""
        buckets: dict[object, list[tuple[LinearTerm, Affine]]] = {}
        others: list[LinearTerm] = []
        many = len(terms) > MANY
        for t in terms:
            affine = self._affine(t)
            fixed = affine is not None and prod(t.cols.shape[: len(t.rows)]) == 1
            if affine is None or (many and not fixed and None in affine.steps):
                others.append(t)
                continue
            alike = () if not many else affine.first if fixed else affine.steps
            bucket = buckets.setdefault((t.source, affine.extra, t.extra, alike), [])
            for k, (u, other) in enumerate(bucket):
                joint = self._hull(u, other, t, affine)
                if joint is not None:
                    bucket[k] = joint
                    break
            else:
                bucket.append((t, affine))
        return others + [t for bucket in buckets.values() for t, _ in bucket]

    def _affine(self, t: LinearTerm) -> Affine | None:
        first = self.maps.first(t.cols)
        if first is None or any(step != 1 for _, _, step in t.rows):
            return None
        size, count = t.cols.itemsize, len(t.rows)
        steps: list[int | None] = []
        for (_, n, _), m, stride in zip(t.rows, t.cols.shape, t.cols.strides, strict=False):
            steps.append(stride // size if m > 1 else 0 if n > 1 else None)
        far = [
            (m, s // size if m > 1 else 0)
            for m, s in zip(t.cols.shape[count:], t.cols.strides[count:], strict=True)
        ]
        return Affine(first, tuple(steps), tuple(far))

    def _hull(
        self, t: LinearTerm, a: Affine, u: LinearTerm, b: Affine
    ) -> tuple[LinearTerm, Affine] | None:
        """The sum of both, of equal further axes, as one term; None if it is not of that form."""
        steps = [*a.steps] if a.steps == b.steps else _joint_steps(a.steps, b.steps)
        if steps is None:
            return None
        steps = [step or 0 for step in steps]
        origin, other = a.first, b.first
        for (start, _, _), (begin, _, _), step in zip(t.rows, u.rows, steps, strict=True):
            origin, other = origin - start * step, other - begin * step
        if origin != other:
            return None
        box, shared = hull_of(t.rows, u.rows)
        both = prod(n for _, n, _ in t.rows) + prod(n for _, n, _ in u.rows)
        if both - shared != prod(n for _, n, _ in box):
            return None
        first = origin + sum(low * step for (low, _, _), step in zip(box, steps, strict=True))
        cols = self.maps.affine(
            first, [(n, s) for (_, n, _), s in zip(box, steps, strict=True)], a.extra
        )
        joint = LinearTerm(box, cols, self.lift(self._sum_in(box, t, u, shared)), t.source)
        return joint, Affine(
            first,
            tuple([s if n > 1 else None for (_, n, _), s in zip(box, steps, strict=True)]),
            a.extra,
        )

    def _sum_in(self, box: Rows, t: LinearTerm, u: LinearTerm, shared: int) -> Array:
        """Both coefficients in a box, zeros around each, or beside each other."""
        uneven = [k for k, (x, y) in enumerate(zip(t.rows, u.rows, strict=True)) if x != y]
        first, second = (self._spread(x, uneven) for x in (t, u))
        if shared or len(uneven) > 1:
            return _padded(first, t.rows, box, uneven) + _padded(second, u.rows, box, uneven)
        (k,) = uneven
        lead = broadcast(*[(*c.shape[:k], 1, *c.shape[k + 1 :]) for c in (first, second)])
        pair = (first, second) if t.rows[k][0] < u.rows[k][0] else (second, first)
        return np.concatenate(
            [np.broadcast_to(c, (*lead[:k], c.shape[k], *lead[k + 1 :])) for c in pair], axis=k
        )

    def _spread(self, t: LinearTerm, uneven: Sequence[int]) -> Array:
        """The coefficient of a term with all its entries along some axes."""
        factor = self._ones(t)
        shape = tuple([t.rows[k][1] if k in uneven else n for k, n in enumerate(factor.shape)])
        return factor if factor.shape == shape else np.broadcast_to(factor, shape)


def _padded(coef: Array, rows: Rows, box: Rows, uneven: Sequence[int]) -> Array:
    """A coefficient with zeros around it, along the axes where a box is larger than its window."""
    shape = tuple([box[k][1] if k in uneven else n for k, n in enumerate(coef.shape)])
    if coef.shape == shape:
        return coef
    starts = tuple([rows[k][0] - box[k][0] if k in uneven else 0 for k in range(coef.ndim)])
    return apply(unslice, coef, starts=starts, steps=(1,) * coef.ndim, shape=shape)


class Affine(NamedTuple):
    """A map: the column of its first entry, and steps along axes; None if the length is 1."""

    first: int
    steps: tuple[int | None, ...]
    extra: tuple[tuple[int, int], ...]  # length and step of the further axes


def hull_of(a: Rows, b: Rows) -> tuple[Rows, int]:
    """The least box around two windows of steps 1, and how many entries they have in common."""
    box, shared = [], 1
    for (p, n, _), (q, m, _) in zip(a, b, strict=True):
        low, high = min(p, q), max(p + n, q + m)
        box.append((low, high - low, 1))
        shared *= max(0, min(p + n, q + m) - max(p, q))
    return tuple(box), shared


def _joint_steps(steps: Sequence[int | None], others: Sequence[int | None]) -> list[int] | None:
    """The steps of a map, from the steps of two parts; None where they differ.

    Where neither has two entries along an axis, the map is taken to be the same along it.
    """
    joint: list[int] = []
    for a, b in zip(steps, others, strict=True):
        step = (b or 0) if a is None else a
        if b is not None and b != step:
            return None
        joint.append(step)
    return joint

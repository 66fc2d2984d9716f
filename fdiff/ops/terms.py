"""Terms: the Jacobian of a node of a linear tape, and what the rules that make it may ask of a sweep.

The node is a sum of terms. A term lies on a box-shaped domain: its leading axes are the node's axes within
a window (`rows`), its further axes run over several columns of one row. ``cols``, the flat numbers of entries
of the source, and ``coef``, their factors, broadcast against the domain: an axis of length 1 is the same along it.
Nothing is said of entries that no term names: they are zero, whatever stands beside them.

The walk is `transforms/terms/term_sweep.py`; why it is done this way: docs/decisions/terms-and-cuts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import Protocol

import fdiff.intact_numpy as np

from ..arraytype import ArrayType, Shape
from ..named_tuples import NamedTuple
from ..tape import Node
from ..trace import Array, TracedArray

Run = tuple[int, int, int]  # start, size and step (above 0) of the entries along an axis
Rows = tuple[Run, ...]  # a window: a run along each axis
Change = Callable[[Array], Array]  # of a map and of a coefficient alike
SEED = -1  # the source that the tape is linear in; the others are cuts, by number


class LinearTerm(NamedTuple):
    """Some entries of the Jacobian of a node with respect to one source."""

    rows: Rows
    cols: np.ndarray
    coef: TracedArray | None  # None for the number 1
    source: int

    @property
    def extra(self) -> Shape:
        """The lengths of the axes that run over the columns of one row."""
        count = len(self.rows)
        own = self.cols.shape[count:]
        if self.coef is None or own == (more := self.coef.shape[count:]):
            return own
        return tuple([m if n == 1 else n for n, m in zip(own, more, strict=True)])

    @property
    def domain(self) -> Shape:
        return (*extent(self.rows), *self.extra)

    @property
    def size(self) -> int:
        """The number of entries."""
        return prod(self.domain)

    def changed(self, rows: Rows, change: Change) -> LinearTerm:
        """The term of other rows, its map and its coefficient changed alike."""
        return LinearTerm(rows, change(self.cols), self.coef if self.coef is None else change(self.coef), self.source)

    def of_runs(self, rows: Rows, runs: Sequence[Run]) -> LinearTerm:
        """The term of the entries that `runs` count (steps of both signs), as entries of `rows`."""
        if all(run == (0, own[1], 1) for run, own in zip(runs, self.rows, strict=True)):
            return self._replace(rows=rows)
        key = tuple([_slice(run) for run in runs])
        return self.changed(rows, lambda a: _along(a, key))


class Entries(NamedTuple):
    """Entries of a Jacobian, listed: flat rows, flat columns and values (traced, constant, or None for ones)."""

    rows: np.ndarray
    cols: np.ndarray
    values: Array | None
    source: int

    def at(self, places: np.ndarray, rows: np.ndarray) -> Entries:
        """Some of these entries, in other rows."""
        return Entries(rows, self.cols[places], taken(self.values, places), self.source)


def in_other_rows(lists: Sequence[Entries], where: np.ndarray) -> list[Entries]:
    """The entries of each row `r` in row ``where[r]``, or in none if that is below zero."""
    moved = []
    for entries in lists:
        rows = where[entries.rows]
        there = np.flatnonzero(rows >= 0)
        if len(there) == len(rows):
            moved.append(entries._replace(rows=rows))
        elif len(there):
            moved.append(entries.at(there, rows[there]))
    return moved


def taken(values: Array | None, places: np.ndarray) -> Array | None:
    """Values at places; None stays. A broadcast array is read at its base."""
    if not isinstance(values, TracedArray):
        return None if values is None else values[places]
    nodes, i, views = values.home.builder.nodes, values.id, []
    while nodes[i].primitive.structure.view and nodes[i].primitive.structure.moves:
        views.append(nodes[i])
        (i,) = nodes[i].args
    base = nodes[i].type
    if base.size >= values.size:
        return values[places]
    where = np.arange(base.size).reshape(base.shape)
    for node in reversed(views):
        where = node.primitive.rules.evaluate(where, **dict(node.params))
    read = np.reshape(TracedArray(values.home, i, base), (-1,))
    return read[where[places]]


def whole(shape: Shape) -> Rows:
    """The window of all entries."""
    return tuple([(0, n, 1) for n in shape])


def extent(rows: Rows) -> Shape:
    """The lengths of the sides of a window."""
    return tuple([size for _, size, _ in rows])


def rows_key(rows: Rows) -> tuple[slice, ...]:
    """The slices that read a window."""
    return tuple(map(_slice, rows))


def _slice(run: Run) -> slice:
    start, size, step = run
    end = start + size * step
    return slice(start, None if end < 0 else end, step)


def _along(array: Array, key: tuple[slice, ...]) -> Array:
    """A part of a map or a coefficient, along the axes that it varies along."""
    return array[tuple([slice(None) if n == 1 else k for n, k in zip(array.shape, key, strict=False)])]


def common(taken_run: Run, own: Run) -> tuple[Run, Run] | None:
    """The entries that two runs have in common, counted in either; None if there are none.

    The step of the first may be below zero; then the step of the second result may be, too.
    """
    (start, size, step), (begin, count, stride) = taken_run, own
    if not size or not count:
        return None
    shared = gcd(step, stride)
    if (begin - start) % shared:
        return None
    every, along = stride // shared, step // shared
    k = (begin - start) // shared * pow(along, -1, every) % every if every > 1 else 0
    j = (start + step * k - begin) // stride
    if along > 0:
        low, high = -(j // along), (count - 1 - j) // along
    else:
        low, high = -((count - 1 - j) // -along), j // -along
    low, high = max(low, 0), min(high, (size - 1 - k) // every)
    n = high - low + 1
    if n <= 0:
        return None
    return (k + every * low, n, every if n > 1 else 1), (j + along * low, n, along if n > 1 else 1)


def placed(term: LinearTerm, starts: Sequence[int], steps: Sequence[int]) -> LinearTerm:
    """A term of a part as one of the array that it is put into, by steps of both signs."""
    rows: list[Run] = []
    runs: list[Run] = []
    for (begin, n, stride), start, step in zip(term.rows, starts, steps, strict=True):
        first, far = start + begin * step, stride * step
        backwards = far < 0 and n > 1
        rows.append((first + (n - 1) * far, n, -far) if backwards else (first, n, far if n > 1 else 1))
        runs.append((n - 1, n, -1) if backwards else (0, n, 1))
    return term.of_runs(tuple(rows), runs)


def without(term: LinearTerm, region: Rows) -> list[LinearTerm]:
    """The terms of the entries that lie outside of a region: a box, which may leave out every other entry."""
    met = [common(cut, own) for cut, own in zip(region, term.rows, strict=True)]
    inner = [both[1] for both in met if both is not None]
    if len(inner) < len(met):
        return [term]
    outer: list[LinearTerm] = []
    runs: list[Run] = [(0, n, 1) for _, n, _ in term.rows]
    for k, (at, n, step) in enumerate(inner):
        end = at + (n - 1) * step + 1
        outside = [(0, at, 1), (end, term.rows[k][1] - end, 1)]
        outside += [(at + r, n - 1, step if n > 2 else 1) for r in range(1, step)]
        for run in outside:
            if run[1] > 0:
                runs[k] = run
                rows = [(a + d * j, m, d * q if m > 1 else 1) for (a, _, d), (j, m, q) in zip(term.rows, runs, strict=True)]
                outer.append(term.of_runs(tuple(rows), runs))
        runs[k] = (at, n, step)
    return outer


def widened(term: LinearTerm, shape: Shape, target: Shape) -> LinearTerm:
    """A term of an operand of `shape` as one of what it is broadcast to."""
    if shape == target:
        return term
    lift = len(target) - len(shape)
    old: Rows = ((0, 1, 1),) * lift + term.rows
    rows = tuple([(0, n, 1) if m == 1 else run for n, m, run in zip(target, (1,) * lift + tuple(shape), old, strict=True)])
    return term.changed(rows, lambda a: np.reshape(a, (*(1,) * lift, *a.shape)) if lift else a)


def ones_like(term: LinearTerm, dtype: np.dtype) -> Array:
    """The coefficient of a term as an array."""
    return np.ones((1,) * term.cols.ndim, dtype) if term.coef is None else term.coef


class TermSweep(Protocol):
    """The sweep over a linear tape that asks the rules."""

    def moves(self, i: int) -> bool:
        """Whether a node depends on the seed."""
        ...

    def type(self, i: int) -> ArrayType: ...
    def value(self, i: int) -> TracedArray:
        """A node that does not move."""
        ...

    def constant(self, i: int) -> bool:
        """Whether a node that does not move is a constant."""
        ...

    def index(self, i: int) -> np.ndarray:
        """The value of a node of indices, which is then part of the structure."""
        ...

    def holds(self, i: int) -> bool:
        """Whether all entries of a node are true, as far as that follows from what is part of the structure."""
        ...

    def terms_of(self, i: int) -> list[LinearTerm]: ...
    def eased(self, i: int) -> list[LinearTerm]:
        """The terms of a node; for a node that adds several entries, the terms of a source of its
        own.
        """
        ...

    def lean(self, i: int, count: int) -> list[LinearTerm]:
        """The terms of a node about to be copied to `count` entries; a cut where a row has several columns."""
        ...

    def cut(self, entries: list[Entries], type_: ArrayType) -> list[LinearTerm]:
        """The terms of a node that becomes a source of its own, given its entries."""
        ...

    def source_of(self, i: int) -> list[LinearTerm]:
        """The terms of a node that becomes a source of its own."""
        ...

    def listed(self, terms: Sequence[LinearTerm], type_: ArrayType) -> list[Entries]: ...
    def multiplies(self, term: LinearTerm) -> bool:
        """Whether coefficients are multiplied by entries of a source before."""
        ...

    def resolved(self, terms: Sequence[LinearTerm], type_: ArrayType) -> list[Entries]:
        """The entries of terms with respect to the seed."""
        ...

    def allow(self, count: int) -> None:
        """Refuse more entries than memory holds, or than are cheaper than sweeps, before they are listed."""
        ...

    def grid(self, shape: Shape) -> np.ndarray:
        """The flat numbers of the entries of an array: a view of memory that all maps share."""
        ...

    def lift(self, value: object) -> TracedArray: ...


Rule = Callable[[TermSweep, Node], list[LinearTerm]]

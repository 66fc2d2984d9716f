"""Cuts: nodes that become sources of terms, and products of listed Jacobians.

What follows a cut is listed with respect to it; its own Jacobian is listed with respect to the
sources before. Their product is the elimination of a vertex, for whole arrays, after the idea of
A. Griewank and U. Naumann, Accumulating Jacobians as chained sparse matrix products, Math. Program.
95, 2003.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, real_dtype
from ...named_tuples import NamedTuple
from ...ops.terms import SEED, Entries, LinearTerm, in_other_rows, taken
from ...trace import Array, TracedArray
from ...user_lines import Line
from .sparse_slots import SparsePlaces, filled, places_of, repeats

LARGE = 256  # entries of a list that stays alone


class Cut(NamedTuple):
    """A source: its entries, or of a sum of several entries its terms with constant factors.

    `size` is the number of its real columns: of a complex array two for each entry.
    """

    entries: list[Entries] | None
    terms: list[tuple[LinearTerm, float]]
    size: int
    dtype: np.dtype
    line: Line | None


class Listed(NamedTuple):
    """A Jacobian with respect to the seed, each place once."""

    places: SparsePlaces
    values: Array | None


class Cuts:
    """All cuts of a sweep, by number; `allow` refuses too many products."""

    def __init__(self, columns: int, allow: Callable[[int], None]) -> None:
        self.columns, self.allow = columns, allow  # columns of the seed
        self.all: list[Cut] = []
        self.products = 0
        self._of_seed: dict[int, list[Entries]] = {}
        self._listed: dict[int, Listed] = {}

    def add(self, entries: list[Entries], type_: ArrayType, line: Line | None) -> int:
        """A source with these entries."""
        size = type_.size
        if type_.dtype.kind == "c":
            entries, size = [part for e in entries for part in _real_parts(e)], 2 * size
        self.all.append(Cut(entries, [], size, real_dtype(type_.dtype), line))
        return len(self.all) - 1

    def add_sum(
        self, terms: list[tuple[LinearTerm, float]], type_: ArrayType, line: Line | None
    ) -> int:
        """Add a source, a sum of terms with constant factors, without a list of its entries."""
        self.all.append(Cut(None, terms, type_.size, type_.dtype, line))
        return len(self.all) - 1

    def multiplies(self, source: int) -> bool:
        """Whether entries of a source are multiplied: the seed has none, and sums add theirs."""
        if source == SEED:
            return False
        cut = self.all[source]
        return cut.entries is not None or any(self.multiplies(t.source) for t, _ in cut.terms)

    def _needed(self, entries: Sequence[Entries]) -> list[int]:
        """The unresolved sources of these entries, in order."""
        due = [e.source for e in entries]
        met: set[int] = set()
        while due:
            source = due.pop()
            if source == SEED or source in met or source in self._of_seed:
                continue
            met.add(source)
            cut = self.all[source]
            due += (
                [t.source for t, _ in cut.terms]
                if cut.entries is None
                else [e.source for e in cut.entries]
            )
        return sorted(met)

    def of_seed(self, entries: Sequence[Entries], rows: int, dtype: np.dtype) -> list[Entries]:
        """The entries with respect to the seed, of a Jacobian that has `rows` rows."""
        for source in self._needed(entries):
            cut = self.all[source]
            if cut.entries is not None:
                self._of_seed[source] = self._resolved(cut.entries, cut.size, cut.dtype)
        return self._resolved(entries, rows, dtype)

    def _resolved(self, entries: Sequence[Entries], rows: int, dtype: np.dtype) -> list[Entries]:
        """The entries with respect to the seed, once the sources that they lead to are resolved."""
        entries, resolved = [*entries], []
        while entries:
            source = max(e.source for e in entries)
            own = [e for e in entries if e.source == source]
            entries = [e for e in entries if e.source != source]
            if source == SEED:
                resolved += own
            elif self.all[source].entries is None:
                entries += self._added(own, self.all[source])
            elif (moved := self._renamed(own, source)) is not None:
                resolved += moved
            else:
                resolved += self._multiplied(own, source, rows, dtype)
        return resolved

    def _added(self, own: Sequence[Entries], cut: Cut) -> list[Entries]:
        """Entries of a source that is a sum, as entries of the summands."""
        lists = []
        for e in own:
            for term, factor in cut.terms:
                values = e.values
                if factor != 1:
                    values = (
                        np.full(len(e.rows), factor, cut.dtype)
                        if values is None
                        else values * factor
                    )
                cols = np.broadcast_to(term.cols, term.domain).reshape(-1)[e.cols]
                lists.append(Entries(e.rows, cols, values, term.source))
        return lists

    def _renamed(self, own: Sequence[Entries], source: int) -> list[Entries] | None:
        """Where entries of a source are only moved, and none twice: its entries in other rows."""
        if any(e.values is not None for e in own):
            return None
        cols = np.concatenate([e.cols for e in own])
        where = np.full(self.all[source].size, -1)
        where[cols] = np.concatenate([e.rows for e in own])
        if np.count_nonzero(where >= 0) != len(cols):
            return None
        return in_other_rows(self._of_seed[source], where)

    def listed(self, source: int) -> Listed:
        """The Jacobian of a source with respect to the seed, each place once."""
        if source not in self._listed:
            cut = self.all[source]
            if source not in self._of_seed:
                self._of_seed[source] = self.of_seed(cut.entries or [], cut.size, cut.dtype)
            entries = self._of_seed[source]
            places = places_of(entries, (cut.size, self.columns))
            if all(e.values is None for e in entries) and len(places.cols) == len(places.slots):
                self._listed[source] = Listed(places, None)
            else:
                values = filled(entries, places.slots, len(places.cols), cut.dtype)
                self._listed[source] = Listed(places, values)
        return self._listed[source]

    def _multiplied(
        self, own: Sequence[Entries], source: int, rows: int, dtype: np.dtype
    ) -> list[Entries]:
        """The product of entries of a source with its Jacobian, which has each place once."""
        (starts, cols, _), values = self.listed(source)
        size = self.all[source].size
        if repeats(own, size):
            places = places_of(own, (rows, size))
            packed = filled(own, places.slots, len(places.cols), dtype)
            own = [Entries(places.rows, places.cols.astype(np.int64), packed, source)]
        lists = []
        for e in own:
            low = starts[e.cols]
            count = starts[e.cols + 1] - low
            self.allow(int(np.sum(count, dtype=np.int64)))
            places = np.repeat(np.arange(len(e.rows)), count)
            at = np.arange(len(places)) + np.repeat(low - np.cumsum(count) + count, count)
            self.products += len(places)
            left, right = taken(e.values, places), taken(values, at)
            both = left if right is None else right if left is None else left * right
            lists.append(Entries(e.rows[places], cols[at].astype(np.int64), both, SEED))
        return lists


def _real_parts(e: Entries) -> list[Entries]:
    """Complex entries as real and imaginary parts, which are rows beside each other."""
    real = e._replace(rows=2 * e.rows, values=None if e.values is None else np.real(e.values))
    if e.values is None:
        return [real]
    imag = e._replace(rows=2 * e.rows + 1, values=np.imag(e.values))
    assert isinstance(real.values, (TracedArray, np.ndarray))
    return [real, imag]


def joined_entries(entries: Sequence[Entries], dtype: np.dtype) -> list[Entries]:
    """Many lists as one for each source and kind of values: ones, constants, and what is traced."""
    groups: dict[object, list[Entries]] = {}
    for e in entries:
        large = len(e.rows) > LARGE and isinstance(e.values, TracedArray)
        groups.setdefault((e.source, type(e.values), id(e) if large else 0), []).append(e)
    lists = []
    for group in groups.values():
        rows = np.concatenate([e.rows for e in group])
        cols = np.concatenate([e.cols for e in group])
        parts = [e.values for e in group if e.values is not None and len(group) > 1]
        parts = [np.asarray(p, dtype) if isinstance(p, np.ndarray) else p for p in parts]
        values = np.concatenate(parts) if parts else None
        lists.append(group[0] if len(group) == 1 else Entries(rows, cols, values, group[0].source))
    return lists

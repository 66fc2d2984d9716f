"""Slots of the entries of a sparse matrix, and the values stored there.

Compressed rows: Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section
3.4.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...named_tuples import NamedTuple
from ...ops.shapes.gather_scatter import scatter_add
from ...ops.terms import Entries
from ...trace import Array, TracedArray, apply
from .slot_stores import as_computed, stored_pieces

INT32 = 2**31  # sizes from here on need wider indices


class SparsePlaces(NamedTuple):
    """The places of a sparse matrix, in order, each once: where each row starts, and the columns.

    `slots` tell for each listed entry where it is stored.
    """

    starts: np.ndarray
    cols: np.ndarray
    slots: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


def places_of(
    entries: Sequence[Entries], shape: tuple[int, int], *, by_columns: bool = False
) -> SparsePlaces:
    """The places of listed entries, sorted by rows (or by columns, which then count as rows).

    They are what `textbook_places` gives. Entries listed in order are not sorted here, sorted runs
    are merged by NumPy's stable sort in linear time, and memory is used again.
    """
    high, wide = shape[::-1] if by_columns else shape
    ends = np.cumsum([0, *[len(e.rows) for e in entries]])
    count = int(ends[-1])
    key = np.empty(count, np.int64)  # in place: memory that is new costs more than the sorting
    for e, part in zip(entries, np.split(key, ends[1:-1]), strict=False):
        np.multiply(e.cols if by_columns else e.rows, wide, out=part)
        np.add(part, e.rows if by_columns else e.cols, out=part)
    index = np.int32 if max(count, high, wide) < INT32 else np.int64
    if bool(np.all(key[1:] > key[:-1])):
        slots = np.arange(count)
    else:
        order = np.argsort(key, kind="stable")
        key = key[order]
        new = np.ones(count, bool)
        np.not_equal(key[1:], key[:-1], out=new[1:])
        slots = np.empty(count, np.int64)
        if new.all():
            slots[order] = np.arange(count)
        else:
            slots[order] = np.cumsum(new, dtype=index) - 1
            key = key[new]
    rows = key // max(wide, 1)
    starts = _ends(np.bincount(rows, minlength=high), index)
    np.multiply(rows, wide, out=rows)
    return SparsePlaces(starts, np.subtract(key, rows, out=rows).astype(index), slots)


def textbook_places(entries: Sequence[Entries], shape: tuple[int, int]) -> SparsePlaces:
    """The places of listed entries by one sort: the reference of `test_term_algebra.py`."""
    numbers = [e.rows.astype(np.int64) * shape[1] + e.cols for e in entries]
    places, slots = np.unique(np.concatenate(numbers), return_inverse=True)
    rows, cols = np.divmod(places, max(shape[1], 1))
    return SparsePlaces(np.searchsorted(rows, np.arange(shape[0] + 1)), cols, slots)


def mirrored(lower: SparsePlaces) -> tuple[SparsePlaces, np.ndarray]:
    """The places of a symmetric matrix, from the places of its lower triangle.

    Each row is the triangle's row, then the column below the diagonal. The second result tells
    for each place where in the triangle its value stands.
    """
    rows, cols, index = lower.rows, lower.cols, lower.cols.dtype
    below = np.flatnonzero(rows != cols)
    left, right = np.diff(lower.starts), np.bincount(cols[below], minlength=len(lower.starts) - 1)
    starts = _ends(left + right, index)
    by_column = below[np.argsort(cols[below], kind="stable")]
    columns = cols[by_column]
    first = _ends(right, index)[:-1]
    own = np.arange(len(cols)) + (starts - lower.starts)[rows]
    across = np.arange(len(columns)) + (starts[:-1] + left - first)[columns]
    indices, source = np.empty(starts[-1], index), np.empty(starts[-1], np.int64)
    indices[own], indices[across] = cols, rows[by_column]
    source[own], source[across] = np.arange(len(cols)), by_column
    return SparsePlaces(starts, indices, own), source


def across_slots(lower: SparsePlaces, places: SparsePlaces, source: np.ndarray) -> np.ndarray:
    """Where each listed entry of a triangle is stored across the diagonal; -1 for those on it."""
    across = np.full(len(lower.cols), -1)
    second = np.ones(len(source), bool)
    second[places.slots] = False
    upper = np.flatnonzero(second)
    across[source[upper]] = upper
    return across[lower.slots]


def _ends(counts: np.ndarray, index: np.dtype | type) -> np.ndarray:
    """Where each row starts, and the last one ends."""
    starts = np.zeros(len(counts) + 1, index)
    np.cumsum(counts, out=starts[1:])
    return starts


def _concatenated(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def filled(entries: Sequence[Entries], slots: np.ndarray, size: int, dtype: np.dtype) -> Array:
    """The values in their slots: constants once, then each list by stores, or sums where slots
    repeat.

    Everything that is constant is one array; what is not, is traced.
    """
    ends = np.cumsum([len(e.rows) for e in entries])[:-1]
    split = zip(np.split(slots, ends), entries, strict=True) if entries else ()
    parts = [(slot, e) for slot, e in split if len(slot)]
    base = np.zeros(size, dtype)
    taken = np.zeros(size, bool)
    for slot, e in parts:
        if not isinstance(e.values, TracedArray):
            np.add.at(base, slot, 1 if e.values is None else e.values)
            taken[slot] = True
    data: Array = base
    apart: list[
        tuple[TracedArray, np.ndarray]
    ] = []  # what is stored, and then what is added to that
    more: list[tuple[TracedArray, np.ndarray]] = []
    for slot, e in parts:
        if not isinstance(e.values, TracedArray):
            continue
        values = e.values.astype(dtype, copy=False)
        whole = len(slot) == size and data is base and not apart
        if whole and np.array_equal(slot, np.arange(size)):
            data = values + data if taken.any() else values
        else:
            (more if taken[slot].any() or not _differ(slot, size) else apart).append((values, slot))
        taken[slot] = True
    data = stored_pieces(data, apart)
    for values, slot in more:
        data = data + apply(scatter_add, *as_computed(values, slot), shape=(size,))
    return data


def _differ(slot: np.ndarray, size: int) -> bool:
    """Whether no slot occurs twice."""
    seen = np.zeros(size, bool)
    seen[slot] = True
    return int(np.count_nonzero(seen)) == len(slot)


def repeats(entries: Sequence[Entries], width: int) -> bool:
    """Whether a place is listed more than once."""
    key = _concatenated([e.rows * width + e.cols for e in entries])
    if bool(np.all(key[1:] > key[:-1])):
        return False
    key = np.sort(key, kind="stable")
    return bool(np.any(key[1:] == key[:-1]))

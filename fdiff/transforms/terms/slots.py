"""Where entries of a sparse matrix are stored, and the values put there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import fdiff.intact_numpy as np

from ...ops.gather_scatter import scatter_add, scatter_set
from ...ops.terms import Entries
from ...trace import TracedArray, apply

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

    Listed entries are runs that are sorted, which NumPy's stable sort merges in linear time.
    """
    rows, cols = (_joined([e[k] for e in entries]) for k in (0, 1))
    high, wide = shape
    if by_columns:
        rows, cols, high, wide = cols, rows, wide, high
    count = len(rows)
    small = max(count, high, wide) < INT32
    index = np.int32 if small else np.int64
    key = rows * wide
    key += cols
    if count < 2 or bool(np.all(key[1:] > key[:-1])):
        slots = np.arange(count)
    else:
        order = np.argsort(key, kind="stable")
        key = key[order]
        new = np.ones(count, bool)
        np.not_equal(key[1:], key[:-1], out=new[1:])
        slots = np.empty(count, np.int64)
        slots[order] = np.cumsum(new, dtype=index) - 1
        key = key[new]
    first = key // wide if wide else key
    starts = np.zeros(high + 1, index)
    np.cumsum(np.bincount(first, minlength=high), out=starts[1:])
    return SparsePlaces(starts, (key - first * wide).astype(index), slots)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def filled(entries: Sequence[Entries], slots: np.ndarray, size: int, dtype: np.dtype) -> Any:
    """The values in their slots: constants once, then each list by stores, or sums where slots
    repeat.

    Everything that is constant is one array; what is not, is traced.
    """
    ends = np.cumsum([len(e.rows) for e in entries])[:-1]
    parts = list(zip(np.split(slots, ends), entries, strict=True)) if entries else []
    base = np.zeros(size, dtype)
    taken = np.zeros(size, bool)
    for slot, e in parts:
        if not isinstance(e.values, TracedArray):
            np.add.at(base, slot, 1 if e.values is None else e.values)
            taken[slot] = True
    data: Any = base
    for slot, e in parts:
        if not isinstance(e.values, TracedArray):
            continue
        values = e.values.astype(dtype, copy=False)
        if (
            len(slot) == size
            and isinstance(data, np.ndarray)
            and np.array_equal(slot, np.arange(size))
        ):
            data = values if not taken.any() else values + data
        elif not taken[slot].any() and _differ(slot, size):
            data = apply(scatter_set, data, values, slot)
        else:
            data = data + apply(scatter_add, values, slot, shape=(size,))
        taken[slot] = True
    return data


def _differ(slot: np.ndarray, size: int) -> bool:
    """Whether no slot occurs twice."""
    seen = np.zeros(size, bool)
    seen[slot] = True
    return int(np.count_nonzero(seen)) == len(slot)


def repeats(entries: Sequence[Entries], width: int) -> bool:
    """Whether a place is listed more than once."""
    key = _joined([e.rows * width + e.cols for e in entries])
    if bool(np.all(key[1:] > key[:-1])):
        return False
    key = np.sort(key, kind="stable")
    return bool(np.any(key[1:] == key[:-1]))

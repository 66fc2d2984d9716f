"""Structures of sparse matrices: SciPy's own matrices, with 1, 2, 3, ... in the place of the entries."""

from __future__ import annotations

from typing import Protocol

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse as sp

BASES = ("csr", "csc", "coo")  # formats whose entries are one array


class SparseStructure(Protocol):
    """A matrix of `scipy.sparse`, whose stubs know no class for all formats."""

    data: np.ndarray
    shape: tuple[int, int]
    format: str
    nnz: int

    def __getitem__(self, key: object, /) -> SparseStructure: ...
    def __matmul__(self, other: SparseStructure, /) -> SparseStructure: ...
    def asformat(self, format: str, copy: bool = False) -> SparseStructure: ...
    def copy(self) -> SparseStructure: ...
    def multiply(self, other: object) -> SparseStructure: ...
    def transpose(self, axes: None = None, copy: bool = False) -> SparseStructure: ...


def base(format: str) -> str:
    return format if format in BASES else "csr"


def numbered(matrix: SparseStructure) -> SparseStructure:
    """A matrix of this structure whose entries are numbered from 1 in their order."""
    return _with_data(matrix, np.arange(1, matrix.data.size + 1))


def ones(matrix: SparseStructure) -> SparseStructure:
    return _with_data(matrix, np.ones(matrix.data.size, int))


def _with_data(matrix: SparseStructure, data: np.ndarray) -> SparseStructure:
    new = matrix.copy()
    new.data = data
    data.flags.writeable = False  # so that SciPy sorts nothing in place: entries are found by their order
    return new


def of_places(rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int], *, matrix: bool) -> SparseStructure:
    return getattr(sp, "coo_matrix" if matrix else "coo_array")((np.arange(1, len(rows) + 1), (rows, cols)), shape=shape)


def of_kind(matrix: SparseStructure, *, matrix_kind: bool) -> SparseStructure:
    """A matrix of SciPy's older or newer kind, which shares the arrays of this one."""
    return getattr(sp, f"{matrix.format}_{'matrix' if matrix_kind else 'array'}")(matrix)


def in_order(numbers: np.ndarray, size: int) -> bool:
    return len(numbers) == size and bool(np.array_equal(numbers, np.arange(1, size + 1)))


def distinct(rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Different places, and which of them each entry belongs to; None, and the places as they are, if all differ."""
    keys = rows.astype(np.int64) * shape[1] + cols
    unique, slots = np.unique(keys, return_inverse=True)
    if len(unique) == len(keys):
        return rows, cols, None
    return *np.divmod(unique, shape[1]), slots.astype(np.int64)


def by_lines(matrix: SparseStructure) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Line and place in the line of each entry of a CSR or CSC matrix, and where each line starts."""
    starts = matrix.indptr.astype(np.int64)
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts)), matrix.indices.astype(np.int64), starts


def _keys(matrix: SparseStructure) -> np.ndarray:
    coo = matrix.tocoo(copy=False)
    return coo.row.astype(np.int64) * matrix.shape[1] + coo.col


def _slots(keys: np.ndarray, matrix: SparseStructure) -> np.ndarray:
    """For each key the entry of a matrix that stands there, counted from 1; 0 where none does."""
    own = _keys(matrix)
    order = np.argsort(own, kind="stable")
    at = np.searchsorted(own, keys, sorter=order)
    slots = order[np.minimum(at, len(own) - 1)] if len(own) else np.zeros(len(keys), int)
    there = own[slots] == keys if len(own) else np.zeros(len(keys), bool)
    return np.where(there, slots + 1, 0)


def numbers_at(matrix: SparseStructure, places: SparseStructure) -> np.ndarray:
    """The numbers of the entries that a matrix has at the places of another; 0 where it has none."""
    return _slots(_keys(places), matrix)


def meetings(a: SparseStructure, b: SparseStructure, product: SparseStructure) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which entries of `a` and `b` are multiplied in their product (from 1), and which entry of it each adds to (from 0)."""
    left, right = (m.tocsr() for m in (a, b))
    rows, inner, _ = by_lines(left)
    _, cols, starts = by_lines(right)
    count = np.diff(starts)[inner]
    first = np.repeat(np.arange(len(inner)), count)
    second = np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count) + starts[inner][first]
    slots = _slots(rows[first] * product.shape[1] + cols[second], product) - 1
    return left.data[first], right.data[second], slots

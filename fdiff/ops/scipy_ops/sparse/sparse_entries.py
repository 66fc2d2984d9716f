"""The places of a sparse matrix with traced entries, and what moves entries elsewhere.

SciPy itself says which entries a result has, in which order and format: it computes with a matrix of the same
structure whose entries are 1, 2, 3, ... (`sparse_structures.py`), and the traced entries follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn, Self, cast

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse as sp

from ....foreign_errors import hiding
from ....trace import Array, TracedArray, apply, unsupported
from ....trace.static_arguments import settled
from ...shapes.gather_scatter import scatter_add
from . import sparse_structures as structures
from .sparse_ops import Shape

FORMATS = ("coo", "csc", "csr", "dia", "dok", "lil")
# How far SciPy's storage of the entries is known: to all digits of `data`, but for entries that are zero, which SciPy
# leaves out, or not at all.
KEPT, WITHOUT_ZEROS, OTHERWISE = range(3)
_PARTS = ("nnz", "size", "indices", "indptr", "row", "col", "coords", "has_sorted_indices", "has_canonical_format")


class SparseEntries:
    """A sparse matrix whose entries are `values`, in the order of the entries of `stored`.

    The entries of `stored`, of format CSR, CSC or COO, are 1, 2, 3, ...; `format` is the format of SciPy's matrix.
    """

    __slots__ = ("format", "storage", "stored", "values")
    ndim = 2
    values: TracedArray
    stored: structures.SparseStructure
    format: str
    storage: int

    def __init__(self, values: TracedArray, rows: np.ndarray, cols: np.ndarray, shape: Shape, *, format: str, matrix: bool) -> None:
        """Of entries in any order; those at the same place are added up, but in format COO."""
        if format != "coo":
            rows, cols, slots = structures.distinct(rows, cols, shape)
            values = values.copy() if slots is None else apply(scatter_add, values, slots, shape=(len(rows),))
        stored = structures.of_places(rows, cols, shape, matrix=matrix)
        self._fill(values, stored.asformat(structures.base(format)), format, KEPT if format in structures.BASES else OTHERWISE)

    def _fill(self, values: TracedArray, moved: structures.SparseStructure, format: str, storage: int) -> None:
        """Take the entries whose numbers a matrix holds, in its order."""
        self.values = picked(values, moved.data)
        self.stored, self.format, self.storage = structures.numbered(moved), format, storage

    @classmethod
    def of_stored(cls, values: Array, moved: structures.SparseStructure, storage: int = KEPT) -> Self:
        """Of a matrix of SciPy's that holds the numbers of the entries."""
        new = cls.__new__(cls)
        if moved.format not in structures.BASES:
            storage = OTHERWISE
        new._fill(values, moved.asformat(structures.base(moved.format)), moved.format, storage)
        return new

    # --- what NumPy code asks of it ---

    @property
    @hiding
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    @hiding
    def shape(self) -> Shape:
        return self.stored.shape

    @property
    @hiding
    def matrix(self) -> bool:
        """Whether it is of SciPy's older kind, whose `*` is the product of matrices."""
        return isinstance(self.stored, sp.spmatrix)

    @property
    @hiding
    def T(self) -> Self:  # noqa: N802 - SciPy's word
        return self.transpose()

    @property
    @hiding
    def data(self) -> TracedArray:
        """The entries in the order of this format."""
        self._check_storage("data")
        return self.values

    def _check_storage(self, name: str) -> None:
        """Refuse what depends on how SciPy stores the matrix, where that is another way."""
        if self.storage == OTHERWISE or (self.storage == WITHOUT_ZEROS and not np.all(self.values != 0)):
            refuse(f"`{name}` of a matrix that SciPy stores in another order, or without the entries that are zero,")

    @hiding
    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or not (hasattr(self.stored, name) or hasattr(sp.csr_array, name)):
            raise AttributeError(f"'{self.format}_{'matrix' if self.matrix else 'array'}' object has no attribute {name!r}")
        if name not in _PARTS:
            refuse(f"`{name}` of a matrix")
        self._check_storage(name)
        part = getattr(self.stored, name)
        return part.copy() if isinstance(part, np.ndarray) else part

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.values.type}, shape {self.shape}>"

    def __bool__(self) -> bool:
        raise ValueError("The truth value of an array with more than one element is ambiguous. Use a.any() or a.all().")

    def __iter__(self) -> Iterator[object]:
        return (self[k] for k in range(self.shape[0]))

    # --- the same entries in other places ---

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries."""
        coo = self.stored.tocoo(copy=False)
        return coo.row.astype(np.int64), coo.col.astype(np.int64)

    def distinct(self) -> Self:
        """The matrix with one entry at a place."""
        rows, cols = self.places()
        if self.stored.format != "coo" and self.stored.has_canonical_format:
            return self
        if structures.distinct(rows, cols, self.shape)[2] is None:
            return self
        matrix = type(self)(self.values, rows, cols, self.shape, format="csr", matrix=self.matrix).asformat(self.format)
        matrix.storage = OTHERWISE
        return matrix

    def _moved(self, moved: structures.SparseStructure) -> Self:
        """The matrix in which SciPy has put the numbers of the entries elsewhere; what shares memory there does here."""
        new = self.of_stored(self.values, moved, self.storage)
        if new.values is self.values and not np.may_share_memory(moved.data, self.stored.data):
            new.values = self.values.copy()
        return new

    def transpose(self, axes: object = None, copy: bool = False) -> Self:
        return self._moved(self.stored.transpose(copy=copy))

    def copy(self) -> Self:
        return self._moved(self.stored.copy())

    def asformat(self, format: str | None, copy: bool = False) -> Self:
        if format is None or format == self.format:
            return self.copy() if copy else self
        if format not in FORMATS:
            refuse(f"format {format!r} of a matrix")
        if self.stored.format == "coo" and format != "coo":
            new = type(self)(self.values, *self.places(), self.shape, format=format, matrix=self.matrix)
            new.storage = max(new.storage, self.storage)
            return new
        new = self._moved(self.stored.asformat(structures.base(format), copy=copy))
        new.format, new.storage = format, self.storage if format in structures.BASES else OTHERWISE
        return new

    def reshape(self, *shape: object, **options: object) -> Self:
        matrix = self.distinct()
        return matrix._moved(matrix.stored.reshape(*cast("tuple[object, ...]", settled(shape)), **options))

    def __getitem__(self, key: object) -> object:
        matrix = self.distinct()
        return matrix._entries_at(matrix.stored[settled(key)])

    def getrow(self, i: int) -> object:
        matrix = self.distinct()
        return matrix._entries_at(matrix.stored.getrow(i))

    def getcol(self, j: int) -> object:
        matrix = self.distinct()
        return matrix._entries_at(matrix.stored.getcol(j))

    def _entries_at(self, numbers: Array) -> object:
        """The entries at SciPy's numbers of entries."""
        if isinstance(numbers, np.matrix):
            refuse("entries of a sparse matrix by two lists, which are a numpy.matrix (take a sparse array),")
        if not sp.issparse(numbers):
            return self.numbered_entries(np.asarray(numbers))
        if numbers.ndim != 2:
            refuse("a row of a sparse array, which has one dimension (write K[[i]], or K.toarray()[i]),")
        return self._moved(numbers)

    def numbered_entries(self, numbers: np.ndarray) -> TracedArray:
        """A dense array with the entries of these numbers, and zero where the number is zero."""
        flat = numbers.reshape(-1)
        there = np.flatnonzero(flat)
        out = apply(scatter_add, picked(self.values, flat[there]), there, shape=(len(flat),)).reshape(numbers.shape)
        return out if numbers.ndim else out[()]

    def toarray(self, *_: object, **__: object) -> TracedArray:
        return apply(scatter_add, self.values, *self.places(), shape=self.shape)

    def todense(self, *_: object, **__: object) -> TracedArray:
        self._no_matrix("`todense`")
        return self.toarray()

    def _no_matrix(self, what: str) -> None:
        """Refuse what gives a `numpy.matrix` for SciPy's older class (``csr_matrix``, ...), whose `*` is the matrix product."""
        if self.matrix:
            refuse(f"{what}, which is a numpy.matrix (write `toarray()`, or take a sparse array instead of a sparse matrix),")

    def diagonal(self, k: int = 0) -> TracedArray:
        matrix = self.distinct()
        return matrix.numbered_entries(matrix.stored.diagonal(k))

    def trace(self, offset: int = 0) -> TracedArray:
        return np.sum(self.diagonal(offset))

    def sum(self, axis: int | tuple[int, int] | None = None, dtype: object = None, out: object = None) -> TracedArray:
        if out is not None:
            refuse("`sum` with out=")
        values: TracedArray = self.values if dtype is None else self.values.astype(dtype)
        if axis is None or axis in ((0, 1), (1, 0)):
            return np.sum(values)
        self._no_matrix("`sum` along an axis")
        if axis not in (0, 1, -1, -2):
            raise ValueError("axis out of range")
        left = 1 if axis in (0, -2) else 0
        return apply(scatter_add, values, self.places()[left], shape=(self.shape[left],))

    def mean(self, axis: object = None, dtype: object = None, out: object = None) -> TracedArray:
        total = self.sum(axis, dtype, out)
        return total / (self.shape[0] * self.shape[1] / total.size)

    # --- methods that change it in place ---

    def eliminate_zeros(self) -> None:
        self.storage = max(self.storage, WITHOUT_ZEROS)

    def __setitem__(self, key: object, value: object) -> None:
        refuse("a store into a matrix (make it of entries that have the value: coo_array((data, (rows, cols))))")


def _convert(name: str) -> Callable[..., SparseEntries]:
    return lambda self, copy=False: self.asformat(name, copy)


def _reordered(name: str) -> Callable[..., None]:
    def method(self: SparseEntries) -> None:
        matrix = self.distinct() if name == "sum_duplicates" else self
        moved = matrix.stored.copy()
        getattr(moved, name)()
        self._fill(matrix.values, moved, self.format, self.storage)

    return method


for _name in FORMATS:
    setattr(SparseEntries, f"to{_name}", _convert(_name))
for _name in ("sum_duplicates", "sort_indices"):
    setattr(SparseEntries, _name, _reordered(_name))


def refuse(what: str) -> NoReturn:
    raise unsupported(f"scipy.sparse: {what} with traced entries")


def picked(values: TracedArray, numbers: np.ndarray) -> TracedArray:
    """The entries of these numbers, counted from 1."""
    if structures.in_order(numbers, values.size):
        return values
    return values[numbers.astype(np.int64) - 1]

"""The traced counterpart of SciPy's sparse matrices: constant positions, in the order of the rows, and traced entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse as sp

from ...arraytype import promote
from ...errors import UNNAMED, InputError, failure
from ...trace import TracedArray, apply, guarded_value, unsupported
from ...tree import register
from ..families import kind_of
from ..scipy_functions import TO_LIBRARY, concrete
from ..shaping import traced
from .sparse_ops import Shape, product, solve

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")


class TracedSparse:
    """The traced counterpart of a sparse matrix; `values` are its entries in the order of the rows."""

    __slots__ = ("cols", "format", "matrix", "rows", "shape", "starts", "values")
    __array_priority__ = 1001.0
    __array_ufunc__ = None  # NumPy's operators leave the answer to this class
    __fdiff_sparse__ = True
    ndim = 2

    def __init__(self, values: TracedArray, rows: np.ndarray, cols: np.ndarray, shape: Shape, *, format: str, matrix: bool) -> None:
        self.values = values
        self.rows, self.cols = rows, cols
        self.starts = np.searchsorted(rows, np.arange(shape[0] + 1))
        self.shape = shape
        self.format = format
        self.matrix = matrix  # of SciPy's older kind, whose `*` is the product of matrices

    # --- what NumPy code asks of it ---

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    def nnz(self) -> int:
        return len(self.rows)

    @property
    def T(self) -> TracedSparse:  # noqa: N802 - SciPy's word
        return self.transpose()

    @property
    def data(self) -> TracedArray:
        """The entries in the order of this format."""
        if self.format == "csc":
            return self.values[np.lexsort((self.rows, self.cols))]
        if self.format not in ("csr", "coo"):
            _refuse(f"`data` of a matrix of format {self.format}")
        return self.values

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or not hasattr(sp.csr_array, name):
            raise AttributeError(f"'{self.format}_{'matrix' if self.matrix else 'array'}' object has no attribute {name!r}")
        _refuse(f"`{name}` of a matrix")

    def __repr__(self) -> str:
        return f"TracedSparse<{self.values.type}, shape {self.shape}>"

    def _like(self, values: TracedArray) -> TracedSparse:
        return TracedSparse(values, self.rows, self.cols, self.shape, format=self.format, matrix=self.matrix)

    def transpose(self, axes: object = None, copy: bool = False) -> TracedSparse:
        order = np.lexsort((self.rows, self.cols))
        other = {"csr": "csc", "csc": "csr"}.get(self.format, self.format)
        return TracedSparse(self.values[order], self.cols[order], self.rows[order], self.shape[::-1], format=other, matrix=self.matrix)

    def copy(self) -> TracedSparse:
        return self._like(self.values)

    def asformat(self, format: str | None, copy: bool = False) -> TracedSparse:
        return TracedSparse(self.values, self.rows, self.cols, self.shape, format=format or self.format, matrix=self.matrix)

    def toarray(self, *_: object, **__: object) -> TracedArray:
        return self @ np.eye(self.shape[1], dtype=self.dtype)

    def todense(self, *_: object, **__: object) -> TracedArray:
        self._no_matrix("`todense`")
        return self.toarray()

    def _no_matrix(self, what: str) -> None:
        """Refuse what gives a `numpy.matrix` for SciPy's older class (`csr_matrix`, ...), whose `*` is the matrix product."""
        if self.matrix:
            _refuse(f"{what}, which is a numpy.matrix (write `toarray()`, or take a sparse array instead of a sparse matrix),")

    def diagonal(self, k: int = 0) -> TracedArray:
        return np.diagonal(self.toarray(), k)

    def sum(self, axis: int | None = None, dtype: object = None, out: object = None) -> TracedArray:
        if axis is None:
            return np.sum(self.values, dtype=dtype)
        self._no_matrix("`sum` along an axis")
        return (self if axis in (1, -1) else self.T) @ np.ones(self.shape[axis], self.dtype)

    # --- arithmetic ---

    def _times(self, x: object, *, transposed: bool) -> TracedArray:
        """The matrix, or its transpose, times a vector or the columns of a matrix."""
        dense = traced(x)
        dtype = promote(kind_of(self.values), kind_of(dense))
        inner = self.shape[not transposed]
        if dense.ndim not in (1, 2) or dense.shape[0] != inner:
            raise ValueError(f"matmul: dimension mismatch with signature (n,k={inner}),(k={np.shape(x)[:1]},m)->(n,m)")
        columns = (dense[:, None] if dense.ndim == 1 else dense).astype(dtype)
        out = apply(product, self.values.astype(dtype), self.rows, self.cols, self.starts, columns, shape=self.shape, transposed=transposed)
        return out[:, 0] if dense.ndim == 1 else out

    def __matmul__(self, other: object) -> object:
        if is_sparse(other):
            _refuse("the product of two sparse matrices")
        if np.ndim(other) == 0:
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self._times(other, transposed=False)

    def __rmatmul__(self, other: object) -> object:
        dense = traced(other)
        return np.transpose(self._times(np.transpose(dense), transposed=True))

    def dot(self, other: object) -> object:
        return self * other if not is_sparse(other) and np.ndim(other) == 0 else self @ other

    def __mul__(self, other: object) -> object:
        if is_sparse(other):
            return self @ other if self.matrix else self.multiply(other)
        if np.ndim(other) == 0:
            return self._like(np.multiply(self.values, other))
        return self @ other if self.matrix else self.multiply(other)

    def __rmul__(self, other: object) -> object:
        if np.ndim(other) == 0:
            return self._like(np.multiply(other, self.values))
        return other @ self if self.matrix else self.multiply(other)

    def multiply(self, other: object) -> object:
        """Product entry by entry with something dense, at the places of this matrix."""
        if is_sparse(other):
            _refuse("the product entry by entry of two sparse matrices")
        dense = np.broadcast_to(traced(other), self.shape)
        return self._like(self.values * dense[self.rows, self.cols])

    def __truediv__(self, other: object) -> object:
        if is_sparse(other):
            _refuse("the quotient of two sparse matrices")
        if np.ndim(other) == 0:
            return self._like(np.divide(self.values, other))
        return self.multiply(np.divide(1.0, other))

    def __neg__(self) -> TracedSparse:
        return self._like(-self.values)

    def _added(self, other: object, sign: float) -> object:
        if not is_sparse(other):
            if np.ndim(other) == 0:
                if not isinstance(other, TracedArray) and other == 0:
                    return self.copy()
                raise NotImplementedError("adding a nonzero scalar to a sparse array is not supported")
            self._no_matrix("a sum with a dense array")
            return np.add(self.toarray(), other) if sign > 0 else np.subtract(self.toarray(), other)
        second = lifted(other)
        if second.shape != self.shape:
            raise ValueError(f"inconsistent shapes: {self.shape} and {second.shape}")
        dtype = promote(kind_of(self.values), kind_of(second.values))
        values = np.concatenate([self.values.astype(dtype), (sign * second.values).astype(dtype)])
        places = np.concatenate([self.rows, second.rows]), np.concatenate([self.cols, second.cols])
        return gathered(values, *places, self.shape, format="csr", matrix=self.matrix)

    def __add__(self, other: object) -> object:
        return self._added(other, 1.0)

    def __sub__(self, other: object) -> object:
        return self._added(other, -1.0)

    __radd__ = __add__

    def __rsub__(self, other: object) -> object:
        return -self._added(other, -1.0)

    def solved(self, b: object, *, keep: bool = False) -> TracedArray:
        """The solution of the system; for one column a vector, as SciPy's `spsolve` gives, unless `keep`."""
        if self.shape[0] != self.shape[1]:
            raise ValueError(f"matrix must be square (has shape {self.shape})")
        right = traced(b)
        if right.ndim not in (1, 2) or right.shape[0] != self.shape[0]:
            raise ValueError(f"matrix - rhs dimension mismatch ({self.shape} - {right.shape[:1]})")
        dtype = promote(kind_of(self.values), kind_of(right))
        columns = (right[:, None] if right.ndim == 1 else right).astype(dtype)
        out = apply(solve, self.values.astype(dtype), self.rows, self.cols, self.starts, columns, shape=self.shape, transposed=False)
        return out[:, 0] if right.ndim == 1 or (right.shape[1] == 1 and not keep) else out


def _convert(name: str) -> Callable[..., TracedSparse]:
    return lambda self, *args, **keywords: self.asformat(name)


for _name in ("csr", "csc", "coo"):
    setattr(TracedSparse, f"to{_name}", _convert(_name))


def _refuse(what: str) -> NoReturn:
    raise unsupported(f"scipy.sparse: {what} with traced entries")


def is_sparse(value: object) -> bool:
    return isinstance(value, TracedSparse) or sp.issparse(value)


def lifted(matrix: object) -> TracedSparse:
    """A sparse matrix of SciPy as constants of the current trace."""
    if isinstance(matrix, TracedSparse):
        return matrix
    if len(matrix.shape) != 2:
        _refuse(f"a sparse array of {len(matrix.shape)} dimensions")
    rows: Any = sp.csr_array(matrix)
    rows.sum_duplicates()
    floating = rows.data if rows.dtype.kind in "fc" else rows.data.astype(np.float64)
    places = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), rows.indices.astype(np.int64)
    return TracedSparse(traced(floating), *places, rows.shape, format=matrix.format, matrix=isinstance(matrix, sp.spmatrix))


def gathered(values: TracedArray, rows: np.ndarray, cols: np.ndarray, shape: Shape, *, format: str, matrix: bool) -> TracedSparse:
    """A traced sparse matrix from entries in any order; entries at the same position are added."""
    rows, cols = rows.astype(np.int64), cols.astype(np.int64)
    order = np.lexsort((cols, rows))
    rows, cols, values = rows[order], cols[order], values[order]
    first = np.ones(len(rows), bool)
    first[1:] = (np.diff(rows) != 0) | (np.diff(cols) != 0)
    if not first.all():
        ones = traced(np.ones(len(rows), values.dtype))
        sums = TracedSparse(ones, np.cumsum(first) - 1, np.arange(len(rows)), (int(first.sum()), len(rows)), format="csr", matrix=False)
        values, rows, cols = sums @ values, rows[first], cols[first]
    return TracedSparse(values, rows, cols, shape, format=format, matrix=matrix)


def as_scipy(value: TracedSparse, name: str) -> object:
    """SciPy's own matrix, if the entries depend on nothing that is differentiated."""
    entries = concrete(value.values, name)
    made = sp.csr_matrix if value.matrix else sp.csr_array
    return made((entries, value.cols, value.starts), shape=value.shape).asformat(value.format)


TO_LIBRARY[TracedSparse] = as_scipy


class _Form:
    """What a sparse matrix is besides its entries; each is equal to itself alone."""

    def __init__(self, matrix: TracedSparse) -> None:
        self.places = matrix.rows, matrix.cols, matrix.shape
        self.kind = {"format": matrix.format, "matrix": matrix.matrix}


def _with_entries(form: _Form, entries: tuple[object, ...]) -> object:
    """The matrix of these entries: SciPy's, or the traced one. A batch of them is refused."""
    (values,) = entries
    rows, cols, shape = form.places
    if isinstance(values, TracedArray) and values.ndim == 1:
        return TracedSparse(values, rows, cols, shape, **form.kind)
    if not isinstance(values, (np.ndarray, TracedArray)):
        return values
    if values.ndim != 1:
        fact = "the result would be a batch of sparse arrays, which have two axes."
        raise failure(InputError, UNNAMED, fact, "Map the values: fdiff.vmap(J.data) gives (batch, nnz).")
    kind = getattr(sp, f"{form.kind['format']}_{'matrix' if form.kind['matrix'] else 'array'}")
    return kind(sp.coo_array((values, (rows, cols)), shape=shape))


# So that traced functions return sparse arrays, and take them from each other.
register(TracedSparse, lambda matrix: ((matrix.values,), _Form(matrix)), _with_entries)


def places(value: object) -> np.ndarray:
    """Indices as integers; traced ones are looked at."""
    return np.asarray(
        guarded_value(value, "used traced values as places in a sparse matrix") if isinstance(value, TracedArray) else value
    ).astype(np.int64)

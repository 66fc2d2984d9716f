"""The traced counterpart of SciPy's sparse matrices: arithmetic, products, systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn, cast

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse as sp

from ....arraytype import promote
from ....errors import UNNAMED, InputError, failure
from ....trace import Array, TracedArray, apply
from ....tree import register
from ...entrywise.families import kind_of
from ...scipy_functions import TO_LIBRARY, concrete
from ...shapes.gather_scatter import scatter_add
from ...shapes.shaping import traced
from . import sparse_structures as structures
from .sparse_entries import KEPT, OTHERWISE, WITHOUT_ZEROS, SparseEntries, picked, refuse
from .sparse_ops import Shape, product
from .sparse_solves import AS_SPLU, solve
from .sparse_structures import SparseStructure

_ENTRYWISE = (
    "abs", "conj", "conjugate", "sqrt", "sin", "tan", "arcsin", "arctan", "sinh", "tanh", "arcsinh", "arctanh", "expm1", "log1p",
    "deg2rad", "rad2deg",
)  # fmt: skip


class TracedSparse(SparseEntries):
    """The traced counterpart of a sparse matrix."""

    __slots__ = ()
    __array_priority__ = 1001.0
    __array_ufunc__ = None  # NumPy's operators leave the answer to this class
    __fdiff_sparse__ = True
    __hash__ = object.__hash__

    def with_values(self, values: TracedArray) -> TracedSparse:
        """The matrix with other entries at the same places."""
        new = TracedSparse.__new__(TracedSparse)
        new.values, new.stored, new.format, new.storage = values, self.stored, self.format, self.storage
        return new

    def astype(self, dtype: object, casting: str = "unsafe", copy: bool = True) -> TracedSparse:
        return self.with_values(self.values.astype(dtype))

    def power(self, n: object, dtype: object = None) -> TracedSparse:
        """Entries to a power, which is a positive number."""
        if isinstance(n, TracedArray) or np.ndim(n) or not cast("float", n) > 0:
            refuse("`power` with an exponent that is not a positive number")
        matrix = self.distinct()
        return matrix.with_values(matrix.values**n if dtype is None else matrix.values.astype(dtype) ** n)

    def _operands(self) -> tuple[tuple[TracedArray, np.ndarray, np.ndarray, np.ndarray], Shape, bool]:
        """The operands of the ops: entries by rows, rows, columns, starts, the shape, and whether the matrix is transposed."""
        matrix = self.distinct()
        matrix = matrix.asformat("csr") if matrix.stored.format == "coo" else matrix
        flipped = matrix.stored.format == "csc"
        major, minor, starts = structures.by_lines(matrix.stored)
        return (matrix.values, major, minor, starts), (self.shape[1], self.shape[0]) if flipped else self.shape, flipped

    def _times(self, x: Array, *, transposed: bool) -> TracedArray:
        """The matrix, or its transpose, times a vector or the columns of a matrix."""
        dense = traced(x)
        dtype = promote(kind_of(self.values), kind_of(dense))
        inner = self.shape[not transposed]
        if dense.ndim not in (1, 2) or dense.shape[0] != inner:
            raise ValueError(f"matmul: dimension mismatch with signature (n,k={inner}),(k={np.shape(x)[:1]},m)->(n,m)")
        columns = (dense[:, None] if dense.ndim == 1 else dense).astype(dtype)
        (values, *where), shape, flipped = self._operands()
        out = apply(product, values.astype(dtype), *where, columns, shape=shape, transposed=transposed != flipped)
        return out[:, 0] if dense.ndim == 1 else out

    def __matmul__(self, other: object) -> object:
        if is_sparse(other):
            return self._product(lifted(other))
        if np.ndim(other) == 0:
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self._times(other, transposed=False)

    def __rmatmul__(self, other: object) -> object:
        dense = traced(other)
        return np.transpose(self._times(np.transpose(dense), transposed=True))

    def _product(self, other: TracedSparse) -> TracedSparse:
        """The product of two sparse matrices: products of entries, added up where SciPy has entries."""
        a, b = self.distinct(), other.distinct()
        moved = structures.ones(a.stored) @ structures.ones(b.stored)
        left, right, slots = structures.meetings(a.stored, b.stored, moved)
        values = apply(scatter_add, picked(a.values, left) * picked(b.values, right), slots, shape=(moved.nnz,))
        return TracedSparse.of_stored(values, structures.numbered(moved), max(a.storage, b.storage))

    def dot(self, other: object) -> object:
        return self * other if not is_sparse(other) and np.ndim(other) == 0 else self @ other

    def __mul__(self, other: object) -> object:
        if not is_sparse(other) and np.ndim(other) == 0:
            return self.with_values(np.multiply(self.values, other))
        return self @ other if self.matrix else self.multiply(other)

    def __rmul__(self, other: object) -> object:
        if not is_sparse(other) and np.ndim(other) == 0:
            return self.with_values(np.multiply(other, self.values))
        return other @ self if self.matrix else self.multiply(other)

    def __imul__(self, other: object) -> object:
        if is_sparse(other) or np.ndim(other):
            return NotImplemented
        self.values *= other
        return self

    def __itruediv__(self, other: object) -> object:
        if is_sparse(other) or np.ndim(other):
            return NotImplemented
        self.values /= other
        return self

    def __pow__(self, n: object) -> object:
        if not self.matrix:
            return self.power(n)
        if n != 2:
            refuse("a power of a sparse matrix, but the square,")
        return self @ self

    def multiply(self, other: object) -> object:
        """Product entry by entry, at the places of this matrix."""
        matrix = self.distinct()
        if is_sparse(other):
            return matrix._combined(lifted(other).distinct(), lambda a, b: a.multiply(b), np.multiply)
        if np.ndim(other) == 0:
            return self * other
        dense = traced(other)
        dense = dense.reshape((1,) * (2 - dense.ndim) + dense.shape)
        moved = matrix.stored.multiply(np.ones(dense.shape, int))
        if moved.shape != self.shape:
            refuse("the product with a dense array that is larger")
        new = TracedSparse.of_stored(matrix.values, moved, matrix.storage)
        at = [np.where(np.asarray(n) == 1, 0, k) for n, k in zip(dense.shape, new.places(), strict=True)]
        return new.with_values(new.values * dense[at[0], at[1]])

    def __truediv__(self, other: object) -> object:
        if is_sparse(other):
            refuse("the quotient of two sparse matrices")
        if np.ndim(other) == 0:
            real = np.can_cast(self.values.dtype, np.float64)  # SciPy divides single precision in double
            return self.with_values(np.divide(self.values.astype(np.float64) if real else self.values, other))
        return self.multiply(np.divide(1.0, other))

    def __neg__(self) -> TracedSparse:
        return self.with_values(-self.values)

    def __eq__(self, other: object) -> NoReturn:
        refuse("a comparison of matrices")

    def _combined(self, other: TracedSparse, operate: Callable[..., SparseStructure], combine: Callable[..., TracedArray]) -> TracedSparse:
        """An operation entry by entry; SciPy says where there are entries, and leaves out those that are zero."""
        if other.shape != self.shape:
            raise ValueError(f"inconsistent shapes: {self.shape} and {other.shape}")
        moved = structures.numbered(operate(structures.ones(self.stored), structures.ones(other.stored)))
        sides = [side.numbered_entries(structures.numbers_at(side.stored, moved)) for side in (self, other)]
        return TracedSparse.of_stored(combine(*sides), moved, max(self.storage, other.storage, WITHOUT_ZEROS))

    def _added(self, other: object, combine: Callable[..., TracedArray]) -> object:
        if is_sparse(other):
            return self.distinct()._combined(lifted(other).distinct(), lambda a, b: a + b, combine)
        if np.ndim(other):
            self._no_matrix("a sum with a dense array")
            return combine(self.toarray(), other)
        if not isinstance(other, TracedArray) and other == 0:
            return self.copy()
        raise NotImplementedError("adding a nonzero scalar to a sparse array is not supported")

    def __add__(self, other: object) -> object:
        return self._added(other, np.add)

    def __sub__(self, other: object) -> object:
        return self._added(other, np.subtract)

    __radd__ = __add__

    def __rsub__(self, other: object) -> object:
        return (-self)._added(other, np.add)

    def solved(self, b: object, *, keep: bool = False, transposed: bool = False, how: Mapping[str, object] = AS_SPLU) -> TracedArray:
        """The solution of the system; for one column a vector, as SciPy's ``spsolve`` gives, unless `keep`."""
        if self.shape[0] != self.shape[1]:
            raise ValueError(f"matrix must be square (has shape {self.shape})")
        right = traced(b)
        if right.ndim not in (1, 2) or right.shape[0] != self.shape[0]:
            raise ValueError(f"matrix - rhs dimension mismatch ({self.shape} - {right.shape[:1]})")
        system, params = self.system(right.dtype if right.type.floating else np.dtype(float), transposed=transposed)
        columns = (right[:, None] if right.ndim == 1 else right).astype(system[0].dtype)
        out = apply(solve, *system, columns, **params, **how)
        return out[:, 0] if right.ndim == 1 or (right.shape[1] == 1 and not keep) else out

    def system(self, dtype: np.dtype, *, transposed: bool = False) -> tuple[tuple[Array, ...], dict[str, object]]:
        """The operands and parameters of an op that solves a system with this matrix."""
        (values, *where), shape, flipped = self._operands()
        entries = values.astype(promote(kind_of(values), dtype))
        return (entries, *where), {"shape": shape, "transposed": transposed != flipped}


def _entrywise(name: str) -> Callable[..., TracedSparse]:
    def method(self: TracedSparse, *_: object, **__: object) -> TracedSparse:
        matrix = self if name in ("conj", "conjugate", "deg2rad", "rad2deg") else self.distinct()
        return matrix.with_values(getattr(np, name)(matrix.values))

    return method


for _name in _ENTRYWISE:
    setattr(TracedSparse, "__abs__" if _name == "abs" else _name, _entrywise(_name))


def is_sparse(value: object) -> bool:
    return isinstance(value, TracedSparse) or sp.issparse(value)


def lifted(matrix: SparseStructure | TracedSparse) -> TracedSparse:
    """A sparse matrix of SciPy as constants of the current trace."""
    if isinstance(matrix, TracedSparse):
        return matrix
    if len(matrix.shape) != 2:
        refuse(f"a sparse array of {len(matrix.shape)} dimensions")
    based = matrix.asformat(structures.base(matrix.format))
    entries = traced(based.data if based.dtype.kind in "fc" else based.data.astype(np.float64))
    lift = TracedSparse.of_stored(entries, structures.numbered(based))
    if matrix.format != based.format:
        lift.format, lift.storage = matrix.format, OTHERWISE
    return lift


def as_scipy(value: TracedSparse, name: str) -> object:
    """SciPy's own matrix, if the entries depend on nothing that is differentiated."""
    return _filled(value.stored, concrete(value.values, name), value)


def _filled(stored: SparseStructure, entries: object, form: TracedSparse) -> object:
    matrix = stored.copy()
    matrix.data = np.array(entries)
    if form.storage != KEPT:
        matrix.eliminate_zeros()
    return matrix.asformat(form.format)


TO_LIBRARY[TracedSparse] = as_scipy


class _Form:
    """The form of a sparse matrix besides its entries; each is equal to itself alone."""

    def __init__(self, matrix: TracedSparse) -> None:
        self.stored, self.format, self.storage = matrix.stored, matrix.format, matrix.storage


def _with_entries(form: _Form, entries: tuple[object, ...]) -> object:
    """The matrix of these entries: SciPy's, or the traced one. A batch of them is refused."""
    (values,) = entries
    if not isinstance(values, (np.ndarray, TracedArray)):
        return values
    if values.ndim != 1:
        fact = "the result would be a batch of sparse arrays, which have two axes."
        raise failure(InputError, UNNAMED, fact, "Map the values: fdiff.vmap(J.data) gives (batch, nnz).")
    if not isinstance(values, TracedArray):
        return _filled(form.stored, values, form)
    matrix = TracedSparse.of_stored(values, form.stored, form.storage)
    matrix.format = form.format
    return matrix


# So that traced functions return sparse arrays, and take them from each other.
register(TracedSparse, lambda matrix: ((matrix.values,), _Form(matrix)), _with_entries)

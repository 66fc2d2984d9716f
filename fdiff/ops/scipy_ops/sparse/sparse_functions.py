"""`scipy.sparse`: products with constant matrices, construction from traced entries, blocks, `spsolve`, `splu`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse as sp
from fdiff.intact_scipy import sparse_linalg as spl

from ....foreign_errors import hiding, wraps
from ....trace import Array, TracedArray, replaces, unsupported
from ....trace.handler_arguments import resolve
from ....trace.static_arguments import settled
from ...scipy_functions import involves_traced, patch_method, replaces_if_traced
from ...shapes.shaping import traced
from . import sparse_structures as structures
from .sparse_entries import FORMATS, OTHERWISE
from .sparse_solves import AS_SPSOLVE
from .traced_sparse import TracedSparse, is_sparse, lifted

# --- methods of SciPy's matrices --------------------------------------------------------------
# They ask NumPy for an array of numbers before they let the other operand answer.
_METHODS = (
    "__matmul__", "__rmatmul__", "__mul__", "__rmul__", "__truediv__", "__add__", "__radd__", "__sub__", "__rsub__", "dot", "multiply",
)


def _of_traced_matrix(name: str) -> Callable[..., object]:
    """The method of the matrix's traced counterpart."""
    return lambda self, *args, **keywords: getattr(lifted(self), name)(*args, **keywords)


def _item(matrix: TracedSparse, key: object) -> object:
    """Entries of a matrix at places that are traced, which are looked at."""
    return matrix[settled(key)]


_CLASSES = (*FORMATS, "bsr")


def _classes() -> set[type]:
    kinds = [getattr(sp, f"{name}_{kind}") for name in _CLASSES for kind in ("array", "matrix")]
    return {c for kind in kinds for c in kind.__mro__ if c.__module__.startswith("scipy.sparse")}


for _class in _classes():
    for _name in _METHODS:
        if _name in vars(_class):
            patch_method(_class, _name, _of_traced_matrix(_name))
    if "__getitem__" in vars(_class):
        patch_method(_class, "__getitem__", _item)

# --- construction -----------------------------------------------------------------------------


def _integers(value: object) -> np.ndarray:
    return np.asarray(settled(value)).astype(np.int64)


def _of_entries(parts: Sequence[Sequence[object]], shape: object, name: str, *, matrix: bool) -> TracedSparse:
    """The matrix of ``(data, (rows, cols))`` or ``(data, indices, indptr)``, checked by SciPy's own class."""
    entries = traced(parts[0])
    entries = entries if entries.type.floating else entries.astype(np.float64)
    kind = getattr(sp, f"{name}_{'matrix' if matrix else 'array'}")
    if len(parts) == 3 and name in ("csr", "csc"):
        where = [_integers(p) for p in parts[1:]]
        numbers = kind((np.arange(1, entries.size + 1), *where), shape=settled(shape))
        numbers.check_format()
        return TracedSparse.of_stored(entries, numbers)
    if len(parts) != 2 or len(parts[1]) != 2:
        raise unsupported(f"scipy.sparse.{name} of a traced array of this form")
    rows, cols = (_integers(p) for p in parts[1])
    checked = structures.of_places(rows, cols, settled(shape), matrix=matrix)
    if entries.size != len(rows):
        raise ValueError("all index and data arrays must have the same length")
    return TracedSparse(entries, rows, cols, checked.shape, format=name, matrix=matrix)


def matrix_of_dense(array: Array, name: str, *, matrix: bool) -> TracedSparse:
    """The matrix of a dense array; any entry may move, so that all of them are kept."""
    if array.ndim > 2 or (array.ndim < 2 and not matrix):
        raise unsupported(f"scipy.sparse.{name} of a traced array of {array.ndim} dimensions")
    shape = (1,) * (2 - array.ndim) + array.shape
    values = array.reshape(-1)
    rows, cols = (k.reshape(-1) for k in np.indices(shape))
    new = TracedSparse(values if values.type.floating else values.astype(np.float64), rows, cols, shape, format=name, matrix=matrix)
    new.eliminate_zeros()
    return new


class SparseMeta(type):
    """A class of SciPy's sparse matrices, as private copies find it."""

    real: type
    name: str

    def __call__(cls, arg1: object, shape: object = None, dtype: object = None, copy: bool = False, **keywords: object) -> object:
        arg1 = resolve(arg1)
        if not involves_traced(arg1):
            return cls.real(settled(arg1), settled(shape), dtype, copy, **keywords)
        if cls.name not in FORMATS:
            raise unsupported(f"scipy.sparse.{cls.real.__name__} of traced entries")
        matrix = issubclass(cls.real, sp.spmatrix)
        if isinstance(arg1, TracedSparse):
            new = TracedSparse.of_stored(arg1.values, structures.of_kind(arg1.stored, matrix_kind=matrix), arg1.storage)
            new.format = arg1.format
            new = new.asformat(cls.name, copy=copy)
        elif isinstance(arg1, tuple):
            new = _of_entries(arg1, shape, cls.name, matrix=matrix)
        else:
            new = matrix_of_dense(traced(arg1), cls.name, matrix=matrix)
        return new if dtype is None else new.astype(dtype)

    def __instancecheck__(cls, value: object) -> bool:
        if isinstance(value, TracedSparse):
            return value.format == cls.name and value.matrix == issubclass(cls.real, sp.spmatrix)
        return isinstance(value, cls.real)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.real)

    @hiding
    def __getattr__(cls, name: str) -> object:
        return getattr(cls.real, name)


for _format in _CLASSES:
    for _suffix in ("array", "matrix"):
        _real = getattr(sp, f"{_format}_{_suffix}")
        replaces(_real)(SparseMeta(_real.__name__, (), {"real": _real, "name": _format}))


def _diagonals(
    diagonals: Sequence[object], offsets: Sequence[int] | int = 0, shape: tuple[int, int] | None = None, format: str | None = None,
    dtype: object = None, *, matrix: bool,
) -> TracedSparse:
    """A matrix from its diagonals; one of length 1 is repeated."""
    single = np.ndim(offsets) == 0 and not isinstance(offsets, (list, tuple))
    numbers = (
        [int(offsets)] if single else [int(k) for k in _integers(offsets)]
    )
    lines: Sequence[object] = diagonals if not single or (isinstance(diagonals, (list, tuple)) and np.ndim(diagonals[0])) else [diagonals]
    bands = [np.atleast_1d(traced(line)) for line in lines]
    if len(bands) != len(numbers):
        raise ValueError(f"Different number of diagonals ({len(bands)}) and offsets ({len(numbers)}).")
    if shape is None:
        shape = (bands[0].shape[0] + abs(numbers[0]),) * 2
    parts, rows, cols = [], [], []
    for band, k in zip(bands, numbers, strict=True):
        length = min(shape[0] + min(k, 0), shape[1] - max(k, 0))
        if band.shape[0] not in (1, length) or length < 0:
            raise ValueError(
                f"Diagonal length (index {numbers.index(k)}: {band.shape[0]} at offset {k})"
                f" does not agree with array size ({shape[0]}, {shape[1]})."
            )
        parts.append(np.broadcast_to(band, (length,)))
        rows.append(np.arange(length) - min(k, 0))
        cols.append(np.arange(length) + max(k, 0))
    entries = np.concatenate(parts)
    entries = entries.astype(dtype) if dtype is not None else entries if entries.type.floating else entries.astype(np.float64)
    return TracedSparse(entries, np.concatenate(rows), np.concatenate(cols), tuple(shape), format=format or "dia", matrix=matrix)


@replaces_if_traced(sp.diags)
def diags(
    diagonals: object, offsets: object = 0, shape: object = None, format: str | None = None, dtype: object = None
) -> TracedSparse:
    return _diagonals(diagonals, offsets, shape, format, dtype, matrix=True)


@replaces_if_traced(*([sp.diags_array] if hasattr(sp, "diags_array") else []))
def diags_array(
    diagonals: object, /, *, offsets: object = 0, shape: object = None, format: str | None = None, dtype: object = None
) -> TracedSparse:
    return _diagonals(diagonals, offsets, shape, format, dtype, matrix=False)


@replaces_if_traced(sp.issparse)
def issparse(x: object) -> bool:
    return isinstance(x, TracedSparse)


@replaces_if_traced(sp.isspmatrix)
def isspmatrix(x: object) -> bool:
    return isinstance(x, TracedSparse) and x.matrix


def _replace_question(function: Callable[[object], bool], form: str) -> None:
    replaces_if_traced(function)(lambda x: isinstance(x, TracedSparse) and x.matrix and x.format == form)


for _format in _CLASSES:
    if hasattr(sp, f"isspmatrix_{_format}"):
        _replace_question(getattr(sp, f"isspmatrix_{_format}"), _format)


# --- functions that put entries elsewhere -------------------------------------------------------


def _numbers(value: Any, depth: int, values: list[TracedArray]) -> object:
    """Matrices of the numbers of entries, in the place of matrices in nested lists; the entries are appended to `values`."""
    if depth and not isinstance(value, TracedArray):
        return [_numbers(v, depth - 1, values) for v in value]
    value = resolve(value)
    if value is None:
        return None
    if not is_sparse(value):
        value = matrix_of_dense(np.atleast_2d(traced(value)), "coo", matrix=True)
    matrix = lifted(value).distinct()
    numbers = matrix.stored.copy()
    numbers.data = numbers.data + sum(v.size for v in values)
    values.append(matrix.values)
    return numbers


def _replace_moving(function: Callable[..., object], depth: int) -> None:
    @replaces_if_traced(function)
    def call(blocks: object, *args: object, dtype: object = None, **keywords: object) -> TracedSparse:
        values: list[TracedArray] = []
        moved = function(_numbers(blocks, depth, values), *settled(args), **settled(keywords))
        new = TracedSparse.of_stored(np.concatenate(values), moved, OTHERWISE)
        return new if dtype is None else new.astype(dtype)


for _name, _depth in {"hstack": 1, "vstack": 1, "bmat": 2, "block_array": 2, "block_diag": 1, "tril": 0, "triu": 0}.items():
    if hasattr(sp, _name):
        _replace_moving(getattr(sp, _name), _depth)

@replaces_if_traced(sp.kron)
def kron(A: object, B: object, format: str | None = None) -> TracedSparse:
    """Each entry of `A` times each of `B`; SciPy tells the places, once by the numbers of `A` and once by the numbers of `B`."""
    a, b = (lifted(m if is_sparse(m) else matrix_of_dense(np.atleast_2d(traced(m)), "coo", matrix=True)).distinct() for m in (A, B))
    left = sp.kron(a.stored, structures.ones(b.stored), format)
    right = sp.kron(structures.ones(a.stored), b.stored, format)
    form, right = left.format, right.asformat(structures.base(right.format))
    left = left.asformat(structures.base(form))
    values = a.numbered_entries(left.data) * b.numbered_entries(right.data)
    new = TracedSparse.of_stored(values, structures.numbered(left), OTHERWISE)
    new.format = form
    return new


# --- solves -----------------------------------------------------------------------------------


@replaces_if_traced(spl.spsolve)
def spsolve(A: object, b: object, permc_spec: object = None, use_umfpack: bool = True) -> TracedArray:
    """Solution of a sparse system with dense right-hand sides."""
    if sp.issparse(b) or isinstance(b, TracedSparse):
        raise unsupported("scipy.sparse.linalg.spsolve with a sparse right-hand side")
    if not (sp.issparse(A) or isinstance(A, TracedSparse)):
        raise unsupported("scipy.sparse.linalg.spsolve of a dense matrix")
    return lifted(A).solved(b, how=AS_SPSOLVE)


class TracedFactors:
    """The result of `splu` and `factorized` under trace, which also solves for traced right-hand sides."""

    def __init__(self, matrix: object, real: object) -> None:
        self._matrix, self._real = matrix, real

    def __call__(self, b: object) -> object:
        return lifted(self._matrix).solved(resolve(b), keep=True) if involves_traced(b) or self._real is None else self._real(b)

    def solve(self, rhs: object, trans: str = "N") -> object:
        if not involves_traced(rhs) and self._real is not None:
            return self._real.solve(rhs, trans)
        if trans not in ("N", "T", "H"):
            raise ValueError("trans must be N, T, or H")
        matrix = lifted(self._matrix)
        return (matrix.conj() if trans == "H" else matrix).solved(resolve(rhs), keep=True, transposed=trans != "N")

    @hiding
    def __getattr__(self, name: str) -> object:
        if self._real is None:
            raise unsupported(f"scipy.sparse.linalg.splu(A).{name} with traced entries")
        return getattr(self._real, name)


def _replace_factorisation(function: Callable[..., object]) -> None:
    @replaces(function)
    @wraps(function)
    def call(A: object, *args: object, **keywords: object) -> TracedFactors:
        return TracedFactors(A, None if involves_traced(A) else function(A, *args, **keywords))


for _function in (spl.splu, spl.factorized):
    _replace_factorisation(_function)

"""`scipy.sparse`: products with constant matrices, construction from traced entries, `spsolve`, `splu`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse as sp
from fdiff.intact_scipy import sparse_linalg as spl

from ...trace import TracedArray, replaces, unsupported
from ...trace.handler_arguments import resolve
from ..scipy_functions import involves_traced, patch_method, replaces_if_traced
from ..shaping import traced
from .traced_sparse import FORMATS, TracedSparse, gathered, lifted, places

# --- methods of SciPy's matrices --------------------------------------------------------------
# They ask NumPy for an array of numbers before they let the other operand answer.
_METHODS = (
    "__matmul__", "__rmatmul__", "__mul__", "__rmul__", "__truediv__", "__add__", "__radd__", "__sub__", "__rsub__", "dot", "multiply",
)


def _of_traced_matrix(name: str) -> Callable[..., object]:
    """The method of the matrix's traced counterpart."""
    return lambda self, *args, **keywords: getattr(lifted(self), name)(*args, **keywords)


def _classes() -> set[type]:
    kinds = [getattr(sp, f"{name}_{kind}") for name in FORMATS for kind in ("array", "matrix")]
    return {c for kind in kinds for c in kind.__mro__ if c.__module__.startswith("scipy.sparse")}


for _class in _classes():
    for _name in _METHODS:
        if _name in vars(_class):
            patch_method(_class, _name, _of_traced_matrix(_name))

# --- construction -----------------------------------------------------------------------------


def _of_entries(given: tuple[object, ...], shape: object, name: str) -> tuple[TracedArray, np.ndarray, np.ndarray, tuple[int, int]]:
    """Entries, rows, columns and shape of ``(data, (rows, cols))`` or ``(data, indices, indptr)``."""
    entries = traced(given[0])
    entries = entries if entries.type.floating else entries.astype(np.float64)
    if len(given) == 2:
        where: Sequence[object] = given[1]
        rows, cols = (places(p) for p in where)
    elif len(given) == 3 and name in ("csr", "csc"):
        minor, ends = places(given[1]), places(given[2])
        major = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        rows, cols = (major, minor) if name == "csr" else (minor, major)
        if shape is None:
            widest = int(minor.max(initial=-1)) + 1
            shape = (len(ends) - 1, widest) if name == "csr" else (widest, len(ends) - 1)
    else:
        raise unsupported(f"scipy.sparse.{name} of a traced array of this form")
    if shape is None:
        shape = int(rows.max()) + 1, int(cols.max()) + 1
    if rows.min(initial=0) < 0 or cols.min(initial=0) < 0 or rows.max(initial=-1) >= shape[0] or cols.max(initial=-1) >= shape[1]:
        raise ValueError("an index lies outside the shape of the sparse matrix")
    return entries, rows, cols, (int(shape[0]), int(shape[1]))


class SparseMeta(type):
    """A class of SciPy's sparse matrices, as private copies find it."""

    real: type
    name: str

    def __call__(cls, arg1: object, shape: object = None, dtype: object = None, copy: bool = False, **keywords: object) -> object:
        if not involves_traced(arg1):
            return cls.real(arg1, shape, dtype, copy, **keywords)
        if isinstance(arg1, TracedSparse):
            return TracedSparse(arg1.values, arg1.rows, arg1.cols, arg1.shape, format=cls.name, matrix=issubclass(cls.real, sp.spmatrix))
        if not isinstance(arg1, tuple):
            raise unsupported(f"scipy.sparse.{cls.real.__name__} of a dense traced array, whose zeros would decide the structure,")
        entries, *where = _of_entries(arg1, shape, cls.name)
        if dtype is not None:
            entries = entries.astype(dtype)
        return gathered(entries, *where, format=cls.name, matrix=issubclass(cls.real, sp.spmatrix))

    def __instancecheck__(cls, value: object) -> bool:
        if isinstance(value, TracedSparse):
            return value.format == cls.name and value.matrix == issubclass(cls.real, sp.spmatrix)
        return isinstance(value, cls.real)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.real)

    def __getattr__(cls, name: str) -> object:
        return getattr(cls.real, name)


for _format in FORMATS:
    for _suffix in ("array", "matrix"):
        _real = getattr(sp, f"{_format}_{_suffix}")
        replaces(_real)(SparseMeta(_real.__name__, (), {"real": _real, "name": _format}))


@replaces_if_traced(sp.diags, *([sp.diags_array] if hasattr(sp, "diags_array") else []))
def diags(
    diagonals: object, offsets: object = 0, shape: object = None, format: str | None = None, dtype: object = None, **_: object
) -> TracedSparse:
    """A matrix from its diagonals; one of length 1 is repeated."""
    single = np.ndim(offsets) == 0 and not isinstance(offsets, (list, tuple))
    numbers = (
        [int(offsets)] if single else [int(k) for k in places(np.asarray(offsets) if not isinstance(offsets, TracedArray) else offsets)]
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
    return gathered(entries, np.concatenate(rows), np.concatenate(cols), tuple(shape), format=format or "csr", matrix=True)


@replaces_if_traced(sp.issparse)
def issparse(x: object) -> bool:
    return isinstance(x, TracedSparse)


# --- solves -----------------------------------------------------------------------------------


@replaces_if_traced(spl.spsolve)
def spsolve(A: object, b: object, permc_spec: object = None, use_umfpack: bool = True) -> TracedArray:
    """Solution of a sparse system with dense right-hand sides."""
    if sp.issparse(b) or isinstance(b, TracedSparse):
        raise unsupported("scipy.sparse.linalg.spsolve with a sparse right-hand side")
    if not (sp.issparse(A) or isinstance(A, TracedSparse)):
        raise unsupported("scipy.sparse.linalg.spsolve of a dense matrix")
    return lifted(A).solved(b)


class TracedFactors:
    """What `splu` and `factorized` return under trace: it also solves for traced right-hand sides."""

    def __init__(self, matrix: object, real: object) -> None:
        self._matrix, self._real = matrix, real

    def __call__(self, b: object) -> object:
        return lifted(self._matrix).solved(resolve(b), keep=True) if involves_traced(b) or self._real is None else self._real(b)

    def solve(self, rhs: object, trans: str = "N") -> object:
        if not involves_traced(rhs) and self._real is not None:
            return self._real.solve(rhs, trans)
        matrix = lifted(self._matrix)
        return (matrix if trans == "N" else matrix.T).solved(resolve(rhs), keep=True)

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

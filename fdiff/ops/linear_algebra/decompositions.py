"""Functions of `numpy.linalg` by decompositions: `eig`, `eigh`, `svd`, `qr`, `pinv`, `lstsq`, `cond`, ...

The primitives and their rules are in `eigenvalues.py`, `singular_values.py`, `pseudo_inverse.py` and `qr.py`.
Ranks and condition numbers: G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th ed., Johns Hopkins 2013,
sections 5.4.1 and 2.6.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import fdiff.intact_numpy as np

from ...arraytype import promote, real_dtype
from ...errors import warn
from ...trace import (
    Array,
    Operand,
    TracedArray,
    apply,
    apply_many,
    guarded_value,
    implements,
    unsupported,
)
from ..along_axes.reductions import as_scalar
from ..entrywise.families import kind_of
from ..entrywise.kink_marks import marked
from ..shapes.shaping import scalar_if_0d, traced
from .eigenvalues import eig, eigh, eigvals, eigvalsh, has_real_spectrum
from .pseudo_inverse import EPS, inv_or_nan, lstsq_, pinv, rcond_truncates
from .qr import complete_q, qr_
from .singular_values import svd, svdvals
from .stacked_matrices import mh

# --- NumPy's functions -------------------------------------------------------------------------

_OF_ONE = np.linalg.eig(np.eye(1))
_ALWAYS_COMPLEX = _OF_ONE.eigenvalues.dtype.kind == "c"  # from NumPy 2.5 on, also where all eigenvalues are real
EigResult = type(_OF_ONE)
EighResult = type(np.linalg.eigh(np.eye(1)))
SVDResult = type(np.linalg.svd(np.eye(1)))
QRResult = type(np.linalg.qr(np.eye(1)))


def _inexact(a: TracedArray) -> TracedArray:
    """Floating, as NumPy's linear algebra computes; TypeError as NumPy words it."""
    if a.dtype.kind not in "biufc" or a.dtype.char in "eg" or a.dtype.char == "G":
        raise TypeError(f"array type {a.dtype.name} is unsupported in linalg")
    return a if a.type.floating else a.astype(np.float64)


def _matrices(x: object, *, square: bool = False) -> TracedArray:
    """A stack of matrices, or NumPy's own error."""
    a = traced(x)
    if a.ndim < 2:
        raise np.linalg.LinAlgError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")
    if square and a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    return _inexact(a)


def _triangle(uplo: str) -> str:
    uplo = uplo.upper()
    if uplo not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return uplo


def _equal(w: TracedArray) -> TracedArray:
    """For each matrix of the stack, whether two of its values are equal."""
    same = np.expand_dims(w, -2) == np.expand_dims(w, -1)
    return np.any(same & ~np.eye(w.shape[-1], dtype=bool), axis=(-2, -1))


def _marked_vectors(v: TracedArray, w: TracedArray, function: str, point: str) -> Array:
    """The vectors, marked as without a derivative where two values of their matrix are equal."""
    return marked(v, lambda: np.expand_dims(_equal(w), (-2, -1)), function, point)


@implements(np.linalg.eigh)
def eigh_call(a: object, UPLO: str = "L") -> object:
    """Eigenvalues and eigenvectors of Hermitian matrices, of which one triangle is read."""
    w, v = apply_many(eigh, _matrices(a, square=True), uplo=_triangle(UPLO))
    return EighResult(w, _marked_vectors(v, w, "numpy.linalg.eigh", "equal eigenvalues"))


@implements(np.linalg.eigvalsh)
def eigvalsh_call(a: object, UPLO: str = "L") -> TracedArray:
    return apply(eigvalsh, _matrices(a, square=True), uplo=_triangle(UPLO))


@implements(np.linalg.eig)
def eig_call(a: object) -> object:
    """Eigenvalues and eigenvectors, of length 1 and with a real largest entry, as LAPACK has them."""
    x = _matrices(a, square=True)
    w, v = apply_many(eig, x, real=not _ALWAYS_COMPLEX and has_real_spectrum(x))
    return EigResult(w, _marked_vectors(v, w, "numpy.linalg.eig", "equal eigenvalues"))


@implements(np.linalg.eigvals)
def eigvals_call(a: object) -> TracedArray:
    x = _matrices(a, square=True)
    return apply(eigvals, x, real=not _ALWAYS_COMPLEX and has_real_spectrum(x))


def _singular_values(x: TracedArray, *, hermitian: bool = False) -> Array:
    return _values(apply(svdvals, _matrices(x, square=bool(hermitian)), hermitian=bool(hermitian)))


@implements(np.linalg.svd)
def svd_call(a: object, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Array | tuple[Array, ...]:
    """Singular value decomposition; vectors of the null spaces rotate as little as possible."""
    x = _matrices(a, square=bool(hermitian))
    if not compute_uv:
        return _singular_values(x, hermitian=hermitian)
    u, s, vh = apply_many(svd, x, full=bool(full_matrices), hermitian=bool(hermitian))
    u, vh = (_marked_vectors(q, s, "numpy.linalg.svd", "equal singular values") for q in (u, vh))
    return SVDResult(u, _values(s), vh)


def _values(s: TracedArray) -> Array:
    return marked(s, lambda: s == 0, "numpy.linalg.svd", "a singular value of 0")


@implements(np.linalg.svdvals)
def svdvals_call(x: object, /) -> Array:
    return _singular_values(x)


@implements(np.linalg.qr)
def qr(a: object, mode: str = "reduced") -> object:
    """QR factorisation with LAPACK's signs; of a wide matrix, the factorisation of its first
    columns.
    """
    if mode in ("raw", "e", "economic"):
        raise unsupported(f"numpy.linalg.qr with mode={mode!r}")
    if mode in ("f", "full"):
        warn("The 'full' option is deprecated in favor of 'reduced'.\nFor backward compatibility let mode default.", DeprecationWarning)
        mode = "reduced"
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    x = _matrices(a)
    m, n = x.shape[-2:]
    q, r = apply_many(qr_, x if m >= n else x[..., :m])
    if m < n:
        r = np.concatenate([r, mh(q) @ x[..., m:]], axis=-1)
    if mode == "complete" and m > n:
        below = np.zeros((*r.shape[:-2], m - n, n), r.dtype)
        q, r = complete_q(q), np.concatenate([r, below], axis=-2)
    return r if mode == "r" else QRResult(q, r)


@implements(np.linalg.pinv)
def pinv_call(a: object, rcond: object = None, hermitian: bool = False, *, rtol: object = np._NoValue) -> TracedArray:
    """Pseudo-inverse; its derivative holds as long as no singular value crosses the bound `rcond`."""
    matrix = traced(a)
    if rcond is not None and rtol is not np._NoValue:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if rcond is None:
        rcond = 1e-15 if rtol is np._NoValue else rtol
    if rcond is None:
        rcond = max(matrix.shape[-2:]) * np.finfo(matrix.dtype).eps
    x = _matrices(matrix, square=bool(hermitian))
    if 0 in x.shape[-2:]:
        return traced(np.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), matrix.dtype))
    truncates = isinstance(rcond, TracedArray) or rcond_truncates(rcond, x)
    return apply(pinv, x, traced(rcond).astype(np.float64), hermitian=bool(hermitian), truncates=truncates)


def _two_dimensional(x: TracedArray) -> TracedArray:
    if x.ndim != 2:
        raise np.linalg.LinAlgError(f"{x.ndim}-dimensional array given. Array must be two-dimensional")
    return _inexact(x)


@implements(np.linalg.lstsq)
def lstsq(a: object, b: object, rcond: object = None) -> tuple[TracedArray, ...]:
    """The least squares solution of smallest norm, residuals, rank and singular values."""
    left, right = traced(a), traced(b)
    line = right.ndim == 1
    left, right = _two_dimensional(left), _two_dimensional(right[:, None] if line else right)
    (m, n), dtype = left.shape, promote(kind_of(left), kind_of(right))
    if m != right.shape[0]:
        raise np.linalg.LinAlgError("Incompatible dimensions")
    left, right = left.astype(dtype), right.astype(dtype)
    if rcond is None:
        rcond = EPS * max(n, m)
    rcond = float(guarded_value(traced(rcond), "chose the rank of a least squares problem by a traced value"))
    x, rank, s = apply_many(lstsq_, left, right, rcond=rcond)
    residuals = traced(np.zeros(0, real_dtype(dtype)))
    if m > n and guarded_value(rank == n, "asked for the rank of a least squares problem, on which the shape of its residuals depends"):
        away = right - left @ x
        residuals = np.sum(np.square(np.real(away)) + np.square(np.imag(away)) if dtype.kind == "c" else np.square(away), axis=0)
    return x[:, 0] if line else x, residuals, scalar_if_0d(rank), s


@implements(np.linalg.matrix_rank)
def matrix_rank(A: object, tol: Operand | None = None, hermitian: bool = False, *, rtol: Operand | None = None) -> TracedArray:
    """Number of singular values above a bound."""
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    x = traced(A)
    if x.ndim < 2:
        return scalar_if_0d(np.any(x != 0).astype(np.int64))
    s = _singular_values(x, hermitian=hermitian)
    if tol is None:
        factor = max(x.shape[-2:]) * np.finfo(s.dtype).eps if rtol is None else np.expand_dims(rtol, -1)
        bound = np.max(s, axis=-1, keepdims=True, initial=0) * factor
    else:
        bound = np.expand_dims(tol, -1)
    return np.count_nonzero(s > bound, axis=-1)


@implements(np.linalg.cond)
def cond(x: object, p: object = None) -> Array:
    """Condition number: infinite for singular matrices."""
    a = traced(x)
    if a.size == 0 and 0 in a.shape[-2:]:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    if p is None or p in (2, -2):
        s = _singular_values(a)
        ratio = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        a = _matrices(a, square=True)
        inverse = apply(inv_or_nan, a)
        ratio = np.linalg.norm(a, p, axis=(-2, -1)) * np.linalg.norm(inverse, p, axis=(-2, -1))
    undefined = np.isnan(ratio) & ~np.any(np.isnan(a), axis=(-2, -1))
    return as_scalar(np.where(undefined, np.inf, ratio))


@implements(np.linalg.tensorsolve)
def tensorsolve(a: object, b: object, axes: Sequence[int] | None = None) -> Array:
    """Solution of ``tensordot(a, x, x.ndim) == b``."""
    left, right = traced(a), traced(b)
    if axes is not None:
        order = list(range(left.ndim))
        for k in axes:
            order.remove(k)
            order.insert(left.ndim, k)
        left = np.transpose(left, order)
    shape = left.shape[-(left.ndim - right.ndim) :]
    size = prod(shape)
    if left.size != size**2:
        raise np.linalg.LinAlgError("Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])")
    return np.linalg.solve(left.reshape(size, size), right.reshape(-1)).reshape(shape)


@implements(np.linalg.tensorinv)
def tensorinv(a: object, ind: int = 2) -> Array:
    """Inverse with respect to `tensordot` over the first `ind` axes."""
    x = traced(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    rows, columns = x.shape[:ind], x.shape[ind:]
    return np.linalg.inv(x.reshape(prod(columns), -1)).reshape(*columns, *rows)

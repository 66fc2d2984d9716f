"""`scipy.linalg` for dense matrices: systems, Cholesky and LU factors, decompositions, functions of matrices.

A function that agrees with one of `numpy.linalg` is computed by it; the others by the ops of `matrix_functions.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np
from fdiff.intact_scipy import linalg as sl

from ...arraytype import promote
from ...trace import Array, TracedArray, apply, apply_many, guarded_value, unsupported
from ..along_axes.reductions import as_scalar
from ..entrywise.families import kind_of
from ..linear_algebra.stacked_matrices import mt
from ..scipy_functions import concrete, replaces_if_traced
from ..shapes.shaping import floating
from .matrix_arguments import solution, square, system
from .matrix_functions import (
    expm,
    logm,
    lower_unit,
    lu_factor,
    permutation,
    sqrtm,
    sylvester,
    triangular,
)

# --- systems ----------------------------------------------------------------------------------


def _mirrored(a: TracedArray, *, lower: bool, conjugate: bool = False) -> Array:
    """The symmetric (or Hermitian) matrix of which one triangle is given."""
    strict = np.tril(a, -1) if lower else np.triu(a, 1)
    other = np.conjugate(mt(strict)) if conjugate else mt(strict)
    return strict + other + a * np.eye(a.shape[-1], dtype=a.dtype)


_ASSUMED = {
    "general": "gen", "symmetric": "sym", "hermitian": "her", "positive definite": "pos", "diagonal": "diagonal",
    "tridiagonal": "tridiagonal", "banded": "gen", "upper triangular": "upper", "lower triangular": "lower",
}  # fmt: skip


def _assumed(a: TracedArray, kind: str | None, *, lower: bool) -> Array:
    """The matrix that SciPy solves with, given the structure it assumes: entries it does not read are mirrored, or 0."""
    name = _ASSUMED.get(kind, kind) if kind is not None else "gen"
    if name not in {"gen", "sym", "her", "pos", "diagonal", "tridiagonal", "upper", "lower"}:
        raise ValueError(f"{kind} is not a recognized matrix structure")
    if name == "gen":
        return a
    if name in ("sym", "her", "pos"):
        return _mirrored(a, lower=lower, conjugate=name != "sym")
    if name == "diagonal":
        return a * np.eye(a.shape[-1], dtype=a.dtype)
    if name == "tridiagonal":
        return np.tril(np.triu(a, -1), 1)
    return np.triu(a) if name == "upper" else np.tril(a)


@replaces_if_traced(sl.solve)
def solve(
    a: object, b: object, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True,
    assume_a: str | None = None, transposed: bool = False,
) -> TracedArray:  # fmt: skip
    """Solution of ``a x = b``; of a matrix assumed symmetric or positive definite one triangle is read."""
    left, right, line = system(square(a), b)
    if transposed and assume_a not in (None, "gen", "general") and left.dtype.kind == "c":
        raise unsupported("scipy.linalg.solve with transposed=True and an assumed structure of a complex matrix")
    whole = _assumed(left, assume_a, lower=lower)
    return solution(np.linalg.solve(mt(whole) if transposed else whole, right), line)


@replaces_if_traced(sl.solve_triangular)
def solve_triangular(
    a: object,
    b: object, trans: object = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False, check_finite: bool = True,
) -> TracedArray:
    left, right, line = system(square(a), b)
    if trans in (2, "C") and left.dtype.kind == "c":
        left = np.conjugate(left)
    out = apply(triangular, left, right, lower=bool(lower), trans=trans not in (0, "N"), unit=bool(unit_diagonal))
    return solution(out, line)


@replaces_if_traced(sl.inv)
def inv(
    a: object, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: str | None = None, lower: bool = False
) -> Array:
    return np.linalg.inv(_assumed(square(a), assume_a, lower=lower))


@replaces_if_traced(sl.det)
def det(a: object, overwrite_a: bool = False, check_finite: bool = True) -> TracedArray:
    return np.linalg.det(square(a))


# --- Cholesky and LU --------------------------------------------------------------------------


@replaces_if_traced(sl.cholesky)
def cholesky(a: object, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The upper factor (the lower one if `lower`), from the triangle of the same name."""
    return np.linalg.cholesky(square(a), upper=not lower)


_CHO_FACTOR_IS_CLEAN = not sl.cho_factor(np.array([[2.0, 1.0], [1.0, 2.0]]))[0][1, 0]  # from SciPy 1.18 on


@replaces_if_traced(sl.cho_factor)
def cho_factor(a: object, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, bool]:
    """The factor in its triangle; the other triangle keeps the entries of the matrix, as in LAPACK, where SciPy's does."""
    x = square(a)
    factor = cholesky(x, lower)
    if _CHO_FACTOR_IS_CLEAN:
        return factor, lower
    return factor + (np.triu(x, 1) if lower else np.tril(x, -1)), lower


@replaces_if_traced(sl.cho_solve)
def cho_solve(c_and_lower: tuple[object, bool], b: object, overwrite_b: bool = False, check_finite: bool = True) -> TracedArray:
    factor, lower = c_and_lower
    left, right, line = system(square(factor), b)
    inner = apply(triangular, left, right, lower=bool(lower), trans=not lower, unit=False)
    return solution(apply(triangular, left, inner, lower=bool(lower), trans=bool(lower), unit=False), line)


@replaces_if_traced(sl.lu_factor)
def lu_factor_call(a: object, overwrite_a: bool = False, check_finite: bool = True) -> tuple[TracedArray, TracedArray]:
    lu, pivots, _, _ = apply_many(lu_factor, square(a))
    return lu, pivots


@replaces_if_traced(sl.lu_solve)
def lu_solve(
    lu_and_piv: tuple[object, object], b: object, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> TracedArray:
    """Solution from the packed LU factors; the pivots are looked at."""
    factors, pivots = lu_and_piv
    left, right, line = system(square(factors), b)
    if left.ndim > 2:
        raise unsupported("scipy.linalg.lu_solve of a stack of matrices")
    order = permutation(np.asarray(guarded_value(pivots, "used traced pivots") if isinstance(pivots, TracedArray) else pivots))
    if trans == 0:
        inner = apply(triangular, left, right[order], lower=True, trans=False, unit=True)
        return solution(apply(triangular, left, inner, lower=False, trans=False, unit=False), line)
    left = np.conjugate(left) if trans == 2 and left.dtype.kind == "c" else left
    inner = apply(triangular, left, right, lower=False, trans=True, unit=False)
    return solution(apply(triangular, left, inner, lower=True, trans=True, unit=True)[np.argsort(order)], line)


@replaces_if_traced(sl.lu)
def lu(
    a: object, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False
) -> tuple[Array, ...]:
    """``P L U`` of square matrices."""
    x = floating(a)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise unsupported(f"scipy.linalg.lu of a matrix of shape {x.shape}, which is not square,")
    packed, _, _, back = apply_many(lu_factor, x)
    low, up = lower_unit(packed), np.triu(packed)
    swap = np.equal(np.expand_dims(back, -1), np.arange(x.shape[-1])).astype(x.dtype)
    if permute_l:
        return swap @ low, up
    return (back if p_indices else swap), low, up


# --- functions of matrices --------------------------------------------------------------------


@replaces_if_traced(sl.expm)
def expm_call(A: object) -> TracedArray:
    return apply(expm, square(A))


def _no_disp(disp: object, name: str) -> None:
    """``disp=False`` adds an estimate of the error, or the argument was left out."""
    if disp is False:
        raise unsupported(f"scipy.linalg.{name} with disp=False")


@replaces_if_traced(sl.sqrtm)
def sqrtm_call(A: object, disp: object = True, blocksize: object = None) -> TracedArray:
    _no_disp(disp, "sqrtm")
    return apply(sqrtm, square(A))


@replaces_if_traced(sl.logm)
def logm_call(A: object, disp: object = True) -> TracedArray:
    _no_disp(disp, "logm")
    return apply(logm, square(A))


@replaces_if_traced(sl.solve_sylvester)
def solve_sylvester(a: object, b: object, q: object) -> TracedArray:
    left, right, whole = square(a), square(b), floating(q)
    if whole.shape != (left.shape[0], right.shape[0]):
        raise ValueError(f"operands could not be broadcast together with shapes {left.shape} {right.shape} {whole.shape}")
    common = np.result_type(left.dtype, right.dtype, whole.dtype)
    return apply(sylvester, left.astype(common), right.astype(common), whole.astype(common))


@replaces_if_traced(sl.solve_continuous_lyapunov)
def solve_continuous_lyapunov(a: object, q: object) -> TracedArray:
    """The solution of ``a x + x a^H = q``."""
    left = square(a)
    return solve_sylvester(left, np.conjugate(mt(left)), q)


@replaces_if_traced(sl.solve_discrete_lyapunov)
def solve_discrete_lyapunov(a: object, q: object, method: str | None = None) -> TracedArray:
    """The solution of ``a x a^H - x + q = 0``, by a bilinear transformation to a continuous equation.

    An idea of V. Popov, "Hyperstability and optimality of automatic systems with several control functions", Rev. Roumaine
    Sci. Tech. 9(4), 1964; as in SciPy, which solves with a Kronecker product up to size 10.
    """
    if method not in (None, "direct", "bilinear"):
        raise ValueError(f"Unknown solver {method}")
    left, eye = square(a), np.eye(len(a))
    adjoint = np.conjugate(mt(left))
    inverse = np.linalg.inv(adjoint + eye)
    b = (adjoint - eye) @ inverse
    return solve_continuous_lyapunov(np.conjugate(mt(b)), -2.0 * np.linalg.inv(left + eye) @ floating(q) @ inverse)


# --- decompositions ---------------------------------------------------------------------------


def _plain_eigh(name: str, type_: int, subset: Sequence[object], driver: object) -> None:
    if type_ != 1 or any(s is not None for s in subset) or driver not in (None, "evr", "gvd"):
        raise unsupported(f"scipy.linalg.{name} with type=, subset_by_index=, subset_by_value= or driver=")


def _reduced(a: object, b: object, *, lower: bool) -> tuple[Array, Array | None, str]:
    """The generalised problem ``a v = w b v`` as a standard one: ``inv(L) a inv(L^H)`` with ``b = L L^H``, L, and the triangle to read."""
    x = square(a)
    if b is None:
        return x, None, "L" if lower else "U"
    left, right, _ = system(_mirrored(x, lower=lower, conjugate=True), square(b))
    factor = cholesky(right, lower=True) if lower else np.conjugate(mt(cholesky(right, lower=False)))
    how = {"lower": True, "trans": False, "unit": False}
    half = apply(triangular, factor, left, **how)
    return np.conjugate(mt(apply(triangular, factor, np.conjugate(mt(half)), **how))), factor, "L"


@replaces_if_traced(sl.eigh)
def eigh(
    a: object, b: object = None, *, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
    type: int = 1, check_finite: bool = True, subset_by_index: object = None, subset_by_value: object = None, driver: object = None,
) -> object:  # fmt: skip
    """Eigenvalues and vectors of ``a v = w v`` or ``a v = w b v``; one triangle is read.

    The vectors, whose signs SciPy does not specify, have the signs that NumPy's `eigh` gives.
    """
    _plain_eigh("eigh", type, (subset_by_index, subset_by_value), driver)
    x, factor, uplo = _reduced(a, b, lower=lower)
    if eigvals_only:
        return np.linalg.eigvalsh(x, uplo)
    w, v = np.linalg.eigh(x, uplo)
    return w, v if factor is None else apply(triangular, np.conjugate(factor), v, lower=True, trans=True, unit=False)


@replaces_if_traced(sl.eigvalsh)
def eigvalsh(
    a: object, b: object = None, *, lower: bool = True, overwrite_a: bool = False, overwrite_b: bool = False, type: int = 1,
    check_finite: bool = True, subset_by_index: object = None, subset_by_value: object = None, driver: object = None,
) -> TracedArray:  # fmt: skip
    _plain_eigh("eigvalsh", type, (subset_by_index, subset_by_value), driver)
    x, _, uplo = _reduced(a, b, lower=lower)
    return np.linalg.eigvalsh(x, uplo)


@replaces_if_traced(sl.svd)
def svd(
    a: object,
    full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True, lapack_driver: str = "gesdd",
) -> object:
    if lapack_driver != "gesdd":
        raise unsupported(f"scipy.linalg.svd with lapack_driver={lapack_driver!r}")
    factors = np.linalg.svd(floating(a), full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(factors) if compute_uv else factors


@replaces_if_traced(sl.svdvals)
def svdvals(a: object, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    return np.linalg.svd(floating(a), compute_uv=False)


@replaces_if_traced(sl.qr)
def qr(
    a: object, overwrite_a: bool = False, lwork: object = None, mode: str = "full", pivoting: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
    if pivoting or mode == "raw":
        raise unsupported(f"scipy.linalg.qr with {'pivoting=True' if pivoting else 'mode=raw'}")
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Mode argument should be one of ['full', 'r', 'economic', 'raw'], not {mode!r}")
    q, r = np.linalg.qr(floating(a), mode="reduced" if mode == "economic" else "complete")
    return (r,) if mode == "r" else (q, r)


@replaces_if_traced(sl.pinv)
def pinv(a: object, *, atol: object = None, rtol: object = None, return_rank: bool = False, check_finite: bool = True) -> Array:
    if return_rank or atol:
        raise unsupported(f"scipy.linalg.pinv with {'return_rank=True' if return_rank else 'atol='}")
    x = floating(a)
    bound = max(x.shape[-2:]) * np.finfo(x.dtype).eps if rtol is None else concrete(rtol, "scipy.linalg.pinv with a traced rtol")
    return np.linalg.pinv(x, rcond=bound)


@replaces_if_traced(sl.norm)
def norm(a: object, ord: object = None, axis: object = None, keepdims: bool = False, check_finite: bool = True) -> TracedArray:
    return np.linalg.norm(floating(a), ord, axis, keepdims)


@replaces_if_traced(sl.lstsq)
def lstsq(
    a: object, b: object, cond: object = None, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True,
    lapack_driver: object = None,
) -> tuple[object, ...]:
    """The least squares solution of smallest norm, residuals, rank and singular values."""
    if lapack_driver not in (None, "gelsd"):
        raise unsupported(f"scipy.linalg.lstsq with lapack_driver={lapack_driver!r}")
    left, right, line = _pair_of_rows(a, b)
    bound = np.finfo(left.dtype).eps if cond is None else cond
    x, residuals, rank, s = np.linalg.lstsq(left, right, rcond=bound)
    return solution(x, line), as_scalar(residuals[0]) if line and residuals.size else residuals, rank, s


def _pair_of_rows(a: object, b: object) -> tuple[TracedArray, TracedArray, bool]:
    left, right = floating(a), floating(b)
    if left.shape[0] != right.shape[0]:
        raise ValueError(f"Shape mismatch: a and b should have the same number of rows ({left.shape[0]} != {right.shape[0]}).")
    dtype, line = promote(kind_of(left), kind_of(right)), right.ndim == 1
    return left.astype(dtype, copy=False), (right[:, None] if line else right).astype(dtype, copy=False), line

"""Eigenvalues and eigenvectors: the ops behind `numpy.linalg.eigh`, `eigvalsh`, `eig`, `eigvals`.

With A V = V diag(w) and P = inv(V) dA V: dw = diag(P) and dV = V (F o P), where F[i, j] = 1 / (w[j] - w[i]) off the
diagonal and 0 on it, up to the normalisation of the columns. Sources: J. R. Magnus, "On differentiating
eigenvalues and eigenvectors", Econometric Theory 1, 1985, theorems 1 and 2; M. B. Giles, "Collected matrix derivative results
for forward and reverse mode algorithmic differentiation", Springer 2008, section 3.1.

**Equal eigenvalues.** The derivatives of eigenvalues contain no differences of eigenvalues, so derivatives
of sums over equal eigenvalues are right. Derivatives of eigenvectors, and second derivatives of eigenvalues, divide by
such a difference: they are NaN where two eigenvalues are equal up to rounding, that is, up to the error that LAPACK's
eigenvalues have (`n` units of the last place of the largest). Zero in place of NaN would be right for
functions of whole eigenspaces (projectors), and silently wrong for ``V f(w) V'``, whose part between equal
values is the derivative of `f`, which the rule cannot know: such products are recognised before anything is
differentiated (`spectral_sums.py`). Singular values (`singular_values.py`) are treated in the same way.

**Pairing.** In the rules, `_bar` of a complex array is the conjugate of the cotangent on the tape (whose
pairing is ``Re(bar * dot)``), so that transposes are Hermitian: ``Re(tr(x_bar^H x_dot))``.
"""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np

from ...arraytype import BOOL, ArrayType, real_dtype
from ...primitive import ZERO, Sample
from ...trace import Array, TracedArray, apply, apply_many, guarded_value
from ..entrywise.families import add_up, flat_op
from .matrix_ops import solve
from .stacked_matrices import (
    Args,
    Bars,
    complex_dtype,
    diagonals_of,
    eye_like,
    hermitian_cotangents,
    mh,
    normal_matrices,
    output_of,
    reciprocal_or_zero,
    scale_columns,
    stacked_op,
    tape_cotangent,
    well_separated_matrices,
)

# --- what the rules are made of ---------------------------------------------------------------


def reciprocal_gaps(w: TracedArray) -> Array:
    """``1 / (w[j] - w[i])`` at ``[i, j]``: NaN where both are equal up to rounding, 0 on the diagonal."""
    apart = np.expand_dims(w, -2) - np.expand_dims(w, -1)
    same = np.eye(w.shape[-1], dtype=bool)
    norm = np.max(np.abs(w), axis=-1, initial=0.0)
    zero = np.abs(apart) <= np.expand_dims(norm, (-2, -1)) * (w.shape[-1] * np.finfo(w.dtype).eps)
    return np.where(same, 0.0, np.where(zero, np.nan, 1.0 / np.where(zero, 1.0, apart)))


# --- complex vectors: LAPACK scales each so that one entry is real ----------------------------


def row_mask(v: TracedArray, k: int) -> np.ndarray:
    """Mask of row `k` of a matrix like `v`: 1 there, 0 elsewhere."""
    row = np.zeros(v.shape[-2:], real_dtype(v.dtype))
    row[k : k + 1 or None] = 1.0
    return row


def phase_rates(moved: Array, v: TracedArray, row: object) -> TracedArray:
    """For each column, the rate of the phase of the entry that the mask `one` marks; LAPACK keeps that phase 0."""
    return np.sum(np.imag(moved) * row, axis=-2) * reciprocal_or_zero(np.sum(np.real(v) * row, axis=-2))


def _phase_fixed(moved: Array, v: TracedArray, row: object) -> Array:
    """The tangent of the columns of `v`, with the change of phase that keeps the marked entries real."""
    return moved - 1j * scale_columns(v, phase_rates(moved, v, row)) if v.dtype.kind == "c" else moved


def release_phases(v_bar: object, v: TracedArray, row: object, turn: object) -> TracedArray:
    """The transpose of `_phase_fixed`; `turn` is the cotangent of the phase of each column."""
    return v_bar - 1j * scale_columns(row, turn * reciprocal_or_zero(np.sum(np.real(v) * row, axis=-2)))


def phase_cotangents(v: Array, v_bar: object) -> TracedArray:
    return np.imag(np.sum(np.conjugate(v) * v_bar, axis=-2))


# --- eigenvalues of Hermitian matrices: one triangle is read ----------------------------------


def hermitian_of_triangle(dot: TracedArray, uplo: str) -> Array:
    """The Hermitian matrix of which NumPy reads one triangle, and the real part of the diagonal."""
    strict = np.tril(dot, -1) if uplo == "L" else np.triu(dot, 1)
    return strict + mh(strict) + np.real(dot) * eye_like(dot)


def triangle_cotangent(x_bar: TracedArray, uplo: str) -> Array:
    """The transpose of `hermitian_of_triangle`."""
    both = x_bar + mh(x_bar)
    return (np.tril(both, -1) if uplo == "L" else np.triu(both, 1)) + np.real(x_bar) * eye_like(x_bar)


_REAL_ROW = {"L": 0, "U": -1}  # the entry of complex eigenvectors that the tridiagonal reduction of LAPACK leaves real


def _eigh_type(a: ArrayType, *, uplo: str) -> tuple[ArrayType, ...]:
    return ArrayType(a.shape[:-1], real_dtype(a.dtype)), a


def _eigh_jvp(dots: Bars, args: Args, outs: Args, *, uplo: str) -> list[object]:
    w, v = outs
    moved = mh(v) @ hermitian_of_triangle(dots[0], uplo) @ v
    return [np.real(diagonals_of(moved)), _phase_fixed(v @ (reciprocal_gaps(w) * moved), v, row_mask(v, _REAL_ROW[uplo]))]


def _eigh_vjp(bars: Bars, args: Args, outs: Args, *, uplo: str) -> list[object]:
    (w, v), (w_bar, v_bar) = outs, hermitian_cotangents(bars)
    if v_bar is not ZERO and v.dtype.kind == "c":
        v_bar = release_phases(v_bar, v, row_mask(v, _REAL_ROW[uplo]), phase_cotangents(v, v_bar))
    of_vectors = ZERO if v_bar is ZERO else v @ (reciprocal_gaps(w) * (mh(v) @ v_bar))
    inner = add_up([of_vectors, ZERO if w_bar is ZERO else scale_columns(v, w_bar)])
    return [tape_cotangent(triangle_cotangent(inner @ mh(v), uplo), args[0])]


def _eigvalsh_jvp(dots: Bars, args: Args, outs: Args, *, uplo: str) -> list[object]:
    v = apply_many(eigh, args[0], uplo=uplo)[1]
    return [np.real(np.sum(np.conjugate(v) * (hermitian_of_triangle(dots[0], uplo) @ v), axis=-2))]


def _eigvalsh_vjp(bars: Bars, args: Args, outs: Args, *, uplo: str) -> list[object]:
    v = apply_many(eigh, args[0], uplo=uplo)[1]
    return [tape_cotangent(triangle_cotangent(scale_columns(v, bars[0]) @ mh(v), uplo), args[0])]


def _eigh(a: np.ndarray, *, uplo: str) -> tuple[np.ndarray, ...]:
    return tuple(np.linalg.eigh(a, uplo))


def _eigvalsh(a: np.ndarray, *, uplo: str) -> np.ndarray:
    return np.linalg.eigvalsh(a, uplo)


def _triangles(make: Callable[..., Callable[..., object]]) -> list[Sample]:
    return [Sample(make(2, 3, 3), {"uplo": "L"}), Sample(make(3, 3), {"uplo": "U"})]


eigh = stacked_op("eigh", _eigh_type, _eigh, _eigh_jvp, _eigh_vjp, *_triangles(well_separated_matrices))
eigvalsh = stacked_op("eigvalsh", output_of(_eigh_type, 0), _eigvalsh, _eigvalsh_jvp, _eigvalsh_vjp, *_triangles(normal_matrices))

# --- eigenvalues of any square matrix ---------------------------------------------------------


def _eig_type(a: ArrayType, *, real: bool) -> tuple[ArrayType, ...]:
    dtype = a.dtype if real else complex_dtype(a.dtype)
    return ArrayType(a.shape[:-1], dtype), ArrayType(a.shape, dtype)


def _eig(a: np.ndarray, *, real: bool) -> tuple[np.ndarray, np.ndarray]:
    """NumPy's `eig` in the dtype of the trace: where results were real in the trace and are complex now, NaN."""
    w, v = np.linalg.eig(a)
    if real and w.dtype.kind == "c":
        lost = (w.imag != 0).any(-1)
        return np.where(lost[..., None], np.nan, w.real), np.where(lost[..., None, None], np.nan, v.real)
    dtype = a.dtype if real else complex_dtype(a.dtype)
    return w.astype(dtype, copy=False), v.astype(dtype, copy=False)


def _largest(v: TracedArray) -> TracedArray:
    """Mask of the largest entry of each column, which LAPACK makes real."""
    size = np.square(np.real(v)) + np.square(np.imag(v))
    at = np.expand_dims(np.argmax(size, axis=-2), -2)
    return (at == np.arange(v.shape[-2])[:, None]).astype(size.dtype)


def _eig_jvp(dots: Bars, args: Args, outs: Args, *, real: bool) -> list[object]:
    """Magnus 1985, theorem 2; columns keep length 1, and their largest entries stay real."""
    w, v = outs
    moved = apply(solve, v, dots[0].astype(v.dtype) @ v)
    free = v @ (reciprocal_gaps(w) * moved)
    free = free - scale_columns(v, np.real(np.sum(np.conjugate(v) * free, axis=-2)))
    return [diagonals_of(moved), free if real else _phase_fixed(free, v, _largest(v))]


def _eig_vjp(bars: Bars, args: Args, outs: Args, *, real: bool) -> list[object]:
    (w, v), (w_bar, v_bar) = outs, hermitian_cotangents(bars)
    inner = ZERO if w_bar is ZERO else np.expand_dims(w_bar, -1) * eye_like(v)
    if v_bar is not ZERO:
        free = v_bar if real else release_phases(v_bar, v, _largest(v), phase_cotangents(v, v_bar))
        free = free - scale_columns(v, np.real(np.sum(np.conjugate(v) * v_bar, axis=-2)))
        inner = add_up([inner, np.conjugate(reciprocal_gaps(w)) * (mh(v) @ free)])
    return [tape_cotangent(apply(solve, mh(v), inner @ mh(v)), args[0])]


def _eigvals_jvp(dots: Bars, args: Args, outs: Args, *, real: bool) -> list[object]:
    v = apply_many(eig, args[0], real=real)[1]
    return [diagonals_of(apply(solve, v, dots[0].astype(v.dtype) @ v))]


def _eigvals_vjp(bars: Bars, args: Args, outs: Args, *, real: bool) -> list[object]:
    v = apply_many(eig, args[0], real=real)[1]
    return [tape_cotangent(apply(solve, mh(v), np.expand_dims(np.conjugate(bars[0]), -1) * mh(v)), args[0])]


def _eigvals(a: np.ndarray, *, real: bool) -> np.ndarray:
    w = np.linalg.eigvals(a)
    if real and w.dtype.kind == "c":
        return np.where((w.imag != 0).any(-1, keepdims=True), np.nan, w.real)
    return w.astype(a.dtype if real else complex_dtype(a.dtype), copy=False)


_REAL = Sample(well_separated_matrices(2, 3, 3), {"real": True})
eig = stacked_op("eig", _eig_type, _eig, _eig_jvp, _eig_vjp, _REAL)
eigvals = stacked_op("eigvals", output_of(_eig_type, 0), _eigvals, _eigvals_jvp, _eigvals_vjp, _REAL)


def _all_real(a: np.ndarray, *, kept: int) -> np.ndarray:
    return np.all(np.imag(np.linalg.eigvals(a)) == 0, axis=tuple(range(kept, a.ndim - 1)))


def _real_type(a: ArrayType, *, kept: int) -> tuple[ArrayType, ...]:
    return (ArrayType(a.shape[:kept], BOOL),)


def _real_batch(args: Args, mapped: object, size: int, *, kept: int) -> list[object]:
    return [apply(real_spectrum, args[0], kept=kept + 1)]


_SPECTRA = [Sample(well_separated_matrices(2, 3, 3), {"kept": 1}), Sample(normal_matrices(4, 3, 3), {"kept": 0})]
# Whether all eigenvalues are real, over all but the first `kept` axes; the dtype of NumPy's result depends on it.
real_spectrum = flat_op("real_spectrum", _real_type, _all_real, *_SPECTRA, batch=_real_batch)


def has_real_spectrum(a: TracedArray) -> bool:
    """Whether all eigenvalues of the whole stack are real."""
    return a.dtype.kind != "c" and bool(guarded_value(apply(real_spectrum, a, kept=0), "asked whether eigenvalues are real"))


def eigvals_real_if_possible(a: TracedArray) -> TracedArray:
    """Eigenvalues, real where all of them are, whatever NumPy's `eigvals` does: as `numpy.roots` has them."""
    return apply(eigvals, a, real=has_real_spectrum(a))

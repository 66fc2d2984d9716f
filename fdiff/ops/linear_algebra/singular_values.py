"""Singular values and vectors: the ops behind `numpy.linalg.svd` and `svdvals`.

With P = U' dA V, dU = U X and dV = V Y: ds = diag(P), X - Y = (P - P') / (s + s'), X + Y = (P + P') / (s' - s),
entry by entry. Source: J. Townsend, "Differentiating the singular value decomposition", 2016, the whole note. Equal
singular values: see `eigenvalues.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, real_dtype
from ...primitive import ZERO, Sample, Zero
from ...trace import Array, Operand, TracedArray, apply_many
from ..entrywise.families import add_up
from .eigenvalues import (
    hermitian_of_triangle,
    phase_cotangents,
    phase_rates,
    reciprocal_gaps,
    release_phases,
    row_mask,
    triangle_cotangent,
)
from .stacked_matrices import (
    Args,
    Bars,
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
)

# --- singular values --------------------------------------------------------------------------


def _svd_type(a: ArrayType, *, full: bool, hermitian: bool) -> tuple[ArrayType, ...]:
    *stack, m, n = a.shape
    k = min(m, n)
    u, s, vh = (m, m if full else k), (k,), (n if full else k, n)
    return ArrayType((*stack, *u), a.dtype), ArrayType((*stack, *s), real_dtype(a.dtype)), ArrayType((*stack, *vh), a.dtype)


def matrix_tangent(dot: TracedArray, *, hermitian: bool) -> Array:
    """The tangent of the decomposed matrix; if `hermitian`, NumPy reads its lower triangle alone."""
    return hermitian_of_triangle(dot, "L") if hermitian else dot


def matrix_cotangent(a_bar: TracedArray, a: TracedArray, *, hermitian: bool) -> Array:
    return tape_cotangent(triangle_cotangent(a_bar, "L") if hermitian else a_bar, a)


def _thin(outs: Args) -> tuple[TracedArray, TracedArray, Array]:
    """``(U, s, V)`` with as many columns as there are singular values."""
    u, s, vh = outs
    k = s.shape[-1]
    return u[..., :k], s, mh(vh[..., :k, :])


def _sums(s: TracedArray) -> Array:
    """``1 / (s[i] + s[j])``, and 0 where both are 0."""
    return reciprocal_or_zero(np.expand_dims(s, -2) + np.expand_dims(s, -1))


def orthogonal_part(q: TracedArray, x: object) -> TracedArray:
    """The part of `x` orthogonal to the columns of `q`: ``(I - Q Q^H) x``."""
    return x - q @ (mh(q) @ x)


def _widened(q: TracedArray, q_dot: TracedArray, away: TracedArray) -> Array:
    """The tangent of all columns of a unitary `q`, from the tangent of its first columns, whose orthogonal part is `away`.

    A rotation of the other columns among themselves is not determined by the matrix; it is taken as zero.
    """
    k = q_dot.shape[-1]
    return q_dot if q.shape[-1] == k else np.concatenate([q_dot, -(q[..., :k] @ (mh(away) @ q[..., k:]))], axis=-1)


def _narrowed(q: TracedArray, q_bar: TracedArray, k: int) -> TracedArray:
    """The transpose of `_widened`: the cotangent of the first `k` columns from the cotangent of all
    columns.
    """
    rest = q_bar[..., k:]
    return q_bar[..., :k] if q.shape[-1] == k else q_bar[..., :k] - q[..., k:] @ (mh(rest) @ q[..., :k])


def _real_side(u: TracedArray, v: TracedArray, at_u: Array, at_v: Array) -> tuple[TracedArray, Array]:
    """The factor (U or V) whose first row LAPACK's bidiagonal reduction leaves real, and its tangent or cotangent."""
    return (v, at_v) if u.shape[-2] >= v.shape[-2] else (u, at_u)


def _svd_jvp(dots: Bars, args: Args, outs: Args, *, full: bool, hermitian: bool) -> list[object]:
    """The formulas of the module docstring.

    Townsend's formulas for X and Y have differences ``s'^2 - s^2`` in all denominators. For X - Y and X + Y
    separately, what does not depend on the choice of vectors (U V', for instance) is right at equal
    singular values too.
    """
    u, s, v = _thin(outs)
    dot = matrix_tangent(dots[0], hermitian=hermitian)
    p = mh(u) @ dot @ v
    apart, along = _sums(s) * (p - mh(p)), reciprocal_gaps(s) * (p + mh(p))
    over = reciprocal_or_zero(s)
    u_away, v_away = (orthogonal_part(q, scale_columns(x @ r, over)) for q, x, r in ((u, dot, v), (v, mh(dot), u)))
    u_dot = u @ (0.5 * (along + apart)) + u_away
    v_dot = v @ (0.5 * (along - apart)) + v_away
    if u.dtype.kind == "c":
        held, moved = _real_side(u, v, u_dot, v_dot)
        angle = phase_rates(moved, held, row_mask(held, 0))
        u_dot, v_dot = u_dot - 1j * scale_columns(u, angle), v_dot - 1j * scale_columns(v, angle)
    s_dot = np.sign(s) * np.real(diagonals_of(p))
    return [_widened(outs[0], u_dot, u_away), s_dot, mh(_widened(mh(outs[2]), v_dot, v_away))]


def _turned_back(outs: Args, u_bar: Array, v_bar: Array) -> tuple[Array, Array]:
    """The transpose of the common change of phase of U and V that keeps one row real."""
    u, s, v = _thin(outs)
    k = s.shape[-1]
    u_bar, v_bar = (np.zeros(q.shape, q.dtype) if bar is ZERO else bar for q, bar in ((outs[0], u_bar), (mh(outs[2]), v_bar)))
    turn = phase_cotangents(u, u_bar[..., :k]) + phase_cotangents(v, v_bar[..., :k])
    held, bar = _real_side(u, v, u_bar, v_bar)
    first = release_phases(bar[..., :k], held, row_mask(held, 0), turn)
    bar = np.concatenate([first, bar[..., k:]], axis=-1)
    return (u_bar, bar) if held is v else (bar, v_bar)


def _svd_vjp(bars: Bars, args: Args, outs: Args, *, full: bool, hermitian: bool) -> Sequence[object]:
    u, s, v = _thin(outs)
    u_bar, s_bar, vh_bar = hermitian_cotangents(bars)
    none = np.zeros(s.shape, s.dtype)
    inner = np.expand_dims(none if s_bar is ZERO else np.sign(s) * s_bar, -1) * eye_like(s)
    v_bar = vh_bar if vh_bar is ZERO else mh(vh_bar)
    if u.dtype.kind == "c" and not u_bar is v_bar is ZERO:
        u_bar, v_bar = _turned_back(outs, u_bar, v_bar)
    half_u, away_u = _pulled_vectors(u, outs[0], u_bar, s)
    half_v, away_v = _pulled_vectors(v, mh(outs[2]), v_bar, s)
    if not u_bar is v_bar is ZERO:
        along, apart = reciprocal_gaps(s) * (half_u + half_v), _sums(s) * (half_u - half_v)
        inner = inner + (along + mh(along)) + (apart - mh(apart))
    away = [ZERO if away_u is ZERO else away_u @ mh(v), ZERO if away_v is ZERO else u @ mh(away_v)]
    return [matrix_cotangent(add_up([u @ inner @ mh(v), *away]), args[0], hermitian=hermitian)]


def _pulled_vectors(q: TracedArray, whole: TracedArray, bar: Array, s: TracedArray) -> tuple[Operand, Array | Zero]:
    """Half of ``Q^H bar`` within the span of the vectors Q, and the part of ``bar diag(1 / s)`` orthogonal to it."""
    if bar is ZERO:
        return 0.0, ZERO
    k = s.shape[-1]
    away = scale_columns(orthogonal_part(q, _narrowed(whole, bar, k)), reciprocal_or_zero(s))
    return 0.5 * (mh(q) @ bar[..., :k]), away


def svdvals_jvp(dots: Bars, args: Args, outs: Args, *, hermitian: bool) -> list[object]:
    u, s, v = _thin(apply_many(svd, args[0], full=False, hermitian=hermitian))
    moved = np.sum(np.conjugate(u) * (matrix_tangent(dots[0], hermitian=hermitian) @ v), axis=-2)
    return [np.sign(s) * np.real(moved)]


def svdvals_vjp(bars: Bars, args: Args, outs: Args, *, hermitian: bool) -> list[object]:
    u, s, v = _thin(apply_many(svd, args[0], full=False, hermitian=hermitian))
    return [matrix_cotangent(scale_columns(u, np.sign(s) * bars[0]) @ mh(v), args[0], hermitian=hermitian)]


def _svd(a: np.ndarray, *, full: bool, hermitian: bool) -> tuple[np.ndarray, ...]:
    return tuple(np.linalg.svd(a, full, hermitian=hermitian))


def _svdvals(a: np.ndarray, *, hermitian: bool) -> np.ndarray:
    return np.linalg.svd(a, compute_uv=False, hermitian=hermitian)


_SHAPES = {(2, 4, 3): False, (2, 3): False, (3, 3): True}
_SVDS = [Sample(normal_matrices(*shape), {"full": False, "hermitian": hermitian}) for shape, hermitian in _SHAPES.items()]
_VALUES = [Sample(normal_matrices(2, 4, 3), {"hermitian": False}), Sample(normal_matrices(3, 3), {"hermitian": True})]
svd = stacked_op("svd", _svd_type, _svd, _svd_jvp, _svd_vjp, *_SVDS)
# At a singular value of 0 the derivative given is 0, the mean of both one-sided derivatives.
svdvals = stacked_op("svdvals", output_of(_svd_type, 1, full=False), _svdvals, svdvals_jvp, svdvals_vjp, *_VALUES)

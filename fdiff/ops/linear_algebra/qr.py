"""The QR factorisation and its adjoint.

With C = Q' dA inv(R): Q' dQ is skew and dR is upper triangular. Sources: S. F. Walter and L. Lehmann, "Algorithmic
differentiation of linear algebra functions", arXiv:1001.1654, section on QR; D. A. O. Roberts and L. R. Roberts, "QR and LQ
decomposition matrix backpropagation algorithms for square, wide, and deep matrices", arXiv:2009.10071, the whole note;
M. Seeger et al., "Auto-differentiating linear algebra", arXiv:1710.08717, section on LQ.
"""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...primitive import ZERO
from ...trace import Array, TracedArray, apply
from ..entrywise.families import add_up, flat_op
from .matrix_ops import solve
from .singular_values import orthogonal_part
from .stacked_matrices import (
    Args,
    Bars,
    eye_like,
    hermitian_cotangents,
    mh,
    normal_matrices,
    scale_columns,
    stacked_op,
    tape_cotangent,
)


def _qr_type(a: ArrayType) -> tuple[ArrayType, ...]:
    return a, ArrayType((*a.shape[:-2], a.shape[-1], a.shape[-1]), a.dtype)


def _qr_jvp(dots: Bars, args: Args, outs: Args) -> list[object]:
    """Walter and Lehmann (the note above): with C = Q' dA inv(R), Q' dQ is skew and dR is triangular (its diagonal real)."""
    q, r = outs
    y = mh(apply(solve, mh(r), mh(dots[0])))
    c = mh(q) @ y
    low = np.tril(c, -1)
    turn = low - mh(low)
    if q.dtype.kind == "c":
        turn = turn + 1j * np.imag(c) * eye_like(np.real(r))
    return [q @ turn + orthogonal_part(q, y), np.triu((c - turn) @ r)]


def _qr_vjp(bars: Bars, args: Args, outs: Args) -> list[object]:
    (q, r), (q_bar, r_bar) = outs, hermitian_cotangents(bars)
    k = np.zeros(r.shape, r.dtype) if r_bar is ZERO else np.triu(r_bar) @ mh(r)
    m = -k if q_bar is ZERO else mh(q) @ q_bar - k
    c_bar = k + np.tril(m - mh(m), -1)
    if q.dtype.kind == "c":
        c_bar = c_bar + 1j * np.imag(m) * eye_like(np.real(r))
    y_bar = add_up([q @ c_bar, ZERO if q_bar is ZERO else orthogonal_part(q, q_bar)])
    return [tape_cotangent(mh(apply(solve, r, mh(y_bar))), args[0])]


qr_ = stacked_op("qr", _qr_type, lambda a: tuple(np.linalg.qr(a)), _qr_jvp, _qr_vjp, normal_matrices(2, 4, 3), normal_matrices(3, 3))


def _flips(q: np.ndarray) -> np.ndarray:
    """-1 for the columns LAPACK did not reflect, because nothing stood below their diagonal; else 1.

    Elimination of I - Q without pivoting, whose pivots are the factors tau of the reflections, of
    size 1 to 2 or 0: LAPACK's routine ``dlaorhr_col_getrfnp`` (idea of Ballard et al., IPDPS 2014).
    """
    n = q.shape[-1]
    left = np.eye(n, dtype=q.dtype) - q[..., :n, :]
    out = np.ones((*q.shape[:-2], n), q.dtype)
    for k in range(n):
        still = np.abs(left[..., k, k]) < 0.5
        out[still, k] = -1.0
        left[..., k] = np.where(still[..., None], 2.0 * np.eye(n)[k] - left[..., k], left[..., k])
        factors = left[..., k + 1 :, k] / left[..., k, k, None]
        left[..., k + 1 :, k + 1 :] -= factors[..., None] * left[..., k, None, k + 1 :]
    return out


def _orthonormal(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return (np.linalg.qr(rng.normal(size=(2, 5, 3)))[0],)


flips = flat_op("qr_flips", lambda q: (ArrayType((*q.shape[:-2], q.shape[-1]), q.dtype),), _flips, _orthonormal)


def complete_q(q: TracedArray) -> Array:
    """All columns of the product of the reflections whose first columns are `q`.

    That product is I - Y T Y' with Y = [Y1; Y2] unit lower and T upper triangular. Its first columns
    give Y T Y1' and so, without Y and T, the others: E2 + (E1 - Q1) inv(I - Q11)' Q21'.
    """
    m, n = q.shape[-2:]
    full = np.eye(m, dtype=q.dtype)
    turned = scale_columns(q, apply(flips, q))
    away = full[:, :n] - turned
    rest = apply(solve, mh(away[..., :n, :]), mh(turned[..., n:, :]))
    return np.concatenate([q, full[:, n:] + away @ rest], axis=-1)

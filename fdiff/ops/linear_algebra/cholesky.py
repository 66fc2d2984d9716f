"""The Cholesky factorisation and its adjoint.

With A = L L', the tangent is dL = L phi(inv(L) dA inv(L')) and the cotangent is
A_bar = phi(S + S') with S = inv(L') phi(L' L_bar) inv(L), where phi takes the lower triangle and halves
the diagonal: I. Murray, "Differentiation of the Cholesky decomposition", arXiv:1602.07527 (2016), equations 8
and 10; S. P. Smith, "Differentiation of the Cholesky algorithm", J. Comput. Graph. Stat. 4(2), pages 134-147, 1995.
Only the lower triangle of A is read.
"""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, broadcast
from ...primitive import ZERO
from ...trace import TracedArray, apply
from ..entrywise.broadcasting import stretch, unbroadcast
from ..entrywise.families import add_up
from .matrix_ops import solve
from .stacked_matrices import (
    Args,
    Bars,
    mt,
    positive_definite_matrices,
    same_type,
    stacked_op,
)


def _phi(x: TracedArray) -> TracedArray:
    """Lower triangle with the diagonal halved."""
    n = x.shape[-1]
    weight = np.tril(np.ones((n, n), x.dtype)) - 0.5 * np.eye(n, dtype=x.dtype)
    return x * weight.astype(x.dtype)


def _cholesky_jvp(dots: Bars, args: Args, outs: Args) -> list[object]:
    low = outs[0]
    symmetric = np.tril(dots[0]) + mt(np.tril(dots[0], -1))
    half = apply(solve, low, symmetric)
    return [low @ _phi(mt(apply(solve, low, mt(half))))]


def _cholesky_vjp(bars: Bars, args: Args, outs: Args) -> list[object]:
    return [apply(cholesky_bar, outs[0], bars[0])]


cholesky_ = stacked_op("cholesky", same_type, np.linalg.cholesky, _cholesky_jvp, _cholesky_vjp, positive_definite_matrices, inline=4)


def _low_bar(low: np.ndarray, bar: np.ndarray) -> np.ndarray:
    n = low.shape[-1]
    weight = np.tril(np.ones((n, n), low.dtype)) - (0.5 * np.eye(n)).astype(low.dtype)
    up = np.swapaxes(low, -1, -2)
    half = np.linalg.solve(up, (up @ bar) * weight)
    full = np.linalg.solve(up, np.swapaxes(half, -1, -2))
    return (full + np.swapaxes(full, -1, -2)) * weight


def _low_bar_jvp(dots: Bars, args: Args, outs: Args) -> list[object]:
    (low_dot, bar_dot), (low, bar), out = dots, args, outs[0]
    moved = ZERO if bar_dot is ZERO else apply(cholesky_bar, low, bar_dot)
    if low_dot is not ZERO:
        middle = _phi(mt(low_dot) @ bar)
        half = apply(solve, mt(low), middle + mt(middle))
        turned = apply(solve, mt(low), mt(low_dot)) @ (out + mt(out))
        moved = add_up([moved, _phi(apply(solve, mt(low), mt(half)) - turned - mt(turned))])
    return [stretch(moved, out.shape)]


def _low_bar_vjp(bars: Bars, args: Args, outs: Args) -> list[object]:
    (low, bar), out, weighted = args, outs[0], _phi(bars[0])
    half = apply(solve, low, weighted + mt(weighted))
    middle = _phi(mt(apply(solve, low, mt(half))))
    low_bar = bar @ mt(middle) - (out + mt(out)) @ mt(half)
    return [unbroadcast(low_bar, low.shape), unbroadcast(low @ middle, bar.shape)]


def _low_bar_type(low: ArrayType, bar: ArrayType) -> tuple[ArrayType, ...]:
    return (ArrayType(broadcast(low.shape, bar.shape), low.dtype),)


def _factors(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return np.linalg.cholesky(*positive_definite_matrices(rng)), rng.normal(size=(2, 3, 3))


cholesky_bar = stacked_op("cholesky_bar", _low_bar_type, _low_bar, _low_bar_jvp, _low_bar_vjp, _factors, broadcast=True, inline=4)

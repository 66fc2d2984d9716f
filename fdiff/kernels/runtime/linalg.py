"""Matrix routines, compiled once a machine and called by address.

Each takes four pointers and four sizes and gives a status: 0, 2 for a singular matrix, 3 for one
that is not positive definite. Matrices are stacked, square and in row-major order. Algorithms:
Golub and Van Loan, Matrix Computations, 4th ed., 3.4.1 (LU, partial pivoting), 3.4.8 (complete
pivoting), 4.2.5 (Cholesky).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import njit

from .memory import FlatType, entries, gemm

SINGULAR, INDEFINITE = 2, 3
_inner = njit(nogil=True, error_model="numpy")
_BLAS_FROM = 20_000  # products from which BLAS is faster than a plain loop


@_inner
def _copy(source: FlatType, start: int, target: np.ndarray, n: int) -> None:
    for i in range(n):
        for j in range(n):
            target[i, j] = source[start + i * n + j]


@_inner
def _factor(lu: np.ndarray, rows: np.ndarray) -> int:
    """LU factors in place of `lu`, its rows exchanged as `rows` tells; sign of the exchange, 0 if singular."""
    n = lu.shape[0]
    sign = 1
    regular = True
    for i in range(n):
        rows[i] = i
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(lu[i, k]) > abs(lu[p, k]):
                p = i
        if p != k:
            sign = -sign
            rows[k], rows[p] = rows[p], rows[k]
            for j in range(n):
                lu[k, j], lu[p, j] = lu[p, j], lu[k, j]
        if lu[k, k] == 0:
            regular = False
            continue
        for i in range(k + 1, n):
            factor = lu[i, k] / lu[k, k]
            lu[i, k] = factor
            for j in range(k + 1, n):
                lu[i, j] -= factor * lu[k, j]
    return sign if regular else 0


def solve(
    pa: FlatType, pb: FlatType, px: FlatType, _: FlatType, stack: int, n: int, columns: int, _n: int
) -> int:
    """``a x = b`` with `columns` right-hand sides."""
    a, b, x = entries(pa), entries(pb), entries(px)
    lu, rows = np.empty((n, n)), np.empty(n, np.int64)
    for s in range(stack):
        _copy(a, s * n * n, lu, n)
        if _factor(lu, rows) == 0:
            return SINGULAR
        _substitute(lu, rows, b, x, s * n * columns, n, columns)
    return 0


@_inner
def _substitute(
    lu: np.ndarray, rows: np.ndarray, b: FlatType, x: FlatType, at: int, n: int, columns: int
) -> None:
    for i in range(n):
        for j in range(columns):
            x[at + i * columns + j] = b[at + rows[i] * columns + j]
        for k in range(i):
            for j in range(columns):
                x[at + i * columns + j] -= lu[i, k] * x[at + k * columns + j]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            for j in range(columns):
                x[at + i * columns + j] -= lu[i, k] * x[at + k * columns + j]
        for j in range(columns):
            x[at + i * columns + j] /= lu[i, i]


def inv(
    pa: FlatType, px: FlatType, _: FlatType, _d: FlatType, stack: int, n: int, _m: int, _n: int
) -> int:
    """The inverse of each matrix."""
    a, x = entries(pa), entries(px)
    lu, rows = np.empty((n, n)), np.empty(n, np.int64)
    place = np.empty(n, np.int64)
    for s in range(stack):
        _copy(a, s * n * n, lu, n)
        if _factor(lu, rows) == 0:
            return SINGULAR
        for i in range(n):
            place[i] = i
            for j in range(n):
                x[s * n * n + i * n + j] = 1.0 if rows[i] == j else 0.0
        _substitute(lu, place, x, x, s * n * n, n, n)
    return 0


def det(
    pa: FlatType, px: FlatType, _: FlatType, _d: FlatType, stack: int, n: int, _m: int, _n: int
) -> int:
    """The determinant of each matrix."""
    a, x = entries(pa), entries(px)
    lu, rows = np.empty((n, n)), np.empty(n, np.int64)
    for s in range(stack):
        _copy(a, s * n * n, lu, n)
        value = float(_factor(lu, rows))
        for i in range(n):
            value *= lu[i, i]
        x[s] = value
    return 0


def slogdet(
    pa: FlatType, psign: FlatType, plog: FlatType, _: FlatType, stack: int, n: int, _m: int, _n: int
) -> int:
    """Sign and logarithm of the absolute value of the determinant of each matrix."""
    a, signs, logs = entries(pa), entries(psign), entries(plog)
    lu, rows = np.empty((n, n)), np.empty(n, np.int64)
    for s in range(stack):
        _copy(a, s * n * n, lu, n)
        sign = float(_factor(lu, rows))
        log = 0.0 if sign != 0 else -np.inf
        if sign != 0:
            for i in range(n):
                sign *= 1.0 if lu[i, i] > 0 else -1.0 if lu[i, i] < 0 else np.nan
                log += math.log(abs(lu[i, i]))
        signs[s], logs[s] = sign, log
    return 0


def cholesky(
    pa: FlatType, px: FlatType, _: FlatType, _d: FlatType, stack: int, n: int, _m: int, _n: int
) -> int:
    """The lower factor of each matrix; its upper triangle is not read."""
    a, x = entries(pa), entries(px)
    for s in range(stack):
        at = s * n * n
        for i in range(n):
            for j in range(n):
                x[at + i * n + j] = a[at + i * n + j] if j <= i else 0.0
        for i in range(n):
            for j in range(i + 1):
                value = x[at + i * n + j]
                for k in range(j):
                    value -= x[at + i * n + k] * x[at + j * n + k]
                if i != j:
                    x[at + i * n + j] = value / x[at + j * n + j]
                elif value > 0:
                    x[at + i * n + j] = math.sqrt(value)
                else:
                    return INDEFINITE
    return 0


# --- cofactors --------------------------------------------------------------------------------


@_inner
def _factor_fully(lu: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> int:
    """LU factors with complete pivoting; sign of both exchanges. Zero pivots come last."""
    n = lu.shape[0]
    sign = 1
    for i in range(n):
        rows[i] = columns[i] = i
    for k in range(n):
        p, q = k, k
        for i in range(k, n):
            for j in range(k, n):
                if abs(lu[i, j]) > abs(lu[p, q]):
                    p, q = i, j
        if p != k:
            sign = -sign
            rows[k], rows[p] = rows[p], rows[k]
            for j in range(n):
                lu[k, j], lu[p, j] = lu[p, j], lu[k, j]
        if q != k:
            sign = -sign
            columns[k], columns[q] = columns[q], columns[k]
            for i in range(n):
                lu[i, k], lu[i, q] = lu[i, q], lu[i, k]
        if lu[k, k] == 0:
            return sign
        for i in range(k + 1, n):
            lu[i, k] /= lu[k, k]
            for j in range(k + 1, n):
                lu[i, j] -= lu[i, k] * lu[k, j]
    return sign


def cofactor(
    pa: FlatType, px: FlatType, _: FlatType, _d: FlatType, stack: int, n: int, _m: int, _n: int
) -> int:
    """The cofactor matrix of each matrix, also of singular ones.

    With P A Q = L U, adj(A) = det(P) det(Q) Q adj(U) inv(L) P, and adj of a triangular matrix
    needs no division by its last pivot.
    """
    a, x = entries(pa), entries(px)
    lu, y = np.empty((n, n)), np.empty(n)
    rows, columns = np.empty(n, np.int64), np.empty(n, np.int64)
    for s in range(stack):
        _copy(a, s * n * n, lu, n)
        scale = float(_factor_fully(lu, rows, columns))
        for i in range(n - 1):
            scale *= lu[i, i]
        for j in range(n):
            _adjugate_column(lu, y, j, scale)
            for i in range(n):
                x[s * n * n + rows[j] * n + columns[i]] = y[i]
    return 0


@_inner
def _adjugate_column(lu: np.ndarray, y: np.ndarray, j: int, scale: float) -> None:
    """Column `j` of adj(U) inv(L), where `scale` is the product of all pivots but the last."""
    n = lu.shape[0]
    for i in range(n):
        y[i] = 1.0 if i == j else 0.0
        for k in range(i):
            y[i] -= lu[i, k] * y[k]
    last, pivot = y[n - 1], lu[n - 1, n - 1]
    if scale == 0:
        y[:] = scale
        return
    for i in range(n - 2, -1, -1):
        value = pivot * y[i] - lu[i, n - 1] * last
        for k in range(i + 1, n - 1):
            value -= lu[i, k] * y[k]
        y[i] = value / lu[i, i]
    y[n - 1] = last
    for i in range(n):
        y[i] *= scale


# --- products ---------------------------------------------------------------------------------


def _product(flip_a: int, flip_b: int) -> Callable[..., int]:
    """``c = a @ b`` for stacks of matrices, either operand stored transposed."""

    def matmul(
        pa: FlatType, pb: FlatType, pc: FlatType, _: FlatType, stack: int, m: int, k: int, n: int
    ) -> int:
        a, b, c = entries(pa), entries(pb), entries(pc)
        for s in range(stack):
            if m * n * k >= _BLAS_FROM:
                gemm(flip_a, flip_b, pa, s * m * k, pb, s * k * n, pc, s * m * n, m, k, n)
                continue
            for i in range(m):
                at = (s * m + i) * n
                for j in range(n):
                    c[at + j] = 0
                for p in range(k):
                    factor = a[s * m * k + (p * m + i if flip_a else i * k + p)]
                    for j in range(n):
                        c[at + j] += factor * b[s * k * n + (j * k + p if flip_b else p * n + j)]
        return 0

    return matmul


ROUTINES: dict[str, Callable[..., int]] = {
    "solve": solve, "inv": inv, "det": det, "slogdet": slogdet, "cholesky": cholesky, "cofactor": cofactor,
    **{f"matmul{i}{j}": _product(i, j) for i in (0, 1) for j in (0, 1)},
}  # fmt: skip

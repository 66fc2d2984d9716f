"""Matrix routines, compiled once a machine and called by address.

Each takes four pointers (`pw` is room for one matrix), then how many matrices are stacked and their
size. It gives a status: 0, 2 for a singular matrix, 3 for one that is not positive definite.
Matrices are square and in row-major order. Small ones are done here (Golub and Van Loan, Matrix
Computations, 4th ed., 3.4.1 LU with partial pivoting, 3.4.8 complete pivoting, 4.2.5 Cholesky), the
others by LAPACK.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import njit

from . import lapack
from .memory import FlatType, at, entries

SINGULAR, INDEFINITE = 2, 3
_inner = njit(nogil=True, error_model="numpy")
_LAPACK_FROM = 20  # rows from which LAPACK is faster: det 28, inv 24, solve 16, cholesky 14
_SAFE = 1e6  # condition number up to which cofactors come from the inverse


@_inner
def _copy(source: FlatType, start: int, target: np.ndarray, n: int) -> None:
    for i in range(n):
        for j in range(n):
            target[i, j] = source[start + i * n + j]


@_inner
def _factor(lu: np.ndarray, rows: np.ndarray) -> int:
    """LU factors in place of `lu`, rows exchanged as `rows` tells; sign of that, 0 if singular."""
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
    pa: FlatType, pb: FlatType, px: FlatType, pw: FlatType, stack: int, n: int, columns: int,
    _0: int, _1: int, _2: int, _3: int, _4: int, _5: int, _6: int,
) -> int:  # fmt: skip
    """``a x = b`` with `columns` right-hand sides."""
    a, b, x, work = entries(pa), entries(pb), entries(px), entries(pw)
    lu, rows = np.empty((n, n)), np.empty(n, np.int64)
    for s in range(stack):
        k = s * n * columns
        if n >= _LAPACK_FROM:
            if lapack.solve(at(a, s * n * n), at(b, k), at(x, k), work, n, columns) != 0:
                return SINGULAR
            continue
        _copy(a, s * n * n, lu, n)
        if _factor(lu, rows) == 0:
            return SINGULAR
        _substitute(lu, rows, b, x, k, n, columns)
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
    pa: FlatType, px: FlatType, pw: FlatType, _w: FlatType, stack: int, n: int,
    _0: int, _1: int, _2: int, _3: int, _4: int, _5: int, _6: int, _7: int,
) -> int:  # fmt: skip
    """The inverse of each matrix."""
    a, x, work = entries(pa), entries(px), entries(pw)
    lu, rows, place = np.empty((n, n)), np.empty(n, np.int64), np.empty(n, np.int64)
    for s in range(stack):
        k = s * n * n
        if n >= _LAPACK_FROM:
            if lapack.inv(at(a, k), at(x, k), work, n) != 0:
                return SINGULAR
            continue
        _copy(a, k, lu, n)
        if _factor(lu, rows) == 0:
            return SINGULAR
        for i in range(n):
            place[i] = i
            for j in range(n):
                x[k + i * n + j] = 1.0 if rows[i] == j else 0.0
        _substitute(lu, place, x, x, k, n, n)
    return 0


@_inner
def _slogdet(a: FlatType, work: FlatType, lu: np.ndarray, rows: np.ndarray) -> tuple[float, float]:
    n = lu.shape[0]
    if n >= _LAPACK_FROM:
        return lapack.slogdet(a, work, n)
    _copy(a, 0, lu, n)
    sign = float(_factor(lu, rows))
    if sign == 0:
        return sign, -np.inf
    log = 0.0
    for i in range(n):
        sign *= 1.0 if lu[i, i] > 0 else -1.0 if lu[i, i] < 0 else np.nan
        log += math.log(abs(lu[i, i]))
    return sign, log


def det(
    pa: FlatType, px: FlatType, pw: FlatType, _w: FlatType, stack: int, n: int,
    _0: int, _1: int, _2: int, _3: int, _4: int, _5: int, _6: int, _7: int,
) -> int:  # fmt: skip
    """The determinant of each matrix."""
    a, x, work = entries(pa), entries(px), entries(pw)
    lu, rows = np.empty((n, n)), np.empty(n, np.int64)
    for s in range(stack):
        if n >= _LAPACK_FROM:
            sign, log = lapack.slogdet(at(a, s * n * n), work, n)
            x[s] = sign * math.exp(log)
            continue
        _copy(a, s * n * n, lu, n)
        value = float(_factor(lu, rows))
        for i in range(n):
            value *= lu[i, i]
        x[s] = value
    return 0


def slogdet(
    pa: FlatType, psign: FlatType, plog: FlatType, pw: FlatType, stack: int, n: int,
    _0: int, _1: int, _2: int, _3: int, _4: int, _5: int, _6: int, _7: int,
) -> int:  # fmt: skip
    """Sign and logarithm of the absolute value of the determinant of each matrix."""
    a, signs, logs, work = entries(pa), entries(psign), entries(plog), entries(pw)
    lu, rows = np.empty((n, n)), np.empty(n, np.int64)
    for s in range(stack):
        signs[s], logs[s] = _slogdet(at(a, s * n * n), work, lu, rows)
    return 0


def cholesky(
    pa: FlatType, px: FlatType, _: FlatType, _w: FlatType, stack: int, n: int,
    _0: int, _1: int, _2: int, _3: int, _4: int, _5: int, _6: int, _7: int,
) -> int:  # fmt: skip
    """The lower factor of each matrix; its upper triangle is not read."""
    a, x = entries(pa), entries(px)
    for s in range(stack):
        source, target = at(a, s * n * n), at(x, s * n * n)
        large = n >= _LAPACK_FROM
        if (lapack.cholesky(source, target, n) if large else _cholesky(source, target, n)) != 0:
            return INDEFINITE
    return 0


@_inner
def _cholesky(a: FlatType, x: FlatType, n: int) -> int:
    for i in range(n):
        for j in range(n):
            x[i * n + j] = a[i * n + j] if j <= i else 0.0
    for i in range(n):
        for j in range(i + 1):
            value = x[i * n + j]
            for k in range(j):
                value -= x[i * n + k] * x[j * n + k]
            if i != j:
                x[i * n + j] = value / x[j * n + j]
            elif value > 0:
                x[i * n + j] = math.sqrt(value)
            else:
                return 1
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
    pa: FlatType, px: FlatType, _: FlatType, _w: FlatType, stack: int, n: int,
    _0: int, _1: int, _2: int, _3: int, _4: int, _5: int, _6: int, _7: int,
) -> int:  # fmt: skip
    """The cofactor matrix of each matrix, also of singular ones.

    With P A Q = L U, adj(A) = det(P) det(Q) Q adj(U) inv(L) P, and adj of a triangular matrix
    needs no division by its last pivot. Large matrices that are well conditioned are inverted.
    """
    a, x = entries(pa), entries(px)
    lu, y = np.empty((n, n)), np.empty(n)
    rows, columns = np.empty(n, np.int64), np.empty(n, np.int64)
    for s in range(stack):
        k = s * n * n
        if n >= _LAPACK_FROM and lapack.cofactor(at(a, k), at(x, k), n, _SAFE) == 0:
            continue
        _copy(a, k, lu, n)
        scale = float(_factor_fully(lu, rows, columns))
        for i in range(n - 1):
            scale *= lu[i, i]
        for j in range(n):
            _adjugate_column(lu, y, j, scale)
            for i in range(n):
                x[k + rows[j] * n + columns[i]] = y[i]
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


DECOMPOSITIONS: dict[str, Callable[..., int]] = {
    "solve": solve, "inv": inv, "det": det, "slogdet": slogdet,
    "cholesky": cholesky, "cofactor": cofactor,
}  # fmt: skip

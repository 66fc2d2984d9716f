"""One matrix at a time through LAPACK. In row-major order LAPACK sees the transpose of each matrix.

It factors A' = P L U (``getrf``), and A x = b becomes x' P L U = b'.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .foreign import fortran
from .memory import FlatType, add, empty, multiply

_inner = njit(nogil=True, error_model="numpy")
_LOWER, _UPPER, _RIGHT = np.int8(ord("l")), np.int8(ord("u")), np.int8(ord("r"))
_PLAIN, _UNIT = np.int8(ord("n")), np.int8(ord("u"))


@_inner
def _copy(a: FlatType, lu: FlatType, n: int) -> None:
    for i in range(n * n):
        lu[i] = a[i]


@_inner
def factor(lu: FlatType, swaps: FlatType, n: int) -> int:
    """LU factors of the transpose in place; 0 if regular."""
    info = empty(1, np.int32)
    fortran("getrf", lu, (n, n, lu, n, swaps, info))
    return info[0]


@_inner
def solve(a: FlatType, b: FlatType, x: FlatType, lu: FlatType, n: int, columns: int) -> int:
    """``a x = b``; not 0 if `a` is singular."""
    swaps = empty(n, np.int32)
    _copy(a, lu, n)
    if factor(lu, swaps, n) != 0:
        return 1
    for i in range(n * columns):
        x[i] = b[i]
    _divide(lu, swaps, x, n, columns)
    return 0


@_inner
def inv(a: FlatType, x: FlatType, lu: FlatType, n: int) -> int:
    """The inverse; not 0 if `a` is singular."""
    swaps = empty(n, np.int32)
    _copy(a, lu, n)
    if factor(lu, swaps, n) != 0:
        return 1
    _invert(lu, swaps, x, n)
    return 0


@_inner
def _invert(lu: FlatType, swaps: FlatType, x: FlatType, n: int) -> None:
    """From the factors, as NumPy does it: ``getri`` takes 2.6 times as long with two threads."""
    for i in range(n * n):
        x[i] = 0
    for i in range(n):
        x[i * n + i] = 1
    _divide(lu, swaps, x, n, n)


@_inner
def _divide(lu: FlatType, swaps: FlatType, x: FlatType, n: int, columns: int) -> None:
    """``x' = x' inv(U) inv(L) P'`` in place."""
    if columns == 1:
        _substitute(lu, x, n)
    else:
        shape = (_RIGHT, _UPPER, _PLAIN, _PLAIN, columns, n, 1.0, lu, n, x, columns)
        fortran("trsm", lu, shape)
        shape = (_RIGHT, _LOWER, _PLAIN, _UNIT, columns, n, 1.0, lu, n, x, columns)
        fortran("trsm", lu, shape)
    for i in range(n - 1, -1, -1):
        p = swaps[i] - 1
        if p != i:
            for j in range(columns):
                kept = x[i * columns + j]
                x[i * columns + j] = x[p * columns + j]
                x[p * columns + j] = kept


@_inner
def _substitute(lu: FlatType, x: FlatType, n: int) -> None:
    """``x' = x' inv(U) inv(L)``: rows of memory, which ``trsv`` reads at half the speed."""
    for i in range(n):
        total = x[i] - x[i]
        for k in range(i):
            total = add(total, multiply(lu[i * n + k], x[k]))
        x[i] = (x[i] - total) / lu[i * n + i]
    for i in range(n - 1, -1, -1):
        total = x[i] - x[i]
        for k in range(i + 1, n):
            total = add(total, multiply(lu[i * n + k], x[k]))
        x[i] = x[i] - total


@_inner
def slogdet(a: FlatType, lu: FlatType, n: int) -> tuple[float, float]:
    """Sign of the determinant, and the logarithm of its absolute value."""
    swaps = empty(n, np.int32)
    _copy(a, lu, n)
    if factor(lu, swaps, n) > 0:
        return 0.0, -np.inf
    return _slogdet(lu, swaps, n)


@_inner
def _slogdet(lu: FlatType, swaps: FlatType, n: int) -> tuple[float, float]:
    sign, log = 1.0, 0.0
    for i in range(n):
        pivot = float(lu[i * n + i])
        if swaps[i] != i + 1:
            sign = -sign
        sign *= 1.0 if pivot > 0 else -1.0 if pivot < 0 else np.nan
        log += math.log(abs(pivot))
    return sign, log


@_inner
def cholesky(a: FlatType, x: FlatType, n: int) -> int:
    """The lower factor; not 0 if `a` is not positive definite."""
    for i in range(n):
        for j in range(i + 1):
            x[i * n + j] = a[i * n + j]
        for j in range(i + 1, n):
            x[i * n + j] = 0
    info = empty(1, np.int32)
    fortran("potrf", x, (_UPPER, n, x, n, info))
    return info[0]


@_inner
def cofactor(a: FlatType, x: FlatType, n: int, bound: float) -> int:
    """The cofactors, in double precision; not 0 if the condition number is above `bound`."""
    lu, work = empty(n * n, np.float64), empty(n * n, np.float64)
    swaps = empty(n, np.int32)
    before, after = 0.0, 0.0
    for i in range(n * n):
        lu[i] = float(a[i])
        before += lu[i] * lu[i]
    if factor(lu, swaps, n) != 0:
        return 1
    sign, log = _slogdet(lu, swaps, n)
    scale = sign * math.exp(log)
    _invert(lu, swaps, work, n)
    for i in range(n * n):
        after += work[i] * work[i]
    if not before * after < bound * bound or not 0.0 < abs(scale) < np.inf:
        return 1
    for i in range(n):
        for j in range(n):
            x[i * n + j] = scale * work[j * n + i]
    return 0

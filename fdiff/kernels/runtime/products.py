"""Matrix products, compiled once a machine: plain loops for small matrices, BLAS for the others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from .foreign import fortran
from .memory import FlatType, add, at, empty_like, entries, multiply

_BLAS_FROM = 100  # multiplications from which BLAS is faster: at 6 x 6 it is, at 4 x 4 not
_PLAIN, _FLIPPED = np.int8(ord("n")), np.int8(ord("t"))
_inner = njit(nogil=True, error_model="numpy")


@_inner
def _row(
    c: FlatType, to: int, a: FlatType, start: int, step: int,
    b: FlatType, below: int, lead: int, k: int, n: int,
) -> None:  # fmt: skip
    """``c[to:to + n] = row @ b``: four rows of `b` at once, so that `c` is read less often."""
    for j in range(n):
        c[to + j] = 0
    last = k - k % 4
    for p in range(0, last, 4):
        f0, f1 = a[start + p * step], a[start + (p + 1) * step]
        f2, f3 = a[start + (p + 2) * step], a[start + (p + 3) * step]
        q = below + p * lead
        for j in range(n):
            left = add(multiply(f0, b[q + j]), multiply(f1, b[q + lead + j]))
            right = add(multiply(f2, b[q + 2 * lead + j]), multiply(f3, b[q + 3 * lead + j]))
            c[to + j] = add(c[to + j], add(left, right))
    for p in range(last, k):
        f0 = a[start + p * step]
        for j in range(n):
            c[to + j] = add(c[to + j], multiply(f0, b[below + p * lead + j]))


@_inner
def _large(
    flip_a: int, flip_b: int, a: FlatType, lead_a: int,
    b: FlatType, lead_b: int, c: FlatType, lead_c: int,
    m: int, k: int, n: int,
) -> None:  # fmt: skip
    """By BLAS, which sees transposes: c' = b' a'."""
    if n == 1 and flip_b == 0 and lead_b == 1 and lead_c == 1:
        how = _PLAIN if flip_a else _FLIPPED
        rows, columns = (m, k) if flip_a else (k, m)
        fortran("gemv", c, (how, rows, columns, 1.0, a, lead_a, b, 1, 0.0, c, 1))
        return
    left = _FLIPPED if flip_b else _PLAIN
    right = _FLIPPED if flip_a else _PLAIN
    fortran("gemm", c, (left, right, n, m, k, 1.0, b, lead_b, a, lead_a, 0.0, c, lead_c))


def product(flip_a: int, flip_b: int) -> Callable[..., int]:
    """``c = a @ b`` for stacks of matrices, either operand stored transposed.

    For each operand and the result, how far one matrix lies from the next, and one row from the
    next: matrices may lie interleaved in memory, as views of arrays with more axes.
    """

    def matmul(
        pa: FlatType, pb: FlatType, pc: FlatType, _w: FlatType, stack: int, m: int, k: int, n: int,
        step_a: int, lead_a: int, step_b: int, lead_b: int, step_c: int, lead_c: int,
    ) -> int:  # fmt: skip
        a, b, c = entries(pa), entries(pb), entries(pc)
        if m * n * k >= _BLAS_FROM:
            for s in range(stack):
                x, y, z = at(a, s * step_a), at(b, s * step_b), at(c, s * step_c)
                _large(flip_a, flip_b, x, lead_a, y, lead_b, z, lead_c, m, k, n)
            return 0
        step, down = (lead_a, 1) if flip_a else (1, lead_a)
        turned = empty_like(b, k * n if flip_b else 1)
        for s in range(stack):
            if flip_b:
                for j in range(n):
                    for p in range(k):
                        turned[p * n + j] = b[s * step_b + j * lead_b + p]
            for i in range(m):
                to, start = s * step_c + i * lead_c, s * step_a + i * down
                if flip_b:
                    _row(c, to, a, start, step, turned, 0, n, k, n)
                else:
                    _row(c, to, a, start, step, b, s * step_b, lead_b, k, n)
        return 0

    return matmul


PRODUCTS = {f"matmul{i}{j}": product(i, j) for i in (0, 1) for j in (0, 1)}

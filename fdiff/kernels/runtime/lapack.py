"""Texts of functions that call LAPACK (E. Anderson et al., Users' Guide, SIAM 1999, chapter 2).

Each takes one matrix. In row-major order LAPACK sees the transpose of it. It factors A' = P L U
(``getrf``), and A x = b becomes x' P L U = b'. How texts are written, `routines` tells.
"""

from __future__ import annotations

from .macros import define

# LU factors of the transpose of `a` in `lu`, by getrf; 0 if it is regular.
FACTOR = """
def factor(a: "ENTRY*", lu: "ENTRY*", swaps: "i4*", n: "i8", blas: "i8*"):
    info = rt.int32(rt.stack(1))
    for i in range(n * n):
        lu[i] = a[i]
    rt.fortran6(blas[GETRF], n, n, lu, n, swaps, info)
    return info[0]
"""

# ``x' = x' inv(U) inv(L)`` for one right-hand side: it reads rows of memory, twice as fast as trsv.
SUBSTITUTE_ROWS = """
def substitute_rows(lu: "ENTRY*", x: "ENTRY*", n: "i8"):
    for i in range(n):
        total = x[i] - x[i]
        for k in range(i):
            total = rt.add(total, rt.multiply(lu[i * n + k], x[k]))
        x[i] = (x[i] - total) / lu[i * n + i]
    for i in range(n - 1, -1, -1):
        rest = x[i] - x[i]
        for k in range(i + 1, n):
            rest = rt.add(rest, rt.multiply(lu[i * n + k], x[k]))
        x[i] = x[i] - rest
    return 0
"""

# ``x' = x' inv(U) inv(L) P'`` in place, by trsm.
DIVIDE = """
def divide(lu: "ENTRY*", swaps: "i4*", x: "ENTRY*", n: "i8", columns: "i8", blas: "i8*"):
    if columns == 1:
        substitute_rows(lu, x, n)
    else:
        one = np.REAL(1)
        rt.fortran11(blas[TRSM], "r", "u", "n", "n", columns, n, one, lu, n, x, columns)
        rt.fortran11(blas[TRSM], "r", "l", "n", "u", columns, n, one, lu, n, x, columns)
    for i in range(n - 1, -1, -1):
        p = swaps[i] - 1
        if p != i:
            for j in range(columns):
                kept = x[i * columns + j]
                x[i * columns + j] = x[p * columns + j]
                x[p * columns + j] = kept
    return 0
"""

# The inverse from the factors, by solving for the identity as NumPy does: on two threads getri
# takes 2.6 times as long.
INVERT = """
def invert(lu: "ENTRY*", swaps: "i4*", x: "ENTRY*", n: "i8", blas: "i8*"):
    for i in range(n * n):
        x[i] = 0
    for i in range(n):
        x[i * n + i] = 1
    divide(lu, swaps, x, n, n, blas)
    return 0
"""

# Sign of the determinant, and in `log` the logarithm of its absolute value.
MAGNITUDE = """
def magnitude(lu: "ENTRY*", swaps: "i4*", log: "f8*", n: "i8") -> "f8":
    sign = 1.0
    total = 0.0
    for i in range(n):
        pivot = np.float64(lu[i * n + i])
        if swaps[i] != i + 1:
            sign = -sign
        sign = sign * (1.0 if pivot > 0 else -1.0 if pivot < 0 else np.nan)
        total = total + math.log(abs(pivot))
    log[0] = total
    return sign
"""

# The lower factor, by potrf; not 0 if `a` is not positive definite.
CHOLESKY = """
def cholesky_large(a: "ENTRY*", x: "ENTRY*", n: "i8", blas: "i8*"):
    for i in range(n):
        for j in range(i + 1):
            x[i * n + j] = a[i * n + j]
        for j in range(i + 1, n):
            x[i * n + j] = 0
    info = rt.int32(rt.stack(1))
    rt.fortran5(blas[POTRF], "u", n, x, n, info)
    return info[0]
"""

# The cofactors ``det(A) inv(A)'`` in double precision; not 0 if the condition number in the
# Frobenius norm is above `bound`.
COFACTOR = """
def cofactor_large(
    a: "ENTRY*", x: "ENTRY*", lu: "f8*", inverse: "f8*", swaps: "i4*", n: "i8", bound: "f8",
    blas: "i8*",
):
    before = 0.0
    after = 0.0
    for i in range(n * n):
        lu[i] = a[i]
        before = before + lu[i] * lu[i]
    if factor(lu, lu, swaps, n, blas) != 0:
        return 1
    log = rt.float64(rt.stack(1))
    sign = magnitude(lu, swaps, log, n)
    scale = sign * math.exp(log[0])
    invert(lu, swaps, inverse, n, blas)
    for i in range(n * n):
        after = after + inverse[i] * inverse[i]
    if not before * after < bound * bound or not 0.0 < abs(scale) or not abs(scale) < np.inf:
        return 1
    for i in range(n):
        for j in range(n):
            x[i * n + j] = scale * inverse[j * n + i]
    return 0
"""


def double(text: str) -> str:
    """The template for double precision, whatever the routine is for."""
    return define(text, {"ENTRY": "f8", "REAL": "float64", "GETRF": "DGETRF", "TRSM": "DTRSM"})

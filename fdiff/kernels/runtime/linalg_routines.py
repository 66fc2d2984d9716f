"""Decompositions and functions of them, as texts that are compiled once a machine.

A routine takes matrices, results, memory for one matrix (`work`), the number of stacked matrices,
their size, and the table of BLAS and LAPACK. It returns a status. Matrices are square and in
row-major order. Small ones are factored here, in double precision (Golub and Van Loan, Matrix
Computations, 4th ed., 2013, sections 3.4 and 4.2), the others by LAPACK. `routines` explains the
macros in the texts.
"""

from __future__ import annotations

from . import lapack

# Step `k` of both factorisations: exchange rows `k` and `p`, then eliminate below the pivot.
_SWAP_ROWS = """\
            sign = -sign
            row = rows[k]
            rows[k] = rows[p]
            rows[p] = row
            for j in range(n):
                entry = lu[k * n + j]
                lu[k * n + j] = lu[p * n + j]
                lu[p * n + j] = entry
"""
_ELIMINATE = """\
        for i in range(k + 1, n):
            part = lu[i * n + k] / lu[k * n + k]
            lu[i * n + k] = part
            for j in range(k + 1, n):
                lu[i * n + j] = lu[i * n + j] - part * lu[k * n + j]
"""

# LU factorisation in place with partial pivoting (Golub and Van Loan, 3.4.1); `rows` is
# the permutation. Returns its sign, or 0 for a singular matrix.
FACTOR_SMALL = f"""
def factor_small(lu: "f8*", rows: "i8*", n: "i8"):
    sign = 1
    regular = True
    for i in range(n):
        rows[i] = i
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(lu[i * n + k]) > abs(lu[p * n + k]):
                p = i
        if p != k:
{_SWAP_ROWS}        if lu[k * n + k] == 0:
            regular = False
            continue
{_ELIMINATE}    return sign if regular else 0
"""

# Forward and back substitution of `columns` right-hand sides, row-permuted.
SUBSTITUTE = """
def substitute(lu: "f8*", rows: "i8*", b: "ENTRY*", x: "ENTRY*", n: "i8", columns: "i8"):
    for i in range(n):
        for j in range(columns):
            x[i * columns + j] = b[rows[i] * columns + j]
        for k in range(i):
            for j in range(columns):
                to = i * columns + j
                x[to] = x[to] - lu[i * n + k] * x[k * columns + j]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            for j in range(columns):
                at = i * columns + j
                x[at] = x[at] - lu[i * n + k] * x[k * columns + j]
        for j in range(columns):
            x[i * columns + j] = x[i * columns + j] / lu[i * n + i]
    return 0
"""

# A matrix in double precision.
COPY = """
def copy(a: "ENTRY*", lu: "f8*", n: "i8"):
    for i in range(n * n):
        lu[i] = a[i]
    return 0
"""

# ``a x = b`` with `columns` right-hand sides.
_SOLVE = """
def solve(
    a: "ENTRY*", b: "ENTRY*", x: "ENTRY*", work: "ENTRY*",
    stack: "i8", n: "i8", columns: "i8", blas: "i8*",
):
    lu = rt.float64(rt.stack(FEW * FEW))
    room = rt.stack(n + 1)
    for s in range(stack):
        here = rt.offset(a, s * n * n)
        given = rt.offset(b, s * n * columns)
        found = rt.offset(x, s * n * columns)
        if n >= FEW:
            if factor(here, work, rt.int32(room), n, blas) != 0:
                return SINGULAR
            for i in range(n * columns):
                found[i] = given[i]
            divide(work, rt.int32(room), found, n, columns, blas)
        else:
            copy(here, lu, n)
            if factor_small(lu, rt.int64(room), n) == 0:
                return SINGULAR
            substitute(lu, rt.int64(room), given, found, n, columns)
    return 0
"""

# The inverse of each matrix.
_INV = """
def inv(a: "ENTRY*", x: "ENTRY*", work: "ENTRY*", stack: "i8", n: "i8", blas: "i8*"):
    lu = rt.float64(rt.stack(FEW * FEW))
    room = rt.stack(n + 1)
    rows = rt.int64(room)
    place = rt.int64(rt.stack(n + 1))
    for s in range(stack):
        here = rt.offset(a, s * n * n)
        found = rt.offset(x, s * n * n)
        if n >= FEW:
            if factor(here, work, rt.int32(room), n, blas) != 0:
                return SINGULAR
            invert(work, rt.int32(room), found, n, blas)
        else:
            copy(here, lu, n)
            if factor_small(lu, rows, n) == 0:
                return SINGULAR
            for i in range(n):
                place[i] = i
                for j in range(n):
                    found[i * n + j] = 1.0 if rows[i] == j else 0.0
            substitute(lu, place, found, found, n, n)
    return 0
"""

# Sign of the determinant of one matrix, and in `log` the logarithm of its absolute value.
_SIGN = """
def sign_of(
    a: "ENTRY*", work: "ENTRY*", lu: "f8*", room: "i8", log: "f8*", n: "i8", blas: "i8*"
) -> "f8":
    log[0] = -np.inf
    if n >= FEW:
        if factor(a, work, rt.int32(room), n, blas) > 0:
            return 0.0
        return magnitude(work, rt.int32(room), log, n)
    copy(a, lu, n)
    sign = np.float64(factor_small(lu, rt.int64(room), n))
    if sign == 0:
        return sign
    total = 0.0
    for i in range(n):
        pivot = lu[i * n + i]
        sign = sign * (1.0 if pivot > 0 else -1.0 if pivot < 0 else np.nan)
        total = total + math.log(abs(pivot))
    log[0] = total
    return sign
"""

# The determinant of each matrix.
_DET = """
def det(a: "ENTRY*", x: "ENTRY*", work: "ENTRY*", stack: "i8", n: "i8", blas: "i8*"):
    lu = rt.float64(rt.stack(FEW * FEW))
    room = rt.stack(n + 1)
    log = rt.float64(rt.stack(1))
    for s in range(stack):
        here = rt.offset(a, s * n * n)
        if n >= FEW:
            sign = sign_of(here, work, lu, room, log, n, blas)
            x[s] = sign * math.exp(log[0])
        else:
            copy(here, lu, n)
            value = np.float64(factor_small(lu, rt.int64(room), n))
            for i in range(n):
                value = value * lu[i * n + i]
            x[s] = value
    return 0
"""

# Sign and logarithm of the absolute value of the determinant of each matrix.
_SLOGDET = """
def slogdet(
    a: "ENTRY*", signs: "ENTRY*", logs: "ENTRY*", work: "ENTRY*", stack: "i8", n: "i8", blas: "i8*"
):
    lu = rt.float64(rt.stack(FEW * FEW))
    room = rt.stack(n + 1)
    log = rt.float64(rt.stack(1))
    for s in range(stack):
        signs[s] = sign_of(rt.offset(a, s * n * n), work, lu, room, log, n, blas)
        logs[s] = log[0]
    return 0
"""

# Cholesky factorisation row by row (Golub and Van Loan, 4.2.5); 1 if a pivot is not
# positive.
CHOLESKY_SMALL = """
def cholesky_small(a: "ENTRY*", x: "ENTRY*", n: "i8"):
    for i in range(n):
        for j in range(n):
            x[i * n + j] = a[i * n + j] if j <= i else np.REAL(0)
    for i in range(n):
        for j in range(i + 1):
            value = x[i * n + j]
            for k in range(j):
                value = value - x[i * n + k] * x[j * n + k]
            if i != j:
                x[i * n + j] = value / x[j * n + j]
            elif value > 0:
                x[i * n + j] = math.sqrt(value)
            else:
                return 1
    return 0
"""

# The lower factor of each matrix; its upper triangle is not read.
_CHOLESKY = """
def cholesky(a: "ENTRY*", x: "ENTRY*", stack: "i8", n: "i8", blas: "i8*"):
    for s in range(stack):
        here = rt.offset(a, s * n * n)
        found = rt.offset(x, s * n * n)
        if n >= FEW:
            if cholesky_large(here, found, n, blas) != 0:
                return INDEFINITE
        elif cholesky_small(here, found, n) != 0:
            return INDEFINITE
    return 0
"""

# --- cofactors --------------------------------------------------------------------------------

# LU factorisation with complete pivoting (Golub and Van Loan, 3.4.8); returns the sign of
# both permutations. Zero pivots come last.
FACTOR_FULLY = f"""
def factor_fully(lu: "f8*", rows: "i8*", columns: "i8*", n: "i8"):
    sign = 1
    for i in range(n):
        rows[i] = i
        columns[i] = i
    for k in range(n):
        p = k
        q = k
        for i in range(k, n):
            for j in range(k, n):
                if abs(lu[i * n + j]) > abs(lu[p * n + q]):
                    p = i
                    q = j
        if p != k:
{_SWAP_ROWS}        if q != k:
            sign = -sign
            column = columns[k]
            columns[k] = columns[q]
            columns[q] = column
            for i in range(n):
                entry = lu[i * n + k]
                lu[i * n + k] = lu[i * n + q]
                lu[i * n + q] = entry
        if lu[k * n + k] == 0:
            return sign
{_ELIMINATE}    return sign
"""

# Column `j` of adj(U) inv(L), where `scale` is the product of all pivots but the last.
ADJUGATE_COLUMN = """
def adjugate_column(lu: "f8*", y: "f8*", j: "i8", scale: "f8", n: "i8"):
    for i in range(n):
        value = 1.0 if i == j else 0.0
        for k in range(i):
            value = value - lu[i * n + k] * y[k]
        y[i] = value
    last = y[n - 1]
    pivot = lu[n * n - 1]
    if scale == 0:
        for i in range(n):
            y[i] = scale
        return 0
    for i in range(n - 2, -1, -1):
        rest = pivot * y[i] - lu[i * n + n - 1] * last
        for k in range(i + 1, n - 1):
            rest = rest - lu[i * n + k] * y[k]
        y[i] = rest / lu[i * n + i]
    for i in range(n):
        y[i] = y[i] * scale
    return 0
"""

# The cofactor matrix of each matrix, singular or not. With P A Q = L U, the adjugate is adj(A) =
# det(P) det(Q) Q adj(U) inv(L) P, and the adjugate of a triangular matrix needs no division by its
# last pivot. For a large, well-conditioned matrix it is det(A) inv(A).
_COFACTOR = """
def cofactor(
    a: "ENTRY*", x: "ENTRY*", lu: "f8*", inverse: "f8*", stack: "i8", n: "i8", blas: "i8*"
):
    rows = rt.int64(rt.stack(n + 1))
    columns = rt.int64(rt.stack(n + 1))
    swaps = rt.int32(rt.stack(n + 1))
    y = rt.float64(rt.stack(n + 1))
    for s in range(stack):
        here = rt.offset(a, s * n * n)
        found = rt.offset(x, s * n * n)
        if n >= FEW and cofactor_large(here, found, lu, inverse, swaps, n, SAFE, blas) == 0:
            continue
        copy(here, lu, n)
        scale = np.float64(factor_fully(lu, rows, columns, n))
        for i in range(n - 1):
            scale = scale * lu[i * n + i]
        for j in range(n):
            adjugate_column(lu, y, j, scale, n)
            for i in range(n):
                found[rows[j] * n + columns[i]] = y[i]
    return 0
"""

_SMALL = (COPY, FACTOR_SMALL)
_DIVIDE = (lapack.FACTOR, lapack.SUBSTITUTE_ROWS, lapack.DIVIDE)
_DETERMINANT = (*_SMALL, lapack.FACTOR, lapack.MAGNITUDE, _SIGN)
_DOUBLE = [*_DIVIDE, lapack.INVERT, lapack.MAGNITUDE]

# Each routine with the functions it calls, itself the last.
DECOMPOSITIONS: dict[str, tuple[str, ...]] = {
    "solve": (*_SMALL, SUBSTITUTE, *_DIVIDE, _SOLVE),
    "inv": (*_SMALL, SUBSTITUTE, *_DIVIDE, lapack.INVERT, _INV),
    "det": (*_DETERMINANT, _DET),
    "slogdet": (*_DETERMINANT, _SLOGDET),
    "cholesky": (lapack.CHOLESKY, CHOLESKY_SMALL, _CHOLESKY),
    "cofactor": (
        *map(lapack.double, _DOUBLE), lapack.COFACTOR, COPY, FACTOR_FULLY, ADJUGATE_COLUMN,
        _COFACTOR,
    ),
}  # fmt: skip

"""Triangular systems, and the adjoint of a Cholesky decomposition: texts of routines.

`low` is lower triangular; what lies above its diagonal is not read. How texts are written,
`routines` tells.
"""

from __future__ import annotations

from .macros import define

# Forward substitution, ``low x = b`` with x in place of b, and back substitution with the
# transpose; for one right-hand side. Both read `low` along rows.
_FORWARD = """
def forward(low: "ENTRY*", x: "ENTRY*", n: "i8"):
    for i in range(n):
        total = np.REAL(0)
        for k in range(i):
            total = rt.add(total, rt.multiply(low[i * n + k], x[k]))
        x[i] = (x[i] - total) / low[i * n + i]
    return 0
"""
_BACKWARD = """
def backward(low: "ENTRY* noalias", x: "ENTRY* noalias", n: "i8"):
    for i in range(n - 1, -1, -1):
        value = x[i] / low[i * n + i]
        x[i] = value
        for k in range(i):
            x[k] = rt.add(x[k], rt.multiply(-value, low[i * n + k]))
    return 0
"""

# The same for several right-hand sides, the columns of `x`.
_FORWARD_ROWS = """
def forward_rows(low: "ENTRY* noalias", x: "ENTRY* noalias", n: "i8", columns: "i8"):
    for i in range(n):
        for k in range(i):
            factor = -low[i * n + k]
            for j in range(columns):
                to = i * columns + j
                x[to] = rt.add(x[to], rt.multiply(factor, x[k * columns + j]))
        for j in range(columns):
            x[i * columns + j] = x[i * columns + j] / low[i * n + i]
    return 0
"""
_BACKWARD_ROWS = """
def backward_rows(low: "ENTRY* noalias", x: "ENTRY* noalias", n: "i8", columns: "i8"):
    for i in range(n - 1, -1, -1):
        for j in range(columns):
            x[i * columns + j] = x[i * columns + j] / low[i * n + i]
        for k in range(i):
            factor = -low[i * n + k]
            for j in range(columns):
                to = k * columns + j
                x[to] = rt.add(x[to], rt.multiply(factor, x[i * columns + j]))
    return 0
"""

# ``low x = b`` or ``low' x = b`` with `columns` right-hand sides, large ones by trsm. With CHECK, a
# zero on the diagonal has a status of its own.
_TRIANGULAR = """
def triangular(
    low: "ENTRY*", b: "ENTRY*", x: "ENTRY*", stack: "i8", n: "i8", columns: "i8", blas: "i8*"
):
    for s in range(stack):
        here = rt.offset(low, s * n * n)
        found = rt.offset(x, s * n * columns)
        CHECK
        for i in range(n * columns):
            found[i] = b[s * n * columns + i]
        if columns == 1:
            ONE(here, found, n)
        elif n < FEW or columns == 0:
            ROWS(here, found, n, columns)
        else:
            # transposes are seen: ``x' low' = b'``
            one = np.REAL(1)
            rt.fortran11(blas[TRSM], "r", "u", HOW, KIND, columns, n, one, here, n, found, columns)
    return 0
"""


# --- the adjoint of Cholesky factorisation ------------------------------------------------------
#
# From the cotangent of the factor to the cotangent of the matrix (S. P. Smith, Differentiation of
# the Cholesky algorithm, JCGS 4, pages 134-147, 1995; I. Murray, Differentiation of the Cholesky
# decomposition, arXiv:1602.07527, 2016, section 4).

# In place of `bar`, row by row from the last (Murray, section 4).
_BAR_ROWS = """
def bar_rows(low: "ENTRY* noalias", bar: "ENTRY* noalias", lead: "i8", n: "i8"):
    for k in range(n - 1, -1, -1):
        here = k * lead
        pivot = low[here + k]
        total = np.REAL(0)
        for i in range(k + 1, n):
            total = rt.add(total, rt.multiply(low[i * lead + k], bar[i * lead + k]))
        middle = (bar[here + k] - total / pivot) / pivot
        for j in range(k):
            bar[here + j] = rt.add(bar[here + j], rt.multiply(-middle, low[here + j]))
        for i in range(k + 1, n):
            below = i * lead
            part = bar[below + k] / pivot
            bar[below + k] = part
            for j in range(k):
                bar[here + j] = rt.add(bar[here + j], rt.multiply(-part, low[below + j]))
                bar[below + j] = rt.add(bar[below + j], rt.multiply(-part, low[here + j]))
        bar[here + k] = middle / 2
    return 0
"""

# The same by blocks of columns, from the last (Murray, section 4). D is the block on the
# diagonal, R to its left, C below it and B below R. Their cotangents change in this order: C <- C
# inv(D), B <- B - C R, D <- D - C' C, D by rows, R <- R - C' B - (D + D') R. Fortran sees
# transposes.
_BAR_OF_COLUMNS = """\
def bar_blocks(low: "ENTRY*", bar: "ENTRY*", n: "i8", blas: "i8*"):
    both = rt.REAL(rt.stack(BLOCK * BLOCK))
    one = np.REAL(1)
    minus = np.REAL(-1)
    end = n
    while end > 0:
        j = max(end - BLOCK, 0)
        w = end - j
        m = n - end
        at = j * n
        diagonal = rt.offset(low, at + j)
        diagonal_bar = rt.offset(bar, at + j)
        below = rt.offset(low, end * n + j)
        below_bar = rt.offset(bar, end * n + j)
        if m > 0:
            rt.fortran11(blas[TRSM], "l", "u", "n", "n", w, m, one, diagonal, n, below_bar, n)
            rt.fortran13(
                blas[GEMM], "n", "t", w, w, m, minus, below, n, below_bar, n, one, diagonal_bar, n
            )
        bar_rows(diagonal, diagonal_bar, n, w)
"""

# R and B, to the left.
_BAR_OF_ROWS = """\
        if j > 0:
            left = rt.offset(low, at)
            left_bar = rt.offset(bar, at)
            if m > 0:
                first = rt.offset(low, end * n)
                first_bar = rt.offset(bar, end * n)
                rt.fortran13(
                    blas[GEMM], "n", "n", j, m, w, minus, left, n, below_bar, n, one, first_bar, n
                )
                rt.fortran13(
                    blas[GEMM], "n", "t", j, w, m, minus, first, n, below_bar, n, one, left_bar, n
                )
            for r in range(w):
                for c in range(r + 1):
                    entry = diagonal_bar[r * n + c]
                    both[r * w + c] = entry
                    both[c * w + r] = entry + entry if r == c else entry
            rt.fortran13(blas[GEMM], "n", "n", j, w, w, minus, left, n, both, w, one, left_bar, n)
        end = j
    return 0
"""
_BAR_BLOCKS = "\n" + _BAR_OF_COLUMNS + _BAR_OF_ROWS

# The cotangents of stacked matrices; only lower triangles are read.
_CHOLESKY_BAR = """
def cholesky_bar(
    low: "ENTRY*", given: "ENTRY*", x: "ENTRY*", stack: "i8", n: "i8", blas: "i8*"
):
    for s in range(stack):
        here = rt.offset(low, s * n * n)
        found = rt.offset(x, s * n * n)
        for i in range(n * n):
            found[i] = given[s * n * n + i]
        bar_blocks(here, found, n, blas)
        for i in range(n):
            for j in range(i + 1, n):
                found[i * n + j] = 0
    return 0
"""


_BY_PIVOT = " / low[i * n + i]"  # not in the text for a unit matrix
# Without right-hand sides nothing is solved, so nothing fails.
_CHECK = """for i in range(n if columns > 0 else 0):
            if here[i * n + i] == 0:
                return ZERO_AT + i"""


def _systems(
    how: str, way: str, loops: tuple[str, str], *, unit: bool, check: bool
) -> tuple[str, ...]:
    """A routine and the functions that it calls; the diagonal of a `unit` matrix is not read."""
    words = {"HOW": f'"{how}"', "ROWS": f"{way}_rows", "ONE": way}
    words |= {"KIND": '"u"' if unit else '"n"', "CHECK": _CHECK if check else "pass"}
    if unit:
        loops = (loops[0].replace(_BY_PIVOT, ""), loops[1].replace(_BY_PIVOT, ""))
    return (*loops, define(_TRIANGULAR, words))


def _both(suffix: str, *, unit: bool = False, check: bool = False) -> dict[str, tuple[str, ...]]:
    """With `low` itself, and with its transpose."""
    forward, backward = (_FORWARD, _FORWARD_ROWS), (_BACKWARD, _BACKWARD_ROWS)
    return {
        f"triangular0{suffix}": _systems("n", "forward", forward, unit=unit, check=check),
        f"triangular1{suffix}": _systems("t", "backward", backward, unit=unit, check=check),
    }


TRIANGULAR = {
    **_both(""),  # of a Cholesky factor, whose diagonal is not zero
    **_both("checked", check=True),
    **_both("unit", unit=True),
    "cholesky_bar": (_BAR_ROWS, _BAR_BLOCKS, _CHOLESKY_BAR),
}

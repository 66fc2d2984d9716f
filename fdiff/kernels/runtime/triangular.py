"""Systems with the factor of a Cholesky decomposition: texts of routines.

`low` is lower triangular with a diagonal that is not zero; what lies above it is not read. How
texts are written, `routines` tells.
"""

from __future__ import annotations

# ``low x = x`` in place, and ``low' x = x``, for one right-hand side: along rows of memory.
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

# The same for several right-hand sides, which are the columns of `x`.
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

# ``low x = b``, or ``low' x = b``, with `columns` right-hand sides.
_TRIANGULAR = """
def triangular(
    low: "ENTRY*", b: "ENTRY*", x: "ENTRY*", stack: "i8", n: "i8", columns: "i8", blas: "i8*"
):
    for s in range(stack):
        here = rt.at(low, s * n * n)
        found = rt.at(x, s * n * columns)
        for i in range(n * columns):
            found[i] = b[s * n * columns + i]
        if columns == 1:
            ONE(here, found, n)
        elif n < FEW or columns == 0:
            ROWS(here, found, n, columns)
        else:
            # transposes are seen: ``x' low' = b'``
            one = np.REAL(1)
            rt.fortran(blas[TRSM], "r", "u", HOW, "n", columns, n, one, here, n, found, columns)
    return 0
"""


def _turned(how: str, way: str) -> str:
    return _TRIANGULAR.replace("HOW", f'"{how}"').replace("ONE", way).replace("ROWS", f"{way}_rows")


TRIANGULAR = {
    "triangular0": (_FORWARD, _FORWARD_ROWS, _turned("n", "forward")),
    "triangular1": (_BACKWARD, _BACKWARD_ROWS, _turned("t", "backward")),
}

"""Steps of triangular systems and Cholesky factors of literal order, for texts of CPUs and GPUs.

An entry of a matrix is the name of a local. `let` appends the line that computes an expression, and
returns the local's name: `small_matrices` has lines of nests, `cuda.matrices.register_matrices` the
lines of a thread. Both round as the loops in `runtime.triangular` do.
"""

from __future__ import annotations

from collections.abc import Callable

Let = Callable[[str], str]
Matrix = list[list[str]]


def transposed(matrix: Matrix) -> Matrix:
    """The transpose of a square matrix."""
    return [list(column) for column in zip(*matrix, strict=True)]


def factorise(low: Matrix, let: Let, check: Callable[[str], None]) -> None:
    """Replace the lower triangle of a symmetric matrix by its Cholesky factor, row by row.

    `check` appends what fails for a pivot that is not positive (Golub and Van Loan, Matrix
    Computations, 4th ed., 2013, section 4.2.5).
    """
    for i, row in enumerate(low):
        for j in range(i + 1):
            value = row[j]
            for k in range(j):
                value = let(f"{value} - {row[k]} * {low[j][k]}")
            if j < i:
                row[j] = let(f"{value} / {low[j][j]}")
            else:
                check(value)
                row[i] = let(f"math.sqrt({value})")


def pull_back_factor(low: Matrix, bar: Matrix, let: Let, real: str) -> None:
    """Replace the cotangent of the factor `low` by the matrix's cotangent, from the last row on.

    Murray, arXiv:1602.07527, 2016, section 4. Numbers have the type `real`.
    """
    n = len(low)
    for k in reversed(range(n)):
        pivot, rest = low[k][k], bar[k][k]
        terms = [f"{low[i][k]} * {bar[i][k]}" for i in range(k + 1, n)]
        if terms:
            rest = let(f"{rest} - ({' + '.join(terms)}) / {pivot}")
        middle = let(f"{rest} / {pivot}")
        for j in range(k):
            bar[k][j] = let(f"{bar[k][j]} - {middle} * {low[k][j]}")
        for i in range(k + 1, n):
            factor = bar[i][k] = let(f"{bar[i][k]} / {pivot}")
            for j in range(k):
                bar[k][j] = let(f"{bar[k][j]} - {factor} * {low[i][j]}")
                bar[i][j] = let(f"{bar[i][j]} - {factor} * {low[k][j]}")
        bar[k][k] = let(f"{middle} / {real}(2)")


def substitute(matrix: Matrix, right: Matrix, let: Let, *, upper: bool, unit: bool = False) -> None:
    """Replace right-hand sides, the columns of `right`, by solutions of a triangular system.

    A `unit` matrix has ones on its diagonal, which is not read.
    """
    order = range(len(matrix))
    for i in reversed(order) if upper else order:
        for column, value in enumerate(right[i]):
            rest = value
            for k in order[i + 1 :] if upper else order[:i]:
                rest = let(f"{rest} - {matrix[i][k]} * {right[k][column]}")
            right[i][column] = rest if unit else let(f"{rest} / {matrix[i][i]}")

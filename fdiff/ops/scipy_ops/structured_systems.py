"""Structured matrices of `scipy.linalg`, and banded systems (G. H. Golub, C. F. Van Loan, Matrix Computations, 2013, section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np
from fdiff.intact_scipy import linalg as sl

from ...arraytype import promote
from ...trace import Array, TracedArray, apply, unsupported
from ..entrywise.families import kind_of
from ..scipy_functions import replaces_if_traced
from ..shapes.shaping import traced
from .matrix_arguments import solution, square, system
from .matrix_functions import banded, flipped

# --- matrices made of vectors -----------------------------------------------------------------


@replaces_if_traced(sl.block_diag)
def block_diag(*arrs: object) -> Array:
    """Blocks along the diagonal; vectors are rows."""
    blocks = [np.atleast_2d(traced(a)) for a in arrs]
    if any(b.ndim > 2 for b in blocks):
        raise unsupported("scipy.linalg.block_diag of stacks of matrices")
    dtype = promote(*[kind_of(b) for b in blocks])
    width, left, rows = sum(b.shape[1] for b in blocks), 0, []
    for b in blocks:
        sides = [np.zeros((b.shape[0], n), dtype) for n in (left, width - left - b.shape[1])]
        rows.append(np.concatenate([sides[0], b.astype(dtype), sides[1]], axis=1))
        left += b.shape[1]
    return np.concatenate(rows, axis=0)


def _vector(x: object, name: str) -> Array:
    a = traced(x)
    if a.ndim > 1:
        raise unsupported(f"scipy.linalg.{name} of an array of {a.ndim} dimensions")
    return np.atleast_1d(a)


@replaces_if_traced(sl.toeplitz)
def toeplitz(c: object, r: object = None) -> Array:
    column = _vector(c, "toeplitz")
    row = np.conjugate(column) if r is None else _vector(r, "toeplitz")
    n, m = column.shape[0], row.shape[0]
    return np.concatenate([row[:0:-1], column])[m - 1 + np.subtract.outer(np.arange(n), np.arange(m))]


@replaces_if_traced(sl.circulant)
def circulant(c: object) -> Array:
    column = _vector(c, "circulant")
    n = column.shape[0]
    return column[np.subtract.outer(np.arange(n), np.arange(n)) % n]


@replaces_if_traced(sl.hankel)
def hankel(c: object, r: object = None) -> Array:
    column = _vector(c, "hankel")
    row = np.zeros_like(column) if r is None else _vector(r, "hankel")
    n, m = column.shape[0], row.shape[0]
    return np.concatenate([column, row[1:]])[np.add.outer(np.arange(n), np.arange(m))]


# --- structured systems -----------------------------------------------------------------------


def _bands(ab: object, b: object, name: str) -> tuple[TracedArray, TracedArray, bool]:
    left, right, line = system(ab, b)
    if left.ndim > 2 or right.ndim > 2:
        raise unsupported(f"scipy.linalg.{name} of stacks of matrices")
    return left, right, line


@replaces_if_traced(sl.solve_banded)
def solve_banded(
    l_and_u: Sequence[int], ab: object, b: object, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True
) -> TracedArray:
    low, up = (int(k) for k in l_and_u)
    left, right, line = _bands(ab, b, "solve_banded")
    if low + up + 1 != left.shape[0]:
        raise ValueError(
            f"invalid values for the number of lower and upper diagonals: l+u+1 ({low + up + 1}) does not equal"
            f" ab.shape[0] ({left.shape[0]})"
        )
    return solution(apply(banded, left, right, low=low, up=up), line)


@replaces_if_traced(sl.solveh_banded)
def solveh_banded(
    ab: object, b: object, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False, check_finite: bool = True
) -> TracedArray:
    """A system with a symmetric banded matrix, of which the diagonals of one triangle are given."""
    half, right, line = _bands(ab, b, "solveh_banded")
    m = half.shape[0] - 1
    other = np.conjugate(flipped(half, m, 0) if lower else flipped(half, 0, m))
    whole = np.concatenate([other[:m], half] if lower else [half, other[1:]], axis=0)
    return solution(apply(banded, whole, right, low=m, up=m), line)


@replaces_if_traced(sl.solve_toeplitz)
def solve_toeplitz(c_or_cr: object, b: object, check_finite: bool = True) -> TracedArray:
    matrix = toeplitz(*c_or_cr) if isinstance(c_or_cr, tuple) else toeplitz(c_or_cr)
    left, right, line = system(square(matrix), b)
    return solution(np.linalg.solve(left, right), line)

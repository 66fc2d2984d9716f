"""Arguments of `scipy.linalg`: square matrices, and linear systems with their right-hand sides."""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...arraytype import promote
from ...trace import Array, TracedArray
from ..entrywise.families import kind_of
from ..shapes.shaping import floating


def square(x: object) -> TracedArray:
    """`x` as a stack of square matrices, or SciPy's own error."""
    a = floating(x)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"Expected square matrix, but got shape {a.shape}")
    return a


def system(a: object, b: Array) -> tuple[TracedArray, TracedArray, bool]:
    """The matrix and the right-hand side of a linear system, in one dtype.

    A vector on the right becomes a matrix of one column; the third result tells whether it was one.
    """
    left, right = floating(a), floating(b)
    dtype = promote(kind_of(left), kind_of(right))
    vector = right.ndim == 1
    right = right[:, None] if vector else right
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(f"incompatible dimensions: the matrix has shape {left.shape}, the right-hand side {np.shape(b)}")
    return left.astype(dtype, copy=False), right.astype(dtype, copy=False), vector


def solution(x: TracedArray, vector: bool) -> TracedArray:
    """The solution of a system, a vector where the right-hand side was one."""
    return x[..., 0] if vector else x

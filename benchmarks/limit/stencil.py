"""Bratu's residual on a square: value and gradient in one sweep over the rows."""

from __future__ import annotations

import numpy as np

from .maths import exp
from .settings import kernel

Array = np.ndarray


@kernel
def _bratu(u: Array, slope: Array) -> float:
    """Residuals of three rows are kept, zero on the rim; row i of the gradient follows row i + 1.

    Row i lies at i % 3. A loop writes to one array alone, through indices: of views and of several
    arrays LLVM would have to check in each row that they do not overlap.
    """
    n = u.shape[0]
    strength = 6.0 / ((n - 1) * (n - 1))
    rows, sources = np.zeros((3, n)), np.zeros((3, n))
    total = 0.0
    for i in range(1, n + 1):
        after = i % 3
        if i < n - 1:
            for j in range(1, n - 1):
                sources[after, j] = strength * exp(u[i, j])
            for j in range(1, n - 1):
                r = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
                r += sources[after, j]
                rows[after, j] = r
                total += r * r
        else:
            for j in range(n):
                rows[after, j] = 0.0
        before, here, row = (i + 1) % 3, (i + 2) % 3, i - 1
        for j in range(1, n - 1):
            push = rows[here, j] * (sources[here, j] - 4.0)
            sides = rows[here, j - 1] + rows[here, j + 1]
            slope[row, j] = 2.0 * (rows[before, j] + rows[after, j] + sides + push)
        slope[row, 0], slope[row, n - 1] = 2.0 * rows[here, 1], 2.0 * rows[here, n - 2]
    return total


def bratu_value_and_grad(u: Array) -> tuple[float, Array]:
    slope = np.empty_like(u)
    return _bratu(u, slope), slope

"""Colours of the columns of a sparse Jacobian: columns of one colour share one product."""

from __future__ import annotations

import fdiff.intact_numpy as np


def colours(shape: tuple[int, ...], rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A colour for each column, such that no two of one colour share a row: the first that fits.

    A greedy partial distance-2 colouring in the order of the columns, with the forbidden colours of
    a row as bits (A. H. Gebremedhin, F. Manne, A. Pothen, "What color is your Jacobian?", SIAM
    Review 47(4), 2005, algorithm 3.2).
    """
    used = [0] * shape[0]  # of each row, the colours of its columns, as bits
    colour = np.zeros(shape[1], np.int64)
    order = np.argsort(columns, kind="stable")
    bounds = np.searchsorted(columns[order], np.arange(shape[1] + 1))
    mine = rows[order].tolist()
    for j in range(shape[1]):
        taken = 0
        below = mine[bounds[j] : bounds[j + 1]]
        for i in below:
            taken |= used[i]
        bit = ~taken & (taken + 1)  # the lowest that is free
        colour[j] = bit.bit_length() - 1
        for i in below:
            used[i] |= bit
    return colour

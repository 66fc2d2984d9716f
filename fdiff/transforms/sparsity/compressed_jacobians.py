"""Dense Jacobians whose pattern is sparse: a few sweeps, whose entries are put in their places.

Columns that share no row are computed by one sweep (Curtis, Powell, Reid, "On the estimation of
sparse Jacobian matrices", IMA J. Appl. Math. 13, 1974). They are found by a greedy partial
distance-2 colouring in the order of the columns (A. H. Gebremedhin, F. Manne, A. Pothen, "What
color is your Jacobian?", SIAM Review 47(4), 2005, algorithm 3.2). What lies outside the pattern is
zero. Two entries of a Hessian that mirror each other come from different sweeps, which may round
differently; both become their mean, so that the result is exactly symmetric.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...ops.gather_scatter import scatter_set
from ...tape import Tape
from ...trace import Trace, apply, splice
from ..derivative_tapes import bind
from .jacobian_pattern import pattern

SMALL = 32  # columns up to which all are computed at once
SPARSE = 4  # colours must be fewer than the columns by this factor
MOST_ENTRIES = 1 << 18  # of the pattern

# ``sweep(tape, k, of, size)``: the tape of the tangents of outputs `of` for `size` directions of
# input `k`, which are one further input.
Sweeper = Callable[[Tape, int, Sequence[int] | None, int], Tape]


def large(tape: Tape, k: int) -> bool:
    """Whether the one output has a real Jacobian with respect to input `k` of many columns."""
    source, *outs = tape.input_types[k], *tape.output_types
    return len(outs) == 1 and source.size > SMALL and source.dtype.kind == outs[0].dtype.kind == "f"


class Compression(NamedTuple):
    """Seeds, a row for each colour, and where the entries of the compressed Jacobian belong."""

    seeds: np.ndarray
    source: np.ndarray
    place: np.ndarray
    mirror: np.ndarray | None  # of each entry of a symmetric matrix, the one across the diagonal


def compressed(
    tape: Tape, k: int, type_: ArrayType, sweep: Sweeper, *, symmetric: bool
) -> Tape | None:
    """A tape of the Jacobian of this type from few sweeps; None where it would not pay."""
    if not large(tape, k):
        return None
    found = _compression(tape, k, symmetric=symmetric)
    if found is None:
        return None
    swept = bind(sweep(tape, k, (0,), len(found.seeds)), {len(tape.inputs): found.seeds})
    return _placed(swept, found, type_)


def compressed_sweeps(tape: Tape, k: int, *, symmetric: bool) -> int:
    """How many sweeps `compressed` takes; 0 where it does not apply."""
    found = _compression(tape, k, symmetric=symmetric) if large(tape, k) else None
    return 0 if found is None else len(found.seeds)


def _placed(tape: Tape, found: Compression, type_: ArrayType) -> Tape:
    """The tape with its entries in their places; between them are zeros."""
    with Trace("jacobian", lines=False) as trace:
        (sweeps,) = splice(tape, [trace.input(t) for t in tape.input_types], trace)
        entries = np.reshape(sweeps, (-1,))[found.source]
        if found.mirror is not None:
            entries = 0.5 * (entries + entries[found.mirror])
        whole = apply(scatter_set, np.zeros(type_.size, entries.dtype), entries, found.place)
        dense = np.reshape(whole, type_.shape)
        return trace.builder.finish([trace.lift(dense, type_.dtype)])


def _compression(tape: Tape, k: int, *, symmetric: bool) -> Compression | None:
    there = pattern(tape, k)
    if there is None:
        return None
    if symmetric:
        there |= there.T
    rows, columns = np.nonzero(there)
    if len(rows) > MOST_ENTRIES or len(rows) * SPARSE > there.size:
        return None
    colour = colours(there.shape, rows, columns)
    count = int(colour.max(initial=0)) + 1
    if count * SPARSE > there.shape[1]:
        return None
    type_ = tape.input_types[k]
    seeds = (colour == np.arange(count)[:, None]).astype(type_.dtype)
    # Entries are in the order of rows, and those across the diagonal in the order of columns. The
    # permutation between both orders is its own inverse, because the pattern is symmetric.
    mirror = np.argsort(columns * there.shape[1] + rows) if symmetric else None
    return Compression(
        np.ascontiguousarray(seeds.reshape((count, *type_.shape))),
        colour[columns] * there.shape[0] + rows,
        rows * there.shape[1] + columns,
        mirror,
    )


def colours(shape: tuple[int, ...], rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A colour for each column, such that no two of one colour share a row: the first that fits.

    Algorithm 3.2 of Gebremedhin, Manne and Pothen, with the forbidden colours of a row as bits.
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

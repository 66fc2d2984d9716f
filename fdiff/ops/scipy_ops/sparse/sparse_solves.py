"""Solutions of sparse systems as an op. A matrix is factorised once, for the value and for all derivatives of it.

Factorisations are kept while the entries that they were made of are in memory: as long as a tape runs, and of a
constant matrix as long as the tape exists.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol
from weakref import ref

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse as sp
from fdiff.intact_scipy import sparse_linalg as spl

from ....foreign_errors import not_foreign
from ....named_tuples import NamedTuple
from ....trace import TracedArray, apply
from ...entrywise.families import opaque_op
from ...linear_algebra.stacked_matrices import Args, system_rules
from .sparse_ops import Shape, batched, matrix_samples, product, product_transposes, product_type

MOST = 2**29  # bytes of all factorisations that are kept beside the last one


class SuperLU(Protocol):
    """What SciPy's factorisations have, which have no stub."""

    nnz: int

    def solve(self, right: np.ndarray, trans: str = "N", /) -> np.ndarray: ...


class Factorisation(NamedTuple):
    """SuperLU's factorisation, its bytes, and the array with the entries of the matrix, which is one of its blocks."""

    lu: SuperLU
    size: int
    owner: ref[np.ndarray]
    block: int


# With references whose ends drop them: `pop` is C's, as an exception that arrives in Python code is lost then.
_kept: dict[tuple[object, ...], Factorisation] = {}
_lock = threading.Lock()


def factors(data: np.ndarray, cols: np.ndarray, starts: np.ndarray, n: int, owner: np.ndarray, block: int) -> SuperLU:
    """SuperLU's factorisation of the transpose of a matrix that is stored by rows, kept as long as `owner` has these entries."""
    key = n, data.dtype.char, data.tobytes(), cols.tobytes(), starts.tobytes()
    factorisation = _kept.get(key)
    if factorisation is None:
        lu = factorised(data, cols, starts, n)
        factorisation = Factorisation(lu, lu.nnz * (data.itemsize + 4), ref(owner, partial(_kept.pop, key)), block)
        with _lock:
            others = _kept.copy()
            outdated = [k for k, f in others.items() if f.block == block and f.owner() is owner]
            total = sum(f.size for f in others.values())
            for k, f in others.items():
                if k in outdated or total > MOST:
                    _kept.pop(k, None)
                    total -= f.size
            _kept[key] = factorisation
    return factorisation.lu


def factorised(data: np.ndarray, cols: np.ndarray, starts: np.ndarray, n: int) -> SuperLU:
    return spl.splu(sp.csc_array((data, cols, starts), shape=(n, n), copy=True))  # `splu` sorts it in place


def _solve(
    data: np.ndarray, rows: np.ndarray, cols: np.ndarray, starts: np.ndarray, b: np.ndarray, *, shape: Shape, transposed: bool,
    singular: str, blocks: int,
) -> np.ndarray:  # fmt: skip
    """Solutions with the blocks of a block diagonal matrix; a singular one concerns no other."""
    if not b.size:
        return np.zeros_like(b)
    out, n, count = np.empty_like(b), shape[0] // blocks, data.size // blocks
    for k in range(blocks):
        rows_of, own = slice(k * n, (k + 1) * n), slice(k * count, (k + 1) * count)
        where = cols[own] - k * n, starts[k * n : (k + 1) * n + 1] - k * count
        try:
            out[rows_of] = factors(data[own], *where, n, data, k).solve(b[rows_of], "N" if transposed else "T")
        except not_foreign(RuntimeError) as error:
            if singular == "error" or "singular" not in str(error):
                raise
            warnings.warn("Matrix is exactly singular", spl.MatrixRankWarning, stacklevel=2)
            out[rows_of] = np.nan
    return out


def _product(*args: object, shape: Shape, transposed: bool, **_: object) -> TracedArray:
    return apply(product, *args, shape=shape, transposed=transposed)


def _product_bar(bar: TracedArray, *args: TracedArray, shape: Shape, transposed: bool, **_: object) -> TracedArray:
    return product_transposes(bar, args, shape=shape, transposed=transposed)[0]()


def _adjoint(*args: object, transposed: bool, **how: object) -> TracedArray:
    return apply(solve, *args, transposed=not transposed, **how)


def _batch(args: Args, mapped: Sequence[bool], size: int, *, blocks: int, **params: object) -> Sequence[object]:
    return batched(lambda: solve)(args, mapped, size, blocks=blocks * size if any(mapped[:4]) else blocks, **params)


AS_SPLU: Mapping[str, object] = {"singular": "error", "blocks": 1}
AS_SPSOLVE: Mapping[str, object] = {"singular": "nan", "blocks": 1}
solve_jvp, solve_vjp = system_rules(lambda: solve, _adjoint, {0: (_product, _product_bar)})
solve = opaque_op("sparse_solve", product_type, _solve, solve_jvp, solve_vjp, *matrix_samples(square=True, **AS_SPLU), batch=_batch)

"""Products with sparse matrices as ops: the structure is constant, the entries may be traced.

A sparse matrix is four arrays in the order of its rows: entries, rows, columns, and where each row starts. The
cotangent of the entries is the dense matrix's cotangent, computed at the stored positions alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse as sp

from ....arraytype import ArrayType
from ....facets import Lowering, Structure
from ....primitive import ZERO, Primitive, Sample
from ....trace import TracedArray, apply
from ...entrywise.broadcasting import all_mapped
from ...entrywise.families import multilinear
from ...linear_algebra.stacked_matrices import Args
from ...shapes.gather_scatter import gather, scatter_add
from ...term_rules_of_sums import sparse_product

Shape = tuple[int, int]


def matrix_of(data: np.ndarray, cols: np.ndarray, starts: np.ndarray, shape: Shape, *, transposed: bool) -> object:
    """The matrix itself, or its transpose."""
    arrays = tuple(map(np.ascontiguousarray, (data, cols, starts)))
    matrix = sp.csr_array(arrays, shape=shape)
    return matrix.T if transposed else matrix


def sampled(left: TracedArray, right: TracedArray, rows: object, cols: object) -> TracedArray:
    """Entries of ``left @ right.T`` at the places of a sparse matrix."""
    return np.sum(np.take(left, rows, axis=0) * np.take(right, cols, axis=0), axis=-1)


# --- products: A @ x, or A.T @ x, for the columns of x ----------------------------------------


def product_type(
    data: ArrayType, rows: ArrayType, cols: ArrayType, starts: ArrayType, x: ArrayType, *, shape: Shape, transposed: bool, **_: object
) -> tuple[ArrayType, ...]:
    return (ArrayType((shape[transposed], x.shape[1]), x.dtype),)


def _product(
    data: np.ndarray, rows: np.ndarray, cols: np.ndarray, starts: np.ndarray, x: np.ndarray, *, shape: Shape, transposed: bool
) -> np.ndarray:
    return matrix_of(data, cols, starts, shape, transposed=transposed) @ x


def product_transposes(bar: TracedArray, args: Args, *, shape: Shape, transposed: bool) -> list[object]:
    data, rows, cols, starts, x = args
    left, right = (x, bar) if transposed else (bar, x)
    return [
        lambda: sampled(left, right, rows, cols), ZERO, ZERO, ZERO,
        lambda: apply(product, data, rows, cols, starts, bar, shape=shape, transposed=not transposed),
    ]  # fmt: skip


def batched(primitive: Callable[[], Primitive]) -> Callable[..., Sequence[object]]:
    """Batching: if only `x` is mapped, its columns side by side; if the entries are, a block diagonal matrix."""

    def batch(args: Args, mapped: Sequence[bool], size: int, **params: object) -> Sequence[object]:
        product_of = partial(apply, primitive())
        if any(mapped[:4]):
            return [_of_block_diagonal(product_of, all_mapped(args, mapped, size), size, **params)]
        return [_of_columns(product_of, args, size, **params)]

    return batch


def _of_columns(product_of: Callable[..., TracedArray], args: Args, size: int, **params: object) -> TracedArray:
    """Products of one matrix with several: the columns of all of them, side by side."""
    *matrix, x = args
    k = x.shape[-1]
    flat = np.moveaxis(x, 0, 1).reshape((x.shape[1], size * k))
    out = product_of(*matrix, flat, **params)
    return np.moveaxis(out.reshape((out.shape[0], size, k)), 1, 0)


def _of_block_diagonal(product_of: Callable[..., TracedArray], args: Args, size: int, *, shape: Shape, **params: object) -> TracedArray:
    """Products of several matrices, each with one: the product of the block diagonal matrix of them."""
    data, rows, cols, starts, x = args
    block = np.arange(size, dtype=np.int64)[:, None]
    ends = (starts[:, :-1] + block * data.shape[1]).reshape((-1,))
    whole = np.concatenate([ends, np.asarray([size * data.shape[1]])])
    out = product_of(
        data.reshape((-1,)), (rows + block * shape[0]).reshape((-1,)), (cols + block * shape[1]).reshape((-1,)), whole,
        x.reshape((-1, x.shape[-1])), shape=(size * shape[0], size * shape[1]), **params,
    )  # fmt: skip
    return out.reshape((size, -1, x.shape[-1]))


def _structure(square: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    dense = np.eye(4, dtype=bool) if square else np.zeros((3, 4), bool)
    dense[[0, 0, 2, 2], [1, 3, 0, 3]] = True
    rows, cols = np.nonzero(dense[:, ::-1])
    return rows, 3 - cols, np.concatenate([[0], np.cumsum(np.sum(dense, axis=1))])


def matrix_samples(*, square: bool, **params: object) -> tuple[Sample, ...]:
    rows, cols, starts = _structure(square)
    shape = (4 if square else 3, 4)

    def make(rng: np.random.Generator, transposed: bool) -> tuple[np.ndarray, ...]:
        x = rng.normal(size=(shape[not transposed], 2))
        return rng.normal(size=len(rows)) + 4.0 * (rows == cols), rows, cols, starts, x

    return tuple(Sample(lambda rng, t=t: make(rng, t), {"shape": shape, "transposed": t, **params}) for t in (False, True))


def _as_sums(
    data: TracedArray, rows: TracedArray, cols: TracedArray, starts: TracedArray, x: TracedArray, *, shape: Shape, transposed: bool
) -> object:
    """Entries times the rows of `x` that they meet, added up."""
    into, out_of = (cols, rows) if transposed else (rows, cols)
    met = apply(gather, x, out_of) * data.reshape((-1, 1))
    return apply(scatter_add, met, into, shape=(shape[transposed], x.shape[1]))


product = multilinear(
    "sparse_matmul", product_type, product_transposes, ((0,), (4,)), evaluate=_product, batch=batched(lambda: product),
    family="opaque", structure=Structure(terms=sparse_product), lowering=Lowering(spelled=_as_sums), samples=matrix_samples(square=False),
)

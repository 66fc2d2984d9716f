"""Results of dense Jacobians and Hessians: types of blocks, parts, symmetry, structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...arraytype import MOST_AXES, ArrayType
from ...device_arrays import DeviceArray
from ...dispatch.variant import Traced
from ...errors import UNNAMED, InputError, failure
from ...named_tuples import NamedTuple
from ...tree import Spec, unflatten
from ..call.results import deliver

Finish = Callable[[Sequence[object]], object]
Tree = tuple[Spec, Sequence[bool]]  # a structure, and which of its leaves are scalars


class DenseBlocks(NamedTuple):
    """The requested blocks of a Jacobian.

    `mode` is forward or reverse; `outs` and `ins` are the types of outputs and inputs; `types` are
    the types of the blocks in the order (output, input). At most `chunk_size` columns or rows are
    computed at a time; if `chunk_size` is None, as many as keep intermediate values below
    `budget`.
    """

    mode: str
    outs: tuple[ArrayType, ...]
    ins: tuple[ArrayType, ...]
    types: list[ArrayType]
    chunk_size: int | None
    budget: int


def block_type(out: ArrayType, inn: ArrayType, mode: str) -> ArrayType:
    """Type of a Jacobian block; complex if the output or the input is complex.

    Raises InputError if the block would have more axes than an array can have.
    """
    if out.ndim + inn.ndim > MOST_AXES:
        fact = (
            f"the result would have {out.ndim} + {inn.ndim} axes, the axes of the output and of"
            f" the input, and NumPy arrays have {MOST_AXES} at most."
        )
        way = "Leave out axes of length 1, or differentiate a function of x.reshape(-1)."
        raise failure(InputError, UNNAMED, fact, way)
    dtype = out.dtype if mode == "forward" and out.floating else inn.dtype
    if "c" in (out.dtype.kind, inn.dtype.kind):
        dtype = np.result_type(dtype, np.complex64)
    return ArrayType((*out.shape, *inn.shape), dtype)


def mirrored(rows: list[np.ndarray], sizes: Sequence[int]) -> list[np.ndarray]:
    """The blocks of the Hessians of all outputs, made exactly symmetric in place."""
    n = len(sizes)
    for first in range(0, len(rows), max(n * n, 1)):  # no blocks if no input has entries
        for i in range(n):
            for j in range(i, n):
                upper = _matrices(rows[first + i * n + j], sizes[i], sizes[j])
                if i != j:
                    lower = _matrices(rows[first + j * n + i], sizes[j], sizes[i])
                    lower[...] = np.swapaxes(upper, 1, 2)
                    continue
                for square in upper:
                    _make_symmetric(square)
    return rows


def _matrices(block: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """A block as a view of one matrix for each entry of the output."""
    return block.reshape((block.size // max(rows * columns, 1), rows, columns))


def _make_symmetric(square: np.ndarray) -> None:
    """Replace a matrix by the mean of itself and its transpose, in place, stripe by stripe."""
    for lo in range(0, len(square), 256):  # rows that the cache holds
        part = slice(lo, lo + 256)
        mean = 0.5 * (square[part, lo:] + square[lo:, part].T)
        square[part, lo:] = mean
        square[lo:, part] = mean.T


def nested_jacobian(traced: Traced) -> Finish:
    """Blocks in the structure of the outputs, each in the structure of the inputs."""
    return _nested((traced.out_spec, traced.scalars), _inputs(traced))


def nested_hessian(traced: Traced) -> Finish:
    """Blocks in the structure of the inputs, each in the structure of the inputs."""
    return _nested(_inputs(traced), _inputs(traced))


def nested_hessians(traced: Traced) -> Finish:
    """Blocks in the structure of the outputs, then twice in the structure of the inputs."""
    inner, flags = _inputs(traced)
    size = len(flags) ** 2
    ways = [
        _nested((inner, [flag and scalar for flag in flags]), (inner, flags))
        for scalar in traced.scalars
    ]

    def finish(blocks: Sequence[object]) -> object:
        leaves = [way(blocks[k * size : (k + 1) * size]) for k, way in enumerate(ways)]
        return unflatten(traced.out_spec, leaves)

    return finish


def _inputs(traced: Traced) -> Tree:
    return traced.in_spec, [traced.input_scalars[k] for k in traced.wrt]


def _nested(rows: Tree, columns: Tree) -> Finish:
    """A function that puts blocks, row by row, into the structures of rows and columns."""
    (outer, row_scalars), (inner, column_scalars) = rows, columns
    width = len(column_scalars)

    def finish(blocks: Sequence[object]) -> object:
        if outer.kind is None and inner.kind is None and len(blocks) == 1:
            return deliver(blocks[0], row_scalars[0] and column_scalars[0])
        parts = []
        for r, row_scalar in enumerate(row_scalars):
            row = blocks[r * width : (r + 1) * width]
            leaves = [
                deliver(block, row_scalar and scalar)
                for block, scalar in zip(row, column_scalars, strict=True)
            ]
            parts.append(unflatten(inner, leaves))
        return unflatten(outer, parts)

    return finish


# --- results that are computed a chunk of rows or columns at a time, on the host or a device ----


def zeros_beside(arrays: Sequence[object], types: Sequence[ArrayType]) -> list[np.ndarray]:
    """Zeros of these types: on the device of the first array on a device, else NumPy's."""
    device = next((a.device for a in arrays if isinstance(a, DeviceArray)), None)
    if device is None:
        return [np.zeros(t.shape, t.dtype) for t in types]
    return [device.zeros(t.shape, t.dtype) for t in types]  # type: ignore[misc] - plans take either kind


def put_part(
    whole: np.ndarray | DeviceArray,
    part: np.ndarray | DeviceArray,
    first: int,
    count: int,
    *,
    columns: bool,
) -> None:
    """Write columns (or rows) from number `first` on into a result that has `count` of them."""
    if not whole.size:
        return
    lines = whole.size // count  # entries of a column, or of a row
    size = part.size // lines
    if not isinstance(whole, DeviceArray):
        assert not isinstance(part, DeviceArray), "a result on the host of parts that are not"
        values = np.reshape(part, (lines, size) if columns else (size, lines))
        if columns:
            whole.reshape((lines, count))[:, first : first + size] = values
        else:
            whole.reshape((count, lines))[first : first + size] = values
        return
    assert isinstance(part, DeviceArray), "a result on a device of parts that are not"
    item = whole.dtype.itemsize
    shape = (lines, size) if columns else (size, lines)
    begin = whole.address + item * first * (1 if columns else lines)
    strides = (item * (count if columns else lines), item)
    place = DeviceArray(whole.device, shape, whole.dtype, begin, whole.owner, strides)
    source = DeviceArray(part.device, shape, part.dtype, part.address, part.owner)
    whole.device.write(source, place)

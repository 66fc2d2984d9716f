"""Results of dense Jacobians and Hessians: types of blocks, symmetry, and nested structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..arraytype import ArrayType
from ..dispatch.variant import Variant
from ..tree import unflatten
from .invocation import deliver

Finish = Callable[[Sequence[object]], object]


def block_type(out: ArrayType, inn: ArrayType, mode: str) -> ArrayType:
    """Type of a Jacobian block; complex where the output or the input is."""
    dtype = out.dtype if mode == "forward" and out.floating else inn.dtype
    if "c" in (out.dtype.kind, inn.dtype.kind):
        dtype = np.result_type(dtype, np.complex64)
    return ArrayType((*out.shape, *inn.shape), dtype)


def mirrored(rows: list[np.ndarray], sizes: Sequence[int]) -> list[np.ndarray]:
    """Blocks of a Hessian made exactly symmetric, in place."""
    n = len(sizes)
    for i in range(n):
        for j in range(i, n):
            upper = rows[i * n + j].reshape((sizes[i], sizes[j]))
            if i == j:
                _make_symmetric(upper)
            else:
                rows[j * n + i].reshape((sizes[j], sizes[i]))[...] = upper.T
    return rows


def _make_symmetric(square: np.ndarray, stripe: int = 256) -> None:
    """Replace a matrix by the mean of itself and its transpose, in place, stripe by stripe."""
    for lo in range(0, len(square), stripe):
        part = slice(lo, lo + stripe)
        mean = 0.5 * (square[part, lo:] + square[lo:, part].T)
        square[part, lo:] = mean
        square[lo:, part] = mean.T


def nested(variant: Variant) -> Callable[[Sequence[object]], object]:
    """Blocks in the structure of the outputs, each in the structure of the inputs."""
    columns = len(variant.wrt)
    rows = len(variant.tape.outputs)

    def finish(blocks: Sequence[object]) -> object:
        if rows == columns == 1 and variant.out_spec.kind is None and variant.in_spec.kind is None:
            return deliver(blocks[0], variant.scalars[0] and variant.input_scalars[variant.wrt[0]])
        made = []
        for o in range(rows):
            row = [
                deliver(blocks[o * columns + i], variant.scalars[o] and variant.input_scalars[k])
                for i, k in enumerate(variant.wrt)
            ]
            made.append(unflatten(variant.in_spec, row))
        return unflatten(variant.out_spec, made)

    return finish


def nested_square(variant: Variant) -> Callable[[Sequence[object]], object]:
    """Hessian blocks in the structure of the inputs, twice."""
    n = len(variant.wrt)

    def finish(blocks: Sequence[object]) -> object:
        if n == 1 and variant.in_spec.kind is None:
            return deliver(blocks[0], variant.input_scalars[variant.wrt[0]])
        rows = []
        for i, k in enumerate(variant.wrt):
            row = [
                deliver(blocks[i * n + j], variant.input_scalars[k] and variant.input_scalars[m])
                for j, m in enumerate(variant.wrt)
            ]
            rows.append(unflatten(variant.in_spec, row))
        return unflatten(variant.in_spec, rows)

    return finish

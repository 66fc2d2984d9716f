"""The sizes that routines of matrix products are called with, in parts."""

from __future__ import annotations

from ...named_tuples import NamedTuple
from .loops import Call

_COUNTS = 4


class ProductSizes(NamedTuple):
    """Numbers of entries; the strides of each operand and of the result; which are transposed."""

    counts: tuple[str, ...]  # of the stack, rows, terms of a sum, columns
    strides: tuple[tuple[str, str], ...]  # from matrix to matrix, and from row to row
    flips: tuple[str, ...]


def product_sizes(call: Call) -> ProductSizes:
    """The sizes of a call that is a matrix product."""
    texts, end = call.sizes, _COUNTS + 2 * len(call.buffers)
    strides = tuple(zip(texts[_COUNTS:end:2], texts[_COUNTS + 1 : end : 2], strict=True))
    return ProductSizes(texts[:_COUNTS], strides, texts[end:])

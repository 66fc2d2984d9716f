"""The number of rows of a tile, as text and as a number; the number of entries of arrays."""

from __future__ import annotations

from .index_expressions import Dims, plus, size

# Entries of a tile, and its rows: a multiple of the vector length, for nests with rows innermost.
# A tile that adds to matrices reads and writes all of them, which takes as long as 30 rows do.
_HELD, _LEAST, _LEAST_ADDING, _MOST, _WHOLE_ROWS = 1 << 17, 64, 128, 512, 32


def fewest_tile_rows(*, adding: bool) -> int:
    """How many rows a tile has at least; `adding`: products of its rows are added to matrices."""
    return _LEAST_ADDING if adding else _LEAST


def tile_height(rows: tuple[Dims, ...], least: int) -> str:
    """The rows of a tile as text, if arrays of these shapes are stored for each row."""
    total = "0"
    for dims in rows:
        total = plus(total, size(dims))
    some = f"{_HELD} // max(1, {total}) // {_WHOLE_ROWS} * {_WHOLE_ROWS}"
    return f"max({least}, min({_MOST}, {some}))"


def tile_height_at(rows: tuple[Dims, ...], least: int, sizes: tuple[int, ...]) -> int:
    """The rows of a tile as a number, for these values of ``n0, n1, ...``."""
    total = 0
    for dims in rows:
        total += count_entries(dims, sizes)
    return max(least, min(_MOST, _HELD // max(total, 1) // _WHOLE_ROWS * _WHOLE_ROWS))


def count_entries(dims: Dims, sizes: tuple[int, ...]) -> int:
    """The number of entries for these values of ``n0, n1, ...``."""
    total = 1
    for dim in dims:
        total *= int(dim) if dim.isdigit() else sizes[int(dim[1:])]
    return total

"""From which sizes on work is shared in another way."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Sizes from which on work is shared in another way, and how large grids are."""

    threads: int = 256  # of a block
    lanes: int = 32  # threads of a warp
    light: int = 1 << 12  # iterations up to which one block does all of a nest
    blocks: int = 1 << 16  # most blocks of a nest whose threads have entries of their own
    partial: int = 1 << 12  # most blocks of a reduction: each leaves a partial result
    tiled: int = 1 << 10  # most blocks that take tiles of rows
    many: int = 1 << 16  # threads that keep a GPU busy: reductions of fewer entries are split
    row: int = 32  # terms from which on the threads of a warp or block reduce a row together
    warp: int = 1 << 11  # terms of a row up to which a warp does that
    rows: int = 1 << 12  # rows that keep a GPU busy if each is reduced by a warp
    apart: int = 1 << 10  # lines that keep a GPU busy if each is taken by a block
    tiles: int = 1 << 9  # tiles of rows, if there are as many
    height: int = 32  # rows of a tile, if there are as many: those that the threads of a warp take
    library: int = 1 << 21  # terms of a matrix product from which on a library does it
    lines: int = 500  # lines of a kernel of one block, which is then cut: NVVM takes long
    registers: int = 8  # largest order of matrices that a thread keeps in registers
    matrix: int = 64  # largest order of matrices that a thread works on


GPU = Tuning()
# Few threads, which are slow there, and every way of sharing at small sizes.
SIMULATOR = Tuning(
    threads=4, light=20, blocks=3, partial=3, many=24, row=4, tiles=2, height=1, library=1 << 10,
    lanes=2, warp=12, rows=6, tiled=3, apart=3,
)  # fmt: skip

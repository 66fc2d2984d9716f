"""Sizes of grids, and the sizes that decide which threads share a nest.

`nest_kernels` and `code_generation` (tile loops) decide by them. They were measured on an H100:
docs/decisions/cuda-on-an-h100.md.
"""

from __future__ import annotations

from ....named_tuples import NamedTuple


class Tuning(NamedTuple):
    """Sizes in blocks, threads, iterations, terms of a reduction, and rows or lines of a nest."""

    # a block
    threads: int = 256  # of a block
    lanes: int = 32  # threads of a warp
    light: int = 1 << 12  # iterations up to which one block does all of a nest
    kernel_lines: int = 500  # lines of a kernel of one block, which then ends: NVVM takes long

    # the most blocks of a grid
    entry_blocks: int = 1 << 16  # ... whose threads have entries of their own
    partial_blocks: int = 1 << 12  # ... that reduces everything: each block leaves a partial result
    tile_blocks: int = 1 << 10  # ... whose blocks take tiles of rows

    # reductions
    busy_threads: int = 1 << 16  # that keep a GPU busy: with fewer entries, terms are split
    shared_terms: int = 32  # terms of a row from which on threads reduce it together
    warp_terms: int = 1 << 11  # terms of a row up to which these are the threads of one warp
    warp_rows: int = 1 << 12  # rows from which on warps of a grid take them, below that blocks
    block_lines: int = 1 << 10  # lines (runs of the last loop) from which on blocks take lines

    # tile loops
    tiles: int = 1 << 9  # at least, if there are as many rows
    tile_rows: int = 32  # the least rows of a tile, and what their number is a multiple of

    # matrices
    library_terms: int = 1 << 21  # terms of a product from which on a library does it
    register_order: int = 8  # largest order of matrices that a thread keeps in registers
    thread_order: int = 64  # largest order of matrices that a thread works on


GPU = Tuning()
# Few threads, which are slow there, and every way of sharing at small sizes.
SIMULATOR = Tuning(
    threads=4, lanes=2, light=20, entry_blocks=3, partial_blocks=3, tile_blocks=3, busy_threads=24,
    shared_terms=4, warp_terms=12, warp_rows=6, block_lines=3, tiles=2, tile_rows=1,
    library_terms=1 << 10,
)  # fmt: skip

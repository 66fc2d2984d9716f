"""The mode of a dense derivative, forward or reverse, and the blocks that follow from it.

Source: A. Griewank and A. Walther, Evaluating Derivatives, 2nd ed., SIAM 2008, sections 3.1 and
3.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...arraytype import ArrayType
from ...dispatch.variant import Traced
from ...tape import Tape
from .block_results import DenseBlocks, block_type

BUDGET = 256 * 2**20  # bytes of intermediate values that one pass of a dense derivative may hold
Types = tuple[ArrayType, ...]


def jacobian_blocks(traced: Traced, mode: str, chunk_size: int | None) -> DenseBlocks:
    """The blocks of a Jacobian."""
    picked = pick_mode(mode, traced.tape, traced.wrt)
    return dense_blocks(traced.tape.output_types, traced.wrt_types, mode, picked, chunk_size)


def pick_mode(mode: str, tape: Tape, wrt: Sequence[int]) -> str:
    """The mode: forward if there are at most as many inputs as outputs, else reverse."""
    if mode != "auto":
        return mode
    rows = sum(t.size for t in tape.output_types if t.floating)
    columns = sum(tape.input_types[k].size for k in wrt)
    return "forward" if columns <= rows else "reverse"


def dense_blocks(
    outs: Types, ins: Types, mode: str, picked: str, chunk_size: int | None
) -> DenseBlocks:
    """Blocks that are computed in the mode `picked`.

    They have the dtype of the input, as in torch, or the dtype of the output if `mode` is
    "forward". The mode that "auto" picks does not change the dtype, which never depends on sizes.
    """
    types = [block_type(o, i, mode) for o in outs for i in ins]
    return DenseBlocks(picked, outs, ins, types, chunk_size, BUDGET)

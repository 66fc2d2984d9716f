"""Arrays in the layout that kernels take, and results as arrays without another owner."""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ..tape import CONSTANT, Tape

COPY_BELOW = 65536  # bytes: smaller strided inputs are copied; larger ones get a kernel
PLAIN = 0x101  # ndarray.flags: C-contiguous and aligned


def contiguous(array: np.ndarray) -> np.ndarray:
    """`array`, copied into a contiguous one if it is small or unaligned."""
    if array.__class__ is not np.ndarray or (array.nbytes > COPY_BELOW and array.flags.aligned):
        return array
    return np.array(array, order="C") if not array.flags.aligned else np.asarray(array, order="C")


def owned(tape: Tape, outs: Sequence[object], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Interpreted results, copied where they alias an input, a constant or each other."""
    copies: list[np.ndarray] = []
    for node, value in zip(tape.outputs, outs, strict=True):
        array = np.asarray(value)
        shared = not array.flags.owndata or not array.flags.writeable or node in tape.inputs
        shared = shared or tape.nodes[node].primitive is CONSTANT
        shared = shared or any(array is a for a in (*arrays, *copies))
        copies.append(np.array(array) if shared else array)
    return copies

"""Whether there is room in memory, asked before code that ends the process where there is none.

LLVM aborts at the first allocation that fails, and the loader of libraries raises an error that
says nothing of memory.
"""

from __future__ import annotations

import fdiff.intact_numpy as np

# More than 32 MB are mapped, and given back, without a trace in C's allocator.
_LEAST = 33 << 20


def check_room(extra: int = 0) -> None:
    """Raise a MemoryError unless there is room for what LLVM needs, and so many bytes more.

    The memory is not touched, which takes some microseconds.
    """
    try:
        np.empty(_LEAST + extra, np.uint8)
    except MemoryError:
        fact = f"there is no room for the {(_LEAST + extra) >> 20} MB that LLVM may need."
        raise MemoryError(f"fdiff: {fact}") from None

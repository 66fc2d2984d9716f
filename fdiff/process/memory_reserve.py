"""Room in memory: asked for before code that ends the process where there is none, and given back.

LLVM aborts at the first allocation that fails, the OpenBLAS of SciPy tries for ever while it is
loaded, and the loader of libraries raises an error that says nothing of memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache

from ..foreign_errors import Suppressed, not_signalled

MOST_BYTES = 1 << 30  # that a loop keeps, where nothing else is said
budget: ContextVar[int | None] = ContextVar("fdiff.memory_budget", default=None)
_LEAST = 33 << 20
_SCIPY = 160 << 20  # its modules, and the first buffers of its OpenBLAS
_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}


# The stack of a thread, and the 128 MB that C's allocator reserves for it.
_THREAD = 192 << 20


def has_room(size: int) -> bool:
    """Whether `size` bytes can be mapped, as LLVM does; C's allocator may have others left.

    They are not touched, which takes microseconds.
    """
    try:
        with Suppressed(OSError):
            mmap.mmap(-1, size, **_PRIVATE).close()
            return True
    except not_signalled(MemoryError):
        pass
    return False


def has_room_for_thread() -> bool:
    """Whether another thread has as much room as this one for what LLVM needs."""
    return has_room(_LEAST + _THREAD)


def check_room(extra: int = 0) -> None:
    """Raise a MemoryError unless there is room for LLVM's own memory and `extra` more bytes."""
    _check_available(_LEAST + extra, "LLVM")


def check_room_for_scipy() -> None:
    """Raise a MemoryError where SciPy is not loaded, and there is no room for it."""
    if "scipy.linalg" not in sys.modules:
        _check_available(_SCIPY, "SciPy")


def _check_available(size: int, reader: str) -> None:
    if not has_room(size):
        fact = f"there is no room for the {size >> 20} MB that {reader} may need."
        raise MemoryError(f"fdiff: {fact}")


def budget_in_bytes() -> int:
    """How much memory a loop may take for its reverse: by default a quarter of what is free."""
    budget_bytes = budget.get()
    if budget_bytes is not None:
        return budget_bytes
    with Suppressed(AttributeError, ValueError, OSError):  # a system that does not tell
        return min(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4, MOST_BYTES)
    return MOST_BYTES


def give_back() -> None:
    """Let C's allocator return to the system what is free between other things, as glibc can."""
    if (trim := _trim()) is not None:
        trim(0)


@lru_cache(maxsize=1)
def _trim() -> Callable[[int], int] | None:
    return None if sys.platform == "win32" else getattr(ctypes.CDLL(None), "malloc_trim", None)

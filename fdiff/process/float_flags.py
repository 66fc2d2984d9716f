"""Hints at floating-point errors: the flags of the processor, and reports of NumPy.

A division by zero, an invalid operation or an overflow sets a flag of the thread it happens in.
That is only a hint that the user's function would warn: computing a derivative, or an arm that a
``where`` discards, sets flags as well.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import fdiff.intact_numpy as np

from ..error_state import STATE
from ..foreign_errors import not_foreign


class _Noted(threading.local):
    """Whether there has been a hint in this thread since the last call of `taken`."""

    hint = False


noted = _Noted()
OFTEN = 4  # so many hints are all looked into, later ones more and more rarely


class Doubts:
    """Findings about the hints of one variant."""

    __slots__ = ("count", "false", "filters", "inspector", "state")

    def __init__(self) -> None:
        self.count = 0  # hints since the filters of `warnings` last changed
        self.false = 0  # hints in a row that came to no warning
        self.filters: object = None
        self.state: object = None  # NumPy's when a hint was last found to be of no interest
        self.inspector: Any = None  # of the function's tape; its class lies on a floor above

    def rare(self) -> bool:
        """Whether this hint is to be looked into: one of the first, or a power of two."""
        if self.filters != (filters := [*warnings.filters]):
            self.count, self.filters = 0, filters
        self.count += 1
        return self.count <= OFTEN or self.count & (self.count - 1) == 0

    def idle(self) -> bool:
        """Whether a hint may be ignored: those before came to nothing, and nothing has changed.

        A kernel may give a hint at every call, by what it computes in masked lanes.
        """
        if self.false <= OFTEN or self.state is None or self.state is not error_state():
            return False
        count = self.count + 1
        if not count & (count - 1) or self.filters != warnings.filters:
            return False
        self.count = count
        return True


def error_state() -> object:
    """The error state of `numpy.errstate` in this context, to be compared; None if unknown."""
    return None if STATE is None else STATE.get()


def note(*_: object, **__: object) -> None:
    """Take note of a hint: whatever reports one calls this."""
    noted.hint = True


def taken() -> bool:
    """Whether there has been a hint, which is gone now."""
    hint, noted.hint = noted.hint, False
    return hint


def noting(errstate: type[np.errstate] = np.errstate) -> np.errstate:
    """A context in which NumPy is silent but for hints; underflow, which it ignores, is none."""
    return errstate(divide="call", over="call", invalid="call", under="ignore", call=note)


def note_flags() -> None:
    """Take note of the flags that machine code has set in this thread, and clear them."""
    test, clear = _functions()
    if test(_MASK):
        clear(_MASK)
        note()


# FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW of the C library.
if sys.platform == "win32":
    _MASK = 0x1C
else:
    _MASK = 0x0D if os.uname().machine in ("x86_64", "amd64", "i386", "i686") else 0x07


def _nothing(_: int) -> int:
    return 0


@lru_cache(maxsize=1)
def _functions() -> tuple[Callable[[int], int], Callable[[int], int]]:
    """``fetestexcept`` and ``feclearexcept`` of the C library, where it has them."""
    try:
        # As PyDLL a call keeps the GIL, which takes less time than to give it back.
        library = ctypes.PyDLL("ucrtbase" if sys.platform == "win32" else None)
        functions = library.fetestexcept, library.feclearexcept
    except not_foreign(AttributeError, OSError):
        return _nothing, _nothing
    return functions

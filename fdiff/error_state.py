"""`numpy.errstate`, which no exception leaves in force, wherever it arrives.

An exception of a signal handler may arrive where a ``with`` statement has ended, and before
`__exit__` has run: NumPy would be silent from then on. A state counts as entered only while the
frame of its ``with`` statement runs; the next caller restores the state from before.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from contextvars import ContextVar

# The variable that NumPy keeps its state in; None where NumPy keeps it elsewhere.
_UMATH = sys.modules.get("numpy._core.umath")
STATE: ContextVar[object] | None = getattr(_UMATH, "_extobj_contextvar", None)


plain_errstate = np.errstate  # NumPy's own, for what is not left where it is entered


class _EnteredStates(threading.local):
    """The frames that have entered a state in this thread, each with the state from before."""

    def __init__(self) -> None:
        self.states: list[tuple[FrameType, object]] = []


_entered = _EnteredStates()


class errstate(plain_errstate):  # noqa: N801 - NumPy's name
    """NumPy's context manager, for ``with`` statements."""

    def __enter__(self) -> None:
        restore()
        if STATE is not None:
            _entered.states.append((sys._getframe(1), STATE.get()))
        super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        super().__exit__(kind, error, traceback)
        if _entered.states and _entered.states[-1][0] is sys._getframe(1):
            _entered.states.pop()


def restore() -> None:
    """Restore the state from before those that were left without `__exit__`."""
    states = _entered.states
    while states and STATE is not None and not _runs(states[-1][0]):
        STATE.set(states.pop()[1])


def _runs(frame: FrameType) -> bool:
    running: FrameType | None = sys._getframe(1)
    while running is not None and running is not frame:
        running = running.f_back
    return running is not None

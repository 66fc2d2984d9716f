"""Calls of kernels with loops over trips, which end soon after an exception has ended the wait.

They look now and then at a word of their table, which all calls of a kernel share: a call of
another thread that ends with it begins again. Machine code calls a kernel with a table of its own:
after a tenth of a second the kernel ends, and is run anew so that exceptions end the wait. See
docs/decisions/interrupts.md.
"""

from __future__ import annotations

from collections.abc import Callable
from time import sleep

import fdiff.intact_numpy as np

from ..process import interruptible
from ..process.forking import at_fork
from .runtime.status_errors import STOPPED

BRIEF = -1  # the word of calls that nobody can end: they end by themselves where they become long
_WHILE = 1e-3  # seconds, until a call looks again whether what it shares the word with has ended


def stoppable(work: Callable[[], object], word: np.ndarray, *, answering: bool) -> object:
    """The status that `work` gives; if `answering`, an exception of a signal handler ends it.

    `word` is not 0 while loops are to end.
    """
    steps: set[str] = set()  # what has happened: begun, left, over

    def begun_again() -> object:
        steps.add("begun")
        try:
            status: object = STOPPED
            while status == STOPPED and "left" not in steps:
                status = work()
                if status == STOPPED and "left" not in steps:
                    sleep(_WHILE)
            return status
        finally:
            steps.add("over")
            if "left" in steps:
                word[0] = 0
                _left.pop(id(steps), None)

    try:
        return interruptible.interruptibly_without_lock(begun_again) if answering else begun_again()
    except BaseException:
        _left[id(steps)] = word
        steps.add("left")
        word[0] = "begun" in steps
        if "over" in steps or "begun" not in steps:
            word[0] = 0
            _left.pop(id(steps), None)
        raise


_left: dict[int, np.ndarray] = {}  # words of calls that are to end


def _forget_left() -> None:
    """In a forked child there are no such calls, which would set their words back."""
    for word in _left.values():
        word[0] = 0
    _left.clear()


at_fork(after_in_child=_forget_left)

"""Exceptions of Python that code compiled by Numba raises: caught there, or by whoever called it.

Numba's ``try`` catches what Numba itself raises: a class, of which the object is made when the
exception leaves compiled code. An error that Python has set crashes it. So what a function of
Python raises is put aside, and compiled code raises `PendingError`, whose object is what was put
aside. By the number of the thread: those of ``prange`` have no state of Python between two calls.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

_ASKED = 2  # times: Numba makes an object to see whether that works, and Python one that it raises
_pending: dict[int, list[BaseException]] = {}


class PendingError(Exception):
    """What was raised last in this thread, when an object is made of it."""

    def __new__(cls, *_: object) -> Any:
        """The exception that was put aside."""
        waiting = _pending[get_ident()]
        if len(waiting) == 1:
            del _pending[get_ident()]
        return waiting.pop()


def putting_aside(function: Callable[..., int]) -> Callable[..., int]:
    """The function, which gives -1 where it would raise."""

    def call(*args: Any) -> int:
        _pending.pop(get_ident(), None)  # one that compiled code has caught
        try:
            return function(*args)
        except BaseException as error:  # noqa: BLE001 - raised by compiled code, see above
            _pending[get_ident()] = [error] * _ASKED
            return -1

    return call

"""Exceptions of Python functions, raised by the code compiled by Numba that called them.

A ``try`` that Numba compiles catches what compiled code raises: a class, which is instantiated when
the exception leaves compiled code. It crashes where Python's own error indicator is set instead. So
the exception is put aside, and compiled code raises `PendingError`; instantiating that gives the
exception. Exceptions are kept by the number of the thread, because the threads of ``prange`` have
no thread state of Python between two calls.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident

_INSTANCES = 2  # Numba makes one to see whether that works, and Python another that it raises
_pending: dict[int, list[BaseException]] = {}


class PendingError(Exception):
    """Stands for the exception that was put aside last in this thread."""

    def __new__(cls, *_: object) -> object:
        """The exception that was put aside; without one, the call found no memory."""
        waiting = _pending.get(get_ident())
        if waiting is None:
            return MemoryError("no memory for the arguments of a call from compiled code")
        if len(waiting) == 1:
            del _pending[get_ident()]
        return waiting.pop()


def putting_aside(function: Callable[..., int]) -> Callable[..., int]:
    """The function, which puts aside what it raises and gives -1."""

    def call(*args: object) -> int:
        _pending.pop(get_ident(), None)  # one that compiled code has caught
        try:
            return function(*args)
        except BaseException as error:  # noqa: BLE001 - raised by compiled code, see above
            _pending[get_ident()] = [error] * _INSTANCES
            return -1

    return call

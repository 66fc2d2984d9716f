"""Exceptions that came from outside into code of fdiff's: of signal handlers, or of full memory.

They may be of any class, ValueError and KeyError among them, and arrive anywhere. So an ``except``
clause that means an error of the code inside it names `not_foreign` of its classes, and what is
suppressed is `Suppressed`: what came from outside leaves them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from threading import get_ident
from types import TracebackType
from typing import ParamSpec, TypeVar

_OURS = frozenset(
    [
        "fdiff", "llvmlite", "numba", "numba_cuda", "cupy", "numpy", "scipy", "builtins",
        "distributed", "dask", "cloudpickle",
    ]
)  # fmt: skip
_Error = TypeVar("_Error", bound=BaseException)
_P = ParamSpec("_P")
_Value = TypeVar("_Value")


class HiddenError(Exception):
    """In place of an error that Python would take for a name that is not there, and drop.

    Python takes a KeyError of ``__missing__`` for a missing global, and an AttributeError of a
    property or of ``__getattr__`` for a missing attribute. Public calls raise the cause.
    """


def hiding(read: Callable[_P, _Value]) -> Callable[_P, _Value]:
    """``__getattr__``, or a getter beside it, where no AttributeError from outside is dropped."""

    @wraps(read, updated=())
    def getter(*args: _P.args, **keywords: _P.kwargs) -> _Value:
        try:
            return read(*args, **keywords)
        except AttributeError as error:
            try:
                foreign = is_foreign(error)
            except AttributeError as another:
                raise HiddenError from another
            if foreign:
                raise HiddenError from error
            raise

    return getter


_pending: dict[int, AttributeError] = {}  # by thread: from a getter to `__getattr__`


def noting(read: Callable[_P, _Value]) -> Callable[_P, _Value]:
    """A getter outside of public calls, whose AttributeErrors `telling` raises again."""

    @wraps(read, updated=())
    def getter(*args: _P.args, **keywords: _P.kwargs) -> _Value:
        try:
            return read(*args, **keywords)
        except AttributeError as error:
            _pending[get_ident()] = error
            raise

    return getter


def telling(look: Callable[_P, _Value]) -> Callable[_P, _Value]:
    """``__getattr__`` beside getters that are `noting`: Python calls it where one has failed."""

    @wraps(look, updated=())
    def getter(*args: _P.args, **keywords: _P.kwargs) -> _Value:
        if (error := _pending.pop(get_ident(), None)) is not None:
            raise error
        return look(*args, **keywords)

    return getter


def is_foreign(error: BaseException) -> bool:
    """Whether an exception came from outside into code of fdiff's that was under way.

    A signal handler raised it, or the memory is full: what was under way has no fault, and may be
    tried again. An error of the user's code, which fdiff has called, counts as one.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return False  # the system's own
    return isinstance(error, MemoryError | TimeoutError | HiddenError) or is_raised_outside(error)


def is_raised_outside(error: BaseException) -> bool:
    """Whether the innermost frame of an exception, or its class, is no library's."""
    tb, name = error.__traceback__, "fdiff"
    while tb is not None:
        name, tb = str(tb.tb_frame.f_globals.get("__name__")), tb.tb_next
    return any(map(_is_foreign_module, (name, type(error).__module__)))


def comes_once(again: Callable[[], object]) -> bool:
    """Whether what has just raised an exception works now: the exception came from outside."""
    try:
        again()
    except Exception:  # noqa: BLE001 - the same one, which its caller knows what to do about
        return False
    return True


def not_foreign(
    *kinds: type[_Error], again: Callable[[], object] | None = None
) -> tuple[type[_Error], ...]:
    """What an ``except`` clause names: `kinds`, or none if the exception came from outside.

    Where the user's code may have raised it, it came from outside if `again` does not raise.
    """
    error = sys.exception()
    foreign = isinstance(error, kinds) and is_foreign(error)
    return () if foreign and (again is None or comes_once(again)) else kinds


class Suppressed(suppress):
    """As `contextlib.suppress`, of errors of the code inside; those from outside come out.

    The exception of an alarm may be of the same class: a TimeoutError is an OSError.
    """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        return bool(super().__exit__(kind, error, traceback)) and not (error and is_foreign(error))


def _is_foreign_module(name: str) -> bool:
    root = name.partition(".")[0]
    return root == "__main__" or (root not in _OURS and root not in sys.stdlib_module_names)

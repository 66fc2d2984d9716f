"""Tracebacks that show the user's frames, and of fdiff's only that of the public call."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

from .errors import is_own

VARIABLE = "FDIFF_TRACEBACK"

P = ParamSpec("P")
R = TypeVar("R")


def trim(error: BaseException) -> None:
    """Take fdiff's frames out of an error, but for the public function's that is to raise it again.

    ``FDIFF_TRACEBACK=full`` in the environment leaves all of them in.
    """
    if os.environ.get(VARIABLE) == "full":
        return
    own = error.__traceback__
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        one.__traceback__ = _of_others(one.__traceback__)
        context = one.__context__
        if one.__cause__ is None and context is not None and not _of_others(context.__traceback__):
            one.__suppress_context__ = True  # it began and ended in fdiff, or in NumPy below it
        one = one.__cause__ or (None if one.__suppress_context__ else context)
    if own is not None:
        rest = error.__traceback__
        error.__traceback__ = TracebackType(rest, own.tb_frame, own.tb_lasti, own.tb_lineno)


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A public function whose errors are trimmed; those that are called often do so themselves."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            trim(error)
            raise

    return call


def _of_others(traceback: TracebackType | None) -> TracebackType | None:
    """The entries whose frames are not fdiff's."""
    entries: list[TracebackType] = []
    while traceback is not None:
        if not is_own(traceback.tb_frame.f_code.co_filename):
            entries.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for entry in reversed(entries):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept

"""Replacements of functions that show or write text: `print`, loggers, files.

Their arguments are shown at once, and recorded so that later calls show them again. The body of a
loop, which runs once for all trips, may not call them.
"""

from __future__ import annotations

import builtins
import io
import sys
from collections.abc import Callable
from contextvars import ContextVar
from types import FunctionType
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeGuard, cast

from ..foreign_errors import hiding
from ..user_lines import is_internal
from .dependency_nodes import Identical
from .proxy_context import Pair, ProxyContext

if TYPE_CHECKING:
    import logging

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_LOGGING = (*_LEVELS, "log")  # functions of `logging`, and methods of loggers
_FILES = frozenset((io.TextIOWrapper, io.StringIO, io.BytesIO, io.BufferedWriter))
_WRITING = frozenset(("write", "writelines", "flush"))

# While code runs once for many trips: the function that refuses to show text once for all trips.
refusing: ContextVar[Callable[[str], NoReturn] | None] = ContextVar("fdiff.refusing", default=None)
# Whether text is made to be shown, and goes nowhere else.
showing: ContextVar[bool] = ContextVar("fdiff.showing", default=False)


class Shows(Protocol):
    """The recorder of calls that show text."""

    def show(
        self, words: str, call: Callable[..., object], args: tuple[object, ...],
        kwargs: dict[str, object], /,
    ) -> object: ...  # fmt: skip


class ShownCall:
    """A function that shows text; `call` is the callable that runs now and at later calls."""

    def __init__(self, shows: Shows, real: object, call: Callable[..., object], words: str) -> None:
        self._shows = shows
        self._real = real
        self._call = call
        self._words = words

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._show(self._call, args, kwargs)

    def _show(
        self, call: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        if (refuse := refusing.get()) is not None:
            refuse(f"has a side effect, {self._words}")
        before = showing.get()
        try:
            showing.set(True)
            return self._shows.show(self._words, call, args, kwargs)
        finally:
            showing.set(before)

    @hiding
    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


class Log(ShownCall):
    """A function or method of `logging`, whose records name the line of the user's code."""

    def __init__(self, shows: Shows, real: object, logger: logging.Logger, name: str) -> None:
        super().__init__(shows, real, _record, f"what `logging.{name}` shows")
        self._logger = logger
        self._level = _LEVELS.get(name)

    def __call__(self, *args: object, **kwargs: object) -> object:
        level, rest = (args[0], args[1:]) if self._level is None else (self._level, args)
        if kwargs or not rest or not isinstance(level, int):
            return self._show(cast("Callable[..., object]", self._real), args, kwargs)
        frame = sys._getframe(1)
        while frame.f_back is not None and is_internal(frame.f_code.co_filename):
            frame = frame.f_back
        place = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        arguments = (self._logger, level, place, rest[0], *rest[1:])
        return self._show(_record, arguments, {})


def _record(
    logger: logging.Logger, level: int, place: tuple[str, int, str], text: object, *args: object
) -> None:
    """Log a record as if a line of the user's code logged it."""
    if logger.parent is None and not logger.handlers:  # as the functions of `logging` do
        sys.modules["logging"].basicConfig()
    if logger.isEnabledFor(level):
        file, line, name = place
        record = logger.makeRecord(logger.name, level, file, line, text, args, None, name)
        logger.handle(record)


class Shown:
    """An object with methods that show text: a logger, a file. Other methods are its own."""

    def __init__(self, context: ProxyContext, shows: Shows, real: object, words: str) -> None:
        self._fdiff_context = context
        self._fdiff_shows = shows
        self._fdiff_real = real
        self._fdiff_words = words

    @hiding
    def __getattr__(self, name: str) -> object:
        real, shows = self._fdiff_real, self._fdiff_shows
        method = getattr(real, name)
        if is_logger(real):
            if name in _LOGGING:
                return Log(shows, method, real, name)
        elif name in _WRITING:
            return ShownCall(shows, method, method, f"what `{name}` of a file writes")
        return self._fdiff_read(name)

    def _fdiff_read(self, name: str) -> object:
        """An attribute of the object itself, which cannot be compared."""
        self._fdiff_context.note(self._fdiff_words)
        return getattr(self._fdiff_real, name)


def _special(name: str) -> Callable[..., object]:
    return lambda self, *args: self._fdiff_read(name)(*args)


for _name in ("__iter__", "__next__", "__enter__", "__exit__", "__eq__", "__hash__", "__repr__"):
    setattr(Shown, _name, _special(_name))


def is_logger(value: object) -> TypeGuard[logging.Logger]:
    """Whether a value is a logger of Python's own class."""
    kind = type(value)
    return kind.__module__ == "logging" and kind.__name__ in {"Logger", "RootLogger"}


def stand_in(context: ProxyContext, shows: Shows, value: object) -> Pair | None:
    """The stand-in for a function or object that shows text; None for any other."""
    if value is builtins.print:
        return ShownCall(shows, value, builtins.print, "what `print` shows"), Identical(value)
    if isinstance(value, FunctionType) and value.__module__ == "logging":
        name, logging = value.__name__, sys.modules["logging"]
        if name in _LOGGING and getattr(logging, name) is value:
            return Log(shows, value, logging.root, name), Identical(value)
    if is_logger(value):
        return Shown(context, shows, value, "attributes of a logger"), Identical(value)
    if type(value) in _FILES:
        return Shown(context, shows, value, f"what a {type(value).__name__} holds"), Identical(
            value
        )
    return None


def shows_text(value: object) -> bool:
    """Whether `value` stands for a function that shows text."""
    return isinstance(value, ShownCall)

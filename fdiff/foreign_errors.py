"""Exceptions that came from outside into code of fdiff's: of signal handlers, or of full memory.

They may be of any class, ValueError and KeyError among them, and arrive anywhere. So an ``except``
clause that means an error of the code inside it names `not_foreign` of its classes, and errors are
suppressed by `Suppressed`: exceptions from outside leave both.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import _GeneratorContextManager, suppress
from functools import WRAPPER_ASSIGNMENTS, WRAPPER_UPDATES, partial
from opcode import opmap, opname
from pathlib import Path
from threading import get_ident
from types import FunctionType, TracebackType
from typing import Concatenate, ParamSpec, TypeVar

_OURS = frozenset(
    [
        "fdiff", "llvmlite", "numba", "numba_cuda", "cupy", "numpy", "scipy", "builtins",
        "distributed", "dask", "cloudpickle",
    ]
)  # fmt: skip
_RAISING = ("RAISE_VARARGS", "RERAISE")
_AFTER_YIELD_FROM = 2  # the argument of RESUME
ASKED_BY_NUMPY = frozenset(["__array_interface__", "__array_struct__", "__array_priority__"])
_Error = TypeVar("_Error", bound=BaseException)
_P = ParamSpec("_P")
_Object = TypeVar("_Object")
_Value = TypeVar("_Value")


class HiddenError(Exception):
    """In place of an error that Python would take for a name that is not there, and drop.

    Python takes a KeyError of ``__missing__`` for a missing global, and an AttributeError of a
    property or of ``__getattr__`` for a missing attribute. Public calls raise the cause.
    """


def uninterrupted_entry(function: Callable[_P, _Value]) -> Callable[_P, _Value]:
    """The function, at whose entry Python runs no signal handler; it runs at a call in its body.

    An exception at the entry comes before any ``try``. The first instruction is told that the
    function goes on after ``yield from``, where Python looks for no signals. It looks for them
    after calls, not after an index: nothing comes between ``defaultdict(call)[key]`` and its end.
    """
    if isinstance(function, FunctionType) and (resume := opmap.get("RESUME")) is not None:
        text = bytearray(function.__code__.co_code)
        text[2 * text[::2].index(resume) + 1] = _AFTER_YIELD_FROM
        function.__code__ = function.__code__.replace(co_code=bytes(text))
    return function


def whole_exit(
    leave: Callable[Concatenate[_Object, _P], _Value],
) -> Callable[Concatenate[_Object, _P], _Value]:
    """An ``__exit__`` that does all of its work where a signal handler raises an exception in it.

    A second call of `leave` does the work that the exception has kept the first one from doing.
    """

    def __exit__(self: _Object, *error: _P.args, **none: _P.kwargs) -> _Value:  # noqa: N807 - the name in tracebacks
        try:
            return leave(self, *error, **none)
        except BaseException:
            leave(self, *error, **none)
            raise

    return update_wrapper(uninterrupted_entry(__exit__), leave)


class _WholeContext(_GeneratorContextManager[_Value]):
    """A context of a generator, which runs to its end wherever an exception arrives."""

    def __enter__(self) -> _Value:
        try:
            return super().__enter__()
        except BaseException:
            self.gen.close()
            raise

    @uninterrupted_entry
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            return super().__exit__(kind, error, traceback)
        except BaseException:
            self.gen.close()
            raise


def contextmanager(
    generate: Callable[_P, Generator[_Value]],
) -> Callable[_P, _GeneratorContextManager[_Value]]:
    """As `contextlib.contextmanager`, whose ``__exit__`` may not run to its end."""

    def context(*args: _P.args, **keywords: _P.kwargs) -> _GeneratorContextManager[_Value]:
        return _WholeContext(generate, args, keywords)

    return update_wrapper(context, generate)


def update_wrapper(
    wrapper: _Object,
    wrapped: Callable[..., object],
    assigned: Iterable[str] = WRAPPER_ASSIGNMENTS,
    updated: Iterable[str] = WRAPPER_UPDATES,
) -> _Object:
    """As `functools.update_wrapper`, which drops any AttributeError."""
    for name in assigned:
        try:
            value = getattr(wrapped, name)
        except not_foreign(AttributeError, again=partial(getattr, wrapped, name)):
            continue
        setattr(wrapper, name, value)
    for name in updated:
        getattr(wrapper, name).update(getattr(wrapped, name, {}))
    wrapper.__wrapped__ = wrapped  # type: ignore[attr-defined] - of a function, or an object with attributes
    return wrapper


def wraps(wrapped: Callable[..., object]) -> Callable[[_Object], _Object]:
    """As `functools.wraps`, for what is wrapped while a program runs."""
    return partial(update_wrapper, wrapped=wrapped)


def hiding(read: Callable[_P, _Value]) -> Callable[_P, _Value]:
    """``__getattr__``, or a getter beside it, where no AttributeError from outside is dropped."""

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

    return update_wrapper(uninterrupted_entry(getter), read, updated=())


_pending: dict[int, AttributeError] = {}  # by thread: from a getter to `__getattr__`


def noting(read: Callable[_P, _Value]) -> Callable[_P, _Value]:
    """A getter outside of public calls, whose AttributeErrors `telling` raises again."""

    def getter(*args: _P.args, **keywords: _P.kwargs) -> _Value:
        try:
            return read(*args, **keywords)
        except AttributeError as error:
            if args and hasattr(type(args[0]), "__getattr__"):  # or nobody would ask for it
                _pending[get_ident()] = error
            raise

    return update_wrapper(uninterrupted_entry(getter), read, updated=())


def telling(look: Callable[[_Object, str], _Value]) -> Callable[[_Object, str], _Value]:
    """``__getattr__`` beside getters that are `noting`: Python calls it where one has failed.

    NumPy asks in C for names of protocols, and drops any AttributeError: no signal handler runs
    while the answer is given.
    """

    def getter(self: _Object, name: str) -> _Value:
        if name in ASKED_BY_NUMPY:
            raise AttributeError
        if (error := _pending.pop(get_ident(), None)) is not None:
            raise error
        return look(self, name)

    return update_wrapper(uninterrupted_entry(getter), look, updated=())


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


def is_of_signal_handler(error: BaseException) -> bool:
    """Whether a signal handler raised an exception: Python gives it the frame that it interrupts.

    Errors that the user's code raises look the same otherwise.
    """
    if isinstance(error, HiddenError) and error.__cause__ is not None:
        error = error.__cause__
    tb, caller = error.__traceback__, None
    while tb is not None:
        frame = tb.tb_frame
        for value in frame.f_locals.values() if caller is not None else ():
            if value is caller or (type(value) is tuple and any(v is caller for v in value)):
                return True
        caller, tb = frame, tb.tb_next
    return False


def is_sent_by_thread(error: BaseException) -> bool:
    """Whether another thread has sent an exception, which no code raises in this one.

    Python makes it of a class, at the end of a call. What C code raises there is of no class of the
    user's, and says why.
    """
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    if tb is None or opname[tb.tb_frame.f_code.co_code[tb.tb_lasti]] in _RAISING:
        return False
    return not error.args or _is_foreign_module(type(error).__module__)


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


def not_signalled(*kinds: type[_Error]) -> tuple[type[_Error], ...]:
    """What an ``except`` clause names: `kinds`, or none if a signal handler raised the exception.

    It is for errors that the user's own code may raise for the same reason as fdiff's.
    """
    error = sys.exception()
    return () if error is not None and is_of_signal_handler(error) else kinds


def file_status(path: Path) -> os.stat_result | None:
    """The status of a file, None if there is no such file.

    `Path.exists` and functions like it drop errors of signal handlers.
    """
    try:
        return path.stat()
    except not_foreign(OSError, ValueError):
        return None


def is_regular_file(path: Path) -> bool:
    """As `Path.is_file`, which drops errors of signal handlers."""
    status = file_status(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def environment_value(name: str) -> str | None:
    """A variable of the environment; `os.environ.get` drops the KeyError of a signal handler."""
    try:
        return os.environ[name]
    except KeyError as error:  # which no variable keeps, as the error would keep this frame
        if is_foreign(error):
            raise
        if error.__context__ is not None and is_foreign(error.__context__):  # `os` replaced it
            raise error.__context__ from None
        return None


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

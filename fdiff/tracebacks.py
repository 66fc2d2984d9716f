"""Tracebacks for users: the user's frames, one of fdiff, and a note if others raised the error.

fdiff's own errors name the public call, the user's line and the way out. Those that NumPy, Python
or a library raise while fdiff runs `f` do not: they keep their words, and get a note (PEP 678).
The user's line itself is found in `user_lines.py`.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from opcode import opmap
from types import CodeType, TracebackType
from typing import ParamSpec, TypeVar

from .error_hints import CONSTRAINT, DATA, WAYS
from .error_state import restore
from .errors import (
    DENSE_WAYS,
    FdiffError,
    InputError,
    SizeError,
    called,
    failure,
    message,
    name_call,
    unbounded,
)
from .foreign_errors import HiddenError, environment_value, not_foreign, wraps
from .user_lines import Line, is_internal, is_own, line_in, user_line, within_scipy

VARIABLE = "FDIFF_TRACEBACK"

# Errors of these are looked at: some are said in other words.
_OF_DATA = (RecursionError, ValueError, IndexError, OverflowError, MemoryError)
# What NumPy says of an array that it has too many axes for; the last number is how many.
_AXES = r"(?:supported dimension|number of dimensions must).*?(\d+)\.?$"
_RAISING = {opmap["RAISE_VARARGS"], opmap["RERAISE"]}
_ALONE = "Call `{name}` itself, with the same arguments, to look into it without fdiff."
_FACT = "this line raised the error"
_WALK = 100  # calls of one function inside each other that are a walk through nested data

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")


def trim(error: BaseException, name: str = "", f: object = None) -> None:
    """Take fdiff's frames out of an error, but for the public function's that is to raise it again.

    ``FDIFF_TRACEBACK=full`` in the environment leaves all of them in. `name` and `f` are the public
    call, for the note of an error in the words of others. Where NumPy or Python refused data that
    no array can be made of, or that has no end, an `InputError` is raised in its place; in place of
    a `HiddenError` its cause.
    """
    restore()
    if isinstance(error, HiddenError) and error.__cause__ is not None:
        trim(error.__cause__, name, f)
        raise error.__cause__ from None
    if name and isinstance(error, _OF_DATA):
        _refuse_data(error, name, called(name, f) if callable(f) else name)
    if name and isinstance(error, FdiffError):
        name_call(error, name, f)
    elif name and isinstance(error, Exception):
        explain(error, name, f)
    if environment_value(VARIABLE) == "full":
        return
    own = error.__traceback__
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.__traceback__ = _of_others(link.__traceback__)
        context = link.__context__
        if link.__cause__ is None and context is not None and not _of_others(context.__traceback__):
            link.__suppress_context__ = True  # it began and ended in fdiff, or in NumPy below it
        link = link.__cause__ or (None if link.__suppress_context__ else context)
    if own is not None:
        rest = error.__traceback__
        error.__traceback__ = TracebackType(rest, own.tb_frame, own.tb_lasti, own.tb_lineno or 1)


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A public function whose errors are trimmed; those that are called often do so themselves."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if _refused_arguments(error):
                f = args[0] if args and callable(args[0]) else None
                name = function.__name__
                _show_parameters(error, function, called(name, f) if f else name)
            trim(error, function.__name__, args[0] if args else None)
            raise

    return call


def public_class(cls: type[C]) -> type[C]:
    """A public class; where its arguments are none that it takes, Python's error shows those."""
    name = "__new__" if "__new__" in vars(cls) else "__init__"
    construct = getattr(cls, name)

    @wraps(construct)
    def call(*args: object, **kwargs: object) -> object:
        try:
            return construct(*args, **kwargs)
        except TypeError as error:
            if _refused_arguments(error):
                _show_parameters(error, cls, cls.__name__)
            raise

    setattr(cls, name, staticmethod(call) if name == "__new__" else call)
    return cls


def _refused_arguments(error: BaseException) -> bool:
    """Whether a call failed before the first line of the function: it was called otherwise."""
    own = error.__traceback__
    return isinstance(error, TypeError) and own is not None and own.tb_next is None


def _show_parameters(error: BaseException, function: Callable[..., object], call: str) -> None:
    """Add the public call, the user's line, and which arguments there are."""
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    plain = [p.replace(annotation=p.empty) for p in parameters if p.name != "self"]
    shown = signature.replace(parameters=plain, return_annotation=signature.empty)
    way = f"It is called as {function.__name__}{shown}."
    if str(signature.return_annotation).startswith("Prepared"):
        way += f" Arguments of `f` go to its result: {function.__name__}(f)(x, data)."
    error.add_note(message(call, f"{_FACT}:", way, user_line(2)))


def ask(function: Callable[..., R], args: Sequence[object], call: str, role: str, form: str) -> R:
    """Call a function that the user gave; if it does not take these arguments, tell which they are.

    `role` says what it was given as, and `form` how it is called: ``pack_hook(array)``.
    """
    try:
        return function(*args)
    except TypeError as error:
        if takes(function, args, {}):
            raise
        fact = f"{role} is called as {form}, and does not take that: {error}."
        line = line_of(function) or user_line()
        raise InputError(message(call, fact, f"Define it as {form}.", line)) from None


def takes(f: Callable[..., object], args: Sequence[object], kwargs: dict[str, object]) -> bool:
    """Whether the arguments fit, as far as Python knows."""
    try:
        inspect.signature(f).bind(*args, **kwargs)
    except not_foreign(TypeError):
        return False
    except not_foreign(ValueError):  # code in C that does not tell what it takes
        return True
    return True


def line_of(function: object) -> tuple[str, int] | None:
    """The line where a function of the user's begins."""
    code = getattr(_unbound(function), "__code__", None)
    return None if code is None else (code.co_filename, code.co_firstlineno)


def name_of(function: object) -> str:
    """The name of a function of the user; for an object, the name of its class."""
    plain_function = _unbound(function)
    return getattr(plain_function, "__name__", type(plain_function).__name__)


def _unbound(function: object) -> object:
    """The user's function in a `functools.partial`: bound last, if fdiff made that for it."""
    while isinstance(function, partial) and not hasattr(function, "__name__"):
        code = getattr(function.func, "__code__", None)
        own = code is not None and is_own(code.co_filename)
        function = function.args[-1] if own else function.func
    return function


def explain(
    error: Exception, name: str, f: object, line: Line | None = None, place: str = ""
) -> None:
    """Add the public call, the user's line and the way out; not to what `f` raises on purpose.

    `line` is the line, where it is known to others than the traceback, and `place` words for where
    that is.
    """
    notes: list[str] = getattr(error, "__notes__", [])
    if any(_FACT in note for note in notes) or _on_purpose(error.__traceback__):
        return
    words = str(error)
    way = next((way for part, way in WAYS.items() if part in words), _ALONE if callable(f) else "")
    if name == "hessian" and "positional argument" in words and within_scipy():
        way = CONSTRAINT
    call = called(name, f) if callable(f) else name
    own = getattr(f, "__name__", "f") if callable(f) else name
    line = line or line_in(error.__traceback__) or user_line(2)
    error.add_note(message(call, f"{_FACT}{place}:", way.format(name=own, call=name), line))


def _on_purpose(traceback: TracebackType | None) -> bool:
    """Whether a ``raise`` of the user's raised the error, which is then in his own words."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return True
    code = traceback.tb_frame.f_code
    if is_internal(code.co_filename):
        return False
    return code.co_code[traceback.tb_lasti] in _RAISING


def _refuse_data(error: BaseException, name: str, call: str) -> None:
    """Raise an `InputError` where fdiff, and not `f`, met what is in `DATA`, or a `SizeError`."""
    counts, inside, traceback = Counter[CodeType](), False, error.__traceback__
    while traceback is not None:  # which frames of fdiff's are there after the last of the user's
        code = traceback.tb_frame.f_code
        if is_own(code.co_filename):
            counts[code] += 1
        elif counts and not is_internal(code.co_filename):
            counts.clear()
            inside = True
        traceback = traceback.tb_next
    words = str(error)
    way = next((way for part, way in DATA.items() if part in words), "")
    fact = words.rstrip(".") + "."
    if axes := re.search(_AXES, words):
        fact = f"a value on the way would have {axes[1]} axes; NumPy arrays have 64 at most."
        way = "Leave out axes of length 1, or take a function of x.reshape(-1)."
    alone = words.startswith("fdiff: ")  # of `memory_reserve.py`, for a library that is loaded
    large = (isinstance(error, MemoryError) and not alone) or "array is too big" in words
    if large and name in DENSE_WAYS and counts and not inside:
        fact = f"the memory has no room for the dense result. {fact}"
        raise failure(SizeError, call, fact, DENSE_WAYS[name]) from None
    if isinstance(error, MemoryError):
        return
    if not isinstance(error, RecursionError):
        if way and counts and not inside:
            raise failure(InputError, call, fact, way) from None
    elif max(counts.values(), default=0) > _WALK:
        fact = "an argument, a result or what `f` captures contains itself, or is nested too deep."
        raise unbounded(call, fact) from None


def _of_others(traceback: TracebackType | None) -> TracebackType | None:
    """The entries whose frames are not fdiff's."""
    entries: list[TracebackType] = []
    while traceback is not None:
        if not is_own(traceback.tb_frame.f_code.co_filename):
            entries.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for entry in reversed(entries):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno or 1)
    return kept

"""The errors fdiff raises, and how a message is worded.

A message names the public call, shows the user's line, states the fact and offers the way out.
`user_line` finds that line while code runs, `line_in` in a traceback, `show_line` words it.
`tracebacks.py` says which frames a user sees, and what is noted at errors that others raise.
"""

from __future__ import annotations

import linecache
import os
import site
import sys
import warnings
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple, TypeVar

import numpy as np

from .bounded_cache import keep

# A file and the number of a line in it; or code and the offset of an instruction, whose line is
# looked up when it is shown: of most nodes it never is.
Line = tuple[str | CodeType, int]

_PACKAGE = str(Path(__file__).parent)
STDLIB = str(Path(os.__file__).parent)
SITE_PACKAGES = tuple(site.getsitepackages())
_INTERNAL = (_PACKAGE, STDLIB, *SITE_PACKAGES, "<__array_function__", "<frozen")


class FdiffError(Exception):
    """Base class of every error that fdiff raises on its own account."""


E = TypeVar("E", bound=FdiffError)


class TraceError(FdiffError, TypeError):
    """`f` did something with a traced array that cannot be put on the tape."""


class UnsupportedError(TraceError, NotImplementedError):
    """`f` called a function for which fdiff has no rule."""


class LeakError(TraceError):
    """A traced array was used after the trace that made it had ended."""


class DtypeError(FdiffError, TypeError):
    """A derivative was asked with respect to something that is not floating point."""


class InputError(FdiffError, TypeError):
    """An argument, or an output of `f`, has a type the call does not take."""


class VectorError(FdiffError, RuntimeError):
    """The vector `v`, or the output it belongs to, has the wrong size or structure."""


class StrictError(FdiffError, RuntimeError):
    """With ``strict=True``: an output does not depend on an input."""


class GradcheckError(FdiffError, RuntimeError, AssertionError):
    """A derivative differs from the one measured by `gradcheck` or `check_grads`."""


class KinkError(FdiffError, ArithmeticError):
    """Under ``kinks("raise")``: a derivative was taken at a point that has none."""


class AnomalyError(FdiffError, RuntimeError, FloatingPointError):
    """With `detect_anomaly` or `debug_nans`: a NaN or an infinity, and what made it."""


class ConvergenceError(FdiffError, RuntimeError):
    """A derivative was asked of what a solver of SciPy returned without having converged."""


class TapeError(FdiffError, AssertionError):
    """A tape, or a program of loops, breaks one of its laws: a fault of fdiff alone."""


class CompileError(FdiffError, RuntimeError):
    """A kernel was asked for that fdiff failed to make: a fault of fdiff, never of the user."""


class DefectWarning(UserWarning):
    """fdiff failed to make a kernel nobody asked for: results are right, a report is welcome."""


class DeviceError(FdiffError, RuntimeError):
    """The device that was asked for is missing here, or cannot run this call."""


class ForkError(FdiffError, RuntimeError):
    """A forked process cannot compile: a thread of its parent was compiling when it was forked."""


class RetraceWarning(UserWarning):
    """`f` is traced at each call: it reads what cannot be compared, or branches another way."""


def user_line(depth: int = 1) -> Line | None:
    """The instruction under way in the innermost frame that is the user's, not a library's.

    The caller knows that fewer than `depth` frames above this one are not the user's.
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        if not is_internal(code.co_filename):
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def numbered(line: Line) -> tuple[str, int]:
    """File and number of a line."""
    where, at = line
    return (where, at) if isinstance(where, str) else (where.co_filename, _number(where, at))


def with_line(known: tuple[Line, ...], line: Line) -> tuple[Line, ...]:
    """`known` and one more line, whose instruction is not among them, if it is another.

    A few are told apart by their instructions, of which text made by programs may have thousands
    on one line; more of them by their numbers.
    """
    if len(known) >= _FEW:
        if not isinstance(known[-1][0], str):
            known = tuple(dict.fromkeys(map(numbered, known)))
        if (line := numbered(line)) in known:
            return known
    return (*known, line)


class _LineTable(NamedTuple):
    """Where in some code a line begins, in order, and which line it is."""

    code: CodeType
    starts: list[int]
    lines: list[int]


_MOST_LINES = 64  # codes whose lines are remembered
_lines: dict[int, _LineTable] = {}
_FEW = 8  # lines of one node that are not looked up yet


def _number(code: CodeType, at: int) -> int:
    """The line of an instruction; the table of the code is read once, however many are asked."""
    known = _lines.get(id(code))
    if known is None or known.code is not code:
        table = [(-1, code.co_firstlineno)]  # code that was made by hand may have no other
        table += [(start, line) for start, _, line in code.co_lines() if line is not None]
        starts, numbers = [s for s, _ in table], [n for _, n in table]
        known = keep(_lines, id(code), _LineTable(code, starts, numbers), _MOST_LINES)
    return known.lines[bisect_right(known.starts, at) - 1]


def scipy_call() -> str | None:
    """The function of SciPy that the user called and that is running now, or None."""
    frame, found = sys._getframe(1), None
    while frame is not None and is_internal(frame.f_code.co_filename):
        if str(frame.f_globals.get("__name__")).startswith("scipy."):
            found = frame
        frame = frame.f_back
    if found is None:
        return None
    module = [p for p in str(found.f_globals["__name__"]).split(".") if not p.startswith("_")]
    return ".".join((*module, found.f_code.co_qualname))


@lru_cache(maxsize=4096)
def is_own(name: str) -> bool:
    """Whether a file belongs to fdiff, or is what stands between it and NumPy."""
    return name.startswith((_PACKAGE, "<__array_function__"))


@lru_cache(maxsize=4096)
def is_internal(name: str) -> bool:
    """Whether a file belongs to fdiff or to a library."""
    return name.startswith(_INTERNAL) or name.endswith(".pyx")  # of Cython, by relative names


before_warning: list[Callable[[], object]] = []  # what makes room on the screen


def warn(text: str, category: type[Warning], line: Line | None = None) -> None:
    """Warn at a line of the user's, by default that which is running."""
    for prepare in before_warning:
        prepare()
    where = line or user_line()
    if where is None:
        warnings.warn(text, category, stacklevel=3)
    else:
        warnings.warn_explicit(text, category, *numbered(where))


def line_in(traceback: TracebackType | None) -> Line | None:
    """As `user_line`, of an exception that has been raised: file and number of the line."""
    found = None
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if not is_internal(name):
            found = name, traceback.tb_lineno
        traceback = traceback.tb_next
    return found


def show_line(line: Line | None) -> str:
    """`file.py:12:  text of the line`, or an empty string where no line is known."""
    if line is None:
        return ""
    name, number = numbered(line)
    text = linecache.getline(name, number).strip()
    return f"\n    {Path(name).name}:{number}" + (f":  {text}" if text else "")


def called(name: str, f: object) -> str:
    """The public call as the user typed it, for messages: ``jacobian(model)``."""
    return f"{name}({getattr(f, '__name__', type(f).__name__)})"


def message(call: str, fact: str, way_out: str = "", line: Line | None = None) -> str:
    """One message in the form every fdiff error has: call, fact, line, way out."""
    tail = f"\n{way_out}" if way_out else ""
    return f"{call}: {fact}{show_line(line)}{tail}"


def failure(kind: type[E], call: str, fact: str, way_out: str) -> E:
    """The error for `fact`, with the user's line that called fdiff; none is without a way out."""
    return kind(message(call, fact, way_out, user_line()))


def flag(value: object, role: str, call: str, way: str = "Write True or False.") -> bool:
    """An option that is on or off: a truth value, Python's or NumPy's, or 0 or 1.

    Anything else is refused: a text such as "no" would count as on.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)) and value in (0, 1):
        return bool(value)
    shown = repr(value) if isinstance(value, (str, int, float)) else type(value).__name__
    raise failure(InputError, call, f"{role} must be True or False, not {shown}.", way)


def given_path(value: object, role: str, call: str) -> Path:
    """A path that the user gave, as text or as an object that is one."""
    if isinstance(value, (str, os.PathLike)):
        return Path(value)
    fact = f"{role} must be a path, not {type(value).__name__}."
    raise failure(InputError, call, fact, "Give a str or a pathlib.Path.")

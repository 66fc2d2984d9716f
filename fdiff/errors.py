"""The errors fdiff raises, and how a message is worded.

A message names the public call, shows the user's line (`user_lines.py`), states the fact and offers
the way out. `tracebacks.py` says which frames a user sees, and what is noted at errors that others
raise.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from reprlib import Repr
from typing import Any, TypeVar

import fdiff.intact_numpy as np

from .foreign_errors import not_foreign
from .user_lines import Line, printable, printable_lines, show_line, shown_place, user_line


class FdiffError(Exception):
    """Base class of every error of fdiff."""

    def __init__(self, *args: object) -> None:
        super().__init__(*[printable_lines(a) if isinstance(a, str) else a for a in args])


E = TypeVar("E", bound=FdiffError)
# What `warnings` keeps of what it has shown, by file.
Registries = dict[str, dict[str | tuple[str, type[Warning], int], int]]
FAULTS = (ArithmeticError, IndexError, ValueError)  # of NumPy, and of kernels in its place


class TraceError(FdiffError, TypeError):
    """`f` did something with a traced array that cannot be put on the tape."""


class UnsupportedError(TraceError, NotImplementedError):
    """`f` called a function for which fdiff has no rule."""


class LeakError(TraceError):
    """A traced array was used after the trace that made it had ended."""


class DtypeError(FdiffError, TypeError):
    """A derivative was requested with respect to a value that is not floating point."""


class InputError(FdiffError, TypeError):
    """An argument, or an output of `f`, has a type that the call does not accept."""


class ShapeError(FdiffError, ValueError):
    """Arrays that belong together, or what a trip of a loop hands to the next, differ in shape."""


class VectorError(FdiffError, RuntimeError):
    """The vector `v`, or the output it belongs to, has the wrong size or structure."""


class StrictError(FdiffError, RuntimeError):
    """Under ``strict=True``: an output does not depend on an input."""


class GradcheckError(FdiffError, RuntimeError, AssertionError):
    """A derivative differs from the one that `gradcheck` or `check_grads` measured.

    Where `gradcheck` compared whole Jacobians, `picture` shows both and how far they are apart.
    Jupyter shows the picture of an error that a cell returns, ``picture.save(path)`` writes it.
    """

    picture: Any = None  # a `Picture`, of a higher floor

    def _repr_html_(self) -> str | None:
        return None if self.picture is None else self.picture.below(str(self))


class KinkError(FdiffError, ArithmeticError):
    """Under ``kinks("raise")``: a function has no derivative at this point."""


class AnomalyError(FdiffError, RuntimeError, FloatingPointError):
    """Under `detect_anomaly` or `debug_nans`: an operation made a NaN or an infinity."""


class ConvergenceError(FdiffError, RuntimeError):
    """A derivative was requested of the result of a SciPy solver that did not converge."""


class StructureError(FdiffError, RuntimeError):
    """A sparse derivative has too many entries, or a large block without a known structure."""


class SizeError(FdiffError, MemoryError):
    """A dense Jacobian or Hessian has no room in memory."""


class TapeError(FdiffError, AssertionError):
    """A tape or a loop program breaks one of its rules: a defect of fdiff."""


class CompileError(FdiffError, RuntimeError):
    """fdiff failed to compile a kernel that you asked for: a defect of fdiff, not of your code."""


class DtypeWarning(UserWarning):
    """Integers of NumPy were converted to float64, to be differentiated."""


class DefectWarning(UserWarning):
    """fdiff failed to compile a kernel by itself: results are right, a report is welcome."""


class DeviceError(FdiffError, RuntimeError):
    """The device that you asked for is missing, or cannot run this call."""


class WorkerError(FdiffError, RuntimeError):
    """Workers of a cluster died of a call or are gone, or data is lost that they alone had."""


class ForkError(FdiffError, RuntimeError):
    """A forked process lacks what its parent had.

    It cannot compile, if a thread of the parent was compiling when it was forked; it cannot read a
    file of saved values that the parent has removed.
    """


class RankWarning(UserWarning):
    """The data of a fit do not determine a parameter, whose variance is infinite."""


class RetraceWarning(UserWarning):
    """fdiff traces `f` at each call: `f` reads data that cannot be compared, or branches anew."""


# What to ask for where a dense result has no room: the one place that says so.
_WAYS = (
    "fdiff.{name}(f, sparse=True) computes only the entries that can be nonzero.\n"
    "Products with a vector ({products}) need no matrix; with vmap they are some of its {parts}."
)
_OF_JACOBIANS = _WAYS.format(name="jacobian", products="jvp and vjp", parts="columns or rows")
DENSE_WAYS = dict.fromkeys(("jacobian", "jacfwd", "jacrev"), _OF_JACOBIANS) | {
    "hessian": _WAYS.format(name="hessian", products="hvp", parts="rows")
}
UNNAMED = "this call"  # in errors from below all public calls, each of which puts its name there
before_warning: list[Callable[[], object]] = []  # what makes room on the screen


def warn(
    text: str, category: type[Warning], line: Line | None = None, shown: Registries | None = None
) -> None:
    """Warn at a line of the user's, by default that which is running.

    `shown` has the registries of files: a line that is warned of once stands in them.
    """
    for prepare in before_warning:
        prepare()
    text, where = printable_lines(text), line or user_line()
    if where is None:
        warnings.warn(text, category, stacklevel=3)
    else:
        file, number = shown_place(where)
        registry = None if shown is None else shown.setdefault(file, {})
        warnings.warn_explicit(text, category, file, number, registry=registry)


def called(name: str, f: object) -> str:
    """The public call as the user typed it, for messages: ``jacobian(model)``."""
    return printable(f"{name}({getattr(f, '__name__', type(f).__name__)})")


def message(call: str, fact: str, way_out: str = "", line: Line | None = None) -> str:
    """One message in the form every fdiff error has: call, fact, line, way out."""
    tail = f"\n{way_out}" if way_out else ""
    return printable_lines(f"{call}: {fact}{show_line(line)}{tail}")


def failure(kind: type[E], call: str, fact: str, way_out: str) -> E:
    """The error for `fact`, with the user's line that called fdiff; none is without a way out."""
    return kind(message(call, fact, way_out, user_line()))


class _Short(Repr):
    def repr_TracedArray(self, value: Any, _: int) -> str:  # noqa: N802 - the name of the class
        try:
            return repr(value)
        except TraceError:  # in the body of a loop
            return f"Traced<{value.type}>"


_SHOWN = _Short()
vars(_SHOWN).update(maxother=120, maxstring=120, maxlist=10, maxtuple=10, maxlevel=4)


def shown(value: object) -> str:
    """A value of the user's in a message: its repr on one line, not long, and never an error."""
    try:
        return " ".join(_SHOWN.repr(value).split())
    except not_foreign(Exception, again=lambda: _SHOWN.repr(value)):
        return f"an object of type {type(value).__name__}"


def flag(value: object, role: str, call: str, way: str = "Write True or False.") -> bool:
    """An option that is on or off: a truth value, Python's or NumPy's, or 0 or 1.

    Anything else is refused: a text such as "no" would count as on.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)) and value in (0, 1):
        return bool(value)
    word = shown(value) if isinstance(value, (str, int, float)) else type(value).__name__
    raise failure(InputError, call, f"{role} must be True or False, not {word}.", way)


def choice(value: object, choices: Iterable[str], role: str, call: str, way: str) -> str:
    """An option that is one of a few words; anything else is refused, whatever it compares as."""
    if isinstance(value, str) and value in choices:
        return str(value)
    *most, last = map(repr, choices)
    words = f"{', '.join(most)} or {last}" if most else last
    fact = f"{role} must be {words}, not {shown(value)}."
    raise failure(InputError, call, fact, way)


def unbounded(call: str, fact: str) -> InputError:
    """The error for nested data without an end, or with one that is too far down to walk to."""
    way = "Refer to what is further out by an int or a str; put nested arrays into one list."
    return failure(InputError, call, fact, way)


def name_call(error: BaseException, name: str, f: object) -> None:
    """Put the public call into an error that was raised below all of them."""
    text = str(error.args[0]) if error.args else ""
    if text.startswith(f"{UNNAMED}: "):
        call = called(name, f) if callable(f) else name
        error.args = (call + text.removeprefix(UNNAMED), *error.args[1:])


def given_path(value: object, role: str, call: str) -> Path:
    """A path that the user gave, as text or as an object that is one."""
    if isinstance(value, (str, os.PathLike)):
        return Path(value)
    fact = f"{role} must be a path, not {type(value).__name__}."
    raise failure(InputError, call, fact, "Give a str or a pathlib.Path.")

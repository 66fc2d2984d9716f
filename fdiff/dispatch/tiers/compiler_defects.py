"""Failures of fdiff's own compiler, as a warning or an error that says how to report them.

NumPy or the bytecode interpreter runs a tape that fails to compile, so that the call has its
result; one warning says that the failure is a defect of fdiff. A user who requested a kernel gets
an error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ...bounded_cache import keep
from ...errors import CompileError, DefectWarning, failure, warn
from ...process.forking import no_fork
from ...tape import Tape
from ...user_lines import show_line, user_line

_PACKAGE = Path(__file__).parents[2]
_MOST_ROWS = 60  # operations of a tape that a report lists
_LONGEST = 300  # characters of an internal message
_MOST_WARNED = 1024
_warned: dict[tuple[str, ...], None] = {}  # programs that are remembered


class Defect:
    """A failure to compile `what` for a tape; `fault` is the exception in one line."""

    __slots__ = ("fault", "tape", "what")

    def __init__(self, what: str, tape: Tape, error: Exception) -> None:
        self.what = what
        self.tape = tape
        self.fault = _fault(error)

    @property
    def state(self) -> str:
        """In a few words, for the `repr` of a function."""
        return f"fdiff failed to make its {self.what}, a defect worth reporting: {self.fault}"

    def warn(self) -> None:
        """Warn once for each sequence of operations, whatever their sizes."""
        program = (self.what, *(node.primitive.name for node in self.tape.nodes))
        if program in _warned:
            return
        keep(_warned, program, None, _MOST_WARNED)
        fact = (
            f"fdiff failed to make the {self.what} of a program, which stays interpreted or"
            f" evaluated.{show_line(user_line())}\nResults are right, and slower than they could"
            f" be. {self._report()}"
        )
        warn(fact, DefectWarning)

    def error(self, call: str) -> CompileError:
        """The error for a user who asked for a kernel, or fixed the tier."""
        fact = f"fdiff failed to make the {self.what}."
        way = f"Leave fdiff the choice of how to run it: results are right. {self._report()}"
        return failure(CompileError, call, fact, way)

    def _report(self) -> str:
        """The text of a report: exception, versions, and the tape, shortened in the middle."""
        rows = str(self.tape).splitlines()
        if len(rows) > _MOST_ROWS:
            half = _MOST_ROWS // 2
            rows = [*rows[:half], f"  ... {len(rows) - 2 * half} more", *rows[-half:]]
        ask = "This is a defect of fdiff: please report it, with the function if you can and this:"
        return "\n".join([ask, self.fault, _versions(), *rows])


def forget_defects() -> None:
    """Warn of every program again."""
    _warned.clear()


def _fault(error: Exception) -> str:
    """The kind of an exception, where in fdiff it was raised, and the first line of its words."""
    with no_fork:
        from traceback import walk_tb  # noqa: PLC0415 - for failures alone

    place = ""
    for frame, number in walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(_PACKAGE):
            place = f" in {path.relative_to(_PACKAGE).as_posix()}:{number}"
    said = (str(error).strip().splitlines() or [""])[0]
    said = f"{said[:_LONGEST]}..." if len(said) > _LONGEST else said
    return f"{type(error).__name__}{place}" + (f": {said}" if said else "")


def _versions() -> str:
    """Versions of Python, libraries and the processor."""
    with no_fork:
        import platform  # noqa: PLC0415 - for reports alone
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - as above

    versions: list[str] = []
    for name in ("numba-fdiff", "numpy", "llvmlite"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    python = ".".join(map(str, sys.version_info[:3]))
    return ", ".join([*versions, f"Python {python}", f"{platform.system()} {platform.machine()}"])

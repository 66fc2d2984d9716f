"""The user's line: which of the frames under way, or of a traceback, is not a library's.

`user_line` finds it while code runs, `line_in` in a traceback; `show_line` words it for a message.
"""

from __future__ import annotations

import linecache
import os
import re
import site
import sys
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType

from .bounded_cache import keep
from .named_tuples import NamedTuple
from .source_lines import source_line

# A file and the number of a line in it; or code and the offset of an instruction, whose line is
# looked up when it is shown: of most nodes it never is.
Line = tuple[str | CodeType, int]

_PACKAGE = str(Path(__file__).parent)
STDLIB = str(Path(os.__file__).parent)
# Those of the interpreter, of `pip install --user`, and of what else is on the path.
SITE_PACKAGES = (
    *site.getsitepackages(),
    site.getusersitepackages(),
    *[path for path in sys.path if path.endswith(("site-packages", "dist-packages"))],
)
_INTERNAL = (_PACKAGE, STDLIB, *SITE_PACKAGES, "<__array_function__", "<frozen")


# For progress: told once of the user's frame that runs, by its own thread.
at_line: Callable[[FrameType], None] | None = None


def user_line(depth: int = 1) -> Line | None:
    """The instruction under way in the innermost frame that is the user's, not a library's.

    The caller knows that fewer than `depth` frames above this one are not the user's.
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        if not is_internal(code.co_filename):
            if at_line is not None:
                at_line(frame)
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def numbered(line: Line) -> tuple[str, int]:
    """File and number of a line."""
    where, at = line
    return (where, at) if isinstance(where, str) else (where.co_filename, _number(where, at))


def with_line(lines: tuple[Line, ...], line: Line) -> tuple[Line, ...]:
    """`lines` and one more line, whose instruction is not among them, if it is another.

    A few are told apart by their instructions, of which text made by programs may have thousands
    on one line; more of them by their numbers.
    """
    if len(lines) >= _FEW:
        if not isinstance(lines[-1][0], str):
            lines = tuple(dict.fromkeys(map(numbered, lines)))
        if (line := numbered(line)) in lines:
            return lines
    return (*lines, line)


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
    lines = _lines.get(id(code))
    if lines is None or lines.code is not code:
        table = [(-1, code.co_firstlineno)]  # code that was made by hand may have no other
        table += [(start, line) for start, _, line in code.co_lines() if line is not None]
        starts, numbers = [s for s, _ in table], [n for _, n in table]
        lines = keep(_lines, id(code), _LineTable(code, starts, numbers), _MOST_LINES)
    return lines.lines[bisect_right(lines.starts, at) - 1]


def scipy_call() -> str | None:
    """The function of SciPy that the user called and that is running now, or None."""
    frame, call, inside = sys._getframe(1), None, False
    while frame is not None and is_internal(frame.f_code.co_filename):
        code, module = frame.f_code, str(frame.f_globals.get("__name__"))
        if module.startswith("scipy.") and not is_own(code.co_filename):  # `scipy_entry_points`
            inside = True
            if "<locals>" not in code.co_qualname and not module.startswith("scipy._lib."):
                call = module, code.co_qualname  # what decorates it has no name that users know
        frame = frame.f_back
    if call is None:
        return "a function of scipy" if inside else None
    module = [p for p in call[0].split(".") if not p.startswith("_")]
    return ".".join((*module, call[1]))


def within_scipy() -> bool:
    """Whether a function of SciPy or cyipopt runs, which may have called code of the user since."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(("scipy.", "cyipopt.")):
            return True
        frame = frame.f_back
    return False


@lru_cache(maxsize=4096)
def is_own(name: str) -> bool:
    """Whether a file belongs to fdiff, or is what stands between it and NumPy."""
    return name.startswith((_PACKAGE, "<__array_function__"))


@lru_cache(maxsize=4096)
def is_internal(name: str) -> bool:
    """Whether a file belongs to fdiff or to a library."""
    return name.startswith(_INTERNAL) or name.endswith(".pyx")  # of Cython, by relative names


def is_within(package: str) -> bool:
    """Whether the code of the user has called into a package of a library."""
    frame = sys._getframe(2)
    while frame is not None and is_internal(frame.f_code.co_filename):
        if str(frame.f_globals.get("__name__")).startswith(package):
            return True
        frame = frame.f_back
    return False


def line_in(traceback: TracebackType | None) -> Line | None:
    """As `user_line`, of an exception that has been raised: file and number of the line."""
    place = None
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if not is_internal(name):
            place = name, traceback.tb_lineno or 1  # an instruction may have no line
        traceback = traceback.tb_next
    return place


def printable(text: str) -> str:
    """A name without what moves the cursor or changes colours of a terminal: escaped as in code.

    Names of functions, files and dtypes, and lines of files, may hold anything.
    """
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode() for c in text])


def printable_lines(text: str) -> str:
    """A text of several lines, with each line `printable`."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def show_line(line: Line | None) -> str:
    """`file.py:12:  text of the line`, or an empty string where no line is known."""
    if line is None:
        return ""
    name, number = numbered(line)
    text = source_line(name, number).strip()
    return f"\n    {file_label(name)}:{number}" + (f":  {text}" if text else "")


# Names that IPython and Colab give to cells, and the number of the cell where they hold it.
_CELL = r"ipython-input-(\d+)-|[/\\]ipykernel_\d+[/\\]\d+\.py$"


def interactive_shell() -> object:
    """The shell of IPython or of a notebook that runs this process, or None."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


_sent_cells: dict[str, str] = {}


def name_cell(name: str, label: str) -> None:
    """Remember how another process calls the cell that gave a file of this `name`."""
    keep(_sent_cells, name, label, _MOST_LINES)


def cell_label(name: str) -> str:
    """The cell that a shell gave a file of this `name`, as it shows it: ``In [8]``; "" of files.

    A cell of another process is known by the label that was sent, or by its name alone.
    """
    compiler = getattr(interactive_shell(), "compile", None)
    number = getattr(compiler, "_filename_map", {}).get(name)
    if number is None and name in _sent_cells:
        return _sent_cells[name]
    if number is None and (match := re.search(_CELL, name)):
        number = match[1] or ""
    return "" if number is None else f"In [{number}]" if number != "" else "a notebook cell"


def file_label(name: str) -> str:
    """The name of a file in messages: the last part of its path, or the name of a cell."""
    return printable(cell_label(name) or Path(name).name)


def shown_place(line: Line) -> tuple[str, int]:
    """File and number of a line for a warning, whose line is looked up under that name."""
    name, number = numbered(line)
    label = cell_label(name)
    if label and name in linecache.cache:
        linecache.cache[label] = linecache.cache[name]
    return label or name, number

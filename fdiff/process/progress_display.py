"""Displays of progress: a line of a terminal, a bar in Jupyter, or a line for each stage.

``FDIFF_PROGRESS=0`` shows nothing. ``FDIFF_PROGRESS=1`` shows it also where standard error is no
terminal, as lines that are not rewritten.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextvars import Context, copy_context
from itertools import count
from typing import Protocol, TextIO

from ..foreign_errors import environment_value, not_foreign
from ..named_tuples import NamedTuple
from ..user_lines import interactive_shell, printable
from .environment import switch
from .forking import no_fork

VARIABLE = "FDIFF_PROGRESS"


class Report(NamedTuple):
    """The line to show for a stage: its work, its elapsed time and its expected time."""

    what: str  # "tracing"
    of: str  # the public call: "grad(model)"
    amount: str  # of operations, or of trips: "step 12 of 100"
    place: str  # the user's line: "at model.py:12"
    elapsed: float
    expected: float  # seconds; 0 where nothing is known
    stoppable: bool  # whether an interrupt reaches the thread that waits
    key: object  # one stage has one key

    @property
    def fraction(self) -> float | None:
        """How much of the work is done: an estimate, which stays below 1."""
        return min(self.elapsed / self.expected, 0.99) if self.expected else None

    def line(self, stop: str, width: int = 1000) -> str:
        """All of it in a line, with words at the end on how to `stop` the work.

        Where that is wider than `width`, whole parts are left out: first the percentage and the
        count, last the user's line; the stage and the time stay.
        """
        stop = stop if self.stoppable else ""
        share = "" if self.fraction is None else f" ({100 * self.fraction:.0f}%)"
        work, amount, place = (
            f"{self.what} {printable(self.of)}",
            self.amount,
            printable(self.place),
        )
        ways = (
            (work, amount, place, share, stop),
            (work, amount, place, "", stop),
            (work, "", place, share, stop),
            (work, "", place, "", stop),
            (work, "", place, share, ""),
            (work, "", place, "", ""),
            (self.what, "", place, "", stop),
            (self.what, "", place, "", ""),
            (self.what, "", "", "", ""),
        )
        lines = [
            f"fdiff: {', '.join(filter(None, (work, amount, place)))}: {self._time()}{share}.{stop}"
            for work, amount, place, share, stop in ways
        ]
        lines.append(f"{self._time()}.")
        return next((line for line in lines if len(line) <= width), "")

    def _time(self) -> str:
        elapsed, expected = max(int(self.elapsed), 1), max(round(self.expected), 1)
        if not self.expected:
            return _duration(elapsed)
        if elapsed > expected:
            return f"{_duration(elapsed)} instead of {_duration(expected)}"
        if expected < _LONG:
            return f"{elapsed} of about {expected} s"
        return f"{_duration(elapsed)} of about {_duration(expected)}"


_LONG = 120  # seconds, from which minutes are said


def _duration(seconds: int) -> str:
    return f"{seconds} s" if seconds < _LONG else f"{seconds // 60} min {seconds % 60} s"


class Display(Protocol):
    """A place to show progress. `show` may raise whatever its medium raises."""

    def show(self, report: Report) -> None:
        """Show the report in place of the last one."""

    def erase(self) -> None:
        """Leave nothing behind, so that others can write."""


class Terminal:
    """One line, rewritten in place and erased at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""  # that is shown

    def show(self, report: Report) -> None:
        # a line that the terminal wraps could not be rewritten
        text = report.line(" Ctrl-C stops.", _columns(self._stream) - 1)
        if text != self._text:
            self._stream.write("\r" + text.ljust(len(self._text)))
            self._stream.flush()
            self._text = text

    def erase(self) -> None:
        if self._text:
            self._stream.write("\r" + " " * len(self._text) + "\r")
            self._stream.flush()
            self._text = ""


class Lines:
    """A line for each stage, for files and pipes; nothing is rewritten."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told: object = None

    def show(self, report: Report) -> None:
        if report.key is not self._told:
            self._told = report.key
            self._stream.write(report.line(" Ctrl-C stops.") + "\n")
            self._stream.flush()

    def erase(self) -> None:
        """Lines stay."""


class Notebook:
    """A bar in the output of the cell that waits, with the line as plain text beside it."""

    def __init__(self, display: Callable[..., object]) -> None:
        self._display = display
        self._id = ""
        # Jupyter keeps in the context of a thread which cell its output belongs to.
        self._cell: Context = copy_context()

    def show(self, report: Report) -> None:
        text, fraction = report.line(" Interrupt the kernel to stop."), report.fraction
        with no_fork:
            from html import escape  # noqa: PLC0415 - for notebooks alone

        value = "" if fraction is None else f' value="{fraction:.2f}"'
        self._publish(text, f"<progress{value}></progress> {escape(text)}")

    def erase(self) -> None:
        if self._id:
            self._publish("", "")
            self._id = ""

    def _publish(self, text: str, markup: str) -> None:
        shown, self._id = bool(self._id), self._id or f"fdiff-{os.getpid()}-{next(_ids)}"
        data = {"text/plain": text, "text/html": markup}
        self._cell.copy().run(self._display, data, raw=True, display_id=self._id, update=shown)


_ids = count()


def find_display(*, worker: bool) -> Display | None:
    """Where to show progress now; None if nowhere. A `worker` shows it only if the user asks."""
    asked, stream = switch(VARIABLE), sys.stderr
    if asked is False or (worker and not asked):
        return None
    if not worker and (display := _jupyter()) is not None:
        return Notebook(display)
    if not worker and is_terminal(stream):
        return Terminal(stream)
    return Lines(stream) if asked and stream is not None else None


def is_terminal(stream: TextIO | None) -> bool:
    """Whether lines can be rewritten there."""
    try:
        return stream is not None and stream.isatty() and environment_value("TERM") != "dumb"
    except not_foreign(ValueError, again=lambda: stream and stream.isatty()):  # it is closed
        return False


def _jupyter() -> Callable[..., object] | None:
    """The function that displays, in a kernel of Jupyter."""
    if getattr(interactive_shell(), "kernel", None) is None:
        return None
    with no_fork:
        from IPython.display import display  # noqa: PLC0415 - loaded already, in a kernel
    return display


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except not_foreign(OSError, ValueError, again=stream.fileno):  # a terminal that does not tell
        return 80

"""Lines of a kernel's text, each with what it does.

Outlining, renaming and the cost model of compiling read these facts, and none out of the text. The
names in a line's expressions are the only thing that is read there (`ir/expression_names.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import takewhile

from ...named_tuples import NamedTuple
from ..ir.expression_names import renamed
from ..kernel_source import INDENT
from ..runtime.status_errors import ABANDONED, INDEFINITE, OUT_OF_BOUNDS, SINGULAR, STOPPED


class LineKind(Enum):
    """What a line does."""

    CODE = "code"  # computes; assigns its target, if it has one
    COMMENT = "comment"
    MOVE = "move"  # copies one entry of memory, or a number into memory
    FLAG = "flag"  # sets its target, unless that is set
    LOOP = "loop"  # the head of a loop of a nest
    MINOR_LOOP = "minor loop"  # the head of a loop for copies, an edge, tiles or parts
    TRIPS = "trips"  # the head of a loop over trips, which counts them
    WHILE = "while"  # the head of a loop whose locals live from one iteration to the next
    LEAVE = "leave"  # ends the kernel, or takes the status by which a routine may end it


LOOPS = (LineKind.LOOP, LineKind.MINOR_LOOP, LineKind.TRIPS)  # which count


class TextLine(NamedTuple):
    """A line of text, inside `depth` blocks, which may assign the local `target`.

    `functions` are the elementary functions that it calls, one for each call.
    """

    text: str
    kind: LineKind = LineKind.CODE
    target: str = ""
    depth: int = 0
    functions: tuple[str, ...] = ()

    def renamed(self, names: Mapping[str, str]) -> TextLine:
        """The line with other names."""
        target = names.get(self.target, self.target)
        return self._replace(text=renamed(self.text, names), target=target)


Lines = Sequence[TextLine]


def let(target: str, value: str, functions: tuple[str, ...] = ()) -> TextLine:
    """A local becomes a value."""
    return TextLine(f"{target} = {value}", target=target, functions=functions)


def load(target: str, entry: str) -> TextLine:
    """A local becomes an entry of memory."""
    return TextLine(f"{target} = {entry}", LineKind.MOVE, target)


def store(entry: str, value: str) -> TextLine:
    """An entry of memory becomes a local, a number or another entry."""
    return TextLine(f"{entry} = {value}", LineKind.MOVE)


def loop_head(variable: str, bounds: str, kind: LineKind = LineKind.MINOR_LOOP) -> TextLine:
    """The head of a loop that counts."""
    return TextLine(f"for {variable} in range({bounds}):", kind, variable)


def comment(text: str) -> TextLine:
    """A comment."""
    return TextLine(f"# {text}", LineKind.COMMENT)


def leave(value: object) -> TextLine:
    """The kernel ends with a status."""
    return TextLine(f"return {value}", LineKind.LEAVE)


def deeper(lines: Iterable[TextLine], levels: int = 1) -> Iterator[TextLine]:
    """The lines inside more blocks: `levels` of them."""
    for text, kind, target, depth, functions in lines:  # in half the time of `_replace`
        yield TextLine(text, kind, target, depth + levels, functions)


_STATUS_NAMES = {
    leave(status).text: f"  # {name}"
    for name, status in (
        ("OUT_OF_BOUNDS", OUT_OF_BOUNDS),
        ("SINGULAR", SINGULAR),
        ("INDEFINITE", INDEFINITE),
        ("STOPPED", STOPPED),
        ("ABANDONED", ABANDONED),
    )
}


def text_of(lines: Iterable[TextLine]) -> str:
    """The lines as text, in which comments name the statuses."""
    name_of = _STATUS_NAMES.get
    return "".join(f"{INDENT * line.depth}{line.text}{name_of(line.text, '')}\n" for line in lines)


def texts_of(lines: Iterable[TextLine]) -> list[str]:
    """The text of each line."""
    return [f"{INDENT * line.depth}{line.text}" for line in lines]


def has_loops_of_moves(lines: Lines) -> bool:
    """Whether all loops that count, but loops over trips, copy one or two entries at a time."""
    loops = (LineKind.LOOP, LineKind.MINOR_LOOP)
    return all(_is_short(lines[k : k + 4]) for k, line in enumerate(lines) if line.kind in loops)


def _is_short(lines: Lines) -> bool:
    """Whether the loop that begins here has at most two lines, all of them moves."""
    head, *below = lines
    inside = list(takewhile(lambda line: line.depth > head.depth, below))
    return len(inside) <= 2 and all(line.kind is LineKind.MOVE for line in inside)

"""How many trips a ``for`` of the user's has, where the head of the loop tells.

It decides when calls are logged, and nothing else.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType

from ...bounded_cache import keep
from ...process.loop_trips import CodePlace, trip_of_head, trips_of_head
from ...user_lines import numbered
from .logged_calls import LoggedCall
from .periods import loop_of

_MOST_LOOPS = 1 << 10  # whose heads are remembered
_LINES = 8  # of a head
# Code that asks for its own variables, which looking at them would enter anew.
_LOOKS = frozenset(("locals", "vars", "eval", "exec", "dir"))
_heads: dict[tuple[int, int], tuple[CodeType, ast.For | None]] = {}


def trips_of(frame: FrameType, start: int) -> int | None:
    """The number of trips of the loop of a frame that begins at an instruction, if it is known."""
    return _asked(frame, start, trips_of_head)


def trip_of(call: LoggedCall) -> int | None:
    """The number of the trip under way of the loop around a call, if it is known."""
    code, start = loop_of(call) or ("", 0)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return None if frame is None else _asked(frame, start, trip_of_head)


def _asked(
    frame: FrameType, start: int, tells: Callable[[ast.For, CodePlace], int | None]
) -> int | None:
    code = frame.f_code
    entry = _heads.get((id(code), start))
    if entry is None or entry[0] is not code:
        entry = keep(_heads, (id(code), start), (code, _head(code, start)), _MOST_LOOPS)
    if entry[1] is None or sys.gettrace() is not None:
        return None
    variables = frame.f_locals
    local = {**variables}
    if sys.version_info < (3, 13) and code.co_flags & 1:
        variables.clear()  # which the frame of a function would keep, and so all arrays in it
    return tells(entry[1], CodePlace("", 0, local, frame.f_globals))


def _head(code: CodeType, start: int) -> ast.For | None:
    """The head of a loop by its source, if that is there."""
    if not _LOOKS.isdisjoint(code.co_names):
        return None
    name, number = numbered((code, start))
    text = linecache.getline(name, number).lstrip()
    if not text.startswith("for "):
        return None
    for more in range(1, _LINES):
        at = text.find(":")
        while at >= 0:
            with suppress(SyntaxError):
                loop = ast.parse(text[: at + 1] + " pass").body[0]
                return loop if isinstance(loop, ast.For) else None
            at = text.find(":", at + 1)
        text += linecache.getline(name, number + more)
    return None

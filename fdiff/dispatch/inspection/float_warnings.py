"""NumPy's warnings at the nodes of a tape, including those in loops and branches.

Where a loop of many trips sets the processor's flags, the first trip that does so is run by NumPy.
Lanes that a kernel masks may set flags, too: then the search goes on after that trip.
"""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np

from ...foreign_errors import Suppressed
from ...process.float_flags import noting, taken
from ...user_lines import Line
from .body_runs import has_bodies, is_long
from .inspector import Inspector, NodeRun, Values, Watcher

Noted = tuple[str, str, Line | None]  # NumPy's words, what they are of, and the user's line


def warned_of(inspector: Inspector, arrays: Values) -> list[Noted]:
    """NumPy's warnings at the nodes of a tape; in a long loop, at the first such trip."""
    warned: list[Noted] = []

    def at_node(run: NodeRun) -> object:
        if has_bodies(run.node):
            return _in_bodies(run, at_node, warned)
        note = lambda words, _: warned.append((words, run.node.primitive.name, run.line))  # noqa: E731 - a call of one line
        with np.errstate(all="call", under="ignore", call=note):
            return run.value()

    with Suppressed(ArithmeticError, IndexError, ValueError):
        inspector.values(arrays, at_node)
    return warned


def _in_bodies(run: NodeRun, watcher: Watcher, warned: list[Noted]) -> object:
    """The value of a loop or branch, whose bodies are watched if it has set a flag."""
    value, hint = _hinted(run.value)
    if hint:
        before = len(warned)
        for body in run.bodies(lambda partial, trips: _hinted(partial, trips)[1]):
            body.inspector.values(body.arguments, watcher)
            if len(warned) > before and is_long(run.node, run.operands):
                break
    return value


def _hinted(run: Callable[..., object], *arguments: int) -> tuple[object, bool]:
    """The result of a run, and whether it has set a flag."""
    taken()
    with noting():
        value = run(*arguments)
    return value, taken()

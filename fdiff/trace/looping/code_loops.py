"""Loops of the user's code, by its instructions: docs/decisions/plain-loops.md."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Mapping
from types import CodeType, FrameType

from ...bounded_cache import keep
from ...user_lines import Line, is_internal
from ..recorder import Loops

WATCHED = 48  # nodes from which loops are watched that may be worth logging
FARTHEST = 192  # nodes to the next look where no loop promises anything
NAP = 16  # nodes or calls after which it is looked again at what may be a loop
_MOST = 1 << 10  # codes whose loops are remembered
Loop = tuple[CodeType, int]
_loops: dict[int, tuple[CodeType, list[tuple[int, int]]]] = {}


def loops_around(code: CodeType, at: int) -> list[int]:
    """Where the loops of the code begin that stand around an instruction."""
    return [start for start, end in _loops_of(code) if start <= at <= end]


def loop_behind(line: Line) -> Line:
    """Where the first loop begins after an instruction; its own place if there is none."""
    code, at = line
    if isinstance(code, str):
        return line
    return code, min([start for start, _ in _loops_of(code) if start > at], default=at)


def _loops_of(code: CodeType) -> list[tuple[int, int]]:
    """Where the loops of the code begin and end."""
    entry = _loops.get(id(code))
    if entry is None or entry[0] is not code:
        ends: dict[int, int] = {}
        for i in dis.get_instructions(code):
            if "JUMP" in i.opname and isinstance(i.argval, int) and i.argval < i.offset:
                ends[i.argval] = max(ends.get(i.argval, 0), i.offset)
        entry = keep(_loops, id(code), (code, [*ends.items()]), _MOST)
    return entry[1]


def loops_under_way(frame: FrameType | None) -> list[tuple[FrameType, Loop]]:
    """The loops of the user's frames, the outermost first."""
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    loops: list[tuple[FrameType, Loop]] = []
    while frame is not None and not is_internal((code := frame.f_code).co_filename):
        starts = loops_around(code, frame.f_lasti)
        loops += [(frame, (code, start)) for start in sorted(starts, reverse=True)]
        frame = frame.f_back
    return loops[::-1]


def straight_rest(nodes: int) -> int:
    """The number of nodes until the next look, where the user's code is in no loop."""
    return WATCHED - nodes if nodes < WATCHED else min(3 * nodes, FARTHEST)


def all_loops(
    reasons: Mapping[Line | None, str],
    rolled: Iterable[tuple[Line | None, int, int, int]],
    inner: Iterable[tuple[Line, int, int, int, str]],
    refusals: Mapping[Line, str],
) -> Loops:
    """The loops of a trace and of the traces inside.

    `reasons` say why loops were not rolled. Of those that were, `rolled` has the line, the trips,
    the calls of a trip and how many paths there are; of several, the reason tells that. `refusals`
    say why loops do not choose their branches.
    """
    loops = {line: (line, 0, 0, 0, why) for line, why in reasons.items() if line}
    nodes = [
        (line, 1, trips, calls, f"each on one of {paths} paths" if paths > 1 else "")
        for line, trips, calls, paths in rolled
        if line and trips > 1
    ]
    for line, times, trips, calls, why in (*nodes, *inner):
        if times or line not in loops:
            _, before, most, *_ = loops.get(line, (line, 0, 0, 0, ""))
            loops[line] = line, before + times, max(most, trips), calls, why
    for line, why in refusals.items():
        *what, reason = loops.get(line, (line, 0, 0, 0, ""))
        loops[line] = *what, f"{reason}; {why}" if reason else why  # type: ignore[assignment] - five parts
    return (*loops.values(),)

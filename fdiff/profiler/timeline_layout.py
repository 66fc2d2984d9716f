"""The layout of a timeline: a row for each depth, below the name of its thread."""

from __future__ import annotations

from collections.abc import Sequence

from ..named_tuples import NamedTuple
from .events import FunctionEvent

MOST = 2000  # events that are drawn, the longest first: more are a picture that nobody can read
COLOURS = {
    "call": "#9aa5b1",
    "label": "#f2c14e",
    "trace": "#8e7cc3",
    "transform": "#b4a7d6",
    "compile": "#e69138",
    "cache": "#cccccc",
    "dispatch": "#c9d1d9",
    "forward": "#4c9f70",
    "derivative": "#3d85c6",
    "backward": "#3d85c6",
    "kernel": "#45818e",
    "profiler": "#eeeeee",
}


class TimelineBar(NamedTuple):
    """A bar of the timeline: `row` counts from the top, `begin` and `width` in microseconds."""

    event: FunctionEvent
    row: int
    begin: float
    width: float


class Lane(NamedTuple):
    """The rows of one thread, and the first of them."""

    thread: int
    first: int
    rows: int


def lay_out(events: Sequence[FunctionEvent]) -> tuple[list[TimelineBar], list[Lane]]:
    """The bars of the longest events, and the rows of each thread."""
    lasting = [e for e in events if e.cpu_time_total > 0]
    shown = sorted(lasting, key=lambda e: e.cpu_time_total, reverse=True)[:MOST]
    depths = {id(e): _depth(e) for e in shown}
    lanes: list[Lane] = []
    first = 0
    for thread in dict.fromkeys(e.thread for e in events):
        deepest = max((depths[id(e)] for e in shown if e.thread == thread), default=-1)
        lanes.append(Lane(thread, first, deepest + 1))
        first += deepest + 1
    begins = {lane.thread: lane.first for lane in lanes}
    bars = [
        TimelineBar(e, begins[e.thread] + depths[id(e)], e.time_range.start, e.cpu_time_total)
        for e in sorted(shown, key=lambda e: e.time_range.start)
    ]
    return bars, [lane for lane in lanes if lane.rows]


def _depth(event: FunctionEvent) -> int:
    """How many events are around it."""
    depth, around = 0, event.cpu_parent
    while around is not None:
        depth, around = depth + 1, around.cpu_parent
    return depth

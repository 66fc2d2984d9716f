"""A timeline of events drawn by Matplotlib, which is an extra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import InputError, UnsupportedError, failure
from ..process.forking import imported
from .events import FunctionEvent
from .timeline_layout import COLOURS, lay_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES = 0.25  # of a row


def plot(events: Sequence[FunctionEvent], ax: Axes | None = None) -> Axes:
    """Draw the events as bars on `ax`, or on a new figure: one row for each depth and thread."""
    try:
        patches, pyplot = imported("matplotlib.patches"), imported("matplotlib.pyplot")
    except ImportError:
        way = "Install it: pip install matplotlib. In Jupyter a profile shows itself without it."
        raise failure(UnsupportedError, "profile.plot", "Matplotlib is missing.", way) from None
    bars, lanes = lay_out(events)
    if not bars:
        way = "Call what is to be profiled inside of the with statement."
        raise failure(InputError, "profile.plot", "no event took any time.", way)
    rows = sum(lane.rows for lane in lanes)
    if ax is None:
        _, ax = pyplot.subplots(figsize=(10, 1 + _INCHES * rows), layout="constrained")
    assert ax is not None, "subplots gives axes"
    for bar in bars:
        colour = COLOURS.get(bar.event.category, "#dddddd")
        ax.broken_barh([(bar.begin, bar.width)], (bar.row, 0.9), facecolors=colour)
    for lane in lanes[1:]:
        ax.axhline(lane.first - 0.05, color="#888888", linestyle="--", linewidth=0.8)
    ax.set_ylim(rows, 0)
    ax.set_yticks([lane.first + 0.45 for lane in lanes], [f"thread {k.thread}" for k in lanes])
    ax.set_xlabel("microseconds")
    categories = dict.fromkeys(bar.event.category for bar in bars)
    handles = [patches.Patch(color=COLOURS.get(name, "#dddddd"), label=name) for name in categories]
    ax.legend(handles=handles, ncols=len(handles), fontsize="small", loc="lower right")
    return ax

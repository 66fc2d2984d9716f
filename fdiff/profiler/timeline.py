"""A timeline of events as a picture for Jupyter: SVG, which needs no package and no script."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError, failure
from ..pictures import Picture
from ..pictures.svg import MONO, element, shortened, text, titled
from .events import FunctionEvent
from .formatting import time_text
from .timeline_layout import COLOURS, TimelineBar, lay_out

_WIDTH, _ROW, _TOP = 960.0, 16.0, 20.0  # pixels of the picture, of a row, above the rows
_NARROWEST = 0.4  # pixels, so that short events can be seen
_LETTER = 6.2  # pixels of a letter, on average


def timeline(events: Sequence[FunctionEvent]) -> Picture:
    """The picture, with a tooltip for each bar."""
    bars, lanes = lay_out(events)
    if not bars:
        way = "Call what is to be profiled inside of the with statement."
        raise failure(InputError, "profile", "no event took any time.", way)
    begin = min(bar.begin for bar in bars)
    scale = _WIDTH / max(bar.begin + bar.width - begin for bar in bars)
    parts = [_bar(bar, begin, scale) for bar in bars]
    for lane in lanes[1:]:
        d = f"M0 {_TOP + _ROW * lane.first - 0.5}H{_WIDTH:.0f}"
        parts.append(element("path", d=d, stroke="#888", stroke_dasharray="4"))
    whole = time_text(_WIDTH / scale)
    what = f"{len(bars)} events in {whole}, {len(lanes)} thread{'s' * (len(lanes) > 1)}"
    height = _TOP + _ROW * sum(lane.rows for lane in lanes)
    return Picture(what, [text(what, 2, 13), *parts], _WIDTH, height)


def _bar(bar: TimelineBar, begin: float, scale: float) -> str:
    """A rectangle with its name, where that fits, and with what a tooltip says."""
    event = bar.event
    x, y = (bar.begin - begin) * scale, _TOP + _ROW * bar.row
    width = max(bar.width * scale, _NARROWEST)
    about = [f"{event.name}: {time_text(bar.width)}", event.category, *event.stack[:1]]
    about += [f"{key}: {value}" for key, value in event.args.items()]
    fill = COLOURS.get(event.category, "#dddddd")
    parts = [element("rect", x=x, y=y, width=width, height=_ROW - 1, fill=fill)]
    if (letters := int(width / _LETTER)) > 2:
        name = shortened(event.name, letters)
        parts.append(text(name, x + 2, y + 11, 10, fill="#1f2328", font_family=MONO))
    return titled(parts, "\n".join(filter(None, about)))

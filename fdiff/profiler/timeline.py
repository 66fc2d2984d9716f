"""A timeline of events as a picture for Jupyter: SVG, which needs no package and no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .events import FunctionEvent
from .formatting import time_text
from .timeline_layout import COLOURS, TimelineBar, lay_out

_WIDTH, _ROW, _TOP = 960, 16, 20  # pixels of the picture, of a row, above the rows
_NARROWEST = 0.4  # pixels, so that short events can be seen
_LETTER = 6.2  # pixels of a letter, on average


def timeline(events: Sequence[FunctionEvent]) -> str:
    """The picture, with a tooltip for each bar; empty text where no event took any time."""
    bars, lanes = lay_out(events)
    if not bars:
        return ""
    begin = min(bar.begin for bar in bars)
    scale = _WIDTH / max(bar.begin + bar.width - begin for bar in bars)
    height = _TOP + _ROW * sum(lane.rows for lane in lanes)
    parts = [_bar(bar, begin, scale) for bar in bars]
    if len(lanes) > 1:
        for lane in lanes[1:]:
            y = _TOP + _ROW * lane.first - 0.5
            parts.append(f'<path d="M0 {y}H{_WIDTH}" stroke="#888" stroke-dasharray="4"/>')
    whole = time_text(_WIDTH / scale)
    words = f"{len(bars)} events in {whole}, {len(lanes)} thread{'s' * (len(lanes) > 1)}"
    head = f'<text x="2" y="13" font-size="12" fill="currentColor">{words}</text>'
    box = f'viewBox="0 0 {_WIDTH} {height}" width="100%" font-family="monospace"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{head}{"".join(parts)}</svg>'


def _bar(bar: TimelineBar, begin: float, scale: float) -> str:
    """A rectangle with its name, where that fits, and with what a tooltip says."""
    event = bar.event
    x, y = (bar.begin - begin) * scale, _TOP + _ROW * bar.row
    width = max(bar.width * scale, _NARROWEST)
    about = [f"{event.name}: {time_text(bar.width)}", event.category, *event.stack[:1]]
    about += [f"{key}: {value}" for key, value in event.args.items()]
    letters = int(width / _LETTER)
    name = event.name if len(event.name) <= letters else f"{event.name[: letters - 1]}…"
    label = ""
    if letters > 2:
        label = f'<text x="{x + 2:.2f}" y="{y + 11}" font-size="10">{escape(name)}</text>'
    place = f'x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_ROW - 1}"'
    fill = COLOURS.get(event.category, "#dddddd")
    title = escape("\n".join(filter(None, about)))
    return f'<g><title>{title}</title><rect {place} fill="{fill}"/>{label}</g>'

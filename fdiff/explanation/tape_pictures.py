"""The picture of a tape: chips in the colours of the user's lines, and these lines below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..pictures.layered_layout import Point, layered
from ..pictures.picture import Picture
from ..pictures.svg import COLOURS, LETTER, MONO, element, shortened, text, titled
from ..user_lines import show_line
from .tape_graphs import Chip, Line, NestBox, TapeGraph
from .wording import counted

_SIZE, _SMALL, _HIGH, _PAD, _TITLE = 12.0, 10.0, 34.0, 10.0, 18.0
_MOST_LINES, _LETTERS = 16, 88  # in the legend
Colours = Mapping[Line, str]


def picture_of(graph: TapeGraph, call: str) -> Picture:
    """The picture with a title and a legend."""
    count = sum(chip.kind == "operation" for chip in graph.chips)
    what = f"{call}: {counted(count, 'line')} of code" if graph.folded else ""
    nests = f" in {counted(len(graph.groups), 'group')}" if graph.groups else ""
    what = what or f"{call}: {counted(count, 'operation')}{nests}"
    lines = sorted(_lines(graph))
    colours = {line: COLOURS[k % len(COLOURS)] for k, line in enumerate(lines)}
    parts, width, height = _drawn(graph, colours)
    legend, wide = _legend(lines, colours, height + 44.0)
    whole = [text(what, 0.0, 14.0, 13.0, font_weight="600"), _moved(parts, 0.0, 26.0), *legend]
    width = max(width, wide, LETTER * 13.0 * len(what))
    return Picture(what, whole, width + 2, height + 40.0 + 18.0 * len(legend) / 2)


def _lines(graph: TapeGraph) -> set[Line]:
    lines = {chip.line for chip in graph.chips if chip.line is not None and chip.body is None}
    return lines.union(*[_lines(chip.body) for chip in graph.chips if chip.body is not None])


def _legend(lines: Sequence[Line], colours: Colours, y: float) -> tuple[list[str], float]:
    """The lines by their colours, two elements for each, and the width of the longest."""
    shown = [shortened(show_line(line).strip(), _LETTERS) for line in lines[:_MOST_LINES]]
    if (left := len(lines) - _MOST_LINES) > 0:
        shown.append(f"and {counted(left, 'more line')}")
    parts: list[str] = []
    for k, words in enumerate(shown):
        fill = colours[lines[k]] if k < _MOST_LINES else "none"
        at = y + 18.0 * k
        parts += [
            element("rect", x=0.0, y=at - 9.0, width=10.0, height=10.0, rx=2.0, fill=fill),
            text(words, 16.0, at, 11.0, font_family=MONO),
        ]
    return parts, 16.0 + LETTER * 11.0 * max(map(len, shown), default=0)


def _drawn(graph: TapeGraph, colours: Colours) -> tuple[str, float, float]:
    """A graph as an element, and its size: groups are laid out first, then what is around them."""
    unit_of, insides = _units(graph)
    drawings = [_unit(graph, unit, colours) for unit in insides]
    outer = layered(
        [size for _, size, _ in drawings], [(unit_of[a], unit_of[b]) for a, b in graph.edges]
    )
    places: dict[int, tuple[Point, Point]] = {}  # of each chip: the middles of two of its sides
    for unit, (_, _, ends), (x, y) in zip(insides, drawings, outer.corners, strict=True):
        for k, (top, bottom) in zip(unit.chips, ends, strict=True):
            places[k] = ((top[0] + x, top[1] + y), (bottom[0] + x, bottom[1] + y))
    edges = [
        _edge([places[a][1], *outer.routes.get((unit_of[a], unit_of[b]), [])[1:-1], places[b][0]])
        for a, b in graph.edges
        if unit_of[a] != unit_of[b]
    ]
    corners = outer.corners
    frames = [
        _moved(_frame(unit.title, *size), *corner)
        for unit, (_, size, _), corner in zip(insides, drawings, corners, strict=True)
        if unit.title
    ]
    chips = [_moved(part, *corner) for (part, _, _), corner in zip(drawings, corners, strict=True)]
    return "".join([*frames, *edges, *chips]), outer.width, outer.height


def _units(graph: TapeGraph) -> tuple[dict[int, int], list[NestBox]]:
    """Which unit each chip is in: a group, or alone."""
    grouped = {k: g for g, group in enumerate(graph.groups) for k in group.chips}
    units, unit_of = list(graph.groups), dict(grouped)
    for k in range(len(graph.chips)):
        if k not in grouped:
            unit_of[k] = len(units)
            units.append(NestBox("", (k,)))
    return unit_of, units


def _unit(
    graph: TapeGraph, unit: NestBox, colours: Colours
) -> tuple[str, tuple[float, float], list[tuple[Point, Point]]]:
    """The drawing of a group or a single chip; its size, and the ends of edges at its chips."""
    drawings = [_chip(graph.chips[k], colours) for k in unit.chips]
    place = {k: n for n, k in enumerate(unit.chips)}
    inside = [(place[a], place[b]) for a, b in graph.edges if a in place and b in place]
    layout = layered([size for _, size in drawings], inside, below=16.0)
    x, y = (_PAD, _PAD + _TITLE) if unit.title else (0.0, 0.0)
    boxes = [
        _moved(part, *corner) for (part, _), corner in zip(drawings, layout.corners, strict=True)
    ]
    parts = "".join([*(_edge(route) for route in layout.routes.values()), *boxes])
    width, height = layout.width, layout.height
    ends = [
        ((left + w / 2 + x, top + y), (left + w / 2 + x, top + h + y))
        for (left, top), (_, (w, h)) in zip(layout.corners, drawings, strict=True)
    ]
    if not unit.title:
        return parts, (width, height), ends
    width = max(width, LETTER * _SMALL * len(unit.title)) + 2 * _PAD
    height += 2 * _PAD + _TITLE
    return _moved(parts, x, y), (width, height), ends


def _frame(title: str, width: float, height: float) -> str:
    box = element(
        "rect", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=8.0, fill="currentColor",
        fill_opacity=0.06, stroke="currentColor", stroke_opacity=0.35, stroke_dasharray="4 3",
    )  # fmt: skip
    return box + text(title, _PAD, _PAD + 7.0, _SMALL + 1, fill_opacity=0.75)


def _chip(chip: Chip, colours: Colours) -> tuple[str, tuple[float, float]]:
    """One box, and its size; a loop holds the graph of its body."""
    if chip.body is not None:
        parts, width, height = _drawn(chip.body, colours)
        width = max(width, LETTER * _SIZE * len(chip.words)) + 2 * _PAD
        height += 2 * _PAD + _TITLE
        whole = [_frame(chip.words, width, height), _moved(parts, _PAD, _PAD + _TITLE)]
        return titled(whole, chip.tip), (width, height)
    letters = max(len(chip.words) * _SIZE, len(chip.small) * _SMALL)
    width = max(LETTER * letters + 18.0, 56.0)
    middle = {"text_anchor": "middle", "font_family": MONO}
    solid = chip.kind == "operation"
    fill = colours.get(chip.line, COLOURS[-1]) if chip.line is not None else COLOURS[-1]
    ink = {"fill": "#ffffff"} if solid else {}
    box = element(
        "rect", x=0.75, y=0.75, width=width - 1.5, height=_HIGH - 1.5,
        rx=5.0 if solid else _HIGH / 2, fill=fill if solid else "currentColor",
        fill_opacity=1.0 if solid else 0.08, stroke="none" if solid else "currentColor",
        stroke_width=1.5 if chip.kind == "result" else 1.0,
    )  # fmt: skip
    words = [
        text(chip.words, width / 2, 15.0, _SIZE, **middle, **ink),
        text(chip.small, width / 2, 27.0, _SMALL, **middle, **ink, fill_opacity=0.85),
    ]
    tip = "\n".join(filter(None, (chip.tip, show_line(chip.line).strip())))
    return titled([box, *words], tip or chip.words), (width, _HIGH)


def _edge(points: Sequence[Point]) -> str:
    """A smooth line downwards through these points, with a small arrow at its end."""
    (x, y), *others = points
    path = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in others:
        half = (y + to_y) / 2
        path.append(f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    path.append("m-3 -5l3 5l3 -5")
    return element("path", d="".join(path), fill="none", stroke="currentColor", stroke_opacity=0.5)


def _moved(parts: str, x: float, y: float) -> str:
    return element("g", parts, transform=f"translate({x:.1f} {y:.1f})")

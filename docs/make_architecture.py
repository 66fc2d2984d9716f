#!/usr/bin/env python
"""The picture in docs/architecture.md, drawn from tests/floors.txt and the imports of the package.

    python docs/make_architecture.py            # print the picture
    python docs/make_architecture.py --write    # and write docs/architecture.svg

A row is a floor; an arc says that a module on the upper floor imports one on the lower. Imports
that follow from others, through floors between them, are left out (transitive reduction: Aho,
Garey, Ullman, "The transitive reduction of a directed graph", SIAM J. Comput. 1, 1972).
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"
FLOORS = ROOT / "tests" / "floors.txt"

ROW, TOP, NAMES, WORDS, ARCS, WIDTH = 24, 20, 16, 300, 690, 980  # lengths in pixels
SHADES = {"fdiff.kernels": "#eef4fb", "fdiff.ops": "#f4f9ee", "fdiff.functional": "#fdf3e7"}


class Floor(NamedTuple):
    """The module prefixes of one floor, and what they are for."""

    prefixes: tuple[str, ...]
    words: str


def floors() -> list[Floor]:
    """The floors, the highest first."""
    found: list[Floor] = []
    for line in FLOORS.read_text(encoding="utf-8").splitlines():
        names, _, words = line.partition("#")
        if prefixes := tuple(name.strip() for name in names.split(",") if name.strip()):
            found.append(Floor(prefixes, words.strip()))
    return found[::-1]


def floor_of(name: str, rows: list[Floor]) -> int | None:
    """Which floor a dotted name is on: that of the longest prefix."""
    hits = [
        (len(prefix), k)
        for k, row in enumerate(rows)
        for prefix in row.prefixes
        if name == prefix or name.startswith(prefix + ".")
    ]
    return max(hits)[1] if hits else None


def imports(path: Path) -> Iterator[str]:
    """What a file of the package imports from it, as dotted names."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            stem = [*package[: len(package) - node.level + 1], *filter(None, [node.module])]
            yield from (".".join([*stem, alias.name]) for alias in node.names)


def graph(rows: list[Floor]) -> list[set[int]]:
    """For each floor those that it imports from."""
    below: list[set[int]] = [set() for _ in rows]
    for path in sorted((ROOT / "fdiff").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        here = floor_of(".".join(parts[:-1] if parts[-1] == "__init__" else parts), rows)
        if here is not None:
            found = {floor_of(name, rows) for name in imports(path)}
            below[here] |= {k for k in found if k is not None and k != here}
    return below


def reduced(below: list[set[int]]) -> list[set[int]]:
    """The same without edges that a longer way replaces; edges lead to later floors."""
    reach: list[set[int]] = [set() for _ in below]
    for k in reversed(range(len(below))):
        reach[k] = below[k].union(*(reach[j] for j in below[k]))
    return [{j for j in down if not any(j in reach[i] for i in down)} for down in below]


def picture() -> str:
    """The text of the picture, in SVG."""
    rows = floors()
    height = TOP + ROW * len(rows) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-size="13">',
        '<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" orient="auto"',
        ' markerWidth="7" markerHeight="7"><path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for k, row in enumerate(rows):
        y = TOP + ROW * k
        area = ".".join(row.prefixes[0].split(".")[:2])
        shade = SHADES.get(area, "#f6f6f6")
        name = ", ".join(prefix.removeprefix("fdiff.").replace(".", "/") for prefix in row.prefixes)
        words = f'x="{WORDS}" y="{y + 15}" font-family="sans-serif" fill="#333"'
        lines += [
            f'<rect x="6" y="{y}" width="{ARCS - 8}" height="{ROW - 2}" rx="3" fill="{shade}"/>',
            f'<text x="{NAMES}" y="{y + 15}" font-family="monospace">{escape(name)}</text>',
            f"<text {words}>{escape(row.words)}</text>",
        ]
    lines += _arcs(reduced(graph(rows)))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _arcs(below: list[set[int]]) -> Iterator[str]:
    """Arcs on the right side, wider where they pass more floors."""
    for k, down in enumerate(below):
        for j in sorted(down):
            start, end = (TOP + ROW * n + shift for n, shift in ((k, 13), (j, 7)))
            x = ARCS + 30 + 330 * (j - k) / len(below)
            yield (
                f'<path d="M{ARCS} {start}C{x:.0f} {start} {x:.0f} {end} {ARCS} {end}" fill="none"'
                ' stroke="#555" marker-end="url(#to)"/>'
            )


if __name__ == "__main__":
    if "--write" in sys.argv:
        PICTURE.write_text(picture(), encoding="utf-8")
    else:
        print(picture())  # noqa: T201 - what the script is for

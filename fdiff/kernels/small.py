"""What of the sizes is part of a kernel's structure: few components, and many short rows.

Rows of two or three numbers would be inner loops of two or three turns. Where such a size is
known, the components are written out (`schedule/split.py`), and the loop runs over the rows. Where
rows have some tens of entries, the axis of the rows is laid out behind the others
(`schedule/rows_last.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from ..arraytype import Shape
from ..tape import Tape

MOST = 4  # components of any array
MOST_FIELDS = 16  # of records: arrays from which single columns, or a few of them, are taken
_ROWS = 48  # entries beside the components from which on it is worth a kernel of its own
_MANY, _SHORT = 64, 64  # rows, at least, and entries of a row, at most, for the rows to go behind


def small_sizes(tape: Tape) -> frozenset[int]:
    """The sizes that are written into the kernel as numbers."""
    found = {n for node in tape.nodes for t in node.types for n in _beside_rows(t.shape, MOST)}
    fields: set[int] = set()
    for node in tape.nodes:
        if found and node.primitive.name in ("slice", "unslice"):
            shapes = (tape.nodes[node.args[0]].type.shape, node.type.shape)
            outer, inner = shapes if node.primitive.name == "slice" else reversed(shapes)
            fields.update(_fields(outer, inner))
    return frozenset(found | fields)


def many_rows(tape: Tape, small: Collection[int]) -> int:
    """The size of the axis of many short rows that most is computed on; 0 if most is not so.

    What counts is what loops run over entry by entry: elementwise ops, and what is reduced.
    """
    short: dict[int, int] = {}
    long: dict[int, int] = {}
    for node in tape.nodes:
        lower = node.primitive.lower
        if lower is None or lower.kind not in ("scalar", "reduce"):
            continue
        shape = node.type.shape if lower.kind == "scalar" else tape.nodes[node.args[0]].type.shape
        if len(shape) < 2:
            continue
        wide = [n for n in shape if n != 1 and n not in small]
        if len(wide) < 2:
            continue
        found = short if wide[-1] <= _SHORT else long
        for n in set(wide[:-1]):
            if n >= _MANY and wide.count(n) == 1:
                found[n] = found.get(n, 0) + math.prod(shape)
    best = max((n for n in short if 2 * short[n] > max(short.values())), default=0)
    return best if short.get(best, 0) > long.get(best, 0) else 0


def _beside_rows(shape: Shape, most: int) -> Iterable[int]:
    """The small axes of an array that has many entries for each of them."""
    few = [n for n in shape if 1 < n <= most]
    rows = math.prod(n for n in shape if n > most)
    return few if rows >= _ROWS else ()


def _fields(outer: Shape, inner: Shape) -> Iterable[int]:
    """The axes of records along which a slice takes a few fields."""
    many = set(_beside_rows(outer, MOST_FIELDS))
    return (n for n, k in zip(outer, inner, strict=True) if n in many and 0 < k <= MOST and k < n)

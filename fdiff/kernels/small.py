"""Sizes that are part of a kernel's structure: a few components beside many rows.

Rows of two or three numbers would be inner loops of two or three turns. Where such a size is
known, the components are written out (`schedule/split.py`), and the loop runs over the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..arraytype import Shape
from ..tape import Tape

MOST = 4  # components of any array
MOST_FIELDS = 16  # of records: arrays from which single columns, or a few of them, are taken
_ROWS = 48  # entries beside the components from which on it is worth a kernel of its own


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


def _beside_rows(shape: Shape, most: int) -> Iterable[int]:
    """The small axes of an array that has many entries for each of them."""
    few = [n for n in shape if 1 < n <= most]
    rows = math.prod(n for n in shape if n > most)
    return few if rows >= _ROWS else ()


def _fields(outer: Shape, inner: Shape) -> Iterable[int]:
    """The axes of records along which a slice takes a few fields."""
    many = set(_beside_rows(outer, MOST_FIELDS))
    return (n for n, k in zip(outer, inner, strict=True) if n in many and 0 < k <= MOST and k < n)

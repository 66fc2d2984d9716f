"""The sizes that are part of a kernel's structure: few components, and many short rows.

Rows of two or three numbers would be inner loops of two or three iterations. Where such a size is
known, the components are scalars (`normalise/scalarise.py`), and the loop runs over the rows. Where
rows have some tens of entries, the axis of the rows is laid out after the others
(`normalise/rows_innermost.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable

from ...arraytype import Shape
from ...kernel_rule import Kind
from ...tape import Tape

MOST = 4  # components of any array
SMALL = frozenset(range(2, MOST + 1))  # the sizes that are small in bodies of loops
MOST_LITERAL = 64  # the sizes up to here are literals in bodies, whose loops are short
MOST_LITERAL_STEP = 8  # of the steps of stores: LLVM stores several entries of such loops at once
MOST_FIELDS = 16  # of records: arrays of which single columns, or a few of them, are taken or put
_ROWS = 48  # entries beside the components from which on it is worth a kernel of its own
_MIN_ROWS = 64  # from which on the axis of the rows becomes the last one, if the others hold
_MAX_ROW = 64  # longest last axis, rank 3 or more
_MAX_ROW_OF_MATRIX = 8  # longest last axis, rank 2: less than a vector
_MIN_WORK = 8  # entries computed for each input or output entry that is transposed


def small_sizes(tape: Tape) -> frozenset[int]:
    """The sizes that are written into the kernel as numbers."""
    sizes = {n for node in tape.nodes for t in node.types for n in _beside_rows(t.shape, MOST)}
    fields: set[int] = set()
    for node in tape.nodes:
        if node.primitive.kind is Kind.LOOP:  # whatever the number of trips
            sizes.update(*[t.shape for t in node.param("body").output_types])
            sizes &= SMALL
        elif node.primitive.kind is Kind.CONTRACT:
            fields.update(*[_joined_fields(tape, a) for a in node.args])
        elif sizes and node.primitive.kind in (Kind.SLICE, Kind.UNSLICE):
            shapes = (tape.nodes[node.args[0]].type.shape, node.type.shape)
            outer, inner = shapes if node.primitive.kind is Kind.SLICE else reversed(shapes)
            fields.update(_fields(outer, inner))
    return frozenset(sizes | fields)


def many_rows(tape: Tape, small: Collection[int]) -> int:
    """The size of the axis of many short rows that most is computed on; 0 if most is not so.

    What counts is what loops run over entry by entry: elementwise ops, and what is reduced. Of
    10,000 points, 25 distances in 10 dimensions are many short rows. An array of 25 columns is not,
    whose entries are walked through in one loop.
    """
    short: Counter[int] = Counter()
    long: Counter[int] = Counter()
    transposed_entries: Counter[int] = Counter()
    for node in tape.nodes:
        kind = node.primitive.kind
        if kind is not None and (kind.is_reduction or kind.is_extremum):
            shape = tape.nodes[node.args[0]].type.shape
        elif kind is not None and kind.is_elementwise:
            shape = node.type.shape
        elif not node.args:
            _count(transposed_entries, node.type.shape, ())
            continue
        else:
            continue
        wide = [n for n in shape if n != 1 and n not in small]
        if len(wide) < 2:
            continue
        if wide[-1] > _MAX_ROW:
            _count(long, shape, small)
        elif len(wide) > 2 or wide[-1] <= _MAX_ROW_OF_MATRIX:
            _count(short, shape, small)
    for o in tape.outputs:
        _count(transposed_entries, tape.nodes[o].type.shape, ())
    most = max(short.values(), default=0)
    best = max((n for n in short if 2 * short[n] > most), default=0)
    return best if short[best] > long[best] + _MIN_WORK * transposed_entries[best] else 0


def _count(counts: Counter[int], shape: Shape, small: Collection[int]) -> None:
    """Adds the number of entries for each axis that may be the axis of an array's rows."""
    wide = [n for n in shape if n != 1 and n not in small]
    for n in set(wide[:-1]):
        if n >= _MIN_ROWS and wide.count(n) == 1:
            counts[n] += math.prod(shape)


def _beside_rows(shape: Shape, most: int) -> Iterable[int]:
    """The small axes of an array that has many entries for each of them."""
    few = [n for n in shape if 1 < n <= most]
    rows = math.prod(n for n in shape if n > most)
    return few if rows >= _ROWS else ()


def _joined_fields(tape: Tape, i: int) -> Iterable[int]:
    """The axes along which a factor of a product is joined of a few fields each.

    The sums of a product are in registers then. What is only stored gains nothing: entries side by
    side would be stored from vectors of each.
    """
    while (node := tape.nodes[i]).primitive.kind in (Kind.TRANSPOSE, Kind.RESHAPE):
        (i,) = node.args
    if node.primitive.kind is not Kind.CONCATENATE:
        return ()
    shape = node.type.shape
    return set.intersection(*[{*_fields(shape, tape.nodes[a].type.shape)} for a in node.args])


def _fields(outer: Shape, inner: Shape) -> Iterable[int]:
    """The axes of records along which a slice, or a part of a join, has a few fields."""
    many = set(_beside_rows(outer, MOST_FIELDS))
    return (n for n, k in zip(outer, inner, strict=True) if n in many and 0 < k <= MOST and k < n)

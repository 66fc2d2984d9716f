"""Items of a loop program as lines of text: calls, conditionals, tile loops and versioned loops.

In a kernel that several threads run, an item inside a parallel loop covers one `part` of the rows:
those from ``rt.part_begin(rows, part, parts)`` to the beginning of the next part.
"""

from __future__ import annotations

from ..ir.control_items import ControlItem
from ..ir.loops import (
    AHEAD,
    BEGIN,
    BLOCK,
    END,
    Call,
    Conditional,
    Item,
    LoopVersion,
    Nest,
    TileLoop,
    VersionedLoop,
)
from .lines import LineKind, Lines, TextLine, deeper, let, loop_head
from .loop_nest import emit_nest
from .sequential_loop import emit_control
from .small_matrices import emit_inline
from .symbol_table import SymbolTable

_SHORTEST_RUN = 8  # rows: for fewer, beginning a run takes longer than it saves
_LEAST_AHEAD, _MOST_AHEAD = 64, 256  # rows that are read ahead to find the end of a run
_LOOKAHEAD = "lookahead"


def emit_item(
    item: Item | Conditional, symbols: SymbolTable, *, part: bool = False
) -> list[TextLine]:
    """The lines of an item."""
    if isinstance(item, Nest):
        return emit_nest(item, symbols)
    if isinstance(item, ControlItem):
        return emit_control(item, symbols, emit_item)
    if isinstance(item, Call):
        return emit_inline(item) if item.inline else symbols.call(item, part=part)
    if isinstance(item, TileLoop):
        return [*tile_head(item, part=part), *deeper(_body(item, symbols, part=part))]
    if isinstance(item, VersionedLoop):
        return _emit_versions(item, symbols, part=part)
    zero, other = (deeper(emit_nest(nest, symbols)) for nest in (item.zero, item.other))
    return [TextLine(f"if {item.local} == 0:"), *zero, TextLine("else:"), *other]


def _body(loop: TileLoop, symbols: SymbolTable, *, part: bool) -> list[TextLine]:
    """The lines for one tile."""
    return [line for item in loop.items for line in emit_item(item, symbols, part=part)]


def tile_head(loop: TileLoop, *, part: bool = False) -> list[TextLine]:
    """The head of a loop over tiles of rows."""
    rows, counter = loop.rows, f"{BLOCK}s"
    count = f"({rows} + {BLOCK} - 1) // {BLOCK}"
    bounds = ", ".join(_part_of(count)) if part else count
    return [
        let(BLOCK, loop.block),
        loop_head(counter, bounds),
        *deeper((let(BEGIN, f"{counter} * {BLOCK}"), let(END, f"min({BEGIN} + {BLOCK}, {rows})"))),
    ]


def _emit_versions(loop: VersionedLoop, symbols: SymbolTable, *, part: bool) -> list[TextLine]:
    """A loop over runs of rows: each is found by reading ahead, and has the first version it fits.

    How many rows are read ahead follows from the length of the last run: rows that are read but lie
    after the end of a run are read again for the next one.
    """
    rows, block = loop.fallback.rows, loop.fallback.block
    begin, rows = _part_of(rows) if part else ("0", rows)
    body = [
        let(BEGIN, END),
        let(AHEAD, f"min({BEGIN} + {_LOOKAHEAD}, {rows})"),
        *(line for nest in loop.measured for line in emit_nest(nest, symbols)),
    ]
    fallback = _body(loop.fallback, symbols, part=part)
    least = let(_LOOKAHEAD, str(_LEAST_AHEAD))
    lines = [least, let(END, f"min({BEGIN} + {block}, {rows})"), *fallback]
    for version in reversed(loop.versions):
        lines = _choice(version, lines, symbols)
    runs = TextLine(f"while {END} < {rows}:", LineKind.WHILE)
    return [least, let(END, begin), runs, *deeper((*body, *lines))]


def _part_of(count: str) -> tuple[str, str]:
    """Where a part begins and ends."""
    return f"rt.part_begin({count}, part, parts)", f"rt.part_begin({count}, part + 1, parts)"


def _choice(version: LoopVersion, other: Lines, symbols: SymbolTable) -> list[TextLine]:
    """The lines of a version if the rows ahead fit it, else the others."""
    size = f"{END} - {BEGIN}"
    end = version.ends[0] if len(version.ends) == 1 else f"min({', '.join(version.ends)})"
    adapted = let(_LOOKAHEAD, f"max({_LEAST_AHEAD}, min({_MOST_AHEAD}, 2 * ({size})))")
    nests = (line for nest in version.items for line in emit_nest(nest, symbols))
    return [
        let(END, end),
        TextLine(f"if {' and '.join([f'{size} >= {_SHORTEST_RUN}', *version.tests])}:"),
        *deeper((adapted, *nests)),
        TextLine("else:"),
        *deeper(other),
    ]

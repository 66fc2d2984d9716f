"""Loops over blocks of rows, and over runs of them, around the lines for some of the rows."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.loops import AHEAD, BEGIN, BLOCK, END, LoopVersion, TileLoop, VersionedLoop
from .loop_nest import emit_nest

INDENT = "    "
_LEAST = 8  # rows of a run: for fewer, beginning it would take longer than they do
_NEAR, _FAR = 64, 256  # rows that are looked at to find a run, at least and at most
_LOOK = "look"


def emit_blocks(blocks: TileLoop, *, part: bool = False) -> list[str]:
    """The head of the loop over blocks of rows, or a `part` of them; lines for one follow it."""
    rows, counter = blocks.rows, f"{BLOCK}s"
    count = f"({rows} + {BLOCK} - 1) // {BLOCK}"
    bounds = f"{_share(count, 'part')}, {_share(count, 'part + 1')}"
    return [
        f"{BLOCK} = {blocks.block}",
        f"for {counter} in range({bounds if part else count}):",
        f"{INDENT}{BEGIN} = {counter} * {BLOCK}",
        f"{INDENT}{END} = min({BEGIN} + {BLOCK}, {rows})",
    ]


def emit_runs(runs: VersionedLoop, inside: Iterable[str], *, part: bool = False) -> list[str]:
    """The loop over runs of rows, or in a `part` of them; `inside` are lines for a block of none.

    As many rows are looked at as the last run makes likely: looking at rows that are looked at once
    more, as those behind the run are, is lost.
    """
    rows, block = runs.fallback.rows, runs.fallback.block
    begin, rows = (_share(rows, "part"), _share(rows, "part + 1")) if part else ("0", rows)
    body = [
        f"{BEGIN} = {END}",
        f"{AHEAD} = min({BEGIN} + {_LOOK}, {rows})",
        *(line for nest in runs.measured for line in emit_nest(nest)),
    ]
    other = [f"{_LOOK} = {_NEAR}", f"{END} = min({BEGIN} + {block}, {rows})", *inside]
    for way in reversed(runs.versions):
        other = _either(way, other)
    head = [f"{_LOOK} = {_NEAR}", f"{END} = {begin}", f"while {END} < {rows}:"]
    return head + [INDENT + line for line in (*body, *other)]


def _share(count: str, part: str) -> str:
    """Where a part of so many begins."""
    return f"rt.share({count}, {part}, parts)"


def _either(way: LoopVersion, other: Iterable[str]) -> list[str]:
    """The lines for a run, or the others."""
    size = f"{END} - {BEGIN}"
    end = way.ends[0] if len(way.ends) == 1 else f"min({', '.join(way.ends)})"
    begun = f"{_LOOK} = max({_NEAR}, min({_FAR}, 2 * ({size})))"
    return [
        f"{END} = {end}",
        f"if {' and '.join([f'{size} >= {_LEAST}', *way.tests])}:",
        *(INDENT + line for line in (begun, *(x for nest in way.items for x in emit_nest(nest)))),
        "else:",
        *(INDENT + line for line in other),
    ]

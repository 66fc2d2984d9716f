"""A kernel's loops as several threads run them: what is shared, and what one does for all.

Each thread of a crew runs the whole kernel, so that all know the same locals between two items.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .loops import Call, Nest, Output, Statement, Temporary, TileLoop, VersionedLoop

THREADS, PARTS = "threads", "parts"  # what there is a copy of memory for


class PrivateReduction(NamedTuple):
    """A local that each part of a loop gathers for itself, in a place of its own called `slot`.

    `begun` if it holds something before the loop.
    """

    name: str
    slot: str
    neutral: str
    combine: str
    continues: bool


@dataclass(frozen=True)
class ParallelLoop:
    """A loop whose turns the threads take, a part at a time.

    Each part adds up its `totals`, and in `copies` what it adds all over other memory: that memory,
    and the copy. `final` says where the totals go.
    """

    item: Nest | TileLoop | VersionedLoop
    totals: tuple[PrivateReduction, ...]
    copies: tuple[tuple[Temporary, Temporary], ...]
    final: tuple[Statement, ...]


@dataclass(frozen=True)
class SerialRegion:
    """What one thread does while the others wait, who need its `locals`: names, and slots."""

    items: tuple[Nest | Call | TileLoop | VersionedLoop, ...]
    locals: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ParallelProgram:
    """A kernel for a crew. Nests without a loop that make locals are run by every thread."""

    temporaries: tuple[Temporary, ...]
    items: tuple[ParallelLoop | SerialRegion | Nest, ...]
    outputs: tuple[Output, ...]

    @property
    def calls(self) -> list[Call]:
        """The routines that are called, in order."""
        found: list[Call] = []
        for item in self.items:
            inner = item.items if isinstance(item, SerialRegion) else ()
            blocks = (item.item,) if isinstance(item, ParallelLoop) else ()
            for one in (*inner, *blocks):
                some = one.items if isinstance(one, TileLoop) else (one,)
                found += [i for i in some if isinstance(i, Call)]
        return found

"""Loop programs for several threads: parallel loops, and regions that one thread runs.

Each thread of the pool runs the whole kernel (single program, multiple data), so that all threads
know the same locals between two items. A parallel loop is cut into parts, whose number follows from
the sizes; threads take parts one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...named_tuples import NamedTuple
from .loops import (
    Call,
    Item,
    Nest,
    Output,
    Statement,
    Temporary,
    TileLoop,
    VersionedLoop,
    nests_and_calls,
)

THREADS, PARTS = "threads", "parts"  # of what there is a copy of memory each


class PrivateReduction(NamedTuple):
    """A reduction into a local, which is private to each part of a loop (privatisation).

    A part starts from the `neutral` element of `combine` and leaves its result in a `slot`; the
    slots are combined in the order of the parts. It `continues` a value from before the loop.
    """

    name: str
    slot: str
    neutral: str
    combine: str
    continues: bool


@dataclass(frozen=True)
class ParallelLoop:
    """A loop whose iterations threads share, a part at a time.

    Private to each part are its `totals`, and the `copies` of memory that it adds to at entries
    other parts may add to, too: pairs of that memory and its copies. `final` stores the totals.
    """

    item: Nest | TileLoop | VersionedLoop
    totals: tuple[PrivateReduction, ...]
    copies: tuple[tuple[Temporary, Temporary], ...]
    final: tuple[Statement, ...]


def name_of_private_copy(copies: Temporary) -> str:
    """The name, within a part of a parallel loop, of the copy that is private to it."""
    return f"own_{copies.name}"


@dataclass(frozen=True)
class SerialRegion:
    """Items that one thread runs while the others wait at a barrier.

    `locals` are names that the others need, and the slots through which they get them.
    """

    items: tuple[Item, ...]
    locals: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ParallelProgram:
    """A kernel for a pool of threads. A nest by itself has no loop: every thread computes it.

    `locals` are the dtypes of the locals that several items use.
    """

    temporaries: tuple[Temporary, ...]
    items: tuple[ParallelLoop | SerialRegion | Nest, ...]
    outputs: tuple[Output, ...]
    locals: tuple[tuple[str, str], ...] = ()

    @property
    def all_items(self) -> Iterator[Item]:
        """The items in order, those in parallel loops and serial regions included."""
        for item in self.items:
            if isinstance(item, SerialRegion):
                yield from item.items
            else:
                yield item.item if isinstance(item, ParallelLoop) else item

    @property
    def calls(self) -> list[Call]:
        """The routines that are called, in order."""
        inside = (i for item in self.all_items for i in nests_and_calls(item))
        return [call for i in inside if isinstance(i, Call) for call in i.routine_calls]

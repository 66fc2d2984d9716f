"""Where the temporaries of a kernel lie: in one piece of memory, those of other times in one place.

A kernel is handed its workspace, which `fdiff.kernels` keeps between calls: fresh pages cost more
than most kernels (0.8 ms for 2 MB).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from ..ir.loops import Blocks, Call, Choice, Nest, Program, Runs, proper
from ..ir.parallel import PARTS, Alone, Shared, SharedProgram
from ..kernel_source import Room


def furnish(program: Program | SharedProgram) -> tuple[dict[str, int], tuple[Room, ...]]:
    """The room of each temporary; one that is used no more leaves its own to others."""
    short = {t.name for t in program.temporaries if t.rows}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for k, names in enumerate(_in_turn(program, short)):
        for name in names:
            first.setdefault(name, k)
            last[name] = k
    rooms: list[Room] = []
    free: dict[Room, _Free] = {}
    where: dict[str, int] = {}
    for t in sorted(program.temporaries, key=lambda t: first.get(t.name, 0)):
        room = Room(proper(t.dims), t.dtype, t.rows, t.copies, t.least)
        begin = first.get(t.name, 0)
        same = free.setdefault(room, _Free())
        # what parts have found is read behind the loop, when others may be on their way already
        r = len(rooms) if t.copies == PARTS else same.first(begin, len(rooms))
        if r == len(rooms):
            rooms.append(room)
        where[t.name] = r
        heappush(same.used, (last.get(t.name, begin), r))
    return where, tuple(rooms)


class _Free:
    """Rooms of one kind: those in use, with the item that uses each last, and the others."""

    def __init__(self) -> None:
        self.used: list[tuple[int, int]] = []
        self.left: list[int] = []

    def first(self, item: int, new: int) -> int:
        """The first that is free for the item, which comes after those asked for before."""
        while self.used and self.used[0][0] < item:
            heappush(self.left, heappop(self.used)[1])
        return heappop(self.left) if self.left else new


def _in_turn(program: Program | SharedProgram, short: set[str]) -> Iterator[list[str]]:
    """The memory that each item uses; what is not of a block, a loop over blocks uses all along."""
    for item in _items(program):
        if not isinstance(item, Blocks):
            yield list(_buffers(item))
            continue
        names = [list(_buffers(inner)) for inner in item.items]
        whole = [name for some in names for name in some if name not in short]
        yield whole
        yield from names
        yield whole


def _items(program: Program | SharedProgram) -> Iterator[Nest | Call | Blocks | Runs]:
    for item in program.items:
        if isinstance(item, Alone):
            yield from item.items
        else:
            yield item.item if isinstance(item, Shared) else item


def _buffers(item: Nest | Call | Choice | Runs) -> Iterator[str]:
    if isinstance(item, Choice | Runs):
        for inner in _inside(item):
            yield from _buffers(inner)
        return
    if isinstance(item, Call):
        yield from item.buffers
        return
    for statement in item.everything:
        if statement.access is not None:
            yield statement.access.buffer.name


def _inside(item: Choice | Runs) -> tuple[Nest | Call | Choice, ...]:
    """The loops of which some run."""
    if isinstance(item, Choice):
        return item.zero, item.other
    ways = (nest for way in item.ways for nest in way.items)
    return (*item.measured, *ways, *item.otherwise.items)

"""Where the temporaries of a kernel lie: in one piece of memory, those of other times in one place.

A kernel is handed its workspace, which `fdiff.kernels` keeps between calls: fresh pages cost more
than most kernels (0.8 ms for 2 MB).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from ..ir.indexing import nonunit
from ..ir.loops import Call, Conditional, LoopProgram, Nest, TileLoop, VersionedLoop
from ..ir.parallel import PARTS, ParallelLoop, ParallelProgram, SerialRegion
from ..kernel_source import WorkspaceBuffer


def furnish(
    program: LoopProgram | ParallelProgram,
) -> tuple[dict[str, int], tuple[WorkspaceBuffer, ...]]:
    """The room of each temporary; one that is used no more leaves its own to others."""
    short = {t.name for t in program.temporaries if t.rows}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for k, names in enumerate(_in_turn(program, short)):
        for name in names:
            first.setdefault(name, k)
            last[name] = k
    buffers: list[WorkspaceBuffer] = []
    free: dict[WorkspaceBuffer, _Free] = {}
    where: dict[str, int] = {}
    for t in sorted(program.temporaries, key=lambda t: first.get(t.name, 0)):
        room = WorkspaceBuffer(nonunit(t.dims), t.dtype, t.rows, t.copies, t.least)
        begin = first.get(t.name, 0)
        same = free.setdefault(room, _Free())
        # what parts have found is read behind the loop, when others may be on their way already
        r = len(buffers) if t.copies == PARTS else same.first(begin, len(buffers))
        if r == len(buffers):
            buffers.append(room)
        where[t.name] = r
        heappush(same.used, (last.get(t.name, begin), r))
    return where, tuple(buffers)


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


def _in_turn(program: LoopProgram | ParallelProgram, short: set[str]) -> Iterator[list[str]]:
    """The memory that each item uses; what is not of a block, a loop over blocks uses all along."""
    for item in _items(program):
        if not isinstance(item, TileLoop):
            yield list(_buffers(item))
            continue
        names = [list(_buffers(inner)) for inner in item.items]
        whole = [name for some in names for name in some if name not in short]
        yield whole
        yield from names
        yield whole


def _items(
    program: LoopProgram | ParallelProgram,
) -> Iterator[Nest | Call | TileLoop | VersionedLoop]:
    for item in program.items:
        if isinstance(item, SerialRegion):
            yield from item.items
        else:
            yield item.item if isinstance(item, ParallelLoop) else item


def _buffers(item: Nest | Call | Conditional | VersionedLoop) -> Iterator[str]:
    if isinstance(item, Conditional | VersionedLoop):
        for inner in _inside(item):
            yield from _buffers(inner)
        return
    if isinstance(item, Call):
        yield from item.buffers
        return
    for statement in item.all_statements:
        if statement.access is not None:
            yield statement.access.buffer.name


def _inside(item: Conditional | VersionedLoop) -> tuple[Nest | Call | Conditional, ...]:
    """The loops of which some run."""
    if isinstance(item, Conditional):
        return item.zero, item.other
    versions = (nest for way in item.versions for nest in way.items)
    return (*item.measured, *versions, *item.fallback.items)

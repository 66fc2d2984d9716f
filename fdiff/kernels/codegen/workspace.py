"""The buffer of each temporary in the workspace; temporaries that live at other times share one.

This is register allocation by linear scan (Poletto and Sarkar, ACM TOPLAS 21(5), 1999, figure 1):
registers are buffers of one size and dtype, and none is spilled. The workspace is kept between
calls: fresh pages cost more than most kernels (0.8 ms for 2 MB).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from ..ir.index_expressions import nonunit
from ..ir.loops import Call, Conditional, Item, LoopProgram, TileLoop, nests_and_calls
from ..ir.parallel import PARTS, ParallelProgram
from ..kernel_source import WorkspaceBuffer


def allocate(
    program: LoopProgram | ParallelProgram,
) -> tuple[dict[str, int], tuple[WorkspaceBuffer, ...]]:
    """The number of each temporary's buffer, and the buffers."""
    short = {t.name for t in program.temporaries if t.rows}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for k, names in enumerate(_memory_by_item(program, short)):
        for name in names:
            first.setdefault(name, k)
            last[name] = k
    buffers: list[WorkspaceBuffer] = []
    pools: dict[WorkspaceBuffer, _Pool] = {}
    where: dict[str, int] = {}
    for t in sorted(program.temporaries, key=lambda t: first.get(t.name, 0)):
        dims, over = nonunit(t.dims), nonunit(t.over)
        buffer = WorkspaceBuffer(dims, t.dtype, t.rows, t.copies, t.least, over)
        begin = first.get(t.name, 0)
        pool = pools.setdefault(buffer, _Pool())
        # Private results of parts are read after the loop, when other workers may have gone on.
        number = len(buffers) if t.copies == PARTS else pool.take(begin, len(buffers))
        if number == len(buffers):
            buffers.append(buffer)
        where[t.name] = number
        heappush(pool.used, (last.get(t.name, begin), number))
    return where, tuple(buffers)


class _Pool:
    """Equal buffers: those in use, by the last item that uses each, and the free ones."""

    def __init__(self) -> None:
        self.used: list[tuple[int, int]] = []
        self.free: list[int] = []

    def take(self, item: int, new: int) -> int:
        """A buffer that is free from `item` on, or the `new` one; items come in ascending order."""
        while self.used and self.used[0][0] < item:
            heappush(self.free, heappop(self.used)[1])
        return heappop(self.free) if self.free else new


def _memory_by_item(program: LoopProgram | ParallelProgram, short: set[str]) -> Iterator[list[str]]:
    """The memory that each item uses, in order; `short` is memory for one tile of rows.

    A tile loop uses all other memory from its beginning to its end.
    """
    for item in program.all_items:
        if not isinstance(item, TileLoop):
            yield list(memory_of(item))
            continue
        names = [list(memory_of(inner)) for inner in item.items]
        whole = [name for some in names for name in some if name not in short]
        yield whole
        yield from names
        yield whole


def memory_of(item: Item | Conditional) -> Iterator[str]:
    """The names of the memory that an item uses."""
    for inner in nests_and_calls(item):
        if isinstance(inner, Call):
            yield from inner.buffers
        else:
            yield from (s.memory for s in inner.all_statements if s.access is not None)

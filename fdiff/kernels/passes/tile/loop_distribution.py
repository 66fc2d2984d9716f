"""Loop distribution for a GPU: nests that use hundreds of arrays, as several nests of fewer.

A thread keeps the address of each array that its loop uses in registers, and each running sum; it
has 255 of them, and spills the rest to memory. So statements of such a nest are put into several
nests, each of which uses few arrays. What a later nest needs of an earlier one is loaded again,
computed again where no loop changes it, or else handed over in memory: an entry for each iteration
(scalar expansion). K. Kennedy and K. S. McKinley, Loop distribution with arbitrary control flow,
Supercomputing 1990, pages 407-416; R. Allen and K. Kennedy, Optimizing Compilers for Modern
Architectures, Morgan Kaufmann 2001, section 5.3 (scalar expansion) and section 6.2.2.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from operator import is_

from ....lazy_attributes import cached_property
from ...ir.accesses import Access, Buffer
from ...ir.index_expressions import Axis
from ...ir.loops import Item, LoopProgram, Nest, Statement, Temporary
from .separable_statements import SeparableStatements

# What a thread holds in the loops of a nest: an address for each place in memory, and sums, which
# count for several, because the threads of a block exchange each of them when the loops end.
SUM = 4
MOST_HELD = 96  # ... of a nest that stays whole
PIECE_HELD = 64  # ... of a piece of one that does not
LEAST_HELD = 40  # ... from which on a piece ends where few values go from one to the next


def distribute_loops(program: LoopProgram) -> LoopProgram:
    """The program with nests that use hundreds of arrays put into several nests each."""
    items: list[Item] = []
    buffers: list[Temporary] = []
    for item in program.items:
        pieces = (
            _Distribution(item, program.dtypes) if isinstance(item, Nest) and _large(item) else None
        )
        if pieces is None or len(pieces.bounds) == 2:
            items.append(item)
        else:
            items += pieces.nests
            buffers += pieces.buffers
    if len(items) == len(program.items) and all(map(is_, items, program.items)):
        return program
    return replace(program, items=tuple(items), temporaries=(*program.temporaries, *buffers))


def _large(nest: Nest) -> bool:
    """Whether a thread would hold more in the loops of a nest than it has registers for."""
    places = {_memory_place(s) for s in nest.all_statements if s.access is not None}
    many = len(places) + SUM * len(nest.accumulators) > MOST_HELD
    return many and bool(nest.domain) and not nest.branches


def _memory_place(statement: Statement) -> tuple[object, ...]:
    """Where in memory a statement begins: accesses that loops move alike have one address."""
    assert statement.access is not None
    return statement.access.buffer.name, statement.access.dims, statement.access.index


class _Distribution(SeparableStatements):
    """A nest, and the pieces of it that use few arrays each."""

    @cached_property
    def bounds(self) -> list[int]:
        """Where the pieces begin, and where the last one ends."""
        end, out = len(self.lines), [0]
        while out[-1] < end:
            out.append(self._next_cut(out[-1]))
        return out

    def _next_cut(self, begin: int) -> int:
        """Where the piece ends that begins here.

        Of the legal cuts before the piece would hold too much, that is the one which the fewest
        values cross, and of several such the last.
        """
        end, best, least = len(self.lines), 0, 0
        held: dict[object, int] = {}
        for k in range(begin, end):
            held |= self._registers_of(self.lines[k])
            many, cut = sum(held.values()), k + 1
            if many > PIECE_HELD and best:
                return best
            legal = cut == end or not self.inseparable[cut]
            if legal and (not best or many <= LEAST_HELD or self.crossing[cut] <= least):
                best, least = cut, self.crossing[cut]
        return end

    def _registers_of(self, statement: Statement) -> dict[object, int]:
        """The registers of a statement: places in memory, registers of loads again, sums."""
        read = [n for n in statement.reads if n in self.definitions and self.reloadable(n)]
        users = [statement, *(self.lines[self.definitions[n]] for n in read)]
        sums = [n for n in (statement.target, *statement.reads) if n in self.sums]
        places = [_memory_place(s) for s in users if s.access is not None]
        return {**dict.fromkeys(places, 1), **dict.fromkeys(sums, SUM)}

    # --- the pieces ---------------------------------------------------------------------------

    @cached_property
    def handed_over(self) -> dict[str, Access]:
        """The values that a later piece gets from an earlier one in memory, and where they lie."""
        piece = {
            k: p for p, (begin, end) in enumerate(pairwise(self.bounds)) for k in range(begin, end)
        }
        rank = range(len(self.nest.domain))
        return {
            name: Access(Buffer(f"d{name}"), self.nest.domain, tuple(Axis(k) for k in rank))
            for name, last in self.last_uses()
            if self.depth[name]
            and not self.reloadable(name)
            and piece[last] > piece[self.definitions[name]]
        }

    @property
    def buffers(self) -> list[Temporary]:
        """The memory for values that are handed over."""
        return [
            Temporary(access.buffer.name, self.dtypes[name], access.dims)
            for name, access in self.handed_over.items()
        ]

    @property
    def nests(self) -> list[Nest]:
        """The pieces, in order."""
        return [self._piece(begin, end) for begin, end in pairwise(self.bounds)]

    def _piece(self, begin: int, end: int) -> Nest:
        """A nest of one piece's statements, with loads from earlier pieces and stores for later."""
        own: list[Statement] = []
        for s in self.lines[begin:end]:
            own.append(s)
            if s.target in self.handed_over:
                own.append(Statement.store((s.target,), self.handed_over[s.target]))
        before: dict[str, Statement] = {}
        for s in self.lines[begin:end]:
            for name in s.reads:
                self._enter_giver(name, begin, before)
        touched = {n for s in own for n in (s.target, *s.reads)}
        sums = tuple(a for a in self.nest.accumulators if a.name in touched)
        return replace(self.nest, statements=(*before.values(), *own), accumulators=sums)

    def _enter_giver(self, name: str, begin: int, before: dict[str, Statement]) -> None:
        """Enter the statement that gives a value of an earlier piece, after those it reads."""
        place = self.definitions.get(name, begin)
        if place >= begin or name in before or name in self.sums:
            return
        if name in self.handed_over:
            before[name] = Statement.load(name, self.handed_over[name])
            return
        for read in self.lines[place].reads:
            self._enter_giver(read, begin, before)
        before[name] = self.lines[place]

    def transferable(self, name: str) -> bool:
        """Whether a later piece can get the value."""
        again = self.depth[name] or self.lines[self.definitions[name]].memory not in self.written
        return bool(again) and super().transferable(name)

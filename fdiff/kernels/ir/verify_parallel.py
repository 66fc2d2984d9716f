"""Verification of programs for several threads: the laws of loop programs, and no data race.

In a parallel loop an iteration may write memory that all threads share only where it has entries of
its own. What else the loop adds up is private to a part: a reduction with a slot for each part, or
memory of which each part has a copy. Locals that one thread computes reach the others through a
slot. Checked where ``FDIFF_VERIFY`` is set, as it is in all tests.
"""

from __future__ import annotations

from .kernel_graph import KernelGraph
from .loops import BEGIN, END, Call, Item, LoopProgram, Nest, nests_and_calls
from .parallel import (
    PARTS,
    THREADS,
    ParallelLoop,
    ParallelProgram,
    SerialRegion,
    name_of_private_copy,
)
from .verify import Checks


def verify_parallel(
    program: ParallelProgram, graph: KernelGraph, place: str = ""
) -> ParallelProgram:
    """Check every law; return the program, or raise `TapeError` that says where one is broken."""
    checks = _ParallelChecks(program, graph, place)
    for item in program.items:
        if isinstance(item, SerialRegion):
            checks.region(item)
        elif isinstance(item, ParallelLoop):
            checks.loop(item)
        else:
            checks.replicated(item)
    checks.end()
    return program


class _ParallelChecks(Checks):
    """The checks of one program; `copies` tells of what there is a copy of each temporary each."""

    def __init__(self, program: ParallelProgram, graph: KernelGraph, place: str) -> None:
        serial = LoopProgram(program.temporaries, (), program.outputs, program.locals)
        super().__init__(serial, graph, place)
        self.copies = {t.name: t.copies for t in program.temporaries}

    def replicated(self, nest: Nest) -> None:
        """Check a nest that every thread computes: it has no loop, and reads inputs alone."""
        self.nest(nest)
        used = {s.memory for s in nest.all_statements if s.memory}
        self.law(not nest.domain and used <= self.given, "every thread uses memory that is written")

    def region(self, region: SerialRegion) -> None:
        """Check what one thread runs: of its locals the others know those that have slots."""
        before = set(self.names)
        for item in region.items:
            self.item(item)
        for name, slot in region.locals:
            self.law(name in self.names, "{} is handed over, and nothing has assigned it", name)
            self.law(self.copies.get(slot) == PARTS, "{} is no slot", slot)
        self.names = before | {name for name, _ in region.locals}

    def loop(self, loop: ParallelLoop) -> None:
        """Check a parallel loop, its reductions and the private copies of its parts."""
        before, totals = set(self.names), {total.name for total in loop.totals}
        for total in loop.totals:
            self.law(not total.continues or total.name in before, "{} is not begun", total.name)
            self.law(self.copies.get(total.slot) == PARTS, "{} is no slot", total.slot)
        private: dict[str, str] = {}
        for whole, copy in loop.copies:
            alike = (copy.dtype, copy.dims, copy.copies) == (whole.dtype, whole.dims, PARTS)
            self.law(alike, "{} is no copy of {}", copy.name, whole.name)
            self.law(whole.name in self.written, "{} is added to before it is written", whole.name)
            private[name_of_private_copy(copy)] = copy.dtype
        self.memory |= private
        self.written |= private.keys()
        with self.also("part", "parts", *totals):
            self.item(loop.item)
        self.no_race(loop.item, private)
        for name in private:
            del self.memory[name]
        self.names = before | totals
        self.nest(Nest((), loop.final))

    def no_race(self, item: Item, private: dict[str, str]) -> None:
        """Check that no two iterations of a parallel loop access what one of them writes."""
        written: set[str] = set()
        accesses: list[tuple[str, bool]] = []  # memory, and whether each iteration has its own
        for part in nests_and_calls(item):
            if isinstance(part, Call):
                rows = part.begins or ("",) * len(part.buffers)
                written.update(part.written)
                pairs = zip(part.buffers, rows, strict=True)
                accesses += [(name, bool(begin)) for name, begin in pairs]
                continue
            loop = 0 if part is item else _row_loop(part)
            for s in part.all_statements:
                if s.access is not None and s.memory:
                    written.update([s.memory] if s.writes else [])
                    accesses.append((s.memory, loop in s.access.injective_loops))
        for name, own in accesses:
            alone = own or name in private or self.copies.get(name) == THREADS
            self.law(alone or name not in written, "iterations on several threads share {}", name)


def _row_loop(nest: Nest) -> int:
    """The loop of a nest over the rows of a tile; -1 if it has none."""
    return nest.ranges.index((BEGIN, END)) if (BEGIN, END) in nest.ranges else -1

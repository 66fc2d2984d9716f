"""From a skeleton to the text of its kernel, for one thread or for several."""

from __future__ import annotations

import os
from functools import lru_cache

from ...process.collector import collector_paused
from ...process.forking import no_fork
from ..ir.graph import KernelGraph
from ..ir.loops import LoopProgram
from ..ir.parallel import PARTS, ParallelLoop
from ..kernel_source import GeneratedKernel, Work
from ..passes.parallel.parallelise import parallelise
from ..passes.parallel.work import work_of
from ..passes.pipeline import lower_graph
from .kernel import emit

VERIFY = "FDIFF_VERIFY"  # a variable of the environment: check the laws of every program
_ENTRY = 0.5  # ns for an entry of what a part has of its own


def plain(graph: KernelGraph) -> GeneratedKernel:
    """The kernel for one thread."""
    with collector_paused():
        program = loops_of(graph)
        return GeneratedKernel(emit(program, graph), tuple(work_of(item) for item in program.items))


def shared(graph: KernelGraph, heavy: frozenset[int]) -> GeneratedKernel | None:
    """The kernel for several threads, who share what is heavy; None if they could share nothing."""
    program = parallelise(loops_of(graph), heavy)
    if program is None:
        return None
    work = tuple(work_of(item.item) for item in program.items if isinstance(item, ParallelLoop))
    own = (Work(t.dims, _ENTRY) for t in program.temporaries if t.copies == PARTS)
    return GeneratedKernel(emit(program, graph), work, tuple(own), len(program.items))


@lru_cache(maxsize=1)
def loops_of(graph: KernelGraph) -> LoopProgram:
    """The loops; those of the last skeleton are at hand where its kernel is to be for threads."""
    program = lower_graph(graph)
    if os.environ.get(VERIFY):
        with no_fork:
            from ..ir.verify import verify  # noqa: PLC0415 - for tests alone

        verify(program, graph)
    return program

"""From a skeleton to the text of its kernel, for one thread or for several."""

from __future__ import annotations

import os
from functools import lru_cache

from ...process.collector import collector_paused
from ...process.forking import no_fork
from ..ir.graph import KernelGraph
from ..ir.loops import Program
from ..ir.parallel import PARTS, Shared
from ..kernel_source import Made, Work
from ..passes.parallel.parallelise import share
from ..passes.parallel.work import work_of
from ..passes.pipeline import schedule
from .kernel import emit

VERIFY = "FDIFF_VERIFY"  # a variable of the environment: check the laws of every program
_ENTRY = 0.5  # ns for an entry of what a part has of its own


def plain(graph: KernelGraph) -> Made:
    """The kernel for one thread."""
    with collector_paused():
        program = loops_of(graph)
        return Made(emit(program, graph), tuple(work_of(item) for item in program.items))


def shared(graph: KernelGraph, heavy: frozenset[int]) -> Made | None:
    """The kernel for several threads, who share what is heavy; None if they could share nothing."""
    program = share(loops_of(graph), heavy)
    if program is None:
        return None
    work = tuple(work_of(item.item) for item in program.items if isinstance(item, Shared))
    own = (Work(t.dims, _ENTRY) for t in program.temporaries if t.copies == PARTS)
    return Made(emit(program, graph), work, tuple(own), len(program.items))


@lru_cache(maxsize=1)
def loops_of(graph: KernelGraph) -> Program:
    """The loops; those of the last skeleton are at hand where its kernel is to be for threads."""
    program = schedule(graph)
    if os.environ.get(VERIFY):
        with no_fork:
            from ..ir.verify import verify  # noqa: PLC0415 - for tests alone

        verify(program, graph)
    return program

"""From a kernel graph to the text of its kernel, for one thread or for several."""

from __future__ import annotations

from functools import lru_cache

from ...process.collector import collector_paused
from ...tape import Tape
from ..ir.graph import KernelGraph
from ..ir.graph_of_tape import kernel_graph
from ..ir.loops import LoopProgram
from ..ir.parallel import PARTS, ParallelLoop
from ..kernel_source import GeneratedKernel, Work
from ..passes import pipeline
from ..passes.parallel.cost_model import work_of
from ..passes.pipeline import for_threads, lower_graph
from .kernel import emit

_ENTRY = 0.5  # ns for an entry of memory that is private to a part


def serial_kernel(graph: KernelGraph) -> GeneratedKernel:
    """The kernel for one thread."""
    with collector_paused():
        program = loop_program(graph)
        return GeneratedKernel(emit(program, graph), tuple(work_of(item) for item in program.items))


def parallel_kernel(graph: KernelGraph, heavy: frozenset[int]) -> GeneratedKernel | None:
    """The kernel for several threads, which share the `heavy` items; None if none is parallel."""
    program = for_threads(loop_program(graph), graph, heavy)
    if program is None:
        return None
    work = tuple(work_of(item.item) for item in program.items if isinstance(item, ParallelLoop))
    own = (Work(t.dims, _ENTRY) for t in program.temporaries if t.copies == PARTS)
    return GeneratedKernel(emit(program, graph), work, tuple(own), len(program.items))


def text_after(tape: Tape, layouts: tuple[str, ...], stage: str) -> str:
    """The program of `tape` as text after the pass called `stage`."""
    return pipeline.text_after(kernel_graph(tape, layouts)[0], stage)


@lru_cache(maxsize=1)
def loop_program(graph: KernelGraph) -> LoopProgram:
    """The loops; those of the last graph are kept, since its kernel for threads may be next."""
    return lower_graph(graph)

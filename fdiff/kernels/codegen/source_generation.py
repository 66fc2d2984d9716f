"""From a kernel graph to the text of its kernel, for one thread or for several."""

from __future__ import annotations

from functools import lru_cache

from ...process.garbage_collection import collector_paused
from ...process.observed_spans import COMPILE, span
from ...tape import Tape
from ..ir.graph_of_tape import kernel_graph
from ..ir.kernel_graph import KernelGraph
from ..ir.loops import Item, LoopProgram, Nest, nests_and_calls
from ..ir.parallel import PARTS, ParallelLoop, SerialRegion
from ..kernel_source import GeneratedKernel, TimedItem, TimedSource, Work
from ..passes import pipeline
from ..passes.parallel.cost_model import routine_work, work_of
from ..passes.pipeline import for_threads, lower_graph
from .kernel import emit

_ENTRY = 0.5  # ns for an entry of memory that is private to a part


def serial_kernel(graph: KernelGraph) -> GeneratedKernel:
    """The kernel for one thread."""
    with collector_paused():
        program = loop_program(graph)
        with span("emit", COMPILE):
            source = emit(program, graph)
        work = tuple(work_of(item) for item in program.items)
        routines = tuple(routine for item in program.items for routine in routine_work(item))
        return GeneratedKernel(source, work, routines=routines)


def parallel_kernel(graph: KernelGraph, heavy: frozenset[int]) -> GeneratedKernel | None:
    """The kernel for several threads, which share the `heavy` items; None if none is parallel."""
    program = for_threads(loop_program(graph), graph, heavy)
    if program is None:
        return None
    work = tuple(work_of(item.item) for item in program.items if isinstance(item, ParallelLoop))
    own = (Work(t.dims, _ENTRY) for t in program.temporaries if t.copies == PARTS)
    return GeneratedKernel(emit(program, graph), work, tuple(own), len(program.items))


def timed_kernel(graph: KernelGraph, heavy: frozenset[int]) -> TimedSource | None:
    """The kernel with time stamps between its items; None if it is too long to be one function.

    `heavy` are the items that threads share, as for `parallel_kernel`; none for one thread.
    """
    loops = loop_program(graph)
    program = (for_threads(loops, graph, heavy) if heavy else None) or loops
    with collector_paused():
        plain, source = emit(program, graph), emit(program, graph, timed=True)
    if plain.facts.outlined:
        return None
    return TimedSource(source, plain.text, tuple(map(_timed_item, program.items)))


def _timed_item(item: Item | ParallelLoop | SerialRegion) -> TimedItem:
    """The operations that an item's nests compute, and its work."""
    inside = item.items if isinstance(item, SerialRegion) else (_serial(item),)
    parts = [part for inner in inside for part in nests_and_calls(inner)]
    loops = max((p.domain for p in parts if isinstance(p, Nest)), key=len, default=())
    computed = tuple(dict.fromkeys(c for part in parts for c in part.computed))
    comments = tuple(dict.fromkeys(part.comment for part in parts))
    work = tuple(work for inner in inside for work in work_of(inner))
    return TimedItem(computed, comments, loops, work)


def _serial(item: Item | ParallelLoop) -> Item:
    return item.item if isinstance(item, ParallelLoop) else item


def text_after(tape: Tape, layouts: tuple[str, ...], stage: str) -> str:
    """The program of `tape` as text after the pass called `stage`."""
    return pipeline.text_after(kernel_graph(tape, layouts)[0], stage)


@lru_cache(maxsize=1)
def loop_program(graph: KernelGraph) -> LoopProgram:
    """The loops; the latest graph's are kept, because its kernel for threads may be next."""
    return lower_graph(graph)

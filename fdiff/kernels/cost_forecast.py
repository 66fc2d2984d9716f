"""Predicted costs of a kernel before compilation: compile time, run time, memory, caches.

Texts are generated where they are in no cache; nothing is compiled, loaded or run.
"""

from __future__ import annotations

from ..named_tuples import NamedTuple
from ..tape import Tape
from . import disk_cache, kernel_names
from .compiler_choice import compiler_of
from .ir.graph_of_tape import kernel_graph, nodes_of_operations
from .kernel_lookup import kernel_in_memory, predict_seconds, workspace
from .passes.fusion_report import FusionReport, fusion_report, moved_bytes
from .source_cache import place_of_source, predict_run_seconds, select_source, uncounted_routines
from .tape_costs import CALL_SECONDS
from .thread_pool import threads


class KernelForecast(NamedTuple):
    """A kernel before it is made.

    `text` and `code` are "memory", "disk" or "": where the text and the machine code are found.
    `compile_seconds` is the predicted price of what is still to be done, without the start of the
    compiler; `run_seconds` the price of one hot call with its data in the cache, without the
    `uncounted` routines. `workspace` are bytes of temporaries, `threads` how many share its loops.
    """

    compiler: str
    text: str
    code: str
    compile_seconds: float
    run_seconds: float
    uncounted: tuple[str, ...]
    workspace: int
    threads: int


def kernel_forecast(tape: Tape, compiler: str = "") -> KernelForecast:
    """The forecast of the kernel of `tape` for contiguous arrays."""
    layouts = ("C",) * len(tape.inputs)
    compiler = compiler_of(compiler)
    graph, values = kernel_graph(tape, layouts)
    text = place_of_source(graph)
    choice = select_source(graph, values)
    in_memory = kernel_in_memory(graph, choice.source, compiler)
    on_disk = disk_cache.has(kernel_names.name_of(choice.source.text, compiler))
    return KernelForecast(
        compiler,
        "memory" if in_memory else text,
        "memory" if in_memory else "disk" if on_disk else "",
        0.0 if in_memory or on_disk else predict_seconds(tape, layouts, compiler),
        CALL_SECONDS + predict_run_seconds(graph, values),
        uncounted_routines(graph),
        workspace(tape, layouts),
        min(choice.parts, threads()),
    )


class Fusion(NamedTuple):
    """The fused form of a tape; `sizes` are the values of ``n0, n1, ...`` in the report."""

    report: FusionReport
    moved: int  # bytes that one run reads and writes
    sizes: tuple[int, ...]


def fusion_of(tape: Tape) -> Fusion:
    """The fused form of `tape` after the passes of the compiler."""
    layouts = ("C",) * len(tape.inputs)
    graph, values = kernel_graph(tape, layouts)
    report = fusion_report(graph, nodes_of_operations(tape, layouts))
    sizes = tuple(values.ints[: graph.sizes])
    return Fusion(report, moved_bytes(report.program, sizes), sizes)

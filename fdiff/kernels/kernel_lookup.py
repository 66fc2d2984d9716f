"""From a tape to an executable kernel: in memory, on disk, or compiled now.

Importing this does not load LLVM (`late_imports`). ``FDIFF_CACHE_DIR`` moves the disk cache, and
``FDIFF_CACHE_DIR=off`` switches it off. The 256 kernels used last stay in memory; one that is
dropped lives on as long as something holds its `Executable`. The caches:
docs/decisions/source-and-object-caches.md.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from ..bounded_cache import keep_recent
from ..named_tuples import NamedTuple
from ..process import background
from ..process.observed_spans import CACHE, mark
from ..process.progress import Stage
from ..tape import Tape
from . import disk_cache, kernel_names, late_imports
from .compiler_choice import compiler_of, seconds_of
from .ir.graph_of_tape import has_kernel as has_kernel  # noqa: PLC0414 - for whoever asks `kernels`
from .ir.graph_of_tape import kernel_graph, no_kernel
from .ir.graph_of_tape import missing as missing  # noqa: PLC0414 - for whoever asks `kernels`
from .ir.graph_of_tape import supported as supported  # noqa: PLC0414 - for whoever asks `kernels`
from .ir.kernel_graph import KernelGraph
from .ir.parallel import PARTS, THREADS
from .kernel_source import KernelSource
from .source_cache import (
    forget,
    has_kernel_of_length,
    has_source_on_disk,
    record_tape_length,
    select_source,
    write_to_disk,
)
from .thread_pool import threads

if TYPE_CHECKING:
    from .executable import Executable, Kernel


class CacheInfo(NamedTuple):
    """Counters of this process: kernels compiled, read from disk, found in memory.

    `retained_data` counts arrays that functions captured and that are held for their next call.
    """

    compiled: int
    loaded: int
    hits: int
    entries: int
    seconds: float
    retained_data: int = 0


_MOST = 256  # kernels in memory: 90 KB each, with all that belongs to them
_Key = tuple[KernelGraph, str, str]
_kernels: dict[_Key, Kernel] = {}
_hits = [0]
_import = background.Task()  # of the passes


def started() -> bool:
    """Whether LLVM is loaded."""
    return f"{__package__}.machine_code" in sys.modules


def can_schedule() -> bool:
    """Whether the passes are imported. That takes 0.1 s: a background thread does it if it may."""
    scheduler = f"{__package__}.codegen.source_generation"
    if scheduler not in sys.modules and background.possible() and not background.worker.runs_here():
        _import.start(lambda: late_imports.source_generation, lambda: math.inf)
    return not _import.under_way


def compiler_is_busy() -> bool:
    """Whether another thread compiles, so that a call that compiles would wait for it."""
    return started() and late_imports.machine_code.is_busy()


def _key(graph: KernelGraph, kernel_source: KernelSource, compiler: str) -> _Key:
    """The key of a kernel in memory; only its text shows which loops are parallel."""
    return graph, kernel_source.text if kernel_source.threaded else "", compiler


def source(tape: Tape, layouts: tuple[str, ...]) -> str:
    """Text of the kernel of `tape`."""
    return select_source(*kernel_graph(tape, layouts)).source.text


def predict_seconds(tape: Tape, layouts: tuple[str, ...], compiler: str = "") -> float:
    """How long compiling would take, without LLVM's own start; 0 if the kernel is in memory."""
    graph, values = kernel_graph(tape, layouts)
    kernel_source, compiler = select_source(graph, values).source, compiler_of(compiler)
    in_memory = _key(graph, kernel_source, compiler) in _kernels
    return 0.0 if in_memory else seconds_of(compiler, kernel_source.seconds())


def kernel_in_memory(graph: KernelGraph, kernel_source: KernelSource, compiler: str) -> bool:
    """Whether this process has the kernel of a source."""
    return _key(graph, kernel_source, compiler) in _kernels


def workspace(tape: Tape, layouts: tuple[str, ...]) -> int:
    """Bytes that the kernel of `tape` holds besides its inputs and outputs."""
    graph, values = kernel_graph(tape, layouts)
    choice = select_source(graph, values)
    copies = {"": 1, THREADS: threads(), PARTS: choice.parts}
    return sum(
        buffer.bytes(values.ints) * copies[buffer.copies] for buffer in choice.source.buffers
    )


def seen(tape: Tape) -> bool:
    """Whether there may be a kernel of `tape`: there is one of some tape of this length."""
    return has_kernel_of_length(len(tape))


def on_disk(tape: Tape, layouts: tuple[str, ...], compiler: str = "") -> bool:
    """Whether the kernel is in memory or can be read from disk, found out without making any."""
    graph, values = kernel_graph(tape, layouts)
    compiler = compiler_of(compiler)
    if (graph, "", compiler) not in _kernels and not has_source_on_disk(graph):
        return False
    kernel_source = select_source(graph, values).source
    in_memory = _key(graph, kernel_source, compiler) in _kernels
    return in_memory or disk_cache.has(kernel_names.name_of(kernel_source.text, compiler))


def cache_info() -> CacheInfo:
    """Counts of the caches in this process."""
    if not started():
        return CacheInfo(0, 0, 0, 0, 0.0)
    machine = late_imports.machine_code
    compiled, loaded = machine.counts["compiled"], machine.counts["loaded"]
    return CacheInfo(compiled, loaded, _hits[0], len(_kernels), machine.seconds[0])


def cache_clear(*, disk: bool = False) -> None:
    """Forget the kernels in memory, and on request the kernels on disk."""
    _kernels.clear()
    forget()
    if started():
        late_imports.machine_code.release()
    if disk:
        disk_cache.clear()


def compile(  # noqa: A001 - the module is the namespace
    tape: Tape, layouts: tuple[str, ...], compiler: str = "", *, serial: bool = False
) -> Executable:
    """The kernel of `tape` for inputs of these layouts (``"C"``, or ``"A"`` for any strides).

    `compiler` is one of `COMPILERS`, by default the one that the environment says.
    A `serial` kernel runs on the thread that calls it.
    """
    machine, compiler = late_imports.machine_code, compiler_of(compiler)
    graph, values = kernel_graph(tape, layouts)
    choice = select_source(graph, values, serial=serial)
    kernel_source = choice.source
    key = _key(graph, kernel_source, compiler)
    kernel = _kernels.get(key)
    mark(f"kernel in memory: {'miss' if kernel is None else 'hit'}", CACHE)
    if kernel is None:
        if missing(tape):
            raise no_kernel(tape)
        record_tape_length(len(tape))
        background.checkpoint()
        size, seconds = len(graph.ops), seconds_of(compiler, kernel_source.seconds())
        with Stage("compiling", size=size, seconds=seconds), machine.compiling():
            if (kernel := _kernels.get(key)) is None:
                made_now = machine.make_kernel(kernel_source, layouts, compiler)
                kernel = keep_recent(_kernels, key, made_now, _MOST)
                write_to_disk(graph, choice)
    else:
        _hits[0] += 1
        keep_recent(_kernels, key, kernel, _MOST)
    with Stage("loading", size=len(tape)):
        return machine.Executable(kernel, tape, values, choice.parts)

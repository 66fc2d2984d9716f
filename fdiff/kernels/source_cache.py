"""The sources of kernels by their graphs: in memory, on disk, or generated now.

Passes and code generation take longer than loading a kernel does, so both are cached on disk: the
machine code by its source, and the source, with its cost model, by the graph.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from ..named_tuples import NamedTuple
from ..process.forking import no_fork
from ..process.observed_spans import CACHE, mark, span
from . import disk_cache, kernel_names, late_imports
from .ir.kernel_graph import KernelGraph, Values
from .kernel_source import GeneratedKernel, KernelSource, TextFacts, Work, WorkspaceBuffer
from .thread_break_even import parts_for_threads, shared_items
from .thread_pool import threads

_names_on_disk: set[str] = set()  # names of the files that this process read or wrote
_sizes: set[int] = set()  # lengths of the tapes that have kernels
_LONGEST = 1000  # lines of a kernel for threads: nothing in it is outlined, so it compiles slowly


class SelectedSource(NamedTuple):
    """The source for some sizes, and the number of parts of its parallel loops."""

    source: KernelSource
    parts: int
    heavy: frozenset[int] = frozenset()  # the numbers of the items that are shared


def select_source(graph: KernelGraph, values: Values, *, serial: bool = False) -> SelectedSource:
    """The source for these sizes: for several threads, if they gain by it and not `serial`.

    C functions of the user are called by one thread, since nobody says that several may.
    """
    generated = _serial(graph)
    if (
        not (serial or values.owners)
        and threads() > 1
        and parts_for_threads(generated, values.ints) > 1
        and generated.lines <= _LONGEST
    ):
        heavy = shared_items(generated, values.ints)
        parallel_kernel = _parallel(graph, heavy)
        parts = 1 if parallel_kernel is None else parts_for_threads(parallel_kernel, values.ints)
        if parallel_kernel is not None and parts > 1:
            return SelectedSource(parallel_kernel.source, parts, heavy)
    return SelectedSource(generated.source, 1)


def place_of_source(graph: KernelGraph) -> str:
    """Where the source of a graph for one thread is found: "memory", "disk", or "" for nowhere.

    If it is nowhere, it has been generated now.
    """
    on_disk, before = has_source_on_disk(graph), _serial.cache_info().hits
    _serial(graph)
    if _serial.cache_info().hits > before:
        return "memory"
    return "disk" if on_disk else ""


def predict_run_seconds(graph: KernelGraph, values: Values) -> float:
    """Seconds of one run with all data in the cache, by the cost model."""
    generated, choice = _serial(graph), select_source(graph, values)
    loops = sum(w.nanoseconds(values.ints) for works in generated.work for w in works)
    called = sum(w.nanoseconds(values.ints) for _, works in generated.routines for w in works)
    return 1e-9 * (loops / max(1, min(choice.parts, threads())) + called)


def uncounted_routines(graph: KernelGraph) -> tuple[str, ...]:
    """The routines that a kernel calls of whose time nothing is known."""
    return tuple(dict.fromkeys(name for name, work in _serial(graph).routines if not work))


def write_to_disk(graph: KernelGraph, choice: SelectedSource) -> None:
    """Write the source to disk, for later processes."""
    _write(_name(graph), _serial(graph))
    if choice.heavy and (parallel_kernel := _parallel(graph, choice.heavy)):
        _write(_name(graph, choice.heavy), parallel_kernel)


def has_source_on_disk(graph: KernelGraph) -> bool:
    """Whether the source of a graph is on disk."""
    name = _name(graph)
    return name in _names_on_disk or (bool(name) and disk_cache.has(name))


def record_tape_length(length: int) -> None:
    """Remember, here and on disk, that there is a kernel of a tape of this length."""
    if length not in _sizes:
        _sizes.add(length)
        if disk_cache.directory() is not None:
            disk_cache.write(_name_of_size(length), "size", b"")


def has_kernel_of_length(length: int) -> bool:
    """Whether there is a kernel of a tape of this length, in memory or on disk."""
    if length not in _sizes and disk_cache.read(_name_of_size(length), "size") is not None:
        _sizes.add(length)
    return length in _sizes


def _name_of_size(length: int) -> str:
    return kernel_names.name_of_text(f"a tape of {length} nodes")


def forget() -> None:
    """Drop all sources from memory."""
    _sizes.clear()
    _serial.cache_clear()
    _parallel.cache_clear()
    _names_on_disk.clear()
    generation = sys.modules.get(f"{__package__}.codegen.source_generation")
    loop_program = getattr(generation, "loop_program", None)  # None while a thread imports it
    if loop_program is not None:
        loop_program.cache_clear()


@lru_cache(maxsize=256)  # as many as kernels are kept: 8 KB each
def _serial(graph: KernelGraph) -> GeneratedKernel:
    """The kernel for one thread."""
    stored = _read(_name(graph))
    if stored is not None:
        return stored
    return late_imports.source_generation.serial_kernel(graph)


@lru_cache(maxsize=256)
def _parallel(graph: KernelGraph, heavy: frozenset[int]) -> GeneratedKernel | None:
    """The kernel for several threads, which share the `heavy` items; None if none is parallel."""
    stored = _read(_name(graph, heavy))
    if stored is not None:
        return stored
    return late_imports.source_generation.parallel_kernel(graph, heavy)


# --- on disk ----------------------------------------------------------------------------------


def _name(graph: KernelGraph, heavy: frozenset[int] = frozenset()) -> str:
    """The name of the file of a source; empty without a cache."""
    return kernel_names.name_of_text(f"{graph}{sorted(heavy)}") if disk_cache.directory() else ""


def _write(name: str, generated: GeneratedKernel) -> None:
    with no_fork:
        import json  # noqa: PLC0415 - 1 ms that most first results can do without

    if name and name not in _names_on_disk:
        _names_on_disk.add(name)
        source = generated.source
        record = (
            (source.text, source.routines, source.buffers),
            (source.threaded, source.facts),
            *generated[1:],
        )
        disk_cache.write(name, "text", json.dumps(record).encode())


def _read(name: str) -> GeneratedKernel | None:
    with span("read text", CACHE):
        payload = disk_cache.read(name, "text") if name else None
    mark(f"text on disk: {'miss' if payload is None else 'hit'}", CACHE)
    if payload is None:
        return None
    _names_on_disk.add(name)
    with no_fork:
        import json  # noqa: PLC0415 - 1 ms that most first results can do without

    parts, (threaded, facts), work, private_work, barriers, called = _frozen(json.loads(payload))
    text, routines, buffers = parts
    own = tuple(WorkspaceBuffer(*b) for b in buffers)
    source = KernelSource(text, routines, own, threaded, TextFacts(*facts))
    return GeneratedKernel(
        source,
        tuple(tuple(Work(*w) for w in some) for some in work),
        tuple(Work(*w) for w in private_work),
        barriers,
        tuple((name, tuple(Work(*w) for w in some)) for name, some in called),
    )


def _frozen(value: object) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value

"""From a skeleton to the text of its kernel: made here, or as an earlier process left it on disk.

Loops and text take longer than loading the kernel does, so both are kept: the kernel by its text,
and the text, with what is known of its work, by the skeleton.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, NamedTuple

from ..process.forking import no_fork
from . import cache, on_demand
from .ir.graph import KernelGraph, Values
from .kernel_source import GeneratedKernel, KernelSource, Work, WorkspaceBuffer
from .thread_pool import threads

_intact: set[str] = set()  # the files that were read or written
_sizes: set[int] = set()  # the lengths of the tapes whose kernels these are
_LONGEST = 1000  # lines of a kernel for threads: it has no steps, and compiling grows faster


class SelectedSource(NamedTuple):
    """The text for some sizes, and in how many parts its loops are shared."""

    source: KernelSource
    parts: int
    heavy: frozenset[int] = frozenset()  # the items that are


def select_source(graph: KernelGraph, values: Values) -> SelectedSource:
    """The text for these sizes."""
    made = _plain(graph)
    if threads() > 1 and made.parts(values.ints) > 1 and made.lines <= _LONGEST:
        heavy = made.heavy(values.ints)
        shared = _shared(graph, heavy)
        parts = 1 if shared is None else shared.parts(values.ints)
        if shared is not None and parts > 1:
            return SelectedSource(shared.source, parts, heavy)
    return SelectedSource(made.source, 1)


def write_to_disk(graph: KernelGraph, choice: SelectedSource) -> None:
    """Leave the text on disk, for processes that find its kernel there."""
    _write(_name(graph), _plain(graph))
    if choice.heavy and (shared := _shared(graph, choice.heavy)):
        _write(_name(graph, choice.heavy), shared)


def has_source_on_disk(graph: KernelGraph) -> bool:
    """Whether a text is on disk."""
    name = _name(graph)
    return name in _intact or (bool(name) and cache.has(name))


def record_tape_length(length: int) -> None:
    """Remember, here and on disk, that there is a kernel of a tape of this length."""
    if length not in _sizes:
        _sizes.add(length)
        if cache.directory() is not None:
            cache.write(_name_of_size(length), "size", b"")


def has_kernel_of_length(length: int) -> bool:
    """Whether there is a kernel of a tape of this length, in memory or on disk."""
    if length not in _sizes and cache.read(_name_of_size(length), "size") is not None:
        _sizes.add(length)
    return length in _sizes


def _name_of_size(length: int) -> str:
    return cache.name_of_text(f"a tape of {length} nodes")


def forget() -> None:
    """Forget the texts in memory."""
    _sizes.clear()
    _plain.cache_clear()
    _shared.cache_clear()
    _intact.clear()
    if (making := sys.modules.get(f"{__package__}.codegen.source_generation")) is not None:
        making.loops_of.cache_clear()


@lru_cache(maxsize=2048)
def _plain(graph: KernelGraph) -> GeneratedKernel:
    """The kernel for one thread."""
    found = _read(_name(graph))
    if found is not None:
        return found
    return on_demand.source_generation.plain(graph)


@lru_cache(maxsize=256)
def _shared(graph: KernelGraph, heavy: frozenset[int]) -> GeneratedKernel | None:
    """The kernel for several threads, who share what is heavy; None if they could share nothing."""
    found = _read(_name(graph, heavy))
    if found is not None:
        return found
    return on_demand.source_generation.shared(graph, heavy)


# --- on disk ----------------------------------------------------------------------------------


def _name(graph: KernelGraph, heavy: frozenset[int] = frozenset()) -> str:
    """Where the text lies; nowhere without a cache."""
    return cache.name_of_text(f"{graph}{sorted(heavy)}") if cache.directory() else ""


def _write(name: str, made: GeneratedKernel) -> None:
    with no_fork:
        import json  # noqa: PLC0415 - 1 ms that most first results can do without

    if name and name not in _intact:
        _intact.add(name)
        source = made.source
        rest = (source.text, source.routines, source.buffers, source.shared)
        cache.write(name, "text", json.dumps((rest, made.work, made.own, made.turns)).encode())


def _read(name: str) -> GeneratedKernel | None:
    payload = cache.read(name, "text") if name else None
    if payload is None:
        return None
    _intact.add(name)
    with no_fork:
        import json  # noqa: PLC0415 - 1 ms that most first results can do without

    (text, routines, buffers, shared), work, own, turns = _frozen(json.loads(payload))
    source = KernelSource(text, routines, tuple(WorkspaceBuffer(*room) for room in buffers), shared)
    return GeneratedKernel(
        source,
        tuple(tuple(Work(*w) for w in some) for some in work),
        tuple(Work(*w) for w in own),
        turns,
    )


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value

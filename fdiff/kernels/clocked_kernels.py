"""Kernels that tell when each of their loop nests began, for profiles.

The text of a kernel is generated once more with a line between its items that reads the processor's
clock. Everything else in it stays as it is, which is checked.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from time import perf_counter_ns
from typing import NamedTuple

import fdiff.intact_numpy as np

from ..process.observation import PROFILER, span
from ..tape import Tape
from . import on_demand
from .compiler_choice import compiler_of, seconds_of
from .executable import Executable
from .ir.graph_of_tape import kernel_graph, nodes_of_operations
from .kernel_source import TimedItem
from .llvm.processor_words import has_clock
from .passes.fusion_report import FusionReport, fusion_report
from .source_cache import select_source

LONGEST = 2.0  # seconds: a kernel that would take longer to compile again is timed as a whole
_NOW = 'def ticks_now() -> "i8":\n    return rt.ticks()\n'
_READINGS = 3  # of both clocks, before a call and after it


class NestInfo(NamedTuple):
    """A loop nest, or several that run tile by tile: what it computes, its loops, its share.

    `names` are its operations, `nodes` those nodes of the tape that are computed in it, as far as
    they are known, `loops` the sizes of the loops, `share` the part of the kernel's time that the
    cost model predicts.
    """

    names: tuple[str, ...]
    nodes: tuple[int, ...]
    loops: tuple[str, ...]
    share: float


class ClockedKernel(NamedTuple):
    """The nests of a kernel, and the kernel that times them, if any."""

    nests: tuple[NestInfo, ...]
    executable: Executable | None
    why: str  # there is none

    def __call__(self, arrays: Sequence[object]) -> tuple[tuple[np.ndarray, ...], Stamps]:
        """The outputs, and when each nest began."""
        assert self.executable is not None, "its caller has looked"
        ticks = np.zeros(len(self.nests) + 1, np.int64)
        begin = _moment()
        outs = self.executable(*arrays, ticks)
        return outs, Stamps(begin, ticks, _moment())


def clocked_kernel(tape: Tape, layouts: tuple[str, ...], compiler: str) -> ClockedKernel:
    """The kernel of a tape with time stamps between its loop nests, compiled now."""
    compiler = compiler_of(compiler)
    graph, values = kernel_graph(tape, layouts)
    choice = select_source(graph, values)
    with span("generate text with time stamps", PROFILER):
        timed = on_demand.source_generation.timed_kernel(graph, choice.heavy)
    if timed is None:
        return ClockedKernel((), None, "it is so long that its nests became functions")
    work = [sum(w.nanoseconds(values.ints) for w in item.work) for item in timed.items]
    whole = sum(work) or 1.0
    with span("find out what is in each loop nest", PROFILER):
        report = fusion_report(graph, nodes_of_operations(tape, layouts))
    loops = [tuple(_size(d, values.ints) for d in item.loops) for item in timed.items]
    inside = [_inside(item, report) for item in timed.items]
    nests = tuple(
        NestInfo(*names_and_nodes, sizes, w / whole)
        for names_and_nodes, sizes, w in zip(inside, loops, work, strict=True)
    )
    seconds = seconds_of(compiler, timed.source.seconds())
    if why := _refused(timed.text, choice.source.text, nests, seconds):
        return ClockedKernel(nests, None, why)
    machine = on_demand.machine_code
    with span("compile with time stamps", PROFILER), machine.compiling():
        kernel = machine.make_kernel(timed.source, layouts, compiler)
        executable = machine.Executable(kernel, tape, values, choice.parts, len(nests) + 1)
    return ClockedKernel(nests, executable, "")


_ROOT = re.compile(r"(?:(\w+) = )?(\w+)")  # a part of a nest's comment: memory, operation


def _inside(item: TimedItem, report: FusionReport) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The operations of an item, and their nodes: the operations of the nests that form it.

    A nest is identified by the memory that it writes to, which its comment names; a nest that
    writes to none is identified by its operation alone, and its nodes are unknown.
    """
    parts = [part for comment in item.comments for part in comment.split(", ")]
    roots = [match.groups() for part in parts if (match := _ROOT.fullmatch(part)) is not None]
    written = {place for place, _ in roots if place}
    nests = [nest for nest in report.nests if written & {*nest.writes}]
    names = [name for nest in nests for name in nest.names]
    names += [name for place, name in roots if not place]
    nodes = sorted({node for nest in nests for node in nest.nodes})
    return tuple(dict.fromkeys(names)) or item.comments, tuple(nodes)


def _refused(text: str, own: str, nests: tuple[NestInfo, ...], seconds: float) -> str:
    """Why a kernel is timed as a whole; empty if it is not."""
    if len(nests) < 2:
        return "it has one loop nest"
    if not has_clock():
        return "the clock of this processor is not known"
    if text != own:
        return "its text was generated by other settings"
    return "compiling it again would take too long" if seconds > LONGEST else ""


def _size(dim: str, sizes: tuple[int, ...]) -> str:
    """A size by its value, where it is a symbol."""
    return str(sizes[int(dim[1:])]) if dim[:1] == "n" and dim[1:].isdigit() else dim


class Moment(NamedTuple):
    """A moment by the processor's clock and by `time.perf_counter_ns`."""

    ticks: int
    nanoseconds: int


class Stamps(NamedTuple):
    """The processor's clock before each nest of one call and at its end, between two moments.

    The two clocks are compared around each call: a rate that was measured once is off by some
    parts in ten thousand, which is more than a whole call some seconds later.
    """

    begin: Moment
    ticks: np.ndarray
    end: Moment

    def times(self) -> list[int]:
        """The stamps in `time.perf_counter_ns`, kept between both moments should cores disagree."""
        (first, start), (last, stop) = self.begin, self.end
        whole = max(last - first, 1)
        passed = [min(max(ticks - first, 0), whole) for ticks in self.ticks.tolist()]
        return [start + round(p / whole * (stop - start)) for p in passed]


@lru_cache(maxsize=1)
def _ticks_now() -> Callable[[], int]:
    return ctypes.CFUNCTYPE(ctypes.c_int64)(on_demand.machine_code.function(_NOW, "glue"))


def _moment() -> Moment:
    """Now, by both clocks: the best of some readings, since the thread may lose its core in one."""
    now, readings = _ticks_now(), []
    for _ in range(_READINGS):
        before, ticks, after = perf_counter_ns(), now(), perf_counter_ns()
        readings.append((after - before, Moment(ticks, (before + after) // 2)))
    return min(readings)[1]

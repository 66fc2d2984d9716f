"""The generated source of a kernel, with its workspace and the cost model of its compile and run.

A process that finds a kernel's source on disk loads this module, and none of the passes. See
docs/decisions/source-and-object-caches.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..named_tuples import NamedTuple
from .ir.index_expressions import Dims
from .ir.kernel_graph import Computed
from .ir.loops import BLOCK
from .ir.operation_costs import INLINED
from .ir.tile_sizes import count_entries, tile_height_at
from .ir.word_table import with_periodic_of_libm

INDENT = "    "
STARTED = "started"  # the local that holds when a kernel with loops over trips began
TRIP = "trip"  # how the names of trips of loops begin
_FACTORS = re.compile(r"\bn?\d+\b")


def indented(lines: Iterable[str]) -> list[str]:
    """The lines one level deeper."""
    return [INDENT + line for line in lines]


class WorkspaceBuffer(NamedTuple):
    """A piece of the workspace, for an array of shape `dims`; the others as in `Temporary`.

    There is one for each thread, or for each part of a parallel loop, if `copies` says so.
    """

    dims: Dims
    dtype: str
    rows: tuple[Dims, ...] = ()
    copies: str = ""
    least: int = 0
    over: Dims = ()

    def bytes(self, sizes: tuple[int, ...]) -> int:
        """Its size for these values of ``n0, n1, ...``: bytes, rounded up to whole cache lines."""
        total = int(self.dtype[1]) * count_entries(tuple(d for d in self.dims if d != BLOCK), sizes)
        total *= min(1, count_entries(self.over, sizes))
        if BLOCK in self.dims:
            total *= tile_height_at(self.rows, self.least, sizes)
        return -(-total // 64) * 64


class IntegerTable(NamedTuple):
    """The table of integers of a kernel: the counts of its entries; properties say where some are.

    In order: the `numbers` of the graph (sizes and integers); addresses of the `routines` and, if
    there are any, of the table of what they call; where each of the `buffers` begins in the
    workspace, and where the last ends; of a `threaded` kernel, the number of parts, and how many
    entries of each buffer are one copy; if there are loops over trips, whether these are to end.
    """

    numbers: int
    routines: int
    buffers: int
    threaded: bool

    @property
    def blas(self) -> int:
        """The table of what routines call; a second one, for parts of loops, if `threaded`."""
        return self.numbers + self.routines

    @property
    def begins(self) -> int:
        """Where the first buffer begins in the workspace."""
        tables = 2 if self.threaded else 1
        return self.blas + (tables if self.routines else 0)

    @property
    def parts(self) -> int:
        """The number of parts of loops, if `threaded`; the sizes of single copies follow."""
        return self.begins + self.buffers + 1

    @property
    def stop(self) -> int:
        """Whether loops over trips are to end, if there are any: the last entry then."""
        return self.parts + (self.buffers + 1 if self.threaded else 0)


class Work(NamedTuple):
    """Estimated work: `cost` nanoseconds for each entry of `dims`, which may be products."""

    dims: Dims
    cost: float

    def nanoseconds(self, sizes: tuple[int, ...]) -> float:
        """The work for these values of ``n0, n1, ...``."""
        factors = _FACTORS.findall(" ".join(self.dims))
        return self.cost * math.prod(int(f) if f.isdigit() else sizes[int(f[1:])] for f in factors)


class TextFacts(NamedTuple):
    """What the loop program, and the lines made of it, state of the text of a kernel.

    Whether there are loops over `trips`, which may take any time, however little they read and
    write; whether sines, cosines or tangents may refuse `angles`; whether functions that were
    `outlined` stand before the kernel. Of a `straight` one, all is computed in the trips of loops,
    without loops and elementary functions: no loop has more than one or two moves, so that vectors
    make none faster.

    The others are counts: `loops` of nests, lines that are `nested` in a block or a loop, `calls`
    of elementary functions, and how many different `functions` these are.
    """

    trips: bool = False
    angles: bool = False
    outlined: bool = False
    straight: bool = False
    loops: int = 0
    nested: int = 0
    calls: int = 0
    functions: int = 0


NO_FACTS = TextFacts()


@dataclass(frozen=True)
class KernelSource:
    """Text of a kernel, and what its table of integers refers to: see `IntegerTable`."""

    text: str
    routines: tuple[str, ...]
    buffers: tuple[WorkspaceBuffer, ...]
    threaded: bool = False
    facts: TextFacts = NO_FACTS

    def table(self, numbers: int) -> IntegerTable:
        """The table of integers, for the `numbers` of the graph."""
        return IntegerTable(numbers, len(self.routines), len(self.buffers), self.threaded)

    def seconds(self) -> float:
        """What compiling takes: so much for any kernel, a line, a loop, an elementary function.

        A line inside a loop counts nearly twice, since LLVM makes vectors of it.

        Fitted to the processor time of eight values and gradients (llvmlite 0.50, EPYC; seconds
        measured, predicted): Rosenbrock 0.044 0.035, a chain 0.047 0.049, softmax 0.093 0.12,
        Lennard-Jones 0.094 0.12, pairwise log-sum-exp 0.096 0.16, forty sines 0.12 0.14. Unrolled
        programs on a busy machine: 12,000 numbers 0.69 0.58, 900 and 9,200 nodes of arrays
        0.21 0.30 and 1.3 1.1, an LSTM's 12,000 1.8 1.8, HAND's 2,400 2.2 2.1.
        """
        facts, lines = self.facts, self.text.count("\n")
        inlined = facts.calls <= INLINED
        called = 0.008 * facts.calls if inlined else 0.0005 * facts.calls + 0.012 * facts.functions
        return 0.012 + 0.00015 * lines + 0.00012 * facts.nested + 0.009 * facts.loops + called

    def by_libm(self) -> KernelSource:
        """The source with sines, cosines and tangents of libm: one at a time, of any argument."""
        text = re.sub(r"\n *out_of_range \|= .*", "", self.text)
        return replace(self, text=with_periodic_of_libm(text))


class TimedItem(NamedTuple):
    """An item of a timed kernel: what its nests compute, their loops, its estimated work.

    Items that compute no operation, such as those that begin sums, have their `comments` alone.
    """

    computed: tuple[Computed, ...]
    comments: tuple[str, ...]
    loops: Dims
    work: tuple[Work, ...]


class TimedSource(NamedTuple):
    """A source with time stamps, the text without them, and the items between the stamps."""

    source: KernelSource
    text: str
    items: tuple[TimedItem, ...]


class GeneratedKernel(NamedTuple):
    """A source with the work of its items: the items of parallel loops, if it is for threads.

    `private_work` is the work of initialising and combining the private memory of the parts. In a
    kernel for one thread, `routines` are the routines other than products, with their work.
    """

    source: KernelSource
    work: tuple[tuple[Work, ...], ...]
    private_work: tuple[Work, ...] = ()
    barriers: int = 0  # how often threads wait for each other at a barrier
    routines: tuple[tuple[str, tuple[Work, ...]], ...] = ()

    @property
    def lines(self) -> int:
        return self.source.text.count("\n")

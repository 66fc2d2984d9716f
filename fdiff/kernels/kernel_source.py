"""What a kernel is made from: its text, and what is known of its memory and its work.

Who finds a text on disk needs this alone, and neither scheduler nor emitter.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

from .ir.indexing import Dims
from .ir.loops import BLOCK, count_entries, tile_height_at

INDENT = "    "
_MATHS = re.compile(
    r"\brt\.(a?(?:sin|cos|tan)h?|exp2?|expm1|log(?:2|10|1p)?|atan2|cbrt|hypot|power|logaddexp2?|erfc?|expit|ndtr)\("
)
INLINED = 16  # calls of elementary functions in a kernel up to which they are inlined
_LEAST = 60_000.0  # ns of work from which on several threads share it
_HEAVY = 5_000.0  # ns of work from which on a loop is shared, if any is
_WAIT = 2_000.0  # ns of it that a wait for the others has to be worth
_GRAIN = 20_000.0  # ns of work in a part of it, at least
_MOST_PARTS = 64
_AMONG = 12  # times as much work as what parts have of their own takes
_FACTORS = re.compile(r"\bn?\d+\b")


class WorkspaceBuffer(NamedTuple):
    """Memory for entries of one dtype, `dims` of them; `rows`, `least`: how many rows a block has.

    If `copies` says so, there is that much for each thread, or for each part of a shared loop.
    """

    dims: Dims
    dtype: str
    rows: tuple[Dims, ...] = ()
    copies: str = ""
    least: int = 0

    def bytes(self, sizes: tuple[int, ...]) -> int:
        """How many bytes these are with these values of ``n0, n1, ...``, in whole cache lines."""
        total = int(self.dtype[1]) * count_entries(tuple(d for d in self.dims if d != BLOCK), sizes)
        if BLOCK in self.dims:
            total *= tile_height_at(self.rows, self.least, sizes)
        return -(-total // 64) * 64


class Work(NamedTuple):
    """So many nanoseconds for each entry of `dims`, which may be products of sizes."""

    dims: Dims
    cost: float

    def nanoseconds(self, sizes: tuple[int, ...]) -> float:
        """For these values of ``n0, n1, ...``."""
        factors = _FACTORS.findall(" ".join(self.dims))
        return self.cost * math.prod(int(f) if f.isdigit() else sizes[int(f[1:])] for f in factors)


@dataclass(frozen=True)
class KernelSource:
    """Text of a kernel, and what its integer table ends with.

    That is the addresses of the routines and, if there are any, of the table of what they call;
    then where each of the rooms begins in the workspace, and where the last ends. If the kernel is
    for several threads, there are two such tables (the second for parts of a loop); and behind the
    rooms the number of parts, and how many entries of each room are one copy.
    """

    text: str
    routines: tuple[str, ...]
    buffers: tuple[WorkspaceBuffer, ...]
    shared: bool = False

    def seconds(self) -> float:
        """What compiling takes: so much for any kernel, a line, a loop, an elementary function.

        A line inside a loop counts nearly twice, since LLVM makes vectors of it.

        Fitted to the processor time of eight values and gradients (llvmlite 0.50, EPYC; seconds
        measured, predicted): Rosenbrock 0.044 0.035, a chain 0.047 0.049, softmax 0.093 0.12,
        Lennard-Jones 0.094 0.12, pairwise log-sum-exp 0.096 0.16, forty sines 0.12 0.14. Unrolled
        programs on a busy machine: 12,000 numbers 0.69 0.58, 900 and 9,200 nodes of arrays
        0.21 0.30 and 1.3 1.1, an LSTM's 12,000 1.8 1.8, HAND's 2,400 2.2 2.1.
        """
        lines, loops = self.text.count("\n"), self.text.count("for i")
        inside = self.text.count(f"\n{2 * INDENT}")
        maths = elementary(self.text)
        inlined = len(maths) <= INLINED
        called = 0.008 * len(maths) if inlined else 0.0005 * len(maths) + 0.012 * len(set(maths))
        return 0.012 + 0.00015 * lines + 0.00012 * inside + 0.009 * loops + called


class GeneratedKernel(NamedTuple):
    """A text, the work of each of its items that threads share (or of all), and what parts have."""

    source: KernelSource
    work: tuple[tuple[Work, ...], ...]
    own: tuple[Work, ...] = ()
    turns: int = 0  # how often threads wait for each other

    @property
    def lines(self) -> int:
        return self.source.text.count("\n")

    def heavy(self, sizes: tuple[int, ...]) -> frozenset[int]:
        """The items that take long."""
        return frozenset(k for k, some in enumerate(self.work) if _time(some, sizes) > _HEAVY)

    def parts(self, sizes: tuple[int, ...]) -> int:
        """In how many parts the loops are shared; 1 if they are not worth it.

        It follows from the sizes alone, and with it how sums are rounded.
        """
        time = sum(_time(some, sizes) for some in self.work)
        if time < _LEAST + _WAIT * self.turns:
            return 1
        own = _time(self.own, sizes)
        return int(min(_MOST_PARTS, time / _GRAIN, time / (_AMONG * own) if own else _MOST_PARTS))


def _time(some: tuple[Work, ...], sizes: tuple[int, ...]) -> float:
    return sum(work.nanoseconds(sizes) for work in some)


def elementary(text: str) -> list[str]:
    """The elementary functions a kernel calls, once for each call."""
    return _MATHS.findall(text)


def has_outlined(text: str) -> bool:
    """Whether outlined functions stand before the kernel."""
    return not text.startswith("def kernel(")


def libm_fallback(text: str) -> str | None:
    """The kernel with sines, cosines and tangents of libm, which take any argument, one at a time.

    None if it calls none.
    """
    if "rt.out_of_range(" not in text:
        return None
    text = re.sub(r"\n *out_of_range \|= .*", "", text)
    return re.sub(r"\brt\.(sin|cos|tan)\(", r"math.\1(", text)

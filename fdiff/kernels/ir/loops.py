"""What the scheduler hands to the emitter: loop nests over symbolic sizes, and their addresses.

Everything is text or position; no size and no value of a program can be seen from here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from .combiners import Combiner

Dims = tuple[str, ...]
ONE = "1"
BLOCK, BEGIN, END = "block", "begin_row", "end_row"
AHEAD = "ahead"  # where the rows end of which it is known whether they are a run


# dtypes as the text of a kernel spells them
NUMPY = {
    "b1": "np.bool_",
    "i1": "np.int8",
    "i2": "np.int16",
    "i4": "np.int32",
    "i8": "np.int64",
    "u1": "np.uint8",
    "u2": "np.uint16",
    "u4": "np.uint32",
    "u8": "np.uint64",
    "f4": "np.float32",
    "f8": "np.float64",
}


class Axis(NamedTuple):
    """Position along one axis: ``start + step * (loop variable)``; no variable if `var` is -1."""

    var: int = -1
    step: str = "1"
    start: str = "0"


Index = tuple[Axis, ...]
FIRST = Axis()


class Buffer(NamedTuple):
    """Memory by its name; `strides` are names of run-time strides, None where contiguous."""

    name: str
    strides: tuple[str, ...] | None = None


class Access(NamedTuple):
    """An entry of `buffer`, read as if it had the shape `dims`."""

    buffer: Buffer
    dims: Dims
    index: Index  # pyright: ignore[reportIncompatibleMethodOverride] - tuple.index is never used

    @property
    def injective_loops(self) -> frozenset[int]:
        """The loops of which no two iterations access the same entry.

        A position that counts a loop, by a step that is not zero, tells its iterations apart,
        whatever the other loops do. What is found at run time tells nothing.
        """
        variables = [axis.var for axis in self.index if axis.var >= 0]
        return frozenset(variables)


class Statement(NamedTuple):
    """One line of a loop body.

    Kinds: ``let`` (target = text of operands), ``load``, ``wrap`` (a checked index below
    ``text``), ``store`` and ``update`` (text combines the entry with the operand), and
    ``accumulate`` (text combines the local `target` with the operand). The `combiner` of an update
    says that updates of one entry may come in any order.
    """

    kind: str
    target: str
    text: str = ""
    operands: tuple[str, ...] = ()
    access: Access | None = None
    combiner: Combiner | None = None


@dataclass(frozen=True)
class Accumulator:
    """A local that gathers the innermost loops from `depth` on; `final` says where it goes.

    With a `combiner` the iterations may come in any order. Of a `scan` the running value is read
    in those loops.
    """

    name: str
    identity: str
    depth: int
    final: tuple[Statement, ...]
    combiner: Combiner | None = None
    scan: bool = False


# Kinds of statements that stay in the innermost loop: each iteration does what they do.
INNERMOST = ("store", "update", "accumulate", "pick", "carry")


def depth_of(statement: Statement, depths: Mapping[str, int], rank: int) -> int:
    """How many of the `rank` loops of a nest enclose a statement: the fewest that it depends on.

    `depths` has the same of the locals assigned so far (loop-invariant code motion).
    """
    if statement.kind in INNERMOST:
        return rank
    known = [depths.get(name, 0) for name in statement.operands]
    index = statement.access.index if statement.access is not None else ()
    return max((*known, *(axis.var + 1 for axis in index)), default=0)


# Of each loop, where some of the entries begin and end: None for all of the loop.
Ranges = tuple[tuple[str, str] | None, ...]
Guard = tuple[tuple[int, str, str], ...]  # loops, and where on each there is anything to do


@dataclass(frozen=True)
class Nest:
    """Loops over `domain`, or its `window`, or all but its `hole`, around `statements`.

    Or around `branches`: statements where a guard holds, which share no values.
    """

    domain: Dims
    statements: tuple[Statement, ...]
    accumulators: tuple[Accumulator, ...] = ()
    comment: str = ""
    excluded: Ranges = ()
    ranges: Ranges = ()
    branches: tuple[tuple[Guard, tuple[Statement, ...]], ...] = ()

    @property
    def all_statements(self) -> list[Statement]:
        """Every statement there is."""
        guarded = [s for _, statements in self.branches for s in statements]
        return [*self.statements, *guarded, *(s for a in self.accumulators for s in a.final)]


@dataclass(frozen=True)
class Call:
    """A compiled routine of this machine, called by its address: its buffers, then its sizes.

    `begins` says at which entry of each buffer it begins, where that is not the first.
    """

    routine: str
    buffers: tuple[str, ...]
    sizes: tuple[str, ...]
    comment: str = ""
    begins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Conditional:
    """Loops for where a local is zero, and others for where it is not."""

    local: str
    zero: Nest
    other: Nest


@dataclass(frozen=True)
class TileLoop:
    """Items that run for so many rows of an axis at a time, one block after another.

    What they hand to each other then stays in the cache. The rows are counted by `BEGIN` and `END`.
    """

    rows: str
    block: str  # how many rows at a time
    items: tuple[Nest | Call | Conditional, ...]


@dataclass(frozen=True)
class LoopVersion:
    """Loops for rows of which the places are known from those of the first."""

    ends: tuple[str, ...]  # locals that say how far each of the places is; the least counts
    tests: tuple[str, ...]  # what else must hold of the rows up to `END`
    items: tuple[Nest, ...]


@dataclass(frozen=True)
class VersionedLoop:
    """Rows in runs, each as long as it is; where there is none, in blocks as `otherwise`."""

    measured: tuple[Nest, ...]  # what runs are told from, for the rows from `BEGIN` to `AHEAD`
    versions: tuple[LoopVersion, ...]
    fallback: TileLoop


class Temporary(NamedTuple):
    """Memory a kernel allocates for itself; an axis called `BLOCK` is `block_size(rows, least)`.

    There is one for each of the `copies`, threads or parts, if those are named.
    """

    name: str
    dtype: str
    dims: Dims
    rows: tuple[Dims, ...] = ()
    copies: str = ""
    least: int = 0


class Output(NamedTuple):
    """An output of the kernel; `scalar` names the local to be stored into it, if there is one."""

    name: str
    dtype: str
    dims: Dims
    scalar: str = ""


class Argument(NamedTuple):
    """An input or a captured array; `contiguous` if its entries lie in row-major order."""

    name: str
    dtype: str
    dims: Dims
    contiguous: bool


@dataclass(frozen=True)
class LoopProgram:
    """The whole kernel: what is allocated, what runs in which order, what comes out.

    `locals` are the dtypes of the locals that several items use, and `dtypes` those of values that
    one nest computes, by their names.
    """

    temporaries: tuple[Temporary, ...]
    items: tuple[Nest | Call | TileLoop | VersionedLoop, ...]
    outputs: tuple[Output, ...]
    locals: tuple[tuple[str, str], ...] = ()
    arguments: tuple[Argument, ...] = ()
    dtypes: Mapping[str, str] = field(default_factory=dict)

    @property
    def memory(self) -> dict[str, str]:
        """The dtypes of all memory, by name."""
        return {m.name: m.dtype for m in (*self.arguments, *self.temporaries, *self.outputs)}

    @property
    def calls(self) -> list[Call]:
        """The routines that are called, in order."""
        inside = [i.items if isinstance(i, TileLoop) else (i,) for i in self.items]
        return [i for items in inside for i in items if isinstance(i, Call)]


# Entries of a block, and rows of it: as many as whole vectors hold, where rows are the inner loop.
# Each block passes over the matrices that it adds to, which takes as long as products of 30 rows.
_HELD, _LEAST, _LEAST_ADDING, _MOST, _WHOLE_ROWS = 1 << 17, 64, 128, 512, 32


def fewest_tile_rows(*, adding: bool) -> int:
    """How many rows a block has at least, which depends on whether products are added up."""
    return _LEAST_ADDING if adding else _LEAST


def tile_height(rows: tuple[Dims, ...], least: int) -> str:
    """How many rows are in a block, as text, if each has entries of these shapes."""
    total = "0"
    for dims in rows:
        total = plus(total, size(dims))
    some = f"{_HELD} // max(1, {total}) // {_WHOLE_ROWS} * {_WHOLE_ROWS}"
    return f"max({least}, min({_MOST}, {some}))"


def tile_height_at(rows: tuple[Dims, ...], least: int, sizes: tuple[int, ...]) -> int:
    """The same as a number, for these values of ``n0, n1, ...``."""
    total = 0
    for dims in rows:
        total += count_entries(dims, sizes)
    return max(least, min(_MOST, _HELD // max(total, 1) // _WHOLE_ROWS * _WHOLE_ROWS))


def count_entries(dims: Dims, sizes: tuple[int, ...]) -> int:
    """The number of entries for these values of ``n0, n1, ...``."""
    total = 1
    for dim in dims:
        total *= int(dim) if dim.isdigit() else sizes[int(dim[1:])]
    return total


# --- arithmetic on text -----------------------------------------------------------------------


def times(a: str, b: str) -> str:
    """``a * b``, with the trivial cases folded."""
    if "0" in (a, b):
        return "0"
    if a == "1" or b == "1":
        return b if a == "1" else a
    if _WHOLE.fullmatch(a) and _WHOLE.fullmatch(b):
        return str(int(a) * int(b))
    if a == "-1" or b == "-1":
        other = b if a == "-1" else a
        return "1" if other == "-1" else f"-{_atom(other)}"
    return f"{_atom(a)} * {_atom(b)}"


def plus(a: str, b: str) -> str:
    """``a + b``, with the trivial cases folded."""
    if a == "0" or b == "0":
        return b if a == "0" else a
    if b == f"-{a}":
        return "0"
    if _WHOLE.fullmatch(b) and (last := _LAST.search(a)):
        total = int(last[0].replace(" ", "")) + int(b)
        rest = a[: last.start()]
        return plus(rest, str(total)) if rest else str(total)
    return f"{a} - {b[1:]}" if b.startswith("-") else f"{a} + {b}"


_WHOLE = re.compile(r"-?\d+")
_LAST = re.compile(r"^-?\d+$|(?<=[\w)]) [+-] \d+$")  # the number a sum is, or ends with


def _atom(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def size(dims: Dims) -> str:
    """Number of entries, as text."""
    total = "1"
    for dim in dims:
        total = times(total, dim)
    return total


def strides(dims: Dims) -> tuple[str, ...]:
    """Row-major strides in entries, as text."""
    out: list[str] = []
    total = "1"
    for dim in reversed(dims):
        out.append(total)
        total = times(total, dim)
    return tuple(reversed(out))


@lru_cache(maxsize=4096)
def nonunit(dims: Dims) -> Dims:
    """The axes that have to be looped over."""
    return tuple(d for d in dims if d != ONE)


@lru_cache(maxsize=4096)
def identity(dims: Dims) -> Index:
    """Each axis read in loop order: axes of size one stay at their first entry."""
    out: list[Axis] = []
    var = 0
    for dim in dims:
        out.append(FIRST if dim == ONE else Axis(var))
        var += dim != ONE
    return tuple(out)


# --- how a view reads its source --------------------------------------------------------------


def _moved(axis: Axis, start: str, step: str) -> Axis:
    """An axis of the slice as one of its source."""
    stride = times(step, axis.step) if axis.var >= 0 else "1"
    return Axis(axis.var, stride, plus(start, times(step, axis.start)))


def through_slice(index: Index, starts: tuple[str, ...], steps: tuple[str, ...]) -> Index:
    """Entry `index` of a slice, as an entry of its source."""
    return tuple(
        a if (start, step) == ("0", "1") else _moved(a, start, step)
        for a, start, step in zip(index, starts, steps, strict=True)
    )  # fmt: skip


def through_transpose(index: Index, axes: tuple[int, ...]) -> Index:
    """Entry `index` of a transposed array, as an entry of its source."""
    out = [FIRST] * len(axes)
    for axis, position in zip(axes, index, strict=True):
        out[axis] = position
    return tuple(out)


def through_broadcast(index: Index, source: Dims, dims: Dims) -> Index:
    """Entry `index` of an array of shape `dims`, as an entry of what was broadcast to it."""
    lead = len(dims) - len(source)
    return tuple(FIRST if d == ONE else index[lead + i] for i, d in enumerate(source))


def same_nonunit(a: Dims, b: Dims) -> bool:
    """Whether two shapes differ by axes of size one only."""
    return nonunit(a) == nonunit(b)


def through_ones(index: Index, source: Dims, dims: Dims) -> Index:
    """Entry `index` of a reshaped array whose shape differs by axes of size one only."""
    positions = iter([a for a, d in zip(index, dims, strict=True) if d != ONE])
    return tuple(FIRST if d == ONE else next(positions) for d in source)

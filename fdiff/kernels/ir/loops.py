"""Loop programs, the lower form of a kernel: loop nests over symbolic sizes, calls of routines.

A program declares its memory and runs its items in order: nests, calls, and loops that passes for
the CPU make of several. Sizes are text: no size and no value of a program is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar, cast

from ...named_tuples import NamedTuple
from .accesses import Access
from .combiners import Combiner
from .index_expressions import Dims
from .kernel_graph import Computed
from .word_table import NAMES

# Names in the text of kernels: the rows of a tile, where the tile begins and ends, and up to which
# row it is known whether index vectors stay or count (`VersionedLoop`).
BLOCK, BEGIN, END, AHEAD = "block", "begin_row", "end_row", "ahead"

NUMPY = {dtype: f"np.{name}" for dtype, name in NAMES.items()}  # as texts spell dtypes


class StatementKind(Enum):
    """Kinds of statements: the use of target, text, operands and access."""

    LET = "let"  # assign the expression `text` of the operands to the target
    LOAD = "load"  # assign an entry of memory
    WRAP = "wrap"  # assign an index counted from the front, checked against `text` if there is
    POSITION = "position"  # assign the row-major number of an entry
    STORE = "store"  # write the operand to an entry of memory
    UPDATE = "update"  # write `text` of an entry and the operand to that entry
    ACCUMULATE = "accumulate"  # assign `text` of the target and the operands to the target
    EXTREME = "extreme"  # assign the position of the largest or smallest operand so far
    CARRY = "carry"  # assign what the previous iteration of a loop has stored, `text` in its first

    @property
    def gives_value(self) -> bool:
        """Whether it assigns a value, computed or loaded, and no position."""
        return self in (StatementKind.LET, StatementKind.LOAD)

    @property
    def writes(self) -> bool:
        """Whether it writes to memory."""
        return self in (StatementKind.STORE, StatementKind.UPDATE)

    @property
    def uses_memory(self) -> bool:
        """Whether it reads or writes memory."""
        return self.writes or self in (StatementKind.LOAD, StatementKind.CARRY)

    @property
    def accumulates(self) -> bool:
        """Whether its target is an accumulator, which the nest has assigned before."""
        return self in (StatementKind.ACCUMULATE, StatementKind.EXTREME)

    @property
    def is_innermost(self) -> bool:
        """Whether the statement must stay in the innermost loop.

        Such a statement writes, accumulates or carries in each iteration.
        """
        return self.writes or self.accumulates or self is StatementKind.CARRY


class Statement(NamedTuple):
    """One scalar statement of a loop body, which assigns the local `target` or writes to memory.

    An update with a `combiner` may be done in any order.
    """

    kind: StatementKind
    target: str
    text: str = ""
    operands: tuple[str, ...] = ()
    access: Access | None = None
    combiner: Combiner | None = None

    @classmethod
    def let(cls, target: str, text: str, operands: tuple[str, ...] = ()) -> Statement:
        """The assignment of an expression."""
        return cls(StatementKind.LET, target, text, operands)

    @classmethod
    def load(cls, target: str, access: Access, operands: tuple[str, ...] = ()) -> Statement:
        """The assignment of an entry of memory; `operands` are names that its index contains."""
        return cls(StatementKind.LOAD, target, "", operands, access)

    @classmethod
    def store(cls, operands: tuple[str, ...], access: Access) -> Statement:
        """The first operand written to an entry of memory; the others stand in its index."""
        return cls(StatementKind.STORE, "", "", operands, access)

    @property
    def memory(self) -> str:
        """The name of the memory that the statement accesses; empty if it accesses none."""
        return "" if self.access is None else self.access.buffer.name

    @property
    def writes(self) -> bool:
        """Whether the statement writes to memory."""
        return self.kind.writes

    @property
    def reads(self) -> list[str]:
        """The locals that the statement reads, as operands or as positions in memory."""
        starts = [a.start for a in self.access.index] if self.access is not None else []
        return [*self.operands, *starts]


@dataclass(frozen=True)
class Accumulator:
    """A local that gathers the innermost loops from `depth` on; `final` says where it goes.

    With a `combiner` the iterations may come in any order. Of a `scan` the running value is read
    in those loops.
    """

    name: str
    identity: str
    dtype: str
    depth: int
    final: tuple[Statement, ...]
    combiner: Combiner | None = None
    scan: bool = False


def depth_of(statement: Statement, depths: Mapping[str, int], rank: int) -> int:
    """How many of the `rank` loops of a nest enclose a statement: the fewest that it depends on.

    `depths` has the same of the locals assigned so far (loop-invariant code motion).
    """
    if statement.kind.is_innermost:
        return rank
    operand_depths = [depths.get(name, 0) for name in statement.operands]
    index = statement.access.index if statement.access is not None else ()
    return max((*operand_depths, *(axis.var + 1 for axis in index)), default=0)


Ranges = tuple[tuple[str, str] | None, ...]  # of each loop, its first and end; None for all of it
Guard = tuple[tuple[int, str, str], ...]  # a condition: for each of some loops, its first and end


@dataclass(frozen=True)
class Nest:
    """A loop nest: one loop for each size of `domain`, around `statements`.

    The loops run over `ranges` of the domain, or over all entries that are not `excluded`. A
    statement stands in the outermost loop that defines its operands. `branches` are statements
    under a guard each, which share no values. The comment says what is `computed`.
    """

    domain: Dims
    statements: tuple[Statement, ...]
    accumulators: tuple[Accumulator, ...] = ()
    comment: str = ""
    excluded: Ranges = ()
    ranges: Ranges = ()
    branches: tuple[tuple[Guard, tuple[Statement, ...]], ...] = ()
    computed: tuple[Computed, ...] = ()

    @property
    def all_statements(self) -> list[Statement]:
        """The statements, also those in branches and those that store accumulators."""
        guarded = [s for _, statements in self.branches for s in statements]
        return [*self.statements, *guarded, *(s for a in self.accumulators for s in a.final)]

    def map(self, change: Callable[[Statement], Statement | None]) -> Nest:
        """The nest with every statement changed; statements that become None are left out."""

        def changed(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
            return tuple([new for s in statements if (new := change(s)) is not None])

        return replace(
            self,
            statements=changed(self.statements),
            accumulators=tuple(replace(a, final=changed(a.final)) for a in self.accumulators),
            branches=tuple((guard, changed(statements)) for guard, statements in self.branches),
        )

    def map_accesses(self, change: Callable[[Access], Access]) -> Nest:
        """The nest with every access to memory changed."""
        return self.map(lambda s: s if s.access is None else s._replace(access=change(s.access)))


# The routines of matrix products, and the operand of each whose zeros leave terms out: 0 is none.
PRODUCTS = {"matmul": 0, "matmul_a": 1, "matmul_b": 2}


@dataclass(frozen=True)
class Call:
    """The call of a routine, such as a matrix product: its buffers, then its sizes.

    `begins` is the first entry of each buffer, where that is not the first of the memory. One that
    is `inline` is written out for its sizes, which are numbers but for the first.
    """

    name: str  # of the routine, without the dtype
    dtype: str
    buffers: tuple[str, ...]
    sizes: tuple[str, ...]
    comment: str = ""
    begins: tuple[str, ...] = ()
    inline: bool = False
    computed: tuple[Computed, ...] = ()

    @property
    def routine(self) -> str:
        """The name with the dtype, by which it is found: ``solve_f8``; empty if it runs bodies."""
        return f"{self.name}_{self.dtype}" if self.name else ""

    @property
    def is_product(self) -> bool:
        """Whether it is a matrix product, of two operands and one result."""
        return self.name in PRODUCTS

    @property
    def written(self) -> tuple[str, ...]:
        """The buffers that it may write to: the result of a product, and all of another routine."""
        return self.buffers[2:] if self.is_product else self.buffers

    @property
    def routine_calls(self) -> tuple[Call, ...]:
        """The calls of routines that this is: itself, or those inside of a loop."""
        return () if self.inline else (self,)


@dataclass(frozen=True)
class Conditional:
    """Two versions of a nest: one if a local is zero at run time, another if it is not."""

    local: str
    zero: Nest
    other: Nest


@dataclass(frozen=True)
class TileLoop:
    """A loop over tiles of an axis (strip-mining): all items run for one tile, then for the next.

    What one item stores for the next then stays in the cache. `BEGIN` and `END` are the rows of a
    tile.
    """

    rows: str
    block: str  # how many rows a tile has
    items: tuple[Nest | Call | Conditional, ...]


@dataclass(frozen=True)
class LoopVersion:
    """Nests for a run of rows: index vectors that stay the same in it, or count up one by one."""

    ends: tuple[str, ...]  # locals: the row up to which each index vector does so; the least counts
    tests: tuple[str, ...]  # conditions on the rows up to `END`
    items: tuple[Nest, ...]


@dataclass(frozen=True)
class VersionedLoop:
    """A loop with versions for runs of rows, chosen at run time (loop versioning).

    Rows that are no run are processed by `fallback`, a tile at a time.
    """

    measured: tuple[Nest, ...]  # find how long runs are, among the rows from `BEGIN` to `AHEAD`
    versions: tuple[LoopVersion, ...]
    fallback: TileLoop


Item = Nest | Call | TileLoop | VersionedLoop  # what a program consists of
T = TypeVar("T", bound=Item | Conditional)


def nests_and_calls(item: Item | Conditional) -> Iterator[Nest | Call]:
    """The nests and calls of an item, including the nests and calls of all its versions."""
    if isinstance(item, Nest | Call):
        yield item
    elif isinstance(item, Conditional):
        yield from (item.zero, item.other)
    elif isinstance(item, TileLoop):
        for inner in item.items:
            yield from nests_and_calls(inner)
    else:
        yield from item.measured
        yield from (nest for version in item.versions for nest in version.items)
        yield from nests_and_calls(item.fallback)


def map_nests(item: T, change: Callable[[Nest], Nest]) -> T:
    """An item with each nest in it changed."""
    new: Item | Conditional = item
    if isinstance(item, Nest):
        new = change(item)
    elif isinstance(item, Conditional):
        new = replace(item, zero=change(item.zero), other=change(item.other))
    elif isinstance(item, TileLoop):
        new = replace(item, items=tuple(map_nests(inner, change) for inner in item.items))
    elif isinstance(item, VersionedLoop):
        versions = [replace(v, items=tuple(map(change, v.items))) for v in item.versions]
        measured = tuple(map(change, item.measured))
        new = VersionedLoop(measured, tuple(versions), map_nests(item.fallback, change))
    return cast("T", new)


class Temporary(NamedTuple):
    """Memory of the kernel itself. An axis called `BLOCK` has `tile_height(rows, least)` entries.

    There is one for each thread, or for each part of a parallel loop, if `copies` says so. What is
    stored for a part of the loops over the axes `over` takes no memory if one of these is empty.
    """

    name: str
    dtype: str
    dims: Dims
    rows: tuple[Dims, ...] = ()
    copies: str = ""
    least: int = 0
    over: Dims = ()


class Output(NamedTuple):
    """An output of the kernel; `scalar` is the local to be stored into it, if it is one number."""

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
    """The whole kernel: its allocations, the order of its items, its outputs.

    `locals` are the dtypes of the locals that several items use, and `dtypes` the dtypes of values
    that one nest computes, by their names.
    """

    temporaries: tuple[Temporary, ...]
    items: tuple[Item, ...]
    outputs: tuple[Output, ...]
    locals: tuple[tuple[str, str], ...] = ()
    arguments: tuple[Argument, ...] = ()
    dtypes: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_items(self) -> tuple[Item, ...]:
        """The items in order."""
        return self.items

    @property
    def memory(self) -> dict[str, str]:
        """The dtypes of all memory, by name."""
        return {m.name: m.dtype for m in (*self.arguments, *self.temporaries, *self.outputs)}

    @property
    def own_memory(self) -> dict[str, Temporary]:
        """The memory that the kernel may write to, by name: temporaries and outputs."""
        outputs = [Temporary(o.name, o.dtype, o.dims) for o in self.outputs]
        return {t.name: t for t in (*self.temporaries, *outputs)}

    @property
    def calls(self) -> list[Call]:
        """The routines that are called, in order."""
        inside = (i for item in self.items for i in nests_and_calls(item))
        return [call for i in inside if isinstance(i, Call) for call in i.routine_calls]

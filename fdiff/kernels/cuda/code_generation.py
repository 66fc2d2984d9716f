"""From a kernel graph to a program for a GPU.

Nests of few iterations follow one another in a kernel of one block, with barriers in between; so do
numbers that nests share. Each large nest has a kernel for the whole grid, and nests that run for
the same rows (tile loops) have one kernel whose blocks take tiles of rows. Which is which depends
on the sizes (`Tuning`); all else is in the texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple, cast

from ..ir.graph import KernelGraph, Values
from ..ir.indexing import Axis, Dims
from ..ir.loops import (
    BEGIN,
    BLOCK,
    END,
    Access,
    Accumulator,
    Buffer,
    Call,
    LoopProgram,
    Nest,
    Statement,
    StatementKind,
    TileLoop,
)
from ..passes.pipeline import FOR_CUDA, run
from ..passes.tile.loop_collapse import collapse
from .kernel_text import KernelTexts
from .matrix_kernels import emit_call, product_lines
from .nest_mapping import MappedNest, dtype_of_neutral, map_nest, neutral_of
from .nest_text import BARRIER, BLOCK_TEAM, GRID, NestText, indented, iterations
from .program import CudaProgram, Numbers, evaluate, numbers_of


class Tuning(NamedTuple):
    """Sizes from which on work is shared in another way, and how large grids are."""

    threads: int = 256  # of a block
    light: int = 1 << 15  # iterations up to which one block does all of a nest
    blocks: int = 1 << 16  # most blocks of a nest whose threads have entries of their own
    partial: int = 1 << 10  # most blocks of a reduction: each leaves a partial result
    many: int = 1 << 14  # threads that keep a GPU busy: reductions of fewer entries are split
    row: int = 32  # terms from which on a block reduces a row together
    tiles: int = 1 << 9  # tiles of rows, if there are as many


GPU = Tuning()
# Few threads, which are slow there, and every way of sharing at small sizes.
SIMULATOR = Tuning(threads=4, light=20, blocks=3, partial=3, many=24, row=4, tiles=2)


def cuda_program(
    graph: KernelGraph, values: Values, *, deterministic: bool = False, tuning: Tuning = GPU
) -> CudaProgram:
    """The program of a graph for sizes like these; inputs are arrays in row-major order.

    If `deterministic`, nothing is added to memory in an order that differs from run to run.
    """
    last = FOR_CUDA[-1].name if not deterministic else "eliminate_dead_stores"
    program = cast("LoopProgram", run(graph, last))
    generator = _Generator(graph, program, numbers_of(graph, values), tuning, not deterministic)
    try:
        return generator.program()
    except _NotTiledError:
        untiled = cast("LoopProgram", run(graph, "eliminate_dead_stores"))
        numbers = numbers_of(graph, values)
        return _Generator(graph, untiled, numbers, tuning, not deterministic).program()


class _NotTiledError(Exception):
    """Blocks cannot take tiles of rows: they would overwrite each other's results."""


class _Generator:
    """The program so far; `_lines` are those of a kernel of one block that is not finished."""

    def __init__(
        self,
        graph: KernelGraph,
        program: LoopProgram,
        numbers: Numbers,
        tuning: Tuning,
        atomics: bool,  # noqa: FBT001 - private
    ) -> None:
        self._loops = program
        self._numbers = numbers
        self._tuning = tuning
        self._atomics = atomics
        self._texts = KernelTexts(graph, program)
        self._lines: list[str] = []

    @property
    def _memory(self) -> dict[str, str]:
        return self._texts.dtypes

    def program(self) -> CudaProgram:
        """All items, then the outputs that are numbers."""
        for item in self._loops.items:
            if isinstance(item, Nest):
                self._nest(item)
            elif isinstance(item, Call):
                self._call(item)
            else:
                assert isinstance(item, TileLoop)
                self._tiles(item)
        for out in self._loops.outputs:
            if out.scalar:
                value = f"np.uint8({out.scalar})" if out.dtype == "b1" else out.scalar
                self._phase(["if thread == 0:", *indented([f"{out.name}[0] = {value}"])])
        self._flush()
        return self._texts.program()

    def _evaluate(self, expression: str) -> int:
        return evaluate(expression, self._numbers)

    # --- kernels of one block -------------------------------------------------------------------

    def _phase(self, lines: Iterable[str]) -> None:
        """Lines for all threads of one block, after all that came before."""
        if self._lines:
            self._lines.append(BARRIER)
        self._lines += lines

    def _flush(self) -> None:
        """Close the kernel of one block, if one is open."""
        if self._lines:
            self._texts.launch(self._lines, "1", self._tuning.threads)
        self._lines = []

    # --- nests ----------------------------------------------------------------------------------

    def _nest(self, nest: Nest, *, split: bool = True) -> None:
        """A nest in the open kernel of one block, or in kernels of its own.

        One that reduces partial results is not `split` again.
        """
        head = [f"# {nest.comment}"]
        if not nest.domain:
            self._phase([*head, *self._scalars(nest)])
            return
        mapped = self._mapped(nest)
        total = self._evaluate(iterations(mapped.nest, 0, len(mapped.nest.domain)))
        alone = not mapped.parallel and not (mapped.spread and split)
        if total <= self._tuning.light or alone:
            self._phase([*head, *self._in_block(mapped)])
            return
        own = self._evaluate(iterations(mapped.nest, 0, mapped.parallel))
        first, end = mapped.parallel, mapped.parallel + mapped.spread
        terms = self._evaluate(iterations(mapped.nest, first, end))
        if not mapped.spread or (own >= self._tuning.many and mapped.contiguous):
            self._entries(mapped, head)
        elif not mapped.parallel and split:
            self._partial(mapped, head)
        elif terms >= self._tuning.row and not mapped.contiguous and own * 2 >= self._tuning.tiles:
            self._rows(mapped, head, terms)
        elif split and own < self._tuning.many and terms > self._tuning.row:
            self._chunks(mapped, own)
        else:
            self._entries(mapped, head)

    def _mapped(self, nest: Nest) -> MappedNest:
        plain = nest if nest.excluded or nest.branches else collapse(nest)
        return map_nest(plain, self._memory, atomics=self._atomics)

    def _scalars(self, nest: Nest) -> list[str]:
        """A nest without loops: all threads compute its numbers, and the first one stores them."""
        text = NestText(MappedNest(nest, 0, 0, frozenset(), contiguous=True), self._memory)
        return text.numbers()

    def _in_block(self, mapped: MappedNest) -> list[str]:
        """The lines of a nest that one block runs."""
        text = NestText(mapped, self._memory)
        own = self._evaluate(iterations(mapped.nest, 0, mapped.parallel))
        first, end = mapped.parallel, mapped.parallel + mapped.spread
        terms = self._evaluate(iterations(mapped.nest, first, end))
        if mapped.spread and terms > own and (not mapped.parallel or terms >= self._tuning.row):
            return text.rows(BLOCK_TEAM)
        if mapped.parallel:
            return text.entries(BLOCK_TEAM)
        return self._published(mapped.nest, text.alone())

    def _published(self, nest: Nest, lines: list[str]) -> list[str]:
        """Lines for one thread; the others read from memory which numbers it computed."""
        made = [s.target for s in nest.all_statements] + [a.name for a in nest.accumulators]
        names = [n for n in dict.fromkeys(made) if n in self._texts.locals]
        if not names:
            return lines
        stored, loaded = self._texts.published(names)
        return [*lines, *indented(stored), BARRIER, *loaded]

    def _entries(self, mapped: MappedNest, head: list[str]) -> None:
        """A kernel whose threads have entries of their own."""
        self._flush()
        own = iterations(mapped.nest, 0, mapped.parallel)
        threads = self._tuning.threads
        blocks = f"max(1, min({self._tuning.blocks}, ({own} + {threads - 1}) // {threads}))"
        lines = NestText(mapped, self._memory).entries(GRID)
        self._texts.launch([*head, *lines], blocks, threads)

    def _rows(self, mapped: MappedNest, head: list[str], terms: int) -> None:
        """A kernel whose blocks reduce a row at a time."""
        self._flush()
        rows = iterations(mapped.nest, 0, mapped.parallel)
        threads = min(self._tuning.threads, max(32, 1 << (terms // 4).bit_length()))
        blocks = f"max(1, min({self._tuning.blocks}, {rows}))"
        lines = NestText(mapped, self._memory).rows(GRID)
        self._texts.launch([*head, *lines], blocks, threads)

    def _partial(self, mapped: MappedNest, head: list[str]) -> None:
        """A kernel that reduces all, to one partial result a block; then one block goes on."""
        self._flush()
        threads = self._tuning.threads
        all_ = iterations(mapped.nest, 0, mapped.spread)
        each = 8 * threads
        blocks = f"max(1, min({self._tuning.partial}, ({all_} + {each - 1}) // {each}))"
        place = (Axis(-1, "1", "block_number"),)
        first, second = self._two_stages(mapped, (blocks,), place, ())
        lines = NestText(first, self._memory).rows(GRID)
        self._texts.launch([*head, *lines], blocks, threads)
        self._nest(second, split=False)

    def _chunks(self, mapped: MappedNest, own: int) -> None:
        """Two nests: one has an entry for each chunk of the terms, one reduces the chunks."""
        nest, rank = mapped.nest, len(mapped.nest.domain)
        first = mapped.parallel
        begin, end = (nest.ranges[first] if nest.ranges else None) or ("0", nest.domain[first])
        count = end if begin == "0" else f"({end} - ({begin}))"
        own_text = iterations(nest, 0, first)
        most = 4 * self._tuning.many
        chunks = f"max(1, min({count}, {most} // max(1, {own_text})))"
        del own
        moved = _with_outer_loop(nest, chunks)
        ranges = list(moved.ranges or (None,) * (rank + 1))
        plus = "" if begin == "0" else f"({begin}) + "
        number = "i0"
        ranges[first + 1] = (
            f"{plus}{count} * {number} // {_atom(chunks)}",
            f"{plus}{count} * ({number} + 1) // {_atom(chunks)}",
        )
        moved = replace(moved, ranges=tuple(ranges))
        wide = MappedNest(moved, first + 1, 0, mapped.atomic, contiguous=True)
        dims = (chunks, *nest.domain[:first])
        place = tuple(Axis(k) for k in range(first + 1))
        inner = (Axis(first), *(Axis(k) for k in range(first)))
        one, two = self._two_stages(wide, dims, place, inner, nest)
        self._entries(one, [f"# {nest.comment}"])
        self._nest(two, split=False)

    def _two_stages(
        self,
        mapped: MappedNest,
        dims: Dims,
        place: tuple[Axis, ...],
        inner: tuple[Axis, ...],
        original: Nest | None = None,
    ) -> tuple[MappedNest, Nest]:
        """The nest with partial results in memory of shape `dims`, and the nest that ends them.

        The first stores its results at `place`, the second reads them at `inner`.
        """
        nest = original or mapped.nest
        depth = len(place) - 1 if original else 0
        sums: list[Accumulator] = []
        statements: list[Statement] = []
        ends: list[Accumulator] = []
        for a in mapped.nest.accumulators:
            if a.depth != mapped.parallel:
                sums.append(a)
                continue
            assert a.combiner is not None
            neutral = self._neutral(a)
            dtype = dtype_of_neutral(neutral)
            name = self._texts.partial(dtype, dims)
            store = Statement.store((a.name,), Access(Buffer(name), dims, place))
            sums.append(replace(a, identity=neutral, final=(store,)))
            part = f"part_{a.name}"
            index = inner or (Axis(0),)
            statements.append(Statement.load(part, Access(Buffer(name), dims, index)))
            text = a.combiner.text(dtype)
            statements.append(Statement(StatementKind.ACCUMULATE, a.name, text, (part,)))
            ends.append(replace(a, depth=depth))
        final = {a.name: a.final for a in nest.accumulators}
        second = Nest(
            (*nest.domain[:depth], dims[0]),
            tuple(statements),
            tuple(replace(a, final=final[a.name]) for a in ends),
            f"{nest.comment}, of partial results",
            ranges=(*nest.ranges[:depth], None) if nest.ranges else (),
        )
        return replace(mapped, nest=replace(mapped.nest, accumulators=tuple(sums))), second

    def _neutral(self, a: Accumulator) -> str:
        assert a.combiner is not None
        if a.identity != a.name:
            return a.identity
        return neutral_of(a.combiner, self._memory[a.name])

    # --- routines -------------------------------------------------------------------------------

    def _call(self, call: Call) -> None:
        lines = product_lines(call, self._numbers, self._tuning.light)
        if lines:
            self._phase([f"# {call.comment}", *lines])
            return
        self._flush()
        emit_call(call, self._texts, self._numbers, self._memory)

    # --- nests over the same rows ---------------------------------------------------------------

    def _tiles(self, tiles: TileLoop) -> None:
        """A kernel whose blocks take tiles of rows; one block alone if there is little to do."""
        nests = [item for item in tiles.items if isinstance(item, Nest)]
        work = [self._work(nest, tiles) for nest in nests]
        rows = max(1, self._evaluate(tiles.rows))
        most = max(1, min(64, self._tuning.threads * rows // max(1, *work)))
        height = f"max(1, min({most}, {tiles.rows} // {self._tuning.tiles}))"
        light = sum(work) <= self._tuning.light
        if light:
            height = f"max(1, {tiles.rows})"
        blocks = f"max(1, min({self._tuning.partial}, {tiles.rows} // {_atom(height)}))"
        body, carried = self._tile_body(tiles)
        if carried and light:
            light = False
        if light:
            self._texts.tile(tiles, height, "1")
            ends = [f"{BLOCK} = {height}", f"{BEGIN} = 0", f"{END} = {tiles.rows}"]
            self._phase([*ends, *body])
            return
        self._flush()
        offsets = self._texts.tile(tiles, height, blocks)
        begun = [f"{a.name} = {self._neutral(a)}" for a in carried]
        count = f"({tiles.rows} + {BLOCK} - 1) // {BLOCK}"
        loop = [
            f"{BLOCK} = {height}",
            *offsets,
            *begun,
            "tile = block_number",
            f"while tile < {count}:",
            f"{'    '}{BEGIN} = tile * {BLOCK}",
            f"{'    '}{END} = min({BEGIN} + {BLOCK}, {tiles.rows})",
            *indented(body),
            *indented([BARRIER]),
            "    tile = tile + blocks",
        ]
        place = (Axis(-1, "1", "block_number"),)
        nest = Nest((), (), tuple(carried), "sums over the tiles")
        mapped = MappedNest(nest, 0, 0, frozenset(), contiguous=True)
        first, second = self._two_stages(mapped, (blocks,), place, ())
        loop += NestText(first, self._memory).combined()
        self._texts.launch(loop, blocks, self._tuning.threads)
        if carried:
            self._nest(second, split=False)

    def _work(self, nest: Nest, tiles: TileLoop) -> int:
        """How many iterations a nest of a tile loop has in all."""
        sizes = dict(self._numbers) | {BEGIN: 0, END: self._evaluate(tiles.rows)}
        return evaluate(iterations(nest, 0, len(nest.domain)), sizes)

    def _tile_body(self, tiles: TileLoop) -> tuple[list[str], list[Accumulator]]:
        """The lines of one tile, and the accumulators that go on from tile to tile."""
        own = self._texts.tile_local(tiles)
        lines: list[str] = []
        carried: dict[str, Accumulator] = {}
        for item in tiles.items:
            lines += [BARRIER] if lines else []
            if isinstance(item, Call):
                lines += [f"# {item.comment}", *product_lines(item, self._numbers, -1)]
                continue
            if not isinstance(item, Nest):
                raise _NotTiledError
            mapped = self._mapped(item)
            going = {a.name: a for a in mapped.nest.accumulators if a.identity == a.name}
            if going and (mapped.parallel or not mapped.spread):
                raise _NotTiledError
            carried |= going
            shared = self._shared_by_tiles(mapped.nest, own)
            text = NestText(mapped, self._memory, shared=shared, carried=frozenset(going))
            lines += [f"# {item.comment}", *self._in_tile(mapped, text, tiles)]
        return lines, list(carried.values())

    def _in_tile(self, mapped: MappedNest, text: NestText, tiles: TileLoop) -> list[str]:
        if not mapped.nest.domain:
            return text.numbers()
        rows = min(64, self._evaluate(tiles.rows))
        sizes = dict(self._numbers) | {BEGIN: 0, END: rows}
        own = evaluate(iterations(mapped.nest, 0, mapped.parallel), sizes)
        first, end = mapped.parallel, mapped.parallel + mapped.spread
        terms = evaluate(iterations(mapped.nest, first, end), sizes)
        if mapped.spread and (not mapped.parallel or (terms > own and terms >= self._tuning.row)):
            return text.rows(BLOCK_TEAM)
        return text.entries(BLOCK_TEAM)

    def _shared_by_tiles(self, nest: Nest, own: frozenset[str]) -> frozenset[str]:
        """The memory that all tiles add to, which must be done atomically."""
        rows = {k for k, r in enumerate(nest.ranges) if r == (BEGIN, END)}
        out: set[str] = set()
        for s in nest.all_statements:
            if not s.writes or s.memory in own or s.access is None:
                continue
            if any(axis.var in rows for axis in s.access.index):
                continue
            if s.kind is not StatementKind.UPDATE or not self._texts.adds_atomically(s):
                raise _NotTiledError
            out.add(s.memory)
        return frozenset(out)


def _atom(text: str) -> str:
    return f"({text})"


def _with_outer_loop(nest: Nest, count: str) -> Nest:
    """The nest inside one more loop."""

    def moved(s: Statement) -> Statement:
        if s.access is None:
            return s
        index = tuple(a._replace(var=a.var + 1) if a.var >= 0 else a for a in s.access.index)
        return s._replace(access=s.access._replace(index=index))

    new = nest.map(moved)
    sums = tuple(replace(a, depth=a.depth + 1) for a in new.accumulators)
    ranges = (None, *nest.ranges) if nest.ranges else ()
    return replace(new, domain=(count, *nest.domain), accumulators=sums, ranges=ranges)

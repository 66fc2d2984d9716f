"""From a kernel graph to a program for a GPU.

Nests of few iterations follow one another in a kernel of one block, with barriers in between; so do
numbers that nests share. Each large nest has a kernel for the whole grid, and nests that run for
the same rows (tile loops) have one kernel whose blocks take tiles of rows. Which is which depends
on the sizes (`Tuning`); all else is in the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ir.graph import KernelGraph, Values
from ..ir.loops import (
    BEGIN,
    BLOCK,
    END,
    Accumulator,
    Call,
    LoopProgram,
    Nest,
    StatementKind,
    TileLoop,
)
from ..passes.pipeline import lower_for_cuda
from ..passes.tile.loop_collapse import collapse
from .block_scans import Scan, scans_of
from .kernel_text import KernelTexts, length
from .matrix_kernels import emit_call, product_lines
from .nest_mapping import MappedNest, map_nest
from .nest_text import BARRIER, BLOCK_TEAM, GRID, NestText, Team, indented, iterations
from .partial_results import by_blocks, chunked, neutral_element
from .program import CudaProgram, Numbers, SortKeys, evaluate, numbers_of
from .scan_text import ScanText
from .shared_rows import SharedRows
from .sorted_scatters import SORT, sorted_scatters
from .tuning import GPU, Tuning


def cuda_program(
    graph: KernelGraph, values: Values, *, deterministic: bool = False, tuning: Tuning = GPU
) -> CudaProgram:
    """The program of a graph for sizes like these; inputs are arrays in row-major order.

    If `deterministic`, nothing is added to memory in an order that differs from run to run.
    """
    numbers = numbers_of(graph, values)

    def made(*, tiled: bool) -> CudaProgram:
        program = lower_for_cuda(graph, tiled=tiled)
        return _Generator(graph, program, numbers, tuning, not deterministic).program()

    try:
        return made(tiled=not deterministic)
    except _NotTiledError:
        return made(tiled=False)


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
        new, most = [*lines], self._tuning.lines
        before = length(self._lines)
        if before > most or (before and before + length(new) > 2 * most):
            self._flush()
        if self._lines:
            self._lines.append(BARRIER)
        self._lines += new

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
        if not self._atomics and self._scattered(nest):
            return
        mapped = self._mapped(nest)
        total = self._evaluate(iterations(mapped.nest, 0, len(mapped.nest.domain)))
        rows = self._evaluate(iterations(mapped.nest, 0, mapped.parallel))
        if scans := self._scans(mapped, rows, total):
            self._scanned(ScanText(mapped, self._memory, scans), mapped, head, total)
            return
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
            self._chunks(mapped, own, terms)
        elif own < self._tuning.many and terms > self._tuning.row:
            self._rows(mapped, head, terms)
        else:
            self._entries(mapped, head)

    def _scans(self, mapped: MappedNest, rows: int, total: int) -> dict[str, Scan] | None:
        """The running values of a nest of so many iterations, if blocks are to take its rows."""
        busy = self._tuning.threads if total <= self._tuning.light else self._tuning.many
        enough = rows >= busy and (mapped.contiguous or total <= self._tuning.light)
        if enough or total < self._tuning.row * max(1, rows):
            return None
        if any(s.target in self._texts.locals for s in mapped.nest.all_statements):
            return None
        return scans_of(mapped, self._memory)

    def _scanned(self, text: ScanText, mapped: MappedNest, head: list[str], total: int) -> None:
        """Rows in the open kernel of one block, or in a kernel of its own."""
        if total <= self._tuning.light or not mapped.parallel:
            self._phase([*head, *text.scanned(BLOCK_TEAM)])
            return
        self._flush()
        rows = iterations(mapped.nest, 0, mapped.parallel)
        blocks = f"max(1, min({self._tuning.blocks}, {rows}))"
        self._texts.launch([*head, *text.scanned(GRID)], blocks, self._tuning.threads)

    def _scattered(self, nest: Nest) -> bool:
        """Sorted scatters in place of a nest that would add in any order; whether there are any."""
        found = sorted_scatters(nest, self._memory, self._texts)
        if found is None:
            return False
        terms, scatters = found
        self._nest(terms)
        self._flush()
        threads = self._tuning.threads
        for scatter in scatters:
            sort = [f"sort_keys({scatter.keys}, {scatter.number}, thread, threads)"]
            library = SortKeys(scatter.keys, scatter.number)
            self._texts.launch(sort, "1", threads, helper=SORT, library=library)
            most, up = self._tuning.blocks, threads - 1
            blocks = f"max(1, min({most}, ({scatter.number} + {up}) // {threads}))"
            self._texts.launch(scatter.lines, blocks, threads)
        return True

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
            return text.rows(self._row_team(mapped, terms))
        if mapped.parallel:
            return text.entries(BLOCK_TEAM)
        return self._published(mapped.nest, text.alone())

    def _row_team(self, mapped: MappedNest, terms: int) -> Team:
        """Who reduces rows of so many terms in a block: its warps, or all of its threads."""
        by_warps = mapped.parallel and terms <= self._tuning.warp
        return BLOCK_TEAM.by_warps() if by_warps else BLOCK_TEAM

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
        threads = self._tuning.threads
        if apart := self._lines_apart(mapped, mapped.parallel):
            blocks = f"max(1, min({self._tuning.blocks}, {apart}))"
        else:
            own = iterations(mapped.nest, 0, mapped.parallel)
            blocks = f"max(1, min({self._tuning.blocks}, ({own} + {threads - 1}) // {threads}))"
        lines = NestText(mapped, self._memory).entries(GRID, lines_apart=bool(apart))
        self._texts.launch([*head, *lines], blocks, threads)

    def _lines_apart(self, mapped: MappedNest, end: int) -> str:
        """How many lines the first `end` loops have, if blocks take one each; else nothing.

        There have to be enough, and each such that few threads have nothing to do at its end.
        """
        lines = iterations(mapped.nest, 0, end - 1)
        if end < 2 or self._evaluate(lines) < self._tuning.apart:
            return ""
        threads, long = self._tuning.threads, self._evaluate(iterations(mapped.nest, end - 1, end))
        return lines if 4 * long >= 3 * threads * -(-long // threads) else ""

    def _rows(self, mapped: MappedNest, head: list[str], terms: int) -> None:
        """A kernel whose blocks reduce a row at a time, or whose warps do."""
        self._flush()
        rows, most = iterations(mapped.nest, 0, mapped.parallel), self._tuning.blocks
        if terms <= self._tuning.warp and self._evaluate(rows) >= self._tuning.rows:
            threads, team = self._tuning.threads, GRID.by_warps()
            all_ = f"({rows} * {self._tuning.lanes} + {threads - 1}) // {threads}"
            blocks = f"max(1, min({most}, {all_}))"
        else:
            threads = min(self._tuning.threads, max(32, 1 << (terms // 4).bit_length()))
            team, blocks = GRID, f"max(1, min({most}, {rows}))"
        lines = NestText(mapped, self._memory).rows(team)
        self._texts.launch([*head, *lines], blocks, threads)

    def _partial(self, mapped: MappedNest, head: list[str]) -> None:
        """A kernel that reduces all, to one partial result a block; then one block goes on."""
        self._flush()
        threads = self._tuning.threads
        all_ = iterations(mapped.nest, 0, mapped.spread)
        few = self._tuning.many // threads  # blocks that keep a GPU busy: then threads do more each
        ones, eights = (f"({all_} + {each - 1}) // {each}" for each in (threads, 8 * threads))
        blocks = f"max(1, min({self._tuning.partial}, max(min({few}, {ones}), {eights})))"
        if apart := self._lines_apart(mapped, mapped.spread):  # as many for each block, but for one
            each = f"(({apart} + {self._tuning.partial - 1}) // {self._tuning.partial})"
            blocks = f"max(1, ({apart} + {each} - 1) // {each})"
        first, second = by_blocks(mapped, blocks, self._texts)
        lines = NestText(first, self._memory).rows(GRID, lines_apart=bool(apart))
        self._texts.launch([*head, *lines], blocks, threads)
        self._nest(second, split=False)

    def _chunks(self, mapped: MappedNest, own: int, terms: int) -> None:
        """Two nests: one has an entry for each chunk of the terms, one reduces the chunks.

        Threads have chunks of neighbouring entries, or blocks one each where terms are neighbours.
        """
        by_blocks = not mapped.contiguous
        most = self._tuning.tiled if by_blocks else 4 * self._tuning.many
        one, two = chunked(mapped, most, self._texts, together=by_blocks)
        head = [f"# {mapped.nest.comment}"]
        if by_blocks:
            self._rows(one, head, max(1, terms * own // most))
        else:
            self._entries(one, head)
        self._nest(two, split=False)

    # --- routines -------------------------------------------------------------------------------

    def _call(self, call: Call) -> None:
        lines = product_lines(call, self._numbers, self._tuning.light)
        if lines:
            self._phase([f"# {call.comment}", *lines])
            return
        self._flush()
        emit_call(call, self._texts, self._numbers, self._tuning)

    # --- nests over the same rows ---------------------------------------------------------------

    def _tiles(self, tiles: TileLoop) -> None:
        """A kernel whose blocks take tiles of rows; one block alone if there is little to do."""
        nests = [item for item in tiles.items if isinstance(item, Nest)]
        work = [self._work(nest, tiles) for nest in nests]
        rows = max(1, self._evaluate(tiles.rows))
        light = sum(work) <= self._tuning.light
        own = self._texts.temporaries_of(tiles)
        atomic = frozenset[str]().union(*(self._mapped(nest).atomic for nest in nests))
        staging = SharedRows(tiles, own, self._memory, self._numbers, atomic)
        most = staging.height(max(1, min(work) // rows), self._tuning)
        height = f"max(1, min({most}, {tiles.rows} // {self._tuning.tiles}))"
        if light:
            height = f"max(1, {tiles.rows})"
        blocks = f"max(1, min({self._tuning.tiled}, {tiles.rows} // {_atom(height)}))"
        high = min(rows, self._evaluate(height))
        staged, kept = ([], {}) if light else staging.at(high)
        body, carried = self._tile_body(tiles, high, {t.name: t.stride for t in staged})
        if light:
            self._texts.tile(tiles, height, "1")
            ends = [f"{BLOCK} = {height}", f"{BEGIN} = 0", f"{END} = {tiles.rows}"]
            sums = NestText(
                MappedNest(Nest((), (), tuple(carried)), 0, 0, frozenset(), True), self._memory
            )
            self._phase([*ends, *sums.begun(), *body, *sums.combined()])
            return
        self._flush()
        offsets = self._texts.tile(tiles, height, blocks, kept)
        begun = [f"{a.name} = {neutral_element(a, self._memory)}" for a in carried]
        count = f"({tiles.rows} + {BLOCK} - 1) // {BLOCK}"
        loop = [
            f"{BLOCK} = {height}",
            *offsets,
            *(t.declared for t in staged),
            *begun,
            "tile = block_number",
            f"while tile < {count}:",
            f"{'    '}{BEGIN} = tile * {BLOCK}",
            f"{'    '}{END} = min({BEGIN} + {BLOCK}, {tiles.rows})",
            *indented([line for t in staged for line in t.copied]),
            *indented([BARRIER] if staged else []),
            *indented(body),
            *indented([BARRIER]),
            "    tile = tile + blocks",
        ]
        nest = Nest((), (), tuple(carried), "sums over the tiles")
        mapped = MappedNest(nest, 0, 0, frozenset(), contiguous=True)
        first, second = by_blocks(mapped, blocks, self._texts)
        loop += NestText(first, self._memory).combined()
        self._texts.launch(loop, blocks, self._tuning.threads)
        if carried:
            self._nest(second, split=False)

    def _work(self, nest: Nest, tiles: TileLoop) -> int:
        """How many iterations a nest of a tile loop has in all."""
        sizes = dict(self._numbers) | {BEGIN: 0, END: self._evaluate(tiles.rows)}
        return evaluate(iterations(nest, 0, len(nest.domain)), sizes)

    def _tile_body(
        self, tiles: TileLoop, high: int, staged: Mapping[str, str]
    ) -> tuple[list[str], list[Accumulator]]:
        """The lines of one tile, and the accumulators that go on from tile to tile."""
        own = frozenset(t.name for t in self._texts.temporaries_of(tiles))
        lines: list[str] = []
        carried: dict[str, Accumulator] = {}
        for item in tiles.items:
            lines += [BARRIER] if lines else []
            if isinstance(item, Call):
                lines += [f"# {item.comment}", *product_lines(item, self._numbers)]
                continue
            if not isinstance(item, Nest):
                raise _NotTiledError
            mapped = self._mapped(item)
            going = {a.name: a for a in mapped.nest.accumulators if a.identity == a.name}
            if going and (mapped.parallel or not mapped.spread):
                raise _NotTiledError
            carried |= going
            shared = self._shared_by_tiles(mapped.nest, own)
            text = NestText(
                mapped, self._memory, shared=shared, carried=frozenset(going), staged=staged
            )
            lines += [f"# {item.comment}", *self._in_tile(mapped, text, high)]
        return lines, list(carried.values())

    def _in_tile(self, mapped: MappedNest, text: NestText, high: int) -> list[str]:
        """The lines of a nest in a tile of so many rows."""
        if not mapped.nest.domain:
            return text.numbers()
        sizes = dict(self._numbers) | {BEGIN: 0, END: high}
        own = evaluate(iterations(mapped.nest, 0, mapped.parallel), sizes)
        first, end = mapped.parallel, mapped.parallel + mapped.spread
        terms = evaluate(iterations(mapped.nest, first, end), sizes)
        total = evaluate(iterations(mapped.nest, 0, len(mapped.nest.domain)), sizes)
        if scans := self._scans(mapped, own, min(total, self._tuning.light)):
            return ScanText(mapped, self._memory, scans).scanned(BLOCK_TEAM)
        by_rows = terms >= self._tuning.row and (terms > own or not mapped.contiguous)
        if mapped.spread and (not mapped.parallel or by_rows):
            return text.rows(self._row_team(mapped, terms))
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

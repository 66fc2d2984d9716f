"""From a kernel graph to a program for a GPU.

Nests have kernels of their own, or share one of one block, with numbers that nests share
(`nest_kernels`); nests that run for the same rows (tile loops) have one kernel whose blocks take
tiles of rows. Which is which depends on the sizes (`Tuning`); all else is in the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...named_tuples import NamedTuple
from ..ir.accesses import Row
from ..ir.control_items import SequentialLoop
from ..ir.index_expressions import atom
from ..ir.kernel_graph import KernelGraph, Values
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
from .cuda_program import CudaProgram, Numbers, evaluate, numbers_of
from .devices.launch_sizes import GPU, Tuning
from .kernel_text import KernelTexts
from .matrices.matrix_kernels import emit_call, product_lines, terms_of
from .nests.loop_kernels import emit_loop
from .nests.nest_kernels import NestKernels, work_of
from .nests.nest_mapping import MappedNest, is_atomic
from .nests.nest_text import BARRIER, BLOCK_TEAM, NestText, indented, iterations
from .nests.partial_results import by_blocks, neutral_element
from .nests.scan_text import ScanText
from .nests.shared_rows import SharedRows, TileRows


def cuda_program(
    graph: KernelGraph, values: Values, *, deterministic: bool = False, tuning: Tuning = GPU
) -> CudaProgram:
    """The program of a graph for sizes like these; inputs are arrays in row-major order.

    If `deterministic`, nothing is added to memory in an order that differs from run to run.
    """
    numbers = numbers_of(graph, values)

    def generated(*, tiled: bool) -> CudaProgram:
        program = lower_for_cuda(graph, tiled=tiled)
        return _Generator(graph, program, numbers, tuning, atomics=not deterministic).program()

    try:
        return generated(tiled=not deterministic)
    except _NotTiledError:
        return generated(tiled=False)


class _NotTiledError(Exception):
    """Blocks cannot take tiles of rows: they would overwrite each other's results."""


class _TileShape(NamedTuple):
    """Tiles of up to `high` rows: their height and number of blocks as text, and what they share.

    `staged` are rows of arrays that are read, `kept` temporaries with their entries.
    """

    height: str
    blocks: str
    high: int
    staged: list[TileRows]
    kept: dict[str, int]


class _Generator(NestKernels):
    """The program of all items of a loop program."""

    def __init__(
        self,
        graph: KernelGraph,
        program: LoopProgram,
        numbers: Numbers,
        tuning: Tuning,
        *,
        atomics: bool,
    ) -> None:
        super().__init__(KernelTexts(graph, program), numbers, tuning, atomics=atomics)
        self._loops = program

    def program(self) -> CudaProgram:
        """All items, then the outputs that are numbers."""
        for item in self._loops.items:
            if isinstance(item, Nest):
                self._emit_nest(item)
            elif isinstance(item, SequentialLoop):
                self._flush()
                emit_loop(item, self._texts, self._tuning)
            elif isinstance(item, Call):
                self._emit_call(item)
            else:
                assert isinstance(item, TileLoop)
                self._emit_tiles(item)
        for out in self._loops.outputs:
            if out.scalar:
                value = f"np.uint8({out.scalar})" if out.dtype == "b1" else out.scalar
                self._phase(["if thread == 0:", *indented([f"{out.name}[0] = {value}"])])
        self._flush()
        return self._texts.program()

    # --- routines -------------------------------------------------------------------------------

    def _emit_call(self, call: Call) -> None:
        lines = product_lines(call, self._numbers, self._tuning.light)
        if lines:
            self._phase([f"# {call.comment}", *lines])
            return
        self._flush()
        emit_call(call, self._texts, self._numbers, self._tuning)

    # --- nests over the same rows ---------------------------------------------------------------

    def _shape(self, tiles: TileLoop) -> _TileShape:
        """How many rows tiles have, how many blocks take them, and what lies in shared memory."""
        nests = [item for item in tiles.items if isinstance(item, Nest)]
        work = [self._work(item, tiles) for item in tiles.items if isinstance(item, Nest | Call)]
        rows = max(1, self._evaluate(tiles.rows))
        if sum(work) <= self._tuning.light:
            return _TileShape(f"max(1, {tiles.rows})", "1", rows, [], {})
        own = self._texts.temporaries_of(tiles)
        atomic = frozenset[str]().union(*(self._mapped(nest).atomic for nest in nests))
        updates = [s for n in nests for s in n.all_statements if s.kind is StatementKind.UPDATE]
        reduced = len(updates) + sum(len(nest.accumulators) for nest in nests)
        staging = SharedRows(tiles, own, self._memory, self._numbers, atomic, reduced)
        most = staging.height(max(1, min(work, default=0) // rows), self._tuning)
        height = f"max(1, min({most}, {tiles.rows} // {self._tuning.tiles}))"
        blocks = f"max(1, min({self._tuning.tile_blocks}, {tiles.rows} // {atom(height)}))"
        high = min(rows, self._evaluate(height))
        return _TileShape(height, blocks, high, *staging.kept(high))

    def _emit_tiles(self, tiles: TileLoop) -> None:
        """A kernel whose blocks take tiles of rows; one block alone if there is little to do."""
        height, blocks, high, staged, kept = self._shape(tiles)
        body, carried = self._tile_body(tiles, high, {t.name: t.stride for t in staged})
        if blocks == "1":
            self._texts.tile(tiles, height, blocks)
            ends = [f"{BLOCK} = {height}", f"{BEGIN} = 0", f"{END} = {tiles.rows}"]
            sums = NestText(
                MappedNest(Nest((), (), tuple(carried)), 0, 0, frozenset(), True), self._memory
            )
            self._phase([*ends, *sums.begun(), *body, *sums.combined()])
            return
        self._flush()
        offsets = self._texts.tile(tiles, height, blocks, kept)
        begun = [f"{a.name} = {neutral_element(a)}" for a in carried]
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
            self._emit_nest(second, split=False)

    def _work(self, item: Nest | Call, tiles: TileLoop) -> int:
        """How many iterations a nest of a tile loop has in all, or a product terms."""
        sizes = dict(self._numbers) | {BEGIN: 0, END: self._evaluate(tiles.rows)}
        if isinstance(item, Call):
            return terms_of(item, sizes)
        return evaluate(iterations(item, 0, len(item.domain)), sizes)

    def _tile_body(
        self, tiles: TileLoop, high: int, staged: Mapping[str, str]
    ) -> tuple[list[str], list[Accumulator]]:
        """The lines of one tile, and the accumulators that go on from tile to tile."""
        nests = {id(item): self._mapped(item) for item in tiles.items if isinstance(item, Nest)}
        shared = self._shared_by_tiles(tiles, nests.values())
        lines: list[str] = []
        carried: dict[str, Accumulator] = {}
        for item in tiles.items:
            lines += [BARRIER] if lines else []
            if isinstance(item, Call):
                lines += [f"# {item.comment}", *product_lines(item, self._numbers)]
                continue
            if not isinstance(item, Nest):
                raise _NotTiledError
            mapped = nests[id(item)]
            going = {a.name: a for a in mapped.nest.accumulators if a.identity == a.name}
            if going and (mapped.parallel or not mapped.reduced):
                raise _NotTiledError
            carried |= going
            text = NestText(
                mapped, self._memory, shared=shared, carried=frozenset(going), staged=staged
            )
            lines += [f"# {item.comment}", *self._in_tile(mapped, text, high)]
        return lines, list(carried.values())

    def _in_tile(self, mapped: MappedNest, text: NestText, high: int) -> list[str]:
        """The lines of a nest in a tile of `high` rows."""
        if not mapped.nest.domain:
            return text.numbers()
        work = work_of(mapped, {**self._numbers, BEGIN: 0, END: high})
        limited = work._replace(total=min(work.total, self._tuning.light))
        if scans := self._scans(mapped, limited):
            return ScanText(mapped, self._memory, scans).scanned(BLOCK_TEAM)
        longer = work.terms > work.entries or not mapped.contiguous
        by_rows = work.terms >= self._tuning.shared_terms and longer
        if mapped.reduced and (not mapped.parallel or by_rows):
            return text.rows(self._row_team(mapped, work.terms))
        return text.entries(BLOCK_TEAM)

    def _shared_by_tiles(self, tiles: TileLoop, nests: Iterable[MappedNest]) -> frozenset[str]:
        """The memory that several tiles add to, which must be done atomically.

        A tile has an array to itself if all that is added there is added to the rows of the tile:
        not if one nest adds to row ``i``, and another one, or the same, to row ``i + 1``.
        """
        own = {t.name for t in self._texts.temporaries_of(tiles)}
        places: dict[str, set[Row | None]] = {}
        in_order: set[str] = set()  # memory with updates that no GPU does atomically
        for nest in (mapped.nest for mapped in nests):
            loops = [k for k, r in enumerate(nest.ranges) if r == (BEGIN, END)]
            for s in nest.all_statements:
                if not s.writes or s.memory in own or s.access is None:
                    continue
                if s.kind is StatementKind.UPDATE:
                    rows = {s.access.row_in(k) for k in loops} or {None}
                    places.setdefault(s.memory, set()).update(rows)
                    in_order |= set() if is_atomic(s, self._texts.dtypes) else {s.memory}
                elif not any(axis.var in loops for axis in s.access.index):
                    raise _NotTiledError
        shared = {name for name, rows in places.items() if None in rows or len(rows) > 1}
        if shared & in_order:
            raise _NotTiledError
        return frozenset(shared)

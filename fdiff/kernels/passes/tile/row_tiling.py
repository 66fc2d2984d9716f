"""Row tiling: nests over the same rows run for one tile of rows at a time, within the cache.

All nests and matrix products over the rows of one axis that may be interleaved tile by tile are put
into one tile loop (strip-mining, then fusion of the outer loops, an idea of M. Wolfe, More
iteration space tiling, Supercomputing 1989). Temporaries that only they use shrink to one tile.
Reductions over the rows start before the loop and end after it: docs/decisions/row-tiling.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ...ir.index_expressions import Dims, nonunit
from ...ir.loops import (
    BLOCK,
    Call,
    Item,
    LoopProgram,
    Nest,
    Temporary,
    TileLoop,
)
from ...ir.tile_sizes import fewest_tile_rows, tile_height
from .row_dependence import (
    MemoryUses,
    finalisation,
    initialisation,
    memory_uses,
    restricted_to_tile,
    row_loop,
    rows_of,
)
from .row_products import accumulated_product, product_of_tile, role_of_rows


def tile_rows(program: LoopProgram) -> LoopProgram:
    """The program with one axis tiled, if that saves passes over memory."""
    contiguous = {a.name: a.dims for a in program.arguments if a.contiguous}
    axes = {d for t in program.temporaries for d in nonunit(t.dims) if not d.isdigit()}
    candidates = [_candidate(program, axis, contiguous) for axis in sorted(axes)]
    best = max(candidates, key=_TileCandidate.saved_entries, default=None)
    return program if best is None or not best.saved_entries() else best.program()


def _candidate(program: LoopProgram, axis: str, contiguous: Mapping[str, Dims]) -> _TileCandidate:
    """The tile loop over an axis, with as many items as may be in it."""
    tiled = _TileCandidate(program, axis, contiguous)
    if sum(map(tiled.over_rows, program.items)) > 1:
        for item in program.items:
            tiled.take(item)
    return tiled


@dataclass
class _TileCandidate:
    """The items in a tile loop over an axis, those before the loop, and those after it."""

    whole: LoopProgram
    axis: str
    contiguous: Mapping[str, Dims]
    used: dict[int, MemoryUses] = field(default_factory=dict)  # by the `id` of an item
    before: list[Item] = field(default_factory=list)
    tiled: list[Nest | Call] = field(default_factory=list)
    after: list[Item] = field(default_factory=list)
    uses: MemoryUses = field(default_factory=MemoryUses)
    uses_after: MemoryUses = field(default_factory=MemoryUses)

    def __post_init__(self) -> None:
        self.memory = self.whole.own_memory
        self.dims = {**self.contiguous, **{name: t.dims for name, t in self.memory.items()}}

    def take(self, item: Item) -> None:
        """Put the next item of the program before the loop, into it, or after it."""
        assert isinstance(item, Nest | Call)
        uses = self._uses_of(item)
        if uses.depends_on(self.uses_after):
            self.after.append(item)
            self.uses_after.add(uses)
        elif self.over_rows(item) and self.uses.may_share_tiles(uses):
            self.tiled.append(item)
            self.uses.add(uses)
        elif uses.depends_on(self.uses):
            self.after.append(item)
            self.uses_after.add(uses)
        else:
            self.before.append(item)

    def _uses_of(self, item: Nest | Call) -> MemoryUses:
        if id(item) not in self.used:
            self.used[id(item)] = memory_uses(item, self.axis, self.dims)
        return self.used[id(item)]

    def over_rows(self, item: Item) -> bool:
        """Whether an item has a loop over the rows of the axis that may be tiled."""
        if isinstance(item, Call):
            return role_of_rows(item, self.axis, self.dims) is not None
        return isinstance(item, Nest) and row_loop(item, self.axis) is not None

    def tile_local(self) -> dict[str, int]:
        """The temporaries that only the tile loop uses, row by row, each with its row axis."""
        outside = MemoryUses()
        for item in (*self.before, *self.after):
            assert isinstance(item, Nest | Call)
            outside.add(self._uses_of(item))
        out: dict[str, int] = {}
        for t in self.whole.temporaries:
            rows = self.uses.by_rows(t.name)
            same_rows = rows is not None and rows == rows_of(t.dims, self.axis)
            if same_rows and not outside.touches({t.name}):
                out[t.name] = t.dims.index(self.axis)
        return out

    def saved_entries(self) -> int:
        """A score of the memory saved, which grows with the rank of tile-local temporaries."""
        if len(self.tiled) < 2:
            return 0
        return sum(8 ** len(nonunit(self.dims[name])) for name in self.tile_local())

    def program(self) -> LoopProgram:
        """The program with the tile loop, and initialisations before and results after it."""
        tile_local = self.tile_local()
        rows = tuple(
            tuple(d for k, d in enumerate(self.dims[name]) if k != axis)
            for name, axis in tile_local.items()
        )
        inside: list[Nest | Call] = []
        initial_nests: list[Nest] = []
        final_nests: list[Nest] = []
        extra: list[Temporary] = []
        axes = dict.fromkeys(tile_local, self.axis)
        for item in self.tiled:
            if isinstance(item, Nest):
                loop = row_loop(item, self.axis) or 0
                inside.append(restricted_to_tile(item, axes, loop))
                initial_nests += initialisation(item, loop)
                final_nests += finalisation(item)
                continue
            role = role_of_rows(item, self.axis, self.dims)
            assert role is not None
            part = product_of_tile(item, self.axis, role, tile_local)
            if role.sums:
                like = self.memory[item.buffers[2]]
                some, add, zeros = accumulated_product(part, like)
                inside += [some, add]
                initial_nests.append(zeros)
                extra.append(like._replace(name=some.buffers[2]))
            else:
                inside.append(part)
        least = fewest_tile_rows(adding=bool(extra))
        tile_loop = TileLoop(self.axis, tile_height(rows, least), tuple(inside))
        return replace(
            self.whole,
            temporaries=(
                *_as_large_as_a_tile(self.whole.temporaries, tile_local, rows, least),
                *extra,
            ),
            items=(*self.before, *initial_nests, tile_loop, *final_nests, *self.after),
        )


def _as_large_as_a_tile(
    temporaries: Iterable[Temporary], tile_local: dict[str, int], rows: tuple[Dims, ...], least: int
) -> Iterable[Temporary]:
    """The temporaries, those that are `tile_local` with as many rows as a tile."""
    for t in temporaries:
        if t.name in tile_local:
            dims = tuple(BLOCK if k == tile_local[t.name] else d for k, d in enumerate(t.dims))
            over = (t.dims[tile_local[t.name]],)
            yield t._replace(dims=dims, rows=rows, least=least, over=over)
        else:
            yield t

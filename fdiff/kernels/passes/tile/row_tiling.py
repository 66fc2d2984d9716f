"""Loops over the same rows, run a block of rows at a time: what they hand on stays in the cache.

All nests and products of matrices over the rows of one axis that can follow each other for a few
rows are put into one loop over blocks. Temporaries that only they use are as large as a block. What
they add up over the rows is begun before the loop and complete after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ....attributes import cached_property
from ...ir.indexing import Dims, nonunit
from ...ir.loops import (
    BLOCK,
    Call,
    LoopProgram,
    Nest,
    Temporary,
    TileLoop,
    VersionedLoop,
    fewest_tile_rows,
    tile_height,
)
from .row_dependence import Uses, finished, for_rows, row_loop, rows_of, started, uses_of
from .row_products import added_up, of_rows, role_of

Item = Nest | Call | TileLoop | VersionedLoop


def tile_rows(program: LoopProgram) -> LoopProgram:
    """The program with its rows in tiles, where that spares passes over memory."""
    given = {a.name: a.dims for a in program.arguments if a.contiguous}
    axes = {d for t in program.temporaries for d in nonunit(t.dims) if not d.isdigit()}
    runs = [_grow(program, axis, given) for axis in sorted(axes)]
    best = max(runs, key=_Run.worth, default=None)
    return program if best is None or not best.worth() else best.program()


def _grow(program: LoopProgram, axis: str, given: Mapping[str, Dims]) -> _Run:
    """The most that can run together."""
    run = _Run(program, axis, given)
    if sum(map(run.over_rows, program.items)) > 1:
        for item in program.items:
            run.take(item)
    return run


@dataclass
class _Run:
    """The items of a run, those that come before it, and those that come after."""

    whole: LoopProgram
    axis: str
    given: Mapping[str, Dims]
    used: dict[int, Uses] = field(default_factory=dict)  # by the `id` of an item of the program
    before: list[Item] = field(default_factory=list)
    run: list[Nest | Call] = field(default_factory=list)
    after: list[Item] = field(default_factory=list)
    uses: Uses = field(default_factory=Uses)
    late: Uses = field(default_factory=Uses)

    def __post_init__(self) -> None:
        outputs = [Temporary(o.name, o.dtype, o.dims) for o in self.whole.outputs]
        self.memory = {t.name: t for t in (*self.whole.temporaries, *outputs)}
        self.dims = {**self.given, **{name: t.dims for name, t in self.memory.items()}}

    def take(self, item: Item) -> None:
        """Put the next item where it can be."""
        assert isinstance(item, Nest | Call)
        uses = self._uses_of(item)
        if uses.follows(self.late):
            self.after.append(item)
            self.late.add(uses)
        elif self.over_rows(item) and self.uses.together(uses):
            self.run.append(item)
            self.uses.add(uses)
        elif uses.follows(self.uses):
            self.after.append(item)
            self.late.add(uses)
        else:
            self.before.append(item)

    def _uses_of(self, item: Nest | Call) -> Uses:
        if id(item) not in self.used:
            self.used[id(item)] = uses_of(item, self.axis, self.dims)
        return self.used[id(item)]

    def over_rows(self, item: Item) -> bool:
        """Whether an item has a loop over the rows of the axis that blocks can cut."""
        if isinstance(item, Call):
            return role_of(item, self.axis, self.dims) is not None
        return isinstance(item, Nest) and row_loop(item, self.axis) is not None

    @cached_property
    def short(self) -> dict[str, int]:
        """The temporaries that need no more than a block, and which axis is that of the rows.

        Asked for once all items are in their places.
        """
        outside = Uses()
        for item in (*self.before, *self.after):
            assert isinstance(item, Nest | Call)
            outside.add(self._uses_of(item))
        out: dict[str, int] = {}
        for t in self.whole.temporaries:
            rows = self.uses.by_rows(t.name)
            alike = rows is not None and rows == rows_of(t.dims, self.axis)
            if alike and not outside.meets({t.name}):
                out[t.name] = t.dims.index(self.axis)
        return out

    def worth(self) -> int:
        """How many entries are spared, roughly: none where nothing is."""
        if len(self.run) < 2:
            return 0
        return sum(8 ** len(nonunit(self.dims[name])) for name in self.short)

    def program(self) -> LoopProgram:
        short = self.short
        rows = tuple(
            tuple(d for k, d in enumerate(self.dims[name]) if k != axis)
            for name, axis in short.items()
        )
        inside: list[Nest | Call] = []
        begins: list[Nest] = []
        ends: list[Nest] = []
        extra: list[Temporary] = []
        axes = dict.fromkeys(short, self.axis)
        for item in self.run:
            if isinstance(item, Nest):
                loop = row_loop(item, self.axis) or 0
                inside.append(for_rows(item, axes, loop))
                begins += started(item, loop)
                ends += finished(item)
                continue
            role = role_of(item, self.axis, self.dims)
            assert role is not None
            part = of_rows(item, self.axis, role, short)
            if role.sums:
                like = self.memory[item.buffers[2]]
                some, add, zeros = added_up(part, like)
                inside += [some, add]
                begins.append(zeros)
                extra.append(like._replace(name=some.buffers[2]))
            else:
                inside.append(part)
        least = fewest_tile_rows(adding=bool(extra))
        blocks = TileLoop(self.axis, tile_height(rows, least), tuple(inside))
        return replace(
            self.whole,
            temporaries=(*_shortened(self.whole.temporaries, short, rows, least), *extra),
            items=(*self.before, *begins, blocks, *ends, *self.after),
        )


def _shortened(
    temporaries: Iterable[Temporary], short: dict[str, int], rows: tuple[Dims, ...], least: int
) -> Iterable[Temporary]:
    for t in temporaries:
        if t.name in short:
            dims = tuple(BLOCK if k == short[t.name] else d for k, d in enumerate(t.dims))
            yield t._replace(dims=dims, rows=rows, least=least)
        else:
            yield t

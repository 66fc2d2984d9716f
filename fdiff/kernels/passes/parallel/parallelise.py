"""Which loops of a kernel several threads can share, and what each needs of its own for that.

A loop is shared if its turns write to places of their own, or add to locals or memory: then each
part adds up its own, and these are added in the order of the parts. Whatever else there is (scans,
routines, the edges of slices) is done by one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...ir.combiners import Combiner
from ...ir.indexing import Axis, Dims
from ...ir.loops import (
    BEGIN,
    END,
    NUMPY,
    Buffer,
    Call,
    Conditional,
    LoopProgram,
    Nest,
    Statement,
    Temporary,
    TileLoop,
    VersionedLoop,
)
from ...ir.parallel import (
    PARTS,
    THREADS,
    ParallelLoop,
    ParallelProgram,
    PrivateReduction,
    SerialRegion,
)
from ..tile.loop_collapse import collapse

_WRITES = ("store", "update")
_ROWS = (BEGIN, END)  # the window of a loop over the rows of a block
_DTYPES = {text: dtype for dtype, text in NUMPY.items()}
Item = Nest | Call | TileLoop | VersionedLoop
Row = tuple[Dims, int, Axis]


def parallelise(program: LoopProgram, heavy: frozenset[int]) -> ParallelProgram | None:
    """The program for several threads, with the loops that are `heavy` shared, by their numbers.

    None if none of them can be.
    """
    sharing = _Sharing(program)
    items: list[ParallelLoop | SerialRegion | Nest] = []
    for k, item in enumerate(program.items):
        made = sharing.item(item, heavy=k in heavy)
        last = items[-1] if items else None
        if isinstance(made, SerialRegion) and isinstance(last, SerialRegion):
            made = SerialRegion((*last.items, *made.items), (*last.locals, *made.locals))
            items.pop()
        items.append(made)
    if not any(isinstance(item, ParallelLoop) for item in items):
        return None
    return ParallelProgram(sharing.temporaries(), tuple(items), program.outputs)


class _Sharing:
    """What has been found out on the way through the items."""

    def __init__(self, program: LoopProgram) -> None:
        self.program = program
        self.locals = dict(program.locals)
        outputs = [Temporary(o.name, o.dtype, o.dims) for o in program.outputs]
        self.memory = {t.name: t for t in (*program.temporaries, *outputs)}
        self.private = _private(program)
        self.neutral: dict[str, str] = {}  # what locals that add up were begun with
        self.extra: list[Temporary] = []

    def temporaries(self) -> tuple[Temporary, ...]:
        """The memory of the program, and what the threads need besides."""
        own = (
            t._replace(copies=THREADS) if t.name in self.private else t
            for t in self.program.temporaries
        )
        return (*own, *self.extra)

    def item(self, item: Item, *, heavy: bool) -> ParallelLoop | SerialRegion | Nest:
        """The item, shared if that can be and pays."""
        shared: ParallelLoop | Nest | None = None
        count = len(self.extra)
        if isinstance(item, Nest):
            if not item.domain:
                shared = self._plain(item)
            elif heavy:
                shared = self._nest(collapse(item))
            self.neutral |= {a.name: a.identity for a in item.accumulators if a.identity != a.name}
            given = (s for s in item.statements if s.kind == "let" and not s.operands)
            self.neutral |= {s.target: s.text for s in given}
        elif isinstance(item, TileLoop) and heavy:
            shared = self._blocks(item)
        elif isinstance(item, VersionedLoop) and heavy:
            shared = self._runs(item)
        if shared is None:
            del self.extra[count:]
        return shared or self._alone(item)

    def _alone(self, item: Item) -> SerialRegion:
        """The item for one thread, with the locals that others may read."""
        names: dict[str, None] = {}
        for nest in _nests(item):
            names |= dict.fromkeys(s.target for s in nest.all_statements)
            names |= dict.fromkeys(a.name for a in nest.accumulators)
        made = [(name, self._slot(self.locals[name])) for name in names if name in self.locals]
        return SerialRegion((item,), tuple(made))

    def _slot(self, dtype: str) -> str:
        """A place for a local, one for each part."""
        self.extra.append(Temporary(f"slot{len(self.extra)}", dtype, (), (), PARTS))
        return self.extra[-1].name

    def _plain(self, nest: Nest) -> Nest | None:
        """A nest without a loop, if it reads nothing that may be written over by now."""
        used = {s.access.buffer.name for s in nest.all_statements if s.access is not None}
        return nest if used.isdisjoint(self.memory) else None

    def _nest(self, nest: Nest) -> ParallelLoop | None:
        if not nest.domain or nest.excluded or nest.branches:
            return None
        outer = [a for a in nest.accumulators if a.depth == 0]
        late = {id(s) for a in outer for s in a.final}
        inside = [s for s in nest.all_statements if id(s) not in late]
        totals = self._totals([nest], inside, [a.name for a in outer])
        copies = self._copies(inside, {id(s): 0 for s in inside})
        if totals is None or copies is None:
            return None
        bounds = nest.ranges[0] if nest.ranges and nest.ranges[0] else ("0", nest.domain[0])
        inner = nest.ranges[1:] or (None,) * (len(nest.domain) - 1)
        final = [s for a in outer for s in a.final]
        sums = tuple(
            replace(a, identity=a.name, final=()) if a.depth == 0 else a for a in nest.accumulators
        )
        ranges = ((_of_part(bounds, "part"), _of_part(bounds, "part + 1")), *inner)
        lines = replace(nest, ranges=ranges, accumulators=sums)
        return ParallelLoop(_renamed(lines, copies), totals, copies, tuple(final))

    def _blocks(self, blocks: TileLoop) -> ParallelLoop | None:
        nests = list(_nests(blocks))
        continues = [a.name for n in nests for a in n.accumulators if a.identity == a.name]
        inside = [s for nest in nests for s in nest.all_statements]
        by_rows = {
            id(s): nest.ranges.index(_ROWS)
            for nest in nests
            if _ROWS in nest.ranges
            for s in nest.all_statements
        }
        totals = self._totals(nests, inside, list(dict.fromkeys(continues)))
        copies = self._copies(inside, by_rows)
        calls = (i for i in blocks.items if isinstance(i, Call))
        if totals is None or copies is None or not all(map(self._apart, calls)):
            return None
        items = tuple(_renamed_item(item, copies) for item in blocks.items)
        return ParallelLoop(replace(blocks, items=items), totals, copies, ())

    def _apart(self, call: Call) -> bool:
        """Whether a product of the rows of a block is written where no other block's is."""
        return call.buffers[2] in self.private or bool(call.begins and call.begins[2])

    def _runs(self, runs: VersionedLoop) -> ParallelLoop | None:
        """Runs have the effects of the blocks in their place, on the same rows."""
        made = self._blocks(runs.fallback)
        if made is None or not isinstance(made.item, TileLoop):
            return None
        nests = [nest for way in runs.versions for nest in way.items]
        summed = {a.name for nest in nests for a in nest.accumulators if a.identity == a.name}
        if not summed <= {total.name for total in made.totals}:
            return None
        versions = tuple(
            replace(way, items=tuple(_renamed(nest, made.copies) for nest in way.items))
            for way in runs.versions
        )
        return replace(made, item=replace(runs, versions=versions, fallback=made.item))

    def _totals(
        self, nests: Sequence[Nest], inside: Sequence[Statement], names: list[str]
    ) -> tuple[PrivateReduction, ...] | None:
        """The locals that the turns add up; None if they are more than added up."""
        if any(s.target in self.locals and s.target not in names for s in inside):
            return None  # a local that is made on the way: parts would not know it
        if any(s.kind == "carry" and s.operands[0] == "0" for s in inside):
            return None
        out: list[PrivateReduction] = []
        for name in names:
            found = [a for n in nests for a in n.accumulators if a.name == name]
            combiner, identity = found[-1].combiner, found[-1].identity
            continues = identity == name
            neutral = self.neutral.get(name, "") if continues else identity
            if combiner is None or not neutral or any(a.scan for a in found):
                return None
            dtype = _dtype(neutral)
            text = combiner.text(dtype)
            out.append(PrivateReduction(name, self._slot(dtype), neutral, text, continues))
        return tuple(out)

    def _copies(
        self, inside: Sequence[Statement], by_rows: Mapping[int, int]
    ) -> tuple[tuple[Temporary, Temporary], ...] | None:
        """The memory that turns add to here and there; None where turns cannot be told apart.

        `by_rows` are statements, by their `id`, with the loop of each that counts the turns.
        """
        uses: dict[str, list[Statement]] = {}
        for s in inside:
            if s.access is not None and s.access.buffer.name in self.memory:
                uses.setdefault(s.access.buffer.name, []).append(s)
        out: list[tuple[Temporary, Temporary]] = []
        for name, some in uses.items():
            if name in self.private or all(s.kind not in _WRITES for s in some):
                continue
            rows = {_row(s, by_rows[id(s)]) if id(s) in by_rows else None for s in some}
            # stores of one loop into one array are pieces of it: they never overlap
            if None not in rows and (len(rows) == 1 or all(s.kind == "store" for s in some)):
                continue
            if any(s.combiner is not Combiner.ADD for s in some):
                return None
            whole = self.memory[name]
            self.extra.append(
                Temporary(f"all{len(self.extra)}", whole.dtype, whole.dims, (), PARTS)
            )
            out.append((whole, self.extra[-1]))
        return tuple(out)


def own(copies: Temporary) -> str:
    """The name of a part's own copy."""
    return f"own_{copies.name}"


def _of_part(bounds: tuple[str, str], part: str) -> str:
    """Where a part begins, as text."""
    begin, end = bounds
    if begin == "0":
        return f"rt.part_begin({end}, {part}, parts)"
    return f"({begin}) + rt.part_begin(max(({end}) - ({begin}), 0), {part}, parts)"


def _dtype(neutral: str) -> str:
    return "b1" if neutral in ("True", "False") else _DTYPES[neutral.split("(", maxsplit=1)[0]]


def _private(program: LoopProgram) -> frozenset[str]:
    """Temporaries that are used in one loop over blocks only: each thread has its own."""
    users: dict[str, set[int]] = {}
    for k, item in enumerate(program.items):
        for nest in _nests(item):
            for s in nest.all_statements:
                if s.access is not None:
                    users.setdefault(s.access.buffer.name, set()).add(k)
        blocks = item.fallback if isinstance(item, VersionedLoop) else item
        inner = blocks.items if isinstance(blocks, TileLoop) else (item,)
        for call in inner:
            for name in call.buffers if isinstance(call, Call) else ():
                users.setdefault(name, set()).add(k)
    return frozenset(
        t.name
        for t in program.temporaries
        if len(users.get(t.name, ())) == 1
        and all(isinstance(program.items[k], TileLoop | VersionedLoop) for k in users[t.name])
    )


def _nests(item: Item | Conditional) -> Iterator[Nest]:
    """The loops in an item."""
    if isinstance(item, Nest):
        yield item
    elif isinstance(item, Conditional):
        yield from (item.zero, item.other)
    elif isinstance(item, TileLoop):
        for inner in item.items:
            yield from _nests(inner)
    elif isinstance(item, VersionedLoop):
        yield from item.measured
        yield from (nest for way in item.versions for nest in way.items)
        yield from _nests(item.fallback)


def _row(s: Statement, loop: int) -> Row | None:
    """The row of the turn, if the entry lies in it; turns are counted by `loop`."""
    assert s.access is not None
    if loop not in s.access.injective_loops:
        return None
    at = [k for k, a in enumerate(s.access.index) if a.var == loop]
    if len(at) != 1:
        return None
    return s.access.dims, at[0], s.access.index[at[0]]._replace(var=0)


def _renamed_item(
    item: Nest | Call | Conditional, copies: tuple[tuple[Temporary, Temporary], ...]
) -> Nest | Call | Conditional:
    if isinstance(item, Conditional):
        return replace(item, zero=_renamed(item.zero, copies), other=_renamed(item.other, copies))
    return item if isinstance(item, Call) else _renamed(item, copies)


def _renamed(nest: Nest, copies: tuple[tuple[Temporary, Temporary], ...]) -> Nest:
    """The nest with its additions to a part's own copies."""
    names = {whole.name: Buffer(own(some)) for whole, some in copies}

    def of(lines: Iterable[Statement]) -> tuple[Statement, ...]:
        return tuple(
            s if s.access is None or s.access.buffer.name not in names
            else s._replace(access=s.access._replace(buffer=names[s.access.buffer.name]))
            for s in lines
        )  # fmt: skip

    sums = tuple(replace(a, final=of(a.final)) for a in nest.accumulators)
    return replace(nest, statements=of(nest.statements), accumulators=sums)

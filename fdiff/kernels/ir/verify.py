"""Verification of loop programs, after each pass.

A local is assigned once, in a loop that encloses all its readers, before them, and has one dtype.
An access has a position for each axis of its memory, in loops that exist. Memory is declared, and
written before it is read; inputs are never written. What is said of the order of reductions holds.
Checked where ``FDIFF_VERIFY`` is set, as it is in all tests.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache

from ...errors import TapeError
from ...foreign_errors import contextmanager
from ...kernel_rule import Kind
from .accesses import Access
from .expression_names import names_in
from .kernel_graph import KernelGraph
from .loops import (
    AHEAD,
    BEGIN,
    BLOCK,
    END,
    Accumulator,
    Call,
    Conditional,
    Item,
    LoopProgram,
    LoopVersion,
    Nest,
    Ranges,
    Statement,
    StatementKind,
    TileLoop,
    VersionedLoop,
    depth_of,
)
from .type_inference import DtypeInference


def verify(program: LoopProgram, graph: KernelGraph, place: str = "") -> LoopProgram:
    """Check every law; return the program, or raise `TapeError` that says where one is broken.

    `place` tells where in the compiler that is.
    """
    checks = Checks(program, graph, place)
    for item in program.items:
        checks.item(item)
    checks.end()
    return program


class Checks:
    """The checks of one program, and what is known after the items checked so far."""

    def __init__(self, program: LoopProgram, graph: KernelGraph, place: str) -> None:
        self.program = program
        self.place = f", {place}" if place else ""
        self.where = "program"
        inputs = [graph.ops[i] for i in graph.inputs]
        dtypes = {f"x{k}": p.dtype for k, p in enumerate(inputs) if p.dims}
        dtypes |= {f"k{p.data[0]}": p.dtype for p in graph.ops if p.kind is Kind.ARRAY}
        carries = range(max(graph.carries, 0))
        self.given = frozenset(dtypes) - {f"x{k}" for k in carries}
        own = [(m.name, m.dtype) for m in (*program.temporaries, *program.outputs)]
        names = [name for name, _ in own]
        self.law(len(set(names)) == len(names), "memory is declared twice: {}", names)
        self.memory = dtypes | dict(own)
        self.written: set[str] = {*dtypes, *(f"out{k}" for k in carries)}
        numbers = {f"x{k}": p.dtype for k, p in enumerate(inputs) if not p.dims}
        table = [op for op in graph.ops if op.kind is Kind.VALUE and op.text[0] in "mf"]
        numbers |= {op.text: op.dtype for op in table}
        self.kinds = DtypeInference(numbers)
        self.names = {*self.kinds.dtypes, *_parameters(graph)}  # what can be read here
        self.declared = dict(program.locals)

    def law(self, holds: bool, fault: str, *values: object) -> None:  # noqa: FBT001 - private
        """Raise unless the law holds; `values` are formatted into the words only then."""
        if not holds:
            said = f"{fault.format(*values)} ({self.where}{self.place})"
            raise TapeError(f"a program of loops breaks a law: {said}")

    @contextmanager
    def also(self, *names: str) -> Generator[None]:
        """A context in which further names are known."""
        added = set(names) - self.names
        self.names |= added
        yield
        self.names -= added

    def _read(self, *texts: str) -> None:
        for text in texts:
            for name in _names_in(text):
                self.law(name in self.names, "{} is read, and nothing has assigned it", name)

    def _assigned(self, name: str, kind: str | None) -> None:
        self.law(name not in self.names, "{} is assigned twice", name)
        self.law(name.isidentifier() and name not in self.memory, "{} is no local", name)
        self.names.add(name)
        self._of_kind(name, kind)

    def _of_kind(self, name: str, kind: str | None) -> None:
        """Check that a local has its declared dtype, and that a name has one dtype in all loops."""
        before = self.kinds.dtypes.get(name)
        self.law(
            None in (kind, before) or kind == before, "{} is {}, {} before", name, kind, before
        )
        self.kinds.dtypes[name] = kind or before
        declared = self.declared.get(name)
        agree = kind is None or declared is None or kind == declared
        self.law(agree, "{} is {}, and declared as {}", name, kind, declared)

    # --- items ------------------------------------------------------------------------------

    def item(self, item: Item | Conditional) -> None:
        """Check one item of the program: a nest, a call, blocks of rows or runs."""
        if isinstance(item, Nest):
            self.nest(item)
        elif isinstance(item, Call):
            self.call(item)
        elif isinstance(item, Conditional):
            self._read(item.local)
            before = set(self.names)
            for way in (item.zero, item.other):
                self.nest(way)
                self.names = set(before)  # neither has what the other has
        elif isinstance(item, TileLoop):
            self._read(item.rows, item.block)
            with self.also(BEGIN, END, BLOCK):
                for inner in item.items:
                    self.item(inner)
        else:
            self.runs(item)

    def call(self, item: Call) -> None:
        """Check a call of a routine, which may write to each of its buffers."""
        self.where = item.comment
        for name in item.buffers:
            self.law(name in self.memory, "{} is handed to a routine, and is no memory", name)
        self._read(*item.sizes)
        self.written.update(item.buffers)

    def runs(self, item: VersionedLoop) -> None:
        """Check alternatives for the same rows: each may assign the same names."""
        with self.also(BEGIN, END, AHEAD, BLOCK):
            for nest in item.measured:
                self.nest(nest)
            for way in item.versions:
                self.run(way)
        self.item(item.fallback)

    def run(self, way: LoopVersion) -> None:
        """Check one alternative, for rows whose index vectors count or stay."""
        before = set(self.names)
        self._read(*way.ends, *way.tests)
        for nest in way.items:
            self.nest(nest)
        self.names = before

    def end(self) -> None:
        """Check that every output has been written."""
        self.where = "at the end"
        for out in self.program.outputs:
            if out.scalar:
                self._read(out.scalar)
                kind = self.kinds.dtypes.get(out.scalar)
                agree = kind is None or kind == out.dtype
                self.law(agree, "{} is {}, and {} {}", out.scalar, kind, out.name, out.dtype)
            else:
                empty = "0" in out.dims
                self.law(out.name in self.written or empty, "{} is never written", out.name)

    # --- nests ------------------------------------------------------------------------------

    def nest(self, nest: Nest) -> None:
        """Check a loop nest."""
        self.where = nest.comment
        rank = len(nest.domain)
        self._read(*nest.domain)
        for bounds in (nest.excluded, nest.ranges):
            self.law(len(bounds) in (0, rank), "bounds of {} loops of {}", len(bounds), rank)
            self._read(*_bounds(bounds))
        with self.also(*(f"i{k}" for k in range(rank))):
            _InNest(self, nest).check()

    def access(self, access: Access, rank: int, *, memory: bool) -> None:
        """Check an access: a position for each axis, by loops and sizes that exist."""
        buffer, dims, index = access
        self.law(
            len(dims) == len(index), "{} positions on {} axes: {}", len(index), len(dims), access
        )
        self.law(all(a.var < rank for a in index), "a loop that there is not: {}", access)
        self.law(all(a.step != "0" for a in index if a.var >= 0), "a step of zero: {}", access)
        self._read(*dims, *(text for a in index for text in (a.start, a.step)))
        if not memory:
            return
        name = buffer.name
        self.law(name in self.memory, "{} is no memory", name)
        if buffer.strides is not None:
            self.law(len(buffer.strides) == len(dims), "strides of other axes: {}", access)
            self._read(*buffer.strides)

    def touched(self, statement: Statement) -> None:
        """Check that memory is written before it is read, and that no input is written."""
        assert statement.access is not None
        name, kind = statement.memory, statement.kind
        if statement.writes:
            self.law(name not in self.given, "{} is an input, and written", name)
        if kind is not StatementKind.STORE:  # a scan reads what it has just written
            there = name in self.written or kind is StatementKind.CARRY
            self.law(there, "{} is read before anything is written to it", name)
        if statement.writes:
            self.written.add(name)
            value = self.kinds.of("{0}", statement.operands[:1])
            agree = value is None or value == self.memory[name]
            self.law(agree, "{} is stored into {}, which is {}", value, name, self.memory[name])


class _InNest:
    """The statements of one nest; `level` is the loop in which each name is assigned."""

    def __init__(self, checks: Checks, nest: Nest) -> None:
        self.checks, self.nest = checks, nest
        self.rank = len(nest.domain)
        self.level: dict[str, int] = {}
        self.before = set(checks.names)

    def check(self) -> None:
        """Check accumulators, statements, branches and the stores of reductions."""
        nest, checks = self.nest, self.checks
        for accumulator in nest.accumulators:
            self.begin(accumulator)
        self.statements(nest.statements)
        for guard, statements in nest.branches:
            inside = set(checks.names)
            for k, begin, end in guard:
                checks.law(k < self.rank, "a guard on loop {} of {}", k, self.rank)
                checks._read(begin, end)
            self.statements(statements, fixed=True)
            checks.names = inside  # no branch has what another has
        for accumulator in nest.accumulators:
            self.finish(accumulator)
        checks.names -= self.level.keys() - self.outliving() - self.before

    def outliving(self) -> set[str]:
        """Names that later loops can read: locals, full reductions, and names of straight code."""
        outside = {name for name, level in self.level.items() if not level}
        if not self.rank:
            return outside
        gathered = {a.name for a in self.nest.accumulators}
        gathered |= {s.target for a in self.nest.accumulators for s in a.final}
        return outside & (self.checks.declared.keys() | gathered)

    def begin(self, accumulator: Accumulator) -> None:
        """Check the start of an accumulator: a number, or the value another loop has left."""
        name, checks = accumulator.name, self.checks
        checks.law(0 <= accumulator.depth <= self.rank, "{} gathers loops there are not", name)
        checks._read(accumulator.identity)
        if accumulator.identity != name:
            checks._assigned(name, checks.kinds.of(accumulator.identity, ()))
            self.level[name] = accumulator.depth
        inside = [s for s in self.nest.all_statements if s.kind.accumulates]
        used = any(name == s.target or name in s.operands for s in inside)
        checks.law(used, "{} gathers nothing", name)
        self.order(accumulator)

    def order(self, accumulator: Accumulator) -> None:
        """Check what is said of the order: by which operator, and whether it is a scan."""
        name, combiner, checks = accumulator.name, accumulator.combiner, self.checks
        own = [*self.nest.statements, *(s for _, some in self.nest.branches for s in some)]
        texts = {s.text for s in own if s.kind is StatementKind.ACCUMULATE and s.target == name}
        lawful = combiner is None or texts <= set(combiner.value)
        checks.law(lawful, "{} is combined by {}, which is not {}", name, sorted(texts), combiner)
        read = any(name in s.operands for s in own if s.kind is not StatementKind.EXTREME)
        checks.law(read == accumulator.scan, "{} is read in its loops, or is no scan", name)

    def finish(self, accumulator: Accumulator) -> None:
        """Check that a reduction is used only outside of the loops it reduces over."""
        depth = accumulator.depth
        for statement in accumulator.final:
            for name in statement.operands:
                level = self.level.get(name, 0)
                self.checks.law(level <= depth, "{} is read outside of its loop", name)
            self.statement(statement, depth)

    def statements(self, statements: Iterable[Statement], *, fixed: bool = False) -> None:
        """Check statements, each where the loops that define its operands are open."""
        for statement in statements:
            depth = self.rank if fixed else depth_of(statement, self.level, self.rank)
            self.statement(statement, depth)

    def statement(self, statement: Statement, level: int) -> None:
        """Check the operands of a statement, the memory it accesses and the name it assigns."""
        kind, target, text, operands, access, combiner = statement
        checks = self.checks
        carried = kind is StatementKind.CARRY  # of which the operand is the number of a loop
        checks._read(text, *(() if carried else operands))
        checks.law(level <= self.rank, "a loop that there is not: {}", statement)
        if access is not None:
            checks.access(access, level, memory=kind.uses_memory)
        placed = kind.uses_memory or kind in (StatementKind.POSITION, StatementKind.EXTREME)
        checks.law((access is not None) == placed, "a place too many, or too few: {}", statement)
        if kind.uses_memory:
            checks.touched(statement)
        if kind is StatementKind.UPDATE:
            lawful = combiner is not None and text in combiner.value
            checks.law(lawful, "an update by {}, which is not by {}", text, combiner)
        if kind.accumulates:
            checks._read(target)
            if kind is StatementKind.ACCUMULATE:
                before = checks.kinds.dtypes.get(target)
                after = checks.kinds.of(text, (target, *operands))
                agree = None in (before, after) or before == after
                checks.law(agree, "{} is {}, and {} is added up", target, before, after)
        elif kind is not StatementKind.STORE:
            checks._assigned(target, self.kind(statement))
            self.level[target] = level

    def kind(self, statement: Statement) -> str | None:
        """The dtype of the value that a statement assigns."""
        kind, _, text, operands, access, _ = statement
        if kind in (StatementKind.WRAP, StatementKind.POSITION, StatementKind.UPDATE):
            return "i8"  # a place
        if kind in (StatementKind.LOAD, StatementKind.CARRY):
            assert access is not None
            return self.checks.memory[access.buffer.name]
        return self.checks.kinds.of(text, operands)


@lru_cache(maxsize=4096)
def _names_in(text: str) -> tuple[str, ...]:
    """The names that a text reads."""
    return tuple(names_in(text))


def _bounds(excluded: Ranges) -> Iterator[str]:
    for bounds in excluded:
        yield from bounds or ()


def _parameters(graph: KernelGraph) -> Iterator[str]:
    """Names of sizes, table entries and strides, which every kernel is given."""
    yield from (f"n{k}" for k in range(graph.sizes))
    yield from (f"m{k}" for k in range(graph.ints))
    yield from (part.text for part in graph.ops if part.kind is Kind.VALUE)
    for k, i in enumerate(graph.inputs):
        part = graph.ops[i]
        yield from (f"x{k}_{a}" for a in range(len(part.dims)) if part.data[1] == "A")

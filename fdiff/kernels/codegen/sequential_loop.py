"""Loops over trips, and switches, as text around their bodies: docs/decisions/loops-in-kernels.md.

A carry that is a number is a local. Other carries lie in memory of which each trip reads one half
and writes the other (double buffering), unless the body updates them in place. Memory of few
entries lies on the stack; LLVM keeps it in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ..ir.control_items import ControlBody, ControlItem, SequentialLoop, Switch
from ..ir.index_expressions import Dims, size, times
from ..ir.loops import NUMPY, Item
from ..ir.word_table import NAMES
from ..kernel_source import STARTED, TRIP
from ..runtime.status_errors import NOT_CONVERGED, OUT_OF_BOUNDS, STOPPED
from .lines import LineKind, TextLine, comment, deeper, leave, let, load, loop_head, store
from .symbol_table import SymbolTable

_UNROLLED = 16  # entries up to which they are copied one by one
Emit = Callable[[Item, SymbolTable], list[TextLine]]
_NONE: Mapping[str, str] = {}


class BodyText:
    """The text of a body; `emit` gives the lines of an item, `symbols` are those around it.

    Names have the suffix of the body, but those that are `given`.
    """

    def __init__(
        self, body: ControlBody, symbols: SymbolTable, emit: Emit, names: Mapping[str, str] = _NONE
    ) -> None:
        self.body, self.symbols, self.given = body, symbols, names
        memory = body.lowered.memory
        truths = frozenset(name for name, dtype in memory.items() if dtype == "b1")
        inside = replace(symbols, truths=truths)
        lines = (line for item in body.lowered.items for line in emit(item, inside))
        inputs = {f"x{k}" for k in range(len(body.inputs))}
        self.lines = self._renamed(list(lines), {*memory, *inputs})

    def own(self, name: str) -> str:
        """The name in the kernel for a name of the body."""
        return self.given.get(name) or self.body.own(name)

    def output(self, k: int) -> str:
        """The value of an output that is one number."""
        out = self.body.lowered.outputs[k]
        if not out.scalar:
            return f"{self.own(out.name)}[0]" + " != 0" * (out.dtype == "b1")
        return self.own(out.scalar) if out.scalar.isidentifier() else out.scalar

    def stack(self) -> Iterator[TextLine]:
        """The lines that take memory of few entries from the stack."""
        for t in self.body.lowered.temporaries:
            if self.body.is_on_stack(t):
                yield self.taken(t.name, t.dtype, self.body.on_stack(t.dims))

    def taken(self, name: str, dtype: str, count: int) -> TextLine:
        """The line that allocates `count` words on the stack."""
        word = "uint8" if dtype == "b1" else NAMES[dtype]
        return let(self.own(name), f"rt.{word}(rt.stack({count}))")

    def copied(self, to: str, source: str, dims: Dims) -> list[TextLine]:
        """The lines that copy memory of this shape."""
        count, entry = self.body.entries(dims), self.own("entry")
        if count is not None and count <= _UNROLLED:
            return [store(f"{to}[{e}]", f"{source}[{e}]") for e in range(count)]
        body = store(f"{to}[{entry}]", f"{source}[{entry}]")
        return [loop_head(entry, size(dims)), *deeper([body])]

    def _renamed(self, lines: list[TextLine], names: set[str]) -> list[TextLine]:
        """The lines with `names`, and all that they assign, as they are called in the kernel."""
        assigned = {line.target for line in lines if line.target}
        own = {name: self.own(name) for name in names | assigned}
        return [line.renamed(own) for line in lines]


_LOOK = (1 << 16) - 1  # trips of a microsecond or less, after which a loop looks whether to stop
_SELDOM = (1 << 6) - 1  # trips that may take long, after which a loop looks at the clock
_LATE = 1 << 28  # ticks of the clock, about a tenth of a second: 268,435,456


def emit_control(item: ControlItem, symbols: SymbolTable, emit: Emit) -> list[TextLine]:
    """The lines of a loop or a switch; `emit` gives the lines of an item of a body."""
    if isinstance(item, Switch):
        return [comment(item.comment), *_switch(item, symbols, emit)]
    assert isinstance(item, SequentialLoop)
    text = _LoopText(item, symbols, emit)
    body = [*text.look(), *text.begin_of_trip(), *text.body.lines, *text.end_of_trip()]
    trips = text.conditional(body, emit) if item.condition else text.counted(body)
    start = [comment(item.comment), *text.trips(), *text.stack(), *text.begin()]
    return [*start, *trips, *text.end()]


class _LoopText:
    """The parts of a loop's text; `symbols` are the names of the surrounding program."""

    def __init__(self, loop: SequentialLoop, symbols: SymbolTable, emit: Emit) -> None:
        self.loop, self.symbols = loop, symbols
        self.body = BodyText(loop.body, symbols, emit)
        self.own, self.copied = self.body.own, self.body.copied
        self.inputs, self.outputs = loop.body.inputs, loop.body.lowered.outputs

    @property
    def count(self) -> str:
        """The number of trips."""
        return self.own("trips") if self.loop.trips else self.loop.length

    @property
    def row(self) -> str:
        """The number of the trip's row."""
        return self.own("row" if self.loop.reverse else TRIP)

    def carry(self, k: int) -> str:
        """The local, or the memory, in which a value is carried from trip to trip."""
        in_place = bool(self.inputs[k][1]) and self.loop.stays(k)
        return self.own(f"out{k}" if in_place else f"x{k}")

    # --- the loop ---------------------------------------------------------------------------

    def counted(self, body: list[TextLine]) -> list[TextLine]:
        """A loop over rows."""
        return [loop_head(self.own(TRIP), self.count, LineKind.TRIPS), *deeper(body)]

    def conditional(self, body: list[TextLine], emit: Emit) -> list[TextLine]:
        """A loop that runs while its condition is true, and counts its trips."""
        trip, limit, condition = self.own(TRIP), self.loop.limit, self.loop.condition
        assert condition is not None
        names = {f"x{k}": self.own(f"x{k}") for k in range(len(self.inputs))}
        names |= {f"x{k}": self.carry(k) for k in range(self.loop.carries)}
        test = BodyText(condition, self.symbols, emit, names)
        (out,) = condition.lowered.outputs
        memory = [] if out.scalar else [test.taken(out.name, out.dtype, 1)]
        many = [
            comment("the limit of trips: status NOT_CONVERGED, less the limit"),
            TextLine(f"if {trip} == {limit}:"),
            *deeper([leave(f"{NOT_CONVERGED} - {limit}")]),
        ]
        lines = [
            *test.lines,
            TextLine(f"if not ({test.output(0)}):"),
            *deeper([TextLine("break")]),
            *(many if limit else ()),
            *body,
            let(trip, f"{trip} + 1"),
        ]
        head = TextLine("while True:", LineKind.TRIPS)
        return [*test.stack(), *memory, let(trip, "0"), head, *deeper(lines)]

    def trips(self) -> Iterator[TextLine]:
        """The number of trips, if only a run tells it, checked against the number of rows."""
        if self.loop.trips:
            yield load(self.count, f"{self.loop.trips}[0]")
            yield TextLine(f"if {self.count} < 0 or {self.count} > {self.loop.length}:")
            yield from deeper([leave(OUT_OF_BOUNDS)])

    # --- before and after its trips ---------------------------------------------------------

    def stack(self) -> Iterator[TextLine]:
        """Memory of few entries: carries, before and after a trip, and temporaries."""
        yield from self.body.stack()
        for k, out in enumerate(self.outputs[: self.loop.carries]):
            few = self.loop.body.on_stack(out.dims)
            if few and not out.scalar:
                yield self.body.taken(f"out{k}", out.dtype, few)
            if few and out.dims and not self.loop.stays(k):
                yield self.body.taken(f"x{k}", out.dtype, few)

    def begin(self) -> Iterator[TextLine]:
        """Lines before the first trip: initial carries and invariants."""
        first = len(self.inputs) - self.loop.rows
        for k, name in enumerate(self.loop.operands[:first]):
            dims = self.inputs[k][1]
            if not dims:
                yield let(self.own(f"x{k}"), self.symbols.entry(name, "0"))
            elif k < self.loop.carries:
                if not self.loop.body.on_stack(dims):
                    yield let(self.carry(k), self.loop.results[k])
                yield from self.copied(self.carry(k), name, dims)
            else:
                yield let(self.own(f"x{k}"), name)

    def end(self) -> Iterator[TextLine]:
        """Lines after the last trip: results, and zeros for rows that no trip has."""
        loop = self.loop
        for k, out in enumerate(self.outputs):
            name = loop.results[k]
            if k < loop.carries and not out.dims:
                yield store(f"{name}[0]", self.carry(k))
            elif k < loop.carries and loop.body.on_stack(out.dims):
                yield from self.copied(name, self.carry(k), out.dims)
            elif k < loop.carries and loop.alternates(k):
                last, other = self.carry(k), self.own(out.name)
                back = [*self.copied(name, last, out.dims), let(other, last)]
                yield TextLine(f"if {self.own(TRIP) if loop.condition else self.count} & 1 == 1:")
                yield from deeper(back)
            elif k >= loop.carries and loop.trips:
                entries, entry = size(out.dims), self.own("entry")
                bounds = ", ".join(times(n, entries) for n in (self.count, loop.length))
                yield loop_head(entry, bounds)
                yield from deeper([store(f"{name}[{entry}]", f"{NUMPY[out.dtype]}(0)")])
        if loop.condition:
            yield store(f"{loop.results[-1]}[0]", self.own(TRIP))

    # --- a trip -----------------------------------------------------------------------------

    def look(self) -> list[TextLine]:
        """Lines that end the loop if an exception waits, or if a call that was short takes long.

        A loop whose trips may be long looks in each trip, another one in every 65,536th.
        """
        word = f"rt.atomic_load(ints, {self.symbols.table.stop})"
        each, seldom = (f"{self.own(TRIP)} & {most} == {most} and " for most in (_LOOK, _SELDOM))
        now, then = ("", seldom) if self.loop.body.is_long else (each, "")
        late = f"{word} < 0 and {then}rt.ticks() - {STARTED} > {_LATE}"
        test = TextLine(f"if {now}({word} > 0 or {late}):")
        often = "a trip" if self.loop.body.is_long else f"{_LOOK + 1:,} trips"
        why = f"once in {often}: whether an exception waits, or a call lasts for 2**28 ticks"
        return [comment(why), test, *deeper([leave(STOPPED)])]

    def begin_of_trip(self) -> Iterator[TextLine]:
        """Its number, its rows, and where its outs go."""
        loop = self.loop
        if loop.reverse:
            yield let(self.row, f"{self.count} - 1 - {self.own(TRIP)}")
        for k in range(len(self.inputs) - loop.rows, len(self.inputs)):
            name, dims = loop.operands[k], self.inputs[k][1]
            if not name:
                yield let(self.own(f"x{k}"), loop.number_of(k, self.row))
            elif not dims:
                yield let(self.own(f"x{k}"), self.symbols.entry(name, self.row))
            else:
                rows = f"rt.offset({name}, {times(self.row, size(dims))})"
                yield let(self.own(f"x{k}"), rows)
        for k, out in enumerate(self.outputs[loop.carries :], loop.carries):
            if not out.scalar:
                at = times(self.row, size(out.dims))
                yield let(self.own(out.name), f"rt.offset({loop.results[k]}, {at})")

    def end_of_trip(self) -> Iterator[TextLine]:
        """Outs that are numbers, and the carries of the next trip, all read before any is set."""
        loop, numbers = self.loop, list[TextLine]()
        for k, out in enumerate(self.outputs):
            if k >= loop.carries:
                if out.scalar:
                    yield store(f"{loop.results[k]}[{self.row}]", self.body.output(k))
            elif out.scalar or not out.dims:
                following, carry = self.own(f"next{k}"), self.carry(k)
                yield let(following, self.body.output(k))
                set_ = store(f"{carry}[0]", following) if out.dims else let(carry, following)
                numbers.append(set_)
            elif loop.alternates(k):
                next_, read, written = self.own(f"next{k}"), self.carry(k), self.own(out.name)
                yield from (let(next_, written), let(written, read), let(read, next_))
            elif not loop.stays(k):
                yield from self.copied(self.carry(k), self.own(out.name), out.dims)
        yield from numbers


# --- switches -----------------------------------------------------------------------------------


def _switch(item: Switch, symbols: SymbolTable, emit: Emit) -> Iterator[TextLine]:
    """An ``if`` for each branch but the last."""
    index = item.bodies[0].own("index")
    yield load(index, f"{item.index}[0]")
    last = len(item.bodies) - 1
    for k, body in enumerate(item.bodies):
        text = BodyText(body, symbols, emit, _memory_of(item))
        if k < last:
            yield TextLine(f"{'elif' if k else 'if'} {index} <= {k}:")
        elif last:
            yield TextLine("else:")
        lines = [*text.stack(), *_numbers(item, text), *text.lines, *_results(item, text)]
        yield from deeper(lines or [TextLine("pass")]) if last else lines


def _memory_of(item: Switch) -> Mapping[str, str]:
    """The memory of a branch, by its names there."""
    inputs = enumerate(zip(item.operands, item.bodies[0].inputs, strict=True))
    names = {f"x{k}": name for k, (name, (_, dims)) in inputs if dims}
    return names | {f"out{k}": name for k, name in enumerate(item.results)}


def _numbers(item: Switch, text: BodyText) -> Iterator[TextLine]:
    """The operands that are numbers."""
    for k, (name, (_, dims)) in enumerate(zip(item.operands, text.body.inputs, strict=True)):
        if not dims:
            yield let(text.own(f"x{k}"), text.symbols.entry(name, "0"))


def _results(item: Switch, text: BodyText) -> Iterator[TextLine]:
    """The results that are numbers."""
    for k, out in enumerate(text.body.lowered.outputs):
        if out.scalar:
            yield store(f"{item.results[k]}[0]", text.output(k))

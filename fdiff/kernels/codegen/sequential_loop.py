"""Loops over trips, and switches, as lines of text around the lines of their bodies.

A carry that is a number is a local. Other carries lie in memory of which each trip reads one half
and writes the other (double buffering), unless the body updates them in place. Memory of few
entries lies on the stack; LLVM keeps it in registers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ..ir.control_items import ControlBody, ControlItem, SequentialLoop, Switch
from ..ir.index_expressions import Dims, size, times
from ..ir.loops import NUMPY, Item
from ..kernel_source import FOREVER, STARTED, TRIP, indented
from ..runtime.status import NOT_CONVERGED, OUT_OF_BOUNDS, STOPPED
from .symbol_table import SymbolTable

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_ASSIGNED = re.compile(r" *(?:for )?(\w+) (?:=|\|=|in) ")
_UNROLLED = 16  # entries up to which they are copied one by one
Emit = Callable[[Item, SymbolTable], list[str]]
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
        self.lines = self._renamed("\n".join(lines), {*memory, *inputs})

    def own(self, name: str) -> str:
        """The name in the kernel for a name of the body."""
        return self.given.get(name) or self.body.own(name)

    def output(self, k: int) -> str:
        """The value of an output that is one number."""
        out = self.body.lowered.outputs[k]
        if not out.scalar:
            return f"{self.own(out.name)}[0]" + " != 0" * (out.dtype == "b1")
        return self.own(out.scalar) if _NAME.fullmatch(out.scalar) else out.scalar

    def stack(self) -> Iterator[str]:
        """The lines that take memory of few entries from the stack."""
        for t in self.body.lowered.temporaries:
            if self.body.is_on_stack(t):
                yield self.taken(t.name, t.dtype, self.body.on_stack(t.dims))

    def taken(self, name: str, dtype: str, count: int) -> str:
        """The line that allocates `count` words on the stack."""
        word = "uint8" if dtype == "b1" else NUMPY[dtype].removeprefix("np.")
        return f"{self.own(name)} = rt.{word}(rt.stack({count}))"

    def copied(self, to: str, source: str, dims: Dims) -> list[str]:
        """The lines that copy memory of this shape."""
        count, entry = self.body.entries(dims), self.own("entry")
        if count is not None and count <= _UNROLLED:
            return [f"{to}[{e}] = {source}[{e}]" for e in range(count)]
        body = [f"{to}[{entry}] = {source}[{entry}]"]
        return [f"for {entry} in range({size(dims)}):", *indented(body)]

    def _renamed(self, text: str, names: set[str]) -> list[str]:
        """The lines with `names`, and all that they assign, as they are called in the kernel."""
        matches = (_ASSIGNED.match(line) for line in text.split("\n"))
        new = {name: self.own(name) for name in names}
        new |= {match[1]: self.own(match[1]) for match in matches if match is not None}
        return _NAME.sub(lambda m: new.get(m[0], m[0]), text).split("\n") if text else []


_LOOK = (1 << 16) - 1  # trips of a microsecond or less, after which a loop looks whether to stop
_SELDOM = (1 << 6) - 1  # trips that may take long, after which a loop looks at the clock
_LATE = 1 << 28  # ticks of the clock, about a tenth of a second


def emit_control(item: ControlItem, symbols: SymbolTable, emit: Emit) -> list[str]:
    """The lines of a loop or a switch; `emit` gives the lines of an item of a body."""
    if isinstance(item, Switch):
        return [f"# {item.comment}", *_switch(item, symbols, emit)]
    assert isinstance(item, SequentialLoop)
    text = _LoopText(item, symbols, emit)
    body = [*text.look(), *text.begin_of_trip(), *text.body.lines, *text.end_of_trip()]
    loop = text.conditional(body, emit) if item.condition else text.counted(body)
    return [f"# {item.comment}", *text.trips(), *text.stack(), *text.begin(), *loop, *text.end()]


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

    def counted(self, body: list[str]) -> list[str]:
        """A loop over rows."""
        return [f"for {self.own(TRIP)} in range({self.count}):", *indented(body)]

    def conditional(self, body: list[str], emit: Emit) -> list[str]:
        """A loop that runs while its condition is true, and counts its trips."""
        trip, limit, condition = self.own(TRIP), self.loop.limit, self.loop.condition
        assert condition is not None
        names = {f"x{k}": self.own(f"x{k}") for k in range(len(self.inputs))}
        names |= {f"x{k}": self.carry(k) for k in range(self.loop.carries)}
        test = BodyText(condition, self.symbols, emit, names)
        (out,) = condition.lowered.outputs
        memory = [] if out.scalar else [test.taken(out.name, out.dtype, 1)]
        many = [f"if {trip} == {limit}:", *indented([f"return {NOT_CONVERGED} - {limit}"])]
        lines = [
            *test.lines,
            f"if not ({test.output(0)}):",
            *indented(["break"]),
            *(many if limit else ()),
            *body,
            f"{trip} = {trip} + 1",
        ]
        return [*test.stack(), *memory, f"{trip} = 0", FOREVER, *indented(lines)]

    def trips(self) -> Iterator[str]:
        """The number of trips, if only a run tells it, checked against the number of rows."""
        if self.loop.trips:
            yield f"{self.count} = {self.loop.trips}[0]"
            yield f"if {self.count} < 0 or {self.count} > {self.loop.length}:"
            yield from indented([f"return {OUT_OF_BOUNDS}"])

    # --- before and after its trips ---------------------------------------------------------

    def stack(self) -> Iterator[str]:
        """Memory of few entries: carries, before and after a trip, and temporaries."""
        yield from self.body.stack()
        for k, out in enumerate(self.outputs[: self.loop.carries]):
            few = self.loop.body.on_stack(out.dims)
            if few and not out.scalar:
                yield self.body.taken(f"out{k}", out.dtype, few)
            if few and out.dims and not self.loop.stays(k):
                yield self.body.taken(f"x{k}", out.dtype, few)

    def begin(self) -> Iterator[str]:
        """Lines before the first trip: initial carries and invariants."""
        first = len(self.inputs) - self.loop.rows
        for k, name in enumerate(self.loop.operands[:first]):
            dims = self.inputs[k][1]
            if not dims:
                yield f"{self.own(f'x{k}')} = {self.symbols.entry(name, '0')}"
            elif k < self.loop.carries:
                if not self.loop.body.on_stack(dims):
                    yield f"{self.carry(k)} = {self.loop.results[k]}"
                yield from self.copied(self.carry(k), name, dims)
            else:
                yield f"{self.own(f'x{k}')} = {name}"

    def end(self) -> Iterator[str]:
        """Lines behind the last trip: results, and zeros for rows that no trip has."""
        loop = self.loop
        for k, out in enumerate(self.outputs):
            name = loop.results[k]
            if k < loop.carries and not out.dims:
                yield f"{name}[0] = {self.carry(k)}"
            elif k < loop.carries and loop.body.on_stack(out.dims):
                yield from self.copied(name, self.carry(k), out.dims)
            elif k < loop.carries and loop.alternates(k):
                last, other = self.carry(k), self.own(out.name)
                back = [*self.copied(name, last, out.dims), f"{other} = {last}"]
                yield f"if {self.own(TRIP) if loop.condition else self.count} & 1 == 1:"
                yield from indented(back)
            elif k >= loop.carries and loop.trips:
                entries, entry = size(out.dims), self.own("entry")
                bounds = ", ".join(times(n, entries) for n in (self.count, loop.length))
                yield f"for {entry} in range({bounds}):"
                yield from indented([f"{name}[{entry}] = {NUMPY[out.dtype]}(0)"])
        if loop.condition:
            yield f"{loop.results[-1]}[0] = {self.own(TRIP)}"

    # --- a trip -----------------------------------------------------------------------------

    def look(self) -> list[str]:
        """Ends the loop where it is to stop, or where the wait is not to be long and has become so:
        asked now and then, or in each trip of those that may take long.
        """
        word, trip = f"rt.atomic_load(ints, {self.symbols.stop})", self.own(TRIP)
        each = f"{trip} & {_LOOK} == {_LOOK} and "
        now, then = (
            ("", f"{trip} & {_SELDOM} == {_SELDOM} and ") if self.loop.body.is_long else (each, "")
        )
        late = f"{word} < 0 and {then}rt.ticks() - {STARTED} > {_LATE}"
        return [f"if {now}({word} > 0 or {late}):", *indented([f"return {STOPPED}"])]

    def begin_of_trip(self) -> Iterator[str]:
        """Its number, its rows, and where its outs go."""
        loop = self.loop
        if loop.reverse:
            yield f"{self.row} = {self.count} - 1 - {self.own(TRIP)}"
        for k in range(len(self.inputs) - loop.rows, len(self.inputs)):
            name, dims = loop.operands[k], self.inputs[k][1]
            if not name:
                yield f"{self.own(f'x{k}')} = {loop.number_of(k, self.row)}"
            elif not dims:
                yield f"{self.own(f'x{k}')} = {self.symbols.entry(name, self.row)}"
            else:
                yield f"{self.own(f'x{k}')} = rt.offset({name}, {times(self.row, size(dims))})"
        for k, out in enumerate(self.outputs[loop.carries :], loop.carries):
            if not out.scalar:
                at = times(self.row, size(out.dims))
                yield f"{self.own(out.name)} = rt.offset({loop.results[k]}, {at})"

    def end_of_trip(self) -> Iterator[str]:
        """Outs that are numbers, and the carries of the next trip, all read before any is set."""
        loop, numbers = self.loop, list[str]()
        for k, out in enumerate(self.outputs):
            if k >= loop.carries:
                if out.scalar:
                    yield f"{loop.results[k]}[{self.row}] = {self.body.output(k)}"
            elif out.scalar or not out.dims:
                yield f"{self.own(f'next{k}')} = {self.body.output(k)}"
                entry = "[0]" * bool(out.dims)
                numbers.append(f"{self.carry(k)}{entry} = {self.own(f'next{k}')}")
            elif loop.alternates(k):
                next_, read, written = self.own(f"next{k}"), self.carry(k), self.own(out.name)
                yield from (f"{next_} = {written}", f"{written} = {read}", f"{read} = {next_}")
            elif not loop.stays(k):
                yield from self.copied(self.carry(k), self.own(out.name), out.dims)
        yield from numbers


# --- switches -----------------------------------------------------------------------------------


def _switch(item: Switch, symbols: SymbolTable, emit: Emit) -> Iterator[str]:
    """An ``if`` for each branch but the last."""
    index = item.bodies[0].own("index")
    yield f"{index} = {item.index}[0]"
    last = len(item.bodies) - 1
    for k, body in enumerate(item.bodies):
        text = BodyText(body, symbols, emit, _memory_of(item))
        if k < last:
            yield f"{'elif' if k else 'if'} {index} <= {k}:"
        elif last:
            yield "else:"
        lines = [*text.stack(), *_numbers(item, text), *text.lines, *_results(item, text)]
        yield from indented(lines or ["pass"]) if last else lines


def _memory_of(item: Switch) -> Mapping[str, str]:
    """The memory of a branch, by its names there."""
    inputs = enumerate(zip(item.operands, item.bodies[0].inputs, strict=True))
    names = {f"x{k}": name for k, (name, (_, dims)) in inputs if dims}
    return names | {f"out{k}": name for k, name in enumerate(item.results)}


def _numbers(item: Switch, text: BodyText) -> Iterator[str]:
    """The operands that are numbers."""
    for k, (name, (_, dims)) in enumerate(zip(item.operands, text.body.inputs, strict=True)):
        if not dims:
            yield f"{text.own(f'x{k}')} = {text.symbols.entry(name, '0')}"


def _results(item: Switch, text: BodyText) -> Iterator[str]:
    """The results that are numbers."""
    for k, out in enumerate(text.body.lowered.outputs):
        if out.scalar:
            yield f"{item.results[k]}[0] = {text.output(k)}"

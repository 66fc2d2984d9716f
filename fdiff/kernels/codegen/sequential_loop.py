"""Loops over trips as lines of text: carries, rows and outs around the lines of the body.

The body's own names end with the suffix of the loop. A carry that is a number is a local; others
lie in memory that each trip reads, and take over at its end what it has written. Memory of few
entries lies on the stack, of which LLVM makes registers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ...attributes import cached_property
from ..ir.control_items import SequentialLoop
from ..ir.index_expressions import Dims, size, times
from ..ir.loops import NUMPY, Item, LoopProgram
from ..kernel_source import TRIP, indented
from ..runtime.status import OUT_OF_BOUNDS
from .symbol_table import SymbolTable

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_ASSIGNED = re.compile(r" *(?:for )?(\w+) (?:=|\|=|in) ")
_UNROLLED = 16  # entries up to which they are copied one by one
Emit = Callable[[Item, SymbolTable], list[str]]


def emit_sequential(loop: SequentialLoop, symbols: SymbolTable, emit: Emit) -> list[str]:
    """The lines of a loop; `emit` gives those of an item of its body."""
    text = _LoopText(loop, symbols)
    trip = loop.own(TRIP)
    body = [*text.begin_of_trip(), *text.body(emit), *text.end_of_trip()]
    return [
        f"# {loop.comment}",
        *text.trips(),
        *text.stack(),
        *text.begin(),
        f"for {trip} in range({text.count}):",
        *indented(body),
        *text.end(),
    ]


@dataclass(frozen=True)
class _LoopText:
    """The parts of a loop's text; `symbols` are those of the program around."""

    loop: SequentialLoop
    symbols: SymbolTable

    @cached_property
    def program(self) -> LoopProgram:
        return self.loop.body.lowered

    @cached_property
    def inputs(self) -> list[tuple[str, Dims]]:
        return self.loop.body.inputs

    @property
    def count(self) -> str:
        """The number of trips."""
        return self.loop.own("trips") if self.loop.trips else self.loop.length

    @property
    def row(self) -> str:
        """The number of the trip's row."""
        return self.loop.own("row" if self.loop.reverse else TRIP)

    def trips(self) -> Iterator[str]:
        """The number of trips, if it is known at run time only, checked against that of rows."""
        if self.loop.trips:
            yield f"{self.count} = {self.loop.trips}[0]"
            yield f"if {self.count} < 0 or {self.count} > {self.loop.length}:"
            yield from indented([f"return {OUT_OF_BOUNDS}"])

    # --- memory -----------------------------------------------------------------------------

    def stack(self) -> Iterator[str]:
        """Memory of few entries: that of carries, before and after a trip, and of temporaries."""
        own, body = self.loop.own, self.loop.body
        for t in self.program.temporaries:
            if self.loop.is_on_stack(t):
                yield _on_stack(own(t.name), t.dtype, body.on_stack(t.dims))
        for k, out in enumerate(self.program.outputs[: self.loop.carries]):
            few, (dtype, dims) = body.on_stack(out.dims), self.inputs[k]
            if few and not out.scalar:
                yield _on_stack(own(f"out{k}"), dtype, few)
            if few and dims and not self.loop.stays(k):
                yield _on_stack(own(f"x{k}"), dtype, few)

    def begin(self) -> Iterator[str]:
        """What the first trip reads: carries as they are at first, and invariants."""
        own, first = self.loop.own, len(self.inputs) - self.loop.rows
        for k, (name, (_, dims)) in enumerate(zip(self.loop.operands, self.inputs, strict=True)):
            if not dims and k < first:
                yield f"{own(f'x{k}')} = {self.symbols.entry(name, '0')}"
            elif k < self.loop.carries:
                if not self.loop.body.on_stack(dims):
                    yield f"{self.carry(k)} = {self.loop.results[k]}"
                yield from self.copied(self.carry(k), name, dims)
            elif k < first:
                yield f"{own(f'x{k}')} = {name}"

    def begin_of_trip(self) -> Iterator[str]:
        """Its number, its rows, and where its outs go."""
        own, loop = self.loop.own, self.loop
        if loop.reverse:
            yield f"{self.row} = {self.count} - 1 - {own(TRIP)}"
        for k in range(len(self.inputs) - loop.rows, len(self.inputs)):
            name, (_, dims) = loop.operands[k], self.inputs[k]
            if not name:
                yield f"{own(f'x{k}')} = {self.row}"
            elif not dims:
                yield f"{own(f'x{k}')} = {self.symbols.entry(name, self.row)}"
            else:
                yield f"{own(f'x{k}')} = rt.offset({name}, {times(self.row, size(dims))})"
        for k, out in enumerate(self.program.outputs[loop.carries :], loop.carries):
            if not out.scalar:
                at = times(self.row, size(out.dims))
                yield f"{own(out.name)} = rt.offset({loop.results[k]}, {at})"

    def end_of_trip(self) -> Iterator[str]:
        """Outs that are numbers, and the carries of the next trip, all read before any is set."""
        own, loop = self.loop.own, self.loop
        memory = replace(self.symbols, truths=self.truths)
        numbers: list[str] = []
        for k, out in enumerate(self.program.outputs):
            if k >= loop.carries:
                if out.scalar:
                    yield f"{loop.results[k]}[{self.row}] = {self.local(out.scalar)}"
            elif not out.dims:
                value = self.local(out.scalar) if out.scalar else memory.entry(own(out.name), "0")
                yield f"{own(f'next{k}')} = {value}"
                numbers.append(f"{own(f'x{k}')} = {own(f'next{k}')}")
            elif not loop.stays(k):
                yield from self.copied(self.carry(k), own(out.name), out.dims)
        yield from numbers

    def end(self) -> Iterator[str]:
        """What the last trip leaves, and zeros for rows that no trip has."""
        loop, body = self.loop, self.loop.body
        for k, name in enumerate(loop.results):
            (dtype, dims) = self.outputs[k]
            if k < loop.carries and not dims:
                yield f"{name}[0] = {loop.own(f'x{k}')}"
            elif k < loop.carries and body.on_stack(dims):
                yield from self.copied(name, self.carry(k), dims)
            elif k >= loop.carries and loop.trips:
                entries, entry = size(dims), loop.own("entry")
                bounds = ", ".join(times(n, entries) for n in (self.count, loop.length))
                yield f"for {entry} in range({bounds}):"
                yield from indented([f"{name}[{entry}] = {NUMPY[dtype]}(0)"])

    def carry(self, k: int) -> str:
        """The memory in which an array is carried from trip to trip."""
        return self.loop.own(f"out{k}" if self.loop.stays(k) else f"x{k}")

    def copied(self, to: str, source: str, dims: Dims) -> list[str]:
        """The lines that copy memory."""
        count, entry = self.loop.body.entries(dims), self.loop.own("entry")
        if count is not None and count <= _UNROLLED:
            return [f"{to}[{e}] = {source}[{e}]" for e in range(count)]
        return [
            f"for {entry} in range({size(dims)}):",
            *indented([f"{to}[{entry}] = {source}[{entry}]"]),
        ]

    # --- the body ---------------------------------------------------------------------------

    @property
    def outputs(self) -> list[tuple[str, Dims]]:
        """Dtype and shape of each output of the body."""
        return [(out.dtype, out.dims) for out in self.program.outputs]

    @cached_property
    def truths(self) -> frozenset[str]:
        """The memory of the body that holds truth values, by its names in the whole kernel."""
        memory = {**self.program.memory}
        return frozenset(self.loop.own(name) for name, dtype in memory.items() if dtype == "b1")

    def local(self, name: str) -> str:
        """A local of the body, by its name in the whole kernel."""
        return self.loop.own(name) if _NAME.fullmatch(name) else name

    def body(self, emit: Emit) -> list[str]:
        """The lines of the body, with its names as they are in the whole kernel."""
        memory = self.program.memory
        truths = frozenset(name for name, dtype in memory.items() if dtype == "b1")
        symbols = replace(self.symbols, truths=truths)
        lines = [line for item in self.program.items for line in emit(item, symbols)]
        return _renamed(lines, {*memory, *(f"x{k}" for k in range(len(self.inputs)))}, self.loop)


def _renamed(lines: Iterable[str], names: set[str], loop: SequentialLoop) -> list[str]:
    """The lines with `names`, and all that they assign, as they are called outside of the body."""
    text = "\n".join(lines)
    found = (_ASSIGNED.match(line) for line in text.split("\n"))
    own = names | {match[1] for match in found if match is not None}
    new = {name: loop.own(name) for name in own}
    return _NAME.sub(lambda match: new.get(match[0], match[0]), text).split("\n") if text else []


def _on_stack(name: str, dtype: str, count: int) -> str:
    """The line that takes memory from the stack: so many words, or half of them."""
    word = "uint8" if dtype == "b1" else NUMPY[dtype].removeprefix("np.")
    return f"{name} = rt.{word}(rt.stack({count}))"

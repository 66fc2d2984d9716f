"""Loops over trips on a GPU: each thread has an entry of what is mapped, and runs all of its trips.

What a loop carries is in a thread's registers, and no thread waits for another. Numbers that do not
belong to an entry are computed by all threads; in a kernel of its own, one thread stores them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.accesses import Access
from ...ir.control_items import SequentialLoop
from ...ir.index_expressions import Dims, Index, plus, size, strides, times
from ...ir.loops import NUMPY, Statement, StatementKind
from ...kernel_source import TRIP, indented
from ...runtime.status_errors import OUT_OF_BOUNDS
from ..devices.launch_sizes import Tuning
from ..kernel_text import KernelTexts
from .thread_bodies import ThreadBody, is_mapped, memory_of, thread_body


def emit_loop(loop: SequentialLoop, texts: KernelTexts, tuning: Tuning) -> None:
    """The kernels of a loop: one for entries that are mapped, one for numbers that are not."""
    body = thread_body(loop.body.graph)
    assert body is not None, "a loop that is not one of threads"
    used = {memory_of(s, loop.carries) for s, _ in body.steps}
    others = any(out.scalar or out.name not in used for out in body.program.outputs)
    numbers = others or not all(mapped for _, mapped in body.steps) or not body.mapped
    head = [f"# {loop.comment}"]
    if numbers:
        lines = _ThreadText(loop, body, mapped=False).lines()
        texts.launch([*head, "if grid_thread == 0:", *indented(lines)], "1", 32)
    if body.mapped:
        lines = _ThreadText(loop, body, mapped=True).lines()
        count, up = size(body.mapped), tuning.threads - 1
        blocks = f"max(1, min({tuning.entry_blocks}, ({count} + {up}) // {tuning.threads}))"
        inside = [*_positions(body.mapped), *lines]
        grid = [
            "e = grid_thread",
            f"while e < {count}:",
            *indented([*inside, "e = e + grid_threads"]),
        ]
        texts.launch([*head, *grid], blocks, tuning.threads)


def _positions(mapped: Dims) -> Iterator[str]:
    """The variables of loops from the number of an entry."""
    rest = "e"
    for k in range(len(mapped) - 1, 0, -1):
        yield f"e{k} = rt.quotient({rest}, {mapped[k]})"
        yield f"i{k} = {rest} - e{k} * {mapped[k]}"
        rest = f"e{k}"
    yield f"i0 = {rest}"


Place = tuple[str, Index]  # an entry: the memory, and where


class _ThreadText:
    """The lines that a thread runs: of entries that are `mapped`, or of those that are not."""

    def __init__(self, loop: SequentialLoop, body: ThreadBody, *, mapped: bool) -> None:
        self.loop, self.mapped = loop, mapped
        self.steps = [step for step in body.steps if mapped or not step.mapped]
        self.used = {memory_of(s, loop.carries) for s, _ in body.steps}
        self.program, self.own = body.program, loop.body.own
        self.first = len(loop.body.inputs) - loop.rows  # the number of the first row
        self.locals = {s.target for s, _ in body.steps if s.target}
        self.locals |= {f"x{k}" for k, (_, dims) in enumerate(loop.body.inputs) if not dims}
        self.at: dict[Place, str] = {}  # the locals that hold entries
        outs = [o.name for o in body.program.outputs]
        self.stores = {
            k: {s.access: self.own(f"{s.memory}_{n}")
                for n, (s, own) in enumerate(self.steps)
                if s.writes and s.access and s.memory == name and own is mapped}
            for k, name in enumerate(outs)
        }  # fmt: skip
        self.next = {a: name for of in self.stores.values() for a, name in of.items()}
        self.carried: list[list[Access]] = []  # the entries of each carry that is no number
        for name in outs[: loop.carries]:
            own = [
                s.access for s, _ in self.steps if memory_of(s, loop.carries) == name and s.access
            ]
            self.carried.append([*{a.index: a for a in own if a.index}.values()])

    def mine(self, name: str) -> str:
        """A local of the body as it is called in the kernel; numbers are as they are."""
        return self.own(name) if name in self.locals else name

    def lines(self) -> list[str]:
        count = self.loop.length
        head: list[str] = []
        if self.loop.trips:
            count = self.own("trips")
            head = [
                f"{count} = {self.loop.trips}[0]",
                f"if {count} < 0 or {count} > {self.loop.length}:",
                *indented([f"status[0] = {OUT_OF_BOUNDS}", f"{count} = 0"]),
            ]
        before, inside = [*self._lines_before_trips()], [*self._trip(count)]
        trips = [f"for {TRIP} in range({count}):", *indented(inside or ["pass"])]
        return [*head, *before, *trips, *self._lines_after_trips(count)]

    # --- before, in and after the trips ------------------------------------------------------

    def _lines_before_trips(self) -> Iterator[str]:
        """Carries, and numbers that stay."""
        for k, (dtype, dims) in enumerate(self.loop.body.inputs[: self.first]):
            name, truth = self.loop.operands[k], " != 0" * (dtype == "b1")
            if not dims:
                yield f"{self.mine(f'x{k}')} = {name}[0]{truth}"
            elif k < self.loop.carries:
                for n, access in enumerate(self.carried[k]):
                    local = self.own(f"x{k}_{n}")
                    self.at[f"x{k}", access.index] = self.at[f"out{k}", access.index] = local
                    yield f"{local} = {name}[{self.address(access)}]{truth}"

    def _trip(self, count: str) -> Iterator[str]:
        row = TRIP
        if self.loop.reverse:
            row = self.own("row")
            yield f"{row} = {count} - 1 - {TRIP}"
        yield from self._rows(row)
        for k, out in enumerate(self.program.outputs[self.loop.carries :], self.loop.carries):
            if self.stores[k]:
                at = self._row(row, out.dims)
                yield f"{self.own(out.name)} = rt.offset({self.loop.results[k]}, {at})"
        for s, mapped in self.steps:
            yield from self._step(s, own=mapped is self.mapped)
        yield from self._end_of_trip(row)

    def _rows(self, row: str) -> Iterator[str]:
        for k in range(self.first, len(self.loop.body.inputs)):
            (dtype, dims), name = self.loop.body.inputs[k], self.loop.operands[k]
            if not name:
                yield f"{self.mine(f'x{k}')} = {self.loop.number_of(k, row)}"
            elif dims:
                yield f"{self.own(f'x{k}')} = rt.offset({name}, {self._row(row, dims)})"
            else:
                yield f"{self.mine(f'x{k}')} = {name}[{row}]" + " != 0" * (dtype == "b1")

    def _row(self, row: str, dims: Dims) -> str:
        return times(row, size(dims))

    def _step(self, s: Statement, *, own: bool) -> Iterator[str]:
        target, operands = self.mine(s.target), tuple(map(self.mine, s.operands))
        if s.access is None:
            yield f"{target} = {s.text.format(*operands)}"
        elif s.kind is StatementKind.POSITION:
            yield f"{target} = {self.address(s.access)}"
        elif s.kind is StatementKind.LOAD:
            yield f"{target} = {self._entry(s.memory, s.access)}"
        else:
            fresh = self.own(f"{s.memory}_of{len(self.at)}")
            self.at[s.memory, s.access.index] = local = self.next.get(s.access, fresh)
            yield f"{local} = {operands[0]}"
            k = self._number(s.memory)
            if own and k >= self.loop.carries:
                yield self._stored(self.own(s.memory), s.access, local)

    def _number(self, memory: str) -> int:
        """The number of the output with this memory; -1 if it is none."""
        names = [out.name for out in self.program.outputs]
        return names.index(memory) if memory in names else -1

    def _entry(self, name: str, access: Access) -> str:
        """An entry of memory: a local, where it is the thread's own."""
        if (name, access.index) in self.at:
            return self.at[name, access.index]
        k = int(name[1:])
        memory = self.own(name) if name[0] == "k" or k >= self.first else self.loop.operands[k]
        return f"{memory}[{self.address(access)}]" + " != 0" * (self.program.memory[name] == "b1")

    def address(self, access: Access) -> str:
        """Where an entry lies, by the variables of the thread's entry."""
        at = "0"
        for axis, step in zip(access.index, strides(access.dims), strict=True):
            moved = times(axis.step, f"i{axis.var}") if axis.var >= 0 else "0"
            at = plus(at, times(plus(axis.start, moved), step))
        return at

    def _stored(self, memory: str, access: Access, value: str) -> str:
        truth = self.program.memory[access.buffer.name] == "b1"
        return f"{memory}[{self.address(access)}] = {f'np.uint8({value})' if truth else value}"

    def _end_of_trip(self, row: str) -> Iterator[str]:
        """Outs that are numbers, and what the next trip reads, all computed before any is set."""
        moves: list[str] = []
        for k, out in enumerate(self.program.outputs):
            if out.scalar and k >= self.loop.carries and not self.mapped:
                yield f"{self.loop.results[k]}[{row}] = {self._number_of(out.scalar, out.dtype)}"
            elif k < self.loop.carries and not out.dims:
                following = self.own(f"next{k}")
                value = self.mine(out.scalar) or self.at[out.name, ()]
                yield f"{following} = {value}"
                moves.append(f"{self.mine(f'x{k}')} = {following}")
            elif k < self.loop.carries:
                places = [access.index for access in self.carried[k]]
                moves += [f"{self.at[f'x{k}', p]} = {self.at[out.name, p]}" for p in places]
        yield from moves

    def _number_of(self, scalar: str, dtype: str) -> str:
        return f"np.uint8({self.mine(scalar)})" if dtype == "b1" else self.mine(scalar)

    def _lines_after_trips(self, count: str) -> Iterator[str]:
        """Lines after the last trip: results, and zeros for rows that no trip has."""
        for k, out in enumerate(self.program.outputs):
            name = self.loop.results[k]
            if k < self.loop.carries:
                if not out.dims and not self.mapped:
                    yield f"{name}[0] = {self._number_of(f'x{k}', out.dtype)}"
                if out.dims and not out.scalar and out.name not in self.used and not self.mapped:
                    yield f"for e in range({size(out.dims)}):"
                    yield from indented([f"{name}[e] = {self.loop.operands[k]}[e]"])
                for access in self.carried[k]:
                    if is_mapped(access) is self.mapped:
                        yield self._stored(name, access, self.at[f"x{k}", access.index])
            elif self.loop.trips:
                zero = f"{NUMPY[out.dtype] if out.dtype != 'b1' else 'np.uint8'}(0)"
                places = [self.address(a) for a in self.stores[k]]
                places += ["0"] if out.scalar and not self.mapped else []
                lines = [f"{name}[{plus(self._row(TRIP, out.dims), p)}] = {zero}" for p in places]
                if lines:
                    yield f"for {TRIP} in range({count}, {self.loop.length}):"
                    yield from indented(lines)

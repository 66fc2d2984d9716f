"""Items of a loop program that run programs of their own: loops over trips, and switches.

To passes over the program around, such an item is the call of a routine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ...lazy_attributes import cached_property
from .expression_names import table_entry
from .index_expressions import Dims, plus
from .kernel_graph import KernelGraph
from .loops import Call, LoopProgram, Temporary, nests_and_calls

_STACK = 64  # entries of memory up to which it lies on the stack, where that is known
_SHARED = ("ints", "floats", "out_of_range")  # names of the whole kernel


@dataclass(frozen=True)
class ControlBody:
    """A graph that an item runs, and its program, once there is one.

    Outside of the body, its names end with `suffix`.
    """

    graph: KernelGraph
    suffix: str
    program: LoopProgram | None = None

    def own(self, name: str) -> str:
        """The name outside of the body for a name of the body."""
        return name if name in _SHARED or table_entry(name) else name + self.suffix

    @property
    def lowered(self) -> LoopProgram:
        """The program."""
        assert self.program is not None, "the body of a loop has not been lowered"
        return self.program

    @property
    def inputs(self) -> list[tuple[str, Dims]]:
        """Dtype and shape of each input."""
        return [(self.graph.ops[i].dtype, self.graph.ops[i].dims) for i in self.graph.inputs]

    @cached_property
    def memory_used(self) -> frozenset[str]:
        """The names of the memory that it reads or writes."""
        used: set[str] = set()
        for item in self.lowered.items:
            for part in nests_and_calls(item):
                calls = isinstance(part, Call)
                used.update(part.buffers if calls else (s.memory for s in part.all_statements))
        return frozenset(used)

    @property
    def is_long(self) -> bool:
        """Whether running it once may take any time: it calls, or loops over sizes not known."""
        parts = [p for item in self.lowered.items for p in nests_and_calls(item)]
        return any(isinstance(p, Call) or self.entries(p.domain) is None for p in parts)

    def entries(self, dims: Dims) -> int | None:
        """How many entries an array has; None if that is known at run time only."""
        sizes = dict(self.graph.literals)
        numbers = [int(d) if d.isdigit() else sizes.get(d) for d in dims]
        return None if None in numbers else math.prod(n for n in numbers if n is not None)

    def on_stack(self, dims: Dims) -> int:
        """How many entries of memory of this shape there are, if it lies on the stack; else 0."""
        count = self.entries(dims)
        return max(count, 1) if count is not None and count <= _STACK else 0

    def is_on_stack(self, memory: Temporary) -> bool:
        """Whether memory of the body lies on the stack."""
        return not memory.rows and bool(self.on_stack(memory.dims))

    def workspace(self) -> Iterator[Temporary]:
        """The memory that it needs in the workspace, as memory of the program around."""
        for t in self.lowered.temporaries:
            if not self.is_on_stack(t):
                yield t._replace(name=self.own(t.name))


@dataclass(frozen=True)
class ControlItem(Call):
    """An item that runs bodies: `operands` is the memory of their inputs, `results` of outputs.

    What the bodies need of memory in the workspace is among `buffers`.
    """

    bodies: tuple[ControlBody, ...] = ()
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()

    @property
    def routine_calls(self) -> tuple[Call, ...]:
        programs = [body.program for body in self.bodies if body.program is not None]
        return tuple(call for program in programs for call in program.calls)

    def workspace(self) -> Iterator[Temporary]:
        """The memory that the bodies need in the workspace."""
        for body in self.bodies:
            yield from body.workspace()


@dataclass(frozen=True)
class Switch(ControlItem):
    """One of several bodies: the body whose number is in the memory `index`, or the first or the
    last.
    """

    index: str = ""


@dataclass(frozen=True)
class SequentialLoop(ControlItem):
    """A loop over trips: a body reads carries, invariants and rows, and gives carries and outs.

    The operand of rows that count is empty, and `begins_of_rows` names the first of them. The first
    `carries` of the results are what the last trip leaves. There are `length` rows, and as many
    trips, or as many as the memory `trips` says. A loop with a second body, its condition, runs as
    long as that is true, but fewer than `limit` trips if there is one; its last result is their
    number.
    """

    carries: int = 0
    rows: int = 0
    begins_of_rows: tuple[str, ...] = ()
    length: str = "1"
    trips: str = ""
    reverse: bool = False
    limit: str = ""

    @property
    def body(self) -> ControlBody:
        return self.bodies[0]

    @property
    def condition(self) -> ControlBody | None:
        return self.bodies[1] if len(self.bodies) > 1 else None

    def number_of(self, k: int, row: str) -> str:
        """The entry of rows that count, in this row."""
        return plus(row, self.begins_of_rows[k] or "0")

    def stays(self, k: int) -> bool:
        """Whether a carry has one memory, which the body updates in place."""
        scalar = self.body.lowered.outputs[k].scalar
        return not scalar and f"x{k}" not in self.body.memory_used

    def alternates(self, k: int) -> bool:
        """Whether a carry has memory in the workspace that each trip reads and writes in turns."""
        dims = self.body.lowered.outputs[k].dims
        return not (self.body.on_stack(dims) or self.stays(k))

    def workspace(self) -> Iterator[Temporary]:
        yield from super().workspace()
        for k, out in enumerate(self.body.lowered.outputs[: self.carries]):
            if self.alternates(k):
                yield Temporary(self.body.own(f"out{k}"), out.dtype, out.dims)

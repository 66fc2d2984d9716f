"""Loops whose trips run one after another: items of a loop program that hold programs of their own.

To passes over the program around, such an item is the call of a routine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...attributes import cached_property
from .index_expressions import Dims
from .kernel_graph import KernelGraph
from .loops import Call, LoopProgram, Temporary, nests_and_calls

_STACK = 64  # entries of memory up to which it lies on the stack, where that is known
_SHARED = re.compile(r"[nmfk]\d+|ints|floats|out_of_range")  # names of the whole kernel


@dataclass(frozen=True)
class ControlBody:
    """A graph that an item runs, and its program, once there is one."""

    graph: KernelGraph
    program: LoopProgram | None = None

    @property
    def lowered(self) -> LoopProgram:
        """The program."""
        assert self.program is not None, "the body of a loop has not been lowered"
        return self.program

    @property
    def inputs(self) -> list[tuple[str, Dims]]:
        """Dtype and shape of each input."""
        return [(self.graph.ops[i].dtype, self.graph.ops[i].dims) for i in self.graph.inputs]

    def entries(self, dims: Dims) -> int | None:
        """How many entries an array has; None if that is known at run time only."""
        sizes = dict(self.graph.literals)
        known = [int(d) if d.isdigit() else sizes.get(d) for d in dims]
        return None if None in known else math.prod(n for n in known if n is not None)

    def on_stack(self, dims: Dims) -> int:
        """How many entries of memory of this shape there are, if it lies on the stack; else 0."""
        count = self.entries(dims)
        return max(count, 1) if count is not None and count <= _STACK else 0


@dataclass(frozen=True)
class SequentialLoop(Call):
    """A loop over trips: a body reads carries, invariants and rows, and gives carries and outs.

    `operands` is the memory of the body's inputs, empty for one that is the number of the row;
    `results` that of its outputs, of which the first `carries` are what the last trip leaves. There
    are `length` rows, and as many trips, or as many as the memory `trips` says. What the body needs
    of memory in the workspace is among `buffers`; its names end with `suffix` outside of it.
    """

    body: ControlBody = ControlBody(KernelGraph((), (), (), 0, 0, 0, 0))
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    carries: int = 0
    rows: int = 0
    length: str = ""
    trips: str = ""
    reverse: bool = False
    suffix: str = ""

    @property
    def routine_calls(self) -> tuple[Call, ...]:
        return tuple(self.body.program.calls) if self.body.program is not None else ()

    def own(self, name: str) -> str:
        """What a name of the body is called outside of it."""
        return name if _SHARED.fullmatch(name) else name + self.suffix

    def stays(self, k: int) -> bool:
        """Whether a carry has one memory, which the body updates in place."""
        return f"x{k}" not in self.memory_used

    @cached_property
    def memory_used(self) -> frozenset[str]:
        """The names of the memory that the body reads or writes."""
        used: set[str] = set()
        for item in self.body.lowered.items:
            for part in nests_and_calls(item):
                calls = isinstance(part, Call)
                used.update(part.buffers if calls else (s.memory for s in part.all_statements))
        return frozenset(used)

    def workspace(self) -> Iterator[Temporary]:
        """The memory that the body needs in the workspace, as memory of the program around."""
        program, body = self.body.lowered, self.body
        for t in program.temporaries:
            if not self.is_on_stack(t):
                yield t._replace(name=self.own(t.name))
        for k, out in enumerate(program.outputs[: self.carries]):
            if not (body.on_stack(out.dims) or self.stays(k)):
                yield Temporary(self.own(f"out{k}"), out.dtype, out.dims)

    def is_on_stack(self, memory: Temporary) -> bool:
        """Whether memory of the body lies on the stack."""
        return not memory.rows and bool(self.body.on_stack(memory.dims))

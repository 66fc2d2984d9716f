"""Loops over trips: the items that run them, and the programs of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...ir.control_items import ControlBody, SequentialLoop
from ...ir.kernel_graph import KernelGraph
from ...ir.loops import LoopProgram, Temporary
from ..materialise.materialisation import Plan


def loop_of(plan: Plan, node: int, results: Sequence[str]) -> SequentialLoop:
    """The item of a loop, whose body is still a graph."""
    op = plan.ops[node]
    (graph,) = op.bodies
    memory = [plan.names[a] for a in op.args]
    trips = "" if op.parameter("whole", bool) else memory.pop(0)
    counters, left = op.parameter("counters", tuple), iter(memory)
    operands = ["" if k in counters else next(left) for k in range(len(graph.inputs))]
    length = op.parameter("length", str)
    return SequentialLoop(
        routine="",
        buffers=tuple(dict.fromkeys([*filter(None, (trips, *operands)), *results])),
        sizes=(length,),
        comment=f"{', '.join(results)} = {op.label}",
        body=ControlBody(graph),
        operands=tuple(operands),
        results=tuple(results),
        carries=op.parameter("carries", int),
        rows=op.parameter("rows", int),
        length=length,
        trips=trips,
        reverse=op.parameter("reverse", bool),
        suffix=f"_b{node}",
    )


def lower_bodies(program: LoopProgram, lower: Callable[[KernelGraph], LoopProgram]) -> LoopProgram:
    """The program with the bodies of its loops lowered, which the workspace has memory for."""
    if not any(isinstance(item, SequentialLoop) for item in program.items):
        return program
    items, more = list(program.items), list[Temporary]()
    for k, item in enumerate(items):
        if isinstance(item, SequentialLoop):
            loop = replace(item, body=replace(item.body, program=lower(item.body.graph)))
            own = list(loop.workspace())
            items[k] = replace(loop, buffers=(*loop.buffers, *(t.name for t in own)))
            more += own
    return replace(program, items=tuple(items), temporaries=(*program.temporaries, *more))

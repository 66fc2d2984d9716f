"""Items that run loops over trips, or switches: docs/decisions/loops-in-kernels.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ....generated_text import Namespace
from ....kernel_rule import Kind
from ...ir.control_items import ControlBody, ControlItem, SequentialLoop, Switch
from ...ir.kernel_graph import Computed, KernelGraph
from ...ir.loops import LoopProgram, Temporary
from ..materialise.materialisation import Plan


def control_item(plan: Plan, node: int, results: Sequence[str]) -> ControlItem:
    """The item of a loop or a switch, whose bodies are still graphs."""
    op = plan.ops[node]
    memory = [plan.names[a] for a in op.args]
    common: Namespace = {
        "name": "",
        "dtype": "",
        "buffers": tuple(dict.fromkeys((*memory, *results))),
        "sizes": (),
        "comment": f"{', '.join(results)} = {op.label}",
        "computed": tuple(Computed(place, op.label) for place in results),
        "bodies": tuple(
            ControlBody(graph, f"_b{node}" + f"_{k}" * bool(k)) for k, graph in enumerate(op.bodies)
        ),
        "results": tuple(results),
    }
    if op.kind is Kind.SWITCH:
        return Switch(**common, operands=tuple(memory[1:]), index=memory[0])
    carries = op.parameter("carries", int)
    if op.kind is Kind.WHILE:
        limit = op.parameter("limit", str)
        return SequentialLoop(**common, operands=tuple(memory), carries=carries, limit=limit)
    trips = "" if op.parameter("whole", bool) else memory.pop(0)
    counters: dict[int, str] = dict(op.parameter("counters", tuple))
    left, count = iter(memory), len(op.bodies[0].inputs)
    operands = tuple(["" if k in counters else next(left) for k in range(count)])
    rows, length = op.parameter("rows", int), op.parameter("length", str)
    common |= {"sizes": (length,), "operands": operands, "carries": carries, "rows": rows}
    common["begins_of_rows"] = tuple([counters.get(k, "") for k in range(count)])
    reverse = op.parameter("reverse", bool)
    return SequentialLoop(**common, length=length, trips=trips, reverse=reverse)


def lower_bodies(program: LoopProgram, lower: Callable[[KernelGraph], LoopProgram]) -> LoopProgram:
    """The program with the bodies of its loops lowered, which the workspace has memory for."""
    if not any(isinstance(item, ControlItem) for item in program.items):
        return program
    items, more = list(program.items), list[Temporary]()
    for k, item in enumerate(items):
        if isinstance(item, ControlItem):
            bodies = tuple([replace(body, program=lower(body.graph)) for body in item.bodies])
            own = list(replace(item, bodies=bodies).workspace())
            buffers = (*item.buffers, *(t.name for t in own))
            items[k] = replace(item, bodies=bodies, buffers=buffers)
            more += own
    return replace(program, items=tuple(items), temporaries=(*program.temporaries, *more))

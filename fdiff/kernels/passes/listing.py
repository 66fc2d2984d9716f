"""The program after any pass as text, for people.

See docs/decisions/programs-are-verified.md.
"""

from __future__ import annotations

from ..ir.effect import Effect, EffectKind
from ..ir.kernel_graph import KernelGraph
from ..ir.loops import LoopProgram
from ..ir.parallel import ParallelProgram
from ..ir.printing import INDENT, graph_text, program_text
from .fuse.fusion_rounds import Schedule
from .materialise.materialisation import Plan

ProgramForm = KernelGraph | Plan | Schedule | LoopProgram | ParallelProgram


def listing(program: ProgramForm) -> str:
    """A graph in SSA form, a plan as such a graph with its memory, a schedule, or loops."""
    if isinstance(program, KernelGraph):
        return graph_text(program)
    if isinstance(program, Plan):
        return graph_text(program.graph, _places_of_values(program))
    if isinstance(program, Schedule):
        return _schedule_text(program)
    return program_text(program)


def _places_of_values(plan: Plan) -> dict[int, str]:
    """The memory or local of each value that has one; all others are fused into their readers."""
    stored = sorted(plan.stored & plan.names.keys())
    return {i: f"in {plan.names[i]}" for i in stored}


def _schedule_text(schedule: Schedule) -> str:
    """The graph of a schedule, then its nests with the effects in each."""
    plan = schedule.plan
    lines = graph_text(plan.graph, _places_of_values(plan)).splitlines()
    for nest in schedule.nests:
        loops = f"nest over ({', '.join(nest[0].domain)})"
        lines.append("call:" if nest[0].kind is EffectKind.CALL else f"{loops}:")
        lines += [INDENT + _effect_text(plan, effect) for effect in nest]
    return "\n".join(lines) + "\n"


def _effect_text(plan: Plan, effect: Effect) -> str:
    """The kind of an effect, the operation it carries out, and what it writes over."""
    name = effect.buffer.name or plan.names.get(effect.node, "")
    values = ", ".join(f"%{node}" for node, _ in effect.values) or effect.literal
    read = f" of {values}" if values and not effect.compute else ""
    over = f", over %{effect.overwrites}" if effect.overwrites >= 0 else ""
    where = ", around an interior" if effect.boundary else ""
    into = f" into {name}" if name else ""
    return f"{effect.kind.value} %{effect.node}{read}{into}{over}{where}"

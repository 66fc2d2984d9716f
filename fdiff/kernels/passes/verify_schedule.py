"""Verification of plans and schedules, after the passes that make them.

A plan gives memory to whatever is read in memory, and lets two values share memory only where one
is updated in place. A schedule writes each materialised value and each output, reads a value only
after all of its effects, lets effects share a nest only where each iteration reads what it wrote
itself, and overwrites a value only after its last reader (flow, output and anti-dependences; Allen
and Kennedy, Optimizing Compilers for Modern Architectures, Morgan Kaufmann 2001, chapter 2).

The order is checked on the nodes that an effect reads, found here by a walk of the graph, not on
the dependences from which the schedule was made. Done where ``FDIFF_VERIFY`` is set, as in all
tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import TapeError
from ...kernel_rule import Kind
from ..ir.effect import Effect, EffectKind
from ..ir.printing import operation_text
from .fuse.fusion_rounds import Schedule
from .fuse.memory_reads import reads_of
from .materialise.materialisation import Plan

_LEAVES = (Kind.INPUT, Kind.ARRAY)


def verify_plan(plan: Plan, place: str = "") -> Plan:
    """Check every law; return the plan, or raise `TapeError` that names the value.

    `place` tells where in the compiler that is.
    """
    for i, fault in _plan_faults(plan):
        raise _broken("a plan", place, f"{fault} ({operation_text(i, plan.ops[i])})")
    return plan


def verify_schedule(schedule: Schedule, place: str = "") -> Schedule:
    """Check the laws of the plan and of the order of effects; return the schedule, or raise."""
    verify_plan(schedule.plan, place)
    for fault in _ScheduleChecks(schedule).faults():
        raise _broken("a schedule", place, fault)
    return schedule


def _broken(what: str, place: str, fault: str) -> TapeError:
    return TapeError(f"{what} breaks a law{place and ' '}{place}: {fault}")


# --- plans ---------------------------------------------------------------------------------------


def _plan_faults(plan: Plan) -> Iterator[tuple[int, str]]:
    """The values of which a law does not hold, and what is wrong with each."""
    for i in plan.analysis.read_in_memory:
        if i not in plan.names:
            yield i, "it is read in memory, and has none"
    yield from _overwriting_faults(plan)
    owners: dict[str, int] = {}
    for i, name in plan.names.items():
        owner = _owner_of_memory(plan, i)
        if owners.setdefault(name, owner) != owner:
            yield i, f"{name} is the memory of %{owners[name]} as well"


def _owner_of_memory(plan: Plan, i: int) -> int:
    """The first of the nodes that have, one after another, the memory of node `i`."""
    i = plan.storage_of(i)
    while i in plan.overwrites:
        i = plan.storage_of(plan.overwrites[i])
    return i


def _overwriting_faults(plan: Plan) -> Iterator[tuple[int, str]]:
    """Updates in place that are none, or of memory that may not be written over."""
    taken: dict[int, int] = {}
    for i, below in plan.overwrites.items():
        if not (plan.is_writable(i) and plan.is_writable(below)):
            yield i, f"it overwrites %{below}, and the kernel may not write to both"
        elif plan.ops[i].dtype != plan.ops[below].dtype:
            yield i, f"it overwrites %{below}, which has another dtype"
        elif below >= i:
            yield i, f"it overwrites %{below}, which is computed later"
        elif taken.setdefault(below, i) != i:
            yield i, f"it overwrites %{below}, and so does %{taken[below]}"
        elif below in plan.graph.outputs and below not in plan.analysis.carries:
            yield i, f"it overwrites %{below}, an output"


# --- schedules -----------------------------------------------------------------------------------


class _ScheduleChecks:
    """The checks of one schedule; effects are known by their numbers in it."""

    def __init__(self, schedule: Schedule) -> None:
        self.plan = schedule.plan
        self.nests = schedule.nests
        self.effects = [effect for nest in schedule.nests for effect in nest]
        self.nest_of = [k for k, nest in enumerate(schedule.nests) for _ in nest]
        self.outputs = {f"out{k}" for k in range(len(self.plan.graph.outputs))}
        self.writers: dict[int, list[int]] = {}
        for number, effect in enumerate(self.effects):
            if not self._copies_to_output(effect):
                self.writers.setdefault(effect.node, []).append(number)

    def faults(self) -> Iterator[str]:
        """Faults, in the order of the effects."""
        yield from self._never_written()
        for k, nest in enumerate(self.nests):
            spans = {(e.domain, e.excluded, e.ranges, e.boundary) for e in nest}
            if len(spans) > 1 or (len(nest) > 1 and any(e.kind is EffectKind.CALL for e in nest)):
                yield f"effects of nest {k} do not run over one domain"
        for number, effect in enumerate(self.effects):
            for node in self._nodes_read(effect):
                yield from self._read_too_early(number, node)
                yield from self._read_too_late(number, node)
            yield from self._read_of_other_iterations(number, effect)

    def _copies_to_output(self, effect: Effect) -> bool:
        """Whether the effect writes a node to an output beside the node's own memory."""
        own = self.plan.names.get(effect.node)
        return effect.buffer.name in self.outputs and effect.buffer.name != own

    def _never_written(self) -> Iterator[str]:
        """Materialised values and outputs that no effect computes."""
        plan = self.plan
        copied = {e.buffer.name for e in self.effects if self._copies_to_output(e)}
        for k, o in enumerate(plan.graph.outputs):
            if plan.outputs.get(plan.storage_of(o)) != k and f"out{k}" not in copied:
                yield f"no effect writes output {k}"
        for i in plan.names:
            own = i in plan.stored and plan.ops[i].kind not in _LEAVES
            if own and plan.producer_of(i) not in self.writers:
                yield f"no effect writes %{i}"

    def _nodes_read(self, effect: Effect) -> set[int]:
        """The nodes in memory from which an effect computes what it writes."""
        plan, nodes = self.plan, set[int]()
        views = (*effect.values, *effect.positions, *(s.term for s in effect.shifts))
        stack = [node for node, _ in views]
        seen: set[int] = set()
        while stack:
            i = stack.pop()
            if i in seen:
                continue
            seen.add(i)
            if i in plan.names and i != effect.computes:
                nodes.add(plan.storage_of(i))
            else:
                stack.extend(plan.ops[i].args)
        return nodes

    def _read_too_early(self, number: int, node: int) -> Iterator[str]:
        """Reads of a value of which some part is computed later (flow dependences)."""
        for w in self.writers.get(self.plan.producer_of(node), ()):
            if w > number:
                yield f"{self._named(number)} reads %{node} before {self._named(w)}"

    def _read_too_late(self, number: int, node: int) -> Iterator[str]:
        """Reads of a value after another has been written over it (anti-dependences)."""
        for over, below in self.plan.overwrites.items():
            if below != node or self.effects[number].node == over:
                continue
            for w in self.writers.get(over, ()):
                if w < number:
                    yield f"{self._named(number)} reads %{node} after {self._named(w)}"

    def _read_of_other_iterations(self, number: int, effect: Effect) -> Iterator[str]:
        """Reads of what the same nest writes, but in another iteration."""
        plan = self.plan
        if not effect.domain:
            return
        for key in reads_of(plan, effect):
            writers = self.writers.get(plan.producer_of(plan.storage_of(key.node)), ())
            for w in writers:
                if w == number or self.nest_of[w] != self.nest_of[number]:
                    continue
                result = self.effects[w].result
                if result is None or plan.keys.at(*result) is not key:
                    yield f"{self._named(number)} reads what {self._named(w)} writes elsewhere"

    def _named(self, number: int) -> str:
        effect = self.effects[number]
        return f"the {effect.kind.value} of %{effect.node} in nest {self.nest_of[number]}"

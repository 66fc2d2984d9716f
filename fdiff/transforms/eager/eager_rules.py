"""Derivative rules of ops for eager traces, cached because eager traces repeat them.

The tape of a rule (`rule_templates.py`) is run on values as a Python function, or entered node by
node where derivatives are to be differentiated again: docs/decisions/rule-templates.md.
"""

from __future__ import annotations

from ...ops.shapes.view_ops import slices, unslice
from ...ops.tape_to_python import Run, function_of
from ...tape import CONSTANT, Tape
from ...trace.operation_cache import Op, constants_among, op_of
from ...trace.template import Places, Template, template_of
from ..batch import batch
from ..rule_templates import Seeds, pulls, pushes
from ..simplify import simplify

Slices = tuple[slice, ...]
Flags = tuple[bool, ...]


# A rule as a Python function of ``(*seeds, *arguments, *outputs)``, which gives a tuple, and the
# targets: what is in that. With a size, seeds and what is in the tuple have a leading axis.
PullTargets = list[tuple[int, int, int | None, Slices | None]]
PullFunction = tuple[Run, PullTargets]
PushFunction = tuple[Run, list[int | None]]


def pull_function(op: Op, seeds: Seeds, needed: Flags, size: int | None) -> PullFunction:
    """The reverse rule of an op, for some of its arguments and some of its cotangents.

    A target is an argument that gets a cotangent, where that and its mask are in the tuple, and in
    which slices of an array of zeros it lies, if it does.
    """
    tape, target_list, _ = pulls.rule.trace(op, (seeds, needed))
    tape = _batched(tape, sum(1 + s for s in seeds if s is not None), size)
    outputs, targets = list(tape.outputs), []
    for k, place, mask in target_list:
        node, within = tape.nodes[outputs[place]], None
        if mask is None and node.primitive is unslice:
            named = dict(node.params)
            outputs[place] = node.args[0]
            sizes = tape.nodes[node.args[0]].type.shape
            within = slices(named["starts"], sizes, named["steps"])
        targets.append((k, place, mask, within))
    return function_of(Tape(tape.nodes, tape.inputs, tuple(outputs))), targets


def pull_template(op: Op, seeds: Seeds, needed: Flags) -> Template:
    """The reverse rule of an op as a template, to be entered node by node."""
    tape, targets, _ = pulls.rule.trace(op, (seeds, needed))
    nodes = tape.nodes

    def step(i: int, places: Places) -> tuple[Op, Places]:
        node = nodes[i]
        if node.primitive is CONSTANT:
            return Op(CONSTANT, node.params, (), (), node.types), ()
        operand_types = tuple([nodes[a].types for a in node.args])
        fixed = constants_among(nodes, node.args)
        return op_of(node.primitive, node.params, operand_types, fixed), places

    return template_of(tape, step, [(*target, None) for target in targets])


def push_function(op: Op, active_args: Flags, size: int | None) -> PushFunction:
    """The forward rule of an op where some of its arguments move.

    A target tells where in the tuple the tangent of an output is, None where it does not move.
    """
    tape, targets, _ = pushes.rule.trace(op, active_args)
    return function_of(_batched(tape, sum(active_args), size)), targets


def _batched(tape: Tape, seeds: int, size: int | None) -> Tape:
    """The tape for `size` seeds at once; the first of its inputs are the seeds."""
    if size is None:
        return tape
    return simplify(batch(tape, [k < seeds for k in range(len(tape.inputs))], size))

"""Merged variants: several traces of a function that branches, as one tape that chooses.

Where a function takes one of a few ways, its guards would be asked way by way, and a program that
alternates would run a check before each call. Of short ways all are computed, with the guards of
each, and a select takes the results of the one whose guards hold: what they share is computed once,
and derivatives go through the select to that way alone. No way may raise an error, as all are run.

It is if-conversion of whole traces; J. R. Allen, K. Kennedy, C. Porterfield and J. Warren,
Conversion of control dependence to data dependence, POPL 1983.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import fdiff.intact_numpy as np

from ..kernel_rule import Kind
from ..primitive import PRIMITIVES
from ..process.float_flags import Doubts
from ..tape import CONSTANT, INPUT, Node, Tape
from ..trace import Trace, TracedArray, splice
from .branch_stability import SHARE, WAYS
from .variant import Variant

FIRST = 3  # ways that are merged at first, and then again
NODES = 2000  # of all ways and their guards together
ENTRIES = 64  # of the largest array: larger ones cost more than a check
# What raises no error, whatever it is given.
_SAFE = {
    Kind.VALUE, Kind.IOTA, Kind.RESHAPE, Kind.TRANSPOSE, Kind.BROADCAST, Kind.SLICE, Kind.UNSLICE,
    Kind.UPDATE, Kind.CONCATENATE, Kind.PLACE, Kind.SUM, Kind.PROD, Kind.MAX, Kind.MIN, Kind.ANY,
    Kind.ALL, Kind.CUMSUM, Kind.CUMPROD,
}  # fmt: skip


def merge(kept: Sequence[Variant], *, at_once: bool = False) -> Variant | None:
    """The newest of `kept`, and all that are like it, as one variant without a plan.

    None while there are few of them compared with those that have been merged before, unless
    calls alternate so often that they are merged `at_once`.
    """
    newest = next((v for v in kept if not v.ways), kept[0])
    if not _is_simple(newest):
        return None
    alike = [v for v in kept if _is_simple(v) and _agree(v, newest)]
    before = next((v for v in kept if v.ways and _agree(v, newest)), None)
    merged_before = () if before is None else before.ways
    ways = (*alike, *merged_before)
    size = sum(len(v.tape) + len(cast("Tape", v.check)) for v in ways)
    least = 1 if at_once else max(FIRST, len(merged_before) // SHARE)
    if len(alike) < least or not 2 <= len(ways) <= WAYS or size > NODES:
        return None
    tape, check = _choosing(ways)
    return replace(
        newest,
        tape=tape,
        check=check,
        guards=sum(v.guards for v in ways),
        inner=tuple(v.inner[0] for v in ways),
        roots=len(ways),
        ways=ways,
        doubts=Doubts(),
    )


def without_merged(kept: Sequence[Variant], merged: Variant) -> list[Variant]:
    """The merged variant, and those of `kept` that are not part of it."""
    ways = set(map(id, merged.ways))
    return [
        merged,
        *(v for v in kept if id(v) not in ways and not ways.issuperset(map(id, v.ways or (v,)))),
    ]


def _is_simple(variant: Variant) -> bool:
    """Whether a variant is short, relies on nothing but guards, and cannot raise an error."""
    if variant.ways or variant.check is None or len(variant.inner) != 1:
        return False
    if variant.pinned or variant.layouts or variant.swapped or variant.order:
        return False
    reads = variant.inner[0][1]
    if reads.effects is not None:  # what a way writes, it alone writes
        return False
    if reads.arrays or any(variant.outs) or not variant.tape.outputs:
        return False
    if any(number is not None for number in variant.numbers):
        return False
    return all(map(_is_safe, (*variant.tape.nodes, *variant.check.nodes)))


def _is_safe(node: Node) -> bool:
    """Whether a node costs little and raises no error for any operands."""
    if any(t.size > ENTRIES or t.dtype.kind == "c" for t in node.types):
        return False
    primitive, rule = node.primitive, node.primitive.kernel
    if primitive in (INPUT, CONSTANT):
        return True
    if rule is None or rule.checks_whole or PRIMITIVES.get(primitive.name) is not primitive:
        return False  # the user's own functions are called where plain code calls them
    return rule.kind in _SAFE or rule.kind.is_elementwise


def _agree(one: Variant, other: Variant) -> bool:
    """Whether two variants take the same inputs and give results of the same structure."""
    return (
        one.tape.input_types == other.tape.input_types
        and one.tape.output_types == other.tape.output_types
        and (one.wrt, one.traced, one.direct) == (other.wrt, other.traced, other.direct)
        and (one.in_spec, one.out_spec) == (other.in_spec, other.out_spec)
        and (one.scalars, one.input_scalars) == (other.scalars, other.input_scalars)
    )


def _choosing(ways: Sequence[Variant]) -> tuple[Tape, Tape]:
    """The tape that chooses the results of the way whose guards hold, and whether one's do."""
    with Trace("merge", lines=False) as trace:
        inputs = [trace.input(t) for t in ways[0].tape.input_types]
        *others, last = ways
        outs = splice(last.tape, inputs, trace)
        (holds,) = splice(cast("Tape", last.check), inputs, trace)
        for way in reversed(others):
            (own,) = splice(cast("Tape", way.check), inputs, trace)
            mine = splice(way.tape, inputs, trace)
            outs = [
                cast("TracedArray", np.where(own, a, b)) for a, b in zip(mine, outs, strict=True)
            ]
            holds = cast("TracedArray", np.logical_or(own, holds))
        finish = trace.builder.finish
        return finish([trace.lift(out) for out in outs]), finish([trace.lift(holds)])

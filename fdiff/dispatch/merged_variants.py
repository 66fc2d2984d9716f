"""Merged variants: several traces of a function that branches, as one tape that selects.

If a function takes one of a few paths, its guards would be checked path by path, and a program that
alternates would run a check before each call. So short paths are all computed, together with the
guards of each, and a select takes the results of the path whose guards hold: common operations are
computed once, and derivatives go through the select to that path alone. Paths that may raise an
error are not merged, because all paths run.

The method is if-conversion of whole traces; R. Allen and K. Kennedy, Optimizing Compilers for
Modern Architectures, Morgan Kaufmann 2001, section 7.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import fdiff.intact_numpy as np

from ..arraytype import ArrayType
from ..capture.merged_dependencies import MergedDependencies
from ..kernel_rule import Kind
from ..primitive import PRIMITIVES
from ..tape import CONSTANT, INPUT, Node, Tape
from ..trace import Trace, TracedArray, splice
from ..trace.traced_array import Array
from .branch_stability import MOST_PATHS, SHARE
from .variant import Conditions, Traced, Variant

FIRST = 3  # paths that are merged at first, and then again
NODES = 2000  # of all paths and their guards together
ENTRIES = 64  # of the largest array: larger ones cost more than a check
# Operations that raise no error for any operands.
_SAFE = {
    Kind.VALUE, Kind.IOTA, Kind.RESHAPE, Kind.TRANSPOSE, Kind.BROADCAST, Kind.SLICE, Kind.UNSLICE,
    Kind.UPDATE, Kind.CONCATENATE, Kind.PLACE, Kind.SUM, Kind.PROD, Kind.MAX, Kind.MIN, Kind.ANY,
    Kind.ALL, Kind.CUMSUM, Kind.CUMPROD,
}  # fmt: skip


def merge(kept: Sequence[Variant], f: object, *, at_once: bool = False) -> Variant | None:
    """One variant, without a plan, merged from the newest of `kept` and all variants like it.

    None if they are few compared with the variants merged before, unless calls alternate so often
    that they are merged `at_once`. Traces that do not hold for `f` now are left out, because the
    reads of all merged traces are compared before each call.
    """
    newest = next((v for v in kept if not v.paths), kept[0])
    if not _is_simple(newest):
        return None
    alike = [v for v in kept if _is_simple(v) and _agree(v, newest) and _is_valid(v, f)]
    before = next((v for v in kept if v.paths and _agree(v.paths[0], newest)), None)
    merged_before = [v for v in ([] if before is None else before.paths) if _is_valid(v, f)]
    paths = (*alike, *merged_before)
    size = sum(len(v.traced.tape) + len(cast("Tape", v.traced.check)) for v in paths)
    least = 1 if at_once else max(FIRST, len(merged_before) // SHARE)
    if len(alike) < least or not 2 <= len(paths) <= MOST_PATHS or size > NODES:
        return None
    traces = [v.traced for v in paths]
    chosen, many = _values(traces)
    reads = MergedDependencies([v.conditions.inner[0][1] for v in paths], f, chosen)
    tape, check, written = _choosing(traces, reads, chosen, many)
    return Variant(
        newest.traced._replace(tape=tape, check=check, written=written),
        Conditions(
            inner=((newest.conditions.inner[0][0], reads),),
            order=tuple([(0, k) for k in range(len(reads.arrays))]),
            guards=sum(v.conditions.guards for v in paths),
        ),
        paths=paths,
    )


def _is_valid(variant: Variant, f: object) -> bool:
    return variant.conditions.inner[0][1].refresh(f) is not None


def without_merged(kept: Sequence[Variant], merged: Variant) -> list[Variant]:
    """The merged variant, and the variants of `kept` that are not part of it."""
    paths = set(map(id, merged.paths))
    return [
        merged,
        *(v for v in kept if id(v) not in paths and not paths.issuperset(map(id, v.paths or (v,)))),
    ]


def _is_simple(variant: Variant) -> bool:
    """Whether a variant is short, relies on guards and numbers alone, and cannot raise an error."""
    traced, conditions = variant.traced, variant.conditions
    if variant.paths or traced.check is None or len(conditions.inner) != 1:
        return False
    if conditions.pinned or conditions.layouts or conditions.swapped:
        return False
    reads = conditions.inner[0][1]
    effects = reads.effects
    numbers = 0 if effects is None else len(effects.reads)
    if reads.slots > numbers or (effects is not None and effects.filled):
        return False
    if any(traced.outs) or not traced.tape.outputs:
        return False
    if any(number is not None for number in traced.numbers):
        return False
    written = () if traced.written is None else traced.written.nodes
    return all(map(_is_safe, (*traced.tape.nodes, *traced.check.nodes, *written)))


def _is_safe(node: Node) -> bool:
    """Whether a node costs little and raises no error for any operands."""
    if any(t.size > ENTRIES or t.dtype.kind == "c" for t in node.types):
        return False
    primitive, rule = node.primitive, node.primitive.lowering.kernel
    if primitive in (INPUT, CONSTANT):
        return True
    if rule is None or rule.checks_whole or PRIMITIVES.get(primitive.name) is not primitive:
        return False  # the user's own functions are called where plain code calls them
    return rule.kind in _SAFE or rule.kind.is_elementwise


def _agree(variant: Variant, other: Variant) -> bool:
    """Whether two variants take the same inputs and give results of the same structure."""
    a, b = variant.traced, other.traced
    count = len(a.positions)
    return (
        a.tape.input_types[:count] == b.tape.input_types[:count]
        and a.tape.output_types == b.tape.output_types
        and (a.wrt, a.positions, a.direct) == (b.wrt, b.positions, b.direct)
        and (a.in_spec, a.out_spec) == (b.in_spec, b.out_spec)
        and (a.scalars, a.input_scalars) == (b.scalars, b.input_scalars)
        and _decisions(variant) == _decisions(other)
    )


def _decisions(variant: Variant) -> object:
    """The decisions that depend on numbers read anew; None if there are none."""
    effects = variant.conditions.inner[0][1].effects
    return effects.before if effects is not None and effects.decides else None


def _values(traces: Sequence[Traced]) -> tuple[list[tuple[int, ...]], int]:
    """For each path the places of the values it writes, and the number of places.

    Paths share a place for values of one type.
    """
    numbers: dict[tuple[ArrayType, int], int] = {}
    chosen: list[tuple[int, ...]] = []
    for path in traces:
        types = () if path.written is None else path.written.output_types
        keys = [(t, types[:k].count(t)) for k, t in enumerate(types)]
        chosen.append(tuple([numbers.setdefault(key, len(numbers)) for key in keys]))
    return chosen, len(numbers)


def _choosing(
    traces: Sequence[Traced],
    reads: MergedDependencies,
    chosen: Sequence[tuple[int, ...]],
    many: int,
) -> tuple[Tape, Tape, Tape | None]:
    """The results of the path whose guards hold, whether a path has guards that hold, and writes.

    A path writes `many` values at most. If paths write different values, its number comes last.
    """
    count, size = len(traces[0].positions), len(traces[0].tape.outputs)
    types = [
        *traces[0].tape.input_types[:count],
        *(ArrayType(a.shape, a.dtype) for a in reads.arrays),
    ]
    with Trace("merge", lines=False) as trace:
        inputs = [trace.input(type_) for type_ in types]
        holds: object = False
        row: list[Array | float | None] = [None] * (size + 1 + many)  # results, the path, values
        for k in reversed(range(len(traces))):
            path, begin = traces[k], count + reads.first[k]
            mine = [*inputs[:count], *inputs[begin : begin + len(path.tape.inputs) - count]]
            (own,) = splice(cast("Tape", path.check), mine, trace)
            values: list[TracedArray | None] = [None] * many
            for number, value in zip(chosen[k], _spliced(path.written, mine, trace), strict=True):
                values[number] = value
            parts = zip((*splice(path.tape, mine, trace), float(k), *values), row, strict=True)
            row = [a if b is None else b if a is None else np.where(own, a, b) for a, b in parts]
            holds = own if holds is False else np.logical_or(own, holds)
        results, number, written = row[:size], row[size], row[size + 1 :]
        written += [] if reads.same_writes else [number]
        finish = lambda *values: trace.builder.finish([*map(trace.lift, values)])  # noqa: E731 - short
        return finish(*results), finish(holds), finish(*written) if written else None


def _spliced(tape: Tape | None, inputs: list[TracedArray], trace: Trace) -> Sequence[TracedArray]:
    return () if tape is None else splice(tape, inputs, trace)

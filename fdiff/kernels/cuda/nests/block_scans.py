"""Scans (running sums and extrema) by the threads of a block, and the nests that are such scans.

A block takes a row in tiles of as many entries as it has threads. Within a warp, values are
exchanged as in a hypercube: each lane keeps the total of its group and its own running value, and
groups double (A. Grama et al., Introduction to Parallel Computing, 2nd ed., 2003, section 4.3).
The totals of warps lie in shared memory, where all threads add them up in one order; what comes
before a tile is carried in a register of each thread (G. E. Blelloch, Prefix sums and their
applications, 1990, section 1.2). The result depends on the number of threads alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ....named_tuples import NamedTuple
from ...ir.combiners import Combiner
from ...ir.loops import NUMPY, Statement, StatementKind
from .nest_mapping import MappedNest, ordered_loops

_TEMPLATE = """\
def {name}(value, carry, thread):
    totals = cuda.shared.array(32, {type_})
    lane = thread % WARP
    warp = thread // WARP
    total = value
    reach = 1
    while reach < WARP:
        other = rt.exchange(total, reach)
        second = (lane // reach) % 2 == 1
        before = {other_value}
        both = {other_total}
        swapped = {total_other}
        value = rt.select(second, before, value)
        total = rt.select(second, both, swapped)
        reach = reach * 2
    cuda.syncthreads()
    if lane == 0:
        totals[warp] = total
    cuda.syncthreads()
    before = carry
    whole = carry
    for k in range((cuda.blockDim.x + WARP - 1) // WARP):
        total = totals[k]
        whole = {whole_total}
        before = rt.select(k < warp, whole, before)
    return {before_value}, whole
"""
_WIDE = ("f8", "f4", "i8")  # dtypes whose sums are of that dtype by themselves
_PLAIN = {
    StatementKind.LOAD,
    StatementKind.LET,
    StatementKind.POSITION,
    StatementKind.WRAP,
    StatementKind.STORE,
    StatementKind.ACCUMULATE,
    StatementKind.CARRY,
}


class Scan(NamedTuple):
    """A running value: the local that has it, what is combined with it, and how it begins."""

    target: str
    value: str
    combiner: Combiner
    dtype: str
    start: str


def scan_name(combiner: Combiner, dtype: str) -> str:
    """The name of the function that scans the values of all threads of a block."""
    return f"scan_{combiner.name.lower()}_{dtype}"


def _text(combiner: Combiner, dtype: str) -> str:
    narrow = "{}" if dtype in _WIDE else f"{NUMPY[dtype]}({{}})"
    pairs = ("other_value", "other_total", "total_other", "whole_total", "before_value")
    combined = {p: narrow.format(combiner.value[-1].format(*p.split("_"))) for p in pairs}
    return _TEMPLATE.format(name=scan_name(combiner, dtype), type_=NUMPY[dtype], **combined)


# Products are no such scans: one of some factors may overflow, or underflow to zero, where the
# product in order does not, and zero times infinity would then be NaN. Nor are linear recurrences,
# whose running values in another order have products of coefficients.
_COMBINERS = (Combiner.ADD, Combiner.MAXIMUM, Combiner.MINIMUM)
SCANS = {
    scan_name(combiner, dtype): _text(combiner, dtype)
    for combiner in _COMBINERS
    for dtype in NUMPY
    if dtype != "b1"
}


def scans_of(mapped: MappedNest, memory: Mapping[str, str]) -> dict[str, Scan] | None:
    """The running values of a nest whose only ordered loop is the innermost one, by their locals.

    None if there are none, or something else needs that order.
    """
    nest, inner = mapped.nest, len(mapped.nest.domain) - 1
    if mapped.parallel != inner or nest.branches or mapped.atomic:
        return None
    if any(s.kind not in _PLAIN for s in nest.statements):
        return None
    scans: dict[str, Scan] = {}
    for a in nest.accumulators:
        if a.depth != inner or a.final:
            return None
        steps = [s for s in nest.statements if a.name == s.target]
        if len(steps) == 1 and (scan := _scan(steps[0], steps[0].operands, a.identity, a.dtype)):
            scans[a.name] = scan
    carried = [s for s in nest.statements if s.kind is StatementKind.CARRY]
    for s in carried:
        users = [u for u in nest.statements if s.target in u.reads]
        first = len(users) == 1 and users[0].operands[:1] == (s.target,)
        if first and (scan := _scan(users[0], users[0].operands[1:], s.text, memory[s.memory])):
            scans[scan.target] = scan
    complete = len(scans) == len(nest.accumulators) + len(carried)
    if not scans or not complete or _read_early(nest.statements, set(scans)):
        return None
    rest = tuple(s for s in nest.statements if s.kind is not StatementKind.CARRY)
    return None if ordered_loops(replace(nest, statements=rest, accumulators=())) else scans


def _read_early(statements: tuple[Statement, ...], later: set[str]) -> bool:
    """Whether a running value is read before its step, and so is the value of the entry before."""
    for s in statements:
        if later.intersection(s.reads):
            return True
        later.discard(s.target)
    return False


def _scan(step: Statement, values: tuple[str, ...], start: str, dtype: str) -> Scan | None:
    """The scan that a statement is a step of; None if its operator is not known to be one."""
    if len(values) != 1:
        return None
    narrow = "{}" if dtype in _WIDE else f"{NUMPY[dtype]}({{}})"
    for combiner in _COMBINERS:
        supported = step.text in [narrow.format(text) for text in combiner.value]
        if supported and scan_name(combiner, dtype) in SCANS:
            return Scan(step.target, values[0], combiner, dtype, start)
    return None

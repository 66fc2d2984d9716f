"""Kernel graphs and loop programs in a form that a person reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from .accesses import Access
from .control_items import ControlItem, SequentialLoop, Switch
from .index_expressions import Dims, plus, times
from .kernel_graph import KernelGraph, Operation, SliceParameters
from .loops import (
    BEGIN,
    END,
    Call,
    Conditional,
    Item,
    LoopProgram,
    Nest,
    Ranges,
    Statement,
    StatementKind,
    TileLoop,
    VersionedLoop,
    depth_of,
)
from .parallel import ParallelLoop, ParallelProgram, SerialRegion

INDENT = "    "
_PARAMETER = re.compile(r"[a-z_]+")


# --- kernel graphs: one operation a line, in SSA form -------------------------------------------


def graph_text(graph: KernelGraph, notes: Mapping[int, str] | None = None) -> str:
    """Each operation as ``%3: f8[n0] = add %1, %2``, followed by its note if it has one."""
    lines: list[str] = []
    for i, op in enumerate(graph.ops):
        note = (notes or {}).get(i)
        lines.append(f"{operation_text(i, op)}  # {note}" if note else operation_text(i, op))
        for body in op.bodies:
            lines += (INDENT + line for line in graph_text(body).splitlines())
    lines.append("return " + ", ".join(f"%{o}" for o in graph.outputs))
    return "\n".join(lines) + "\n"


def operation_text(i: int, op: Operation) -> str:
    """One operation: its number, types, name, parameters and operands."""
    types = ", ".join(
        type_text(dtype, dims) for dtype, dims in zip(op.dtypes, op.shapes, strict=False)
    )
    texts = _parameters(op)
    parameters = f"[{', '.join(texts)}]" if texts else ""
    operands = ", ".join(f"%{a}" for a in op.args)
    return f"%{i}: {types} = {op.label}{parameters} {operands}".rstrip()


def type_text(dtype: str, dims: Dims) -> str:
    """A dtype and a shape, as in ``f8[n0, 3]``."""
    return f"{dtype}[{', '.join(dims)}]"


def _parameters(op: Operation) -> list[str]:
    """Parameters of an operation by name, with starts and steps of slices."""
    if isinstance(op.data, SliceParameters):
        return _slice_parameters(op.data)
    out: list[str] = []
    for entry in op.data:
        if not isinstance(entry, tuple) or len(entry) != 2:
            out.append(str(entry))
        elif entry[0] == "bodies":
            continue
        elif isinstance(entry[0], str) and _PARAMETER.fullmatch(entry[0]):
            out.append(f"{entry[0]}={_value(entry[1])}")
        else:
            start, step = entry
            out.append(f"{start}::{step}")
    return out if op.data or op.args else [op.text]


def _slice_parameters(region: SliceParameters) -> list[str]:
    out = [f"{start}::{step}" for start, step in region.slices]
    if region.disjoint:
        out.append(f"disjoint={region.disjoint}")
    return out + ["unread"] * region.unread + ["wide"] * region.wide + ["large"] * region.large


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(str, value))})"
    return str(value)


# --- loop programs: loops as pseudo-code --------------------------------------------------------


def program_text(program: LoopProgram | ParallelProgram) -> str:
    """Declarations of memory, then the loops and calls in order, then what is returned."""
    lines = [
        f"{t.name}: {type_text(t.dtype, t.dims)}" + f" for each of {t.copies}" * bool(t.copies)
        for t in program.temporaries
    ]
    for item in program.items:
        lines += _parallel(item) if isinstance(item, ParallelLoop | SerialRegion) else _item(item)
    results = (f"{o.name} = {o.scalar}" if o.scalar else o.name for o in program.outputs)
    return "\n".join([*lines, f"return {', '.join(results)}"]) + "\n"


def _parallel(item: ParallelLoop | SerialRegion) -> Iterator[str]:
    if isinstance(item, SerialRegion):
        yield "in one thread:"
        for inner in item.items:
            yield from _indented(_item(inner))
        return
    sums = [f"{r.name} in {r.slot}" for r in item.totals]
    sums += [f"{whole.name} in {copy.name}" for whole, copy in item.copies]
    yield "in parallel" + (f", each part its own {', '.join(sums)}:" if sums else ":")
    yield from _indented(_item(item.item))
    for statement in item.final:
        yield statement_text(statement)


def _item(item: Item | Conditional) -> Iterator[str]:
    if isinstance(item, Nest):
        yield from nest_text(item)
    elif isinstance(item, ControlItem):
        yield from _control(item)
    elif isinstance(item, Call):
        begins = item.begins or ("",) * len(item.buffers)
        buffers = [f"{b}[{k}:]" if k else b for b, k in zip(item.buffers, begins, strict=True)]
        yield f"{item.routine}({', '.join((*buffers, *item.sizes))})"
    elif isinstance(item, TileLoop):
        yield f"for {BEGIN}, {END} in tiles of {item.block} of {item.rows}:"
        for inner in item.items:
            yield from _indented(_item(inner))
    elif isinstance(item, Conditional):
        yield f"if {item.local} == 0:"
        yield from _indented(nest_text(item.zero))
        yield "else:"
        yield from _indented(nest_text(item.other))
    else:
        yield from _versions(item)


def _control(item: ControlItem) -> Iterator[str]:
    """A loop or a switch, and its bodies if they have programs; else their graphs stand above."""
    loop = item if isinstance(item, SequentialLoop) else None
    rows = loop.rows if loop else 0
    for k, name in enumerate(item.operands):
        row = "[trip]" * (k >= len(item.operands) - rows)
        yield f"x{k} = {name + row or 'trip'}" + " at first" * bool(loop and k < loop.carries)
    for k, body in enumerate(item.bodies):
        yield f"{_head(item, k)}:"
        if body.program is not None:
            yield from _indented(program_text(body.program).splitlines())
    for k, name in enumerate(item.results):
        trip = "[trip]" if loop and not loop.condition and k >= loop.carries else ""
        yield f"{name}{trip} = out{k}"


def _head(item: ControlItem, k: int) -> str:
    """When body `k` of an item is run."""
    if isinstance(item, Switch):
        return f"case {k} of {item.index}[0]"
    assert isinstance(item, SequentialLoop)
    if item.condition:
        return "while" if k else "for trip while true"
    count = f"{item.trips}[0]" if item.trips else item.length
    return f"for trip in {count}" + " in reverse" * item.reverse


def _versions(loop: VersionedLoop) -> Iterator[str]:
    yield f"while {END} < {loop.fallback.rows}:"
    for nest in loop.measured:
        yield from _indented(nest_text(nest))
    for version in loop.versions:
        tests = " and ".join((*version.ends, *version.tests))
        yield f"{INDENT}if a run of rows by {tests}:"
        for nest in version.items:
            yield from _indented(_indented(nest_text(nest)))
    yield f"{INDENT}otherwise:"
    yield from _indented(_indented(_item(loop.fallback)))


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (INDENT + line for line in lines)


# --- nests --------------------------------------------------------------------------------------


def nest_text(nest: Nest) -> Iterator[str]:
    """A nest: each statement in the outermost loop in which its operands are known."""
    yield f"# {nest.comment}"
    if nest.excluded or nest.branches:
        yield from _flat(nest)
        return
    rank = len(nest.domain)
    before, after = _by_depth(nest)
    for depth in range(rank + 1):
        yield from (INDENT * depth + line for line in before[depth])
        if depth < rank:
            yield f"{INDENT * depth}for i{depth} in {_range(nest.domain, nest.ranges, depth)}:"
    for depth in range(rank - 1, -1, -1):
        yield from (INDENT * depth + line for line in after[depth])


def _by_depth(nest: Nest) -> tuple[list[list[str]], list[list[str]]]:
    """The lines before the loop of each depth, and after it."""
    rank = len(nest.domain)
    before: list[list[str]] = [[] for _ in range(rank + 1)]
    after: list[list[str]] = [[] for _ in range(rank + 1)]
    depths: dict[str, int] = {}
    for a in nest.accumulators:
        if a.identity != a.name:
            before[a.depth].append(f"{a.name} = {a.identity}")
        after[a.depth] += map(statement_text, a.final)
    for s in nest.statements:
        depths[s.target] = depth_of(s, depths, rank)
        before[depths[s.target]].append(statement_text(s))
    return before, after


def _flat(nest: Nest) -> Iterator[str]:
    """A nest that leaves entries out, or has branches: its loops on one line, all else below."""
    loops = range(len(nest.domain))
    left_out = ", ".join(_range(nest.domain, nest.excluded, k) for k in loops)
    outside = f", outside of {left_out}" if nest.excluded else ""
    domain = ", ".join(_range(nest.domain, nest.ranges, k) for k in loops)
    for a in nest.accumulators:
        if a.identity != a.name:
            yield f"{a.name} = {a.identity}"
    yield f"for {', '.join(f'i{k}' for k in loops)} in {domain}{outside}:"
    yield from _indented(map(statement_text, nest.statements))
    for guard, statements in nest.branches:
        tests = " and ".join(f"{begin} <= i{k} < {end}" for k, begin, end in guard)
        yield INDENT + (f"if {tests}:" if tests else "always:")
        yield from _indented(_indented(map(statement_text, statements)))
    for a in nest.accumulators:
        yield from map(statement_text, a.final)


def _range(domain: Dims, ranges: Ranges, k: int) -> str:
    bounds = ranges[k] if ranges else None
    return f"0:{domain[k]}" if bounds is None else ":".join(bounds)


def statement_text(s: Statement) -> str:
    """One statement as an assignment."""
    kind, target, text, operands, access, _ = s
    if kind in (StatementKind.LET, StatementKind.ACCUMULATE):
        parts = operands if kind is StatementKind.LET else (target, *operands)
        return f"{target} = {text.format(*parts)}"
    if kind is StatementKind.WRAP:
        checked = f" checked against {text}" if text else ""
        return f"{target} = index {operands[0]}{checked}"
    assert access is not None
    entry = _entry(access)
    first, best = "".join(operands[:1]), ", ".join(operands[::-1])
    return {
        StatementKind.LOAD: f"{target} = {entry}",
        StatementKind.STORE: f"{entry} = {first}",
        StatementKind.UPDATE: f"{entry} = {_combined(text, entry, operands)}",
        StatementKind.POSITION: f"{target} = position of {entry}",
        StatementKind.CARRY: f"{target} = {entry} if i{first} > 0 else {text}",
        StatementKind.EXTREME: f"if {f' {text} '.join(operands)}: {target} = {best} = ...",
    }[kind]


def _combined(text: str, entry: str, operands: tuple[str, ...]) -> str:
    return text.format(entry, *operands[:1]) if operands else text


def _entry(access: Access) -> str:
    """An entry of memory: its position along each axis."""
    positions = [
        plus(times(a.step, f"i{a.var}"), a.start) if a.var >= 0 else a.start for a in access.index
    ]
    return f"{access.buffer.name}[{', '.join(positions)}]"

"""From loop nests to the text of a kernel: Python that people can read, and LLVM compiles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ...kernel_rule import Kind
from ...process.background import checkpoint
from ..ir.graph import KernelGraph
from ..ir.loops import NUMPY, Call, Conditional, LoopProgram, Nest, TileLoop, VersionedLoop
from ..ir.parallel import ParallelProgram
from ..kernel_source import INDENT, KernelSource, WorkspaceBuffer
from ..runtime.status import FAR
from .loop_nest import emit_nest
from .outlining import LONG, Unit, in_steps
from .parallel_regions import TABLES, begin_crew, crew_of, emit_item, named
from .row_tiles import emit_blocks, emit_runs
from .workspace import furnish

_WORD = re.compile(r"\w+")
_NAMES = re.compile(r"\b(?:[nmf]\d+|x\d+_\d+|[xk]\d+)\b")


def emit(program: LoopProgram | ParallelProgram, graph: KernelGraph) -> KernelSource:
    """``kernel(inputs, constants, outputs, strides, ints, floats, rooms)``: a status."""
    routines = tuple(dict.fromkeys(call.routine for call in program.calls))
    if isinstance(program, ParallelProgram):
        return _for_crew(program, graph, routines)
    where, buffers = furnish(program)
    units = [unit for item in program.items for unit in _units(item, graph, routines)]
    lines = [line for unit in units for line in unit.lines]
    tail = [f"{out.name}[0] = {out.scalar}" for out in program.outputs if out.scalar]
    tail.append(_end(lines))
    steps: list[str] = []
    memory = {t.name: f"r{where[t.name]}" for t in program.temporaries}
    body = [line for unit in units for line in unit.indented(unit.lines)]
    if len(body) > LONG:
        steps, body = in_steps(units, tail, memory)
    known = set(_WORD.findall("\n".join(body))) if steps else memory.keys()
    body = [*(f"{t} = {r}" for t, r in memory.items() if t in known), *body, *tail]
    begin = graph.sizes + graph.ints + len(routines) + bool(routines)
    kernel = _kernel(graph, [*_begin(lines), *body], _work(buffers, begin))
    return KernelSource("\n".join([*steps, *kernel]) + "\n", routines, buffers)


def _for_crew(
    program: ParallelProgram, graph: KernelGraph, routines: tuple[str, ...]
) -> KernelSource:
    """The kernel that several threads run."""
    where, buffers = furnish(program)
    crew = crew_of(where, buffers, len(program.outputs))

    def call(item: Call, *, part: bool) -> list[str]:
        return _call(item, graph, routines, part=part)

    body = [line for item in program.items for line in emit_item(item, crew, call)]
    tail = [f"{INDENT}{out.name}[0] = {out.scalar}" for out in program.outputs if out.scalar]
    tail = ["if me == 0:", *tail] if tail else []
    memory = [named(t, crew) for t in program.temporaries]
    begin = graph.sizes + graph.ints + len(routines) + TABLES * bool(routines)
    lines = [*begin_crew(buffers, begin + len(buffers) + 1), *_begin(body), *memory, *body, *tail]
    parameters = [*_work(buffers, begin), 'crew: "i8* crew"']
    kernel = _kernel(graph, [*lines, _end(body)], parameters)
    return KernelSource("\n".join(kernel) + "\n", routines, buffers, shared=True)


def _begin(lines: Iterable[str]) -> list[str]:
    return ["far = False"] if any("far |=" in line for line in lines) else []


def _end(lines: Iterable[str]) -> str:
    return f"return {FAR} if far else 0" if _begin(lines) else "return 0"


def _kernel(graph: KernelGraph, lines: list[str], work: list[str]) -> list[str]:
    """The function of these lines."""
    parameters = ", ".join([*_parameters(graph), *work])
    prologue = _prologue(graph, "\n".join(lines))
    return [f"def kernel({parameters}):", *(INDENT + line for line in (*prologue, *lines))]


def _units(
    item: Nest | Call | TileLoop | VersionedLoop | Conditional,
    graph: KernelGraph,
    routines: tuple[str, ...],
    depth: int = 0,
) -> Iterator[Unit]:
    """The lines of an item, of each nest in a loop over blocks by themselves."""
    checkpoint()
    if isinstance(item, TileLoop):
        yield Unit(tuple(emit_blocks(item)), depth)
        for inner in item.items:
            yield from _units(inner, graph, routines, depth + 1)
    elif isinstance(item, VersionedLoop):
        inside = [u for inner in item.fallback.items for u in _units(inner, graph, routines)]
        lines = [line for unit in inside for line in unit.indented(unit.lines)]
        yield Unit(tuple(emit_runs(item, lines)), depth)
    elif isinstance(item, Conditional):
        cases = ([INDENT + line for line in emit_nest(nest)] for nest in (item.zero, item.other))
        zero, other = cases
        yield Unit((f"if {item.local} == 0:", *zero, "else:", *other), depth)
    else:
        lines = _call(item, graph, routines) if isinstance(item, Call) else emit_nest(item)
        yield Unit(tuple(lines), depth)


def _parameters(graph: KernelGraph) -> list[str]:
    """Inputs, constants and outputs, and the tables."""
    inputs = [graph.ops[i] for i in graph.inputs]
    kinds = [(f"x{k}", part.dtype + "*" * bool(part.dims)) for k, part in enumerate(inputs)]
    arrays = {p.data[0]: p.dtype for p in graph.ops if p.kind is Kind.ARRAY}
    kinds += [(f"k{k}", f"{arrays[k]}*") for k in range(graph.arrays)]
    kinds += [(f"out{k}", f"{graph.ops[o].dtype}*") for k, o in enumerate(graph.outputs)]
    out = [f'{name}: "{kind} data[{k}]"' for k, (name, kind) in enumerate(kinds)]
    return [*out, 'strides: "i8* strides"', 'ints: "i8* ints"', 'floats: "f8* floats"']


def _work(buffers: tuple[WorkspaceBuffer, ...], begin: int) -> list[str]:
    """The rooms of the workspace."""
    return [f'r{k}: "{room.dtype}* work[{begin + k}]"' for k, room in enumerate(buffers)]


def _prologue(graph: KernelGraph, body: str) -> list[str]:
    """Sizes, table entries and flat views of what the body names."""
    used = set(_NAMES.findall(body))
    lines: list[str] = []
    first = 0
    for k, i in enumerate(graph.inputs):
        part = graph.ops[i]
        axes = range(len(part.dims))
        lines += [f"x{k}_{a} = strides[{first + a}]" for a in axes if f"x{k}_{a}" in used]
        first += len(axes) if part.data[1] == "A" else 0
    lines += [f"n{k} = ints[{k}]" for k in range(graph.sizes) if f"n{k}" in used]
    for part in graph.ops:
        if part.kind is Kind.VALUE and part.text in used:
            table = "ints" if part.text[0] == "m" else "floats"
            at = int(part.text[1:]) + (graph.sizes if table == "ints" else 0)
            plain = part.dtype in ("i8", "f8")
            lines.append(
                f"{part.text} = {table}[{at}]"
                if plain
                else f"{part.text} = {NUMPY[part.dtype]}({table}[{at}])"
            )
            used.discard(part.text)
    lines += [f"m{k} = ints[{graph.sizes + k}]" for k in range(graph.ints) if f"m{k}" in used]
    return lines


def _call(
    item: Call, graph: KernelGraph, routines: tuple[str, ...], *, part: bool = False
) -> list[str]:
    """The call of a routine; in a `part` of a loop by the table for several threads."""
    first = graph.sizes + graph.ints
    at = first + routines.index(item.routine)
    table = first + len(routines) + part
    begins = item.begins or ("",) * len(item.buffers)
    buffers = [
        f"rt.at({name}, {begin})" if begin else name
        for name, begin in zip(item.buffers, begins, strict=True)
    ]
    given = ", ".join((*buffers, *item.sizes, f"ints[{table}]"))
    return [
        f"# {item.comment}",
        f"status = rt.call(ints[{at}], {given})",
        "if status != 0:",
        f"{INDENT}return status",
    ]

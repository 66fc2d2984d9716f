"""From a loop program to the text of a kernel, in the subset of Python that `llvm` compiles."""

from __future__ import annotations

from collections.abc import Iterator

from ...kernel_rule import Kind
from ...process.background import checkpoint
from ..ir.control_items import ControlItem, SequentialLoop
from ..ir.expression_names import names_in, table_entry
from ..ir.kernel_graph import KernelGraph
from ..ir.loops import NUMPY, Call, Conditional, Item, LoopProgram, Nest, TileLoop, nests_and_calls
from ..ir.parallel import ParallelProgram
from ..kernel_source import STARTED, IntegerTable, KernelSource, TextFacts, WorkspaceBuffer
from ..runtime.status_errors import OUT_OF_RANGE
from .lines import (
    LineKind,
    Lines,
    TextLine,
    deeper,
    has_loops_of_moves,
    leave,
    let,
    load,
    store,
    text_of,
)
from .loop_nest import has_angle
from .outlining import LONG, Region, outline
from .parallel_regions import emit_parallel, parallel_text, worker_prologue
from .program_items import emit_item, tile_head
from .symbol_table import SymbolTable
from .workspace import allocate

STAMPS = "ticks"  # the memory for time stamps


def emit(
    program: LoopProgram | ParallelProgram, graph: KernelGraph, *, timed: bool = False
) -> KernelSource:
    """``kernel(inputs, constants, outputs, strides, ints, floats, buffers)``: a status.

    `IntegerTable` describes the integers. A kernel that is `timed` has one input more, of zeros: it
    writes the processor's clock before each item and at the end there. It is not outlined.
    """
    names = tuple(dict.fromkeys(call.routine for call in program.calls))
    where, buffers = allocate(program)
    parallel = isinstance(program, ParallelProgram)
    table = IntegerTable(graph.sizes + graph.ints, len(names), len(buffers), parallel)
    symbols = SymbolTable(names, table, _truths(program, graph))
    if isinstance(program, ParallelProgram):
        return _emit_parallel(program, graph, symbols, timed=timed)
    regions: list[Region] = []
    for k, item in enumerate(program.items):
        if timed:
            regions.append(Region((time_stamp(k),)))
        regions += _regions(item, symbols)
    if timed:
        regions.append(Region((time_stamp(len(program.items)),)))
    trips, angles = facts = _has_trips(program), _has_angles(program)
    tail = [*_results(program), _return(angles=angles)]
    functions: list[TextLine] = []
    memory = {t.name: f"r{where[t.name]}" for t in program.temporaries}
    body = [line for region in regions for line in region.placed(region.lines)]
    if len(body) > LONG and not timed:
        functions, body = outline(regions, tail, memory)
    used = _names(body) if functions else memory.keys()
    body = [*(let(t, r) for t, r in memory.items() if t in used), *body, *tail]
    body = [*symbols.legend(), *_locals(*facts), *body]
    kernel = _kernel(graph, body, _buffer_parameters(buffers, table.begins), timed=timed)
    lines = _with_numbered_bodies([*functions, *kernel], program)
    whole = _facts(lines, trips=trips, angles=angles, outlined=bool(functions))
    return KernelSource(text_of(lines), names, buffers, facts=whole)


def _facts(lines: Lines, *, trips: bool, angles: bool, outlined: bool = False) -> TextFacts:
    """What is known of a kernel's lines."""
    functions = [name for line in lines for name in line.functions]
    straight = trips and not (functions or outlined) and has_loops_of_moves(lines)
    return TextFacts(
        trips,
        angles,
        outlined,
        straight,
        loops=sum(line.kind is LineKind.LOOP for line in lines),
        nested=sum(line.depth > 1 for line in lines),
        calls=len(functions),
        functions=len(set(functions)),
    )


def _names(lines: Lines) -> set[str]:
    """The names in lines of code."""
    code = (line.text for line in lines if line.kind is not LineKind.COMMENT)
    return {name for text in code for name in names_in(text)}


def time_stamp(k: int) -> TextLine:
    """The line that notes when item `k` of a timed kernel begins."""
    return store(f"{STAMPS}[{k}]", "rt.ticks()")


def first_time_stamp(k: int) -> TextLine:
    """The line of a time stamp in a kernel of several threads: the first that gets there counts."""
    return TextLine(f"rt.compare_exchange({STAMPS}, {k}, 0, rt.ticks())")


def _emit_parallel(
    program: ParallelProgram, graph: KernelGraph, symbols: SymbolTable, *, timed: bool
) -> KernelSource:
    """The kernel that several threads run."""
    where, buffers = allocate(program)
    text = parallel_text(where, len(program.outputs), symbols)
    body: list[TextLine] = []
    for k, item in enumerate(program.items):
        if timed:
            body.append(first_time_stamp(k))
        body += emit_parallel(item, text)
    if timed:
        body.append(first_time_stamp(len(program.items)))
    results = _results(program)
    tail = [TextLine("if thread == 0:"), *deeper(results)] if results else []
    memory = [text.memory(t) for t in program.temporaries]
    prologue = worker_prologue(buffers, symbols.table.parts)
    trips, angles = facts = _has_trips(program), _has_angles(program)
    start = [*prologue, *_locals(*facts)]
    lines = [*symbols.legend(), *start, *memory, *body, *tail, _return(angles=angles)]
    parameters = [*_buffer_parameters(buffers, symbols.table.begins), 'worker: "i8* worker"']
    kernel = _with_numbered_bodies(_kernel(graph, lines, parameters, timed=timed), program)
    whole = _facts(kernel, trips=trips, angles=angles)
    return KernelSource(text_of(kernel), symbols.routines, buffers, threaded=True, facts=whole)


def _programs(
    program: LoopProgram | ParallelProgram, suffix: str = ""
) -> Iterator[tuple[str, LoopProgram | ParallelProgram]]:
    """A program and the bodies of its loops and switches, with what names of each end with."""
    yield suffix, program
    for part in (part for item in program.all_items for part in nests_and_calls(item)):
        for body in part.bodies if isinstance(part, ControlItem) else ():
            yield from _programs(body.lowered, body.suffix + suffix)


def _nests_and_calls(program: LoopProgram | ParallelProgram) -> Iterator[Nest | Call]:
    """The nests and calls of a program, and of the bodies of its loops and switches."""
    items = (item for _, own in _programs(program) for item in own.all_items)
    return (part for item in items for part in nests_and_calls(item))


def _with_numbered_bodies(lines: Lines, program: LoopProgram | ParallelProgram) -> Lines:
    """The lines with bodies numbered as they come: ``x0_b6_b3`` of the second one is ``x0_b2``."""
    numbers = {suffix: f"_b{k}" for k, (suffix, _) in enumerate(_programs(program))}
    if len(numbers) == 1:
        return lines
    starts = {line.target: line.target.find("_b") for line in lines}
    names = {name: name[:k] + numbers[name[k:]] for name, k in starts.items() if k > 0}
    return [line.renamed(names) for line in lines]


def _has_trips(program: LoopProgram | ParallelProgram) -> bool:
    """Whether there are loops over trips."""
    return any(isinstance(part, SequentialLoop) for part in _nests_and_calls(program))


def _has_angles(program: LoopProgram | ParallelProgram) -> bool:
    """Whether there are sines and the like, whose argument may be out of range."""
    nests = [part for part in _nests_and_calls(program) if isinstance(part, Nest)]
    return any(has_angle(statement) for nest in nests for statement in nest.all_statements)


def _locals(trips: bool, angles: bool) -> list[TextLine]:  # noqa: FBT001 - both facts
    """When the kernel began, for loops over trips; the flag that an argument was out of range."""
    lines = [let(STARTED, "rt.ticks()")] if trips else []
    return [*lines, let("out_of_range", "False")] if angles else lines


def _results(program: LoopProgram | ParallelProgram) -> list[TextLine]:
    """The stores of results that are locals."""
    return [store(f"{out.name}[0]", out.scalar) for out in program.outputs if out.scalar]


def _return(*, angles: bool) -> TextLine:
    return leave(f"{OUT_OF_RANGE} if out_of_range else 0" if angles else 0)


def _kernel(
    graph: KernelGraph, lines: list[TextLine], parameters: list[str], *, timed: bool
) -> list[TextLine]:
    """The kernel's function from these lines; `parameters` follow the parameters of the graph."""
    every = ", ".join([*_parameters(graph, timed=timed), *parameters])
    prologue = _prologue(graph, _names(lines))
    return [TextLine(f"def kernel({every}):"), *deeper((*prologue, *lines))]


def _regions(item: Item | Conditional, symbols: SymbolTable, depth: int = 0) -> Iterator[Region]:
    """The lines of an item; a tile loop is a region for its head, and one for each item inside."""
    checkpoint()
    if isinstance(item, TileLoop):
        yield Region(tuple(tile_head(item)), depth, is_head=True)
        for inner in item.items:
            yield from _regions(inner, symbols, depth + 1)
    else:
        yield Region(tuple(emit_item(item, symbols)), depth)


def _arrays(graph: KernelGraph) -> list[tuple[str, str]]:
    """Names and dtypes of the arrays that come from outside: inputs, constants, outputs."""
    inputs = [graph.ops[i] for i in graph.inputs]
    out = [(f"x{k}", op.dtype) for k, op in enumerate(inputs) if op.dims]
    constants = {p.data[0]: p.dtype for p in graph.all_ops if p.kind is Kind.ARRAY}
    out += [(f"k{k}", constants[k]) for k in range(graph.arrays)]
    return out + [(f"out{k}", graph.ops[o].dtype) for k, o in enumerate(graph.outputs)]


def _truths(program: LoopProgram | ParallelProgram, graph: KernelGraph) -> frozenset[str]:
    """The names of memory that holds truth values."""
    memory = [*_arrays(graph), *((t.name, t.dtype) for t in program.temporaries)]
    return frozenset(name for name, dtype in memory if dtype == "b1")


def _parameters(graph: KernelGraph, *, timed: bool) -> list[str]:
    """Inputs, time stamps if it is `timed`, constants and outputs, then the tables of numbers."""
    inputs = [graph.ops[i] for i in graph.inputs]
    memory = [(name, _pointer(dtype)) for name, dtype in _arrays(graph)]
    stamps = [(STAMPS, _pointer("i8"))] if timed else []
    types = dict([*((f"x{k}", op.dtype) for k, op in enumerate(inputs)), *stamps, *memory])
    out = [f'{name}: "{type_} data[{k}]"' for k, (name, type_) in enumerate(types.items())]
    return [*out, 'strides: "i8* strides"', 'ints: "i8* ints"', 'floats: "f8* floats"']


def _buffer_parameters(buffers: tuple[WorkspaceBuffer, ...], begin: int) -> list[str]:
    """The buffers of the workspace, which lie where the integer table says from `begin` on."""
    return [f'r{k}: "{_pointer(b.dtype)} work[{begin + k}]"' for k, b in enumerate(buffers)]


def _pointer(dtype: str) -> str:
    """The type of memory with entries of a dtype; a truth value is a byte there."""
    return f"{'u1' if dtype == 'b1' else dtype}*"


def _prologue(graph: KernelGraph, used: set[str]) -> list[TextLine]:
    """Assignments of the strides, sizes and numbers among the names that are used."""
    lines: list[TextLine] = []
    first = 0
    for k, i in enumerate(graph.inputs):
        op = graph.ops[i]
        axes = range(len(op.dims))
        lines += [load(f"x{k}_{a}", f"strides[{first + a}]") for a in axes if f"x{k}_{a}" in used]
        first += len(axes) if op.data[1] == "A" else 0
    literals = dict(graph.literals)
    sizes = {f"n{k}": literals.get(f"n{k}", f"ints[{k}]") for k in range(graph.sizes)}
    lines += [let(name, str(value)) for name, value in sizes.items() if name in used]
    for op in graph.all_ops:
        if op.kind is Kind.VALUE and op.text in used:
            letter, number = table_entry(op.text) or ("", 0)
            entry = f"ints[{graph.sizes + number}]" if letter == "m" else f"floats[{number}]"
            plain = op.dtype in ("i8", "f8")
            lines.append(let(op.text, entry if plain else f"{NUMPY[op.dtype]}({entry})"))
            used.discard(op.text)
    integers = [k for k in range(graph.ints) if f"m{k}" in used]
    return lines + [load(f"m{k}", f"ints[{graph.sizes + k}]") for k in integers]

"""The text of a kernel that several threads run: parts of loops, barriers, reductions.

All workers run the same text (SPMD). A parallel loop is split into parts, which workers take from a
shared counter; `first_part` is the number of a loop's first part in the whole kernel. The number of
parts depends on the sizes alone, and partial reductions are combined in the order of the parts: a
result is the same for any number of threads.

`runtime/worker_code.py` names the papers; measurements: docs/decisions/parallel-loops.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..ir.index_expressions import size
from ..ir.loops import NUMPY, Nest, Temporary
from ..ir.operation_costs import formula_facts
from ..ir.parallel import (
    THREADS,
    ParallelLoop,
    PrivateReduction,
    SerialRegion,
    name_of_private_copy,
)
from ..kernel_source import WorkspaceBuffer
from ..runtime.status_errors import ABANDONED
from ..runtime.worker_code import WORKER
from .lines import LineKind, Lines, TextLine, deeper, leave, let, load, loop_head, store
from .loop_nest import emit_nest
from .program_items import emit_item
from .symbol_table import SymbolTable, call_text


@dataclass(frozen=True)
class ParallelText:
    """What the lines of a parallel kernel refer to: which buffer each temporary lies in, and
    `barrier`, the lines in which a worker waits until all parts before `first_part` are done.
    """

    buffers: Mapping[str, int]
    barrier: tuple[TextLine, ...]
    symbols: SymbolTable

    def copy(self, name: str, number: str) -> str:
        """Position of a copy in a buffer that has one for each thread or part."""
        return f"{number} * copy_size{self.buffers[name]}"

    def memory(self, temporary: Temporary) -> TextLine:
        """The line that names the memory of a temporary; a worker knows only its own copy."""
        name, buffer = temporary.name, f"r{self.buffers[temporary.name]}"
        if temporary.copies == THREADS:
            return let(name, f"rt.offset({buffer}, {self.copy(name, 'thread')})")
        return let(name, buffer)


def parallel_text(buffers: Mapping[str, int], outputs: int, symbols: SymbolTable) -> ParallelText:
    """The barrier is given all memory that is written, so that LLVM reads that again after it."""
    count = 1 + max(buffers.values(), default=-1)
    written = [f"out{k}" for k in range(outputs)] + [f"r{k}" for k in range(count)]
    call = call_text("barrier", "worker", "first_part", *written)
    barrier = (TextLine(f"if {call} != 0:"), *deeper([leave(ABANDONED)]))
    return ParallelText(buffers, barrier, symbols)


def worker_prologue(buffers: tuple[WorkspaceBuffer, ...], first: int) -> list[TextLine]:
    """Which worker this is, and how many parts there are: entry `first` of the integer table.

    The sizes of single copies of the buffers follow it there.
    """
    fields = {"thread": "NUMBER", "next_part": "NEXT_PART", "barrier": "BARRIER"}
    own_words = [load(name, f"worker[{WORKER[field]}]") for name, field in fields.items()]
    sizes = [
        load(f"copy_size{k}", f"ints[{first + 1 + k}]") for k, b in enumerate(buffers) if b.copies
    ]
    return [*own_words, load("parts", f"ints[{first}]"), *sizes, let("first_part", "0")]


def emit_parallel(item: Nest | ParallelLoop | SerialRegion, text: ParallelText) -> list[TextLine]:
    """The lines of an item of a parallel program."""
    if isinstance(item, Nest):
        return emit_nest(item, text.symbols)
    if isinstance(item, ParallelLoop):
        return _emit_loop(item, emit_item(item.item, text.symbols, part=True), text)
    return _emit_serial(item, text)


def _emit_serial(item: SerialRegion, text: ParallelText) -> list[TextLine]:
    """Lines for one worker; the others read the locals that they need from memory."""
    lines = [line for inner in item.items for line in emit_item(inner, text.symbols)]
    stored = (store(f"{slot}[0]", name) for name, slot in item.locals)
    loaded = (load(name, text.symbols.entry(slot, "0")) for name, slot in item.locals)
    return [*_once([*lines, *stored], text), *loaded]


def _once(lines: Iterable[TextLine], text: ParallelText) -> list[TextLine]:
    """Lines for the first worker that comes: a loop of one part."""
    return [
        TextLine(f"if {_next('first_part + 1', 0)} == 0:"),
        *deeper((*lines, TextLine(_next("first_part + 1", 1)))),
        let("first_part", "first_part + 1"),
        *text.barrier,
    ]


def _next(end: str, done: int) -> str:
    """The next part, counted from the first one of this loop; `done` parts were finished."""
    return f"{call_text('next_part', 'worker', end, str(done))} - first_part"


def _emit_loop(item: ParallelLoop, inside: Lines, text: ParallelText) -> list[TextLine]:
    """The parts of a loop, then what their private results come to."""
    totals = item.totals
    continues = [t for t in totals if t.continues]
    one_part = [
        *(line for _, private in item.copies for line in _zeroed(private, text)),
        *(let(t.name, t.neutral) for t in totals if not t.continues),
        *(let(t.name, f"before_{t.slot} if part == 0 else {t.neutral}") for t in continues),
        *inside,
        *(store(f"{t.slot}[{text.copy(t.slot, 'part')}]", t.name) for t in totals),
    ]
    return [
        *(let(f"before_{t.slot}", t.name) for t in continues),
        *_each_part(one_part, text),
        *(line for t in totals for line in _reduced(t, text)),
        *_final(item, text),
        *_added(item, text),
    ]


def _each_part(one_part: Iterable[TextLine], text: ParallelText) -> list[TextLine]:
    """A loop over the parts that this worker takes, and a barrier."""
    return [
        let("part", _next("first_part + parts", 0)),
        TextLine("while part < parts:", LineKind.WHILE),
        *deeper((*one_part, let("part", _next("first_part + parts", 1)))),
        let("first_part", "first_part + parts"),
        *text.barrier,
    ]


def _zeroed(private: Temporary, text: ParallelText) -> list[TextLine]:
    """A part's own copy of memory, filled with zeros."""
    copy = name_of_private_copy(private)
    return [
        let(copy, f"rt.offset({private.name}, {text.copy(private.name, 'part')})"),
        loop_head("entry", size(private.dims)),
        *deeper([store(f"{copy}[entry]", f"{NUMPY[private.dtype]}(0)")]),
    ]


def _reduced(total: PrivateReduction, text: ParallelText) -> list[TextLine]:
    """A reduction over the results of all parts, in their order."""
    entry = text.symbols.operand(total.slot, text.copy(total.slot, "other"))
    combined = total.combine.format(total.name, entry)
    functions = formula_facts(total.combine).elementary
    return [
        let(total.name, total.neutral),
        loop_head("other", "parts"),
        *deeper((TextLine("rt.keep_scalar()"), let(total.name, combined, functions))),
    ]


def _final(item: ParallelLoop, text: ParallelText) -> list[TextLine]:
    """Lines for values computed from reductions: all workers compute them, one stores them."""
    values = tuple(s for s in item.final if s.access is None)
    stores = tuple(s for s in item.final if s.access is not None)
    computed = emit_nest(Nest((), values), text.symbols) if values else []
    return [*computed, *(_once(emit_nest(Nest((), stores), text.symbols), text) if stores else ())]


def _added(item: ParallelLoop, text: ParallelText) -> list[TextLine]:
    """The private copies of all parts added to memory: a parallel loop over its entries.

    It is kept scalar, as vectorising it would take LLVM long, for little work.
    """
    if not item.copies:
        return []
    one_part: list[TextLine] = []
    ends = ("part", "part + 1")
    for whole, private in item.copies:
        count, entry, total = size(whole.dims), f"{whole.name}[entry]", f"sum_{private.name}"
        other = f"{private.name}[{text.copy(private.name, 'other')} + entry]"
        bounds = ", ".join(f"rt.part_begin({count}, {end}, parts)" for end in ends)
        one_part += [
            loop_head("entry", bounds),
            *deeper((load(total, entry), loop_head("other", "parts"))),
            *deeper((TextLine("rt.keep_scalar()"), let(total, f"rt.add({total}, {other})")), 2),
            *deeper([store(entry, total)]),
        ]
    return _each_part(one_part, text)

"""Text of what several threads do together: parts taken from a counter, and meetings.

How many parts there are follows from the sizes, and what is added up for each part is added in
their order: a result is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..ir.indexing import size
from ..ir.loops import NUMPY, Call, Conditional, Nest, Temporary, TileLoop, VersionedLoop
from ..ir.parallel import THREADS, ParallelLoop, PrivateReduction, SerialRegion
from ..kernel_source import WorkspaceBuffer
from ..passes.parallel.parallelise import own
from ..runtime.worker_code import MEMBER, NUMBERS
from .loop_nest import emit_nest
from .row_tiles import emit_blocks, emit_runs

INDENT = "    "
Item = Nest | Call | TileLoop | VersionedLoop | Conditional | ParallelLoop | SerialRegion
TABLES = 2  # of addresses: for one thread, which may use BLAS as it is, and for each of several


class Called(Protocol):
    """What writes the call of a routine."""

    def __call__(self, item: Call, *, part: bool) -> list[str]: ...


@dataclass(frozen=True)
class Crew:
    """What the text of a kernel for several threads has to name: how to wait, and the rooms."""

    wait: tuple[str, ...]
    buffers: Mapping[str, int]

    def place(self, name: str, part: str) -> str:
        """Where a copy begins among the others."""
        return f"{part} * width{self.buffers[name]}"


def crew_of(where: Mapping[str, int], buffers: tuple[WorkspaceBuffer, ...], outputs: int) -> Crew:
    """Who waits names all memory that is written to, or LLVM would keep what it has read."""
    written = [f"out{k}" for k in range(outputs)] + [f"r{k}" for k in range(len(buffers))]
    call = f"rt.call(wait, {', '.join(['crew', 'first', *written])})"
    return Crew((f"if {call} != 0:", f"{INDENT}return {NUMBERS['GONE']}"), where)


def begin_crew(buffers: tuple[WorkspaceBuffer, ...], first: int) -> list[str]:
    """Who this is, and how many parts; `first` is where the table goes on after the rooms."""
    widths = [f"width{k} = ints[{first + 1 + k}]" for k, room in enumerate(buffers) if room.copies]
    places = {"me": "ME", "take": "PART", "wait": "WAIT"}
    own = [f"{name} = crew[{MEMBER[place]}]" for name, place in places.items()]
    return [*own, f"parts = ints[{first}]", *widths, "first = 0"]


def named(temporary: Temporary, crew: Crew) -> str:
    """The memory of a temporary; a thread knows no other's copy."""
    room = f"r{crew.buffers[temporary.name]}"
    if temporary.copies == THREADS:
        return f"{temporary.name} = rt.at({room}, {crew.place(temporary.name, 'me')})"
    return f"{temporary.name} = {room}"


def emit_item(item: Item, crew: Crew, call: Called, *, part: bool = False) -> list[str]:
    """The lines of an item; `part` tells that it is one part of a loop, `call` writes calls."""
    if isinstance(item, Nest):
        return emit_nest(item)
    if isinstance(item, Call):
        return call(item, part=part)
    if isinstance(item, TileLoop):
        inside = [x for inner in item.items for x in emit_item(inner, crew, call, part=part)]
        return [*emit_blocks(item, part=part), *(INDENT + line for line in inside)]
    if isinstance(item, VersionedLoop):
        inside = [x for one in item.fallback.items for x in emit_item(one, crew, call, part=part)]
        return emit_runs(item, inside, part=part)
    if isinstance(item, Conditional):
        zero, other = ((INDENT + x for x in emit_nest(nest)) for nest in (item.zero, item.other))
        return [f"if {item.local} == 0:", *zero, "else:", *other]
    if isinstance(item, ParallelLoop):
        return emit_shared(item, emit_item(item.item, crew, call, part=True), crew)
    inside = [x for one in item.items for x in emit_item(one, crew, call)]
    return emit_alone(item, inside, crew)


def emit_alone(item: SerialRegion, inside: Iterable[str], crew: Crew) -> list[str]:
    """Lines for one thread; what locals it makes, the others find in memory."""
    stored = (f"{slot}[0] = {name}" for name, slot in item.locals)
    return [
        *_once([*inside, *stored], crew),
        *(f"{name} = {slot}[0]" for name, slot in item.locals),
    ]


def _once(lines: Iterable[str], crew: Crew) -> list[str]:
    """Lines for whoever is there first."""
    return [
        f"if {_taken('first + 1', 0)} == 0:",
        *(INDENT + line for line in lines),
        f"{INDENT}{_taken('first + 1', 1)}",
        "first = first + 1",
        *crew.wait,
    ]


def _taken(end: str, done: int) -> str:
    """The part that is taken next."""
    return f"rt.call(take, crew, {end}, {done}) - first"


def emit_shared(item: ParallelLoop, inside: Iterable[str], crew: Crew) -> list[str]:
    """Lines of one part after the other, then of what they come to."""
    totals = item.totals
    continues = [t for t in totals if t.continues]
    one = [
        *(line for _, some in item.copies for line in _cleared(some, crew)),
        *(f"{t.name} = {t.neutral}" for t in totals if not t.continues),
        *(f"{t.name} = before_{t.slot} if part == 0 else {t.neutral}" for t in continues),
        *inside,
        *(f"{t.slot}[{crew.place(t.slot, 'part')}] = {t.name}" for t in totals),
    ]
    return [
        *(f"before_{t.slot} = {t.name}" for t in continues),
        *_parts(one, crew),
        *(line for t in totals for line in _totalled(t, crew)),
        *_final(item, crew),
        *_added(item, crew),
    ]


def _parts(one: Iterable[str], crew: Crew) -> list[str]:
    """A loop over the parts that this thread takes, and a wait for the others."""
    return [
        f"part = {_taken('first + parts', 0)}",
        "while part < parts:",
        *(INDENT + line for line in one),
        f"{INDENT}part = {_taken('first + parts', 1)}",
        "first = first + parts",
        *crew.wait,
    ]


def _cleared(some: Temporary, crew: Crew) -> list[str]:
    """A part's own copy of memory, with zeros."""
    return [
        f"{own(some)} = rt.at({some.name}, {crew.place(some.name, 'part')})",
        f"for entry in range({size(some.dims)}):",
        f"{INDENT}{own(some)}[entry] = {NUMPY[some.dtype]}(0)",
    ]


def _totalled(total: PrivateReduction, crew: Crew) -> list[str]:
    entry = f"{total.slot}[{crew.place(total.slot, 'turn')}]"
    return [
        f"{total.name} = {total.neutral}",
        "for turn in range(parts):",
        f"{INDENT}rt.unvectorised()",
        f"{INDENT}{total.name} = {total.combine.format(total.name, entry)}",
    ]


def _final(item: ParallelLoop, crew: Crew) -> list[str]:
    """Where totals go: all threads know them, one writes them."""
    lines = tuple(s for s in item.final if s.access is None)
    writes = tuple(s for s in item.final if s.access is not None)
    known = emit_nest(Nest((), lines)) if lines else []
    return [*known, *(_once(emit_nest(Nest((), writes)), crew) if writes else ())]


def _added(item: ParallelLoop, crew: Crew) -> list[str]:
    """The copies of all parts added to memory, each thread some of the entries.

    Vectors would be dear to compile, for little that there is to do.
    """
    if not item.copies:
        return []
    one: list[str] = []
    ends = ("part", "part + 1")
    for whole, some in item.copies:
        count, entry, total = size(whole.dims), f"{whole.name}[entry]", f"sum_{some.name}"
        other = f"{some.name}[{crew.place(some.name, 'turn')} + entry]"
        one += [
            f"for entry in range({', '.join(f'rt.share({count}, {p}, parts)' for p in ends)}):",
            f"{INDENT}{total} = {entry}",
            f"{INDENT}for turn in range(parts):",
            f"{INDENT * 2}rt.unvectorised()",
            f"{INDENT * 2}{total} = rt.add({total}, {other})",
            f"{INDENT}{entry} = {total}",
        ]
    return _parts(one, crew)

"""The passes of the kernel compiler, in order: from the graph of a tape to its loop program.

A pass takes the program in one form and leaves it in the same form or the next lower one:

- *graph*: operations on whole arrays in SSA form (`ir/kernel_graph.py`);
- *plan*: the graph, and which of its values are stored in memory (`materialise/`);
- *schedule*: effects, in order, grouped by the loop nest they share (`fuse/`);
- *loops*: loop nests of scalar statements, and calls of routines (`ir/loops.py`);
- *threads*: loops, of which some are split among threads (`ir/parallel.py`).

The steps before the graph, on tapes, are the lists of `transforms/pipeline.py`. Passes that only
one target needs come last: `FOR_CPU`, `FOR_CUDA`.

With ``FDIFF_VERIFY`` set, as in all tests, every form is verified after the pass that left it.
``FDIFF_DUMP=passes`` prints it to stderr after each pass, ``FDIFF_DUMP=fuse,lower`` after the
passes named; a kernel found on disk runs through no pass (``FDIFF_CACHE_DIR=off``). Many small
passes, each between two stated forms, are the idea of D. Sarkar, O. Waddell and R. K. Dybvig, A
nanopass infrastructure for compiler education, ICFP 2004.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import cast

from ...errors import InputError, failure
from ...named_tuples import NamedTuple
from ...process.environment import DUMP, TAPES, dumped, verifying
from ...process.forking import no_fork
from ...process.observed_spans import COMPILE, span
from ...user_lines import printable_lines
from ..ir.kernel_graph import KernelGraph
from ..ir.loops import LoopProgram
from ..ir.parallel import ParallelProgram
from .fuse.dead_stores import eliminate_dead_stores
from .fuse.fusion_rounds import fuse, fuse_for_gpu
from .listing import ProgramForm, listing
from .lower.loop_program import lower
from .lower.sequential_loops import lower_bodies
from .materialise.graph_analysis import GraphAnalysis
from .materialise.materialisation import Plan, make_plan
from .normalise.reduce_first import reduce_first
from .normalise.routine_selection import select_routines
from .normalise.rows_innermost import rows_innermost
from .normalise.scalarise import scalarise
from .normalise.store_reloading import reload_stores
from .normalise.transpose_sinking import sink_transposes
from .parallel.parallelise import parallelise
from .tile.boundary_splitting import split_boundaries
from .tile.loop_distribution import distribute_loops
from .tile.loop_fission import split_long_loops
from .tile.row_tiling import tile_rows
from .tile.staging import stage_gathers


class Pass(NamedTuple):
    """A step of the compiler, with its preconditions and postconditions."""

    name: str
    form: str  # of the program that it leaves, as listed above
    function: Callable[..., ProgramForm | None]  # None where there is nothing to share
    needs: str
    leaves: str
    for_cuda: Callable[..., ProgramForm] | None = None  # the function for GPUs, if another


def materialise(graph: KernelGraph) -> Plan:
    """Decide which values of a graph are stored in memory."""
    return make_plan(GraphAnalysis(graph))


PORTABLE: tuple[Pass, ...] = (
    Pass(
        "reload_stores", "graph", reload_stores,
        needs="a graph as it comes from a tape, operations in canonical order",
        leaves="what was stored into an array is read back from it, and not computed again",
    ),
    Pass(
        "reduce_first", "graph", reduce_first,
        needs="reductions and products as separate operations",
        leaves="axes that one factor of a product lacks are summed before the product is taken",
    ),
    Pass(
        "scalarise", "graph", scalarise,
        needs="small sizes written into the graph as numbers",
        leaves="the entries along axes of a few components are operations of their own",
    ),
    Pass(
        "sink_transposes", "graph", sink_transposes,
        needs="transposes as separate operations",
        leaves="elementwise values are computed in the order in which they are read",
    ),
    Pass(
        "rows_innermost", "graph", rows_innermost,
        needs="the size of the axis of many short rows, if there is one, named in the graph",
        leaves="that axis is the last of each array, so that the inner loops are long",
    ),
    Pass(
        "select_routines", "graph", select_routines,
        needs="the final layout of all arrays",
        leaves="large matrix products are calls of a routine; what it cannot read is transposed",
    ),
    Pass(
        "materialise", "plan", materialise,
        needs="a graph in which no later pass changes an operation",
        leaves="each value is stored, or cheap enough to be computed again by each of its readers",
    ),
    Pass(
        "fuse", "schedule", fuse,
        needs="a plan of what is stored, which is revised for values that several nests compute",
        leaves="effects over one domain share a nest; updates are in place where nothing reads "
        "the old value later; adjoints of stencils gather",
        for_cuda=fuse_for_gpu,
    ),
    Pass(
        "lower", "loops", lower,
        needs="effects in an order that respects their dependences",
        leaves="scalar statements, each value computed once in its nest; every buffer declared",
    ),
    Pass(
        "eliminate_dead_stores", "loops", eliminate_dead_stores,
        needs="nests and calls only",
        leaves="no temporary is written that nothing reads",
    ),
)  # fmt: skip
TILE_ROWS = Pass(
    "tile_rows", "loops", tile_rows,
    needs="nests and calls only",
    leaves="nests over the same rows run tile by tile; what only they share fits the cache",
)  # fmt: skip
FOR_CPU: tuple[Pass, ...] = (
    Pass(
        "lower_bodies", "loops", lambda program: lower_bodies(program, lower_graph),
        needs="loops over trips, whose bodies are graphs",
        leaves="these bodies are loop programs, which the workspace has memory for",
    ),
    TILE_ROWS,
    Pass(
        "stage_gathers", "loops", stage_gathers,
        needs="nests of one loop that access entries found at run time",
        leaves="gathers, arithmetic and scatters in separate loops, so that arithmetic vectorises",
    ),
    Pass(
        "split_long_loops", "loops", split_long_loops,
        needs="the dtypes of all values",
        leaves="no loop body has much more than 3,000 statements; long bodies are cut at the same "
        "statements, so that equal pieces are outlined once",
    ),
)  # fmt: skip
FOR_CUDA: tuple[Pass, ...] = (
    TILE_ROWS,  # blocks of threads take turns on tiles of rows
    Pass(
        "distribute_loops", "loops", distribute_loops,
        needs="nests with all of their statements",
        leaves="no nest uses more arrays and running sums than a thread has registers for",
    ),
    Pass(
        "split_boundaries", "loops", split_boundaries,
        needs="nests around a box that is left out",
        leaves="every nest runs over a box",
    ),
)  # fmt: skip
# Loop collapsing (`collapse`) is no pass: it is applied to each nest where the nest is emitted or
# split among threads, because tiling and staging need the loops that it merges.
PARALLELISE = Pass(
    "parallelise", "threads", parallelise,
    needs="the numbers of the items that are worth sharing, which depend on the sizes",
    leaves="each such loop is split among threads; what its parts add up is private to each part",
)  # fmt: skip
PASSES = tuple(dict.fromkeys((*PORTABLE, *FOR_CPU, *FOR_CUDA, PARALLELISE)))
NAMES = tuple(p.name for p in PASSES)
LAST = FOR_CPU[-1].name


def run(graph: KernelGraph, until: str = LAST) -> ProgramForm:
    """Run the passes up to `until`: in the CPU's list if it is there, else in CUDA's."""
    if until not in NAMES:
        raise ValueError(f"no pass is called {until!r}")
    cpu = any(p.name == until for p in (*PORTABLE, *FOR_CPU))
    steps = forms(graph, FOR_CPU if cpu else FOR_CUDA)
    return next(program for step, _, program in steps if step.name == until)


def forms(
    graph: KernelGraph, target: tuple[Pass, ...] = FOR_CPU
) -> Iterator[tuple[Pass, ProgramForm, ProgramForm]]:
    """Each pass on the way to a target, with the program before and after it."""
    program: ProgramForm = graph
    _verify(program, graph, "as it comes from the tape")
    for step in (*PORTABLE, *target):
        function = step.function if target is FOR_CPU else step.for_cuda or step.function
        with span(step.name, COMPILE):
            before, program = program, cast("ProgramForm", function(program))
        _inspect(step, before, program, graph)
        yield step, before, program


# Loop programs of the bodies of the graph being lowered, by id of the body.
_programs: ContextVar[dict[int, tuple[KernelGraph, LoopProgram]] | None] = ContextVar(
    "_programs", default=None
)


def lower_graph(graph: KernelGraph) -> LoopProgram:
    """The loop program of a graph, after all passes, for one thread of a CPU.

    Bodies that have one graph have one program.
    """
    outer = _programs.get()
    programs = {} if outer is None else outer
    if id(graph) not in programs:
        try:
            _programs.set(programs)
            programs[id(graph)] = graph, cast("LoopProgram", run(graph))
        finally:
            _programs.set(outer)
    return programs[id(graph)][1]


def lower_for_cuda(graph: KernelGraph, *, tiled: bool = True) -> LoopProgram:
    """The loop program of a graph for a GPU; `tiled` if nests over the same rows run in tiles."""
    target = FOR_CUDA if tiled else tuple(step for step in FOR_CUDA if step is not TILE_ROWS)
    *_, (_, _, program) = forms(graph, target)
    return cast("LoopProgram", program)


def for_threads(
    program: LoopProgram, graph: KernelGraph, heavy: frozenset[int]
) -> ParallelProgram | None:
    """The program with its `heavy` items shared by threads; None if none of them can be."""
    with span(PARALLELISE.name, COMPILE):
        parallel = parallelise(program, heavy)
    if parallel is not None:
        _inspect(PARALLELISE, program, parallel, graph)
    return parallel


def text_after(graph: KernelGraph, name: str) -> str:
    """The program after a pass as text; after `parallelise`, with all loops shared that can be."""
    if name != PARALLELISE.name:
        return listing(run(graph, name))
    program = lower_graph(graph)
    return listing(for_threads(program, graph, frozenset(range(len(program.items)))) or program)


def _inspect(step: Pass, before: ProgramForm, program: ProgramForm, graph: KernelGraph) -> None:
    """Verify and print the program after a pass, where the environment asks for it."""
    if step.name in _printed(dumped()):
        text = "(unchanged)\n" if program == before else listing(program)
        sys.stderr.write(f"--- {step.name}: {step.leaves}\n{printable_lines(text)}\n")
    if program is not before:
        _verify(program, graph, f"after the pass {step.name}")


@lru_cache(maxsize=8)
def _printed(words: frozenset[str]) -> frozenset[str]:
    """The passes after which the environment asks for a print."""
    if unknown := sorted(words - {"passes", TAPES, *NAMES}):
        fact = f"no pass of the kernel compiler is called {', '.join(map(repr, unknown))}."
        way = f"Set it to passes, for all, to {TAPES}, or to some of: {', '.join(NAMES)}."
        raise failure(InputError, DUMP, fact, way)
    return frozenset(NAMES) if "passes" in words else words


def _verify(program: ProgramForm, graph: KernelGraph, place: str) -> None:
    """Check the laws of the program, if the environment asks for it."""
    if not verifying():
        return
    with no_fork:
        from ..ir.verify import verify  # noqa: PLC0415 - for tests alone
        from ..ir.verify_graph import verify_graph  # noqa: PLC0415 - for tests alone
        from ..ir.verify_parallel import verify_parallel  # noqa: PLC0415 - for tests alone
        from .verify_schedule import verify_plan, verify_schedule  # noqa: PLC0415 - for tests alone
    if isinstance(program, LoopProgram):
        verify(program, graph, place)
    elif isinstance(program, ParallelProgram):
        verify_parallel(program, graph, place)
    elif isinstance(program, KernelGraph):
        verify_graph(program, place)
    elif isinstance(program, Plan):
        verify_plan(program, place)
    else:
        verify_schedule(program, place)

"""Compiled backward passes: one tape pulls back a graph that repeats.

The structure of a graph (its recipes, its edges, and which values are saved where) is a key. For
each key the rules of all nodes are spliced into one tape over the saved values, and an ordinary
`Runner` runs that tape: the second iteration of a training loop neither traces nor compiles.

A graph is the key of a compiled program: an idea of A. Suhan et al., LazyTensor: combining eager
execution with domain-specific compilers, arXiv:2102.13267, 2021; docs/decisions/recorded-arrays.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...bounded_cache import keep_recent
from ...dispatch.tiers.tiered_execution import Runner, runner
from ...functional.operators.dense_modes import BUDGET
from ...functional.operators.seeded_blocks import seed_bytes
from ...process import observed_spans
from ...process.observed_spans import TRANSFORM, span
from ...transforms.pipeline import RUN, VALUE, VMAP, derive
from ...transforms.reverse import CotangentSums
from ...transforms.simplify import SimplifyingTrace
from ..calls.profiled_operations import observed_pass
from .generated_backward import write_out
from .graph_structure import BackwardProgram, FragileNodes, GraphStructure, Root, structure
from .nodes import AccumulateGrad, Edge, GraphNode
from .saved_values import free

KEPT = 256  # programs remembered, the least recently used dropped first
UNUSED = 2  # programs made for one line and not used again, after which it gets none at once
SIGHTS = 16  # times that a graph is met there without a program
MOST_LINES = 1024  # remembered for that
OFTEN = 3  # uses after which the pass of a program is written out


# By structure a program, or how often the structure was met without one.
_programs: dict[tuple[object, ...], BackwardProgram | int] = {}
# By structure and number of rows, what runs a program for many cotangents at once.
_batched: dict[object, Runner] = {}
# By the line a pass begins at, the programs made for it since one was used again.
_unused: dict[object, int] = {}


def program_of_structure(
    graph: GraphStructure, roots: Sequence[Root], wanted: Sequence[Edge] | None
) -> BackwardProgram | None:
    """The program for a structure, made now if there is none.

    None if the graph is to be pulled back node by node: where graphs that began at this line did
    not come again, one has to be met a few times before a program is made for it.
    """
    program = _programs.get(graph.key, 0)
    if isinstance(program, int):
        keep_recent(_programs, graph.key, program + 1, KEPT)
        place = _line_of(roots)
        if _unused.get(place, 0) >= UNUSED and program < SIGHTS:
            return None
        if len(_unused) >= MOST_LINES:
            _unused.clear()
        _unused[place] = _unused.get(place, 0) + 1
        with span("building a backward pass", TRANSFORM):
            program = _Composition(graph, roots, wanted).program()
    else:
        _unused.pop(_line_of(roots), None)
    keep_recent(_programs, graph.key, program, KEPT)
    program.uses += 1
    alone = wanted is None and len(roots) == 1 and roots[0].seed is None
    if program.uses == OFTEN and alone and next(program.runner.tape.bodies(), None) is None:
        write_out(graph, program, roots[0].output_nr)
    return program


def _line_of(roots: Sequence[Root]) -> object:
    """The line that the graph ends at; it is compared by identity, and may be another's later."""
    line = roots[0].node.line
    return line and (id(line[0]), line[1])


def run(
    program: BackwardProgram, graph: GraphStructure, roots: Sequence[Root]
) -> list[np.ndarray | None]:
    """Cotangents that were asked for; None where there is none."""
    arrays = [np.asarray(r.seed.value) for r in roots if r.seed is not None]
    arrays += [v if v.__class__ is np.ndarray else np.asarray(v) for v in graph.values]
    if observed_spans.observer is None:
        results = program.runner(arrays)
    else:
        with observed_pass(graph.nodes):
            results = program.runner(arrays)
    return [results[k] if k >= 0 else None for k in program.outputs]


def run_batch(
    rows: Sequence[Sequence[Root]], wanted: Sequence[Edge], *, retain: bool
) -> list[np.ndarray | None] | None:
    """Cotangents for several passes that differ in their seeds alone, with a leading axis.

    As many run at once as `BUDGET` allows. None if the graph is to be pulled back node by node, row
    by row.
    """
    if observed_spans.observer is not None:  # who looks at passes sees each of them
        return None
    graph = structure(rows[0], wanted)
    program = None if graph is None else program_of_structure(graph, rows[0], wanted)
    if graph is None or program is None:
        return None
    seeds = [
        np.stack([roots[k].seed.value for roots in rows])
        for k, root in enumerate(rows[0])
        if root.seed is not None
    ]
    most = BUDGET // seed_bytes(program.runner.tape, slice(len(seeds)))
    parts = -(-len(rows) // max(most, 1))
    size = -(-len(rows) // parts)  # of every part, so that one tape serves: the last begins earlier
    key = graph.key, size
    wide = _batched.get(key)
    if wide is None:
        tape = program.runner.whole_tape()
        mapped = [k < len(seeds) for k in range(len(tape.inputs))]
        tape = derive((*VMAP, *VALUE, *RUN), tape, mapped=mapped, size=size)
        wide = keep_recent(_batched, key, runner(tape), KEPT)
    saved = [*map(np.asarray, graph.values)]
    results: list[np.ndarray] = []
    for begin in range(0, len(rows), size):
        first = min(begin, len(rows) - size)
        part = wide([*[seed[first : first + size] for seed in seeds], *saved])
        if parts == 1:
            results = [*part]
            break
        results = results or [np.empty((len(rows), *x.shape[1:]), x.dtype) for x in part]
        for whole, x in zip(results, part, strict=True):
            whole[first : first + size] = x
    if not retain:
        for k in program.ran:
            free(graph.nodes[k])
    return [results[k] if k >= 0 else None for k in program.outputs]


class _Composition:
    """One tape of the rules of all nodes, composed from the last node to the first."""

    def __init__(
        self, graph: GraphStructure, roots: Sequence[Root], wanted: Sequence[Edge] | None
    ) -> None:
        self.nodes, self.places, self.values = graph.nodes, graph.places, graph.values
        self.roots = roots
        self.wanted = wanted
        self.slots = graph.slots
        self.needed = self._needed()
        self.fragile = FragileNodes(self.nodes)

    def _needed(self) -> list[bool]:
        """Whether a node leads to something that is asked for."""
        if self.wanted is None:
            return [True] * len(self.nodes)
        needed = [False] * len(self.nodes)
        asked = {self.places[node] for node, _ in self.wanted if node in self.places}
        for k in sorted(range(len(self.nodes)), key=lambda k: self.nodes[k].number):
            below = [self.places[e[0]] for e in self.nodes[k].edges if e is not None]
            needed[k] = k in asked or any(needed[b] for b in below)
        return needed

    def program(self) -> BackwardProgram:
        """The program: its tape is simplified as it is entered."""
        with SimplifyingTrace("backward") as trace:
            sums = CotangentSums(trace)
            seeds = [
                trace.lift(np.ones(r.type.shape, r.type.dtype))
                if r.seed is None
                else trace.input(r.type).node
                for r in self.roots
            ]
            self.inputs = [trace.input(t).node for t in self._types()]
            for root, seed in zip(self.roots, seeds, strict=True):
                sums.accumulate((self.places[root.node], root.output_nr), seed, None, None)
            trace.builder.derivative = True
            ran = [k for k in self._order() if self._pull(k, sums)]
            asked = (
                [(k, 0) for k, n in enumerate(self.nodes) if n.__class__ is AccumulateGrad]
                if self.wanted is None
                else [(self.places.get(n, -1), nr) for n, nr in self.wanted]
            )
            there = [a for a in asked if a in sums.bars]
            outputs = tuple([there.index(a) if a in sums.bars else -1 for a in asked])
            tape = trace.builder.finish([sums.bars[a] for a in there])
        kinds = [node.__class__ for node in self.nodes]
        leaves = tuple([k for k, kind in enumerate(kinds) if kind is AccumulateGrad])
        tape = derive((*VALUE, *RUN), tape)
        return BackwardProgram(runner(tape), tuple(ran), outputs, leaves)

    def _order(self) -> list[int]:
        """Positions of the nodes to be pulled back, later ones first."""
        some = [k for k, node in enumerate(self.nodes) if self._leads_on(node)]
        return sorted(some, key=lambda k: -self.nodes[k].number)

    def _leads_on(self, node: GraphNode) -> bool:
        """Whether cotangents are needed behind a node, or it is the last one that is asked for."""
        return any(e is not None and self.needed[self.places[e[0]]] for e in node.edges)

    def _types(self) -> list[ArrayType]:
        """Types of the saved values."""
        types: dict[int, ArrayType] = {}
        for node in self.nodes:
            if node.__class__ is GraphNode:
                recipe = node.recipe
                tape_types = [*recipe.tape.input_types, *recipe.tape.output_types]
                for place, value in zip(recipe.saved, node.saved or (), strict=True):
                    types[self.slots[id(value)]] = tape_types[place]
        return [types[k] for k in range(len(self.values))]

    def _pull(self, k: int, sums: CotangentSums) -> bool:
        """Enter the rule of one node; False where no cotangent reaches it."""
        node = self.nodes[k]
        recipe = node.recipe
        bars = [sums.bars.get((k, nr)) for nr in range(len(recipe.outputs))]
        masks = [sums.masks.get((k, nr)) for nr in range(len(recipe.outputs))]
        if not any(b is not None for b in bars):
            return False
        if self.fragile.behind(node):
            whole = [sums.whole_mask(type_, True) for type_ in recipe.tape.output_types]
            masks = [w if m is None else m for w, m in zip(whole, masks, strict=True)]
        seeds = tuple(
            [None if b is None else m is not None for b, m in zip(bars, masks, strict=True)]
        )
        pull = recipe.pull(seeds)
        saved = dict(zip(recipe.saved, node.saved or (), strict=True))
        ids = [self.inputs[self.slots[id(saved[place])]] for place in pull.saved]
        ids += [b for b in bars if b is not None]
        ids += [m for b, m in zip(bars, masks, strict=True) if b is not None and m is not None]
        steps, outputs, _, _ = pull.template
        sums.builder.splice(steps, ids, node.line)
        for operand, place, masked in pull.targets:
            edge = node.edges[operand]
            assert edge is not None, "a cotangent that nothing takes"
            at = self.places[edge[0]], edge[1]
            if self.needed[at[0]]:
                mask = None if masked is None else ids[outputs[masked]]
                sums.accumulate(at, ids[outputs[place]], mask, node.line)
        return True

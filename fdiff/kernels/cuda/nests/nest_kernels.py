"""Kernels of loop nests: how threads share a nest, decided by its sizes (`Tuning`).

Nests of few iterations follow one another in a kernel of one block, with barriers in between. A
large nest has kernels of its own, one of these ways:

- *entries*: each thread has entries, and computes all terms of each;
- *rows*: a block or a warp has entries, and its threads share the terms of each;
- *partial*: everything is reduced to one number: each block leaves a partial result;
- *chunks*: few entries of many terms: the terms are cut into chunks, each a partial result;
- *scans*: a block has rows of running values, and its threads share a row.

Partial results by block, and a second stage that adds them up, follow M. Harris, "Optimizing
parallel reduction in CUDA", NVIDIA 2007, page 5. The choice is our own, measured on an H100.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....named_tuples import NamedTuple
from ...ir.loops import Nest
from ...passes.tile.loop_collapse import collapse
from ..cuda_program import Numbers, SortKeys, evaluate
from ..devices.launch_sizes import Tuning
from ..kernel_text import KernelTexts, length
from .block_scans import Scan, scans_of
from .nest_mapping import MappedNest, map_nest
from .nest_text import BARRIER, BLOCK_TEAM, GRID, NestText, Team, indented, iterations
from .partial_results import by_blocks, chunked
from .scan_text import ScanText
from .sorted_scatters import SORT, sorted_scatters


class NestWork(NamedTuple):
    """Iterations of a nest: of the parallel loops, of the loops that are reduced, and in all."""

    entries: int
    terms: int
    total: int


def work_of(mapped: MappedNest, numbers: Numbers) -> NestWork:
    """How much a nest has to do for these sizes."""
    first, end = mapped.parallel, mapped.parallel + mapped.reduced
    loops = ((0, first), (first, end), (0, len(mapped.nest.domain)))
    return NestWork(*(evaluate(iterations(mapped.nest, *some), numbers) for some in loops))


class NestKernels:
    """The kernels so far; `_lines` belong to a kernel of one block that is not finished.

    Unless `atomics`, nothing is added to memory in an order that differs from run to run.
    """

    def __init__(
        self,
        texts: KernelTexts,
        numbers: Numbers,
        tuning: Tuning,
        *,
        atomics: bool,
    ) -> None:
        self._texts = texts
        self._numbers = numbers
        self._tuning = tuning
        self._atomics = atomics
        self._lines: list[str] = []

    @property
    def _memory(self) -> dict[str, str]:
        return self._texts.dtypes

    def _evaluate(self, expression: str) -> int:
        return evaluate(expression, self._numbers)

    # --- kernels of one block -------------------------------------------------------------------

    def _phase(self, lines: Iterable[str]) -> None:
        """Lines for all threads of one block, after all that came before."""
        new, most = [*lines], self._tuning.kernel_lines
        before = length(self._lines)
        if before > most or (before and before + length(new) > 2 * most):
            self._flush()
        if self._lines:
            self._lines.append(BARRIER)
        self._lines += new

    def _flush(self) -> None:
        """Close the kernel of one block, if one is open."""
        if self._lines:
            self._texts.launch(self._lines, "1", self._tuning.threads)
        self._lines = []

    # --- nests ----------------------------------------------------------------------------------

    def _emit_nest(self, nest: Nest, *, split: bool = True) -> None:
        """A nest in the open kernel of one block, or in kernels of its own.

        One that reduces partial results is not `split` again.
        """
        head = [f"# {nest.comment}"]
        if not nest.domain:
            self._phase([*head, *self._scalars(nest)])
            return
        if not self._atomics and self._emit_sorted_scatters(nest):
            return
        mapped = self._mapped(nest)
        work = work_of(mapped, self._numbers)
        alone = not mapped.parallel and not (mapped.reduced and split)
        if scans := self._scans(mapped, work):
            self._emit_scans(ScanText(mapped, self._memory, scans), mapped, head, work)
        elif work.total <= self._tuning.light or alone:
            self._phase([*head, *self._in_block(mapped)])
        else:
            self._emit_grids(mapped, head, work, split=split)

    def _emit_grids(
        self, mapped: MappedNest, head: list[str], work: NestWork, *, split: bool
    ) -> None:
        """The kernels of a nest with much to do, for whole grids."""
        tuning = self._tuning
        few = work.entries < tuning.busy_threads  # a thread for each would leave a GPU idle
        if not mapped.reduced or (mapped.contiguous and not few):
            self._emit_entries(mapped, head)
        elif not mapped.parallel and split:
            self._emit_partial(mapped, head)
        elif (
            work.terms >= tuning.shared_terms
            and not mapped.contiguous  # the terms of a row are neighbours in memory
            and work.entries * 2 >= tuning.tiles
        ):
            self._emit_rows(mapped, head, work.terms)
        elif few and work.terms > tuning.shared_terms:
            if split:
                self._emit_chunks(mapped, work)
            else:
                self._emit_rows(mapped, head, work.terms)
        else:
            self._emit_entries(mapped, head)

    def _scans(self, mapped: MappedNest, work: NestWork) -> dict[str, Scan] | None:
        """The running values of a nest, if blocks are to take its rows; else None."""
        rows, total = work.entries, work.total
        busy = self._tuning.threads if total <= self._tuning.light else self._tuning.busy_threads
        enough = rows >= busy and (mapped.contiguous or total <= self._tuning.light)
        if enough or total < self._tuning.shared_terms * max(1, rows):
            return None
        if any(s.target in self._texts.locals for s in mapped.nest.all_statements):
            return None
        return scans_of(mapped, self._memory)

    def _emit_scans(
        self, text: ScanText, mapped: MappedNest, head: list[str], work: NestWork
    ) -> None:
        """Rows of running values in the open kernel of one block, or in a kernel of their own."""
        if work.total <= self._tuning.light or not mapped.parallel:
            self._phase([*head, *text.scanned(BLOCK_TEAM)])
            return
        self._flush()
        rows = iterations(mapped.nest, 0, mapped.parallel)
        blocks = f"max(1, min({self._tuning.entry_blocks}, {rows}))"
        self._texts.launch([*head, *text.scanned(GRID)], blocks, self._tuning.threads)

    def _emit_sorted_scatters(self, nest: Nest) -> bool:
        """Sorted scatters in place of a nest that would add in any order; whether there are any."""
        sorted_parts = sorted_scatters(nest, self._memory, self._texts)
        if sorted_parts is None:
            return False
        terms, scatters = sorted_parts
        self._emit_nest(terms)
        self._flush()
        threads = self._tuning.threads
        for scatter in scatters:
            sort = [f"sort_keys({scatter.keys}, {scatter.number}, thread, threads)"]
            library = SortKeys(scatter.keys, scatter.number)
            self._texts.launch(sort, "1", threads, helper=SORT, library=library)
            most, up = self._tuning.entry_blocks, threads - 1
            blocks = f"max(1, min({most}, ({scatter.number} + {up}) // {threads}))"
            self._texts.launch(scatter.lines, blocks, threads)
        return True

    def _mapped(self, nest: Nest) -> MappedNest:
        assert not nest.excluded, "a boundary that is not split"
        plain = nest if nest.branches else collapse(nest)
        return map_nest(plain, self._memory, atomics=self._atomics)

    def _scalars(self, nest: Nest) -> list[str]:
        """A nest without loops: all threads compute its numbers, and the first one stores them."""
        text = NestText(MappedNest(nest, 0, 0, frozenset(), contiguous=True), self._memory)
        return text.numbers()

    def _in_block(self, mapped: MappedNest) -> list[str]:
        """The lines of a nest that one block runs."""
        text = NestText(mapped, self._memory)
        work = work_of(mapped, self._numbers)
        enough = not mapped.parallel or work.terms >= self._tuning.shared_terms
        if mapped.reduced and work.terms > work.entries and enough:
            return text.rows(self._row_team(mapped, work.terms))
        if mapped.parallel:
            return text.entries(BLOCK_TEAM)
        return self._published(mapped.nest, text.alone())

    def _row_team(self, mapped: MappedNest, terms: int) -> Team:
        """The team that reduces rows of `terms` terms in a block: a warp, or all of its threads."""
        by_warps = mapped.parallel and terms <= self._tuning.warp_terms
        return BLOCK_TEAM.by_warps() if by_warps else BLOCK_TEAM

    def _published(self, nest: Nest, lines: list[str]) -> list[str]:
        """Lines for one thread; the others read from memory which numbers it computed."""
        targets = [s.target for s in nest.all_statements] + [a.name for a in nest.accumulators]
        names = [n for n in dict.fromkeys(targets) if n in self._texts.locals]
        if not names:
            return lines
        stored, loaded = self._texts.published(names)
        return [*lines, *indented(stored), BARRIER, *loaded]

    def _emit_entries(self, mapped: MappedNest, head: list[str]) -> None:
        """A kernel whose threads have entries of their own."""
        self._flush()
        threads, most = self._tuning.threads, self._tuning.entry_blocks
        if lines := self._lines_for_blocks(mapped, mapped.parallel):
            blocks = f"max(1, min({most}, {lines}))"
        else:
            own = iterations(mapped.nest, 0, mapped.parallel)
            blocks = f"max(1, min({most}, ({own} + {threads - 1}) // {threads}))"
        text = NestText(mapped, self._memory).entries(GRID, by_lines=bool(lines))
        self._texts.launch([*head, *text], blocks, threads)

    def _lines_for_blocks(self, mapped: MappedNest, end: int) -> str:
        """How many lines the first `end` loops have, if blocks are to take one each; else nothing.

        A line is a run of the last of these loops. There have to be enough lines, and each such
        that few threads have nothing to do at its end.
        """
        lines = iterations(mapped.nest, 0, end - 1)
        if end < 2 or self._evaluate(lines) < self._tuning.block_lines:
            return ""
        threads, long = self._tuning.threads, self._evaluate(iterations(mapped.nest, end - 1, end))
        return lines if 4 * long >= 3 * threads * -(-long // threads) else ""

    def _emit_rows(self, mapped: MappedNest, head: list[str], terms: int) -> None:
        """Emit a kernel in which each block, or each warp, reduces a row of `terms` terms."""
        self._flush()
        tuning = self._tuning
        rows, most = iterations(mapped.nest, 0, mapped.parallel), tuning.entry_blocks
        if terms <= tuning.warp_terms and self._evaluate(rows) >= tuning.warp_rows:
            threads, team = tuning.threads, GRID.by_warps()
            lanes = f"({rows} * {tuning.lanes} + {threads - 1}) // {threads}"
            blocks = f"max(1, min({most}, {lanes}))"
        else:
            threads = min(tuning.threads, max(32, 1 << (terms // 4).bit_length()))
            team, blocks = GRID, f"max(1, min({most}, {rows}))"
        text = NestText(mapped, self._memory).rows(team)
        self._texts.launch([*head, *text], blocks, threads)

    def _emit_partial(self, mapped: MappedNest, head: list[str]) -> None:
        """A kernel that reduces all to a partial result of each block, and what reduces these."""
        self._flush()
        threads, most = self._tuning.threads, self._tuning.partial_blocks
        all_ = iterations(mapped.nest, 0, mapped.reduced)
        # a term for each thread up to as many blocks as keep a GPU busy, from then on eight terms
        few = self._tuning.busy_threads // threads
        ones, eights = (f"({all_} + {each - 1}) // {each}" for each in (threads, 8 * threads))
        blocks = f"max(1, min({most}, max(min({few}, {ones}), {eights})))"
        if lines := self._lines_for_blocks(mapped, mapped.reduced):
            each = (
                f"(({lines} + {most - 1}) // {most})"  # lines of a block; the last may have fewer
            )
            blocks = f"max(1, ({lines} + {each} - 1) // {each})"
        first, second = by_blocks(mapped, blocks, self._texts)
        text = NestText(first, self._memory).rows(GRID, by_lines=bool(lines))
        self._texts.launch([*head, *text], blocks, threads)
        self._emit_nest(second, split=False)

    def _emit_chunks(self, mapped: MappedNest, work: NestWork) -> None:
        """Two nests: one has an entry for each chunk of the terms, one reduces the chunks.

        Threads have chunks of neighbouring entries, or blocks one each where terms are neighbours.
        """
        by_blocks = not mapped.contiguous
        most = self._tuning.tile_blocks if by_blocks else 4 * self._tuning.busy_threads
        rows, two = chunked(mapped, most, self._texts, together=by_blocks)
        head = [f"# {mapped.nest.comment}"]
        if by_blocks:
            self._emit_rows(rows, head, max(1, work.terms * work.entries // most))
        else:
            self._emit_entries(rows, head)
        self._emit_nest(two, split=False)

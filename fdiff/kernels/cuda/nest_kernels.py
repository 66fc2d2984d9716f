"""Kernels of loop nests: which sizes take which way.

Nests of few iterations follow one another in a kernel of one block, with barriers in between; each
large nest has a kernel for the whole grid, or two where all or few entries are sums of many terms.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.loops import Nest
from ..passes.tile.loop_collapse import collapse
from .block_scans import Scan, scans_of
from .kernel_text import KernelTexts, length
from .nest_mapping import MappedNest, map_nest
from .nest_text import BARRIER, BLOCK_TEAM, GRID, NestText, Team, indented, iterations
from .partial_results import by_blocks, chunked
from .program import Numbers, SortKeys, evaluate
from .scan_text import ScanText
from .sorted_scatters import SORT, sorted_scatters
from .tuning import Tuning


class NestKernels:
    """The kernels so far; `_lines` are those of a kernel of one block that is not finished.

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
        new, most = [*lines], self._tuning.lines
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

    def _nest(self, nest: Nest, *, split: bool = True) -> None:
        """A nest in the open kernel of one block, or in kernels of its own.

        One that reduces partial results is not `split` again.
        """
        head = [f"# {nest.comment}"]
        if not nest.domain:
            self._phase([*head, *self._scalars(nest)])
            return
        if not self._atomics and self._scattered(nest):
            return
        mapped = self._mapped(nest)
        total = self._evaluate(iterations(mapped.nest, 0, len(mapped.nest.domain)))
        rows = self._evaluate(iterations(mapped.nest, 0, mapped.parallel))
        if scans := self._scans(mapped, rows, total):
            self._scanned(ScanText(mapped, self._memory, scans), mapped, head, total)
            return
        alone = not mapped.parallel and not (mapped.spread and split)
        if total <= self._tuning.light or alone:
            self._phase([*head, *self._in_block(mapped)])
            return
        own = self._evaluate(iterations(mapped.nest, 0, mapped.parallel))
        first, end = mapped.parallel, mapped.parallel + mapped.spread
        terms = self._evaluate(iterations(mapped.nest, first, end))
        if not mapped.spread or (own >= self._tuning.many and mapped.contiguous):
            self._entries(mapped, head)
        elif not mapped.parallel and split:
            self._partial(mapped, head)
        elif terms >= self._tuning.row and not mapped.contiguous and own * 2 >= self._tuning.tiles:
            self._rows(mapped, head, terms)
        elif split and own < self._tuning.many and terms > self._tuning.row:
            self._chunks(mapped, own, terms)
        elif own < self._tuning.many and terms > self._tuning.row:
            self._rows(mapped, head, terms)
        else:
            self._entries(mapped, head)

    def _scans(self, mapped: MappedNest, rows: int, total: int) -> dict[str, Scan] | None:
        """The running values of a nest of so many iterations, if blocks are to take its rows."""
        busy = self._tuning.threads if total <= self._tuning.light else self._tuning.many
        enough = rows >= busy and (mapped.contiguous or total <= self._tuning.light)
        if enough or total < self._tuning.row * max(1, rows):
            return None
        if any(s.target in self._texts.locals for s in mapped.nest.all_statements):
            return None
        return scans_of(mapped, self._memory)

    def _scanned(self, text: ScanText, mapped: MappedNest, head: list[str], total: int) -> None:
        """Rows in the open kernel of one block, or in a kernel of its own."""
        if total <= self._tuning.light or not mapped.parallel:
            self._phase([*head, *text.scanned(BLOCK_TEAM)])
            return
        self._flush()
        rows = iterations(mapped.nest, 0, mapped.parallel)
        blocks = f"max(1, min({self._tuning.blocks}, {rows}))"
        self._texts.launch([*head, *text.scanned(GRID)], blocks, self._tuning.threads)

    def _scattered(self, nest: Nest) -> bool:
        """Sorted scatters in place of a nest that would add in any order; whether there are any."""
        found = sorted_scatters(nest, self._memory, self._texts)
        if found is None:
            return False
        terms, scatters = found
        self._nest(terms)
        self._flush()
        threads = self._tuning.threads
        for scatter in scatters:
            sort = [f"sort_keys({scatter.keys}, {scatter.number}, thread, threads)"]
            library = SortKeys(scatter.keys, scatter.number)
            self._texts.launch(sort, "1", threads, helper=SORT, library=library)
            most, up = self._tuning.blocks, threads - 1
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
        own = self._evaluate(iterations(mapped.nest, 0, mapped.parallel))
        first, end = mapped.parallel, mapped.parallel + mapped.spread
        terms = self._evaluate(iterations(mapped.nest, first, end))
        if mapped.spread and terms > own and (not mapped.parallel or terms >= self._tuning.row):
            return text.rows(self._row_team(mapped, terms))
        if mapped.parallel:
            return text.entries(BLOCK_TEAM)
        return self._published(mapped.nest, text.alone())

    def _row_team(self, mapped: MappedNest, terms: int) -> Team:
        """Who reduces rows of so many terms in a block: its warps, or all of its threads."""
        by_warps = mapped.parallel and terms <= self._tuning.warp
        return BLOCK_TEAM.by_warps() if by_warps else BLOCK_TEAM

    def _published(self, nest: Nest, lines: list[str]) -> list[str]:
        """Lines for one thread; the others read from memory which numbers it computed."""
        made = [s.target for s in nest.all_statements] + [a.name for a in nest.accumulators]
        names = [n for n in dict.fromkeys(made) if n in self._texts.locals]
        if not names:
            return lines
        stored, loaded = self._texts.published(names)
        return [*lines, *indented(stored), BARRIER, *loaded]

    def _entries(self, mapped: MappedNest, head: list[str]) -> None:
        """A kernel whose threads have entries of their own."""
        self._flush()
        threads = self._tuning.threads
        if apart := self._lines_apart(mapped, mapped.parallel):
            blocks = f"max(1, min({self._tuning.blocks}, {apart}))"
        else:
            own = iterations(mapped.nest, 0, mapped.parallel)
            blocks = f"max(1, min({self._tuning.blocks}, ({own} + {threads - 1}) // {threads}))"
        lines = NestText(mapped, self._memory).entries(GRID, lines_apart=bool(apart))
        self._texts.launch([*head, *lines], blocks, threads)

    def _lines_apart(self, mapped: MappedNest, end: int) -> str:
        """How many lines the first `end` loops have, if blocks take one each; else nothing.

        There have to be enough, and each such that few threads have nothing to do at its end.
        """
        lines = iterations(mapped.nest, 0, end - 1)
        if end < 2 or self._evaluate(lines) < self._tuning.apart:
            return ""
        threads, long = self._tuning.threads, self._evaluate(iterations(mapped.nest, end - 1, end))
        return lines if 4 * long >= 3 * threads * -(-long // threads) else ""

    def _rows(self, mapped: MappedNest, head: list[str], terms: int) -> None:
        """A kernel whose blocks reduce a row at a time, or whose warps do."""
        self._flush()
        rows, most = iterations(mapped.nest, 0, mapped.parallel), self._tuning.blocks
        if terms <= self._tuning.warp and self._evaluate(rows) >= self._tuning.rows:
            threads, team = self._tuning.threads, GRID.by_warps()
            all_ = f"({rows} * {self._tuning.lanes} + {threads - 1}) // {threads}"
            blocks = f"max(1, min({most}, {all_}))"
        else:
            threads = min(self._tuning.threads, max(32, 1 << (terms // 4).bit_length()))
            team, blocks = GRID, f"max(1, min({most}, {rows}))"
        lines = NestText(mapped, self._memory).rows(team)
        self._texts.launch([*head, *lines], blocks, threads)

    def _partial(self, mapped: MappedNest, head: list[str]) -> None:
        """A kernel that reduces all, to one partial result a block; then one block goes on."""
        self._flush()
        threads = self._tuning.threads
        all_ = iterations(mapped.nest, 0, mapped.spread)
        few = self._tuning.many // threads  # blocks that keep a GPU busy: then threads do more each
        ones, eights = (f"({all_} + {each - 1}) // {each}" for each in (threads, 8 * threads))
        blocks = f"max(1, min({self._tuning.partial}, max(min({few}, {ones}), {eights})))"
        if apart := self._lines_apart(mapped, mapped.spread):  # as many for each block, but for one
            each = f"(({apart} + {self._tuning.partial - 1}) // {self._tuning.partial})"
            blocks = f"max(1, ({apart} + {each} - 1) // {each})"
        first, second = by_blocks(mapped, blocks, self._texts)
        lines = NestText(first, self._memory).rows(GRID, lines_apart=bool(apart))
        self._texts.launch([*head, *lines], blocks, threads)
        self._nest(second, split=False)

    def _chunks(self, mapped: MappedNest, own: int, terms: int) -> None:
        """Two nests: one has an entry for each chunk of the terms, one reduces the chunks.

        Threads have chunks of neighbouring entries, or blocks one each where terms are neighbours.
        """
        by_blocks = not mapped.contiguous
        most = self._tuning.tiled if by_blocks else 4 * self._tuning.many
        one, two = chunked(mapped, most, self._texts, together=by_blocks)
        head = [f"# {mapped.nest.comment}"]
        if by_blocks:
            self._rows(one, head, max(1, terms * own // most))
        else:
            self._entries(one, head)
        self._nest(two, split=False)

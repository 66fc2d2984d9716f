"""A loop nest as lines of a kernel for a GPU.

Threads of a *team* (all threads of a grid, or of a block) take turns at the iterations of the loops
that they share: iteration `e` belongs to thread ``e % count``, so that neighbouring threads access
neighbouring entries. Their reductions are combined in the block (`block_reductions`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ....named_tuples import NamedTuple
from ...codegen.lines import TextLine, texts_of
from ...codegen.loop_invariant_lines import LoopLines, extreme_lines, lines_of_local
from ...ir.accesses import Access
from ...ir.combiners import Combiner
from ...ir.index_expressions import atom, size, strides, times
from ...ir.loops import BEGIN, Accumulator, Guard, Nest, Statement, StatementKind
from ...kernel_source import INDENT
from ...runtime.status_errors import OUT_OF_BOUNDS
from .block_reductions import reduction_name
from .nest_mapping import MappedNest, neutral_of
from .shared_rows import staged_name


class Team(NamedTuple):
    """Threads that share loops: the number of one among them, and how many they are, as text.

    `row` and `rows` are the same of those who take rows, blocks or warps (`scope`), and `lane` and
    `lanes` of the threads of each, which reduce a row together.
    """

    thread: str
    threads: str
    row: str
    rows: str
    scope: str = "block"
    lane: str = "thread"
    lanes: str = "threads"

    def by_warps(self) -> Team:
        """Return the team with rows for each warp instead of each block."""
        row, rows = f"{self.thread} // WARP", f"{self.threads} // WARP"
        return self._replace(row=row, rows=rows, scope="warp", lane="thread % WARP", lanes="WARP")


GRID = Team("grid_thread", "grid_threads", "block_number", "blocks")
BLOCK_TEAM = Team("thread", "threads", "0", "1")
BARRIER = "cuda.syncthreads()"
_FIRST = "if thread == 0:"


_ASSIGNED = re.compile(r"\s*(?:for )?((?:\w+, )*\w+) (?:=|in) ")


def assigned(line: str) -> tuple[str, ...]:
    """The names that a line assigns, be it the head of a loop: lines for GPUs are plain strings."""
    match = _ASSIGNED.match(line)
    return () if match is None else tuple(match[1].split(", "))


def let(target: str, value: str) -> str:
    """The line that assigns a local."""
    return f"{target} = {value}"


def indented(lines: Iterable[str], times_: int = 1) -> list[str]:
    """The lines some levels deeper."""
    return [INDENT * times_ + line for line in lines]


class NestText:
    """The lines of one nest; `carried` are accumulators that go on after it, in each thread.

    Of arrays that are `staged`, shared memory has the rows of a tile, with this stride
    (`shared_rows`).
    """

    def __init__(
        self,
        mapped: MappedNest,
        memory: Mapping[str, str],
        *,
        shared: frozenset[str] = frozenset(),
        carried: frozenset[str] = frozenset(),
        staged: Mapping[str, str] | None = None,
    ) -> None:
        self._nest = mapped.nest
        self._mapped = mapped
        self._memory = memory
        self._atomic = mapped.atomic | shared
        self._carried = carried
        self._staged = staged or {}
        self._lines = LoopLines(mapped.nest, let)

    # --- the three ways to share a nest --------------------------------------------------------

    def entries(self, team: Team, *, by_lines: bool = False) -> list[str]:
        """Each thread has iterations of the parallel loops, and runs the others by itself.

        If `by_lines`, a block takes all of the last parallel loop before it goes on.
        """
        self._fill(together=False)
        count = self._mapped.parallel
        if not count:
            return self.alone()
        return self._by_lines(count, team) if by_lines else self._team_loops(0, count, team)

    def rows(self, team: Team, *, by_lines: bool = False) -> list[str]:
        """Each block or warp has iterations of the parallel loops; its threads share the others.

        Without parallel loops all threads of the team share the loops, and each block combines
        what its own threads have; if `by_lines`, a block takes all of the last of these loops
        before it goes on.
        """
        mapped = self._mapped
        first, end = mapped.parallel, mapped.parallel + mapped.reduced
        self._fill(together=True)
        if not first:
            shared = self._by_lines(end, team) if by_lines else self._team_loops(0, end, team)
            return [*shared, *self.combined()]
        together = team._replace(thread=team.lane, threads=team.lanes)
        inside = self._team_loops(first, end, together)
        body = [*self._lines.before[first], *inside, *self.combined(together)]
        return self.rows_in_turn(team, first, body)

    def rows_in_turn(self, team: Team, first: int, body: list[str]) -> list[str]:
        """The rows of a block or warp, one after another: iterations of the `first` loops."""
        head, positions = self._flat("row", 0, first)
        before = [line for k in range(1, first) for line in self._lines.before[k]]
        return [
            *self._lines.before[0],
            f"row = {team.row}",
            f"while row < {head}:",
            *indented([*positions, *before, *body, f"row = row + {team.rows}"]),
        ]

    def alone(self) -> list[str]:
        """All of the nest; if it has loops, the first thread runs it."""
        self._lines = LoopLines(self._nest, let)
        self._fill(together=False)
        lines = [*self._lines.before[0], *self._serial(0), *self._lines.after[0]]
        return [_FIRST, *indented(lines)] if lines else []

    def numbers(self) -> list[str]:
        """A nest without loops: all threads compute its numbers, and the first stores them."""
        nest = self._nest
        out = [f"{a.name} = {a.identity}" for a in nest.accumulators if a.identity != a.name]
        written = {s.memory for s in nest.all_statements if s.writes}
        read = {s.memory for s in nest.all_statements if s.kind is StatementKind.LOAD}
        wait = [BARRIER] if written & read else []  # others have read before, or read afterwards
        for statement in (*nest.statements, *(s for a in nest.accumulators for s in a.final)):
            lines = self.text(statement)
            if statement.writes:
                lines = [*wait, _FIRST, *indented(lines), *wait]
            out += lines
        return out

    # --- loops ----------------------------------------------------------------------------------

    def _fill(self, *, together: bool) -> None:
        """Enter all statements into the lines of their loops.

        Threads that reduce `together` combine what each of them has when the loops end.
        """
        lines, nest = self._lines, self._nest
        depth = self._mapped.parallel
        for a in nest.accumulators:
            if together and a.depth == depth:
                lines.before[depth] += self._neutral_start(a)
            elif a.identity != a.name:
                lines.before[a.depth].append(f"{a.name} = {a.identity}")
        for statement in nest.statements:
            level = lines.level(statement)
            lines.before[level] += self.text(statement)
        for guard, statements in nest.branches:
            self._branch(guard, statements)
        for a in nest.accumulators:
            if together and a.depth == depth:
                continue  # what threads reduce together is stored when it is combined
            for statement in a.final:
                lines.after[a.depth] += self.text(statement)

    def _neutral_start(self, a: Accumulator) -> list[str]:
        """Each thread begins with the neutral element."""
        if a.name in self._carried:
            return []
        assert a.combiner is not None
        if a.identity != a.name:
            return [f"{a.name} = {a.identity}"]
        neutral = neutral_of(a.combiner, a.dtype)
        return [f"before_{a.name} = {a.name}", f"{a.name} = {neutral}"]

    def begun(self) -> list[str]:
        """Each thread begins what the threads of a block reduce."""
        return [line for a in self._mapped.reductions for line in self._neutral_start(a)]

    def combined(self, team: Team = BLOCK_TEAM) -> list[str]:
        """Lines that combine the partial reductions of a block's or warp's threads; one stores."""
        out: list[str] = []
        first = f"if {team.lane} == 0:"
        for a in self._mapped.reductions:
            if a.name in self._carried:
                continue
            assert a.combiner is not None
            out.append(f"{a.name} = {reduction_name(team.scope, a.combiner, a.dtype)}({a.name})")
            if a.identity == a.name:
                text = a.combiner.text(a.dtype).format(f"before_{a.name}", a.name)
                out.append(f"{a.name} = {text}")
            for statement in a.final:
                lines = self.text(statement)
                out += [first, *indented(lines)] if statement.writes else lines
        return out

    def _team_loops(self, first: int, end: int, team: Team) -> list[str]:
        """Loops `first` to `end` shared by the threads of a team, around the other loops."""
        total, positions = self._flat("e", first, end)
        before = [line for k in range(first + 1, end) for line in self._lines.before[k]]
        body = [*before, *self._lines.before[end], *self._serial(end), *self._lines.after[end]]
        outside = self._lines.before[first] if first == 0 else []
        return [
            *outside,
            f"e = {team.thread}",
            f"while e < {total}:",
            *indented([*positions, *body]),
            f"{INDENT}e = e + {team.threads}",
        ]

    def _by_lines(self, end: int, team: Team) -> list[str]:
        """The first `end` loops: blocks share all but the last, their threads the last one.

        What depends on the outer loops alone, such as where lines begin, is computed once a line,
        and no iteration is divided to find its place.
        """
        outer, positions = self._flat("row", 0, end - 1)
        inner, place = self._flat("e", end - 1, end)
        before = [line for k in range(1, end) for line in self._lines.before[k]]
        body = [*self._lines.before[end], *self._serial(end), *self._lines.after[end]]
        line = [
            f"e = {team.lane}",
            f"while e < {inner}:",
            *indented([*place, *body]),
            f"{INDENT}e = e + {team.lanes}",
        ]
        return [
            *self._lines.before[0],
            f"row = {team.row}",
            f"while row < {outer}:",
            *indented([*positions, *before, *line]),
            f"{INDENT}row = row + {team.rows}",
        ]

    def _serial(self, first: int) -> list[str]:
        """The loops from `first` on, run by one thread."""
        lines = self._lines
        out: list[str] = []
        for k in range(first, lines.rank):
            begin, end = self._range(k)
            bounds = end if begin == "0" else f"{begin}, {end}"
            out.append(f"{INDENT * (k - first)}for i{k} in range({bounds}):")
            out += indented(lines.before[k + 1] or ["pass"], k + 1 - first)
        for k in range(lines.rank - 1, first, -1):
            out += indented(lines.after[k], k - first)
        return out

    def _range(self, k: int) -> tuple[str, str]:
        bounds = self._nest.ranges[k] if self._nest.ranges else None
        return ("0", self._nest.domain[k]) if bounds is None else bounds

    def _flat(self, name: str, first: int, end: int) -> tuple[str, list[str]]:
        """How many iterations loops `first` to `end` have, and their variables from a number."""
        sizes: list[str] = []
        out: list[str] = []
        rest = name
        for k in range(end - 1, first - 1, -1):
            begin, stop = self._range(k)
            count = stop if begin == "0" else f"({stop} - ({begin}))"
            sizes.append(count)
            plus = "" if begin == "0" else f" + ({begin})"
            if k > first:
                out.append(f"{name}{k} = rt.quotient({rest}, {count})")
                out.append(f"i{k} = {rest} - {name}{k} * {atom(count)}{plus}")
                rest = f"{name}{k}"
            else:
                out.append(f"i{k} = {rest}{plus}")
        return size(tuple(reversed(sizes))), out

    # --- statements -----------------------------------------------------------------------------

    def _branch(self, guard: Guard, statements: tuple[Statement, ...]) -> None:
        """Statements in the innermost loop that run where the guard holds."""
        inner = self._lines.before[self._lines.rank]
        tests = [f"{begin} <= i{k} < {end}" for k, begin, end in guard]
        if tests:
            inner.append(f"if {' and '.join(tests)}:")
        for statement in statements:
            self._lines.depth[statement.target] = self._lines.rank
            inner += indented(self.text(statement), bool(tests))

    def text(self, statement: Statement) -> list[str]:
        """The lines of a statement."""
        kind, target, text, operands, access, combiner = statement
        beyond = [TextLine(f"status[0] = {OUT_OF_BOUNDS}"), TextLine(f"{target} = 0")]
        if local := lines_of_local(statement, beyond):
            return texts_of(local)
        assert access is not None
        name = access.buffer.name
        if kind is StatementKind.LOAD and name in self._staged:
            return [f"{target} = {self._in_shared_memory(access, self._staged[name])}"]
        at = self._lines.address(access)
        if kind is StatementKind.POSITION:
            return [f"{target} = {at}"]
        if kind is StatementKind.EXTREME:
            return texts_of(extreme_lines(target, at, text, operands))
        truth = self._memory[name] == "b1"
        if kind is StatementKind.LOAD:
            return [f"{target} = {name}[{at}]" + " != 0" * truth]
        if kind is StatementKind.CARRY:
            return [f"{target} = {name}[{at}]{' != 0' * truth} if i{operands[0]} > 0 else {text}"]
        value = operands[0]
        if kind is StatementKind.STORE:
            return [f"{name}[{at}] = {f'np.uint8({value})' if truth else value}"]
        if combiner in (Combiner.OR, Combiner.AND):
            word, entry = ("", "1") if combiner is Combiner.OR else ("not ", "0")
            return [f"if {word}{value}:", f"{INDENT}{name}[{at}] = {entry}"]
        if name in self._atomic:
            return [f"rt.atomic_sum({name}, {at}, {value})"]
        lines = [f"{target} = {at}"]
        return [*lines, f"{name}[{target}] = {text.format(f'{name}[{target}]', value)}"]

    def _in_shared_memory(self, access: Access, stride: str) -> str:
        """An entry of the rows of a tile, with the `stride` between them."""
        steps = stride, *strides(access.dims)[1:]
        at = self._lines.address(access._replace(buffer=access.buffer._replace(strides=steps)))
        return f"{staged_name(access.buffer.name)}[{at} - {BEGIN} * {atom(stride)}]"


def iterations(nest: Nest, first: int, end: int) -> str:
    """How many iterations loops `first` to `end` have, as text."""
    total = "1"
    for k in range(first, end):
        bounds = nest.ranges[k] if nest.ranges else None
        count = nest.domain[k] if bounds is None else f"({bounds[1]} - ({bounds[0]}))"
        total = times(total, count)
    return total

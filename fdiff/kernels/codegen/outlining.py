"""Outlining: the loops of a long kernel become functions before it in its text, and calls of them.

LLVM's time grows faster than the length of a function, and an unrolled program repeats itself. So
each loop becomes a function of the names it reads, and loops that differ in names alone share one
(procedural abstraction, an idea of K. D. Cooper and N. McIntosh, Enhanced code compression for
embedded RISC processors, PLDI 1999; LLVM's IROutliner does it on LLVM IR). A function returns the
locals that are read later. The gain: docs/decisions/long-kernels-are-outlined.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ...lazy_attributes import cached_property
from ..ir.expression_names import are_names, split_at_names
from .lines import LOOPS, LineKind, TextLine, deeper

LONG = 400  # lines from which on a kernel is outlined
STRAIGHT = 40  # lines from which on straight code is outlined, too


@dataclass(frozen=True)
class Region:
    """Consecutive lines of a kernel inside `depth` tile loops; the head of one `is_head`."""

    lines: tuple[TextLine, ...]
    depth: int = 0
    is_head: bool = False

    def placed(self, lines: Iterable[TextLine]) -> Iterator[TextLine]:
        """Lines as they stand in the kernel in the place of this region."""
        return deeper(lines, self.depth)

    @cached_property
    def code(self) -> list[TextLine]:
        """The lines without comments."""
        return [line for line in self.lines if line.kind is not LineKind.COMMENT]

    @cached_property
    def tokens(self) -> list[list[str]]:
        """Each line of code split at names: every second token is a name, or a word of Python."""
        return [split_at_names(line.text) for line in self.code]

    @cached_property
    def line_names(self) -> list[list[str]]:
        """The names in each line of code; a target is the first."""
        return [are_names(pieces[1::2]) for pieces in self.tokens]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names, in order of appearance."""
        return tuple(dict.fromkeys(chain.from_iterable(self.line_names)))

    @cached_property
    def read(self) -> frozenset[str]:
        """The names that are read before they are assigned: the upward-exposed uses."""
        read: set[str] = set()
        assigned: set[str] = set()
        for line, names in zip(self.code, self.line_names, strict=True):
            overwritten = bool(line.target) and line.kind is not LineKind.FLAG
            read.update([n for n in names[overwritten:] if n not in assigned])
            assigned.update([line.target] * bool(line.target))
        return frozenset(read)

    @cached_property
    def assigned(self) -> frozenset[str]:
        """The names that are assigned."""
        return frozenset(line.target for line in self.code if line.target)

    @property
    def outlinable(self) -> bool:
        """Whether it can be a function, and is long enough for one.

        The head of a tile loop cannot, nor what may end the kernel, nor a loop whose locals live
        from one iteration to the next.
        """
        kinds = {line.kind for line in self.lines}
        if self.is_head or kinds & {LineKind.LEAVE, LineKind.WHILE}:
            return False
        loops = any(line.kind in LOOPS and not line.depth for line in self.lines)
        return loops or len(self.lines) >= STRAIGHT


def outline(
    regions: Sequence[Region], tail: list[TextLine], memory: Mapping[str, str]
) -> tuple[list[TextLine], list[TextLine]]:
    """Lines of the functions, and lines of the kernel's body without its `tail`.

    `memory` is the buffer of each temporary, so that no function gets one buffer under two names:
    its parameters do not alias.
    """
    functions, body = _Functions(memory), list[TextLine]()
    for region, results in zip(regions, _live_after(regions, tail), strict=True):
        body += region.placed(functions.call(region, results))
    return functions.lines, body


def _live_after(regions: Sequence[Region], tail: list[TextLine]) -> list[tuple[str, ...]]:
    """The names each region assigns that are read later, or in the next iteration of its loop.

    This is liveness analysis, from the last region to the first; loops are taken as a whole.
    """
    live = set(Region(tuple(tail)).names)
    in_loops: set[str] = set()
    for region in regions:
        in_loops.update(region.read if region.depth else ())
    out: list[tuple[str, ...]] = []
    for region in reversed(regions):
        results = region.assigned & (live | in_loops if region.depth else live)
        out.append(tuple(n for n in region.names if n in results))
        live = (live - region.assigned) | region.read
    return out[::-1]


class _Functions:
    """The functions so far, known by their text with names numbered and by their results."""

    def __init__(self, memory: Mapping[str, str]) -> None:
        self._memory = memory
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}
        self.lines: list[TextLine] = []

    def call(self, region: Region, results: tuple[str, ...]) -> Iterable[TextLine]:
        """The region as a call of a function, or as it is."""
        parameters = [n for n in region.names if n in region.read]
        arguments = [self._memory.get(n, n) for n in parameters]
        if not region.outlinable or len(set(arguments)) < len(arguments):
            return region.lines
        numbers = {name: f"_{k}" for k, name in enumerate(region.names)}
        lines = zip(region.code, region.tokens, strict=True)
        tokens = (token for line, pieces in lines for token in (f"\n{line.depth}", *pieces))
        text = tuple(numbers.get(token, token) for token in tokens)
        key = text, tuple(numbers[n] for n in results)
        if key not in self._known:
            self._known[key] = f"outlined{len(self._known)}"
            self._define(self._known[key], region, parameters, results)
        call = f"{self._known[key]}({', '.join(arguments)})"
        return [TextLine(f"{', '.join(results)} = {call}" if results else call)]

    def _define(
        self, name: str, region: Region, parameters: list[str], results: tuple[str, ...]
    ) -> None:
        self.lines += [
            TextLine(f"def {name}({', '.join(parameters)}):"),
            *deeper((*region.lines, TextLine(f"return {', '.join(results)}".rstrip()))),
            *(TextLine(""), TextLine("")),
        ]

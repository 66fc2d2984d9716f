"""Outlining: the loops of a long kernel become functions before it in its text, and calls of them.

LLVM's time grows faster than the length of a function, and an unrolled program repeats itself. So
each loop becomes a function of the names it reads, and loops that differ in names alone share one
(procedural abstraction: K. D. Cooper and N. McIntosh, Enhanced code compression for embedded RISC
processors, PLDI 1999; LLVM's IROutliner does it on LLVM IR). A function returns the locals that are
read later. What it brought: docs/decisions/long-kernels-are-outlined.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ...attributes import cached_property
from ..kernel_source import INDENT

LONG = 400  # lines from which on a kernel is outlined
STRAIGHT = 40  # lines from which on straight code is outlined, too
_NAME = re.compile(r"((?<![\w.])[A-Za-z_]\w*)")
_ASSIGNED = re.compile(r" *(?:for )?(\w+) (?:=|\|=|in) ")
_KEYWORDS = frozenset(
    [
        "for", "in", "range", "if", "elif", "else", "and", "or", "not", "return", "while", "True",
        "False", "np", "rt", "math", "abs", "min", "max",
    ]
)  # fmt: skip


@dataclass(frozen=True)
class Region:
    """Consecutive lines of a kernel inside `depth` tile loops."""

    lines: tuple[str, ...]
    depth: int = 0

    def indented(self, lines: Iterable[str]) -> Iterator[str]:
        """Lines as they stand in the kernel in the place of this region."""
        return (INDENT * self.depth + line for line in lines)

    @cached_property
    def code(self) -> list[str]:
        """The lines without comments."""
        return [line for line in self.lines if not line.lstrip().startswith("#")]

    @cached_property
    def tokens(self) -> list[list[str]]:
        """Each line of code split at names: every second token is a name, or a word of Python."""
        return [_NAME.split(line) for line in self.code]

    @cached_property
    def line_names(self) -> list[list[str]]:
        """The names in each line of code."""
        return [[n for n in line[1::2] if n not in _KEYWORDS] for line in self.tokens]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names, in order of appearance."""
        return tuple(dict.fromkeys(chain.from_iterable(self.line_names)))

    @cached_property
    def read(self) -> frozenset[str]:
        """The names that are read before they are assigned: the upward-exposed uses."""
        read: set[str] = set()
        assigned: set[str] = set()
        for target, names in zip(self._targets, self.line_names, strict=True):
            overwritten = target is not None and "|=" not in target[0]
            read.update([n for n in names[overwritten:] if n not in assigned])
            if target is not None:
                assigned.add(target[1])
        return frozenset(read)

    @cached_property
    def assigned(self) -> frozenset[str]:
        """The names that are assigned."""
        return frozenset(target[1] for target in self._targets if target is not None)

    @cached_property
    def _targets(self) -> list[re.Match[str] | None]:
        return [_ASSIGNED.match(line) for line in self.code]

    @property
    def outlinable(self) -> bool:
        """Whether it can be a function, and is long enough for one."""
        loops = any(line.startswith("for ") for line in self.lines)
        if loops and self.lines[-1].startswith(INDENT) and "end_row = " in self.lines[-1]:
            return False  # the head of a tile loop
        if any(line.startswith("while ") for line in self.lines):
            return False  # a versioned loop, whose locals live from one run to the next
        leaves = any(line.lstrip().startswith(("return", "status")) for line in self.lines)
        return not leaves and (loops or len(self.lines) >= STRAIGHT)


def outline(
    regions: Sequence[Region], tail: list[str], memory: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Lines of the functions, and lines of the kernel's body without its `tail`.

    `memory` is the buffer of each temporary, so that no function gets one buffer under two names:
    its parameters do not alias.
    """
    functions, body = _Functions(memory), list[str]()
    for region, results in zip(regions, _live_after(regions, tail), strict=True):
        body += region.indented(functions.call(region, results))
    return functions.lines, body


def _live_after(regions: Sequence[Region], tail: list[str]) -> list[tuple[str, ...]]:
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
        self.lines: list[str] = []

    def call(self, region: Region, results: tuple[str, ...]) -> Iterable[str]:
        """The region as a call of a function, or as it is."""
        parameters = [n for n in region.names if n in region.read]
        arguments = [self._memory.get(n, n) for n in parameters]
        if not region.outlinable or len(set(arguments)) < len(arguments):
            return region.lines
        numbers = {name: f"_{k}" for k, name in enumerate(region.names)}
        text = tuple(numbers.get(token, token) for line in region.tokens for token in (*line, "\n"))
        key = text, tuple(numbers[n] for n in results)
        if key not in self._known:
            self._known[key] = f"outlined{len(self._known)}"
            self._define(self._known[key], region, parameters, results)
        call = f"{self._known[key]}({', '.join(arguments)})"
        return [f"{', '.join(results)} = {call}" if results else call]

    def _define(
        self, name: str, region: Region, parameters: list[str], results: tuple[str, ...]
    ) -> None:
        self.lines += [
            f"def {name}({', '.join(parameters)}):",
            *(INDENT + line for line in region.lines),
            f"{INDENT}return {', '.join(results)}".rstrip(),
            "",
            "",
        ]

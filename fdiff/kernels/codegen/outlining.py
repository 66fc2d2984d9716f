"""Long kernels as steps: functions that stand before the kernel in its text, and calls of them.

What LLVM takes for a function grows faster than its length, and an unrolled program does the same
again and again. So each loop of a long kernel becomes a function of the names it reads; loops that
differ in these names only are one function, called with other names. It gives the locals that are
read later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ...attributes import cached_property

LONG = 400  # lines from which on a kernel is in steps
APART = 40  # lines from which on what has no loop is a step, too
_INDENT = "    "
_NAME = re.compile(r"((?<![\w.])[A-Za-z_]\w*)")
_MADE = re.compile(r" *(?:for )?(\w+) (?:=|\|=|in) ")
_WORDS = frozenset(
    [
        "for", "in", "range", "if", "elif", "else", "and", "or", "not", "return", "while", "True",
        "False", "np", "rt", "math", "abs", "min", "max",
    ]
)  # fmt: skip


@dataclass(frozen=True)
class Unit:
    """Lines that stand together, in so many loops over blocks of rows."""

    lines: tuple[str, ...]
    depth: int = 0

    def indented(self, lines: Iterable[str]) -> Iterator[str]:
        """Lines as they stand in the kernel in the place of this unit."""
        return (_INDENT * self.depth + line for line in lines)

    @cached_property
    def code(self) -> list[str]:
        """The lines but comments."""
        return [line for line in self.lines if not line.lstrip().startswith("#")]

    @cached_property
    def parts(self) -> list[list[str]]:
        """What each line of code is made of: every second part is a name, or a word of Python."""
        return [_NAME.split(line) for line in self.code]

    @cached_property
    def words(self) -> list[list[str]]:
        """The names in each line of code."""
        return [[n for n in line[1::2] if n not in _WORDS] for line in self.parts]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names in it, in order of appearance."""
        return tuple(dict.fromkeys(chain.from_iterable(self.words)))

    @cached_property
    def read(self) -> frozenset[str]:
        """The names that come from outside: what is assigned first is its own."""
        read: set[str] = set()
        made: set[str] = set()
        for target, words in zip(self._targets, self.words, strict=True):
            own = target is not None and "|=" not in target[0]
            read.update([n for n in words[own:] if n not in made])
            if target is not None:
                made.add(target[1])
        return frozenset(read)

    @cached_property
    def made(self) -> frozenset[str]:
        """The names it assigns."""
        return frozenset(target[1] for target in self._targets if target is not None)

    @cached_property
    def _targets(self) -> list[re.Match[str] | None]:
        return [_MADE.match(line) for line in self.code]

    @property
    def movable(self) -> bool:
        """Whether it can be a function, and is worth one."""
        loops = any(line.startswith("for ") for line in self.lines)
        if loops and self.lines[-1].startswith(_INDENT) and "end_row = " in self.lines[-1]:
            return False  # the head of a loop over blocks
        if any(line.startswith("while ") for line in self.lines):
            return False  # runs, which look as far ahead as the last one was long
        leaves = any(line.lstrip().startswith(("return", "status")) for line in self.lines)
        return not leaves and (loops or len(self.lines) >= APART)


def in_steps(
    units: Sequence[Unit], tail: list[str], memory: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Lines of the functions, and those of the kernel's body without its `tail`.

    `memory` is where each temporary lies, so that no function is given one place under two names.
    """
    steps, body = _Steps(memory), list[str]()
    for unit, given in zip(units, _given(units, tail), strict=True):
        body += unit.indented(steps.called(unit, given))
    return steps.lines, body


def _given(units: Sequence[Unit], tail: list[str]) -> list[tuple[str, ...]]:
    """The names that each unit assigns and others read: later, or in the next turn of its loop."""
    later = set(Unit(tuple(tail)).names)
    again: set[str] = set()
    for unit in units:
        again.update(unit.read if unit.depth else ())
    out: list[tuple[str, ...]] = []
    for unit in reversed(units):
        wanted = unit.made & (later | again if unit.depth else later)
        out.append(tuple(n for n in unit.names if n in wanted))
        later = (later - unit.made) | unit.read
    return out[::-1]


@dataclass
class _Steps:
    """The functions so far, by their lines with names numbered."""

    memory: Mapping[str, str]
    lines: list[str] = field(default_factory=list)
    known: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = field(default_factory=dict)

    def called(self, unit: Unit, results: tuple[str, ...]) -> Iterable[str]:
        """The unit as a call, or as it is."""
        taken = [n for n in unit.names if n in unit.read]
        given = [self.memory.get(n, n) for n in taken]
        if not unit.movable or len(set(given)) < len(given):
            return unit.lines
        numbers = {name: f"_{k}" for k, name in enumerate(unit.names)}
        text = tuple(numbers.get(part, part) for line in unit.parts for part in (*line, "\n"))
        key = text, tuple(numbers[n] for n in results)
        if key not in self.known:
            self.known[key] = f"step{len(self.known)}"
            self._define(self.known[key], unit, taken, results)
        call = f"{self.known[key]}({', '.join(given)})"
        return [f"{', '.join(results)} = {call}" if results else call]

    def _define(self, name: str, unit: Unit, taken: list[str], results: tuple[str, ...]) -> None:
        self.lines += [
            f"def {name}({', '.join(taken)}):",
            *(_INDENT + line for line in unit.lines),
            f"{_INDENT}return {', '.join(results)}".rstrip(),
            "",
            "",
        ]

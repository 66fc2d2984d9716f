"""Long kernels as steps: functions that stand before the kernel in its text, and calls of them.

What LLVM takes for a function grows faster than its length, and an unrolled program does the same
again and again. So each loop of a long kernel becomes a function of the names it reads; loops that
differ in these names only are one function, called with other names. It gives the locals that are
read later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

LONG = 400  # lines from which on a kernel is in steps
_APART = 40  # lines from which on what has no loop is a step, too
_INDENT = "    "
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_MADE = re.compile(r" *(?:for )?(\w+) (?:=|\|=|in) ")
_WORDS = frozenset(
    [
        "for", "in", "range", "if", "elif", "else", "and", "or", "not", "return", "while", "True",
        "False", "np", "rt", "math", "abs", "min", "max",
    ]
)  # fmt: skip


@dataclass(frozen=True)
class _Unit:
    """Lines that stand together: the names they read from outside, and those they assign."""

    lines: tuple[str, ...]
    closed: bool  # cannot be a function: it leaves the kernel, or is short
    names: tuple[str, ...] = ()  # in order of appearance
    read: frozenset[str] = frozenset()
    made: frozenset[str] = frozenset()


def in_steps(
    units: Iterable[list[str]], tail: list[str], memory: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Lines of the functions, and those of the kernel's body without its `tail`.

    `memory` is where each temporary lies, so that no function is given one place under two names.
    """
    found = [_unit(lines) for lines in units]
    later = set(_names(tail))
    results: list[tuple[str, ...]] = []
    for unit in reversed(found):
        results.append(tuple(n for n in unit.names if n in unit.made and n in later))
        later = (later - unit.made) | unit.read
    steps = _Steps(memory)
    body = [
        line
        for unit, given in zip(found, reversed(results), strict=True)
        for line in steps.called(unit, given)
    ]
    return steps.lines, body


def _unit(lines: list[str]) -> _Unit:
    """What a unit reads and assigns; a name that is assigned first is its own."""
    seen: dict[str, None] = {}
    read: set[str] = set()
    made: set[str] = set()
    for line in lines:
        target = _MADE.match(line)
        names = _names([line])
        if target is not None and "|=" not in target[0]:
            names.remove(target[1])
        read.update(n for n in names if n not in made)
        made.update([target[1]] if target is not None else [])
        seen.update(dict.fromkeys(_names([line])))
    short = len(lines) < _APART and not any(line.startswith("for ") for line in lines)
    leaves = any(line.lstrip().startswith(("return", "status")) for line in lines)
    return _Unit(tuple(lines), short or leaves, tuple(seen), frozenset(read), frozenset(made))


def _names(lines: Iterable[str]) -> list[str]:
    return [
        name
        for line in lines
        if not line.lstrip().startswith("#")
        for name in _NAME.findall(line)
        if name not in _WORDS
    ]


@dataclass
class _Steps:
    """The functions so far, by their lines with names numbered."""

    memory: Mapping[str, str]
    lines: list[str] = field(default_factory=list)
    known: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)

    def called(self, unit: _Unit, results: tuple[str, ...]) -> Iterator[str]:
        """The unit as a call, or as it is."""
        taken = [n for n in unit.names if n in unit.read]
        given = [self.memory.get(n, n) for n in taken]
        if unit.closed or len(set(given)) < len(given):
            yield from unit.lines
            return
        numbers = {name: f"_{k}" for k, name in enumerate(unit.names)}
        text = "\n".join(line for line in unit.lines if not line.lstrip().startswith("#"))
        text = _NAME.sub(lambda m: numbers.get(m[0], m[0]), text)
        key = text, tuple(numbers[n] for n in results)
        if key not in self.known:
            self.known[key] = f"step{len(self.known)}"
            self._define(self.known[key], unit, taken, results)
        call = f"{self.known[key]}({', '.join(given)})"
        yield f"{', '.join(results)} = {call}" if results else call

    def _define(
        self, name: str, unit: _Unit, taken: list[str], results: tuple[str, ...]
    ) -> None:
        self.lines += [
            f"def {name}({', '.join(taken)}):",
            *(_INDENT + line for line in unit.lines),
            f"{_INDENT}return {', '.join(results)}".rstrip(),
            "",
            "",
        ]

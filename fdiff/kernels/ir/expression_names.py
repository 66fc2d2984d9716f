"""The names in expressions.

Sizes, positions and formulas of loop programs are expressions as text (`index_expressions`), and so
are the values in lines of kernels. Their names are read here and nowhere else. What a line or an
operation *does* is never read out of text: `codegen/lines.py` and `operation_costs` state it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_NAME = re.compile(r"((?<![\w.])[A-Za-z_]\w*)")
_TABLE_ENTRY = re.compile(r"([nmfk])(\d+)")
_WORDS = frozenset(
    [
        "for", "in", "range", "if", "elif", "else", "and", "or", "not", "return", "while", "True",
        "False", "np", "rt", "math", "abs", "min", "max",
    ]
)  # fmt: skip


def split_at_names(text: str) -> list[str]:
    """An expression in pieces, of which every second one is a name or a word of the language."""
    return _NAME.split(text)


def are_names(pieces: Iterable[str]) -> list[str]:
    """The names among names and words of the language."""
    return [piece for piece in pieces if piece not in _WORDS]


def names_in(text: str) -> list[str]:
    """The names in an expression, in order."""
    return are_names(_NAME.findall(text))


def renamed(text: str, names: Mapping[str, str]) -> str:
    """An expression with other names."""
    return _NAME.sub(lambda match: names.get(match[0], match[0]), text)


def table_entry(name: str) -> tuple[str, int] | None:
    """The letter and the number in the name of a size, a number or a captured array of the kernel.

    That is ``("f", 3)`` for ``f3``; None for another name.
    """
    match = _TABLE_ENTRY.fullmatch(name)
    return None if match is None else (match[1], int(match[2]))

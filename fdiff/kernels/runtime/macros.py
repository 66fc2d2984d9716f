"""Macros in the texts of functions that are compiled beside kernels.

Matrix routines, the code of worker threads and the entry stub are string constants in the language
of kernel texts (`fdiff.kernels.llvm`). What depends on a dtype or on the layout of a record is a
macro: a word in capitals, perhaps with a suffix (``ENTRY``, ``ZERO_AT``, ``I_rank``). No other word
of a text may look so; ``True`` and ``None`` do not. Templates are expanded in one or two stages:

- `define` replaces the macros it is told and leaves the others;
- `expand` replaces all of them, and an unknown one is a KeyError;
- `numbered` makes macros of the fields of a record, each standing for its position;
- `without_options` drops the lines between ``# +++`` and ``# ---``.

See docs/decisions/llvm-directly.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# What NumPy calls the types of entries: ``np.float64(0)`` in a text.
NUMPY_NAMES = {"f8": "float64", "f4": "float32", "i8": "int64", "i4": "int32"}
_MACRO = re.compile(r"\b[A-Z]+(?:_\w+)?\b")
_OPTION = re.compile(r" *# [+]{3}\n.*?# ---\n", re.DOTALL)


def define(text: str, macros: Mapping[str, object]) -> str:
    """The text with these macros replaced."""
    return _MACRO.sub(lambda m: str(macros.get(m[0], m[0])), text)


def expand(text: str, macros: Mapping[str, object]) -> str:
    """The text with every macro replaced."""
    return _MACRO.sub(lambda m: str(macros[m[0]]), text)


def numbered(fields: Iterable[str], prefix: str = "") -> dict[str, int]:
    """A macro for each field of a record, which stands for the field's position."""
    return {f"{prefix}{field}": k for k, field in enumerate(fields)}


def without_options(text: str) -> str:
    """The text without its optional lines."""
    return _OPTION.sub("", text)

"""Functions that fdiff writes as text; tracebacks and debuggers show the lines of the text."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from pathlib import Path
from types import CodeType
from typing import Any

from .bounded_cache import drop_oldest

_MOST = 2048  # texts whose code and lines are kept
_codes: dict[str, CodeType] = {}


def defined(name: str, lines: str | Sequence[str], scope: dict[str, Any]) -> Any:
    """The function `name` that a text defines in a scope."""
    text = lines if isinstance(lines, str) else "\n".join(lines)
    exec(code_of(text, name), scope)  # noqa: S102 - our own text
    return scope[name]


def code_of(text: str, name: str) -> CodeType:
    """The code of a text, compiled once: arrays of other sizes often have the same text.

    The file of the code has the name of the function and the hash of the text. It counts as a file
    of fdiff (`user_lines.py`), so that none of its lines is taken for the user's.
    """
    code = _codes.get(text)
    if code is None:
        file = _file(text, name)
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
        if len(_codes) >= _MOST and (oldest := drop_oldest(_codes)) is not None:
            linecache.cache.pop(oldest, None)
        _codes[text] = code = compile(text, file, "exec")
    return code


def _file(text: str, name: str) -> str:
    return f"{Path(__file__).parent}/<{name} {hash(text):x}>"

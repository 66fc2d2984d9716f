"""Functions that fdiff writes as text; tracebacks and debuggers show the lines of the text."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from pathlib import Path
from types import CodeType
from typing import Any, TypeAlias

_MOST = 2048  # texts whose code and lines are kept
_codes: dict[str, CodeType] = {}

Namespace: TypeAlias = dict[str, Any]  # values of any kind, by name


def defined(name: str, lines: str | Sequence[str], scope: dict[str, object]) -> Any:
    """The function `name` that a text defines in a scope."""
    text = lines if isinstance(lines, str) else "\n".join(lines)
    exec(code_of(text, name), scope)  # noqa: S102 - our own text
    return scope[name]


def code_of(text: str, name: str) -> CodeType:
    """The code of a text, compiled once: arrays of other sizes often have the same text.

    The name of its file counts as one of fdiff's, so no line is taken for the user's.
    """
    code = _codes.get(text)
    if code is None:
        file = f"{Path(__file__).parent}/<{name} {hash(text):x}>"
        code = compile(text, file, "exec")
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
        if len(_codes) >= _MOST:
            for former in [*_codes.values()]:
                linecache.cache.pop(former.co_filename, None)
            _codes.clear()
        _codes[text] = code
    return code

"""Lines of source files, as `linecache` keeps them; exceptions of signal handlers come out.

`linecache` takes an OSError, TimeoutError among them, for a missing file and a MemoryError for a
file that is too large.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Mapping, Sequence
from importlib.util import decode_source
from io import StringIO

from .foreign_errors import not_foreign


def source_lines(file: str, names: Mapping[str, object] | None = None) -> Sequence[str]:
    """All lines of a file; none if it cannot be read.

    `names` are the globals of the module, which may have a loader that knows its source.
    """
    entry = linecache.cache.get(file)
    if entry is not None and len(entry) == 4:
        return entry[2]
    if file.startswith("<"):
        return _by_linecache(file, names)
    try:
        status = os.stat(file)  # noqa: PTH116 - a path takes ten times as long
        with open(file, "rb") as stream:  # noqa: PTH123 - as above
            lines = StringIO(decode_source(stream.read())).readlines()
    except not_foreign(OSError, ValueError, SyntaxError):
        return _by_linecache(file, names)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    linecache.cache[file] = status.st_size, status.st_mtime, lines, file
    return lines


def _by_linecache(file: str, names: Mapping[str, object] | None) -> Sequence[str]:
    """The lines of what is no file: of a doctest, or of a module whose loader knows its source."""
    return linecache.getlines(file, None if names is None else {**names})


def source_line(file: str, number: int) -> str:
    """One line of a file, which ends in a line feed; empty if there is no such line."""
    lines = source_lines(file)
    return lines[number - 1] if 1 <= number <= len(lines) else ""

"""Whether the code of the user that is being run would catch an exception."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from opcode import opmap
from types import CodeType

from ..errors import is_internal


def inside_try(last: CodeType) -> bool:
    """Whether a frame of the user, below the one that runs `last`, stands in a ``try``."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not last:
        code = frame.f_code
        if code.co_exceptiontable and not is_internal(code.co_filename):
            at = frame.f_lasti // 2
            if any(start <= at < end for start, end in _protected(code)):
                return True
        frame = frame.f_back
    return False


@lru_cache(maxsize=512)
def _protected(code: CodeType) -> tuple[tuple[int, int], ...]:
    """Instructions an exception handler watches over: entries of start, length, target, depth.

    The format is that of CPython 3.11 and later (InternalDocs/exception_handling.md): six bits a
    byte, 0x40 telling that more follow, 0x80 marking the start of an entry.
    """
    table = iter(code.co_exceptiontable)
    found = []
    for first in table:
        start = _number(first, table)
        length, target, _depth = (_number(next(table), table) for _ in range(3))
        if not _of_with(code.co_code, target):
            found.append((start, start + length))
    return tuple(found)


def _of_with(instructions: bytes, target: int) -> bool:
    """Whether a handler is that of a ``with``, which as a rule catches nothing."""
    return instructions[2 * target + 2] == opmap["WITH_EXCEPT_START"]


def _number(byte: int, table: Iterator[int]) -> int:
    value = byte & 0x3F
    while byte & 0x40:
        byte = next(table)
        value = value << 6 | byte & 0x3F
    return value

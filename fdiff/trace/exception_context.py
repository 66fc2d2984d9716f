"""The exceptions that the running code of the user would catch, and code that they would run."""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from inspect import CO_GENERATOR
from types import CodeType

from ..user_lines import is_internal


def inside_try(last: CodeType) -> bool:
    """Whether a frame of the user, below the one that runs `last`, stands in a ``try``."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not last:
        code = frame.f_code
        if code.co_exceptiontable and not is_internal(code.co_filename):
            at = frame.f_lasti
            if any(start <= at < end for start, end in _protected(code)):
                return True
        frame = frame.f_back
    return False


def runs_when_left(code: CodeType) -> bool:
    """Whether code, or a function in it, may run where an exception leaves other code.

    Generators, which are closed then, and the ends of context managers.
    """
    if code.co_name == "<genexpr>":
        return False
    own = code.co_flags & CO_GENERATOR or code.co_name == "__exit__"
    return bool(own) or any(runs_when_left(c) for c in code.co_consts if isinstance(c, CodeType))


@lru_cache(maxsize=512)
def _protected(code: CodeType) -> tuple[tuple[int, int], ...]:
    """Ranges of offsets that an exception handler watches over.

    Those of a ``with`` are left out, because a context manager as a rule catches nothing.
    """
    entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined] - the stubs leave it out
    return tuple([(e.start, e.end) for e in entries if not _of_with(code.co_code, e.target)])


def _of_with(instructions: bytes, target: int) -> bool:
    """Whether the handler at this offset belongs to a ``with``."""
    return instructions[target + 2] == dis.opmap["WITH_EXCEPT_START"]

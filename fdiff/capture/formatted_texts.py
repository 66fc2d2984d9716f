"""Texts that f-strings make from traced values, where the texts are only printed or logged.

Such a text has a mark in place of the value, so that the function that shows the text can insert
the value of each call. A mark must not get anywhere else: it is made only where the bytecode passes
the text to a call at once, and the called function is one of ours (`printing_functions.py`). See
docs/decisions/writes-to-the-outside.md.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial, reduce
from types import CodeType, FrameType

from ..foreign_errors import not_foreign
from ..named_tuples import NamedTuple

MARK = re.compile("\0fdiff:(\\d+)\0")
_FORMATS = frozenset(("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC"))
_NOTHING = frozenset(("CACHE", "EXTENDED_ARG", "KW_NAMES", "NOP", "PRECALL"))
_TAKING = {
    "LOAD_ATTR": 1, "LOAD_METHOD": 1, "CONVERT_VALUE": 1, "FORMAT_SIMPLE": 1, "FORMAT_WITH_SPEC": 2,
    "BINARY_OP": 2, "BINARY_SUBSCR": 2, "COMPARE_OP": 2, "PUSH_NULL": 0,
    "UNARY_NEGATIVE": 1, "UNARY_NOT": 1,
}  # fmt: skip
_COUNTED = frozenset(("BUILD_STRING", "BUILD_TUPLE", "BUILD_LIST"))


class FormattedValue(NamedTuple):
    """A value in a text: the value, its format, and its text in this run."""

    value: object
    spec: str
    text: str


def goes_to(frame: FrameType, shows: Callable[[object], bool]) -> bool:
    """Whether the value formatted in this frame goes to a call of a function that `shows`."""
    names = _callee(frame.f_code, frame.f_lasti)
    if names is None:
        return False
    first, *rest = names
    target = frame.f_locals.get(first, frame.f_globals.get(first))
    end = partial(reduce, getattr, rest, target)
    try:
        target = end()
    except not_foreign(AttributeError, again=end):
        return False
    return shows(target)


@lru_cache(maxsize=4096)
def _callee(code: CodeType, offset: int) -> tuple[str, ...] | None:
    """The name of the function that takes the text made at `offset`: ``("log", "info")``.

    None if the text goes elsewhere.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    at = next((k for k, step in enumerate(steps) if step.offset == offset), len(steps))
    if at == len(steps) or steps[at].opname not in _FORMATS:
        return None
    call = _consumer(steps[at + 1 :])
    if call is None or call.positions is None:
        return None
    begin = call.positions[0], call.positions[2]
    names: list[str] = []
    for step in reversed(steps[:at]):
        where = step.positions
        if where is None or (where[0], where[2]) != begin or step.opname in _NOTHING:
            continue
        if step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            names.insert(0, str(step.argval))
        elif step.opname.startswith(("LOAD_FAST", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")):
            return (str(step.argval), *names)
        elif step.opname != "PUSH_NULL":
            return None  # a computed function
    return None


def _consumer(steps: list[dis.Instruction]) -> dis.Instruction | None:
    """The call that takes the value on top of the stack, or the text built from the value."""
    above = 0  # the number of values on top of the value
    for step in steps:
        if step.opname in _NOTHING:
            continue
        taken, pushed = _effect(step)
        if taken is None:
            return None
        if taken <= above:
            above += pushed - taken
        elif step.opname == "BUILD_STRING":
            above = 0
        else:
            return step if step.opname == "CALL" else None
    return None


def _effect(step: dis.Instruction) -> tuple[int | None, int]:
    """The numbers of values that an instruction takes (None if unknown) and leaves."""
    name, arg = step.opname, step.arg or 0
    if name == "CALL":
        return arg + 2, 1
    taken = arg if name in _COUNTED else _TAKING.get(name)
    if name == "FORMAT_VALUE":
        taken = 2 if arg & 4 else 1
    elif taken is None and name.startswith("LOAD_"):
        taken = 0
    return taken, 0 if taken is None else taken + dis.stack_effect(step.opcode, step.arg)


def parts(text: str) -> Iterator[str | int]:
    """The pieces of a text, with the numbers of the marks between them."""
    for k, piece in enumerate(MARK.split(text)):
        if k % 2:
            yield int(piece)
        elif piece:
            yield piece

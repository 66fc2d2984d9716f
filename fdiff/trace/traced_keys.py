"""Text, bytes and hashes made of a traced value: they serve as keys, never as numbers."""

from __future__ import annotations

import re
from opcode import opmap
from types import FrameType
from typing import cast

import fdiff.intact_numpy as np

from ..user_lines import is_own
from .branching.memo_branches import is_denied_key
from .trace_stack import stack


class Text(str):
    """Text made of a traced value. To read a number out of it would drop the derivative."""

    __slots__ = ()
    __fdiff_traced__ = True

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True and not (type(other) is str and is_denied_key())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class TracedKey:
    """Bytes or a hash made of a traced value for which a derivative is taken: only a key."""

    __slots__ = ("plain",)
    __fdiff_traced__ = True

    def __init__(self, plain: bytes | int) -> None:
        self.plain = plain

    def __hash__(self) -> int:
        return hash(self.plain)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TracedKey):
            return self.plain == other.plain
        return self.plain == other and not is_denied_key()

    def __len__(self) -> int:
        return len(cast("bytes", self.plain))


# ------------------------------------------------------------------------- text made by ``%``


def _instruction(statement: str) -> bytes:
    """The instruction of the operator in a statement."""
    code = compile(statement, "", "exec").co_code
    return next(code[k : k + 2] for k in range(0, len(code), 2) if code[k] == opmap["BINARY_OP"])


_FORMATTING = frozenset(map(_instruction, ("text % x", "text %= x")))
_NUMBER = r"(\d*)\.?(\d*)(?:[eE]([-+]?\d+))?"


def is_formatting(frame: FrameType | None) -> bool:
    """Whether the user's frame runs ``text % values``.

    Text alone asks what stands on the right of ``%`` for Python numbers.
    """
    while frame is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and (
        frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2] in _FORMATTING
    )


def is_made_of_value(text: str) -> bool:
    """Whether text holds what was printed of a differentiated value in this trace."""
    if not stack.traces:
        return False
    root, text = stack.traces[0], str(text)  # comparisons of a `Text` are asked about
    return any(part in text for part in root.texts if len(part) > 3 or part == text) or (
        bool(root.printed)
        and any(_rounds(match, root.printed) for match in re.finditer(_NUMBER, text))
    )


def _rounds(match: re.Match[str], values: list[float]) -> bool:
    """Whether a number in text is one of the values, to the digits that it has."""
    whole, part, power = match.groups()
    if not whole and not part:
        return False
    number, last = float(match[0]), float(f"1e{int(power or 0) - len(part)}")
    return any(abs(abs(value) - number) <= 0.5 * last + np.spacing(number) for value in values)
